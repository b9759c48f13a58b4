"""Tests the study `fourier_attack`: how frequencies are chosen and queries are counted."""

import dataclasses
import pathlib

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.estimates.means import arrays
from robustness.estimates.quantity import ERROR
from robustness.estimates.table import assemble, select
from robustness.results import Results
from robustness.studies import fourier_attack, fourier_heatmap, fourier_preview
from tests.made_records import made
from tests.networks import SHAPE
from tests.refusals import bad_setting, refused
from tests.studies.conftest import measured, rows
from tests.table_rows import estimate

STUDY = fourier_attack.FourierAttack(norm=1.0, queries=3)


def waves(results: pd.DataFrame, label: str) -> pd.DataFrame:
  """Returns the errors under single frequencies in the order of queries."""
  rates = select(results, 'wave_error', queries=..., frequency_y=..., frequency_x=...)
  return rates[rates.classifier == label].sort_values('queries')


def test_versions_of_one_image_cannot_be_halved():
  versions = dataclasses.replace(rows(), columns={'base_id': np.zeros(rows().num_examples, int)})
  message = bad_setting('config.data.num_images', 40, 'not versions of one image')
  refused(message, STUDY.check, versions, {})


def test_frequencies_are_chosen_on_half_of_the_images_and_measured_on_the_rest():
  measurement, *evaluations = measured(STUDY)
  results = measurement.table
  frequencies = STUDY._frequencies(SHAPE)
  assert len(STUDY.views(SHAPE)) == 1 + len(frequencies)
  answers = {}
  for evaluation in evaluations:
    wrong, label = evaluation.records.table('rank') > 0, evaluation.label
    is_measured = STUDY._measured(evaluation.records)
    assert abs(is_measured.sum() - (~is_measured).sum()) <= 1
    assert len(set(np.diff(np.flatnonzero(is_measured)))) > 1, 'the halves are drawn at random'
    wrong_measured = wrong[is_measured]
    worst = np.argsort(-wrong[~is_measured][:, 1:].mean(0), kind='stable')[:3]
    rates = waves(results, label)
    np.testing.assert_array_equal(rates.frequency_y, frequencies.fy[worst])
    np.testing.assert_array_equal(rates.frequency_x, frequencies.fx[worst])
    np.testing.assert_allclose(rates.value, wrong_measured[:, 1 + worst].mean(0))
    answers[label] = [wrong_measured[:, 1 + worst[:n]].any(1) for n in (1, 2, 3)]
    for n, turned in enumerate(answers[label], 1):
      row = estimate(results, label, 'error', queries=n)
      exact = stats.binomtest(int(turned.sum()), len(turned)).proportion_ci(0.95, 'exact')
      assert (row.value, row.low, row.high) == pytest.approx((turned.mean(), *exact))
    clean = estimate(results, label, 'clean_error')
    assert (clean.value, clean.n) == (wrong_measured[:, 0].mean(), len(wrong_measured))
  for n, (first, second) in enumerate(zip(*answers.values(), strict=True), 1):
    row = estimate(results, 'second', 'error', 'first', queries=n)
    gained, lost = int((second & ~first).sum()), int((first & ~second).sum())
    assert row.value == pytest.approx((gained - lost) / len(first))
    assert row.p == pytest.approx(stats.binomtest(gained, max(1, gained + lost)).pvalue)
  names, groups = STUDY.view_table(SHAPE).names, STUDY.view_table(SHAPE).groups
  views = STUDY.views(SHAPE)
  places = zip(views.parameters['fy'][1:], views.parameters['fx'][1:], strict=True)
  assert list(names) == ['clean', *(f'fy={y}, fx={x}' for y, x in places)]
  assert groups == {'clean': [0], 'all frequencies': list(range(1, len(views)))}
  assert STUDY.by_row(evaluations[0].records, SHAPE).clean == 0


def finished(directory: pathlib.Path, error: np.ndarray, **data: object) -> str:
  """Writes the results of a heat map of one classifier, from the error at each frequency."""
  frequencies = fourier_heatmap.FourierHeatmap().frequencies(SHAPE)
  places = pd.DataFrame({'frequency_y': frequencies.fy, 'frequency_x': frequencies.fx})
  table = assemble([arrays(ERROR, 'any', places, error, n=9, confidence=0.95)])
  described = {'image_shape': list(SHAPE), **data}
  results = Results('fourier_heatmap', [{'label': 'any'}], described, {'window': 0}, table=table)
  results.write(directory)
  return str(directory)


def test_a_finished_map_names_the_frequencies(tmp_path):
  frequencies = fourier_heatmap.FourierHeatmap().frequencies(SHAPE)
  expected = [frequencies.cell[4, 3], frequencies.cell[3, 2], frequencies.cell[1, 1]]
  errors = np.zeros(len(frequencies))
  errors[expected] = 0.9, 0.7, 0.5
  study = dataclasses.replace(STUDY, heat_map=finished(tmp_path / 'map', errors, source='other'))
  views = study.views(SHAPE)
  assert len(views) == 4
  results = measured(study, ('first',))[0].table
  rates = waves(results, 'first')
  np.testing.assert_array_equal(rates.frequency_y, frequencies.fy[expected])
  np.testing.assert_array_equal(rates.frequency_x, frequencies.fx[expected])
  assert estimate(results, 'first', 'clean_error').n == 40, 'all images are measured'
  heat_map_views = fourier_heatmap.FourierHeatmap().views(SHAPE)
  assert set(views.ids.tolist()) <= set(heat_map_views.ids.tolist()), 'signs are those of the map'
  inverted = dataclasses.replace(STUDY, heat_map=finished(tmp_path / 'inverted', 1 - errors))
  assert study.facts['heat_map_sha256'] != inverted.facts['heat_map_sha256']


def test_heat_maps_of_the_same_images_or_of_another_size_are_refused(tmp_path):
  data = rows()
  facts = {k: v for k, v in data.description.items() if k != 'image_shape'}
  study = dataclasses.replace(STUDY, heat_map=finished(tmp_path / 'same', np.zeros(16), **facts))
  refused('very images of this run', study.check, data, {})
  fewer = dataclasses.replace(STUDY, heat_map=finished(tmp_path / 'few', np.zeros(16), **facts))
  fewer._map.results.data['num_examples'] = 4
  refused('few/records/any', fewer.check, data, {})
  for number in range(2):
    folder = tmp_path / f'few/records/any/round00{number}'
    made(folder, {'rank': np.zeros((2, 1), int), 'example_id': [2 * number, 2 * number + 1]})
  fewer.check(data, {})
  ids = [records.column('example_id') for records in fewer._map.records()]
  assert np.concatenate(ids).tolist() == [0, 1, 2, 3], 'two rounds of two images'
  refused('6 × 5 pixels; these are 8 × 8', study.views, (8, 8, 3))
  digests = {'rank': np.zeros((3, 1), int), 'example_id': [7, 8, 9], 'image_digest': [70, 80, 5]}
  seen = {**digests, 'image_digest': [70, 80, 90]}  # two of three images are the same
  places = {'single': 'records/any', 'whole/tasks/map': 'whole/records/fourier_heatmap-1/any'}
  for name, place in {**places, 'seeds': 'seed3/records/any'}.items():
    directory = finished(tmp_path / name, np.zeros(16), **{**facts, 'split': 'test[:3]'})
    top = tmp_path / name if name in ('single', 'seeds') else tmp_path
    made(top / place, seen)
    heat_map = dataclasses.replace(STUDY, heat_map=directory)._map
    new_run = made(tmp_path / f'run of {name}'.replace('/', ' '), digests, data=data.description)
    assert heat_map.are_measured(new_run.records).tolist() == [True, True, False]
  Results('accuracy', [{'label': 'any'}], {}, {}).write(tmp_path / 'other')
  other_study = dataclasses.replace(STUDY, heat_map=str(tmp_path / 'other'))
  refused(bad_setting('config.study.heat_map'), other_study.views, SHAPE)
  preview = fourier_preview.FourierPreview(heat_map=str(tmp_path / 'none'))
  refused(r'no results\.json', preview.views, SHAPE)
