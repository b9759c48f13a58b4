"""What identifies a network's variables."""

from __future__ import annotations

import numpy as np

from robustness.classifiers import wrap


def test_digest_tells_values_names_and_shapes_apart() -> None:
  tree = {'a': np.zeros((2, 3), np.float32), 'b': np.ones(2, np.float32)}
  others = [
    {**tree, 'a': tree['a'] + 1e-6},
    {'a': tree['a'], 'c': tree['b']},
    {**tree, 'a': tree['a'].reshape(3, 2)},
  ]
  digests = {wrap.digest(one) for one in (tree, *others)}
  assert len(digests) == 4
  assert wrap.digest({'b': tree['b'], 'a': tree['a']}) == wrap.digest(tree)
