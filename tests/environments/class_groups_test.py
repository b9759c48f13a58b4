"""Tests class groups by name, by WordNet subtree and at random."""

import numpy as np

from robustness.environments.class_groups import ClassGroups, balanced_groups, groups_by_name
from tests.cases import cases
from tests.refusals import bad_setting, refused

DIGITS = tuple('0123456789')


def test_named_groups_leave_the_other_classes_over():
  groups = groups_by_name((('3', '1'), ('9',)), DIGITS)
  assert groups.members == ((1, 3), (9,))
  np.testing.assert_array_equal(groups.of_label, [0, 1, 0, 1, 0, 0, 0, 0, 0, 2])
  assert groups.describe()['left over'] == ['0', '2', '4', '5', '6', '7', '8']
  assert ClassGroups(((0,),), ('a', 'b')).describe() == {'C1': ['a'], 'left over': ['b']}


@cases(
  'groups, message',
  ((('1', '2'), ('2', '3')), "'2' is in the class groups 1 and 2"),
  ((('1', '1'),), "'1' is in the class groups 1, twice"),
  ((('1',), ()), 'class group 2 is empty'),
  ((('one',),), "names 'one'"),
  ((('wordnet:n1',),), bad_setting('config.data.hierarchy', '')),
)
def test_groups_that_overlap_or_are_empty_or_unknown_are_refused(groups, message):
  refused(message, groups_by_name, groups, DIGITS)


def test_random_groups_are_balanced_disjoint_and_depend_on_the_seed():
  groups = balanced_groups(4, DIGITS, seed=1)
  assert [len(labels) for labels in groups.members] == [2, 2, 2, 2]
  assert sorted(np.unique(groups.of_label, return_counts=True)[1]) == [2] * 5, 'two are left over'
  assert groups == balanced_groups(4, DIGITS, seed=1)
  assert groups != balanced_groups(4, DIGITS, seed=2)
  assert [len(labels) for labels in balanced_groups(2, DIGITS, size=3).members] == [3, 3]
  assert len(balanced_groups(1, DIGITS).members[0]) == 5, 'half of the classes are held out'
  for count, size in ((11, 0), (4, 3), (0, 0)):
    refused('random_class_groups', balanced_groups, count, DIGITS, size=size)


def test_random_groups_do_not_depend_on_the_order_of_the_names():
  names = ('wolf', 'ant', 'Bee', 'cat')
  groups, groups_of_sorted = (
    {title: {*members} for title, members in balanced_groups(2, order).describe().items()}
    for order in (names, sorted(names))
  )
  assert groups == groups_of_sorted


def test_a_wordnet_subtree_is_a_group_of_the_classes_below_it(tmp_path):
  hierarchy = tmp_path / 'is_a.txt'
  hierarchy.write_text('\ufeffn1 n2\nn2 n3\nn2 n4\nn1 n5\nn3 n6\n')
  names = ('n3', 'n4', 'n5', 'n6', 'n7')
  groups = groups_by_name((('wordnet:n2',), ('n5',)), names, str(hierarchy))
  assert groups.members == ((0, 1, 3), (2,))
  refused('no class is below', groups_by_name, (('wordnet:n9',),), names, str(hierarchy))
  hierarchy.write_text('n1 n2 n3\n')
  refused('line 1', groups_by_name, (('wordnet:n1',),), names, str(hierarchy))
