"""Trainings are refused if the objective, network, data and settings do not fit together."""

import numpy as np
import pytest
from flax import linen as nn

from robustness.attacks.pgd import PGD
from robustness.attacks.square import Square
from robustness.augment.policy import Policy
from robustness.objectives import Objective
from robustness.objectives.groups import IRM, Coral, GroupDRO
from robustness.training.step import check
from robustness.training.training import Pipeline
from tests.cases import cases
from tests.refusals import refused
from tests.training.conftest import TinyNet

FOUR = Policy.of(environment={'transforms': ('gaussian_noise', 'contrast', 'snow')})
STORED = {'environment': np.array([0, 3, 1, 1], np.int32)}


def task_of(make_task, kind, policy, **settings):
  return make_task(task={'pipeline': Pipeline(policy, objective=kind(**settings))})


@pytest.mark.parametrize(('policy', 'columns'), [(FOUR, {}), (Policy(), STORED)])
@cases(
  'kind, settings, message',
  (IRM, {}, 'irm.environments is 2'),
  (IRM, {'environments': 3}, 'irm.environments is 3'),
  (Coral, {}, 'coral.environments is 2'),
  (GroupDRO, {'column': 'environment'}, r'group_dro.groups is 0, the number of classes \(3\)'),
)
def test_a_wrong_number_of_groups_is_refused(make_task, kind, settings, message, policy, columns):
  """The network has three classes, and there are four environments."""
  task = task_of(make_task, kind, policy, **settings)
  refused(rf"{message}.*'environment' has the values 0 to 3.*=4\.", task.check_columns, columns)


@pytest.mark.parametrize(('policy', 'columns'), [(FOUR, {}), (Policy(), STORED)])
@cases('kind, key', (IRM, 'environments'), (Coral, 'environments'), (GroupDRO, 'groups'))
def test_a_sufficient_number_of_groups_is_valid(make_task, kind, key, policy, columns):
  for count in (4, 9):
    task_of(make_task, kind, policy, column='environment', **{key: count}).check_columns(columns)


def test_the_network_says_how_many_groups_the_classes_are(make_task):
  task_of(make_task, GroupDRO, Policy()).check_columns({'label': np.array([0, 2])})
  check = task_of(make_task, GroupDRO, Policy(), groups=2).check_columns
  refused(r'groups is 2, .*has the values 0 to 2.*groups=3', check, {'label': np.array([0])})


def test_reserved_column_names_are_refused(make_task):
  for name in ('occurrence', 'epoch', 'target', 'key', 'partner'):
    check = task_of(make_task, GroupDRO, Policy(), column=name, groups=2).check_columns
    refused(f"column is '{name}', which is reserved for", check, {name: np.array([0, 1])})


@pytest.mark.parametrize('values', [[0, -1], [0.5, 1.0], [[0, 1], [1, 0]]])
def test_a_column_without_group_numbers_is_refused(make_task, values):
  check = task_of(make_task, IRM, Policy(), column='fold').check_columns
  message = r"irm\.column is 'fold', which numbers no groups"
  refused(message, check, {'fold': np.array(values)})


def test_a_network_without_features_is_refused_if_the_objective_needs_them(make_task, rows):
  class Silent(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
      return nn.Dense(3)(x.mean((1, 2)))

  objective = Coral(column='label', environments=3)
  task = make_task(Silent(), task={'pipeline': Pipeline(objective=objective)})
  refused(r'self\.sow', check, task, next(rows.batches(32)))


@cases(
  'minimise, message',
  (lambda losses: losses, r'returns LinearizeTracer, not \(losses, weights, state'),
  (
    lambda losses: (losses[:, None], losses, {}, {}),
    r'losses float32 \[\d+, 1\] and weights \[\d+\]',
  ),
  (lambda losses: (losses.mean(), losses.mean(), {}, {}), r'losses float32 \[\] and weights \[\]'),
  (lambda losses: (losses > 1, losses, {}, {}), r'losses bool'),
)
def test_losses_that_are_not_of_the_rows_are_refused(make_task, rows, minimise, message):
  class Odd(Objective):
    def __call__(self, outputs, batch, state, total):
      return minimise(outputs['logits'].mean(-1))

  task = make_task(task={'pipeline': Pipeline(objective=Odd())})
  refused(message, check, task, next(rows.batches(32)))


def test_initial_weights_of_another_shape_are_refused_before_the_training(make_task, rows):
  task = make_task(task={'initial': {'params': {'head': {'kernel': np.zeros((9, 3))}}}})
  refused('params/head/kernel.*architecture and image size', check, task, next(rows.batches(32)))


PGD_IN_TWO = Pipeline(Policy.of(repeat={}), attack=PGD(steps=1))
IN_TURN = Pipeline(attack=Square(queries=1))
MIXED = Pipeline(Policy.of(mixup={}), attack=PGD(steps=1))


@cases(
  'settings, pipeline, message',
  ({'stem_epochs': 1.0}, Pipeline(), r'stem_epochs is 1, .* no layer called stem: set it to 0'),
  ({'layer_decay': 0.5}, Pipeline(), 'layer_decay is 0.5, .* no layers called stage1 or block0'),
  ({'drop_path': 0.1}, Pipeline(), 'drop_path is 0.1, and this network has no stochastic depth'),
  ({'bias_rate': 64.0}, Pipeline(), 'bias_rate is 64, .* no biases of normalisations: set it to 1'),
  ({'auxiliary_norms': 1}, PGD_IN_TWO, 'auxiliary_norms is 1, and examples of an attack'),
  ({}, MIXED, "has 'mixup', which mixes targets, and 'pgd' raises the loss of a row's own label"),
  ({}, IN_TURN, r"square\.statistics is 'batch'.*a part of the batch.*'running'"),
)
def test_settings_of_missing_layers_and_unsuitable_attacks_are_refused(
  make_task, rows, settings, pipeline, message
):
  network = TinyNet(norm='bias_rate' not in settings)
  task = make_task(network, task={'pipeline': pipeline}, **settings)
  refused(message, check, task, next(rows.batches(32)))
  running = Pipeline(attack=Square(queries=1, statistics='running'))
  check(make_task(task={'pipeline': running}, bias_rate=64.0), next(rows.batches(32)))
