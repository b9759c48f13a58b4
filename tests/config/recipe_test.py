"""A recipe per classifier: what it leaves out is the run's, what it changes is its own."""

from __future__ import annotations

from typing import Any

import pytest

from robustness.config import experiment
from robustness.config.defaults import default_config
from robustness.core.errors import InputError
from robustness.fourier.input_filters import LowPass


def parsed(**changes: Any) -> experiment.Experiment:
  config = default_config('accuracy', labels=('a', 'b'))
  config.update_from_flattened_dict({key.replace('__', '.'): v for key, v in changes.items()})
  return experiment.from_config(config.to_dict())


def test_what_a_recipe_leaves_out_is_the_runs() -> None:
  checked = parsed(training__epochs=3.0, seed=5, data__source='npz', data__path='x.npz')
  for recipe in checked.classifiers.values():
    assert (recipe.training.epochs, recipe.seed) == (3.0, 5)
    assert (recipe.data.source, recipe.data.path, recipe.data.split) == ('npz', 'x.npz', 'train')
    assert recipe.attack is None and recipe.input_filter is None
    assert recipe.objective.name == 'cross_entropy' and not recipe.augment.augmentations


def test_a_recipe_changes_its_own_values_alone() -> None:
  checked = parsed(
    training__epochs=3.0,
    classifiers__b__training__epochs=7.0,
    classifiers__b__training__optimizer='adamw',
    classifiers__b__training__step_epochs=(),
    classifiers__b__augment__policy=('crop', 'flip'),
    classifiers__b__augment__crop__padding=2,
    classifiers__b__attack__name='pgd',
    classifiers__b__attack__pgd__steps=3,
    classifiers__b__input_filter__name='low_pass',
    classifiers__b__input_filter__low_pass__bandwidth=9,
    classifiers__b__objective__name='group_dro',
    classifiers__b__data__source='folder',
    classifiers__b__seed=9,
    data__num_images=20,
  )
  a, b = checked.classifiers.values()
  assert (a.training.epochs, a.training.optimizer, a.seed, a.data.source) == (
    3.0,
    'sgd',
    0,
    'digits',
  )
  assert (b.training.epochs, b.training.optimizer, b.seed, b.data.source) == (
    7.0,
    'adamw',
    9,
    'folder',
  )
  assert b.data.num_images == 0, 'all rows are trained on unless the recipe says otherwise'
  assert b.pipeline.describe() == {
    'augment': [
      {'name': 'crop', 'padding': 2, 'border': 'black'},
      {'name': 'flip', 'probability': 0.5},
    ],
    'attack': {**a_default('pgd'), 'name': 'pgd', 'steps': 3},
    'objective': {
      'name': 'group_dro',
      'column': 'label',
      'groups': 0,
      'step_size': 0.01,
      'label_smoothing': 0.0,
    },
  }
  assert b.input_filter == LowPass(9)
  assert b.input_filter.describe() == {'name': 'low_pass', 'bandwidth': 9}


def a_default(name: str) -> dict[str, Any]:
  return default_config('accuracy').classifier.attack[name].to_dict()


STYLES = {'data': {'source': 'environments', 'random_class_groups': 2}}


def test_mixing_stored_environments_may_be_meant_or_leak_nothing() -> None:
  mixed = {**STYLES, 'augment': {'policy': ('mixup',), 'environment': {'allow_leaks': True}}}
  clean = {'data': {**STYLES['data'], 'split': 'clean'}, 'augment': {'policy': ('mixup',)}}
  classifiers = {'meant': mixed, 'clean': clean}
  experiment.from_config({'study': {'name': 'accuracy'}, 'classifiers': classifiers})


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'a': {'augmnt': {}}}, r"unknown key config\.classifiers\.a\.augmnt: did you mean 'augment'"),
    ({'a': {'training': {'epoch': 3}}}, r"config\.classifiers\.a\.training\.epoch: .*'epochs'"),
    ({'a': {'data': {'sauce': ''}}}, r"config\.classifiers\.a\.data\.sauce: did you mean 'source'"),
    ({'a': {'attack': {'name': 'pdg'}}}, r"classifiers\.a\.attack\.name names 'pdg'; .*'pgd'"),
    ({'a': {'objective': {'name': 'x'}}}, r"a\.objective\.name names 'x'; .*group_dro"),
    ({'a': {'seed': -1}}, r'seed is -1'),
    ({'a': {'augment': {'policy': ('crop', 'crop')}}}, r"policy names 'crop' twice"),
    ({'a': {**STYLES, 'augment': {'policy': ('mixup',)}}}, r"a trains with 'mixup' across env"),
  ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
  with pytest.raises(InputError, match=message):
    experiment.from_config({'study': {'name': 'accuracy'}, 'classifiers': changes})


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'seeds': (1,)}, r'config\.seeds is \(1,\).*at least two distinct'),
    ({'seeds': (1, 1)}, r'config\.seeds is \(1, 1\)'),
    ({'seeds': (0, -1)}, r'config\.seeds is \(0, -1\).*\[0, 2\*\*32\)'),
    ({'seeds': (0, 1)}, r'config\.classifiers\.a has given weights.*classifiers\.a\.train=True'),
    (
      {'seeds': (0, 1), 'classifiers__a__train': True, 'classifiers__b__weights': 'x.th'},
      r'config\.classifiers\.b has given weights',
    ),
    (
      {
        'seeds': (0, 1),
        'classifiers__a__train': True,
        'classifiers__b__train': True,
        'classifiers__b__seed': 4,
      },
      r'config\.classifiers\.b\.seed is 4: leave one of them out',
    ),
  ],
)
def test_several_seeds_need_trainings_without_seeds_of_their_own(
  changes: dict[str, Any], message: str
) -> None:
  with pytest.raises(InputError, match=message):
    parsed(**changes)


def test_a_seed_is_that_of_every_training() -> None:
  checked = parsed(classifiers__a__train=True, classifiers__b__train=True, seeds=(3, 4))
  assert {recipe.seed for recipe in checked.with_seed(4).classifiers.values()} == {4}
  assert checked.with_seed(4).execution.seed == 0


def test_what_was_called_front_end_is_read_as_the_input_filter() -> None:
  section = {'front_end': {'name': 'low_pass', 'low_pass': {'bandwidth': 9}}}
  for classifiers in ({'classifier': section}, {'classifiers': {'front_end': section}}):
    read = experiment.from_config({'study': {'name': 'accuracy'}, **classifiers})
    assert [own.input_filter for own in read.classifiers.values()] == [LowPass(9)]
