"""A file system that is full or read-only: one line says so, and the same command resumes."""

import subprocess

import pytest

from robustness.core import disk
from robustness.training.writers import training_writer
from tests.end_to_end import runs

CHANGES = {'data.num_images': 100, 'training.steps': 30, 'training.checkpoint_every_steps': 5}


@pytest.fixture
def mount(tmp_path):
  """Mounts a file system in memory with the given options, or remounts it with others."""
  folder = tmp_path / 'small'
  folder.mkdir()
  mounted = False

  def begin(options):
    nonlocal mounted
    options = f'remount,{options}' if mounted else options
    command = ['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
      pytest.skip('mounting a file system needs the rights of root')
    mounted = True
    return folder

  yield begin
  if mounted:
    subprocess.run(['umount', '--lazy', str(folder)], check=True)


def refused(process: subprocess.Popen[str], message: str) -> None:
  """Checks that a process ends with status 2 and one error line with this message."""
  output = runs.finish(process, status=2)
  (line,) = [line for line in output.splitlines() if line.startswith('error: ')]
  assert message in line


@pytest.mark.slow
def test_a_training_that_filled_the_disk_resumes_when_there_is_room(start, mount, tmp_path):
  workdir = mount('size=600k') / 'run'  # room for the first checkpoint, not for the second
  refused(start(workdir, 'train.py', CHANGES), 'no space left on disk')
  assert list(workdir.glob('checkpoints/small_cnn/checkpoints/5'))
  mount('size=8m')
  runs.finish(start(workdir, 'train.py', CHANGES))
  runs.finish(start(tmp_path / 'other', 'train.py', CHANGES))
  runs.assert_same_findings(workdir, tmp_path / 'other')


def test_an_error_while_events_are_written_is_recognised_as_a_full_disk(mount):
  folder = mount('size=64k')
  writer = training_writer(folder, 'natural')
  writer.write_scalars(0, {'loss': 1.0})
  writer.flush()
  with pytest.raises(OSError):
    (folder / 'filler').write_bytes(bytes(2**20))
  with pytest.raises(Exception) as raised:
    for step in range(1000):
      writer.write_scalars(step, {'loss': 1.0})
  advice = disk.advice(raised.value, folder)
  assert advice is not None and 'no space left on disk' in advice
