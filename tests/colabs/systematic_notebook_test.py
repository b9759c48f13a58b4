"""The notebook of systematic robustness runs to its end on a finished workdir."""

from __future__ import annotations

import pathlib

import pytest

from tests.colabs import notebooks
from tests.end_to_end import runs

NOTEBOOK = 'systematic'


@pytest.fixture(scope='module')
def workdir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A finished run of the default experiment, made small."""
  folder = tmp_path_factory.mktemp('run')
  config = runs.shrunk('systematic_corruptions', 'digits', {'study.samples': 100})
  config.study.environments = ('gaussian_noise', 'contrast')
  config.study.severities = (5,)
  config.data.random_class_groups = 2
  for classifier in config.classifiers.values():
    classifier.augment.environment.transforms = config.study.environments
  runs.run(config, folder)
  return folder


@pytest.mark.slow
def test_it_draws_a_finished_run(installed: pathlib.Path, workdir: pathlib.Path) -> None:
  text = notebooks.text_of_drawn_run(NOTEBOOK, installed, workdir)
  for phrase in ('unseen_gain', 'erm, b of the first classifier, by cell: ρ', 'clean, contr'):
    assert phrase in text
