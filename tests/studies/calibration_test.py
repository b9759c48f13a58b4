"""The study of calibration: means over groups of views, records of any workdir, refusals."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.corruptions.names import KNOWN
from robustness.estimates.table import assemble, facets_of, select
from robustness.evaluation.records import Layout, Records
from robustness.evaluation.study import Evaluation
from robustness.metrics import calibration
from robustness.studies import calibration as calibration_study
from robustness.studies.calibration import Study
from tests import finished_runs
from tests.table_rows import assert_same, assert_same_arrays, estimate

CORRUPTIONS = ('fog', 'contrast')
ROWS, VIEWS = 90, 5
STUDY = Study(corruptions=CORRUPTIONS, severities=(1, 5), resamples=100)


def made(directory: pathlib.Path, label: str, seed: int, **fields: np.ndarray) -> Evaluation:
  """Writes records of a classifier that is right as often as it says in the clean view, and less
  often in each next one."""
  generator = np.random.default_rng(seed)
  confidence = generator.random((ROWS, VIEWS)).astype(np.float32)
  right = generator.random((ROWS, VIEWS)) < confidence ** (1 + np.arange(VIEWS))
  records = Records(directory / label, Layout(ROWS, VIEWS, ROWS, VIEWS), {})
  arrays = {
    'rank': (~right).astype(np.int32),
    'probability': np.where(right, confidence, 1 - confidence),
    'confidence': confidence,
    **fields,
  }
  records.write(0, 0, {name: value for name, value in arrays.items() if len(value)})
  return Evaluation(label, records)


def test_numbers_are_means_over_the_views_of_a_corruption(tmp_path: pathlib.Path) -> None:
  findings = STUDY.reduce([made(tmp_path, 'only', 0)], (28, 28, 1))
  arrays, numbers = findings.arrays, findings.numbers
  assert arrays['view'].tolist() == ['clean', 'fog 1', 'fog 5', 'contrast 1', 'contrast 5']
  for name in calibration.QUANTITIES:
    assert numbers[f'{name}/fog'].value == pytest.approx(arrays[name][1:3].mean())
    assert numbers[f'{name}/severity 5'].value == pytest.approx(arrays[name][[2, 4]].mean())
    assert numbers[f'{name}/shown'].value == pytest.approx(arrays[name][1:].mean())
    for number in numbers.values():
      assert number.low <= number.value <= number.high and number.n == ROWS
  assert numbers['ece/clean'].low == 0, 'chance explains the error of the clean view'
  assert numbers['ece/severity 5'].low > 0.1
  gap = arrays['mean_confidence'] - arrays['accuracy']
  assert numbers['overconfidence/fog'].value == pytest.approx(gap[1:3].mean())
  assert numbers['overconfidence/clean'].low < 0 < numbers['overconfidence/severity 5'].low
  np.testing.assert_array_equal(arrays['bin_size'].sum(1), ROWS)
  np.testing.assert_allclose(arrays['selective_error'][:, -1], 1 - arrays['accuracy'])


def test_differences_are_paired_and_those_of_a_classifier_from_itself_zero(
  tmp_path: pathlib.Path,
) -> None:
  evaluations = [made(tmp_path, label, seed) for label, seed in (('a', 0), ('b', 0), ('c', 1))]
  numbers = STUDY.reduce(evaluations, (28, 28, 1)).numbers
  same, other = (numbers[f'{label}/brier_difference/clean'] for label in 'bc')
  assert (same.value, same.low, same.high) == (0, 0, 0)
  assert other.value == pytest.approx(
    numbers['c/brier/clean'].value - numbers['a/brier/clean'].value
  )
  assert other.low < other.value < other.high


def test_a_mean_over_views_of_calibrated_classifiers_shows_no_difference(
  tmp_path: pathlib.Path,
) -> None:
  """What debiasing leaves of chance is the same in every view: no mean makes it smaller."""
  study = dataclasses.replace(STUDY, severities=(1, 2, 3, 4, 5))
  generator = np.random.default_rng(0)
  evaluations = []
  for label, (a, b) in {'sure': (19, 1), 'unsure': (5.7, 4.3)}.items():
    confidence = generator.beta(a, b, (200, 11)).astype(np.float32)
    right = generator.random((200, 11)) < confidence
    records = Records(tmp_path / label, Layout(200, 11, 200, 11), {})
    records.write(0, 0, {'rank': (~right).astype(np.int32), 'confidence': confidence})
    evaluations.append(Evaluation(label, records))
  numbers = study.reduce(evaluations, (28, 28, 1)).numbers
  for name in calibration.BIASED:
    difference = numbers[f'unsure/{name}_difference/shown']
    assert difference.low <= 0 < difference.value < difference.high


def stored(directory: pathlib.Path, made_here: Evaluation, clean: bool) -> Evaluation:
  """Writes the same predictions as those of stored images: a row for each image and view."""
  shown = range(VIEWS)[0 if clean else 1 :]
  parts = [(-1, 0), *((KNOWN.index(name), s) for name in CORRUPTIONS for s in (1, 5))]
  fields = {
    name: made_here.records.table(name)[:, shown].T.reshape(-1, 1)
    for name in ('rank', 'probability', 'confidence')
  }
  columns = {
    'corruption': np.repeat([parts[view][0] for view in shown], ROWS),
    'severity': np.repeat([parts[view][1] for view in shown], ROWS),
    'base_id': np.tile(np.arange(ROWS), len(shown)),
  }
  count = ROWS * len(shown)
  records = Records(directory / 'stored', Layout(count, 1, count, 1), {})
  records.write(0, 0, {**fields, **columns})
  return Evaluation(made_here.label, records)


@pytest.mark.parametrize('clean', [True, False])
def test_stored_images_are_scored_by_corruption_as_made_ones(
  tmp_path: pathlib.Path, clean: bool
) -> None:
  """KNOWN orders contrast after fog; without stored clean images there is no clean group."""
  here = made(tmp_path, 'only', 0)
  expected = STUDY.reduce([here], (28, 28, 1))
  study = dataclasses.replace(STUDY, source='stored', severities=(1, 2, 5))
  findings = study.reduce([stored(tmp_path, here, clean)], (28, 28, 1))
  assert ('ece/clean' in findings.numbers) == clean
  for name, number in findings.numbers.items():
    assert number == expected.numbers[name]
  assert {'ece/fog', 'ece/contrast', 'ece/severity 5', 'brier/shown'} <= set(findings.numbers)
  assert findings.arrays['view'].tolist() == expected.arrays['view'][0 if clean else 1 :].tolist()


def test_a_workdir_of_stored_images_is_scored_by_corruption_too(tmp_path: pathlib.Path) -> None:
  right = np.random.default_rng(0).random((30, 5)) > 0.4
  found = []
  for is_stored in (True, False):
    folder = finished_runs.write_versions(tmp_path / str(is_stored), {'net': right}, is_stored)
    scores = STUDY.prediction_scores({'predictions': str(folder), 'part': '', 'seed': 0})
    found.append(scores.findings(scores.evaluations(tmp_path), tmp_path))
  assert found[0].numbers == found[1].numbers
  assert found[0].numbers['ece/fog'].n == 30


def test_settings_of_made_images_are_refused_of_stored_ones() -> None:
  with pytest.raises(InputError, match="quantize is 'floor'.*left out with source='stored'"):
    Study(source='stored', quantize='floor')


def test_records_without_confidence_are_refused_with_what_to_do(tmp_path: pathlib.Path) -> None:
  old = made(tmp_path, 'old', 0, confidence=np.zeros(0))
  with pytest.raises(InputError, match='run the same command again'):
    STUDY.reduce([old], (28, 28, 1))


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'bins': 0}, r'config\.study\.bins is 0'),
    ({'resamples': 0}, 'resamples'),
    ({'confidence': 1.0}, r'config\.study\.confidence is 1\.0'),
  ],
)
def test_settings_are_checked(changes, message) -> None:
  with pytest.raises(InputError, match=message):
    Study(**changes)


def test_a_workdir_must_be_given() -> None:
  with pytest.raises(InputError, match=r"config\.predictions is ''"):
    Study().prediction_scores({'predictions': '', 'part': '', 'seed': 0})


VIEWED = {'clean': {'view': 'clean'}} | {
  f'{name} {severity}': {'corruption': name, 'severity': severity}
  for name in CORRUPTIONS
  for severity in (1, 5)
}
GROUPED = {
  'clean': {'view': 'clean'},
  **{name: {'corruption': name} for name in CORRUPTIONS},
  **{f'severity {severity}': {'severity': severity} for severity in (1, 5)},
  'shown': {'corruption_set': 'shown'},
}


def test_the_table_has_every_number_and_array(tmp_path: pathlib.Path) -> None:
  evaluations = [made(tmp_path, label, seed) for label, seed in (('a', 0), ('b', 1))]
  findings = STUDY.reduce(evaluations, (28, 28, 1))
  results = assemble(findings.estimates)
  for name, number in findings.numbers.items():
    label, quantity, group = name.split('/')
    versus = 'a' if quantity.endswith('_difference') else ''
    quantity = quantity.removesuffix('_difference')
    assert_same(estimate(results, label, quantity, versus, **GROUPED[group]), number)
  declared = {quantity.name for quantity in STUDY.quantities}
  for label in 'ab':
    arrays = {
      name.removeprefix(f'{label}/'): values
      for name, values in findings.arrays.items()
      if name.startswith(f'{label}/')
    }
    assert set(arrays) == declared
    for name, values in arrays.items():
      for view, own, facets in zip(VIEWED, values, VIEWED.values(), strict=True):
        if own.ndim:
          along = 'coverage' if name == 'selective_error' else 'bin'
          rows = select(results, name, **facets, **{along: ...})
          rows = rows[rows.classifier == label]
          np.testing.assert_array_equal(
            rows[along], calibration_study.COVERAGES if along == 'coverage' else range(1, 16)
          )
          assert_same_arrays(rows, own)
        else:
          row = estimate(results, label, name, **facets)
          assert row.value == pytest.approx(own, abs=1e-9), view
  fog = estimate(results, 'a', 'accuracy', corruption='fog')
  assert fog.value == pytest.approx(findings.arrays['a/accuracy'][1:3].mean())
  assert (fog.n, fog.method) == (ROWS, '')
  assert set(results.quantity) == declared


def test_views_of_other_studies_are_rows_by_their_names(tmp_path: pathlib.Path) -> None:
  right = np.random.default_rng(0).random(40) > 0.4
  folder = finished_runs.write(tmp_path / 'run', {'net': right.tolist()})
  scores = STUDY.prediction_scores({'predictions': str(folder), 'part': '', 'seed': 0})
  findings = scores.findings(scores.evaluations(tmp_path), tmp_path)
  results = assemble(findings.estimates)
  assert facets_of(results) == ['view', 'coverage', 'bin']
  row = estimate(results, 'net', 'ece', view='as stored')
  assert_same(row, findings.numbers['ece/as stored'])
