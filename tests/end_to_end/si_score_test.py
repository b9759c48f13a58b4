"""The configs of SI-Score, made small: what a run leaves, run again, and cut otherwise."""

from __future__ import annotations

import pathlib
from typing import Any

import ml_collections
import numpy as np
import pytest
from PIL import Image

from robustness.core.errors import InputError
from robustness.estimates.table import select
from robustness.models.imagenet_names import WNIDS
from robustness.scenes.classes import imagenet_index
from tests.end_to_end import runs

pytestmark = pytest.mark.slow

CONFIG = 'si_score'
SOURCE = """
import numpy as np
from robustness.models.imagenet_names import WNIDS
from robustness.models.classifier import Classifier

weights = np.random.default_rng({seed}).normal(size=(16 * 16 * 3, 1000)).astype(np.float32)
weights[:, {favourites}] *= 8

def network():
  return Classifier.from_callable(lambda images: (images - .5).reshape(len(images), -1) @ weights,
                                  (16, 16, 3), WNIDS)
"""
CLASSES = ('koala', 'lemon', 'vase')


def network(folder: pathlib.Path, seed: int = 0) -> str:
  """A file with a linear classifier that prefers the classes of the objects."""
  favourites = [imagenet_index(name) for name in (*CLASSES, 'orange', 'banana', 'ruler')]
  path = folder / f'network{seed}.py'
  path.write_text(SOURCE.format(seed=seed, favourites=favourites))
  return f'{path}:network'


@pytest.fixture
def folders(tmp_path: pathlib.Path) -> dict[str, str]:
  generator = np.random.default_rng(0)
  for index, name in enumerate(CLASSES):
    path = tmp_path / 'objects' / name / 'one.png'
    path.parent.mkdir(parents=True)
    pixels = generator.integers(0, 256, (20 + 7 * index, 30, 4), np.uint8)
    pixels[..., 3] = 255
    Image.fromarray(pixels).save(path)
  (tmp_path / 'grounds').mkdir()
  for index in range(3):
    Image.effect_noise((64, 64), 40).save(tmp_path / f'grounds/{index}.png')
  return {
    'data.foregrounds': str(tmp_path / 'objects'),
    'data.backgrounds': str(tmp_path / 'grounds'),
    'data.num_images': 0,
    'data.canvas': 48,
  }


def shrunk(variant: str, tmp_path: pathlib.Path, **changes: Any) -> Any:
  values = {
    'classifier.name': network(tmp_path),
    'data.canvas': 48,
    'data.num_images': 4,
    'batch_size': 8,
    'views_per_step': 30,
  }
  return runs.shrunk(CONFIG, variant, {**values, **changes})


def test_a_cutout_without_alpha_is_refused_before_any_work(
  folders: dict[str, str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  """Before images are decoded and before a network is loaded or trained."""
  last = tmp_path / 'objects/vase/two.png'
  Image.new('RGB', (30, 30), (90, 20, 20)).save(last)

  def too_late(*unused: object) -> None:
    raise AssertionError('classifiers were built before the files were checked')

  monkeypatch.setattr('robustness.classifiers.ClassifierBuilder.build', too_late)
  config = shrunk('folder', tmp_path, **folders)
  with pytest.raises(InputError, match=r'^cutout \S*two\.png has no alpha channel \(RGB\); save'):
    runs.run(config, tmp_path / 'run')
  assert not (tmp_path / 'run/records').exists()


def test_drawn_objects_by_size(tmp_path: pathlib.Path) -> None:
  config = shrunk('drawn', tmp_path)
  assert config.study.factor == 'size'
  config.update_from_flattened_dict({'study.factor': 'cross', 'study.areas': (0.1, 0.4, 1.0)})
  results = runs.run(config, tmp_path / 'run')
  levels = select(results.table, 'accuracy', area=...)
  assert levels.area.tolist() == [0.1, 0.4, 1.0]
  assert levels.n.max() == 4 and levels.n.iloc[-1] < 4
  assert runs.arrays(tmp_path / 'run')['gallery'].shape[:2] == (3, 3)
  assert 'drawn in code' in runs.document(tmp_path / 'run')['data']['cutouts']
  known = results.table.dropna(subset=['low'])
  assert ((known.low <= known.value) & (known.value <= known.high) & (known.n > 0)).all()
  for name in ('accuracy_area', 'gallery'):
    assert (tmp_path / f'run/figures/{name}.png').stat().st_size > 0


def test_folders_by_angle(folders: dict[str, str], tmp_path: pathlib.Path) -> None:
  config = shrunk(
    'folder',
    tmp_path,
    **folders,
    **{'study.factor': 'cross', 'study.areas': (0.2, 0.5), 'study.angles': (1.0, 121.0, 241.0)},
  )
  table = runs.run(config, tmp_path / 'run').table
  levels = select(table, 'accuracy', area=..., angle=...)
  assert len(levels) == levels.n.max() == 6
  assert sorted(select(table, 'accuracy', angle=...).angle) == [-119, 1, 121]


def test_a_grid_of_places_for_two_networks(folders: dict[str, str], tmp_path: pathlib.Path) -> None:
  config = shrunk('folder', tmp_path, **folders, **{'study.factor': 'grid', 'study.cells': 3})
  one = config.classifier.to_dict()
  del config.classifier
  config.classifiers = ml_collections.ConfigDict(
    {'one': one, 'two': {**one, 'name': network(tmp_path, seed=1)}}
  )
  table = runs.run(config, tmp_path / 'run').table
  places = select(table, 'accuracy', None, y=..., x=...)
  np.testing.assert_allclose(sorted(set(places.x)), [1 / 6, 1 / 2, 5 / 6])
  one, two, minus = places.value.to_numpy().reshape(3, 9)
  np.testing.assert_allclose(minus, two - one)
  assert (tmp_path / 'run/figures/accuracy_y_x.png').exists()
  config.update_from_flattened_dict({'batch_size': 16, 'views_per_step': 2})
  runs.run(config, tmp_path / 'again')
  runs.assert_same_findings(tmp_path / 'run', tmp_path / 'again')


def test_released_scenes_have_their_levels(tmp_path: pathlib.Path) -> None:
  config = runs.shrunk(CONFIG, 'released')
  assert config.study.stored and config.data.source == 'si_score'
  config.classifier.name = network(tmp_path)
  with pytest.raises(InputError, match=r'config\.data\.name'):
    runs.run(config, tmp_path / 'run')
  assert len(WNIDS) == 1000


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'data.source': 'digits', 'data.canvas': 0}, 'none of the 1000 classes'),
    ({'data.backgrounds_per_object': 9}, 'at most 4'),
    ({'study.factor': 'place'}, "config.study.factor is 'place'"),
  ],
)
def test_what_cannot_be_meant_is_said(
  changes: dict[str, Any], message: str, tmp_path: pathlib.Path
) -> None:
  with pytest.raises(InputError, match=message):
    runs.run(shrunk('drawn', tmp_path, **changes), tmp_path / 'run')


def test_levels_without_a_scene_are_refused_before_the_evaluation(
  folders: dict[str, str], tmp_path: pathlib.Path
) -> None:
  changes = {
    **folders,
    'classifier.name': network(tmp_path),
    'study.factor': 'cross',
    'study.areas': (0.2,),
    'study.xs': (0.0,),
    'study.min_inside': 0.9,
  }
  config = runs.shrunk(CONFIG, 'folder', changes)
  with pytest.raises(InputError, match='no scene has 0.9 of its object inside'):
    runs.run(config, tmp_path / 'run')
  assert not (tmp_path / 'run' / 'records').exists()
