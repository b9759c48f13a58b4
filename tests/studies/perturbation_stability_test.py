"""Tests the study `perturbation_stability`: FP, T5D, mFR and mT5D by definition, and refusals."""

import numpy as np
import pytest

from robustness.core.rows import ArrayRows
from robustness.corruptions.names import PERTURBATION_SETS, PERTURBATIONS
from robustness.estimates.published import ALEXNET_FLIPS, ALEXNET_TOP5_DISTANCES
from robustness.evaluation.outcomes import num_images
from robustness.studies.perturbation_stability import PerturbationStability, top5_distance
from tests.made_records import made
from tests.refusals import refused
from tests.studies.conftest import table_of
from tests.table_rows import estimate

NAMES = PERTURBATION_SETS['imagenet_p']
SEQUENCES, CLASSES = 3, 12


def drawn(seed: int) -> dict[str, np.ndarray]:
  """Returns logits [sequences, frames, classes] by perturbation; `translate` has more frames."""
  rng = np.random.default_rng(seed)
  shapes = {name: (SEQUENCES, 6 if name == 'translate' else 4, CLASSES) for name in NAMES}
  return {
    name: rng.normal(size=(SEQUENCES, 1, CLASSES)) + rng.normal(size=shape)
    for name, shape in shapes.items()
  }


def recorded(folder, logits, seed=0, drop=0):
  """Writes records of the frames in a random order, without the first `drop`."""
  parts = []
  for name, z in logits.items():
    sequence, frame = np.indices(z.shape[:2]).reshape(2, -1)
    parts.append((np.full(sequence.size, PERTURBATIONS[name]), sequence + 5, frame))
  columns, flat = np.concatenate(parts, 1), np.concatenate([*map(np.vstack, logits.values())])
  order = np.random.default_rng(seed).permutation(len(flat))[drop:]
  names = dict(zip(('perturbation', 'base_id', 'frame'), columns[:, order], strict=True))
  best = np.asarray(
    PerturbationStability().summarise_output('logits', flat[order].astype(np.float32))
  )[:, None]
  return made(folder, {'prediction': best[..., 0], 'output/logits': best, **names})


def by_definition(name: str, z: np.ndarray) -> tuple[float, float]:
  """Returns FP and T5D by loops over sequences and frames, from all ranks of all classes."""
  flips, distances = [], []
  for sequence in z:
    rank = np.argsort(np.argsort(-sequence, 1), 1) + 1
    for j in range(1, len(sequence)):
      reference = 0 if 'noise' in name else j - 1
      flips.append(rank[j].argmin() != rank[reference].argmin())
      sigma = rank[j][np.argsort(rank[reference])]
      distances.append(sum(abs((i - 1) - min(sigma[i - 1] - 1, 5)) for i in range(1, 6)))
  return float(np.mean(flips)), float(np.mean(distances))


def test_distances_of_one_pair_of_frames():
  five = np.arange(5)
  assert top5_distance(five, five) == 0 and top5_distance(five, five + 5) == 15
  assert top5_distance(five, np.array([1, 0, 2, 3, 9])) == 1 + 1 + 1, 'a swap and a lost class'


def test_compared_runs_with_frames_in_another_order_are_refused(tmp_path):
  first, second = (recorded(tmp_path / str(seed), drawn(0), seed) for seed in (0, 1))
  message = "'perturbation' has other values"
  refused(message, PerturbationStability().reduce, [first, second], (8, 8, 3))


def test_means_and_ratios_follow_the_definitions(tmp_path):
  logits = {label: drawn(seed) for seed, label in enumerate('ab')}
  evaluations = [recorded(tmp_path / label, z, seed=3) for label, z in logits.items()]
  table = table_of(PerturbationStability(baseline='alexnet'), evaluations)
  against_first = table_of(PerturbationStability(), evaluations)
  defined = np.array([[by_definition(n, z[n]) for n in NAMES] for z in logits.values()])
  for place, (quantity, ratio, published) in enumerate(
    (('flip_probability', 'mFR', ALEXNET_FLIPS), ('top5_distance', 'mT5D', ALEXNET_TOP5_DISTANCES))
  ):
    first, second = defined[..., place]
    for label, values in (('a', first), ('b', second)):
      measured = [estimate(table, label, quantity, perturbation=name).value for name in NAMES]
      np.testing.assert_allclose(measured, values, atol=1e-12)
      assert estimate(table, label, quantity).value == pytest.approx(values.mean())
      expected = (values / np.array([published[name] for name in NAMES])).mean()
      assert estimate(table, label, ratio).value == pytest.approx(expected)
    assert estimate(against_first, 'a', ratio).value == 1
    expected = (second / first).mean()
    assert estimate(against_first, 'b', ratio).value == pytest.approx(expected)
  assert estimate(table, 'a', 'mFR').n == SEQUENCES


def test_a_first_classifier_of_few_classes_has_no_distance_to_divide_by(tmp_path):
  three_classes = {name: z[..., :3] for name, z in drawn(0).items()}
  evaluations = [recorded(tmp_path / 'few', three_classes), recorded(tmp_path / 'many', drawn(1))]
  table = table_of(PerturbationStability(), evaluations)
  assert {*table.classifier[table['quantity'] == 'top5_distance']} == {'many'}
  assert 'mT5D' not in {*table['quantity']} and estimate(table, 'many', 'mFR').value > 0
  against_alexnet = table_of(PerturbationStability(baseline='alexnet'), evaluations)
  assert estimate(against_alexnet, 'many', 'mT5D').value > 0


def test_incomplete_sequences_and_other_rows_are_refused(tmp_path):
  study = PerturbationStability()
  lacking = recorded(tmp_path / 'a', drawn(0), drop=1)
  assert num_images(lacking.records) == SEQUENCES
  refused(r'sequences of \w+ have different frames', table_of, study, [lacking])
  rows = ArrayRows(np.zeros((1, 8, 8, 3), np.float32), np.zeros(1, int), ('a',))
  refused('reads stored sequences, .*imagenet_p, cifar10_p', study.check, rows, {})
  facts = {'perturbations': list(NAMES[:-1]), 'path': 'p'}
  incomplete = ArrayRows(rows.images, rows.labels, ('a',), facts=facts)
  refused('p lacks scale: fetch it, or', study.check, incomplete, {})
