"""The whole table end to end: a network beside a callable, shared records, resumed by part."""

from __future__ import annotations

import pathlib

import pytest

from robustness.config import experiment
from robustness.core.errors import InputError
from robustness.present import headlines
from robustness.results import Results
from tests.end_to_end import runs
from tests.end_to_end.own_classifier_test import SOURCE

FOG = {'corruptions': ('fog',), 'severities': (5,)}
FIRST = ('clean', 'corruptions', 'calibration')
CHANGES = {
  'battery.parts': FIRST,
  **{f'battery.{part}.study.{key}': v for part in FIRST[1:] for key, v in FOG.items()},
  'battery.calibration.study.resamples': 20,
  'battery.attack.study.steps': 1,
}


def shards(workdir: pathlib.Path) -> dict[str, int]:
  return {str(p): p.stat().st_mtime_ns for p in sorted(workdir.glob('records/*/*/*.npz'))}


@pytest.mark.slow
def test_a_network_and_a_callable(tmp_path: pathlib.Path) -> None:
  file = runs.save_weights(tmp_path / 'digits.safetensors', 'small_cnn')
  (tmp_path / 'mine.py').write_text(SOURCE.format(path=file))
  config = runs.shrunk('battery', 'digits', CHANGES)
  for classifier in config.classifiers.values():
    classifier.train = False
  config.classifiers.natural.weights = file
  config.classifiers.gaussian.name = f'{tmp_path / "mine.py"}:network'
  workdir = tmp_path / 'run'
  results = runs.run(config, workdir)

  rows = {row[0]: row[1:] for row in headlines.table(results.by_part).rows}
  assert {name.partition(':')[0] for name in rows} == set(FIRST)
  first, second, difference, *_ = rows['clean: top-1 accuracy (%)']
  assert first.removeprefix('worst: ') == second.removeprefix('worst: '), 'the same network'
  assert difference.startswith('0 (')
  recorded = {path.parent.parent.name for path in workdir.glob('records/*/*/header.json')}
  assert len(recorded) == 2, 'calibration is reduced from the records of the corruptions'
  assert (workdir / 'figures' / 'overview_share_lower.png').stat().st_size > 0
  single = {name: Results.read(workdir / 'parts' / name).table for name in FIRST}
  assert results.table.part.value_counts().to_dict() == {n: len(t) for n, t in single.items()}

  before = shards(workdir)
  config.battery.parts = (*FIRST, 'attack')
  further = runs.run(config, workdir)
  assert {path: time for path, time in shards(workdir).items() if path in before} == before
  attacked = headlines.table(further.by_part).rows[-1]
  assert attacked[0].startswith('attack: ') and attacked[1] and not attacked[2]
  assert further.tables['left out'].rows[0][:2] == ['attack', 'gaussian']


@pytest.mark.parametrize('variant', ['digits', 'cifar10', 'imagenet'])
def test_every_variant_is_valid_and_names_unknown_parts(variant: str) -> None:
  config = runs.shrunk('battery', variant)
  checked = experiment.from_config(config.to_dict())
  assert list(checked.measurements)[:2] == ['clean', 'corruptions']
  config.battery.parts = ('clean', 'corruption')
  with pytest.raises(InputError, match="names 'corruption'; did you mean 'corruptions'"):
    experiment.from_config(config.to_dict())


def test_a_mistake_in_a_parts_own_rows_names_its_section(tmp_path: pathlib.Path) -> None:
  config = runs.shrunk('battery', 'digits', {'battery.parts': ('clean', 'neighbors')})
  for classifier in config.classifiers.values():
    classifier.train = False
    classifier.weights = runs.save_weights(tmp_path / 'digits.safetensors', 'small_cnn')
  config.battery.neighbors.data.num_images = 100_000
  message = r'config\.battery\.neighbors\.data\.num_images is 100000; it must be at most'
  with pytest.raises(InputError, match=message):
    runs.run(config, tmp_path / 'run')
