"""What docs/contradictions.md and docs/reproduction.md say of numbers that are printed."""

import numpy as np
import pytest

from robustness.corruptions.names import SETS
from robustness.estimates.published import TABLE_1, TABLE_3, TABLE_4


def test_table_3_has_other_corruptions_than_the_official_15() -> None:
  shown = set(TABLE_3.corrupted['natural'])
  assert shown - {*SETS['official']} == {'gaussian_blur', 'speckle_noise'}
  assert {*SETS['official']} - shown == {'gaussian_noise', 'frost'}
  assert set(TABLE_4.corrupted['natural']) < {*SETS['official']}


def test_the_high_pass_gains_under_two_corruptions_of_imagenet_and_none_of_cifar() -> None:
  gains = [
    {name for name, value in table.corrupted['high_pass'].items() if value > natural[name]}
    for table in (TABLE_3, TABLE_4)
    for natural in [table.corrupted['natural']]
  ]
  assert gains == [set(), {'contrast', 'fog'}]


def test_the_published_loss_of_fog_noise_grows_with_the_severity() -> None:
  lost = np.subtract(*TABLE_1.values())
  assert lost[[0, -1]] == pytest.approx([0.0516, 0.2803]) and (np.diff(lost) > 0).all()
  assert np.mean(TABLE_1['natural']) == pytest.approx(TABLE_3.corrupted['natural']['fog'], abs=5e-5)
