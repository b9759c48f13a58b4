"""Several streamed splits as one store: some examples of each, one after the other."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from input_pipeline.tfds_sets import SHUFFLE_BUFFER, StreamStore


@dataclasses.dataclass(frozen=True)
class JoinedStreams:
  """Streams read one after the other.

  Example i is the i-th of all kept ones, stream by stream.

  Attributes:
    streams: a split each.
    kept: for each stream the places in its files that are read, int64, ascending.
    labels: of all kept examples [N] in place of the stored ones, or None.
  """

  streams: Sequence[StreamStore]
  kept: Sequence[np.ndarray]
  labels: np.ndarray | None = None

  @functools.cached_property
  def _first(self) -> np.ndarray:
    """The index of each stream's first example, and how many there are, int64 [streams + 1]."""
    return np.concatenate([[0], np.cumsum([len(places) for places in self.kept])])

  def elements(self, indices: np.ndarray) -> tf.data.Dataset:
    """See `Store`."""
    runs = self._runs(np.asarray(indices, np.int64))
    if not runs:
      return self.streams[0].elements(np.zeros(0, np.int64))
    return functools.reduce(tf.data.Dataset.concatenate, runs)

  def shuffled(self, indices: np.ndarray, seed: int, start: int) -> tf.data.Dataset:
    """See `Store`: the streams are mixed, and each is shuffled in a buffer.

    Which stream an example comes from is a permutation that depends on (seed, epoch), so that a
    batch has of each stream what its share of `indices` is. What lies before `start` in its epoch
    is read again but not decoded.
    """
    indices = np.asarray(indices, np.int64)
    sizes = [len(part) for part in self._parts(indices) if len(part)]
    first_seed = int(np.random.SeedSequence(seed).generate_state(1)[0])
    epoch, offset = divmod(start, len(indices))

    def order(number: np.int64) -> np.ndarray:
      mixed = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
      return np.random.default_rng((seed, int(number))).permutation(mixed)

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
      runs = [
        run.shuffle(SHUFFLE_BUFFER, seed=first_seed + number, reshuffle_each_iteration=False)
        for run in self._runs(indices)
      ]
      choices = tf.ensure_shape(tf.numpy_function(order, [number], tf.int64), [len(indices)])
      return tf.data.Dataset.choose_from_datasets(
        runs, tf.data.Dataset.from_tensor_slices(choices), stop_on_empty_dataset=False
      )

    return tf.data.Dataset.counter(epoch).flat_map(one_epoch).skip(offset)

  def _parts(self, indices: np.ndarray) -> list[np.ndarray]:
    """Returns `indices`, ascending, by stream."""
    return np.split(indices, np.searchsorted(indices, self._first[1:-1]))

  def _runs(self, indices: np.ndarray) -> list[tf.data.Dataset]:
    """Returns the elements at `indices` of each stream that has any."""
    return [
      self._run(number, part) for number, part in enumerate(self._parts(indices)) if len(part)
    ]

  def _run(self, number: int, indices: np.ndarray) -> tf.data.Dataset:
    places = self.kept[number][indices - self._first[number]]
    known, index = tf.constant(self.kept[number]), tf.constant(self._first[number])
    labels = None if self.labels is None else tf.constant(self.labels)

    def renamed(element: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
      place = tf.searchsorted(known, [element['example_id']], out_type=tf.int64)[0]
      own = {} if labels is None else {'label': tf.gather(labels, index + place)}
      return {**element, **own, 'example_id': index + place}

    return self.streams[number].elements(places).map(renamed)
