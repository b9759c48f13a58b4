"""Endless training batches: epochs are permutations, and any step can be reached."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tensorflow as tf

from input_pipeline.images import IndexedStore
from input_pipeline.rows import TfRows
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows, as_float32
from robustness.core.sampler import Balanced, held_out

Maker = Callable[..., TfRows]


def take(batches: Iterator[dict], count: int) -> list[dict]:
  return list(itertools.islice(batches, count))


def ids(batches: list[dict]) -> np.ndarray:
  return np.concatenate([b['example_id'] for b in batches])


def test_epochs_are_different_permutations_laid_end_to_end(make_rows: Maker) -> None:
  order = ids(take(make_rows(23).training_batches(5, seed=0), 14))[:69].reshape(3, 23)
  for epoch in order:
    assert sorted(epoch) == list(range(23))
  assert len({tuple(epoch) for epoch in order}) == 3


def test_keys_shapes_and_dtypes(make_rows: Maker) -> None:
  rows = make_rows(23)
  whole = next(rows.batches(23, stored=True))
  batch = next(rows.training_batches(5, seed=0))
  assert set(batch) == {'image', 'label', 'example_id'}
  np.testing.assert_array_equal(batch['image'], whole['image'][batch['example_id']])
  np.testing.assert_array_equal(batch['label'], whole['label'][batch['example_id']])
  assert batch['label'].dtype == batch['example_id'].dtype == np.int32


@pytest.mark.parametrize('step', [1, 4, 5, 12, 100])
def test_resuming_at_a_step_equals_running_to_it(make_rows: Maker, step: int) -> None:
  rows = make_rows(23)
  run = take(rows.training_batches(5, seed=3), step + 3)[step:]
  resumed = take(make_rows(23).training_batches(5, seed=3, start_step=step), 3)
  for a, b in zip(run, resumed, strict=True):
    for key in a:
      np.testing.assert_array_equal(a[key], b[key])


def test_the_seed_alone_fixes_the_order(make_rows: Maker) -> None:
  first = ids(take(make_rows(23).training_batches(5, seed=0), 5))
  np.testing.assert_array_equal(first, ids(take(make_rows(23).training_batches(5, seed=0), 5)))
  assert (first != ids(take(make_rows(23).training_batches(5, seed=1), 5))).any()


def test_the_order_does_not_depend_on_the_batch_size(make_rows: Maker) -> None:
  rows = make_rows(23)
  np.testing.assert_array_equal(
    ids(take(rows.training_batches(6, seed=0), 10)), ids(take(rows.training_batches(10, seed=0), 6))
  )


def test_processes_get_contiguous_slices_of_the_global_batch(make_rows: Maker) -> None:
  rows = make_rows(23)
  whole = take(rows.training_batches(6, seed=0, start_step=2), 8)
  parts = [take(rows.training_batches(6, 0, 2, process, 3), 8) for process in range(3)]
  for step, batch in enumerate(whole):
    for key in batch:
      joined = np.concatenate([part[step][key] for part in parts])
      np.testing.assert_array_equal(batch[key], joined)


@dataclasses.dataclass(frozen=True)
class CountedStore(IndexedStore):
  """A store that notes which examples are fetched from it, to be decoded."""

  store: IndexedStore
  fetched: list[int]

  def element(self, index: tf.Tensor) -> dict[str, tf.Tensor]:
    noted = tf.numpy_function(lambda i: (self.fetched.append(int(i)), i)[1], [index], tf.int64)
    return self.store.element(tf.ensure_shape(noted, []))


def test_a_process_fetches_its_own_rows_only(make_rows: Maker) -> None:
  order = ids(take(make_rows(23).training_batches(6, seed=0), 200)).reshape(200, 2, 3)
  for process in range(2):
    rows, fetched = make_rows(23), list[int]()
    source = rows._images
    rows._images = dataclasses.replace(source, store=CountedStore(source.store, fetched))
    given = ids(take(rows.training_batches(6, 0, 0, process, 2), 8))
    np.testing.assert_array_equal(given, order[:8, process].ravel())
    seen = fetched.copy()  # more is read ahead meanwhile
    assert len(seen) >= 24
    np.testing.assert_array_equal(seen, order[:, process].ravel()[: len(seen)])


def test_a_batch_larger_than_the_data_spans_epochs(make_rows: Maker) -> None:
  order = next(make_rows(4).training_batches(10, seed=0))['example_id']
  assert sorted(order[:4]) == sorted(order[4:8]) == [0, 1, 2, 3]


def test_training_reads_the_chosen_subset_only(make_rows: Maker) -> None:
  rows = make_rows(23, num_images=6)
  order = next(rows.training_batches(12, seed=0))['example_id']
  assert sorted(order[:6]) == sorted(order[6:]) == rows.indices.tolist()


def test_an_uneven_share_is_refused(make_rows: Maker) -> None:
  with pytest.raises(InputError, match='batch_size is 5; it must be a multiple of the 2 processes'):
    next(make_rows().training_batches(5, 0, process_count=2))
  with pytest.raises(InputError, match=r'process_index is 2; it must be in 0\.\.1'):
    next(make_rows().training_batches(4, 0, process_index=2, process_count=2))
  with pytest.raises(InputError, match='batch_size is 0'):
    next(make_rows().training_batches(0, 0))


@pytest.mark.parametrize('balanced', [False, True])
def test_the_order_is_that_of_rows_in_memory(make_rows: Maker, balanced: bool) -> None:
  rows = make_rows(23)
  whole = next(rows.batches(23, stored=True))
  arrays = ArrayRows(whole['image'], whole['label'], rows.class_names)
  groups = [np.arange(23), np.array([1, 4, 22])]
  order = Balanced(groups, 3, 'group') if balanced else None
  for ours, theirs in zip(
    take(rows.training_batches(10, 3, 5, sampler=order), 9),
    take(arrays.training_batches(10, 3, 5, sampler=order), 9),
    strict=True,
  ):
    assert ('group' in ours) == balanced
    assert set(ours) == set(theirs)
    for name, values in ours.items():
      np.testing.assert_array_equal(values, theirs[name])


def test_what_is_known_of_rows_without_their_images(make_rows: Maker) -> None:
  rows = make_rows(23).at(np.array([3, 4, 20]))
  whole, known = next(rows.batches(3, stored=True)), rows.without_images()
  for name, values in known.items():
    np.testing.assert_array_equal(values, whole[name])
  np.testing.assert_array_equal(known['example_id'], [3, 4, 20])


def test_a_part_of_the_rows_is_an_epoch_of_its_own(make_rows: Maker) -> None:
  kept, held = held_out(23, 0.3)
  rows = make_rows(23)
  order = ids(take(rows.at(kept).training_batches(4, seed=0), 8))[:32].reshape(2, 16)
  for epoch in order:
    assert sorted(epoch) == list(kept)
  assert sorted({*kept, *held}) == list(range(23)) and len(held) == 7


def test_random_crops_are_those_of_the_position_for_any_batch_start_and_process(
  make_rows: Maker,
) -> None:
  rows = make_rows(23, random_crop_area=0.3)
  images = np.concatenate([b['image'] for b in take(rows.training_batches(6, 0), 8)])
  assert images.shape[1:] == rows.image_shape
  assert not np.array_equal(images[0], next(make_rows(23).training_batches(6, 0))['image'][0])
  later = np.concatenate([b['image'] for b in take(rows.training_batches(12, 0, 2), 2)])
  np.testing.assert_array_equal(later, images[24:])
  part = next(rows.training_batches(6, 0, 3, 1, 2))['image']
  np.testing.assert_array_equal(part, images[21:24])
  evaluated = next(rows.batches(23))['image']
  np.testing.assert_array_equal(evaluated, next(make_rows(23).batches(23))['image'])


def test_images_of_8_bits_travel_as_they_are_stored_unless_they_are_resized(
  make_rows: Maker,
) -> None:
  for settings, kind in (({}, np.uint8), ({'resize': 6, 'crop': 5}, np.float32)):
    rows = make_rows(23, **settings)
    stored, floats = next(rows.batches(8, stored=True)), next(rows.batches(8))
    assert stored['image'].dtype == kind and floats['image'].dtype == np.float32
    np.testing.assert_array_equal(as_float32(stored['image']), floats['image'])
    assert next(rows.training_batches(5, 0))['image'].dtype == kind


def test_rows_in_memory_are_the_rows_that_are_read(make_rows: Maker) -> None:
  for settings in ({}, {'resize': 6, 'crop': 5}, {'num_images': 9}):
    rows = make_rows(23, **settings)
    arrays = rows.in_memory(2**20)
    assert arrays is not None and arrays.num_examples == rows.num_examples
    assert arrays.class_names == rows.class_names
    for ours, theirs in zip(
      take(arrays.training_batches(10, 3, 5), 4),
      take(rows.training_batches(10, 3, 5), 4),
      strict=True,
    ):
      assert ours.keys() == theirs.keys()
      for name, values in ours.items():
        assert values.dtype == theirs[name].dtype
        np.testing.assert_array_equal(values, theirs[name])


def test_large_rows_and_random_crops_are_not_read_into_memory(make_rows: Maker) -> None:
  each = 4 * 6 * 3 + 4 + 4 + 1  # image, label, example_id, mask
  assert make_rows(23).in_memory(23 * each) is not None
  assert make_rows(23).in_memory(23 * each - 1) is None
  assert make_rows(23, random_crop_area=0.3).in_memory(2**20) is None
