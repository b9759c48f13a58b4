"""The notebook of scenes runs to its end on a finished workdir."""

from __future__ import annotations

import pathlib

import pytest

from robustness import run as launch
from robustness.config.defaults import default_config
from tests.colabs import notebooks

NOTEBOOK = 'si_score'
CLASSIFIERS = """
import numpy as np

from robustness.models.imagenet_names import WNIDS
from robustness.models.classifier import Classifier


def linear(seed):
  weights = np.random.default_rng(seed).normal(size=(16 * 16 * 3, 1000)).astype(np.float32)
  return Classifier.from_callable(lambda images: images.reshape(len(images), -1) @ weights,
                                  (16, 16, 3), WNIDS, outputs='logits')


def first():
  return linear(0)


def second():
  return linear(1)
"""


@pytest.fixture(scope='module')
def workdir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A finished run of two linear classifiers on 3 × 3 places of drawn objects."""
  folder = tmp_path_factory.mktemp('run')
  (folder / 'mine.py').write_text(CLASSIFIERS)
  config = default_config('si_score', labels=('first', 'second'))
  config.data.source, config.data.num_images, config.data.canvas = 'drawn_scenes', 4, 64
  config.study.factor, config.study.cells = 'grid', 3
  config.batch_size, config.views_per_step = 4, 9
  for label, classifier in config.classifiers.items():
    classifier.name = f'{folder / "mine.py"}:{label}'
  launch.run(config.to_dict(), folder / 'workdir')
  return folder / 'workdir'


@pytest.mark.slow
def test_it_draws_a_finished_run(installed: pathlib.Path, workdir: pathlib.Path) -> None:
  text = notebooks.text_of_drawn_run(NOTEBOOK, installed, workdir)
  for part in ('balanced_accuracy', 'gap', 'of 9 places differ', 'second: accuracy '):
    assert part in text, part
