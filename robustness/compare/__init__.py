"""Finished workdirs side by side: `python -m robustness.compare WORKDIR WORKDIR --out=DIR`."""
