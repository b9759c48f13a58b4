"""metadata.csv of scenes: written and read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from input_pipeline import scene_metadata
from robustness.core.errors import InputError


def columns(ids: list[int]) -> dict[str, np.ndarray]:
  numbers = np.arange(len(ids))
  whole = {name: numbers + place for place, name in enumerate(scene_metadata.WHOLE)}
  return {
    **whole,
    'image_id': np.array(ids),
    'x_coord': numbers / 20,
    'y_coord': numbers / 10,
    'area': np.full(len(ids), np.float32(0.2)),
    'rotation': numbers * 20.0,
    'pct_inside_image': np.full(len(ids), 0.123456),
  }


def saved(folder: Path, text: str) -> Path:
  (folder / 'metadata.csv').write_text(text)
  return folder / 'metadata.csv'


def test_what_is_written_is_read_by_number(tmp_path: Path) -> None:
  made = columns([7, 0, 3])
  path = saved(tmp_path, scene_metadata.text(made))
  assert path.read_text().splitlines()[0] == (
    'image_id,x_coord,y_coord,area,rotation,foreground_class,foreground_instance,background,'
    'bg_resolution_width,bg_resolution_height,pct_inside_image'
  )
  table = scene_metadata.read(path)
  assert table['image_id'].tolist() == [0, 3, 7]
  assert table['rotation'].tolist() == [20, 40, 0]
  np.testing.assert_allclose(table['x_coord'], [0.05, 0.1, 0])
  np.testing.assert_allclose(table['area'], 0.2, rtol=0, atol=1e-15)
  np.testing.assert_allclose(table['pct_inside_image'], 0.1235)
  assert table['background'].dtype == np.int64
  joined = scene_metadata.join(path, np.array([3, 7, 3]))
  assert joined['rotation'].tolist() == [40, 0, 40]


def test_lines_of_the_released_generator_are_read(tmp_path: Path) -> None:
  line = '13,0.35000000000000003,0.05,0.2,0,4,2,511,500,500,0.8743'
  path = saved(tmp_path, f'{",".join(scene_metadata.COLUMNS)}\r\n{line}\r\n')
  table = scene_metadata.read(path)
  assert {name: values.tolist()[0] for name, values in table.items()} == {
    'image_id': 13,
    'x_coord': pytest.approx(0.35),
    'y_coord': 0.05,
    'area': 0.2,
    'rotation': 0,
    'foreground_class': 4,
    'foreground_instance': 2,
    'background': 511,
    'bg_resolution_width': 500,
    'bg_resolution_height': 500,
    'pct_inside_image': 0.8743,
  }


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (lambda text: text.replace('area', 'size'), "has no column 'area'; its columns: "),
    (lambda text: text[:-12], 'cannot be read: .*Is it cut short'),
    (lambda text: text.splitlines()[0] + '\n', 'holds no lines'),
    (lambda text: '', 'holds no lines'),
    (lambda text: text + text.splitlines()[-1], 'names image 3 more than once'),
    (lambda text: text.replace('0.1235', '12.35'), 'image 0 is 12.35; it is a fraction'),
  ],
)
def test_tables_that_cannot_be_meant_are_refused(tmp_path: Path, change, message: str) -> None:
  path = saved(tmp_path, change(scene_metadata.text(columns([0, 3]))))
  with pytest.raises(InputError, match=message):
    scene_metadata.read(path)


def test_a_missing_table_and_unknown_images_are_refused(tmp_path: Path) -> None:
  with pytest.raises(InputError, match='cannot read .*archive of the released set'):
    scene_metadata.read(tmp_path / 'metadata.csv')
  path = saved(tmp_path, scene_metadata.text(columns([0, 3])))
  with pytest.raises(InputError, match='2 of 3 images, first image_id 5. Is it the table of anot'):
    scene_metadata.join(path, np.array([3, 5, 6]))
