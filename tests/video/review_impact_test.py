"""What the review of sets changes, from files and records."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from configs import video_pm_k
from robustness.estimates.table import to_csv
from robustness.video import metadata
from tests.end_to_end import runs
from tests.table_rows import estimate
from tests.video.frame_predictions_test import LABELS, SETS, saved

REVIEWED = {anchor: members[:1] for anchor, members in list(SETS.items())[2:]}


def saved_review(folder: pathlib.Path) -> Any:
  """Writes sets before and after a review; returns a config without predictions."""
  metadata.write(metadata.from_mappings(REVIEWED, LABELS), folder / 'reviewed')
  config = video_pm_k.get_config('predictions')
  config.unreviewed = str(folder / 'sets')
  config.metadata = str(folder / 'reviewed')
  return config


def test_a_run_on_reviewed_and_unreviewed_sets(tmp_path: pathlib.Path) -> None:
  config = saved_review(tmp_path)
  config.predictions = str(saved(tmp_path))
  results = runs.run(config, tmp_path / 'run')
  scores = json.loads((tmp_path / 'one.json').read_text())
  right = {f: int(np.argmax(scores[f])) in LABELS[f] for f in scores}
  expected = [
    [
      np.mean([right[a] for a in sets]),
      np.mean([right[a] and all(right[f] for f in n) for a, n in sets.items()]),
    ]
    for sets in (SETS, REVIEWED)
  ]
  table, k = results.table, 2
  for frames, sets, (anchor, worst) in zip(
    ('unreviewed', 'reviewed'), (SETS, REVIEWED), expected, strict=True
  ):
    own = {'frames': frames}
    row = estimate(table, 'one', 'accuracy_anchor', **own)
    assert (row.value, row.n) == (pytest.approx(anchor), len(sets))
    assert estimate(table, 'one', 'accuracy_pm_k', k=k, **own).value == pytest.approx(worst)
    drop = estimate(table, 'one', 'drop_pm_k', k=k, **own)
    assert drop.value == pytest.approx(anchor - worst)
    at = [right[f] for members in sets.values() for f in members if f.endswith('/9.jpg')]
    row = estimate(table, 'one', 'error', offset=-1, **own)
    assert (row.value, row.n) == (pytest.approx(1 - np.mean(at)), len(at))
  change = np.subtract(expected[1], expected[0])
  for name, value, facets in (
    ('anchor', change[0], {}),
    ('worst', change[1], {'k': k}),
    ('drop', change[0] - change[1], {'k': k}),
  ):
    assert estimate(table, 'one', f'review_{name}', **facets).value == pytest.approx(value)
  assert (tmp_path / 'run/figures/error_offset_frames.png').is_file()
  assert {quantity.name for quantity in results.quantities} >= set(table.quantity)


def test_several_classifiers_from_records_and_files(tmp_path: pathlib.Path) -> None:
  config = saved_review(tmp_path)
  files = [saved(tmp_path, seed=s, name=n) for s, n in enumerate(('one', 'two'))]
  before = saved_review(tmp_path)
  before.predictions, before.metadata, before.unreviewed = str(files[0]), str(tmp_path / 'sets'), ''
  runs.run(before, tmp_path / 'before')
  alone = saved_review(tmp_path)
  alone.predictions = str(files[0])
  expected = runs.run(alone, tmp_path / 'alone')
  config.predictions = f'{tmp_path / "before/records/one"},{files[1]}'
  results = runs.run(config, tmp_path / 'both')
  own = results.table[(results.table.classifier == 'one') & (results.table.versus == '')]
  own = own[own.quantity != 'accuracy_static']  # of several classifiers
  assert to_csv(own[expected.table.columns].dropna(axis=1, how='all')) == to_csv(
    expected.table.dropna(axis=1, how='all')
  )
  drops = [estimate(results.table, label, 'review_drop', k=2) for label in ('one', 'two')]
  paired = estimate(results.table, 'two', 'review_drop', 'one', k=2)
  assert paired.value == pytest.approx(drops[1].value - drops[0].value)
