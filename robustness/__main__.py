"""`python -m robustness` is the command `robustness`."""

from robustness.cli.main import run

run()
