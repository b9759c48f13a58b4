"""Benchmarks: each file prints one table of ratios, all measured in one run.

They keep freed memory as a run does, from here on: once TensorFlow has been imported it has
threads, and the C library does not change how it serves them.
"""

from robustness.core import host

host.keep_freed_memory()
