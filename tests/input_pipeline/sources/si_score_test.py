"""Stored scenes: the TFDS set `siscore`, made small, joined with its metadata.csv."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from input_pipeline import DataSettings, load, scene_metadata
from input_pipeline.rows import TfRows
from robustness.core.errors import InputError
from robustness.models.imagenet_names import WNIDS

CLASSES = ('bagel', 'koala', 'lemon')
BACKGROUNDS = ((0, 2), (1, 2), (0, 1))  # of each class's only object
AREAS = (0.2, 0.5, 0.8)
LEFT_OUT = 7  # a number without an image: outside the canvas


def metadata() -> dict[str, np.ndarray]:
  """The size set of 6 pairs at 3 sizes, in the generator's order, without one scene."""
  pairs = [(index, ground) for index, grounds in enumerate(BACKGROUNDS) for ground in grounds]
  lines = [
    (number, area, *pair)
    for number, (area, pair) in enumerate(itertools.product(AREAS, pairs))
    if number != LEFT_OUT
  ]
  number, area, index, ground = np.array(lines).T
  same = np.ones(len(lines))
  return {
    'image_id': number,
    'x_coord': same / 2,
    'y_coord': same / 2,
    'area': area,
    'rotation': same * 0,
    'foreground_class': index,
    'foreground_instance': same * 0,
    'background': ground,
    'bg_resolution_width': same * 32,
    'bg_resolution_height': same * 32,
    'pct_inside_image': 1 - number / 100,
  }


@pytest.fixture(scope='module')
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
  """A folder with metadata.csv and TFDS's own `siscore/size`, prepared from a made archive."""
  folder = tmp_path_factory.mktemp('siscore')
  made = metadata()
  (folder / 'metadata.csv').write_text(scene_metadata.text(made))
  for number, index in zip(made['image_id'], made['foreground_class'], strict=True):
    path = folder / 'archive/area' / CLASSES[int(index)] / f'{int(number)}.jpg'
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new('RGB', (32, 32), (int(number) * 10,) * 3).save(path, quality=100)
  with pytest.MonkeyPatch.context() as patched:
    patched.setattr(
      tfds.download.DownloadManager,
      'download_and_extract',
      lambda manager, url: str(folder / 'archive'),
    )
    tfds.builder('siscore/size', data_dir=folder).download_and_prepare()
  return folder


def scenes(folder: Path, **settings: Any) -> TfRows:
  values = {'name': 'siscore/size', 'path': str(folder / 'metadata.csv'), **settings}
  return load(DataSettings(source='si_score', data_dir=str(folder), **values))


def test_every_scene_has_the_factors_of_its_number(released: Path) -> None:
  rows = scenes(released)
  assert rows.num_examples == 17 and rows.class_names == WNIDS
  assert rows.description['source'] == 'si_score' and rows.description['pairs'] == 6
  [batch] = rows.batches(17)
  made = metadata()
  order = np.argsort(batch['image_id'])
  assert batch['image_id'][order].tolist() == made['image_id'].tolist()
  np.testing.assert_allclose(batch['area'][order], made['area'])
  np.testing.assert_allclose(batch['fraction_inside'][order], made['pct_inside_image'], atol=1e-4)
  assert batch['object'][order].tolist() == made['foreground_class'].tolist()
  assert batch['background'][order].tolist() == made['background'].tolist()
  labels = np.array([931, 105, 951])[made['foreground_class'].astype(int)]
  assert batch['label'][order].tolist() == labels.tolist()
  grey = np.rint(batch['image'][order, 16, 16, 0] * 255)
  np.testing.assert_allclose(grey, made['image_id'] * 10, atol=1)
  assert (batch['x'] == 0.5).all() and (batch['angle'] == 0).all()
  assert batch['area'].dtype == np.float32 and batch['object'].dtype == np.int32


def test_a_subset_is_of_whole_pairs_and_grows_with_its_size(released: Path) -> None:
  def chosen(num_images: int) -> set[int]:
    [batch] = scenes(released, num_images=num_images).batches(17)
    return set(batch['image_id'][batch['mask']].tolist())

  two, four = chosen(2), chosen(4)
  assert {number % 6 for number in two} < {number % 6 for number in four}
  assert len({number % 6 for number in two}) == 2
  pairs = {number % 6 for number in four}
  assert four == {n for n in range(18) if n % 6 in pairs and n != LEFT_OUT}
  with pytest.raises(InputError, match='at most 6'):
    chosen(7)


def test_a_part_of_the_split_is_joined_too(released: Path) -> None:
  [batch] = scenes(released, split='test[:5]').batches(5)
  whole = next(iter(scenes(released).batches(5)))
  assert batch['image_id'].tolist() == whole['image_id'].tolist()


def test_the_table_must_be_there_and_of_this_set(released: Path, tmp_path: Path) -> None:
  with pytest.raises(InputError, match='config.data.path is empty.*metadata.csv'):
    scenes(released, path='')
  with pytest.raises(InputError, match='cannot read .*metadata.csv'):
    scenes(released, path=str(tmp_path / 'metadata.csv'))
  made = metadata()
  made['foreground_class'] = made['foreground_class'][::-1]
  (tmp_path / 'metadata.csv').write_text(scene_metadata.text(made))
  with pytest.raises(InputError, match='of foreground_class 1 have the labels .*another factor'):
    scenes(released, path=str(tmp_path / 'metadata.csv'))


def test_a_set_of_other_images_is_refused(released: Path, tiny_tfds: Path) -> None:
  with pytest.raises(InputError, match="'tiny_set/1.0.0' has no feature 'image_id'"):
    load(
      DataSettings(
        source='si_score',
        name='tiny_set',
        data_dir=str(tiny_tfds),
        path=str(released / 'metadata.csv'),
      )
    )
