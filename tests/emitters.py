"""Tests of bits that two programs share, which hang on how XLA emits code."""

import os

import pytest

needs_usual_emitters = pytest.mark.skipif(
  os.environ.get('XLA_FLAGS', '').rpartition('--xla_cpu_use_fusion_emitters=')[2][:5] == 'false',
  reason='compiled as users compile, by .ci/run: XLA_FLAGS=--xla_backend_optimization_level=1',
)
"""Skips where `tests/conftest.py` has chosen the plainer emitters, which contract a product and a
sum or do not, from program to program."""
