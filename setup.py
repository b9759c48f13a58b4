"""Installs the package: pyproject.toml says what it needs, this file which folders it is made of.

The files of `configs/` are installed as `robustness/configs/`; the command finds them by name.
"""

from setuptools import find_packages, setup

setup(
  packages=[*find_packages(include=['robustness*', 'input_pipeline*']), 'robustness.configs'],
  package_dir={'robustness.configs': 'configs'},
)
