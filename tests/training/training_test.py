"""What a training refuses: groups of rows that its objective does not count."""

import numpy as np
import pytest

from robustness.augment.policy import Policy
from robustness.objectives.groups import IRM, Coral, GroupDRO
from robustness.training.step import Pipeline
from tests.cases import cases
from tests.refusals import refused

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
def test_uncounted_groups_are_refused(make_task, kind, settings, message, policy, columns):
  """The network has three classes, and there are four environments."""
  task = task_of(make_task, kind, policy, **settings)
  refused(rf"{message}.*'environment' has the values 0 to 3.*=4\.", task.check_columns, columns)


@pytest.mark.parametrize(('policy', 'columns'), [(FOUR, {}), (Policy(), STORED)])
@cases('kind, key', (IRM, 'environments'), (Coral, 'environments'), (GroupDRO, 'groups'))
def test_rows_of_groups_that_are_counted_are_not(make_task, kind, key, policy, columns):
  for count in (4, 9):
    task_of(make_task, kind, policy, column='environment', **{key: count}).check_columns(columns)


def test_classes_are_groups_that_the_network_counts(make_task):
  task_of(make_task, GroupDRO, Policy()).check_columns({'label': np.array([0, 2])})
  check = task_of(make_task, GroupDRO, Policy(), groups=2).check_columns
  refused(r'groups is 2, .*has the values 0 to 2.*groups=3', check, {'label': np.array([0])})


@pytest.mark.parametrize('values', [[0, -1], [0.5, 1.0], [[0, 1], [1, 0]]])
def test_a_column_that_numbers_no_groups_is_refused(make_task, values):
  check = task_of(make_task, IRM, Policy(), column='fold').check_columns
  message = r"irm\.column is 'fold', which numbers no groups"
  refused(message, check, {'fold': np.array(values)})
