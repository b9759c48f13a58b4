"""`robustness report` draws figures and reports again, byte for byte, from results alone."""

import json
import re
import shutil

import numpy as np
import pytest

from configs import video_pm_k
from robustness.__main__ import main
from robustness.cli import verification
from robustness.cli.redraw import redraw
from robustness.config.defaults import default_battery
from robustness.workdirs import workdir as workdirs
from tests import finished_runs
from tests.end_to_end import runs
from tests.refusals import refused
from tests.video.rescoring_test import save_scores


@pytest.fixture(scope='module')
def finished_battery(tmp_path_factory):
  """A workdir of two studies of a network that was trained for a step with each of two seeds."""
  folder = tmp_path_factory.mktemp('battery')
  pixels = np.random.default_rng(0).integers(0, 256, (8, 28, 28, 1), np.uint8)
  stored = {'images': pixels, 'labels': np.arange(8) % 3}
  arrays = {f'{k}_{split}': stored[k] for split in ('train', 'test') for k in stored}
  np.savez(folder / 'images.npz', class_names=np.array(['ant', 'bee', 'cat']), **arrays)
  config = default_battery({'plain': 'accuracy', 'errors': 'corruption_error'})
  config.seeds = (0, 1)
  config.data.source, config.data.npz.path = 'npz', str(folder / 'images.npz')
  config.battery.errors.study.corruptions = ('brightness',)
  config.battery.errors.study.severities = (5,)
  config.classifier.name, config.classifier.train = 'small_cnn', True
  config.training.steps, config.training.batch_size = 1, 8
  runs.run(config, folder / 'run')
  return folder / 'run'


def pages(workdir):
  """Returns the bytes of all figures and reports, without the note that records are missing."""
  files = [*workdir.rglob('*.png'), *workdir.rglob('report.html')]
  mark = re.compile(rb'<dt>values</dt><dd>[^<]*not verifiable from records[^<]*</dd>')
  return {str(path.relative_to(workdir)): mark.sub(b'', path.read_bytes()) for path in files}


def delete_pages(workdir):
  for name in pages(workdir):
    (workdir / name).unlink()


@pytest.mark.slow
def test_tasks_and_seeds_are_drawn_again_without_records_and_weights(
  finished_battery, tmp_path, capsys
):
  workdir = shutil.copytree(finished_battery, tmp_path / 'run')
  before = pages(workdir)
  assert {'report.html', 'seed0/report.html', 'seed1/tasks/errors/report.html'} < set(before)
  delete_pages(workdir)
  for folder in ('records', 'checkpoints'):
    shutil.rmtree(workdir / 'seed1' / folder)
  assert main(['report', str(workdir)]) == 0
  assert capsys.readouterr().out.strip() == str(workdir / 'report.html')
  assert pages(workdir) == before
  unverified = [f for f in workdir.rglob('report.html') if b'not verifiable' in f.read_bytes()]
  verifiable = {workdir / name for name in ('seed0', 'seed0/tasks/plain', 'seed0/tasks/errors')}
  folders = {file.parent for file in workdir.rglob('report.html')}
  assert {file.parent for file in unverified} == folders - verifiable
  assert verification.unverifiable(workdir / 'seed0') == {}
  assert set(verification.unverifiable(workdir / 'seed1')) == {workdir / 'seed1'}


@pytest.mark.slow
def test_scored_predictions_are_drawn_again(tmp_path):
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = str(save_scores(tmp_path)), str(tmp_path / 'sets')
  runs.run(config, tmp_path / 'run')
  before = pages(tmp_path / 'run')
  delete_pages(tmp_path / 'run')
  assert redraw(str(tmp_path / 'run')) == tmp_path / 'run/report.html'
  assert len(before) > 1 and pages(tmp_path / 'run') == before
  assert main(['report', str(tmp_path / 'run'), '--pdf']) == 0
  figures = tmp_path / 'run' / 'figures'
  assert {f.stem for f in figures.glob('*.pdf')} == {f.stem for f in figures.glob('*.png')} != set()


@pytest.mark.slow
def test_an_unfinished_run_is_refused_with_the_missing_files_and_the_command_to_resume(
  finished_battery, tmp_path
):
  workdir = shutil.copytree(finished_battery, tmp_path / 'run')
  (workdir / 'results.json').unlink()
  (workdir / 'seed1/tasks/errors/results.json').unlink()
  shutil.rmtree(workdir / 'seed1/checkpoints/small_cnn/checkpoints')
  (shard,) = (workdir / 'seed1/records').glob('corruption_error-*/small_cnn/*.npz')
  shard.unlink()
  first = 'it has no seed1/tasks/errors/results.json, results.json.'
  message = refused(first, redraw, str(workdir))
  for line in (
    first,
    'seed0/checkpoints/small_cnn: trained',
    'seed1/checkpoints/small_cnn: step 0 of 1 is saved',
    f'{shard.parent.relative_to(workdir)}: 1 of 1 shards are missing',
  ):
    assert f'{line}\n' in message
  assert message.endswith('The same command resumes it:\n  python main.py')


def test_a_folder_that_is_no_workdir_is_refused_with_the_reason(tmp_path):
  finished_runs.write(tmp_path / 'workdirs/run', {'net': [True, False]})
  for path, message in (
    (tmp_path / 'none', 'is no folder'),
    (tmp_path, 'has no config.json and environment.json, which every run writes.'),
    (tmp_path / 'workdirs', 'which every run writes; workdirs inside it: run.'),
  ):
    refused(message, redraw, str(path))


def test_nothing_is_drawn_while_a_run_works_in_the_workdir(tmp_path):
  folder = finished_runs.write(tmp_path / 'run', {'net': [True, False]})
  (folder / 'environment.json').write_text(json.dumps(workdirs.environment('a command')))
  with workdirs.locked(folder):
    refused('another run works in the workdir', redraw, str(folder))
  assert not (folder / 'report.html').exists()
  redraw(str(folder))
  assert (folder / 'report.html').exists()
