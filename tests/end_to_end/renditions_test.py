"""configs/systematic_renditions.py made small, on made folders and made TFDS files."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from PIL import Image

from robustness.estimates.table import select
from robustness.results import Results
from tests.end_to_end import runs
from tests.input_pipeline.domains import write_domain
from tests.table_rows import estimate

pytestmark = pytest.mark.slow

STYLES, CLASSES = ('photo', 'cartoon', 'sketch'), ('cat', 'dog', 'pig')
SMALL_NETWORK = {'data.resize': 8, 'data.crop': 8, 'data.num_images': 0, 'study.samples': 100}


def small_networks(config) -> None:
  for classifier in config.classifiers.values():
    classifier.name = 'small_cnn'
    classifier.initial_weights = ''
  config.training.body_rate = 1.0
  config.precision = 'float32'


@pytest.fixture
def styles(tmp_path: pathlib.Path) -> pathlib.Path:
  """STYLE/CLASS/k.png, four random pictures in each; those of sketched cats are one picture."""
  draw = np.random.default_rng(0)
  for style in STYLES:
    for name in CLASSES:
      (tmp_path / 'styles' / style / name).mkdir(parents=True)
      for k in range(4):
        fresh = np.random.default_rng(1) if (style, name) == ('sketch', 'cat') else draw
        pixels = fresh.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / 'styles' / style / name / f'{k}.png')
  return tmp_path / 'styles'


def test_a_folder_of_styles(styles: pathlib.Path, tmp_path: pathlib.Path) -> None:
  changes = {**SMALL_NETWORK, 'data.path': str(styles), 'data.name': 'photo'}
  config = runs.shrunk('systematic_renditions', 'folder', changes)
  small_networks(config)
  config.data.class_groups = (('dog',), ('cat',))
  config.data.random_class_groups = 0
  results = runs.run(config, tmp_path / 'run')
  estimate(results.table, 'erm', 'rho')
  estimate(results.table, 'erm', 'seen', environment='cartoon')
  assert estimate(results.table, 'clean', 'clean_accuracy').n == 6
  grid = select(results.table, 'accuracy', environment=..., class_group=...)
  environments = grid[grid.classifier == 'erm'].environment
  assert environments.tolist() == ['clean (photo)', 'cartoon', 'sketch'] * 3
  assert 'clean (photo)' in (tmp_path / 'run/report.html').read_text()
  check_near_duplicates(results)


def check_near_duplicates(results: Results) -> None:
  """Two of the sketched cats are in the test, two in the training of `erm`."""
  table = results.tables['near_duplicates']
  copies = [row for row in table.rows if row[3] == 0]
  assert [row[0] for row in copies] == ['erm'] * 4
  assert [row[4:] for row in copies] == [['cat', 'cat', 'sketch', 'sketch']] * 4
  assert estimate(results.table, 'clean', 'near_duplicates').n == 18
  assert estimate(results.table, 'erm', 'near_duplicates').note.endswith('at most 4 of 64 bits')


def test_domains_of_tfds(tmp_path: pathlib.Path) -> None:
  """A picture of training is in the test of `sketch` too, and `sketch` has no pig."""
  for number, style in enumerate(STYLES):
    own = {
      split: [
        (name, 80 * number + 20 * c + first + k) for c, name in enumerate(CLASSES) for k in range(n)
      ]
      for split, first, n in (('train', 0, 3), ('test', 10, 2))
    }
    if style == 'sketch':
      own = {split: [p for p in pictures if p[0] != 'pig'] for split, pictures in own.items()}
      own['test'].append(own['train'][0])
    write_domain(tmp_path / 'tfds', 'made_domains', style, own, CLASSES, side=8)
  changes = {
    **SMALL_NETWORK,
    'data.path': 'tfds:made_domains',
    'data.data_dir': str(tmp_path / 'tfds'),
  }
  config = runs.shrunk('systematic_renditions', 'domainnet', {**changes, 'data.name': 'photo'})
  small_networks(config)
  config.data.random_class_groups = 0
  config.data.class_groups = (('cat',), ('dog',))
  results = runs.run(config, tmp_path / 'run')
  assert results.data['missing_cells'] == ['sketch/pig']
  assert results.data['duplicates_left_out'] == [0, 0, 1]
  assert estimate(results.table, 'erm', 'accuracy', environment='sketch').n == 4
  none = estimate(results.table, 'erm', 'accuracy', environment='sketch', **{'class': 'pig'})
  assert np.isnan(none.value) and none.n == 0
