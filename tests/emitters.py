"""Tests of bits that two programs share, which hang on how XLA emits code."""

import os

import pytest

USUAL = {'XLA_FLAGS': '--xla_backend_optimization_level=1'}
"""Flags with which the tests marked `shared_bits` are run again, see `tests/docs_test.py`."""

needs_usual_emitters = pytest.mark.skipif(
  os.environ.get('XLA_FLAGS', '').rpartition('--xla_cpu_use_fusion_emitters=')[2][:5] == 'false',
  reason=f'compiled as users compile, by .ci/run: XLA_FLAGS={USUAL["XLA_FLAGS"]}',
)
"""Skips where `tests/conftest.py` has chosen the plainer emitters, which contract a product and a
sum or do not, from program to program."""
