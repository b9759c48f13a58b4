"""Tests the study `least_distance` against NumPy on the distances that attacks return."""

import jax.numpy as jnp
import numpy as np
import pytest

from robustness.attacks.ddn import DDN
from robustness.attacks.fmn import FMN
from robustness.core import random_keys
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.table import select
from robustness.studies.least_distance import LeastDistance
from tests.networks import SHAPE
from tests.studies.conftest import COUNT, classifier, measured, rows, table_of
from tests.table_rows import estimate

STEPS = 8
RADII = (0.0, 0.05, 0.1, 0.3)
SMALL = LeastDistance(
  norm='l2',
  attacks=('fmn', 'ddn'),
  attack={'fmn': {'steps': STEPS}, 'ddn': {'steps': STEPS}},
  epsilons=RADII,
)


def distances_in_batches(seed: int) -> np.ndarray:
  """Returns least distances [N, A] of the attacks of `SMALL` on whole batches."""
  network, data, stream = classifier('', seed), rows(), random_keys.stream(0, SMALL.name)

  def logits(images):
    return network.forward(network.variables, images, ())[0]

  distances = []
  for attack, view_id in zip(
    (FMN('l2', steps=STEPS), DDN(steps=STEPS)), SMALL.views(SHAPE).ids, strict=True
  ):
    keys = jnp.stack([random_keys.for_example(stream, e, view_id) for e in range(COUNT)])
    distances.append(attack.nearest(keys, logits, data.images, data.labels)[0])
  return np.stack(distances, 1)


def test_medians_curves_and_optimality_follow_from_the_distances():
  results, *evaluations = measured(SMALL)
  table = results.table
  for seed, label in enumerate(('first', 'second')):
    distances = evaluations[seed].records.table('measure/distance')
    np.testing.assert_allclose(distances, distances_in_batches(seed), rtol=1e-3, atol=1e-6)
    nearest = distances.min(1)
    is_clean_right = classifier('', seed).predict(rows().images).argmax(1) == rows().labels
    np.testing.assert_array_equal(nearest > 0, is_clean_right)
    median = estimate(table, label, 'median_distance').value
    assert median == pytest.approx(np.median(nearest))
    for radius in RADII:
      row = estimate(table, label, 'robust_accuracy', epsilon=radius)
      assert row.value == (nearest > radius).mean()
      interval = clopper_pearson((nearest > radius).sum(), COUNT, SMALL.confidence)
      assert (row.low, row.high) == pytest.approx(interval)
    end = nearest[np.isfinite(nearest)].max()
    grid = np.linspace(0, end, 20001)  # fine enough for areas to 3 digits

    def area(values, grid=grid):
      return np.trapezoid((values[:, None] > grid).mean(0), grid)

    for attack, values in zip(('fmn', 'ddn'), distances.T, strict=True):
      curve = select(table, 'robust_accuracy', attack=attack, epsilon=...)
      curve = curve[curve.classifier == label]
      np.testing.assert_allclose(curve.value, [(values > radius).mean() for radius in RADII])
      share = 1 - (area(values) - area(nearest)) / (is_clean_right.mean() * end - area(nearest))
      row = estimate(table, label, 'optimality', attack=attack)
      assert row.value == pytest.approx(share, abs=1e-3)
      if row.value in (0, 1):  # one attack is the nearest on all images, so in all resamples
        assert np.isnan([row.low, row.high]).all()
      else:
        assert row.low <= row.value <= row.high
  assert set(table.attack.dropna()) == {'fmn', 'ddn'}


def test_a_single_attack_has_no_facet_and_other_radii_use_the_same_records():
  single = LeastDistance(attack={'fmn': {'steps': STEPS}})
  results, *evaluations = measured(single, ('first',))
  assert set(results.table.quantity) == {'median_distance', 'robust_accuracy'}
  assert 'attack' not in results.table
  other_radii = LeastDistance(attack={'fmn': {'steps': STEPS}}, epsilons=(0.5,))
  assert other_radii.recording == single.recording
  row = estimate(table_of(other_radii, evaluations), 'first', 'robust_accuracy', epsilon=0.5)
  assert row.value == (evaluations[0].records.table('measure/distance') > 0.5).mean()
