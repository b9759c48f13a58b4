"""Whole runs of recipes that differ in every part, of several seeds and of input filters."""

import numpy as np
import pandas as pd
import pytest

from robustness.config.defaults import default_config
from robustness.results import Results
from robustness.training.checkpoint import load_variables
from tests.end_to_end import runs
from tests.refusals import refused
from tests.table_rows import estimate

pytestmark = pytest.mark.slow

TINY = {**runs.flat(runs.SMALL), 'data.num_images': 40, 'batch_size': 20}
SEVERAL = ('repeat', 'crop', 'flip', 'gaussian', 'cutout')


def config(*labels, **changes):
  """Returns a config that trains classifiers on 40 images; keys of changes have __ for dots."""
  settings = default_config('accuracy', labels=labels)
  for section in settings.classifiers.values():
    section.train = True
  by_key = {key.replace('__', '.'): value for key, value in changes.items()}
  settings.update_from_flattened_dict({**TINY, **runs.flat(by_key)})
  return settings


def test_recipes_that_differ_in_every_part_and_in_their_data(tmp_path):
  images = np.random.default_rng(0).integers(0, 256, (48, 28, 28, 1), np.uint8)
  np.savez(tmp_path / 'own.npz', images=images, labels=np.arange(48) % 10)
  other = {
    'data': {'source': 'npz', 'npz.path': str(tmp_path / 'own.npz'), 'split': ''},
    'augment': {'policy': SEVERAL, 'crop.padding': 2},
    'attack': {'name': 'pgd', 'pgd.steps': 2},
    'input_filter': {'name': 'low_pass', 'low_pass.bandwidth': 9},
    'objective.name': 'group_dro',
    'training': {'optimizer': 'adamw', 'learning_rate': 1e-3, 'steps': 4, 'accumulate': 2},
    'training.ema_decay': 0.9,
    'seed': 5,
  }
  settings = config('plain', 'other', classifiers={'other': other})
  results = runs.run(settings, tmp_path, drawn=False)
  plain, other = results.classifiers
  assert other['input_filter'] == {'name': 'low_pass', 'bandwidth': 9}
  assert [part['name'] for part in other['augment']] == list(SEVERAL)
  assert (other['attack']['steps'], other['seed'], other['ema_decay']) == (2, 5, 0.9)
  assert plain['attack'] is None and 'input_filter' not in plain
  facts = [load_variables(tmp_path / 'checkpoints' / label)[1] for label in ('plain', 'other')]
  assert [entry['training']['total_steps'] for entry in facts] == [3, 4]
  assert [entry['precision'] for entry in facts] == ['float32', 'float32']
  assert facts[0]['data']['split'] == 'train'
  assert (facts[1]['data']['source'], facts[1]['training']['num_examples']) == ('npz', 48)
  for key in ('train/worst_group_loss', 'evaluation/raw_accuracy'):
    assert any(line.get('classifier') == 'other' for line in runs.log(tmp_path, key))


def test_policies_for_robustness_and_the_objective_of_augmix(tmp_path):
  policies = {
    'policy': ('auto_augment', 'rand_augment', 'patch_gaussian'),
    'auto_augment': {'policy': 'cifar10_reference_95', 'without': ('Brightness', 'Contrast')},
  }
  mixed = {
    'policy': ('flip', 'augmix', 'corruption'),
    'corruption': {'corruptions': ('contrast', 'brightness'), 'left_out': ('contrast',)},
  }
  augmix = {'augment': mixed, 'objective.name': 'jsd'}
  settings = config(
    'policies', 'augmix', classifiers={'policies.augment': policies, 'augmix': augmix}
  )
  results = runs.run(settings, tmp_path, drawn=False)
  first = results.classifiers[0]['augment'][0]
  assert (first['name'], *first['without']) == ('auto_augment', 'Brightness', 'Contrast')
  lines = runs.log(tmp_path, 'train/divergence')
  divergence = [line['train/divergence'] for line in lines if line['classifier'] == 'augmix']
  assert divergence and all(0 < value < np.log(3) for value in divergence)


def test_a_trained_input_filter_is_part_of_the_classifier(tmp_path):
  settings = config('net', classifiers__net__input_filter__name='high_pass')
  settings.classifiers.net.input_filter.high_pass.bandwidth = 23
  first = runs.run(settings, tmp_path / 'trained', drawn=False)
  weights = str(tmp_path / 'trained/checkpoints/net')
  again = config('net', classifiers__net__train=False, classifiers__net__weights=weights)
  message = 'was trained with the input filter .*23.*the config has none'
  refused(message, runs.run, again, tmp_path / 'refused')
  again.classifiers.net.input_filter = settings.classifiers.net.input_filter
  second = runs.run(again, tmp_path / 'loaded', drawn=False)
  pd.testing.assert_frame_equal(second.table, first.table)
  settings.classifiers.net.input_filter.high_pass.bandwidth = 22
  refused('a high pass on 28 pixels takes an odd number', runs.run, settings, tmp_path / 'even')
  assert not (tmp_path / 'even/checkpoints').exists(), 'refused before the training'


def test_several_seeds_give_the_values_of_each_seed_and_their_mean(tmp_path):
  settings = config('net', seeds=(0, 3))
  results = runs.run(settings, tmp_path / 'both')
  values = []
  for seed in (0, 3):
    single = runs.run(config('net', classifiers__net__seed=seed), tmp_path / str(seed), drawn=False)
    values.append(estimate(single.table, 'net', 'top1_accuracy').value)
  mean = estimate(results.table, 'net', 'top1_accuracy')
  assert (mean.value, mean.n) == (pytest.approx(np.mean(values)), 2)
  assert mean.method == 'student over seeds'
  for seed, value in zip((0, 3), values, strict=True):
    assert estimate(results.table, 'net', 'top1_accuracy', seed=seed).value == value
    folder = tmp_path / 'both' / f'seed{seed}'
    assert estimate(Results.read(folder).table, 'net', 'top1_accuracy').value == value
    assert (folder / 'report.html').is_file()
  assert (tmp_path / 'both/figures/seeds.png').is_file()
  shas = [entry['sha256'] for entry in results.classifiers[0]['seeds'].values()]
  assert len(set(shas)) == 2
  settings.seeds = (0, 4)
  refused(r'config\.seeds: \[0, 3\] → \[0, 4\]', runs.run, settings, tmp_path / 'both')
