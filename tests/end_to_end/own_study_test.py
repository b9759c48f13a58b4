"""A study in a user's Python file goes through a whole run, by either program."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from robustness import workdir as workdirs
from robustness.cli.command_line import load_config, read
from robustness.core.errors import InputError
from robustness.results import SINGLE, Results
from tests.end_to_end import runs

SOURCE = """
import dataclasses
import jax.numpy as jnp
import numpy as np
from robustness.estimates.means import means
from robustness.estimates.quantity import ACCURACY
from robustness.evaluation.outcomes import right
from robustness.evaluation.study import Study
from robustness.evaluation.views import Views

@dataclasses.dataclass(frozen=True)
class Shift(Study):
  largest: int = 4
  quantities = (ACCURACY,)

  def views(self, image_shape):
    pixels = np.arange(self.largest + 1, dtype=np.int32)
    show = lambda key, row, view: jnp.roll(row['image'], view['pixels'], axis=1)
    return Views(show, ids=pixels, parameters={'pixels': pixels})

  def estimates(self, recorded):
    yield means(ACCURACY, recorded.outcomes(right), ('pixels',), test=True)
"""
SMALL = ('--config.data.num_images=8', '--config.training.steps=1', '--config.study.largest=2')


@pytest.fixture
def name(tmp_path: pathlib.Path) -> str:
  (tmp_path / 'mine.py').write_text(SOURCE)
  return f'--config.study.name={tmp_path / "mine.py"}:Shift'


@pytest.mark.parametrize('program', [['main.py'], ['-m', 'robustness']])
def test_a_study_in_a_file_is_run(tmp_path: pathlib.Path, name: str, program: list[str]) -> None:
  workdir = tmp_path / 'out'
  config = f'--config={runs.ROOT / "configs/filtered_accuracy.py"}'
  command = [sys.executable, *program, config, *SMALL, name, f'--workdir={workdir}']
  ended = subprocess.run(command, cwd=runs.ROOT, capture_output=True, text=True)
  assert ended.returncode == 0, ended.stderr
  results = Results.read(workdir)
  assert results.study == 'Shift' and results.settings['largest'] == 2
  assert results.settings['file'] == 'mine.py' and len(results.settings['file_sha256']) == 64
  found = results.table[(results.table.quantity == 'accuracy') & (results.table.pixels >= 0)]
  assert sorted(set(found.pixels)) == [0, 1, 2]
  study = workdirs.read(workdir)[SINGLE].study
  assert study.describe().items() <= results.settings.items()
  again = load_config(str(workdir / 'config.json'))
  assert again.study.to_dict() == {'name': name.partition('=')[2], 'largest': 2}


def test_its_settings_are_checked(name: str) -> None:
  arguments = ['x', '--config=configs/filtered_accuracy.py', name]
  with pytest.raises(InputError, match='unknown key config.study.bandwidths'):
    read([*arguments, '--config.study.bandwidths=(1,)'])
  with pytest.raises(InputError, match='has no .Shifts.'):
    read([*arguments[:2], f'{name}s'])
