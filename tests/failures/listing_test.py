"""Most damaged images and most affected classes from records by hand."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from robustness.evaluation import finished
from robustness.evaluation.records import Layout, Records
from robustness.failures import listing
from robustness.failures.listing import COLUMNS, ViewTable, failures
from tests import finished_runs

NAMES = ('clean', 'fog', 'snow')
LABELS = np.array([0, 0, 1, 1, 1], np.int32)
PREDICTION = np.array([[0, 1, 1], [0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]], np.int32)
CONFIDENCE = np.array(
  [[0.9, 0.6, 0.7], [0.9, 0.8, 0.5], [0.9, 0.95, 0.6], [0.8, 0.9, 0.9], [0.9, 0.9, 0.9]], np.float32
)


def records(
  folder: pathlib.Path,
  block: int = 2,
  chunk: int = 2,
  labels: np.ndarray = LABELS,
  classes: tuple[str, ...] = ('ant', 'bee'),
) -> Records:
  """Five images of two classes in three views, in shards of any size."""
  made = Records(folder, Layout(5, 3, block, chunk), {'classes': list(classes)})
  layout = made.layout
  right = (labels.reshape(5, 1, -1) == PREDICTION[..., None]).any(-1)
  for b in range(layout.num_blocks):
    for c in range(layout.num_chunks):
      rows, views = layout.rows(b), layout.views(c)
      shown = {
        'prediction': PREDICTION,
        'rank': (~right).astype(np.int32),
        'confidence': CONFIDENCE,
        'probability': np.where(right, CONFIDENCE, 1 - CONFIDENCE),
      }
      columns = {'label': labels[rows], 'example_id': np.arange(10, 15, dtype=np.int32)[rows]}
      made.write(b, c, {**{k: v[rows, views] for k, v in shown.items()}, **columns})
  return made


@pytest.mark.parametrize(('block', 'chunk'), [(2, 2), (5, 3), (1, 1)])
def test_images_right_when_clean_are_ordered_by_what_they_lose(
  tmp_path: pathlib.Path, block: int, chunk: int
) -> None:
  """Image 13 is wrong already, 14 never; 12 has lost more of its probability than 10."""
  found = failures(records(tmp_path, block, chunk), ViewTable(NAMES, 0))
  rows = [dict(zip(COLUMNS[1:], row, strict=True)) for row in found.images]
  assert [row['image'] for row in rows] == [12, 10, 11]
  assert found.places.tolist() == [[2, 1], [0, 2], [1, 2]], 'row, view of the surest mistake'
  first = rows[0]
  assert (first['views wrong'], first['of'], first['class']) == (2, 2, 'bee')
  assert (first['shown in'], first['taken for']) == ('fog', 'ant')
  assert first['confidence'] == pytest.approx(0.95)
  assert (first['taken for when clean'], first['confidence when clean']) == (
    'bee',
    pytest.approx(0.9),
  )
  assert first['probability of its class'] == pytest.approx((0.05 + 0.4) / 2)
  assert found.classes is not None
  by_name = {
    row[0]: dict(zip(found.classes.columns, row, strict=True)) for row in found.classes.rows
  }
  assert by_name['ant']['accuracy'] == pytest.approx(1 / 4)
  assert by_name['ant']['lost'] == pytest.approx(3 / 4)
  assert by_name['ant']['least accurate in'] == 'snow'
  assert by_name['bee']['accuracy'] == pytest.approx(1 / 3)
  assert by_name['bee']['most often taken for'] == 'ant'


def test_what_does_not_count_is_left_out(tmp_path: pathlib.Path) -> None:
  counted = np.ones((5, 3), bool)
  counted[2] = [True, False, False]
  found = failures(records(tmp_path), ViewTable(NAMES, 0, counted))
  assert [row[0] for row in found.images] == [10, 11]


def test_stored_versions_of_an_image_are_one_image_of_its_class(tmp_path: pathlib.Path) -> None:
  """The table by class is that of the same images corrupted in the run."""
  right = np.random.default_rng(0).random((30, 5)) > 0.4
  tables = []
  for stored in (True, False):
    folder = finished_runs.write_versions(tmp_path / str(stored), {'net': right}, stored)
    made = finished.read(folder)['']
    found = listing.findings(made.study, made.evaluations, made.image_shape)
    tables.append(found.tables['by_class'])
  assert tables[0] == tables[1]
  row = dict(zip(tables[0].columns, tables[0].rows[0], strict=True))
  assert row['images'] == 30 and row['accuracy'] == pytest.approx(right[:, 1:].mean())


def test_what_a_class_is_taken_for_is_a_share_of_what_counts(tmp_path: pathlib.Path) -> None:
  """Ants count in one view each and bees in two, four of whose six mistakes are ants."""
  counted = np.ones((5, 3), bool)
  counted[:2, 1] = False
  found = failures(records(tmp_path), ViewTable(NAMES, 0, counted))
  assert found.classes is not None
  shares = {row[0]: row[-1] for row in found.classes.rows}
  assert shares == {'ant': 1.0, 'bee': pytest.approx(4 / 6)}


def test_without_a_clean_view_every_mistake_counts(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  monkeypatch.setattr(listing, 'MOST', 1)
  found = failures(records(tmp_path), ViewTable(('first', 'second', 'third')))
  assert found.images[0][0] == 13 and found.images[0][2:4] == [3, 3]
  assert found.images[0][-2:] == [None, None]
  named = failures(records(tmp_path), ViewTable(NAMES, rows=['a', 'b', 'c', 'fog 3', 'e']))
  assert named.images[0][5] == 'fog 3'


def test_an_image_with_several_labels_counts_in_each_of_its_classes(tmp_path: pathlib.Path) -> None:
  """The first image is of both classes, so that whichever is predicted is right."""
  several = np.stack([LABELS, np.array([1, -1, -1, -1, -1])], 1).astype(np.int32)
  made = failures(records(tmp_path, labels=several), ViewTable(NAMES, 0))
  assert [row[0] for row in made.images] == [12, 11] and made.images[0][1] == 'bee'
  assert made.classes is not None
  table = made.classes
  by_name = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
  assert (by_name['ant']['images'], by_name['bee']['images']) == (2, 4)
  assert by_name['ant']['accuracy'] == pytest.approx(3 / 4), 'both views of 10, fog of 11'
  assert by_name['bee']['accuracy'] == pytest.approx(4 / 8), 'both views of 10 and of 14'
  assert by_name['bee']['most often taken for'] == 'ant'


def test_classes_of_imagenet_have_names(tmp_path: pathlib.Path) -> None:
  made = failures(records(tmp_path, classes=('n01440764', 'n02219486')), ViewTable(NAMES, 0))
  assert made.classes is not None
  assert {row[0] for row in made.classes.rows} == {'tench', 'ant'}
  assert (made.images[0][1], made.images[0][6]) == ('ant', 'tench')
