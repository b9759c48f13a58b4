"""Tests reading stored scenes of SI-Score, from TFDS and folders, and their metadata.csv."""

import itertools
import shutil

import numpy as np
import pytest
import tensorflow_datasets as tfds

from input_pipeline.sources import si_score
from input_pipeline.sources import tfds as tfds_source
from robustness.models.imagenet_names import WNIDS
from robustness.studies.si_score import SiScore
from tests.cases import cases
from tests.input_pipeline.domains import read, save_grey
from tests.refusals import bad_setting, refused

CLASSES = ('bagel', 'koala', 'lemon')
BACKGROUNDS = ((0, 2), (1, 2), (0, 1))  # of the one object of each class
AREAS = (0.2, 0.5, 0.8)
LEFT_OUT = 7  # a number without a scene, as if its object were outside the canvas


def metadata():
  """Returns the columns of metadata.csv for 6 pairs at 3 sizes, without the scene `LEFT_OUT`.

  Scenes are in the order of the released generator.
  """
  pairs = [(index, ground) for index, grounds in enumerate(BACKGROUNDS) for ground in grounds]
  lines = [(n, area, *pair) for n, (area, pair) in enumerate(itertools.product(AREAS, pairs))]
  number, area, index, ground = np.array([line for line in lines if line[0] != LEFT_OUT]).T
  ones = np.ones(len(number))
  return {
    'image_id': number,
    'x_coord': ones / 2,
    'y_coord': ones / 2,
    'area': area,
    'rotation': ones * 0,
    'foreground_class': index,
    'foreground_instance': ones * 0,
    'background': ground,
    'bg_resolution_width': ones * 32,
    'bg_resolution_height': ones * 32,
    'pct_inside_image': 1 - number / 100,
  }


@pytest.fixture(scope='module')
def released(tmp_path_factory):
  """Returns a folder with metadata.csv and TFDS's `siscore/size`, prepared from a small archive.

  Scenes are grey; the level is 10 times the number of the scene.
  """
  folder = tmp_path_factory.mktemp('siscore')
  columns = metadata()
  (folder / 'metadata.csv').write_text(si_score.metadata_text(columns))
  for number, index in zip(columns['image_id'], columns['foreground_class'], strict=True):
    path = folder / 'archive/area' / CLASSES[int(index)] / f'{int(number)}.jpg'
    save_grey(path, int(number) * 10, side=32, quality=100)
  with pytest.MonkeyPatch.context() as patched:
    archive = str(folder / 'archive')
    manager = tfds.download.DownloadManager
    patched.setattr(manager, 'download_and_extract', lambda manager, url: archive)
    tfds.builder('siscore/size', data_dir=folder).download_and_prepare()
  return folder


def scenes(folder, **settings):
  """Returns the rows of `released`."""
  values = {'dataset': 'siscore/size', 'metadata': str(folder / 'metadata.csv'), **settings}
  return read('si_score', data_dir=str(folder), **values)


@pytest.mark.slow
@pytest.mark.parametrize('max_examples', [tfds_source.MAX_EXAMPLES_IN_MEMORY, 0])
def test_every_scene_has_the_factors_of_its_number(released, monkeypatch, max_examples):
  monkeypatch.setattr(tfds_source, 'MAX_EXAMPLES_IN_MEMORY', max_examples)
  rows = scenes(released)
  assert rows.num_examples == 17 and rows.class_names == WNIDS
  assert rows.description['source'] == 'si_score' and rows.description['pairs'] == 6
  [batch] = rows.batches(17)
  expected = metadata()
  order = np.argsort(batch['image_id'])
  assert batch['image_id'][order].tolist() == expected['image_id'].tolist()
  np.testing.assert_allclose(batch['area'][order], expected['area'])
  np.testing.assert_allclose(
    batch['fraction_inside'][order], expected['pct_inside_image'], atol=1e-4
  )
  assert batch['object'][order].tolist() == expected['foreground_class'].tolist()
  assert batch['background'][order].tolist() == expected['background'].tolist()
  # The positions of bagel, koala and lemon among the classes of ImageNet.
  labels = np.array([931, 105, 951])[expected['foreground_class'].astype(int)]
  assert batch['label'][order].tolist() == labels.tolist()
  grey = np.rint(batch['image'][order, 16, 16, 0] * 255)
  np.testing.assert_allclose(grey, expected['image_id'] * 10, atol=1)
  assert (batch['x'] == 0.5).all() and (batch['angle'] == 0).all()
  assert batch['area'].dtype == np.float32 and batch['object'].dtype == np.int32
  [batch] = scenes(released, split='test[:5]').batches(5)
  assert batch['image_id'].tolist() == next(rows.batches(5))['image_id'].tolist()


@pytest.mark.slow
def test_a_study_refuses_scenes_of_another_factor(released):
  rows = scenes(released)
  SiScore(stored=True).check(rows, {})
  message = "factor is 'rotation', .* look like the set of size"
  refused(message, SiScore(factor='rotation', stored=True).check, rows, {})


NO_TABLE = {'dataset': '', 'metadata': ''}


@pytest.fixture
def archive(released, tmp_path):
  """Returns a copy of the archive of `released`, with metadata.csv beside the scenes."""
  shutil.copytree(released / 'archive', tmp_path / 'archive')
  shutil.copy(released / 'metadata.csv', tmp_path / 'archive')
  return tmp_path / 'archive'


def test_an_unpacked_folder_has_the_rows_of_tfds(released):
  with_table = {'dataset': '', 'path': released / 'archive/area'}
  [rows], [stored] = (list(scenes(released, **s).batches(17)) for s in (with_table, {}))
  order = np.argsort(stored['image_id'])
  for name in ('image_id', 'label', 'area', 'object', 'background', 'fraction_inside', 'x'):
    np.testing.assert_array_equal(rows[name], stored[name][order], err_msg=name)
  np.testing.assert_allclose(rows['image'], stored['image'][order], atol=1 / 255)
  message = 'metadata is empty, and .*area/metadata.csv'
  refused(message, scenes, released, **{**with_table, 'metadata': ''})


def test_the_table_is_found_in_the_folder_or_beside_it(released, archive, tmp_path):
  assert scenes(released, **NO_TABLE, path=archive / 'area').num_examples == 17
  shutil.copy(released / 'metadata.csv', archive / 'area')
  stored = scenes(released, **NO_TABLE, path=archive / 'area').description
  assert stored['metadata'] == str(archive / 'area/metadata.csv') and 'left_out' not in stored
  refused('holds the sets area: give the folder', scenes, released, **NO_TABLE, path=archive)
  (tmp_path / 'none').mkdir()
  message = 'none holds no <class>/<image id>.jpg'
  refused(message, scenes, released, **NO_TABLE, path=tmp_path / 'none')


def test_missing_scenes_and_other_folders_of_classes_are_refused(released, archive):
  area = archive / 'area'
  settings = {**NO_TABLE, 'path': area}
  next(area.rglob('1.jpg')).unlink()
  message = 'names 1 of 17 images of SI-Score that are not here, first 1.jpg'
  refused(message, scenes, released, **settings)
  present = scenes(released, **settings, allow_missing=True)
  assert present.num_examples == 16 and present.description['missing_scenes'] == 1
  (area / 'koala').rename(area / 'vase')
  refused('folders vase, lemon are not in', scenes, released, **settings, allow_missing=True)
  (area / 'vase').rename(area / 'koala')
  (area / 'koala/0.jpg').write_bytes((area / 'bagel/0.jpg').read_bytes())
  refused('koala/0.jpg is not called after', scenes, released, **settings)


def test_a_subset_takes_complete_pairs_and_grows_with_its_size(released):
  def image_ids(num_images):
    [batch] = scenes(released, num_images=num_images).batches(17)
    return set(batch['image_id'][batch['mask']].tolist())

  # Scenes are numbered size by size, so the pair of a scene is its number modulo 6.
  small, large = image_ids(2), image_ids(4)
  assert {number % 6 for number in small} < {number % 6 for number in large}
  assert len({number % 6 for number in small}) == 2
  pairs = {number % 6 for number in large}
  assert large == {n for n in range(18) if n % 6 in pairs and n != LEFT_OUT}
  refused(bad_setting('config.data.num_images', 7), image_ids, 7)


def test_a_missing_table_and_that_of_another_set_are_refused(released, tmp_path, tiny_tfds):
  refused('config.data.si_score.metadata is empty.*metadata.csv', scenes, released, metadata='')
  path = str(released / 'archive/area')
  refused(bad_setting('config.data.si_score.path', path), scenes, released, path=path)
  message = 'metadata.csv cannot be read as a table: .*No such file'
  refused(message, scenes, released, metadata=str(tmp_path / 'metadata.csv'))
  columns = metadata()
  columns['foreground_class'] = columns['foreground_class'][::-1]
  (tmp_path / 'metadata.csv').write_text(si_score.metadata_text(columns))
  message = 'of foreground_class 1 have the labels .*another factor'
  refused(message, scenes, released, metadata=str(tmp_path / 'metadata.csv'))
  settings = {'dataset': 'tiny_set', 'metadata': str(released / 'metadata.csv')}
  refused("'tiny_set/1.0.0' has no feature 'image_id'", scenes, tiny_tfds, **settings)


def columns_of(ids):
  """Returns columns of metadata.csv for numbers of scenes; every column differs."""
  numbers = np.arange(len(ids))
  return {
    **{name: numbers + place for place, name in enumerate(si_score.WHOLE)},
    'image_id': np.array(ids),
    'x_coord': numbers / 20,
    'y_coord': numbers / 10,
    'area': np.full(len(ids), np.float32(0.2)),
    'rotation': numbers * 20.0,
    'pct_inside_image': np.full(len(ids), 0.123456),
  }


def saved(folder, text):
  """Writes metadata.csv to a folder and returns its path."""
  (folder / 'metadata.csv').write_text(text)
  return folder / 'metadata.csv'


def test_a_written_table_is_read_in_the_order_of_its_numbers(tmp_path):
  path = saved(tmp_path, si_score.metadata_text(columns_of([7, 0, 3])))
  assert path.read_text().splitlines()[0] == (
    'image_id,x_coord,y_coord,area,rotation,foreground_class,foreground_instance,background,'
    'bg_resolution_width,bg_resolution_height,pct_inside_image'
  )
  table = si_score.read_metadata(path)
  assert table['image_id'].tolist() == [0, 3, 7]
  assert table['rotation'].tolist() == [20, 40, 0]
  np.testing.assert_allclose(table['x_coord'], [0.05, 0.1, 0])
  np.testing.assert_allclose(table['area'], 0.2, rtol=0, atol=1e-15)
  np.testing.assert_allclose(table['pct_inside_image'], 0.1235)
  assert table['background'].dtype == np.int64
  joined, _ = si_score.join_metadata(path, np.array([3, 7, 3]), allow_missing=True)
  assert joined['rotation'].tolist() == [40, 0, 40]


def test_a_line_of_the_released_generator_is_read(tmp_path):
  line = '13,0.35000000000000003,0.05,0.2,0,4,2,511,500,500,0.8743'
  path = saved(tmp_path, f'\ufeff{",".join(si_score.IN_FILE)}\r\n{line}\r\n')
  table = si_score.read_metadata(path)
  first = [table[name][0] for name in si_score.IN_FILE]
  assert first == [13, pytest.approx(0.35), 0.05, 0.2, 0, 4, 2, 511, 500, 500, 0.8743]
  path.write_bytes(b'\xff\xfe')
  refused('metadata.csv cannot be read as a table: .utf-8. codec', si_score.read_metadata, path)


@cases(
  'change, message',
  (lambda text: text.replace('area', 'size'), "has no column 'area'; its columns: "),
  (lambda text: text[:-12], 'is nan; it must be a'),
  (lambda text: text.splitlines()[0] + '\n', 'has no row'),
  (lambda text: '', 'cannot be read as a table: No columns'),
  (lambda text: text + text.splitlines()[-1], 'names image 3 more than once'),
  (lambda text: text.replace('0.1235', '12.35'), 'image 0 is 12.35; it must be a fraction'),
  (lambda text: text.replace('\n3,', '\n3.5,'), 'image_id is 3.5; it must be a whole number'),
  (lambda text: text.replace('0.2,', 'nan,'), 'area is nan; it must be a finite number'),
)
def test_a_table_with_faulty_columns_or_values_is_refused(tmp_path, change, message):
  path = saved(tmp_path, change(si_score.metadata_text(columns_of([0, 3]))))
  refused(message, si_score.read_metadata, path)


def test_images_that_the_table_lacks_are_refused(tmp_path):
  path = saved(tmp_path, si_score.metadata_text(columns_of([0, 3])))
  message = '2 of 3 images, first image_id 5. Is it the table of another'
  refused(message, si_score.join_metadata, path, np.array([3, 5, 6]))
