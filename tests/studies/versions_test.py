"""Tests that versions of one image are one cluster in every study, or are refused."""

from types import SimpleNamespace

import numpy as np

from robustness.evaluation.outcomes import Recorded
from robustness.studies.accuracy import Accuracy
from robustness.studies.accuracy_by_factor import OVERALL, AccuracyByFactor
from robustness.studies.calibration import Calibration
from robustness.studies.flip_rate import FlipRate
from robustness.studies.fourier_attack import FourierAttack
from robustness.studies.frequency_shortcuts import FrequencyShortcuts
from robustness.studies.recalibration import Recalibration
from robustness.studies.sampled_mce import SampledMCE
from robustness.studies.systematic import Systematic
from robustness.studies.tradeoff import Tradeoff
from tests.cases import cases
from tests.made_records import made
from tests.networks import SHAPE
from tests.refusals import refused
from tests.studies.conftest import table_of
from tests.table_rows import estimate

IMAGES, VERSIONS = 40, 10
BASE = np.arange(IMAGES).repeat(VERSIONS)
COLUMNS = {'example_id': np.arange(len(BASE)), 'base_id': BASE, 'label': BASE % 2}


def answers(folder, study):
  """Writes records of a study in which all versions of an image have the same answers."""
  views = len(study.views(SHAPE))
  draw = np.random.default_rng(0).random((IMAGES, views)) < 0.2
  rank = draw[BASE].astype(int)
  fields = {'rank': rank, 'prediction': (BASE[:, None] + rank) % 2}
  fields |= {'confidence': np.full(rank.shape, 0.9), 'probability': np.where(rank > 0, 0.1, 0.9)}
  return made(folder / 'net', {**fields, **COLUMNS}, classes=['a', 'b'])


@cases(
  'study, quantity, facets',
  (Accuracy(), 'top1_accuracy', {}),
  (FourierAttack(window=3, queries=2), 'error', {'queries': 1}),
  (FlipRate(corruptions=('fog',), frames=3), 'flip_rate', {}),
  (FrequencyShortcuts(sets=3, grids=(2, 4)), 'accuracy_when_whole', {'class': 'a'}),
  (AccuracyByFactor(factors=('class',)), OVERALL.name, {}),
)
def test_versions_of_an_image_are_one_cluster(tmp_path, study, quantity, facets):
  row = estimate(table_of(study, [answers(tmp_path, study)]), 'net', quantity, **facets)
  assert row.clusters <= IMAGES < row.n


def test_versions_of_an_image_are_on_one_side_of_the_split_of_an_attack(tmp_path):
  study = FourierAttack(window=3, queries=2)
  measured = study._measured(answers(tmp_path, study).records)
  assert not {*BASE[measured]} & {*BASE[~measured]} and measured.sum() == len(BASE) // 2


@cases('study', Tradeoff(), Recalibration(), Calibration())
def test_studies_of_independent_images_refuse_versions(tmp_path, study):
  evaluations = [answers(tmp_path, study)]
  refused('versions of one image', study.reduce, evaluations, SHAPE)


@cases('study', Systematic(), SampledMCE())
def test_studies_of_groups_of_images_refuse_versions(tmp_path, study):
  recorded = Recorded([answers(tmp_path, Accuracy())])
  refused('versions of one image', list, study.estimates(recorded))


def test_columns_of_texts_and_numbers_in_two_runs_are_different():
  values = {
    'first': np.array([0.5, np.nan]),
    'same': np.array([0.5, np.nan]),
    'other': np.array(['a', 'b']),
  }
  first, second, other = (
    SimpleNamespace(label=label, records=SimpleNamespace(column={'level': column}.get))
    for label, column in values.items()
  )
  Recorded([first, second]).require_equal_columns(['level'])
  refused(
    "'level' has other values for other", Recorded([first, other]).require_equal_columns, ['level']
  )
