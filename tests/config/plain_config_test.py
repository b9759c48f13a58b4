"""The stand-in for `ml_collections.ConfigDict`: every config gives the same values with it."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import ml_collections
import pytest

from robustness.config import defaults, plain_config
from robustness.config.plain_config import ConfigDict, placeholder

CONFIGS = sorted((pathlib.Path(__file__).resolve().parents[2] / 'configs').glob('*.py'))


def load(path: pathlib.Path) -> Any:
  spec = importlib.util.spec_from_file_location(f'{path.stem}_anew', path)
  assert spec is not None and spec.loader is not None
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


@pytest.mark.parametrize('path', CONFIGS, ids=lambda path: path.stem)
def test_every_config_gives_the_same_values(
  path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  expected = load(path).get_config()
  assert isinstance(expected, ml_collections.ConfigDict)
  monkeypatch.setattr(defaults, 'ConfigDict', plain_config.ConfigDict)
  monkeypatch.setattr(defaults, 'nested', plain_config.ConfigDict)
  monkeypatch.setattr(defaults, 'placeholder', plain_config.placeholder)
  module = load(path)
  config = module.get_config()
  assert isinstance(config, plain_config.ConfigDict)
  assert not hasattr(module, 'ml_collections'), 'take ConfigDict from robustness.config.defaults'
  assert config.to_dict() == expected.to_dict()
  assert list(config) == list(expected)
  for key, value in expected.items():
    if isinstance(value, ml_collections.ConfigDict):
      assert list(config[key]) == list(value)


def test_values_keep_their_types() -> None:
  config = ConfigDict({'rate': 0.1, 'steps': 3, 'names': (), 'on': True, 'seed': placeholder(int)})
  config.rate, config.names, config.seed = 2, ['a'], 5
  assert (config.rate, config.names, config.seed) == (2.0, ('a',), 5)
  assert type(config.rate) is float and config.get_type('seed') is int
  for key, value in [('steps', 0.5), ('steps', True), ('on', 1), ('seed', 'x'), ('names', 'a')]:
    with pytest.raises(TypeError, match=key):
      config[key] = value


def test_sections_are_attributes_and_items() -> None:
  config = ConfigDict({'b': {'x': 1}, 'a': 2})
  config.b.x = 3
  config.c = {'y': placeholder(str)}
  assert list(config) == ['b', 'a', 'c'] and 'x' in config.b and config['b']['x'] == 3
  del config.a
  assert config.to_dict() == {'b': {'x': 3}, 'c': {'y': None}}
  with pytest.raises(AttributeError, match="no key 'a' here; it has: b, c"):
    _ = config.a
