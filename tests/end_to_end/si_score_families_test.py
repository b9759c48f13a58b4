"""The comparisons of families on scenes: what they name exists, and each kind of pair runs."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pytest

from configs import si_score_families
from robustness.classifiers import preparation
from robustness.config import experiment
from robustness.estimates.table import select
from robustness.models import catalog
from tests.end_to_end import runs

CONFIG = 'si_score_families'
SMALL: dict[str, Any] = {
  'data.source': 'drawn_scenes',
  'data.num_images': 2,
  'data.canvas': 64,
  'study.factor': 'cross',
  'study.areas': (0.3,),
  'study.xs': (0.3, 0.7),
  'study.ys': (0.4, 0.6),
  'batch_size': 2,
  'views_per_step': 4,
}


@pytest.mark.parametrize('variant', si_score_families.COMPARISONS)
def test_every_comparison_names_what_there_is(variant: str) -> None:
  config = si_score_families.get_config(variant)
  parsed = experiment.from_config(config.to_dict())
  assert len(parsed.classifiers) == len(config.classifiers) >= 2
  assert preparation(parsed) is None, 'each network gets the scenes at its own size'
  for section in parsed.classifiers.values():
    architecture = catalog.get(section.name)
    if section.weights:
      known = catalog.WEIGHTS.get(section.weights)
      timm_name = section.weights.removeprefix('timm:').partition('.')[0]
      assert catalog.of_timm_name(timm_name) == architecture.name
      assert known is None or known.architecture == architecture.name
    else:
      assert section.name.startswith(('bit_', 'clip_')), 'given as a file'


def test_an_unknown_comparison_is_refused() -> None:
  with pytest.raises(ValueError, match="valid: 'batch_or_group_norm', "):
    si_score_families.get_config('norm')


@pytest.fixture
def small_members(monkeypatch: pytest.MonkeyPatch) -> None:
  """Puts small members of each family in the place of the networks that the config names."""
  changes: dict[str, dict[str, Any]] = {
    'ResNet': {'depth': 18},
    'VisionTransformer': {'width': 16, 'depth': 4, 'num_heads': 2},
  }
  small = {
    name: dataclasses.replace(
      one,
      input_shape=(32, 32, 3),
      network=one.network.clone(**changes.get(type(one.network).__name__, {})),
    )
    for name, one in catalog.ARCHITECTURES.items()
  }
  monkeypatch.setattr(catalog, 'ARCHITECTURES', small)


@pytest.mark.slow
@pytest.mark.parametrize('variant', ['batch_or_group_norm', 'bit_or_vit_patches', 'clip'])
def test_families_are_compared_on_the_same_scenes(
  variant: str, small_members: None, tmp_path: pathlib.Path
) -> None:
  """Random weights, and the first two of each comparison."""
  config = runs.shrunk(CONFIG, variant, SMALL)
  for label in list(config.classifiers)[2:]:
    del config.classifiers[label]
  for label, section in config.classifiers.items():
    path = tmp_path / f'{label}.safetensors'
    seed = len(label)
    config.classifiers[label].weights = runs.save_weights(path, section.name, seed, 1000)
  results = runs.run(config, tmp_path / 'run')
  assert results.labels == list(config.classifiers)
  places = select(results.table, 'accuracy', None, y=..., x=...)
  first, second, difference = places.value.to_numpy().reshape(3, 4)
  assert places.n.max() == 2
  np.testing.assert_allclose(difference, second - first, atol=1e-12)
  assert (tmp_path / 'run/figures/accuracy_y_x.png').is_file()
