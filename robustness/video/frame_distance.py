"""ℓ∞ distances between the frames of neighbor sets, read as rows."""

from __future__ import annotations

import numpy as np

from robustness.core.rows import Rows, num_blocks

BLOCK = 64


def distances(
  rows: Rows, anchor_row: np.ndarray, pair_row: np.ndarray, pair_group: np.ndarray
) -> np.ndarray:
  """Returns the largest absolute difference of any value of each pair's images, float32 [P].

  Rows are read once, in order; an image is held until the last set that it is in has been read, so
  memory holds a few sets where the frames of a set lie near each other.

  Args:
    rows: images in [0, 1].
    anchor_row: [A], the row of each anchor.
    pair_row: [P], the row of each neighbor.
    pair_group: [P], the position of each pair's anchor.
  """
  first, second = anchor_row[pair_group], pair_row
  ready = np.maximum(first, second)
  order = np.argsort(ready, kind='stable')
  last = np.full(rows.num_examples, -1)
  np.maximum.at(last, first, ready)
  np.maximum.at(last, second, ready)
  distance = np.zeros(len(pair_row), np.float32)
  held: dict[int, np.ndarray] = {}
  waiting = 0
  for batch in rows.batches(BLOCK, range(num_blocks(rows.num_examples, BLOCK))):
    for place in np.flatnonzero(batch['mask']):
      row = batch['block'] * BLOCK + int(place)
      held[row] = batch['image'][place]
      while waiting < len(order) and ready[order[waiting]] == row:
        pair = order[waiting]
        distance[pair] = np.abs(held[int(first[pair])] - held[int(second[pair])]).max()
        waiting += 1
      held = {index: image for index, image in held.items() if last[index] > row}
  return distance
