"""Tests reading TFDS data sets in ArrayRecord files, and descriptions of data sets with faults."""

import json

import numpy as np
import pytest
import tensorflow_datasets as tfds

from input_pipeline.sources.array_record import ArrayRecord
from tests.input_pipeline.domains import CLASSES, NUMBER, PIXELS, assert_reads_pixels, read, store
from tests.json_faults import DAMAGE
from tests.refusals import refused

FEATURES = {
  'image': tfds.features.Image(shape=(6, 5, 3)),
  'label': tfds.features.ClassLabel(names=CLASSES),
  'pose': tfds.features.Text(),
}
EXAMPLES = [
  {'image': PIXELS[i], 'label': np.int64(i % 3), 'pose': 'xy'[i % 2]} for i in range(NUMBER)
]


class Poses(tfds.core.GeneratorBasedBuilder):
  """A builder of `EXAMPLES`, which writes ArrayRecord files."""

  VERSION = tfds.core.Version('1.0.0')

  def _info(self):
    return tfds.core.DatasetInfo(
      builder=self, features=tfds.features.FeaturesDict(FEATURES), disable_shuffling=True
    )

  def _split_generators(self, dl_manager):
    return {'test': self._generate_examples()}

  def _generate_examples(self):
    yield from enumerate(EXAMPLES)


def test_rows_columns_and_slices_of_array_records_are_read(tmp_path):
  pytest.importorskip('array_record', reason='array-record is not installed')
  builder = Poses(data_dir=tmp_path, file_format='array_record')
  builder.download_and_prepare()
  folder = builder.data_path
  rows = read('array_record', folder)
  assert rows.class_names == CLASSES
  assert_reads_pixels(rows)
  assert read('array_record', folder, split='test[:7]').num_examples == 7
  refused("config.data.split is 'dev'", read, 'array_record', folder, split='dev')
  source = ArrayRecord(str(folder))
  assert source.shares_images('test[:7]', source, 'test[6:]')
  assert not source.shares_images('test[:7]', source, 'test[7:]')


@pytest.fixture
def stored(tmp_path):
  """Returns the folder of the TFDS data set `made` with two examples in TFRecord files."""
  store(tmp_path, 'made', FEATURES, {'test': EXAMPLES[:2]})
  return tmp_path / 'made/1.0.0'


def test_folders_without_array_records_are_refused(stored):
  refused('holds no dataset_info.json', read, 'array_record', stored.parent)
  message = 'holds tfrecord files, which are read with config.data.source="tfds"'
  refused(message, read, 'array_record', stored)


def test_features_import_no_module(stored, monkeypatch):
  """TFDS imports the module that features.json names for a feature; both sources refuse it."""
  (stored / 'payload.py').write_text('raise SystemExit("the module was imported")')
  monkeypatch.syspath_prepend(str(stored))
  content = (stored / 'features.json').read_text()
  document = json.loads(content)
  image = document['featuresDict']['features']['image']
  for key in ('pythonClassName', 'python_class_name', 'type'):
    changed = {k: v for k, v in image.items() if k != 'pythonClassName'} | {key: 'payload.Image'}
    document['featuresDict']['features']['image'] = changed
    (stored / 'features.json').write_text(json.dumps(document))
    message = "features.json names the feature 'payload.Image', which is none of TFDS"
    refused(message, read, 'array_record', stored)
    refused(message, read, 'tfds', dataset='made', data_dir=str(stored.parents[1]))


@pytest.mark.parametrize('file', ['dataset_info.json', 'features.json'])
@pytest.mark.parametrize('damage', DAMAGE)
def test_a_damaged_description_is_refused_in_one_line(stored, file, damage):
  content = (stored / file).read_bytes()
  (stored / file).write_bytes(DAMAGE[damage](content))
  assert '\n' not in refused(file, read, 'array_record', stored)
  by_name = {'dataset': 'made', 'data_dir': str(stored.parents[1])}
  assert '\n' not in refused('made|features.json', read, 'tfds', **by_name)
