"""Tests the study `recalibration`: fitted scalings, coverage of prediction sets, bad input."""

import dataclasses

import numpy as np
import pytest

from robustness.estimates.table import select
from robustness.studies.recalibration import Recalibration
from tests.cases import cases
from tests.made_records import made
from tests.networks import tiny_rows
from tests.refusals import bad_setting, refused
from tests.studies.conftest import table_of
from tests.table_rows import estimate

ROWS, CLASSES = 400, 5
STUDY = Recalibration(
  corruptions=('fog',), severities=(1, 5), scalings=('temperature',), resamples=5
)


def logits_of(scale: float, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
  """Returns logits [N, 3, K] and labels.

  The logits of the clean view are overconfident by `scale`; each further view is noisier.
  """
  generator = np.random.default_rng(0)
  labels = generator.integers(0, CLASSES, rows)
  signal = 2 * np.eye(CLASSES)[labels][:, None]
  noise = generator.normal(size=(rows, 3, CLASSES)) * np.array([1, 2, 4])[:, None]
  return (scale * (signal + noise)).astype(np.float32), labels


def written(folder, scale=3.0, **fields):
  """Writes records of `logits_of`, with some fields replaced."""
  logits, labels = logits_of(scale)
  arrays = {'output/logits': logits, 'rank': logits.argmax(-1) != labels[:, None], 'label': labels}
  return made(folder, {**arrays, **fields})


def test_scalings_and_sets_are_fitted_on_clean_images_held_out(tmp_path):
  table = table_of(STUDY, [written(tmp_path / 'net'), written(tmp_path / 'double', 6.0)])
  first, second = (estimate(table, label, 'temperature').value for label in ('net', 'double'))
  assert second == pytest.approx(2 * first, rel=1e-3)
  ece = {s: estimate(table, 'net', 'ece', scaling=s, severity=0) for s in ('none', 'temperature')}
  assert ece['temperature'].value < ece['none'].value
  assert ece['none'].n == ROWS // 2
  for score in STUDY.scores:
    covered, sizes = (
      [estimate(table, 'net', name, score=score, severity=s) for s in (0, 1, 5)]
      for name in ('set_coverage', 'set_size')
    )
    assert covered[0].low <= 0.9 <= covered[0].high
    assert covered[0].value > covered[1].value > covered[2].value
    assert all(size.low <= size.value <= size.high for size in sizes)
    difference = estimate(table, 'double', 'set_coverage', 'net', score=score, severity=5)
    assert difference.value == pytest.approx(0, abs=0.01), 'temperature undoes the scale'
  accuracy = select(table, 'accuracy', scaling=..., severity=...)
  accuracy = accuracy[accuracy.classifier == 'net']
  by_scaling = accuracy.pivot(index='severity', columns='scaling', values='value')
  np.testing.assert_array_equal(by_scaling['none'], by_scaling['temperature'])


def test_a_class_that_is_never_predicted_is_left_out(tmp_path):
  logits, labels = logits_of(3.0)
  unknown = np.concatenate([logits, np.full((ROWS, 3, 1), -np.inf, np.float32)], -1)
  table = table_of(STUDY, [written(tmp_path / 'net', **{'output/logits': unknown})])
  expected = table_of(STUDY, [written(tmp_path / 'plain')])
  np.testing.assert_array_equal(table.value, expected.value)
  with_unpredicted_label = np.where(labels == 0, CLASSES, labels)
  bad = written(tmp_path / 'bad', **{'output/logits': unknown}, label=with_unpredicted_label)
  refused('cannot predict the class', table_of, STUDY, [bad])


def test_rows_of_several_labels_are_refused(tmp_path):
  _, labels = logits_of(3.0)
  multilabel = np.stack([labels, labels], 1)
  refused('several labels', table_of, STUDY, [written(tmp_path / 'two', label=multilabel)])
  rows = dataclasses.replace(tiny_rows(ROWS), labels=np.stack([labels, labels + 1], 1))
  refused('several labels', STUDY.check, rows, {})


def test_a_scaling_by_class_notes_the_classes_without_images_held_out(tmp_path):
  labels = (2 * (np.arange(ROWS) == ROWS - 1)).astype(int)  # all 0 but the last, which is 2
  vector = dataclasses.replace(STUDY, scalings=('vector',))
  table = table_of(vector, [written(tmp_path / 'rare', label=labels)])
  unscaled, scaled = (
    estimate(table, 'rare', 'nll', scaling=s, severity=0) for s in ('none', 'vector')
  )
  assert scaled.note.startswith('4 classes have no image') and not unscaled.note


def test_too_few_images_held_out_are_refused(tmp_path):
  few_held_out = Recalibration(corruptions=('fog',), severities=(1, 5), held_out=0.01)
  refused(bad_setting('config.study.held_out', 0.01), few_held_out.check, tiny_rows(400), {})
  refused(
    bad_setting('config.study.held_out', 0.01), table_of, few_held_out, [written(tmp_path / 'few')]
  )
  small_alpha = dataclasses.replace(few_held_out, held_out=0.4, alpha=0.01)
  refused(bad_setting('config.study.alpha', 0.01), small_alpha.check, tiny_rows(400), {})
  dataclasses.replace(small_alpha, held_out=0.5).check(tiny_rows(400), {})


@cases(
  'key, settings',
  ('penalty', {'penalty': float('inf')}),
  ('penalty', {'penalty': 0.1, 'scalings': ('temperature',)}),
  ('raps_penalty', {'raps_penalty': 0.1, 'scores': ('lac', 'aps')}),
  ('raps_rank', {'raps_rank': 2, 'scores': ()}),
  ('alpha', {'alpha': 0.2, 'scores': ()}),
)
def test_a_penalty_that_is_infinite_or_without_effect_is_refused(key, settings):
  refused(bad_setting(f'config.study.{key}'), Recalibration, **settings)
  Recalibration(raps_rank=2, scores=('raps',))
