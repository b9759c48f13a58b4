"""A battery end to end: trained once, recorded once for two parts, resumed, a part alone."""

from __future__ import annotations

import logging
import pathlib

import numpy as np
import pytest

from configs.fourier_table import get_config
from robustness.augment.cutout_and_noise import Cutout
from robustness.augment.flip_and_crop import Crop
from robustness.config import experiment
from robustness.results import Results
from robustness.training import loop
from tests.end_to_end import runs
from tests.table_rows import estimate

CORRUPTIONS = ('shot_noise', 'contrast', 'brightness')


def shards(workdir: pathlib.Path) -> dict[str, int]:
  return {
    str(p.relative_to(workdir)): p.stat().st_mtime_ns
    for p in sorted((workdir / 'records').rglob('*.npz'))
  }


@pytest.mark.slow
def test_a_battery_of_digits(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
  config = runs.shrunk(
    'fourier_table',
    changes={
      'battery.errors.study.corruptions': CORRUPTIONS,
      'battery.tradeoff.study.corruptions': CORRUPTIONS,
      'battery.heat_maps.study.window': 3,
      'battery.heat_maps.data.num_images': 8,
    },
  )
  for label in ('adversarial', 'low_pass', 'high_pass'):
    del config.classifiers[label]
  workdir = tmp_path / 'run'
  with caplog.at_level(logging.INFO):
    results = runs.run(config, workdir)
  logged = [record.getMessage() for record in caplog.records]
  assert any(line.startswith('top-1 error on clean images (%) ') for line in logged)

  parts = {name: Results.read(workdir / 'parts' / name) for name in config.battery.parts}
  assert list(parts) == ['errors', 'tradeoff', 'heat_maps']
  assert estimate(parts['heat_maps'].table, 'natural', 'clean_error').n == 8
  for name, part in parts.items():
    of_part = results.table[results.table.part == name]
    np.testing.assert_array_equal(of_part.value, part.table.value)
    assert (workdir / 'parts' / name / 'report.html').stat().st_size > 0
  assert len(Results.read(workdir).tables['table 3'].rows) == 1 + len(CORRUPTIONS)
  printed = results.table[results.table['source'] == 'published']
  assert printed.part.isna().all() and set(printed.classifier) >= {'natural', 'gaussian'}
  page = (workdir / 'report.html').read_text()
  pictures = len(list(workdir.glob('**/figures/*.png')))
  assert page.count('data:image/png;base64,') == pictures, 'one report has all figures'

  recorded = {path.parent.parent.name for path in workdir.glob('records/*/*/header.json')}
  assert len(recorded) == 2, 'errors and trade-off are reduced from the same records'
  change, difference = (
    estimate(parts[part].table, 'gaussian', quantity, 'natural', corruption='contrast').value
    for part, quantity in (('tradeoff', 'accuracy'), ('errors', 'error'))
  )
  assert change == pytest.approx(-difference)

  before = shards(workdir)
  monkeypatch.setattr(loop, '_Run', None)  # no training step can be made
  config.battery.parts = ('tradeoff',)
  alone = runs.run(config, workdir)
  assert shards(workdir) == before
  np.testing.assert_array_equal(alone.table.value, parts['tradeoff'].table.value)


@pytest.mark.parametrize('variant', ['digits', 'small', 'full', 'imagenet'])
def test_every_variant_is_valid(variant: str) -> None:
  checked = experiment.from_config(runs.shrunk('fourier_table', variant).to_dict())
  assert list(checked.classifiers)[:2] == ['natural', 'gaussian']
  first, second = [*checked.studies.values()][:2]
  assert first.recording == second.recording and first.stream == second.stream


@pytest.mark.parametrize(
  ('variant', 'order'),
  [('full', ('auto_augment', 'crop', 'flip', 'cutout')), ('imagenet', ('flip', 'auto_augment'))],
)
def test_auto_augment_is_applied_in_the_order_of_the_released_code(
  variant: str, order: tuple[str, ...]
) -> None:
  """Of CIFAR-10 what is padded and what is covered is 0 after normalisation."""
  recipe = experiment.from_config(get_config(variant).to_dict()).classifiers['auto_augment']
  parts = {part.name: part for part in recipe.augment.augmentations}
  assert tuple(parts) == order
  if variant == 'full':
    assert parts['crop'] == Crop(4, 'mean_colour')
    assert parts['cutout'] == Cutout(16)
