"""The impact of review from files: what is added, and how anchors are found again."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from configs import video_pm_k
from robustness.core.errors import InputError
from robustness.estimates.table import select
from robustness.figures import video_pm_k as video_pm_k_figures
from robustness.neighbor_sets import metadata
from robustness.rescoring.review_impact import KINDS, positions
from robustness.results import Results
from tests.end_to_end import runs
from tests.rescoring.frame_predictions_test import LABELS, SETS, saved
from tests.table_rows import assert_same, assert_same_arrays, estimate

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
  rows = results.tables['review'].rows
  assert [[row[0], row[1]] for row in rows] == [['unreviewed', 8], ['reviewed', 6]]
  np.testing.assert_allclose([[row[2], row[5]] for row in rows], expected)
  change = np.subtract(expected[1], expected[0])
  assert results.numbers['review_anchor'].value == pytest.approx(change[0])
  assert results.numbers['review_worst'].value == pytest.approx(change[1])
  assert results.numbers['review_drop'].value == pytest.approx(change[0] - change[1])
  assert (tmp_path / 'run/figures/review.png').is_file()
  _check_table(results)


def _check_table(results: Results) -> None:
  k = results.settings['k']
  for name in ('anchor', 'worst', 'drop'):
    row = estimate(results.table, 'one', f'review_{name}', **({} if name == 'anchor' else {'k': k}))
    assert_same(row, results.numbers[f'review_{name}'])
  for kind, n, *ends in results.tables['review'].rows:
    for place, (name, facets) in enumerate(
      (('accuracy_anchor', {}), ('accuracy_pm_k', {'k': k}), ('drop_pm_k', {'k': k}))
    ):
      row = estimate(results.table, 'one', name, frames=kind, **facets)
      assert row.n == n
      expected = ends[3 * place : 3 * place + 3]
      assert [row.value, row.low, row.high] == pytest.approx(expected, abs=1e-9)
    arrays = {name: results.arrays[f'review/{kind}_{name}'] for name in ('offset', 'wrong', 'n')}
    rows = select(results.table, 'error', frames=kind, offset=...)
    assert_same_arrays(rows, arrays['wrong'] / arrays['n'])
    np.testing.assert_array_equal(rows.offset, arrays['offset'])
    np.testing.assert_array_equal(rows.n, arrays['n'])
  assert {quantity.name for quantity in results.quantities} >= set(results.table.quantity)


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
  assert results.tables['one/review'] == expected.tables['review']
  assert results.numbers['one/review_drop'] == expected.numbers['review_drop']
  assert results.tables['two/review'] != expected.tables['review']
  curves = video_pm_k_figures.draw(results)['review'][0].axes[0].lines
  assert [line.get_label() for line in curves] == [
    f'{label}, {kind} frames' for label in ('one', 'two') for kind in KINDS
  ]


def test_positions_of_anchors() -> None:
  before, after = (metadata.from_mappings(sets, LABELS) for sets in (SETS, REVIEWED))
  assert positions(before, after).tolist() == [2, 3, 4, 5, 6, 7]
  with pytest.raises(InputError, match="2 of 8 reviewed anchors .* first 'v0/10.jpg'"):
    positions(after, before)
