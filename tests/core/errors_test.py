"""What a user's file does wrong is an error that names the line."""

import argparse
import sys

import pytest

from robustness.__main__ import main
from robustness.cli import running
from robustness.config.defaults import default_config
from robustness.core.errors import exits_refused
from tests.refusals import refused

STUDY = """
import dataclasses
import sys
from robustness.studies.accuracy import Accuracy

@dataclasses.dataclass(frozen=True)
class AtEstimates(Accuracy):
  def reduce(self, evaluations, image_shape):
    sys.exit(0)
"""


def test_an_exit_names_its_line_and_that_of_a_parser_of_words_passes():
  with exits_refused():
    pass

  def ended():
    with exits_refused():
      sys.exit(0)

  refused(r'errors_test\.py, line \d+, called sys\.exit\(0\)', ended)
  with pytest.raises(SystemExit), exits_refused():
    argparse.ArgumentParser().parse_args(['--help'])


@pytest.mark.parametrize('text', ['import sys\nsys.exit(0)', 'def get_config():\n  exit(0)'])
def test_a_config_that_ends_the_process_does_not_end_it_with_success(tmp_path, text, capsys):
  (tmp_path / 'own.py').write_text(text)
  with pytest.raises(SystemExit) as ended:
    main([f'{tmp_path}/own.py', f'--workdir={tmp_path}/run'])
  assert ended.value.code == 2
  assert 'exit(0)' in capsys.readouterr().err


def test_a_study_that_ends_the_process_while_it_runs_does_not_end_it_with_success(
  tmp_path, monkeypatch, capsys
):
  monkeypatch.setattr('robustness.cli.process.set_devices', lambda _: None)  # the tests set them
  (tmp_path / 'own.py').write_text(STUDY)
  config = default_config(f'{tmp_path}/own.py:AtEstimates')
  config.classifier.train = True
  config.data.num_images, config.training.steps, config.training.batch_size = 8, 1, 8
  assert running.run_command(config, str(tmp_path / 'run'), 'typed') == 2
  assert 'own.py, line 9, called sys.exit(0)' in capsys.readouterr().err
