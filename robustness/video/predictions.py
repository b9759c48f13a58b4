"""Predictions on frames from a JSON file: {frame path: [scores]}."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.paths import expanded


def read(
  path: str | os.PathLike[str], frames: Sequence[str], widths: Sequence[int] = ()
) -> np.ndarray:
  """Reads the scores of frames.

  Args:
    path: a JSON file; frames that are not asked for are passed over.
    frames: paths, as in the neighbor sets.
    widths: the numbers of scores that would make sense, such as (30, 1000); () takes any.

  Returns:
    float64 [F, C], in the order of `frames`. Double precision keeps the file's own order of
    scores, so that the largest is the same one as in the file.

  Raises:
    InputError: no such file or no JSON; frames without predictions (how many, which first); a
      frame with another number of scores; a score that is no number, NaN or +∞, or all −∞.
  """
  file = expanded(path)
  document = json_files.read(file, advice='Give predictions as JSON, {frame: [scores]}.')
  return checked(document, frames, widths, str(file))


def checked(
  scores_of: Mapping[str, Any],
  frames: Sequence[str],
  widths: Sequence[int] = (),
  title: str = 'predictions',
) -> np.ndarray:
  """Returns the scores of frames from a mapping; see `read`."""
  missing = [frame for frame in frames if frame not in scores_of]
  if missing:
    raise InputError(
      f'{title}: predictions are missing for {len(missing)} of {len(frames)} '
      f'frames, first {missing[0]!r}. Give {{frame: [scores]}} for every frame of '
      'the sets.'
    )
  width = _width(scores_of, frames, widths, title)
  try:
    scores = np.array([scores_of[frame] for frame in frames], np.float64).reshape(
      len(frames), width
    )
  except (TypeError, ValueError):
    bad = next(f for f in frames if not all(type(v) in (int, float) for v in scores_of[f]))
    raise InputError(f'{title}: frame {bad!r} has a score that is no number.') from None
  unusable = np.isnan(scores) | (scores == np.inf)
  bad_rows = unusable.any(1) | ~np.isfinite(scores).any(1)
  if bad_rows.any():
    row = int(np.argmax(bad_rows))
    place = int(np.argmax(unusable[row]))
    raise InputError(
      f'{title}: {int(bad_rows.sum())} of {len(frames)} frames have scores that are '
      f'no finite numbers, first {frames[row]!r}, class {place}: '
      f'{scores[row, place]}.'
    )
  return scores


def _width(
  scores_of: Mapping[str, Any], frames: Sequence[str], widths: Sequence[int], title: str
) -> int:
  """Returns the number of scores a frame, the same for all."""
  valid = sorted(set(widths))
  for frame in frames:
    scores = scores_of[frame]
    if not isinstance(scores, list) or not scores:
      raise InputError(f'{title}: frame {frame!r} has {scores!r}; give a list of scores.')
    if len(scores) not in (valid or [len(scores_of[frames[0]])]):
      raise InputError(
        f'{title}: frame {frame!r} has {len(scores)} scores; expected '
        f'{" or ".join(map(str, valid)) if valid else len(scores_of[frames[0]])}.'
      )
    if len(scores) != len(scores_of[frames[0]]):
      raise InputError(
        f'{title}: frame {frame!r} has {len(scores)} scores, {frames[0]!r} has '
        f'{len(scores_of[frames[0]])}: give one number of classes.'
      )
  return len(scores_of[frames[0]])
