"""What `config.data` refuses, and that importing the package is light."""

import re
import subprocess
import sys

import pytest

import input_pipeline
from input_pipeline import DataSettings
from input_pipeline.settings import SOURCES
from tests.cases import cases
from tests.refusals import refused

SOURCE = """
import numpy as np
from input_pipeline.images import array_images
from input_pipeline.settings import Source

class Pictures(Source):
  resized_on_device = True

  def open(self, settings):
    images = np.zeros((3, 4, 4, 1), np.uint8)
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
  ({'classes_per_group': 3}, 'classes_per_group is 3; it must be 0 without'),
  ({'class_group_seed': 5}, 'class_group_seed is 5; it must be 0 without'),
  ({'squash': True}, 'config.data.squash is True; it must be False where config.data.resize is 0'),
)
def test_bad_settings_are_named(settings, message):
  refused(re.escape(message), DataSettings, **settings)


@pytest.mark.parametrize('source', ['folder', 'npz'])
@pytest.mark.parametrize('path', ['', '/no/such/place'])
def test_a_missing_path_is_named(source, path):
  message = f"config.data.path is '{path}'"
  refused(message, input_pipeline.load, DataSettings(source=source, path=path))


def test_a_source_in_a_file_of_ones_own_is_read(tmp_path):
  file = tmp_path / 'mine.py'
  file.write_text(SOURCE)
  settings = DataSettings(source=f'{file}:Pictures', num_images=2)
  rows = input_pipeline.load(settings)
  assert rows.class_names == ('dark', 'light') and rows.num_examples == 2
  assert settings.resized_on_device
  described = rows.description
  assert (described['source'], described['file']) == ('Pictures', 'mine.py')
  assert len(described['file_sha256']) == 64
  message = "has no 'Picture'; did you mean 'Pictures'|'Pictures'"
  refused(message, DataSettings, source=f'{file}:Picture')
  refused('no subclass of input_pipeline.settings.Source', DataSettings, source=f'{file}:np')


def test_every_source_says_in_a_line_what_it_is():
  for name, source in SOURCES.classes().items():
    assert source.name == name and source.__doc__ and source.__doc__.partition('\n')[0][-1] == '.'
  code = (
    'import sys; from input_pipeline.settings import SOURCES; SOURCES.classes(); '
    "sys.exit(bool({'tensorflow', 'tensorflow_datasets', 'jax'} & set(sys.modules)))"
  )
  subprocess.run([sys.executable, '-c', code], check=True)
