"""What `config.data` refuses, and that importing the package is light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import input_pipeline
from input_pipeline import DataSettings
from robustness.core.errors import InputError


@pytest.mark.parametrize(
  ('settings', 'message'),
  [
    ({'source': 'tdfs'}, "config.data.source names 'tdfs'; did you mean 'tfds'?"),
    ({'interpolation': 'cubic'}, "did you mean 'bicubic'"),
    ({'num_images': -1}, 'config.data.num_images is -1; it must be at least 0'),
    ({'resize': -1}, 'config.data.resize is -1'),
    ({'crop': -224}, 'config.data.crop is -224'),
    ({'resize': 200, 'crop': 224}, 'config.data.crop is 224; it must be at most'),
  ],
)
def test_bad_settings_are_named(settings: dict, message: str) -> None:
  with pytest.raises(InputError) as error:
    DataSettings(**settings)
  assert message in str(error.value)


@pytest.mark.parametrize('source', ['folder', 'npz'])
@pytest.mark.parametrize('path', ['', '/no/such/place'])
def test_a_missing_path_is_named(source: str, path: str) -> None:
  with pytest.raises(InputError, match=f"config.data.path is '{path}'"):
    input_pipeline.load(DataSettings(source=source, path=path))


def test_importing_the_package_does_not_import_tensorflow() -> None:
  code = "import sys, input_pipeline; sys.exit('tensorflow' in sys.modules)"
  subprocess.run([sys.executable, '-c', code], check=True)
