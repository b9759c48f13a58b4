"""Tests the order of training rows: permutations, balanced groups, and rows held out."""

import numpy as np

from robustness.core.sampler import Balanced, Epochs, held_out, share_of_batch
from tests.cases import cases
from tests.refusals import bad_setting, refused


def test_epochs_are_different_permutations_that_depend_on_the_seed():
  order = Epochs(23, 0).positions(0, 69).reshape(3, 23)
  np.testing.assert_array_equal(np.sort(order), np.tile(np.arange(23), (3, 1)))
  assert len({tuple(epoch) for epoch in order}) == 3
  np.testing.assert_array_equal(Epochs(23, 0).columns(5, 100)['epoch'], np.arange(5, 100) // 23)
  assert (Epochs(23, 1).positions(0, 23) != order[0]).any()
  refused(bad_setting('num_examples', 0), Epochs, 0, 0)
  refused(bad_setting('seed', -1), Epochs, 3, -1)


@cases('create', lambda: Epochs(23, 4), lambda: Balanced([np.arange(10), np.arange(4)], 1, 'group'))
@cases('begin, end', (0, 5), (20, 31), (46, 46), (5, 100), (1000, 1001), (3070, 3080), (9000, 9007))
def test_a_part_of_the_sequence_equals_that_part_of_the_whole(create, begin, end):
  sequence, part = create(), create()
  np.testing.assert_array_equal(part.positions(begin, end), sequence.positions(0, 9999)[begin:end])
  for name, values in sequence.columns(0, 9999).items():
    np.testing.assert_array_equal(part.columns(begin, end)[name], values[begin:end])


def test_processes_read_contiguous_shares_of_the_batch():
  assert share_of_batch(7, 12) == (84, 96)
  assert [share_of_batch(7, 12, (k, 3)) for k in range(3)] == [(84, 88), (88, 92), (92, 96)]
  refused(bad_setting('config.training.batch_size', 12), share_of_batch, 0, 12, (0, 5))


def test_held_out_rows_are_fixed_and_not_trained_on():
  trained, validation = held_out(100, 0.2)
  assert len(validation) == 20 and sorted([*trained, *validation]) == list(range(100))
  assert (np.diff(trained) > 0).all() and (np.diff(validation) > 0).all()
  np.testing.assert_array_equal(held_out(100, 0.2)[1], validation)
  assert len(held_out(100, 0.0)[1]) == 0
  for share in (0.001, 0.999):
    refused(r'config\.training\.validation is 0\.\d+.*at least one', held_out, 100, share)


def test_rows_of_a_unit_are_held_out_together():
  units = np.repeat([7, 2, 30, 4, 5], [10, 30, 5, 15, 40])[::-1]
  trained, validation = held_out(100, 0.2, units)
  assert sorted([*trained, *validation]) == list(range(100)) and 10 <= len(validation) <= 30
  assert not {*units[trained]} & {*units[validation]}
  message = '100 training rows in 1 units, such as clips, that leaves at least'
  refused(message, held_out, 100, 0.2, np.zeros(100, int))


def test_every_block_has_one_row_of_each_group():
  groups = [np.arange(10), np.array([7, 8, 9]), np.array([3])]
  order = Balanced(groups, 5, 'group')
  rows, group = order.positions(0, 3 * 2000), order.columns(0, 3 * 2000)['group']
  np.testing.assert_array_equal(np.sort(group.reshape(-1, 3)), np.tile(np.arange(3), (2000, 1)))
  for number, members in enumerate(groups):
    np.testing.assert_array_equal(np.unique(rows[group == number]), members)
  epochs = rows[group == 0].reshape(-1, 10)
  np.testing.assert_array_equal(np.sort(epochs), np.tile(np.arange(10), (200, 1)))
  orders = {tuple(block) for block in group.reshape(-1, 3)}
  assert len(orders) == 6 and len({tuple(epoch) for epoch in epochs}) == 200
  assert (Balanced(groups, 6).positions(0, 60) != rows[:60]).any()
  assert Balanced(groups, 5).columns(0, 60) == {}
  refused(bad_setting('num_examples', 0), Balanced, [np.arange(3), np.zeros(0, int)], 0)
