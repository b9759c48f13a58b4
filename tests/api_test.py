"""The public functions of `import robustness` measure, compare, train, attack and refuse input."""

import dataclasses
import importlib
import inspect
import itertools
import json
import pathlib
import pickle
import pkgutil
import re
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from flax import linen as nn
from matplotlib.figure import Figure

import robustness
from input_pipeline import DataSettings
from robustness import launch
from robustness.attacks.pgd import PGD
from robustness.augment import AUGMENTATIONS
from robustness.augment.flip_and_crop import Crop
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.evaluation.study import STUDIES
from robustness.models import label_space
from robustness.models.projection import project
from robustness.objectives.groups import GroupDRO
from robustness.studies.accuracy import Accuracy
from robustness.workdirs import workdir
from tests.cases import cases
from tests.networks import CLASSES, tiny_classifier, tiny_rows
from tests.refusals import refused

ROWS = tiny_rows()
IMAGES, LABELS = ROWS.images, ROWS.labels
WEIGHTS = np.random.default_rng(1).normal(size=(IMAGES[0].size, len(CLASSES))).astype(np.float32)


BATCH, MISSING = (IMAGES, LABELS), pathlib.Path('missing.npz')


def linear(images):
  """Returns logits [N, 4] of a random linear map."""
  return images.reshape(len(images), -1) @ WEIGHTS


def in_numpy(images):
  """Returns the logits of `linear` computed by NumPy, so without a gradient."""
  return linear(np.asarray(images))


def opposite(images):
  return -linear(images)


def test_importing_the_package_loads_no_framework_and_takes_a_tenth_of_a_second():
  code = """
import sys, time
import numpy
start = time.perf_counter()
import robustness
seconds = time.perf_counter() - start
heavy = {'jax', 'tensorflow', 'matplotlib', 'pandas', 'flax', 'torch'} & set(sys.modules)
print(heavy or 'light', seconds)
"""
  process = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
  loaded, seconds = process.stdout.split()
  assert loaded == 'light' and float(seconds) < 0.1


def submodules():
  """Returns the names of all modules of the package but the command."""
  names = [module.name for module in pkgutil.walk_packages(robustness.__path__, 'robustness.')]
  return [name for name in names if not name.endswith('__main__')]


@pytest.mark.slow
def test_public_names_stay_what_they_are_when_submodules_are_imported():
  code = f"""
import importlib, robustness
first = [getattr(robustness, name) for name in robustness.__all__]
functions = robustness.fourier.perturb, robustness.scenes.compose, robustness.video.pm_k
for name in {submodules()!r}:
  importlib.import_module(name)
assert first == [getattr(robustness, name) for name in robustness.__all__]
again = robustness.fourier.perturb, robustness.scenes.compose, robustness.video.pm_k
assert functions == again and all(map(callable, again))
assert robustness.systematic.rho(0.8, 0.6, 0.5) > 0
"""
  subprocess.run([sys.executable, '-c', code], check=True)


def test_no_setting_of_a_study_is_an_argument_of_measure():
  arguments = set(inspect.signature(robustness.measure).parameters) - {'settings'}
  for study in STUDIES.classes().values():
    assert not arguments & {field.name for field in dataclasses.fields(study)}, study.name


@pytest.fixture(scope='module')
def heat_map():
  """Results of a Fourier heat map of `linear` on the tiny rows."""
  return robustness.measure('fourier_heatmap', {'linear': linear}, ROWS, norm=4.0)


def test_results_have_values_figures_a_report_and_a_table_for_a_paper(heat_map, tmp_path):
  estimate = heat_map.value('error', band='low')
  (row,) = heat_map.table.query('quantity == "error" and band == "low"').itertuples()
  assert estimate == (row.value, row.low, row.high)
  assert re.fullmatch(r'Value\(value=0\.\d{1,3}, low=0\.\d+, high=[01]\.\d+\)', str(estimate))
  assert isinstance(heat_map.figure('error'), Figure) and isinstance(heat_map.figure(), Figure)
  page = heat_map.report(tmp_path / 'page.html').read_text()
  assert page.startswith('<!DOCTYPE html>') and 'linear' in page
  assert not re.findall(r'href="(?!#|https://)[^"]*"', page), 'no file lies next to the report'
  assert 'linear &' in heat_map.to_latex()
  assert '<img' in heat_map._repr_html_() and len(repr(heat_map)) < 100
  first_line, *headlines = str(heat_map).splitlines()
  assert first_line == repr(heat_map) and any('error' in line for line in headlines)
  assert str(dataclasses.replace(heat_map, presentation=None)) == first_line
  copied = pickle.loads(pickle.dumps(heat_map))
  assert copied.value('error', band='low') == estimate and copied.to_latex() == heat_map.to_latex()
  picture, size = heat_map.figure('error')._repr_png_()
  assert picture.startswith(b'\x89PNG') and size['width'] > 300, 'a notebook shows the figure'
  assert [path.name for path in tmp_path.iterdir()] == ['page.html']


def test_wrong_names_in_results_list_the_valid_ones(heat_map):
  refused("no quantity 'eror'; did you mean 'error'", heat_map.value, 'eror')
  refused(r'frequency_y=-?\d+ and frequency_x=', heat_map.value, 'error', 'linear', size=3)
  refused("no figure 'map'", heat_map.figure, 'map')


def test_a_workdir_has_the_bytes_of_the_command_and_is_resumed(heat_map, tmp_path, monkeypatch):
  (tmp_path / 'mine.py').write_text(
    'from tests.api_test import linear\n'
    'from robustness.models.classifier import Classifier\n'
    'def network():\n'
    f'  return Classifier.from_callable(linear, {IMAGES[0].shape}, {CLASSES})\n'
  )
  np.savez(tmp_path / 'images.npz', image=IMAGES, label=LABELS, class_names=CLASSES)
  changes = {
    'classifiers': {'linear': {'name': f'{tmp_path}/mine.py:network'}},
    'data': {'source': 'npz', 'npz': {'path': str(tmp_path / 'images.npz')}},
    'study': {'name': 'fourier_heatmap', 'norm': 4.0},
  }
  launch.run(changes, tmp_path / 'command')
  arguments = 'fourier_heatmap', {'linear': linear}, IMAGES, LABELS
  options = {'norm': 4.0, 'class_names': CLASSES, 'workdir': tmp_path / 'python'}
  measured = robustness.measure(*arguments, **options)
  files = [tmp_path / name / 'results.csv' for name in ('command', 'python')]
  assert files[0].read_bytes() == files[1].read_bytes()
  assert measured.table.equals(heat_map.table)
  shard = next((tmp_path / 'python/records').rglob('*.npz'))
  written, seconds = shard.read_bytes(), shard.stat().st_mtime_ns
  robustness.measure(*arguments, **options)
  assert shard.stat().st_mtime_ns == seconds and shard.read_bytes() == written
  changed = r'study.norm: 4.0 → 2.0\nUse another workdir,'
  refused(changed, robustness.measure, *arguments, **{**options, 'norm': 2.0})
  replaced = {'linear': opposite}
  refused('classifier', robustness.measure, arguments[0], replaced, IMAGES, LABELS, **options)


def test_results_of_a_workdir_are_read_with_figures_and_compared(heat_map, tmp_path):
  robustness.measure(
    'fourier_heatmap', {'opposite': opposite}, ROWS, norm=4.0, workdir=tmp_path / 'run'
  )
  read = robustness.read(tmp_path / 'run')
  assert list(read.figures()) == list(heat_map.figures())
  comparison = robustness.compare(heat_map, read)
  assert comparison.labels == ['linear', 'opposite']
  together = robustness.measure(
    'fourier_heatmap', {'linear': linear, 'opposite': opposite}, ROWS, norm=4.0
  )
  facets = {'versus': 'linear', 'classifier': 'opposite', 'band': 'low'}
  assert comparison.value('error', **facets) == together.value('error', **facets)
  assert robustness.compare(heat_map, read, baseline='opposite').labels[0] == 'opposite'
  run = tmp_path / 'run'
  by_path = robustness.compare(heat_map, run)
  assert by_path.table.equals(comparison.table)
  copied = shutil.copytree(run, tmp_path / 'again')
  assert robustness.compare(str(run), copied).labels == ['run', 'again']
  relabelled = robustness.compare(f'first={run}', str(copied), baseline='again')
  assert relabelled.labels == ['again', 'first']
  refused('two classifiers are called', robustness.compare, heat_map, heat_map)
  refused('is no workdir', robustness.compare, heat_map, str(tmp_path))
  refused('opposit', robustness.compare, heat_map, read, baseline='opposit')


def test_results_of_images_alone_are_not_compared():
  options = {'corruptions': ('brightness',), 'severities': (3,)}
  spectra = robustness.measure('corruption_spectrum', None, *BATCH, **options)
  refused('measure images alone', robustness.compare, spectra, spectra)


def test_results_of_overlapping_images_are_compared_if_asked():
  first = robustness.measure('accuracy', {'linear': linear}, IMAGES, LABELS)
  second = robustness.measure('accuracy', {'opposite': opposite}, IMAGES[:-1], LABELS[:-1])
  models = {'linear': linear, 'opposite': opposite}
  expected = robustness.measure('accuracy', models, IMAGES[:-1], LABELS[:-1])
  refused('set common=True', robustness.compare, first, second)
  common = robustness.compare(first, second, common=True)
  for facets in ({}, {'classifier': 'opposite', 'versus': 'linear'}):
    paired = common.value('accuracy', view='as stored', **facets)
    assert paired == expected.value('top1_accuracy', **facets)


def test_results_that_list_published_values_are_compared():
  columns = {'variant': np.array(['mixed_same', 'mixed_rand'])[np.arange(len(LABELS)) % 2]}
  models = {'linear': linear, 'opposite': opposite}
  together = robustness.measure('background_gap', models, *BATCH, columns=columns)
  first, second = (
    robustness.measure('background_gap', {label: model}, *BATCH, columns=columns)
    for label, model in models.items()
  )
  comparison = robustness.compare(first, second)
  facets = {'classifier': 'opposite', 'versus': 'linear', 'variant': 'mixed_same'}
  assert comparison.value('accuracy', **facets) == together.value('accuracy', **facets)


STUDY_FILE = """
import dataclasses
from robustness.studies.accuracy import Accuracy

@dataclasses.dataclass(frozen=True)
class Mine(Accuracy):
  pass
"""


@dataclasses.dataclass(frozen=True)
class Unsaved(Accuracy):
  """A study that is defined where it is measured, as in a notebook."""

  name = 'accuracy'


@pytest.mark.parametrize('in_file', [True, False])
def test_workdirs_of_a_study_of_mine_are_read_and_compared_without_it(in_file, tmp_path):
  file = tmp_path / 'mine.py'
  file.write_text(STUDY_FILE)
  study = f'{file}:Mine' if in_file else Unsaved()
  for label, model in {'linear': linear, 'opposite': opposite}.items():
    measured = robustness.measure(study, {label: model}, *BATCH, workdir=tmp_path / label)
    read = robustness.read(tmp_path / label)
    assert read.value('top1_accuracy') == measured.value('top1_accuracy')
  compared = robustness.compare(tmp_path / 'linear', tmp_path / 'opposite')
  assert compared.value('accuracy', 'opposite', view='view 0') == read.value('top1_accuracy')
  assert 'does not run' in str(compared.tables), 'the code of the study is not known'


@pytest.mark.slow
def test_a_workdir_of_frost_and_of_a_corruption_of_mine_is_read(tmp_path):
  file = tmp_path / 'mine.py'
  file.write_text("""
from robustness.corruptions.corruption import corruption


@corruption('factor', {32: (0.9, 0.8, 0.7, 0.6, 0.5)}, family='alone')
def darken(key, image, strength):
  return image * strength['factor']
""")
  options = {
    'corruptions': ['frost', f'{file}:darken'],
    'severities': [1],
    'workdir': tmp_path / 'a',
  }
  measured = robustness.measure('corruption_error', linear, IMAGES, LABELS, **options)
  read = robustness.read(tmp_path / 'a')
  assert read.table.equals(measured.table) and list(read.figures()) == list(measured.figures())
  # earlier versions wrote facts among the settings
  config = tmp_path / 'a/config.json'
  old = json.loads(config.read_text())
  old['study']['frost'] = {'source': 'procedural'}
  config.write_text(json.dumps(old))
  assert robustness.read(tmp_path / 'a').table.equals(measured.table)
  again = robustness.measure('corruption_error', linear, IMAGES, LABELS, **options)
  assert again.table.equals(measured.table)


def test_files_are_deleted_with_the_results_if_there_is_no_workdir(tmp_path, monkeypatch):
  monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
  results = robustness.measure('accuracy', linear, IMAGES, LABELS)
  assert any(tmp_path.iterdir()), 'the records, as long as there are results'
  del results
  import gc

  gc.collect()
  assert not any(tmp_path.iterdir())


@pytest.mark.parametrize('merge', ['max', 'mean'])
def test_predictions_of_a_model_are_projected_onto_a_label_space(merge):
  imagenet, video = (label_space.get(name).class_names for name in ('imagenet', 'imagenet_vid'))
  weights = np.random.default_rng(2).normal(size=(IMAGES[0].size, len(imagenet)))
  options = {'variables': weights.astype(np.float32), 'class_names': imagenet}

  def network(variables, images):
    return images.reshape(len(images), -1) @ variables

  of_imagenet = robustness.classifier(network, **options)
  of_video = robustness.classifier(network, **options, label_space='imagenet_vid', merge=merge)
  arguments = {'data': IMAGES, 'labels': LABELS, 'class_names': video}
  message = r"robustness.classifier\(..., label_space='imagenet_vid'\)"
  refused(message, robustness.measure, 'accuracy', of_imagenet, **arguments)
  projected = project(of_imagenet.classifier(IMAGES), 'imagenet_vid', merge)
  arguments['labels'] = projected.predict(IMAGES).argmax(1)
  assert robustness.measure('accuracy', of_video, **arguments).value('top1_accuracy').value == 1
  refused("merge.*'mean'.*max", robustness.classifier, network, **options, merge='mean')


def test_a_study_and_its_parts_may_be_objects_and_batches_and_devices_change_no_number():
  by_name = robustness.measure(
    'attack_error', tiny_classifier(), ROWS, attacks=('pgd',), attack={'pgd': {'steps': 3}}
  )
  options = {'batch_size': np.int64(5), 'seed': np.uint8(0), 'devices': jax.local_devices()[:1]}
  by_object = robustness.measure(
    'attack_error', tiny_classifier(), ROWS, attacks=[PGD(steps=3)], **options
  )
  assert by_object.table.equals(by_name.table)
  message = r"It is now attack=\{'ATTACK': \{'steps': 3\}\}, of each ATTACK"
  refused(message, robustness.measure, 'attack_error', tiny_classifier(), ROWS, steps=3)
  mixed = robustness.measure(
    'attack_error', tiny_classifier(), ROWS, attacks=['fgsm', PGD(steps=3)]
  )
  assert {*mixed.table.attack.dropna()} >= {'fgsm', 'pgd'}
  accuracy = robustness.measure(Accuracy(), tiny_classifier(), ROWS)
  assert accuracy.value('top1_accuracy').value == pytest.approx(
    (tiny_classifier().predict(IMAGES).argmax(1) == LABELS).mean()
  )
  refused('confidence', robustness.measure, Accuracy(), linear, IMAGES, LABELS, confidence=0.9)
  for settings in ({'attack': PGD()}, {'attack': 3, 'attacks': [PGD()]}, {'attak': PGD()}):
    refused('attac?k', robustness.measure, 'attack_error', linear, IMAGES, LABELS, **settings)


BAD_ARGUMENTS = {
  '0..255': ('accuracy', linear, IMAGES * 255, LABELS),
  'channels first': ('accuracy', linear, IMAGES.transpose(0, 3, 1, 2), LABELS),
  'one-hot': ('accuracy', linear, IMAGES, np.eye(4)[LABELS]),
  'one-hot integers': ('accuracy', linear, IMAGES, np.eye(4, dtype=int)[LABELS]),
  'label out of range': ('accuracy', linear, IMAGES, LABELS + 4),
  'fewer labels': ('accuracy', linear, IMAGES, LABELS[:5]),
  'no labels': ('accuracy', linear, IMAGES),
  'empty': ('accuracy', linear, IMAGES[:0], LABELS[:0]),
  'NaN': ('accuracy', lambda x: linear(x) * np.nan, IMAGES, LABELS),
  'draws': ('accuracy', lambda x: linear(x) + next(NOISE), IMAGES, LABELS),
  'draws in NumPy': ('accuracy', lambda x: np.asarray(linear(x)) * next(NOISE), IMAGES, LABELS),
  'probabilities': ('accuracy', lambda x: jax.nn.softmax(linear(x)), IMAGES, LABELS),
  'logits': ('accuracy', robustness.classifier(linear, outputs='probabilities'), IMAGES, LABELS),
  'fails': ('accuracy', lambda x: x.missing, IMAGES, LABELS),
  'images': ('accuracy', lambda x: x, IMAGES, LABELS),
  'one name twice': ('accuracy', {'1': linear, 1: linear}, IMAGES, LABELS),
  'no model': ('accuracy', None, IMAGES, LABELS),
  'model of images alone': ('corruption_spectrum', linear, IMAGES, LABELS),
  'no function': ('accuracy', 5, IMAGES, LABELS),
  'no weights': ('accuracy', 'resnet20', IMAGES, LABELS),
  'no architecture': ('accuracy', 'resnet21', IMAGES, LABELS),
  'no gradient': ('attack_error', lambda x: np.asarray(linear(np.asarray(x))), IMAGES, LABELS),
  'no study': ('acuracy', linear, IMAGES, LABELS),
  'no columns': ('video_pm_k', linear, IMAGES, LABELS),
  'no file of weights': ('accuracy', robustness.classifier('resnet20', variables={'a': 1}), *BATCH),
  'path of weights': ('accuracy', robustness.classifier('resnet20', variables=MISSING), *BATCH),
}
"""Arguments of `measure` by the mistake in them."""
OF_MODELS = ('one name twice', 'no model', 'model of images alone', 'no function', 'no weights')
OF_MODELS += ('no architecture', 'no file of weights', 'path of weights')
"""The mistakes that need no image to be noticed."""
NOISE = itertools.count(1.0)
"""Numbers that make a classifier answer differently at each call."""


@pytest.mark.parametrize('name', BAD_ARGUMENTS)
def test_bad_input_is_refused_before_anything_is_written(name, tmp_path):
  with pytest.raises(InputError) as raised:
    robustness.measure(*BAD_ARGUMENTS[name], workdir=tmp_path / 'run')
  assert not re.search(r'--|config\.', str(raised.value)), 'a flag or key, not an argument'
  assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('name', OF_MODELS)
def test_bad_models_are_refused_before_images_are_read(name):
  study, model, *_ = BAD_ARGUMENTS[name]
  pairs = iter(lambda: pytest.fail('images are read'), None)
  with pytest.raises(InputError):
    robustness.measure(study, model, pairs)


@pytest.mark.parametrize('options', [{'nrom': 3}, {'norm': -1.0}, {'seed': -1}, {'batch_size': -1}])
def test_bad_settings_are_refused(options, tmp_path):
  with pytest.raises(InputError, match='^(unknown key nrom:|norm is|seed is|batch_size is)'):
    robustness.measure(
      'fourier_heatmap', linear, IMAGES, LABELS, **options, workdir=tmp_path / 'run'
    )
  assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('argument', [{'columns': [1]}, {'columns': 3}, {'class_names': 3}])
def test_an_argument_of_another_type_is_refused_in_one_line(argument):
  [(name, value)] = argument.items()
  message = re.escape(f'{name} is {value}; it must be')
  refused(message, robustness.measure, 'accuracy', tiny_classifier(), *BATCH, **argument)


def test_a_folder_and_overrides_of_another_type_are_refused(tmp_path):
  refused('3 is no path', robustness.read, 3)
  refused('3 is no path', robustness.run, 'accuracy', 3)
  refused(r'overrides is \[1\]; it must', robustness.run, 'accuracy', tmp_path, [1])


def test_names_and_columns_are_arrays_of_any_library():
  frame = pd.DataFrame({'site': np.arange(len(LABELS))})
  for names in (np.array(CLASSES), pd.Series(CLASSES), iter(CLASSES)):
    named = robustness.classifier(linear, class_names=np.array(CLASSES))
    results = robustness.measure('accuracy', named, *BATCH, class_names=names, columns=frame)
    assert {*results.table['class'].dropna()} <= {*CLASSES}
  refused('is no number', robustness.classifier, linear, mean='imagenet')
  of_a_name = robustness.classifier('resnet20', class_names=CLASSES)
  refused('^class_names is for a module', robustness.measure, 'accuracy', of_a_name, *BATCH)


@pytest.mark.parametrize('devices', [[], 'cpu', jax.devices()[:1] * 2])
def test_devices_that_no_run_can_use_are_refused(devices):
  refused('devices is .*each once', robustness.measure, 'accuracy', linear, *BATCH, devices=devices)


def test_a_config_runs_with_changes(tmp_path):
  path = tmp_path / 'own.npz'
  np.savez(path, image=IMAGES, label=LABELS, class_names=CLASSES)
  network = pathlib.Path(__file__).with_name('networks.py')
  changes = {
    'classifier.name': f'{network}:tiny_classifier',
    'classifier.train': False,
    'data.source': 'npz',
    'data.npz.path': path,
    'data.num_images': 8,
  }
  results = robustness.run('accuracy', tmp_path / 'run', changes)
  assert results.data['num_examples'] == 8
  assert '<h3>' in results._repr_html_() and results.classifier_labels == ['tiny_classifier']
  refused('nrom', robustness.run, 'fourier_heatmap', tmp_path / 'other', {'study.nrom': 1})


def test_a_network_is_trained_resumed_and_measured(tmp_path):
  options = {'policy': ['flip'], 'attack': PGD(steps=1), 'epochs': 1, 'batch_size': 8}
  images = np.random.default_rng(0).random((16, 8, 8, 3), np.float32)
  labels = np.arange(16) % 2
  first = robustness.train('small_cnn', images, labels, **options, workdir=tmp_path)
  second = robustness.train('small_cnn', images, labels, **options, workdir=tmp_path)
  np.testing.assert_array_equal(first.predict(images), second.predict(images))
  other = robustness.train('small_cnn', images, labels, **options, seed=1)
  assert (other.predict(images) != first.predict(images)).any()
  assert robustness.measure('accuracy', first, images, labels).value('top1_accuracy').value <= 1
  assert first.predict(images[:0]).shape == (0, 2)
  refused('small_cn', robustness.train, 'small_cn', images, labels, epochs=1)
  refused(
    'key learning_rat:', robustness.train, 'small_cnn', images, labels, epochs=1, learning_rat=1
  )
  refused(
    "'measure'", robustness.train, 'small_cnn', images, labels, epochs=1, measure=['accuracy']
  )


class Mean(nn.Module):
  """Two logits, linear in the mean colour."""

  @nn.compact
  def __call__(self, images, train=False):
    return nn.Dense(2)(images.mean((1, 2)))


@pytest.mark.slow
def test_settings_of_trainings_work_with_arrays_and_checkpoints_are_weights(tmp_path):
  images, labels = np.random.default_rng(0).random((24, 8, 8, 3), np.float32), np.arange(24) % 2
  held_out = {'epochs': 2, 'batch_size': 8, 'validation': 0.25, 'keep': 'best'}
  options = {**held_out, 'balanced': 'label', 'precision': 'bfloat16'}
  trained = robustness.train('small_cnn', images, labels, **options, workdir=tmp_path)
  assert trained.provenance['kept'] == 'best by validation accuracy'
  folder = str(tmp_path / 'checkpoints' / 'small_cnn')
  loaded = robustness.classifier('small_cnn', variables=folder, name='loaded')
  models = {'trained': trained, 'loaded': loaded}
  table = robustness.measure('accuracy', models, images, labels).table
  assert table.value[0] == table.value[1]
  options = {'epochs': 1, 'batch_size': 8}
  tuned = robustness.train('small_cnn', images, labels, **options, initial_weights=folder)
  assert tuned.provenance['initial_weights'] == 'small_cnn'
  assert robustness.train(Mean(), images, labels, **options).predict(images).shape == (24, 2)


@cases(
  'options, message',
  ({'network': linear}, 'network is a function; it must be a module of Linen'),
  ({'attack': PGD}, 'attack is <class .*object of a class of Attack'),
  ({'objective': 3}, 'objective is 3'),
  ({'initial_weights': {'params': {}}}, 'initial_weights is a dict; give a folder'),
  ({'initial_weights': __file__}, 'holds no trained classifier'),
  ({'input_filter': {'low_pass': {'bandwidth': 3}}}, 'input_filter is {'),
  ({'workdir': __file__}, 'workdir is .* no folder'),
  ({'images': ROWS, 'labels': None, 'class_names': CLASSES}, 'have .* class names'),
  ({'layer_decay': 0.5}, '^layer_decay is 0.5'),
  ({'balanced': 'nothing'}, "^balanced is 'nothing'"),
  ({'labels': LABELS + 2**20}, 'the largest label of the images is 104857'),
  ({'objective': GroupDRO(groups=1)}, '^objective.group_dro.groups is 1'),
)
def test_arguments_of_train_that_cannot_be_used_are_refused(options, message):
  arguments = {'network': Mean(), 'images': IMAGES, 'labels': LABELS % 2, 'epochs': 1, **options}
  refused(message, robustness.train, batch_size=2, **arguments)


def test_a_training_of_a_module_begins_with_its_checkpoints(tmp_path):
  options = {'batch_size': len(LABELS), 'workdir': tmp_path}
  first = robustness.train(Mean(), IMAGES, LABELS % 2, epochs=3, **options)
  folder = tmp_path / 'checkpoints' / 'network'
  options = {'epochs': 1, 'batch_size': len(LABELS), 'initial_weights': folder}
  options['learning_rate'] = 1e-12
  second = robustness.train(Mean(), IMAGES, LABELS % 2, **options)
  np.testing.assert_allclose(second.predict(IMAGES), first.predict(IMAGES), atol=1e-6)
  assert second.provenance['initial_weights'] == 'network'
  refused("holds 'network'", robustness.train, 'small_cnn', IMAGES, LABELS, **options)


class Dropped(Mean):
  @nn.compact
  def __call__(self, images, train=False):
    return nn.Dense(2)(nn.Dropout(0.5, deterministic=not train)(images.mean((1, 2))))


class Counting(Mean):
  @nn.compact
  def __call__(self, images, train=False):
    count = self.variable('counts', 'calls', jnp.zeros, ())
    return nn.Dense(2)(images.mean((1, 2))) + count.value


class WithoutMode(Mean):
  @nn.compact
  def __call__(self, images):
    return nn.Dense(2)(images.mean((1, 2)))


@cases(
  'module, message',
  (Dropped(), 'cannot be trained: .*no random keys, which dropout needs'),
  (Counting(), "cannot be trained: .*no collections but 'params' and 'batch_stats'"),
  (WithoutMode(), r'cannot be called as module\(images, train=False\)'),
)
def test_modules_that_a_step_cannot_call_are_refused(module, message):
  refused(message, robustness.train, module, IMAGES, LABELS % 2, epochs=1, batch_size=2)


@pytest.mark.parametrize('results', [(), (['one', 'two'],), (3,)])
def test_arguments_that_are_no_results_are_not_compared(results):
  refused('^compare (takes|needs)', robustness.compare, *results)


@pytest.mark.slow
def test_records_of_one_training_are_not_resumed_with_another(tmp_path):
  images, labels = np.random.default_rng(0).random((16, 8, 8, 3), np.float32), np.arange(16) % 2
  options = {'policy': {'crop': {'padding': 1}}, 'epochs': 1, 'batch_size': 8}
  for seed in (0, 0):  # the second training has equal weights, so its records are resumed
    trained = robustness.train(Mean(), images, labels, **options, seed=seed)
    robustness.measure('accuracy', trained, images, labels, workdir=tmp_path)
  other = robustness.train(Mean(), images, labels, **options, seed=1)
  refused('sha256', robustness.measure, 'accuracy', other, images, labels, workdir=tmp_path)


class Curved(nn.Module):
  """Two logits, a function of the mean colour of 3 channels with the variables of any other."""

  activation: str

  @nn.compact
  def __call__(self, images, train):
    return getattr(nn, self.activation)(nn.Dense(2)(images.mean((1, 2))))


class CurvedByDefault(Curved):
  @nn.compact
  def __call__(self, images, train=False):
    return getattr(nn, self.activation)(nn.Dense(2)(images.mean((1, 2))))


def test_weights_of_a_module_are_not_those_of_another_one_of_equal_shapes(tmp_path):
  data = np.random.default_rng(0).random((8, 4, 4, 3), np.float32), np.arange(8) % 2
  options = {'epochs': 1, 'batch_size': 8, 'workdir': tmp_path}
  for _ in range(2):  # the second training is resumed
    robustness.train(CurvedByDefault('relu'), *data, **options)
  other = CurvedByDefault('tanh')
  refused('another training.*outputs_on_fixed_images', robustness.train, other, *data, **options)
  refused('train=False by default', robustness.train, Curved('relu'), *data, epochs=1, batch_size=8)
  refused('^precision is .*dtype', robustness.train, other, *data, epochs=1, precision='bfloat16')


@cases('changed, facts', ('images', {'set': 1}), ('labels', {}), ('site', {'set': 1}))
def test_a_training_is_not_resumed_with_other_rows(changed, facts, tmp_path):
  images, site = np.random.default_rng(0).random((8, 4, 4, 3), np.float32), np.arange(8) // 4
  rows = ArrayRows(images, np.arange(8) % 2, ('a', 'b'), columns={'site': site}, facts=facts)
  other = {
    'images': {'images': images[::-1]},
    'labels': {'labels': 1 - rows.labels},
    'site': {'columns': {'site': 1 - site}},
  }[changed]
  options = {'epochs': 1, 'batch_size': 8, 'balanced': 'site', 'workdir': tmp_path}
  trained, again = (robustness.train(Mean(), rows, **options) for _ in range(2))
  np.testing.assert_array_equal(trained.predict(images), again.predict(images))
  refused('sha256', robustness.train, Mean(), dataclasses.replace(rows, **other), **options)


@pytest.mark.parametrize('changed', ['images', 'labels', 'column', 'model'])
def test_other_rows_in_any_block_and_other_models_are_refused_in_a_workdir(changed, tmp_path):
  rows = {'images': np.zeros((600, *IMAGES.shape[1:]), np.uint8), 'labels': np.arange(600) % 2}
  rows['column'] = np.linspace(0, 1, 600)

  def measure(model, images, labels, column):
    columns, options = {'size': column}, {'workdir': tmp_path, 'progress': False}
    return robustness.measure('accuracy', model, images, labels, columns=columns, **options)

  first = measure({'one': linear}, **rows)
  assert len([*(tmp_path / 'records/one').glob('*.npz')]) == 2
  if changed in rows:
    rows[changed][-1] += 1
    refused('on other images', measure, {'one': linear}, **rows)
  else:
    refused('holds records of one', measure, {'two': linear}, **rows)
  assert robustness.read(tmp_path).table.equals(first.table)


def test_a_second_training_in_a_folder_in_use_is_refused(tmp_path):
  images, labels = np.zeros((8, 4, 4, 3), np.float32), np.arange(8) % 2
  with workdir.locked(tmp_path):
    refused(
      'another run works', robustness.train, Mean(), images, labels, epochs=16, workdir=tmp_path
    )


@pytest.mark.slow
def test_a_training_in_environments_is_measured_by_systematic_robustness():
  data = DataSettings(num_images=60, random_class_groups=2)
  training_data = dataclasses.replace(data, split='train')
  environments = ('contrast', 'gaussian_noise')
  policy, options = {'environment': {'transforms': environments}}, {'epochs': 1, 'batch_size': 30}
  models = {'erm': robustness.train('small_cnn', training_data, policy=policy, **options)}
  options = {'environments': environments, 'severities': (3,), 'samples': 100}
  results = robustness.measure('systematic', models, data, **options)
  assert len(repr(models['erm'])) < 100, 'a session prints no weights'
  assert results.value('rho').value <= 1 and results.figure('cells')
  regrouped = dataclasses.replace(data, class_group_seed=1)
  refused('class group', robustness.measure, 'systematic', models, regrouped, **options)


def test_adversarial_images_stay_in_the_ball_and_may_be_traced():
  key, labels = jax.random.key(0), jnp.asarray(LABELS)

  def attacked(images):
    return robustness.attack(key, linear, images, labels, 'pgd', 0.1, steps=3)

  images = jnp.asarray(IMAGES)
  adversarial = attacked(images)
  assert jnp.abs(adversarial - images).max() <= 0.1 + 1e-6
  np.testing.assert_allclose(jax.jit(attacked)(images), adversarial, atol=1e-6)
  assert (linear(adversarial).argmax(1) == labels).mean() < (
    linear(images).argmax(1) == labels
  ).mean()
  arguments = key, linear, images, labels, 'pgd'
  refused('unknown key step: did you mean', robustness.attack, *arguments, 0.1, step=3)
  refused('^epsilon is -1.0; it must be', robustness.attack, *arguments, -1.0)
  refused('unknown key statistics', robustness.attack, *arguments, 0.1, statistics='running')
  refused('[0, 1]', robustness.attack, key, linear, images * 255, labels, 'pgd', 0.1)
  refused('labels', robustness.attack, key, linear, images, labels + 1000, 'pgd', 0.1)
  for dtype in (int, np.float32):
    one_hot = np.eye(4, dtype=dtype)[LABELS]
    text = refused('labels.argmax.1.', robustness.attack, key, linear, images, one_hot, 'pgd', 0.1)
    assert len(text) < 200, 'the labels are not printed'
  for on_host in (in_numpy, robustness.classifier(in_numpy)):
    text = refused('no gradient', robustness.attack, key, on_host, images, labels, 'pgd', 0.1)
    assert text.startswith('in_numpy is') and 'robustness.classifier(module)' in text
  for bad in (
    lambda x: linear(x)[:, 0],
    lambda x: (linear(x),),
    lambda x: linear(x)[:1],
    lambda x: linear(x).astype(int),
    lambda x: linear(x)[:, :0],
  ):
    refused('^the model gives', robustness.attack, key, bad, images, labels, 'pgd', 0.1)
  confident = lambda x: jnp.log(jax.nn.softmax(1e4 * linear(x)))  # noqa: E731
  arguments = key, confident, images, confident(images).argmax(1), 'pgd', 0.1
  refused('not finite for image .* gradient', robustness.attack, *arguments)
  by_seed = robustness.attack(0, linear, images, labels, 'pgd', 0.1, steps=3)
  np.testing.assert_array_equal(by_seed, adversarial)
  by_class = robustness.attack(0, linear, images, 2, 'pgd', 0.1, steps=3)
  by_labels = robustness.attack(0, linear, images, 0 * labels + 2, 'pgd', 0.1, steps=3)
  np.testing.assert_array_equal(by_class, by_labels)


def test_classifiers_of_all_kinds_are_attacked_under_jit_too():
  torch = pytest.importorskip('torch', reason='attacks a PyTorch module')
  flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(IMAGES[0].size, len(CLASSES)))
  for model in (robustness.classifier(linear, mean=[0.5]), flat.eval(), tiny_classifier()):

    def attacked(images, labels, model=model):
      return robustness.attack(0, model, images, labels, 'pgd', 0.1, steps=3)

    adversarial = attacked(IMAGES, LABELS)
    assert 0 < jnp.abs(adversarial - IMAGES).max() <= 0.1 + 1e-6
    np.testing.assert_allclose(jax.jit(attacked)(IMAGES, LABELS), adversarial, atol=1e-6)


def test_a_policy_changes_images_and_mixes_targets():
  key, images = jax.random.key(0), jnp.asarray(IMAGES)
  flipped, labels = robustness.apply_policy(key, images, jnp.asarray(LABELS), ['flip'])
  is_same = (flipped == images).all((1, 2, 3))
  assert ((flipped == images[:, :, ::-1]).all((1, 2, 3)) | is_same).all() and not is_same.all()
  np.testing.assert_array_equal(labels, LABELS)
  targets = jax.nn.one_hot(jnp.asarray(LABELS), len(CLASSES))
  _, mixed = jax.jit(robustness.apply_policy, static_argnums=3)(key, images, targets, ('mixup',))
  np.testing.assert_allclose(mixed.sum(1), 1, rtol=1e-5)
  assert (mixed.max(1) < 1).any()
  refused("'target': give targets", robustness.apply_policy, key, images, labels, ['mixup'])
  by_seed, _ = robustness.apply_policy(0, IMAGES, LABELS, ['flip'])
  np.testing.assert_array_equal(by_seed, flipped)
  for policy in (None, [3], [AUGMENTATIONS.find('flip', 'policy')]):
    refused('policy has', robustness.apply_policy, key, images, labels, policy)
  for twice in (['flip', 'flip'], [Crop(padding=1), Crop(padding=2)]):
    refused('^policy names .* twice', robustness.apply_policy, key, images, labels, twice)
  padding = {'crop': {'padding': 0}}
  refused('^policy.crop.padding is 0', robustness.apply_policy, key, images, labels, padding)
  levels, channels_first = 255 * IMAGES, IMAGES.transpose(0, 3, 1, 2)
  for bad, words in (
    (levels, 'images have values from'),
    (levels.astype(np.uint8), 'images are uint8; augmentations take floats in .0, 1.'),
    (channels_first, 'Move the channels last'),
  ):
    refused(words, robustness.apply_policy, key, bad, LABELS, ['gaussian'])
  for labels in (LABELS[:5], LABELS / 2, LABELS.astype(str)):
    words = f'labels have the shape .{len(labels)},. and are {labels.dtype}'
    refused(words, robustness.apply_policy, key, images, labels, ['flip'])


def test_policies_and_attacks_give_the_same_images_where_jax_has_64_bits():
  changed = {}
  for bits in (32, 64):
    with jax.enable_x64(bits == 64):
      targets = jax.nn.one_hot(jnp.asarray(LABELS), len(CLASSES))
      policy = ['flip', 'gaussian', 'mixup']
      augmented = robustness.apply_policy(0, jnp.asarray(IMAGES, float), targets, policy)
      attacked = robustness.attack(0, linear, IMAGES, LABELS, 'pgd', 0.1, steps=3)
      changed[bits] = *augmented, attacked
  for narrow, wide in zip(changed[32], changed[64], strict=True):
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide, narrow)


def test_every_module_with_a_lazy_attribute_defines_it():
  for package, name in (('fourier', 'perturb'), ('scenes', 'compose'), ('video', 'pm_k')):
    assert callable(getattr(importlib.import_module(f'robustness.{package}'), name))
  with pytest.raises(AttributeError, match='nothing'):
    robustness.nothing  # noqa: B018
