"""The class of the largest score, for many rows of few classes."""

import numpy as np

from robustness.core.errors import InputError

_FEW = 32  # classes up to which turning pays off
_BLOCK = 2**19  # bytes of a block: what a core's cache holds


def predicted(scores: np.ndarray) -> np.ndarray:
  """Returns the first class of the largest score, argmax_c s_c, integers [...] of scores [..., C].

  `np.argmax` works row by row, which is slow where rows are short. There blocks are turned, so that
  one comparison handles a class of many rows. −inf stands for a class that cannot be predicted.
  """
  classes = scores.shape[-1]
  if not classes:
    raise InputError(f'scores have shape {scores.shape}: give at least one class a row.')
  flat = scores.reshape(-1, classes)
  if classes <= _FEW:
    best = _turned(flat)
    bad = best == classes
  else:
    best = flat.argmax(1)
    bad = np.isnan(flat[np.arange(len(flat)), best])
  if bad.any():
    row = tuple(map(int, np.unravel_index(int(bad.argmax()), scores.shape[:-1])))
    raise InputError(f'scores of row {row} hold NaN: no class is the largest.')
  return best.reshape(scores.shape[:-1])


def _turned(scores: np.ndarray) -> np.ndarray:
  """Returns the first largest class of each row, int [N]; C for a row with NaN."""
  classes = scores.shape[1]
  best = np.empty(len(scores), np.int64)
  backwards = np.arange(classes, 0, -1).astype(np.uint8)[:, None]
  size = max(1, _BLOCK // (classes * scores.itemsize))
  for start in range(0, len(scores), size):
    columns = np.ascontiguousarray(scores[start : start + size].T)
    largest = columns == columns.max(0)
    best[start : start + size] = (largest * backwards).max(0)
  return np.asarray(classes - best)
