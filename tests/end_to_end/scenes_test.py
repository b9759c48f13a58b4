"""Whole runs of SI-Score: drawn and composed scenes, and comparisons of families of networks."""

import dataclasses
import pathlib
from typing import Any

import ml_collections
import numpy as np
import pytest
from PIL import Image

from configs import si_score_families
from robustness.config import experiment
from robustness.estimates.table import select
from robustness.models import catalog
from robustness.scenes.classes import imagenet_index
from tests.end_to_end import runs
from tests.refusals import bad_setting, refused

CLASSES = ('koala', 'lemon', 'vase')


def network(folder: pathlib.Path, seed: int = 0) -> str:
  """Returns the name of a random linear network that prefers the classes of the scenes."""
  favourites = [imagenet_index(name) for name in (*CLASSES, 'orange', 'banana', 'ruler')]
  return runs.linear_network(folder / f'network{seed}.py', seed, f'weights[:, {favourites}] *= 8')


@pytest.fixture
def folders(tmp_path):
  """Changes of a config that name folders with three cutouts and three backgrounds."""
  generator = np.random.default_rng(0)
  for index, name in enumerate(CLASSES):
    pixels = generator.integers(0, 256, (20 + 7 * index, 30, 4), np.uint8)
    pixels[..., 3] = 255
    runs.save_image(tmp_path / 'objects' / name / 'one.png', pixels)
    ground = np.asarray(Image.effect_noise((64, 64), 40))
    runs.save_image(tmp_path / f'grounds/{index}.png', ground)
  files = {'data.scenes.foregrounds': 'objects', 'data.scenes.backgrounds': 'grounds'}
  return {**{key: str(tmp_path / name) for key, name in files.items()}, 'data.num_images': 0}


def shrunk(variant: str, tmp_path: pathlib.Path, **changes: Any) -> Any:
  """Returns a small config of SI-Score for `network` on four scenes."""
  data = {f'data.{source}.canvas': 48 for source in ('scenes', 'drawn_scenes')}
  data['data.num_images'] = 4
  values = {'classifier.name': network(tmp_path), **data, 'batch_size': 8, 'views_per_step': 30}
  return runs.shrunk('si_score', variant, {**values, **changes})


@pytest.mark.slow
def test_drawn_objects_by_size(tmp_path):
  config = shrunk('drawn', tmp_path, **{'study.areas': (0.1, 0.4, 1.0)})
  assert config.study.factor == 'size'
  config.study.factor = 'cross'
  results = runs.run(config, tmp_path / 'run')
  levels = select(results.table, 'accuracy', area=...)
  assert levels.area.tolist() == [0.1, 0.4, 1.0]
  assert levels.n.max() == 4 and levels.n.iloc[-1] < 4
  assert runs.arrays(tmp_path / 'run')['gallery'].shape[:2] == (3, 3)
  assert 'drawn in code' in runs.document(tmp_path / 'run')['data']['cutouts']
  bounded = results.table.dropna(subset=['low'])
  is_inside = (bounded.low <= bounded.value) & (bounded.value <= bounded.high)
  assert (is_inside & (bounded.n > 0)).all()
  runs.assert_pictures('si_score', tmp_path / 'run')
  assert (tmp_path / 'run/figures/gallery.png').stat().st_size > 0


@pytest.mark.slow
def test_a_grid_of_places_for_two_networks(folders, tmp_path):
  config = shrunk('folder', tmp_path, **folders, **{'study.factor': 'grid', 'study.cells': 3})
  section = config.classifier.to_dict()
  del config.classifier
  sections = {'first': section, 'second': {**section, 'name': network(tmp_path, seed=1)}}
  config.classifiers = ml_collections.ConfigDict(sections)
  table = runs.run(config, tmp_path / 'run').table
  places = select(table, 'accuracy', None, y=..., x=...)
  np.testing.assert_allclose(sorted(set(places.x)), [1 / 6, 1 / 2, 5 / 6])
  first, second, difference = places.value.to_numpy().reshape(3, 9)
  np.testing.assert_allclose(difference, second - first)
  assert (tmp_path / 'run/figures/accuracy_y_x.png').exists()
  config.update_from_flattened_dict({'batch_size': 16, 'views_per_step': 2})
  runs.run(config, tmp_path / 'again', drawn=False)
  runs.assert_same_findings(tmp_path / 'run', tmp_path / 'again')


def test_released_scenes_need_a_folder_and_comparisons_a_variant(tmp_path):
  with pytest.raises(ValueError, match="valid: 'batch_or_group_norm', "):
    si_score_families.get_config('norm')
  config = runs.shrunk('si_score', 'released')
  assert config.study.stored and config.data.source == 'si_score'
  config.classifier.name = network(tmp_path)
  refused(bad_setting('config.data.si_score.path', ''), runs.run, config, tmp_path / 'run')


@pytest.mark.parametrize('variant', si_score_families.COMPARISONS)
def test_every_comparison_names_existing_networks_and_weights(variant):
  config = si_score_families.get_config(variant)
  parsed = experiment.from_config(config.to_dict())
  assert len(parsed.classifiers) == len(config.classifiers) >= 2
  assert parsed.preparation() is None, 'each network gets the scenes at its own size'
  for section in parsed.classifiers.values():
    architecture = catalog.get(section.name)
    if section.weights:
      listed = catalog.WEIGHTS.get(section.weights)
      timm_name = section.weights.removeprefix('timm:').partition('.')[0]
      assert catalog.of_timm_name(timm_name) == architecture.name
      assert listed is None or listed.architecture == architecture.name
    else:
      assert section.name.startswith(('bit_', 'clip_')), 'given as a file'


@pytest.fixture
def small_members(monkeypatch):
  """Makes the networks of the catalog small, for images of 32 × 32 pixels."""
  transformer = {'width': 16, 'depth': 4, 'num_heads': 2}
  changes: dict[str, dict[str, Any]] = {'ResNet': {'depth': 18}, 'VisionTransformer': transformer}
  small = {}
  for name, architecture in catalog.ARCHITECTURES.items():
    network_type = type(architecture.network).__name__
    cloned = architecture.network.clone(**changes.get(network_type, {}))
    small[name] = dataclasses.replace(architecture, input_shape=(32, 32, 3), network=cloned)
  monkeypatch.setattr(catalog, 'ARCHITECTURES', small)


@pytest.mark.slow
@pytest.mark.usefixtures('small_members')
@pytest.mark.parametrize('variant', ['batch_or_group_norm', 'bit_or_vit_patches', 'clip'])
def test_families_are_compared_on_the_same_scenes(variant, tmp_path):
  """The first two networks of a comparison get random weights."""
  changes = {
    'data': {'source': 'drawn_scenes', 'num_images': 2, 'drawn_scenes.canvas': 64},
    'study': {'factor': 'cross', 'areas': (0.3,), 'xs': (0.3, 0.7), 'ys': (0.4, 0.6)},
    'batch_size': 2,
    'views_per_step': 4,
  }
  config = runs.shrunk('si_score_families', variant, changes)
  for label in list(config.classifiers)[2:]:
    del config.classifiers[label]
  for label, section in config.classifiers.items():
    path = tmp_path / f'{label}.safetensors'
    section.weights = runs.save_weights(path, section.name, len(label), 1000)
  drawn = variant == 'batch_or_group_norm'
  results = runs.run(config, tmp_path / 'run', drawn)
  assert results.labels == list(config.classifiers)
  places = select(results.table, 'accuracy', None, y=..., x=...)
  first, second, difference = places.value.to_numpy().reshape(3, 4)
  assert places.n.max() == 2
  np.testing.assert_allclose(difference, second - first, atol=1e-12)
  assert (tmp_path / 'run/figures/accuracy_y_x.png').is_file() == drawn
