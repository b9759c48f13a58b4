"""The Fourier attack: frequencies chosen on other images, queries added up, finished maps read."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.estimates.table import assemble, select
from robustness.results import Results
from robustness.studies import fourier_attack, fourier_heatmap, fourier_preview
from tests.end_to_end import runs
from tests.networks import SHAPE
from tests.studies.conftest import Evaluate, rows
from tests.table_rows import assert_same, assert_same_arrays, estimate

STUDY = fourier_attack.Study(norm=1.0, queries=3)


def test_half_of_the_images_choose_and_the_others_are_measured(evaluate: Evaluate) -> None:
  evaluations = evaluate(STUDY)
  findings = STUDY.reduce(evaluations, SHAPE)
  frequencies = STUDY._frequencies(SHAPE)
  assert len(STUDY.views(SHAPE)) == 1 + len(frequencies)
  for evaluation in evaluations:
    wrong = evaluation.records.table('rank') > 0
    choosing, measured = wrong[::2], wrong[1::2]
    worst = np.argsort(-choosing[:, 1:].mean(0), kind='stable')[:3]
    by_queries = [measured[:, 1 + worst[:n]].any(1).mean() for n in (1, 2, 3)]
    label = evaluation.label
    np.testing.assert_allclose(findings.arrays[f'{label}/error_by_queries'], by_queries)
    np.testing.assert_array_equal(
      findings.arrays[f'{label}/chosen_frequencies'],
      np.stack([frequencies.fy[worst], frequencies.fx[worst]], 1),
    )
    assert findings.numbers[f'{label}/error_1_query'].value == by_queries[0]
    assert findings.numbers[f'{label}/error_3_queries'].value == by_queries[2]
    assert findings.numbers[f'{label}/clean_error'].n == len(measured)
  assert [row[2] for row in findings.tables['comparison'].rows][:3] == [
    'clean',
    '1 query',
    '2 queries',
  ]


def test_the_clean_view_is_told_apart(evaluate: Evaluate) -> None:
  names, groups = STUDY.name_views(SHAPE), STUDY.group_views(SHAPE)
  views = STUDY.views(SHAPE)
  assert names[0] == 'clean' and names[1:] == [
    f'fy={y}, fx={x}'
    for y, x in zip(views.parameters['fy'][1:], views.parameters['fx'][1:], strict=True)
  ]
  assert groups == {'clean': [0], 'all frequencies': list(range(1, len(views)))}
  (evaluation,) = evaluate(STUDY, ('first',))
  assert STUDY.view_table(evaluation.records, SHAPE).clean == 0


def finished(directory: pathlib.Path, error: np.ndarray, **data: object) -> str:
  """Leaves the results of a heat map of one classifier."""
  frequencies = fourier_heatmap.Study().frequencies(SHAPE)
  described = {'image_shape': list(SHAPE), **data}
  arrays = {'error': error, 'frequency_y': frequencies.axis_y, 'frequency_x': frequencies.axis_x}
  Results('fourier_heatmap', {'label': 'any'}, described, {}, arrays=arrays).write(directory)
  return str(directory)


def test_a_finished_map_names_the_frequencies(evaluate: Evaluate, tmp_path: pathlib.Path) -> None:
  whole = fourier_heatmap.Study().frequencies(SHAPE)
  expected = [whole.cell[4, 3], whole.cell[3, 2], whole.cell[1, 1]]
  errors = np.zeros(len(whole))
  errors[expected] = 0.9, 0.7, 0.5
  error = errors[whole.cell]
  map_dir = finished(tmp_path / 'map', error, source='elsewhere')
  study = dataclasses.replace(STUDY, heat_map=map_dir)
  views = study.views(SHAPE)
  assert len(views) == 4
  findings = study.reduce(evaluate(study, ('first',)), SHAPE)
  chosen = findings.arrays['chosen_frequencies']
  np.testing.assert_array_equal(chosen, np.stack([whole.fy[expected], whole.fx[expected]], 1))
  assert findings.numbers['clean_error'].n == 40, 'no image of this run chose'
  heat_map_views = fourier_heatmap.Study().views(SHAPE)
  assert set(views.ids.tolist()) <= set(heat_map_views.ids.tolist()), 'signs are those of heat maps'
  assert study.facts['heat_map_sha256'] != STUDY.facts.get('heat_map_sha256')


def test_maps_of_the_same_images_or_of_another_size_are_refused(tmp_path: pathlib.Path) -> None:
  data = rows()
  same = {k: v for k, v in data.description.items() if k != 'image_shape'}
  study = dataclasses.replace(
    STUDY, heat_map=finished(tmp_path / 'same', np.zeros(SHAPE[:2]), **same)
  )
  with pytest.raises(InputError, match='very images of this run'):
    study.check_rows(data)
  with pytest.raises(InputError, match='6 × 5 pixels; these are 8 × 8'):
    study.views((8, 8, 3))
  Results('accuracy', {'label': 'any'}, {}, {}).write(tmp_path / 'other')
  other = dataclasses.replace(STUDY, heat_map=str(tmp_path / 'other'))
  with pytest.raises(InputError, match='run of the study accuracy: give the workdir of a'):
    other.views(SHAPE)
  with pytest.raises(InputError, match=r'no results\.json'):
    fourier_preview.Study(heat_map=str(tmp_path / 'none')).views(SHAPE)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'norm': -1.0}, r'config\.study\.norm is -1\.0'),
    ({'queries': 0}, r'config\.study\.queries is 0'),
    ({'phase': 'sine'}, r"config\.study\.phase is 'sine'"),
  ],
)
def test_bad_settings_are_refused(change: dict, message: str) -> None:
  with pytest.raises(InputError, match=message):
    fourier_attack.Study(**change)


def test_more_queries_than_frequencies_are_refused() -> None:
  with pytest.raises(InputError, match=r'queries is 99; it must be at most \d+'):
    fourier_attack.Study(queries=99).views(SHAPE)


@pytest.mark.slow
def test_the_config_of_digits_runs_end_to_end(tmp_path: pathlib.Path) -> None:
  config = runs.shrunk('fourier_attack', 'digits', {'study.queries': 3})
  results = runs.run(config, tmp_path / 'run')
  for name in ('error_by_queries', 'sample_images'):
    assert (tmp_path / 'run/figures' / f'{name}.png').stat().st_size > 0
  for label in ('natural', 'gaussian'):
    assert results.numbers[f'{label}/error_1_query'].n == 12
    assert (np.diff(results.arrays[f'{label}/error_by_queries']) >= 0).all()


@pytest.mark.slow
@pytest.mark.usefixtures('shallow_resnet')
def test_the_config_of_cifar10_runs_on_a_finished_heat_map(
  cifar10_dir: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  """Two draws of 24 images: those that both hold are left out."""
  weights = runs.save_weights(tmp_path / 'weights.safetensors', 'resnet20')
  common = {'classifier.weights': weights, 'data.data_dir': str(cifar10_dir)}
  heat_map = runs.shrunk('fourier_heatmap', 'cifar10', {**common, 'study.window': 3})
  runs.run(heat_map, tmp_path / 'map')
  changes = {**common, 'study.heat_map': str(tmp_path / 'map'), 'study.queries': 2, 'seed': 1}
  config = runs.shrunk('fourier_attack', 'cifar10', changes)
  results = runs.run(config, tmp_path / 'run')
  assert 20 <= results.numbers['error_2_queries'].n <= 24
  config.seed = 0
  with pytest.raises(InputError, match='very images of this run'):
    runs.run(config, tmp_path / 'same')
  preview = {k: v for k, v in changes.items() if k != 'study.queries'}
  results = runs.run(runs.shrunk('fourier_preview', 'cifar10', preview), tmp_path / 'preview')
  assert results.arrays['measured_error'].shape == (3, 3)
  assert results.arrays['sensitivity'].shape == (32, 32)


def test_the_table_has_every_number_and_array(evaluate: Evaluate) -> None:
  findings = STUDY.reduce(evaluate(STUDY), SHAPE)
  results = assemble(findings.estimates)
  ends = ('', '_low', '_high')
  own = select(results, 'error', queries=...)
  for label in ('first', 'second'):
    arrays = [findings.arrays[f'{label}/error_by_queries{end}'] for end in ends]
    assert_same_arrays(own[own.classifier == label], *arrays)
    assert_same(estimate(results, label, 'clean_error'), findings.numbers[f'{label}/clean_error'])
  pairs = select(results, 'error', 'first', queries=...)
  assert_same_arrays(pairs, *(findings.arrays[f'second/difference{e}'] for e in (*ends, '_p')))
