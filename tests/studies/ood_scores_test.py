"""Tests the study `ood_scores`: scores from the workdirs of finished runs, and refusals."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from robustness.cli.redraw import redraw
from robustness.estimates.fitted_scores import SCORES, FitData, LastLayer
from robustness.estimates.table import select
from robustness.results import Results
from robustness.studies import ood_scores
from robustness.studies.ood_scores import OodScores
from tests.cases import cases
from tests.end_to_end import runs
from tests.refusals import bad_setting, refused

SMALL = {'data.num_images': 60, 'data.resize': 0, 'data.crop': 0}


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
  """Returns a folder of workdirs of random networks on digits, under the names of `kinds`."""
  root = tmp_path_factory.mktemp('ood')
  weights = runs.save_weights(root / 'weights.safetensors', 'small_cnn')
  network = {'data.source': 'digits', 'classifier.name': 'small_cnn', 'classifier.weights': weights}
  other_weights = runs.save_weights(root / 'other.safetensors', 'small_cnn', 1)
  kinds = {
    'known': {},
    'unknown': {'data.known_classes': False},
    'training': {'data.split': 'train', 'data.num_images': 1200},  # more images than features
    'shifted': {'data.num_images': 20},
    'other': {'classifier.weights': other_weights},
  }
  for name, changes in kinds.items():
    variant = 'unknown' if name == 'unknown' else 'cifar10'
    config = runs.shrunk('ood_scores', variant, {**SMALL, **network, **changes})
    runs.run(config, root / name, drawn=False)
  return root


def scored(folders, out, **changes) -> Results:
  """Returns the scores of the workdirs `known` and `unknown`, unless changes name others."""
  settings = {'predictions': str(folders / 'known')}
  settings |= {'out_of_distribution': (str(folders / 'unknown'),), **changes}
  return runs.run(runs.shrunk('ood_scores', 'workdirs', settings), out, drawn=False)


@pytest.mark.slow
def test_each_score_separates_workdirs(folders, tmp_path):
  changes = {'shifted': (str(folders / 'shifted'),), 'bank': str(folders / 'training')}
  changes |= {'study.scores': ('msp', 'knn'), 'study.neighbours': 3}
  table = scored(folders, tmp_path / 'ood', **changes).table
  rows = select(table, 'auroc', score=..., ood_set=..., id_set=...)
  assert len(rows) == 4 and set(rows.ood_set) == {'unknown'}
  assert (rows.low <= rows.value).all() and (rows.value <= rows.high).all()
  same_images = rows[(rows.score == 'msp') & (rows.id_set == 'test images')]
  assert same_images.value.item() == pytest.approx(0.5), 'both sets are the same digits'
  assert set(rows.note[rows.id_set == 'test and shifted images']) == {''}
  assert not len(select(Results.read(folders / 'unknown').table, 'accuracy'))
  assert len(select(Results.read(folders / 'known').table, 'accuracy'))


@pytest.mark.slow
def test_all_scores_have_means_over_the_sets_of_a_battery(tmp_path):
  config = runs.shrunk('ood_scores', 'sets')
  unknown = ('cifar100', 'mnist', 'svhn')
  config.battery.tasks = ('known', 'training', *unknown)
  config.classifier.name = 'small_cnn'
  config.classifier.weights = runs.save_weights(tmp_path / 'weights.safetensors', 'small_cnn')
  config.data.source = 'digits'
  for task in config.battery.tasks:
    config.battery[task].data.update(num_images=60, resize=0, crop=0)
  config.battery.training.data.num_images = 1200  # more images than features
  runs.run(config, tmp_path / 'sets', drawn=False)

  predictions, bank, *ood_sets = (
    str(tmp_path / 'sets/tasks' / task) for task in config.battery.tasks
  )
  settings = {'predictions': predictions, 'bank': bank, 'near': ood_sets[:1], 'far': ood_sets[1:]}
  settings |= {'study.directions': 5, 'study.neighbours': 3}
  config = runs.shrunk('ood_scores', 'openood', settings)
  table = runs.run(config, tmp_path / 'openood', drawn=False).table
  rows = select(table, 'auroc', score=..., ood_set=...).pivot(
    index='score', columns='ood_set', values='value'
  )
  assert set(rows.index) == set(SCORES)
  assert {*rows} == {*unknown, 'mean of 2 far sets'}
  np.testing.assert_allclose(rows, 0.5, err_msg='all sets are the same digits')


MARGIN = """
from robustness.estimates.fitted_scores import OodScore

margin = msp = OodScore(lambda study, data: lambda x: x.logits.max(1) - 1, is_fitted=False)
"""


def test_a_score_in_a_file_of_the_user_is_computed_and_recorded_with_the_file(folders, tmp_path):
  file = tmp_path / 'mine.py'
  file.write_text(MARGIN)
  scores = 'max_logit', f'{file}:margin'
  results = scored(folders, tmp_path / 'ood', **{'study.scores': scores})
  values = select(results.table, 'auroc', score=..., ood_set=...).set_index('score').value
  assert set(values.index) == {'max_logit', 'margin'} and values.margin == values.max_logit
  assert results.settings['files']['margin']['file'] == 'mine.py'
  taken = {'study.scores': (f'{file}:msp',)}
  refused('no OodScore of a new name', scored, folders, tmp_path / 'taken', **taken)
  file.write_text('1 / 0')
  redraw(str(tmp_path / 'ood'))  # without running the file


@cases(
  'changes, message',
  ({'out_of_distribution': ()}, 'config.out_of_distribution is empty'),
  ({'study.scores': ('knn',)}, "'klm' need the workdir of a run on training images"),
  ({'held_out': 'training'}, bad_setting('config.held_out', 'training')),
  (
    {'study.scores': ('knn',), 'bank': 'known_copy', 'held_out': 'training'},
    bad_setting('config.held_out', 'training', "'react' or 'klm'"),
  ),
  ({'bank': 'known_copy'}, "'klm' need the workdir of a run on training images"),
  ({'out_of_distribution': ('other',)}, "other classifiers under '.*sha256"),
  ({'predictions': 'none'}, 'is no workdir'),
  ({'predictions': 'unknown', 'out_of_distribution': ('known',)}, 'must be of images of known'),
  ({'out_of_distribution': ('training',)}, 'must be of images of no known .*known_classes=False'),
  ({'out_of_distribution': ('unknown', 'unknown')}, 'is given twice'),
  ({'study.scores': ()}, bad_setting('config.study.scores', ())),
  ({'study.neighbours': 7}, bad_setting('config.study.neighbours', 7)),
  ({'study.percentile': 70.0}, "left out without 'react' and 'ash'"),
  ({'study.exponent': 0.0}, bad_setting('config.study.exponent', 0.0)),
  ({'study.exponent': np.inf}, bad_setting('config.study.exponent', np.inf, 'finite')),
  ({'far': ('unknown',)}, 'is given twice'),
  (
    {'study.scores': ('knn',), 'study.neighbours': 3, 'bank': 'known_copy'},
    r'known are in config\.bank, .*known_copy: give a run on training images',
  ),
)
def test_workdirs_and_settings_that_do_not_fit_are_refused(folders, tmp_path, changes, message):
  changes = dict(changes)
  if 'predictions' in changes:
    changes['predictions'] = str(folders / changes['predictions'])
  for key in {'out_of_distribution', 'far'} & {*changes}:
    changes[key] = tuple(str(folders / name) for name in changes[key])
  if 'bank' in changes:
    changes['bank'] = str(shutil.copytree(folders / 'known', tmp_path / changes['bank']))
  refused(message, scored, folders, tmp_path / 'ood', **changes)
  assert not (tmp_path / 'ood/config.json').exists(), 'a refused run writes nothing'


def test_classes_that_the_classifier_cannot_predict_do_not_change_scores():
  generator = np.random.default_rng(0)
  features, labels = generator.random((40, 6)), np.arange(40) % 3
  logits = features @ generator.normal(size=(6, 3))
  columns = {'output/features': features, 'label': labels}
  without_last = np.pad(logits, ((0, 0), (0, 1)), constant_values=-np.inf)
  study = OodScores(scores=tuple(SCORES), neighbours=3, directions=2)
  of_all, of_three = (
    _values_of(study, {**columns, 'output/logits': z}) for z in (without_last, logits)
  )
  for name in SCORES:
    np.testing.assert_array_equal(of_all[name], of_three[name], name)


def _values_of(study: OodScores, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Returns the values of all scores of a run with these records, which are the bank too."""
  records = SimpleNamespace(column=columns.__getitem__)
  task = SimpleNamespace(evaluations=[SimpleNamespace(label='net', records=records)])
  bank = ood_scores._recording(task, 'net')
  data = FitData(bank, bank, lambda: LastLayer.solved(bank))
  return {name: score.fit(study, data)(bank) for name, score in SCORES.items()}


def test_the_note_on_versions_keeps_the_reason_for_a_missing_interval(monkeypatch):
  monkeypatch.setattr(ood_scores, 'versions', lambda records: np.arange(12) // 4)
  logits = np.random.default_rng(0).random((12, 3))
  columns = {'output/features': logits, 'label': np.zeros(12, int), 'output/logits': logits}
  columns[ood_scores.ID] = np.arange(12)

  def task(name: str) -> SimpleNamespace:
    records = SimpleNamespace(column=columns.__getitem__, identity={'data': {'name': name}})
    return SimpleNamespace(evaluations=[SimpleNamespace(label='net', records=records)])

  inside = {'test': task('one'), 'shifted': task('two')}
  workdirs = ood_scores.Workdirs('test', out_of_distribution=('unknown',), shifted=('shifted',))
  measured = OodScores()._separations('net', workdirs, inside, {'unknown': task('three')}, {})
  few = 'no interval: too few clusters, effectively 3.0'
  notes = {str(facets['id_set']): estimate.note for _, facets, estimate in measured}
  assert notes == {
    'test images': few,
    'test and shifted images': f'{few}; {ood_scores.NOTE_ON_VERSIONS}',
  }


def data_set_of(key: str, source: str, name: str) -> object:
  """Returns what identifies the data set of a run with this description of its data."""
  records = SimpleNamespace(identity={'data': {'source': source, key: name}})
  return ood_scores._data_set(SimpleNamespace(evaluations=[SimpleNamespace(records=records)]))


FOG = 'cifar10_corrupted/fog'


@cases(
  'key, first, second, is_one_set',
  ('path', ('npz', '/data/a.npz'), ('npz', '/data/b.npz'), False),
  ('path', ('npz', '/a/x.npz'), ('npz', '/b/x.npz'), False),
  ('path', ('npz', '/data/a.npz'), ('npz', '/data/./a.npz'), True),
  ('name', ('tfds', f'{FOG}_1:1.0.0'), ('tfds', f'{FOG}_5:1.0.0'), True),
  ('name', ('digits', 'mnist_5k'), ('tfds', 'mnist_5k'), False),
)
def test_sets_are_distinguished_by_file_or_by_name(key, first, second, is_one_set):
  assert (data_set_of(key, *first) == data_set_of(key, *second)) is is_one_set
