"""Installs the package; everything it needs is said in pyproject.toml."""

from setuptools import setup

setup()
