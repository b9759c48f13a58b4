"""`measure` adds tables of damaged images, classes and provenance to the results of a study."""

import dataclasses

import numpy as np
import pytest

from robustness.config.experiment import Execution
from robustness.core.rows import ArrayRows
from robustness.estimates.means import means
from robustness.estimates.quantity import ACCURACY
from robustness.estimates.table import select
from robustness.evaluation import one_view
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.provenance import COMPARABLE
from robustness.evaluation.stored_pictures import MistakesOfBlock
from robustness.measurement import measure
from robustness.present import failures, style
from robustness.results import WHICH_NUMBERS, Results
from robustness.studies import accuracy, attack_error, band_noise
from tests.cases import cases, marked
from tests.refusals import refused
from tests.studies.conftest import classifier, rows
from tests.table_rows import estimate

STUDIES = {
  'accuracy': accuracy.Accuracy(),
  'band_noise': band_noise.BandNoise(kinds=('high_pass',), bandwidths=(2,), norm=9.0),
  'attack_error': attack_error.AttackError(attacks=('fgsm',), epsilon=0.3),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', STUDIES)
def test_damaged_images_are_shown_as_they_were_recorded(name, tmp_path):
  study, labels = STUDIES[name], ('first', 'second')
  networks = [classifier(label, seed) for seed, label in enumerate(labels)]
  data = rows()
  measured = measure(study, Execution(), networks, data, tmp_path / 'records')
  measured.write(tmp_path)
  results = Results.read(tmp_path)
  table = results.tables['most damaged images']
  for network in networks:
    damaged = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    damaged = [row for row in damaged if row['classifier'] == network.name]
    pictures = results.arrays[f'{network.name}/failure_images']
    assert pictures.dtype == np.uint8 and len(pictures) == len(damaged) > 0
    assert pictures.shape[1] == (1 if name == 'accuracy' else 2)
    stored = np.stack([data.images[row['image']] for row in damaged])
    assert np.array_equal(pictures[:, 0], np.rint(255 * stored).astype(np.uint8))
    if name == 'attack_error':
      predicted = network.predict(pictures[:, -1].astype(np.float32) / 255).argmax(1)
      taken = [network.class_names[index] for index in predicted]
      assert taken == [row['taken for'] for row in damaged]
      assert all(row['taken for when clean'] == row['class'] for row in damaged)
  galleries = failures.draw(results)
  assert list(galleries) == ['failures_first', 'failures_second']
  style.save(galleries['failures_first'][0], tmp_path / 'failures.png')
  stated = dict(results.tables[WHICH_NUMBERS].rows)
  assert stated['images'] == '40' and len(stated['digest of the images']) == 12
  assert stated[COMPARABLE].startswith('no: the data are not known')
  _check_classes(results)


ATTACKS = {
  'all at once': (STUDIES['attack_error'], Execution()),
  'a row and view per shard': (STUDIES['attack_error'], Execution(batch_size=1, views_per_step=1)),
  'parts of views': (STUDIES['attack_error'], Execution(batch_size=16, views_per_step=2)),
  'rounds': (dataclasses.replace(STUDIES['attack_error'], half_width=0.3), Execution()),
}
"""Studies of attacks and executions with different sizes of shards."""


@pytest.mark.parametrize('case', marked(ATTACKS, {'parts of views'}))
def test_pictures_of_an_attack_come_from_its_records(case, tmp_path, monkeypatch):
  """The attack does not run again for pictures, and makes the same pictures if it does."""
  study, execution = ATTACKS[case]
  study = dataclasses.replace(study, epsilons=(0.1, 0.2))
  network, data, folder = classifier('first', 0), rows(), tmp_path / 'records'
  if execution.batch_size == 1:
    data = ArrayRows(data.images[:12], data.labels[:12], data.class_names)
  attacked = []
  with monkeypatch.context() as patch:
    patch.setattr(one_view, 'show', lambda *_: attacked.append(1))
    results = measure(study, execution, [network], data, folder)
  assert not attacked and list(folder.glob('**/*.npz'))
  pictures = results.arrays['failure_images']
  monkeypatch.setattr('robustness.measurement.stored_picture', lambda *_: None)
  again = measure(study, execution, [network], data, folder).arrays['failure_images']
  assert len(pictures) == len(again) > 0
  assert np.abs(pictures.astype(int) - again).max() <= 1  # another program rounds otherwise
  if not study.half_width:
    uncut = measure(study, Execution(), [network], data, tmp_path / 'uncut')
    damaged = [
      [(row[1], row[6]) for row in compared.tables['most damaged images'].rows]
      for compared in (uncut, results)
    ]
    assert damaged[0] == damaged[1]
    assert np.abs(pictures.astype(int) - uncut.arrays['failure_images']).max() <= 1


@pytest.mark.slow
def test_pictures_that_earlier_records_lack_are_made_again(tmp_path, monkeypatch):
  study, network, data = STUDIES['attack_error'], classifier('first', 0), rows()
  stored = measure(study, Execution(), [network], data, tmp_path / 'new').arrays['failure_images']
  monkeypatch.setattr(MistakesOfBlock, 'add', lambda *_: {})
  made = measure(study, Execution(), [network], data, tmp_path / 'old').arrays['failure_images']
  assert np.abs(stored.astype(int) - made).max() <= 1


def test_composed_images_are_shown_without_their_stored_background(tmp_path):
  """The stored image of a scene is an empty background."""

  class Composed(band_noise.BandNoise):
    name = 'band_noise'

    def views(self, image_shape):
      return dataclasses.replace(super().views(image_shape), composes=True)

  def pictures(study):
    band = study(kinds=('high_pass',), bandwidths=(2,), norm=9.0)
    network, folder = classifier('only', 0), tmp_path / study.__name__
    return measure(band, Execution(), [network], rows(), folder).arrays['failure_images']

  pairs, views = pictures(band_noise.BandNoise), pictures(Composed)
  assert views.shape[1] == 1 and np.array_equal(views, pairs[:, 1:])


def _check_classes(results: Results) -> None:
  """Checks that the table of affected classes agrees with the accuracies by class."""
  declared = [quantity.name for quantity in results.quantities]
  assert len(declared) == len(set(declared)) and set(results.table.quantity) <= set(declared)
  affected = results.tables['most affected classes']
  for cells in affected.rows:
    row = dict(zip(affected.columns, cells, strict=True))
    share = estimate(results.table, row['classifier'], 'accuracy', **{'class': row['class']})
    accuracy_of_class = pytest.approx(1 - row['views wrong'] / row['of'])
    assert (share.n, share.value) == (row['images'], accuracy_of_class)
    assert share.low <= share.value <= share.high
  assert len(select(results.table, 'accuracy', **{'class': ...})) == len(affected.rows)


def test_accuracies_by_class_of_a_study_are_not_replaced(tmp_path):
  class ByClass(accuracy.Accuracy):
    def reduce(self, evaluations, image_shape):
      findings = super().reduce(evaluations, image_shape)
      outcomes = Recorded(evaluations).outcomes(ACCURACY)
      findings.estimates.append(means(ACCURACY, outcomes, facets={'class': 'mine'}))
      return findings

  network = classifier('net', 0)
  results = measure(ByClass(), Execution(), [network], rows(), tmp_path)
  assert list(select(results.table, 'accuracy', **{'class': ...})['class']) == ['mine']


@cases('holder, changed', ('first', 0), ('first', -1), ('second', -1))
def test_records_of_other_images_are_neither_read_nor_compared(
  tmp_path, monkeypatch, holder, changed
):
  """A resumed run compares all blocks of arrays with the rows.

  It compares the first block of unchanged files, and all blocks of two classifiers.
  """
  monkeypatch.setattr(ArrayRows, 'may_have_changed', lambda *_: holder == 'first')
  classifiers = [classifier(name, seed) for seed, name in enumerate(('first', 'second'))]
  setup = accuracy.Accuracy(), Execution(batch_size=8), classifiers
  measure(*setup, rows(), tmp_path)
  if holder == 'second':
    for shard in (tmp_path / 'second').glob('*.npz'):
      shard.unlink()
  images = rows().images.copy()
  images[changed] = 0.5
  message = f'{holder} holds answers on other images'
  refused(message, measure, *setup, dataclasses.replace(rows(), images=images), tmp_path)


def test_a_wrapped_network_differs_from_another_one_of_its_name(tmp_path):
  first, other = (dataclasses.replace(classifier('net', seed), provenance={}) for seed in (0, 1))
  measure(accuracy.Accuracy(), Execution(), [first], rows(), tmp_path)
  measure(accuracy.Accuracy(), Execution(), [first], rows(), tmp_path)
  refused(
    'identity.classifier.outputs_on_fixed_images',
    *(measure, accuracy.Accuracy(), Execution(), [other], rows(), tmp_path),
  )
