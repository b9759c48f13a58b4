"""Figures and reports come again from results alone, byte for byte; what is unfinished is named."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import pytest

from configs import video_pm_k
from robustness.cli.main import main
from robustness.cli.redraw import redraw
from robustness.config.defaults import default_battery
from robustness.core.errors import InputError
from tests.end_to_end import runs
from tests.video.rescoring_test import saved


@pytest.fixture(scope='module')
def finished_battery(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A workdir of two studies of a network that was trained for a step with each of two seeds."""
  folder = tmp_path_factory.mktemp('battery')
  pixels = np.random.default_rng(0).integers(0, 256, (8, 28, 28, 1), np.uint8)
  arrays = {
    f'{name}_{split}': values
    for split in ('train', 'test')
    for name, values in (('images', pixels), ('labels', np.arange(8) % 3))
  }
  np.savez(folder / 'images.npz', class_names=np.array(['ant', 'bee', 'cat']), **arrays)
  config = default_battery({'plain': 'accuracy', 'errors': 'corruption_error'})
  config.seeds = (0, 1)
  config.data.source, config.data.path = 'npz', str(folder / 'images.npz')
  config.battery.errors.study.corruptions = ('brightness',)
  config.battery.errors.study.severities = (5,)
  config.classifier.name, config.classifier.train = 'small_cnn', True
  config.training.steps, config.training.batch_size = 1, 8
  runs.run(config, folder / 'run')
  return folder / 'run'


def pages(workdir: pathlib.Path) -> dict[str, bytes]:
  """Returns the bytes of all figures and reports."""
  return {
    str(path.relative_to(workdir)): path.read_bytes()
    for pattern in ('**/*.png', '**/report.html')
    for path in workdir.glob(pattern)
  }


def forget_pages(workdir: pathlib.Path) -> None:
  for name in pages(workdir):
    (workdir / name).unlink()


@pytest.mark.slow
def test_parts_and_seeds_are_drawn_again_without_records_and_weights(
  finished_battery: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  workdir = shutil.copytree(finished_battery, tmp_path / 'run')
  before = pages(workdir)
  assert {'report.html', 'seed0/report.html', 'seed1/parts/errors/report.html'} < set(before)
  forget_pages(workdir)
  for folder in ('records', 'checkpoints'):
    shutil.rmtree(workdir / 'seed1' / folder)
  assert main(['report', str(workdir)]) == 0
  assert capsys.readouterr().out.strip() == str(workdir / 'report.html')
  assert pages(workdir) == before


def test_scored_predictions_are_drawn_again(tmp_path: pathlib.Path) -> None:
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = str(saved(tmp_path)), str(tmp_path / 'sets')
  runs.run(config, tmp_path / 'run')
  before = pages(tmp_path / 'run')
  forget_pages(tmp_path / 'run')
  assert redraw(str(tmp_path / 'run')) == tmp_path / 'run/report.html'
  assert len(before) > 1 and pages(tmp_path / 'run') == before


def test_of_an_unfinished_run_it_says_what_is_missing_and_how_to_finish(
  finished_battery: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  workdir = shutil.copytree(finished_battery, tmp_path / 'run')
  (workdir / 'results.json').unlink()
  (workdir / 'seed1/parts/errors/results.json').unlink()
  shutil.rmtree(workdir / 'seed1/checkpoints/small_cnn/checkpoints')
  (shard,) = (workdir / 'seed1/records').glob('corruption_error-*/small_cnn/*.npz')
  shard.unlink()
  with pytest.raises(InputError) as caught:
    redraw(str(workdir))
  message = str(caught.value)
  assert 'it has no seed1/parts/errors/results.json, results.json.\n' in message
  assert 'seed0/checkpoints/small_cnn: trained\n' in message
  assert 'seed1/checkpoints/small_cnn: step 0 of 1 is saved\n' in message
  records = shard.parent.relative_to(workdir)
  assert f'{records}: 1 of 1 shards are missing\n' in message
  assert message.endswith('goes on where it stopped:\n  python main.py')


def test_what_is_no_workdir_is_named(
  finished_battery: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  for path, message in (
    (tmp_path / 'none', 'is no folder'),
    (tmp_path, 'has no config.json and environment.json, which every run writes.'),
    (finished_battery.parent, 'which every run writes; workdirs inside it: run.'),
  ):
    with pytest.raises(InputError, match=message):
      redraw(str(path))
