"""Marks for tests that compare the bits of two programs, which depend on how XLA emits code."""

import os

import pytest

USUAL = {'XLA_FLAGS': '--xla_backend_optimization_level=1'}
"""Flags of the second run of tests marked `shared_bits`, see `tests/docs_test.py`."""

needs_usual_emitters = pytest.mark.skipif(
  os.environ.get('XLA_FLAGS', '').rpartition('--xla_cpu_use_fusion_emitters=')[2][:5] == 'false',
  reason=f'compiled as users compile, by .ci/run: XLA_FLAGS={USUAL["XLA_FLAGS"]}',
)
"""Skips a test with the emitters of `tests/conftest.py`, which may fuse a product and a sum in one
program and not in another."""
