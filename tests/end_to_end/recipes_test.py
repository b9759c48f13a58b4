"""Through `launch`: recipes that differ in every part, several seeds, held-out validation rows."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pandas as pd
import pytest

from robustness.config.defaults import default_config
from robustness.core.errors import InputError
from robustness.results import Results
from robustness.training import load_variables
from tests.end_to_end import runs
from tests.table_rows import estimate

pytestmark = pytest.mark.slow

TINY = {
  'data.num_images': 40,
  'batch_size': 20,
  'training.steps': 3,
  'training.batch_size': 16,
  'training.log_every_steps': 1,
  'training.checkpoint_every_steps': 3,
}


def config(labels: tuple[str, ...], **changes):
  written = default_config('accuracy', labels=labels)
  for section in written.classifiers.values():
    section.train = True
  written.update_from_flattened_dict(TINY)
  written.update_from_flattened_dict({key.replace('__', '.'): v for key, v in changes.items()})
  return written


def log(workdir: pathlib.Path) -> list[dict]:
  return [json.loads(line) for line in (workdir / 'log.jsonl').read_text().splitlines()]


def test_recipes_that_differ_in_every_part(tmp_path: pathlib.Path) -> None:
  written = config(
    ('plain', 'other'),
    classifiers__other__augment__policy=('repeat', 'crop', 'flip', 'gaussian', 'cutmix'),
    classifiers__other__augment__crop__padding=2,
    classifiers__other__attack__name='pgd',
    classifiers__other__attack__pgd__steps=2,
    classifiers__other__input_filter__name='low_pass',
    classifiers__other__input_filter__low_pass__bandwidth=9,
    classifiers__other__objective__name='group_dro',
    classifiers__other__training__optimizer='adamw',
    classifiers__other__training__learning_rate=1e-3,
    classifiers__other__training__steps=4,
    classifiers__other__training__accumulate=2,
    classifiers__other__training__ema_decay=0.9,
    classifiers__other__seed=5,
  )
  results = runs.run(written, tmp_path)
  plain, other = results.classifier
  assert other['front_end'] == {'name': 'low_pass', 'bandwidth': 9}
  assert [part['name'] for part in other['augment']] == [
    *('repeat', 'crop', 'flip', 'gaussian', 'cutmix')
  ]
  assert (other['attack']['steps'], other['seed'], other['ema_decay']) == (2, 5, 0.9)
  assert plain['attack'] is None and 'front_end' not in plain
  facts = [load_variables(tmp_path / 'checkpoints' / label)[1] for label in ('plain', 'other')]
  assert [entry['training']['total_steps'] for entry in facts] == [3, 4]
  assert [entry['precision'] for entry in facts] == ['float32', 'float32']
  assert facts[0]['data']['split'] == 'train'
  lines = [line for line in log(tmp_path) if line.get('classifier') == 'other']
  assert any('train/worst_group_loss' in line for line in lines)
  assert any('evaluation/raw_accuracy' in line for line in lines)


def test_policies_for_robustness_and_the_objective_of_augmix(tmp_path: pathlib.Path) -> None:
  written = config(
    ('policies', 'augmix'),
    classifiers__policies__augment__policy=('auto_augment', 'rand_augment', 'patch_gaussian'),
    classifiers__policies__augment__auto_augment__policy='cifar10_reference_95',
    classifiers__policies__augment__auto_augment__without=('Brightness', 'Contrast'),
    classifiers__augmix__augment__policy=('flip', 'augmix', 'corruption'),
    classifiers__augmix__augment__corruption__corruptions=('contrast', 'brightness'),
    classifiers__augmix__augment__corruption__left_out=('contrast',),
    classifiers__augmix__objective__name='jsd',
  )
  results = runs.run(written, tmp_path)
  first = results.classifier[0]['augment'][0]
  assert (first['name'], *first['without']) == ('auto_augment', 'Brightness', 'Contrast')
  lines = [line for line in log(tmp_path) if line.get('classifier') == 'augmix']
  divergence = [line['train/divergence'] for line in lines if 'train/divergence' in line]
  assert divergence and all(0 < value < np.log(3) for value in divergence)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'augment__policy': ('fog_noise',)}, r'32 × 32 pixels, and these have 28 × 28'),
    ({'objective__name': 'jsd'}, r"'jsd' compares several images of a row"),
  ],
)
def test_parts_that_do_not_fit_are_refused(
  changes: dict, message: str, tmp_path: pathlib.Path
) -> None:
  written = config(('net',), **{f'classifiers__net__{key}': v for key, v in changes.items()})
  with pytest.raises(InputError, match=message):
    runs.run(written, tmp_path)


def test_a_trained_input_filter_is_part_of_the_classifier(tmp_path: pathlib.Path) -> None:
  written = config(('net',), classifiers__net__input_filter__name='high_pass')
  written.classifiers.net.input_filter.high_pass.bandwidth = 23
  first = runs.run(written, tmp_path / 'trained')
  weights = str(tmp_path / 'trained/checkpoints/net')
  again = config(('net',), classifiers__net__train=False, classifiers__net__weights=weights)
  with pytest.raises(
    InputError, match='was trained with the input filter .*23.*the config has none'
  ):
    runs.run(again, tmp_path / 'refused')
  again.classifiers.net.input_filter = written.classifiers.net.input_filter
  second = runs.run(again, tmp_path / 'loaded')
  pd.testing.assert_frame_equal(second.table, first.table)
  written.classifiers.net.input_filter.high_pass.bandwidth = 22
  with pytest.raises(InputError, match='a high pass on 28 pixels takes an odd number'):
    runs.run(written, tmp_path / 'even')
  assert not (tmp_path / 'even/checkpoints').exists(), 'refused before the training'


def test_several_seeds_give_each_and_their_mean(tmp_path: pathlib.Path) -> None:
  written = config(('net',), seeds=(0, 3))
  results = runs.run(written, tmp_path / 'both')
  single = [
    runs.run(config(('net',), classifiers__net__seed=seed), tmp_path / str(seed)) for seed in (0, 3)
  ]
  values = [estimate(one.table, 'net', 'top1_accuracy').value for one in single]
  mean = estimate(results.table, 'net', 'top1_accuracy')
  assert (mean.value, mean.n) == (pytest.approx(np.mean(values)), 2)
  assert mean.method == 'student over seeds'
  for seed, value in zip((0, 3), values, strict=True):
    assert estimate(results.table, 'net', 'top1_accuracy', seed=seed).value == value
    folder = tmp_path / 'both' / f'seed{seed}'
    assert estimate(Results.read(folder).table, 'net', 'top1_accuracy').value == value
    assert (folder / 'report.html').is_file()
  assert (tmp_path / 'both/figures/seeds.png').is_file()
  shas = [entry['sha256'] for entry in results.classifier['seeds'].values()]
  assert len(set(shas)) == 2
  written.seeds = (0, 4)
  with pytest.raises(InputError, match=r'config\.seeds: \[0, 3\] → \[0, 4\]'):
    runs.run(written, tmp_path / 'both')


def test_validation_rows_are_held_out_and_choose_the_weights(tmp_path: pathlib.Path) -> None:
  written = config(('net',), training__validation=0.25, training__keep='best', training__steps=6)
  written.training.evaluate_every_epochs = 0.01
  results = runs.run(written, tmp_path)
  assert results.classifier['kept'] == 'best by validation accuracy'
  facts = load_variables(tmp_path / 'checkpoints/net')[1]
  assert facts['training']['num_examples'] == 3000, '1000 of the 4000 training digits are held out'
  scores = [line['evaluation/accuracy'] for line in log(tmp_path) if 'evaluation/accuracy' in line]
  assert all(round(score * 1000) == pytest.approx(score * 1000) for score in scores)


def test_an_objective_without_its_column_is_refused(tmp_path: pathlib.Path) -> None:
  written = config(('net',), classifiers__net__objective__name='group_dro')
  written.classifiers.net.objective.group_dro.column = 'environment'
  with pytest.raises(InputError, match="needs the column 'environment'.*they have: example_id"):
    runs.run(written, tmp_path)


def test_environments_that_an_objective_does_not_count_are_refused(tmp_path: pathlib.Path) -> None:
  written = config(('net',), classifiers__net__objective__name='irm')
  written.data.random_class_groups = 4
  written.classifiers.net.augment.policy = ('environment',)
  with pytest.raises(InputError, match=r'irm\.environments is 2.* 0 to 4: .*irm\.environments=5'):
    runs.run(written, tmp_path)
  assert not (tmp_path / 'checkpoints').exists()


def test_other_data_to_train_on(tmp_path: pathlib.Path) -> None:
  images = np.random.default_rng(0).integers(0, 256, (48, 28, 28, 1), np.uint8)
  np.savez(tmp_path / 'own.npz', images=images, labels=np.arange(48) % 10)
  written = config(('net',), classifiers__net__data__source='npz')
  written.classifiers.net.data.path = str(tmp_path / 'own.npz')
  written.classifiers.net.data.split = ''
  runs.run(written, tmp_path / 'run')
  facts = load_variables(tmp_path / 'run/checkpoints/net')[1]
  assert (facts['data']['source'], facts['training']['num_examples']) == ('npz', 48)
