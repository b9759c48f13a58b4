"""What identifies a network's variables."""

from __future__ import annotations

import jax
import numpy as np

from robustness.models import catalog
from robustness.models.from_variables import digest, from_variables


def test_digest_tells_values_names_and_shapes_apart() -> None:
  tree = {'a': np.zeros((2, 3), np.float32), 'b': np.ones(2, np.float32)}
  others = [
    {**tree, 'a': tree['a'] + 1e-6},
    {'a': tree['a'], 'c': tree['b']},
    {**tree, 'a': tree['a'].reshape(3, 2)},
  ]
  digests = {digest(weights) for weights in (tree, *others)}
  assert len(digests) == 4
  assert digest({'b': tree['b'], 'a': tree['a']}) == digest(tree)


def test_results_say_what_stays_float32_in_bfloat16() -> None:
  module = catalog.get('small_cnn').build(3)
  variables = module.init(jax.random.key(0), np.zeros((1, 28, 28, 1), np.float32))
  images = np.random.default_rng(0).random((4, 28, 28, 1), np.float32)
  by_precision = {
    precision: from_variables(
      'net', 'small_cnn', variables, (28, 28, 1), tuple('abc'), {}, precision=precision
    )
    for precision in ('float32', 'bfloat16')
  }
  assert 'kept_in_float32' not in by_precision['float32'].provenance
  assert 'statistics' in by_precision['bfloat16'].provenance['kept_in_float32']
  exact, rounded = (by_precision[name].predict(images) for name in ('float32', 'bfloat16'))
  assert rounded.dtype == np.float32 and not np.array_equal(exact, rounded)
  np.testing.assert_allclose(rounded, exact, atol=0.05)
