"""Scenes that were stored give the numbers of scenes that are composed as they are shown."""

from __future__ import annotations

import pathlib

import ml_collections
import pandas as pd
import pytest
from PIL import Image

from input_pipeline.builders.si_score_scenes import ScenesConfig, SiScoreScenes
from input_pipeline.sources import drawn_objects
from robustness.config.defaults import default_config
from robustness.estimates.table import facets_of, select
from robustness.scenes import designs
from tests.end_to_end import runs

pytestmark = pytest.mark.slow

SIDE, CLASSES = 48, ('banana', 'lemon', 'starfish')
CLASSIFIER = """
import numpy as np

from robustness.models.imagenet_names import WNIDS
from robustness.models.classifier import Classifier


def network():
  weights = np.random.default_rng(0).normal(size=(16 * 16 * 3, 1000)).astype(np.float32)
  chosen = np.full(1000, -1e3, np.float32)
  chosen[[954, 951, 327]] = 0  # an answer is one of three classes

  def predict(images):
    return images.reshape(len(images), -1) @ weights + chosen

  return Classifier.from_callable(predict, (16, 16, 3), WNIDS, outputs='logits')
"""


@pytest.fixture
def folders(tmp_path: pathlib.Path) -> dict[str, str]:
  """Drawn objects and grounds as files."""
  for name in CLASSES:
    path = tmp_path / 'cutouts' / name / 'one.png'
    path.parent.mkdir(parents=True)
    Image.fromarray(drawn_objects.draw(name)).save(path)
  (tmp_path / 'grounds').mkdir()
  for number in range(3):
    Image.fromarray(drawn_objects.ground(number, SIDE)).save(tmp_path / f'grounds/{number}.png')
  return {'foregrounds': str(tmp_path / 'cutouts'), 'backgrounds': str(tmp_path / 'grounds')}


def config_of(folder: pathlib.Path) -> ml_collections.ConfigDict:
  config = default_config('si_score')
  config.classifier.name = f'{folder / "mine.py"}:network'
  config.study.factor, config.study.areas = 'cross', (0.2, 0.5)
  config.study.xs, config.study.ys = (0.2, 0.5, 0.8), (0.4, 0.6)
  config.study.min_inside = 0.85
  config.batch_size, config.views_per_step = 8, 12
  return config


def test_stored_and_composed_scenes_give_the_same_numbers(
  folders: dict[str, str], tmp_path: pathlib.Path
) -> None:
  (tmp_path / 'mine.py').write_text(CLASSIFIER)
  composed = config_of(tmp_path)
  composed.data.source, composed.data.canvas = 'scenes', SIDE
  composed.data.update(folders)
  wanted = runs.run(composed, tmp_path / 'composed')

  study = composed.study
  design = designs.cross('mine', study.areas, study.angles, study.xs, study.ys, SIDE, 0.85)
  SiScoreScenes(
    config=ScenesConfig('mine', design=design, **folders), data_dir=tmp_path / 'tfds'
  ).download_and_prepare()
  stored = config_of(tmp_path)
  stored.study.stored = True
  stored.data.source, stored.data.name = 'si_score', 'si_score_scenes/mine'
  stored.data.data_dir = str(tmp_path / 'tfds')
  found = runs.run(stored, tmp_path / 'stored')

  levels = select(wanted.table, 'accuracy', area=..., y=..., x=...)
  assert 0 <= levels.n.min() < levels.n.max() == 6
  # A level without scenes is not stored, and pooled mixes are those of the levels that are.
  known = [
    own.table[(own.table.n > 0) & (own.table.area.isna() == own.table.x.isna())]
    for own in (found, wanted)
  ]
  assert 0 < known[0].value.iloc[0] < 1
  numbers = dict.fromkeys(('area', 'y', 'x'), float)
  order = ['quantity', *facets_of(found.table)]
  tables = [own.astype(numbers).round(6).sort_values(order, ignore_index=True) for own in known]
  pd.testing.assert_frame_equal(*tables)
