"""Tests the settings of `config.data`, sources in files of users, and keys of earlier versions."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest

import input_pipeline
from input_pipeline import DataSettings, sources
from input_pipeline.settings import SOURCES
from input_pipeline.sources.folder import Folder
from robustness.cli import command_line, overview
from robustness.config import experiment
from robustness.config.recorded import recorded
from robustness.core import registry
from tests.cases import cases
from tests.input_pipeline.domains import settings_of
from tests.refusals import bad_setting, refused

SOURCE_FILE = """
import dataclasses
import numpy as np
from input_pipeline.images import array_images
from input_pipeline.settings import Source
from robustness.core.registry import setting

@dataclasses.dataclass(frozen=True)
class Pictures(Source):
  '''Pictures of one level.'''
  resized_on_device = True
  side: int = 4
  level: float = setting(0.0, 'in [0, 1]', lambda x: 0 <= x <= 1)

  def open(self, settings):
    images = np.full((3, self.side, self.side, 1), self.level, np.float32)
    return array_images(images, np.array([0, 1, 1]), ('dark', 'light'), 'pictures', {})
"""


@cases(
  'settings, message',
  ({'source': 'tdfs'}, "config.data.source names 'tdfs'; did you mean 'tfds'?"),
  ({'interpolation': 'cubic'}, "did you mean 'bicubic'"),
  ({'num_images': -1}, 'config.data.num_images is -1; it must be at least 0'),
  ({'resize': -1}, 'config.data.resize is -1'),
  ({'crop': -224}, 'config.data.crop is -224'),
  ({'resize': 200, 'crop': 224}, 'config.data.crop is 224; it must be at most'),
  ({'classes_per_group': 3}, 'classes_per_group is 3; it must be 0 unless'),
  ({'class_group_seed': 5}, 'class_group_seed is 5; it must be 0 unless'),
  ({'class_groups': (('a',),), 'classes_per_group': 3}, 'classes_per_group is 3; it must be 0'),
  ({'squash': True}, 'config.data.squash is True; it must be False where config.data.resize is 0'),
  ({'interpolation': 'bilinear', 'crop': 24}, "interpolation is 'bilinear'; it must be 'bicubic'"),
)
def test_unusable_settings_are_refused(settings, message):
  refused(re.escape(message), DataSettings.from_section, settings)


@pytest.mark.parametrize('source', ['folder', 'npz'])
@pytest.mark.parametrize('path', ['', '/no/such/place'])
def test_a_missing_path_is_refused(source, path):
  missing = bad_setting(f'config.data.{source}.path', path)
  refused(missing, input_pipeline.load, settings_of(source, path))


@pytest.fixture
def file(tmp_path):
  """Returns the file mine.py with a source of a user."""
  (tmp_path / 'mine.py').write_text(SOURCE_FILE)
  return tmp_path / 'mine.py'


def test_a_source_in_a_file_of_a_user_is_read(file):
  settings = DataSettings.from_section({'source': f'{file}:Pictures', 'num_images': 2})
  rows = input_pipeline.load(settings)
  assert rows.class_names == ('dark', 'light') and rows.num_examples == 2
  assert settings.source.resized_on_device
  described = rows.description
  assert (described['source'], described['file']) == ('Pictures', 'mine.py')
  assert len(described['file_sha256']) == 64
  message = "has no 'Picture'; did you mean 'Pictures'|'Pictures'"
  refused(message, DataSettings.from_section, {'source': f'{file}:Picture'})
  no_source = {'source': f'{file}:np'}
  refused('no subclass of input_pipeline.settings.Source', DataSettings.from_section, no_source)


@cases(
  'description, message',
  ("{'path': open}", r'Pictures.open describes its images by .* not JSON serializable'),
  ("{'images': np.int64(3)}", r'Pictures.open describes its images by .* int64'),
  ("{'share': np.nan}", r'Pictures.open describes its images by .* finite numbers'),
  ("{1: 'a', 'b': 2}", r'Pictures.open describes its images by'),
  ("['dark']", r"Pictures.open describes its images by \['dark'\]"),
  ("{'text': chr(0xDC80)}", 'is no text in UTF-8'),
  ("exit('nothing stored')", r"mine.py, line 17, called sys.exit\('nothing stored'\)"),
)
def test_a_source_that_exits_or_has_a_description_that_is_not_json_is_refused(
  file, description, message
):
  file.write_text(SOURCE_FILE.replace('{})', f'{description})').replace('exit(', 'sys.exit('))
  file.write_text(file.read_text().replace('import dataclasses', 'import dataclasses, sys'))
  settings = DataSettings.from_section({'source': f'{file}:Pictures'})
  refused(message, input_pipeline.load, settings)


def test_a_source_of_a_user_has_settings_on_the_command_line(file):
  source = f'--config.data.source={file}:Pictures'
  training = '--config.classifier.train=True', '--config.classifier.data.Pictures.side=9'
  flags = ('--config.data.Pictures.side=6', '--config.data.Pictures.level=0.5')
  config, _ = command_line.read(['--config=accuracy:own', *flags, source, *training])
  checked = experiment.from_config(recorded(config.to_dict()))
  rows = input_pipeline.load(checked.data)
  assert rows.image_shape == (6, 6, 1) and next(rows.batches(1))['image'].max() == 0.5
  (classifier,) = checked.classifiers.values()
  assert dataclasses.astuple(classifier.data.source) == (9, 0.5)
  config, _ = command_line.read(['--config=accuracy:own', source, '--config.data.Pictures.level=2'])
  expected = bad_setting('config.data.Pictures.level', 2.0)
  refused(expected, experiment.from_config, config.to_dict())
  message = 'unknown key config.data.Pictures.leval: did you mean .level'
  refused(
    message, command_line.read, ['--config=accuracy', source, '--config.data.Pictures.leval=1']
  )


def test_a_new_file_in_the_folder_of_sources_adds_a_source(tmp_path, monkeypatch):
  (tmp_path / 'pictures.py').write_text(
    SOURCE_FILE.replace('side: int', "name = 'pictures'\n  side: int")
  )
  caches = (registry._part_in_module, registry._classes, registry.subclasses_in_package)
  with monkeypatch.context() as patched:
    patched.setattr(sources, '__path__', [*sources.__path__, str(tmp_path)])
    for cache in caches:
      cache.cache_clear()
    changes = ('--config.data.source=pictures', '--config.data.pictures.side=5')
    config, _ = command_line.read(['--config=accuracy', *changes])
    rows = input_pipeline.load(experiment.from_config(config.to_dict()).data)
    listed = dict(overview.sources())
  for cache in caches:
    cache.cache_clear()
  assert rows.image_shape == (5, 5, 1) and listed['pictures'] == 'Pictures of one level.'


# source, key of an earlier version, its key today
MOVED = (
  ('tfds', 'name', 'tfds.dataset'),
  ('cifar10_c', 'name', 'cifar10_c.clean_dataset'),
  ('video_neighbors', 'path', 'video_neighbors.frames'),
  ('drawn_scenes', 'canvas', 'drawn_scenes.canvas'),
  ('digits', 'path', 'folder.path'),
)


@pytest.mark.parametrize(('source', 'key', 'new_key'), MOVED)
def test_a_key_of_an_earlier_version_is_refused_with_the_new_key(source, key, new_key, tmp_path):
  expected = bad_setting(f'config.data.{key}', '7', f'It is now config.data.{new_key}.')
  changes = [f'--config.data.{key}=7', f'--config.data.source={source}']
  refused(expected, command_line.read, ['--config=accuracy', *changes])
  data = {'source': source, key: '7'}
  refused(expected, DataSettings.from_section, data)
  file = tmp_path / 'config.json'
  file.write_text(json.dumps({'study': {'name': 'accuracy'}, 'data': data}))
  refused(expected, command_line.read, [f'--config={file}'])
  task = {'study': {'name': 'accuracy'}, 'data': data}
  file.write_text(json.dumps({'battery': {'tasks': ['a'], 'a': task}}))
  section = 'config.battery.a.data'
  expected = bad_setting(f'{section}.{key}', '7', f'now {section}.{new_key}')
  refused(expected, command_line.read, [f'--config={file}'])


def test_every_source_has_a_name_and_a_sentence_and_needs_no_heavy_import():
  for name, source in SOURCES.classes().items():
    assert source.name == name and source.__doc__ and source.__doc__.partition('\n')[0][-1] == '.'
  code = (
    'import sys; from input_pipeline.settings import SOURCES; SOURCES.classes(); '
    "sys.exit(bool({'tensorflow', 'tensorflow_datasets', 'jax'} & set(sys.modules)))"
  )
  subprocess.run([sys.executable, '-c', code], check=True)


@cases(
  'changes', {'num_images': '5'}, {'num_images': 3.5}, {'crop': None}, {'random_crop_area': 'all'}
)
def test_values_of_another_type_are_refused_in_python(changes):
  (key,) = changes
  refused(f'config.data.{key} is', DataSettings, **changes)


def test_splits_of_one_source_differ_except_the_one_without_a_name():
  folder = Folder('a')
  assert folder.shares_images('', folder, 'test') and folder.shares_images('test', folder, 'test')
  assert not folder.shares_images('train', folder, 'test')
  assert not folder.shares_images('test', Folder('b'), 'test')
