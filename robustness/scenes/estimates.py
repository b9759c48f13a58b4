"""Levels of scenes by factor, and the balanced mix: the same pairs at every level compared.

A pair is an object with a background; a scene counts if enough of its object is inside. Which pairs
count therefore differs between levels, and with it the mix of objects.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from robustness.scenes.designs import LEVEL, Design

SIZE, ROTATION, LOCATION = 'size', 'rotation', 'location'
KEYS = {SIZE: ('area',), ROTATION: ('angle',), LOCATION: ('y', 'x')}
"""Of a level, by factor."""


def levels_of(design: Design) -> pd.DataFrame:
  """Returns `area`, `angle`, `x` and `y` of each level; angles in degrees in (−180, 180]."""
  levels = pd.DataFrame({key: getattr(design, key) for key in LEVEL})
  return levels.assign(angle=180.0 - (180.0 - levels.angle) % 360.0)


def varying(levels: pd.DataFrame) -> dict[str, tuple[str, ...]]:
  """Returns the factors that have more than one value, with their keys."""
  return {
    factor: keys for factor, keys in KEYS.items() if any(levels[key].nunique() > 1 for key in keys)
  }


def places(levels: pd.DataFrame, keys: Sequence[str]) -> np.ndarray:
  """Returns which levels agree in some keys, int [L]; all do in none."""
  return np.asarray(levels.groupby(list(keys)).ngroup()) if keys else np.zeros(len(levels), int)


def balanced(
  shown: np.ndarray, groups: ArrayLike, strata: ArrayLike, share: float = 0.0
) -> np.ndarray:
  """Returns which scenes make up the same mix in every group of levels, bool [P, L].

  In a stratum (a size, where accuracy is given by angle) those pairs are kept that count in every
  group; pairs and strata together are then the same in every group, and groups may be compared
  although strata are pooled. Groups in which no scene counts, or too few do, are left out.

  Args:
    shown: bool [P, L], which scenes count.
    groups: int [L], what is compared, such as the angle.
    strata: int [L], what is pooled in each group.
    share: of the scenes of a group that must count. More leaves out groups, less leaves out pairs.
  """
  group, stratum = np.asarray(groups), np.asarray(strata)
  of_group = [(g, shown[:, group == g]) for g in np.unique(group)]
  present = [g for g, counts in of_group if counts.any() and counts.mean() >= share]
  compared = np.isin(group, present)
  kept = np.zeros_like(shown)
  for value in np.unique(stratum):
    levels = compared & (stratum == value)
    if len(np.unique(group[levels])) == len(present):
      kept[:, levels] = shown[:, levels].all(1, keepdims=True)
  return kept


def normalised(values: ArrayLike) -> np.ndarray:
  """Returns accuracies [..., G] as fractions of the largest of G; NaN throughout if that is 0."""
  array = np.asarray(values, float)
  largest = np.max(array, -1, initial=0.0, where=np.isfinite(array), keepdims=True)
  return np.divide(array, largest, out=np.full(array.shape, np.nan), where=largest > 0)


def mean_of_finite(values: np.ndarray) -> np.ndarray:
  """Returns the mean of the finite values of each row [B, L], [B]; NaN where there is none."""
  finite = np.isfinite(values)
  count = finite.sum(1)
  total = np.where(finite, values, 0.0).sum(1)
  return np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
