"""Stored corrupted rows as a table, whatever their order, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.corruptions.names import NAMES
from robustness.corruptions.stored import by_part, wanted_parts

FOG, SNOW = NAMES.index('fog'), NAMES.index('snow')
PARTS = [(-1, 0), (SNOW, 2), (FOG, 1), (FOG, 2)]
IDS = np.array([3, 7, 8])


def shuffled_rows() -> tuple[np.ndarray, list[np.ndarray]]:
  """Values 100 * part + id of all rows in random order, and their columns."""
  numbers = np.array(PARTS).repeat(3, axis=0)
  ids = np.tile(IDS, 4)
  order = np.random.default_rng(0).permutation(12)
  values = 100 * np.arange(4).repeat(3) + ids
  return values[order], [column[order] for column in (numbers[:, 0], numbers[:, 1], ids)]


def test_rows_become_a_table_whatever_their_order() -> None:
  values, columns = shuffled_rows()
  table = by_part(values, columns, PARTS)
  np.testing.assert_array_equal(table, np.add.outer(IDS, 100 * np.arange(4)))
  np.testing.assert_array_equal(by_part(values, columns, PARTS[2:]), table[:, 2:])


def test_a_missing_or_double_row_is_refused() -> None:
  values, columns = shuffled_rows()
  with pytest.raises(InputError, match='all 3 images must be there once in every part'):
    by_part(values[1:], [column[1:] for column in columns], PARTS)
  twice = [np.append(column, column[0]) for column in columns]
  with pytest.raises(InputError, match='has 4 rows of 3 images'):
    by_part(np.append(values, values[0]), twice, PARTS)


def test_what_is_wanted_and_stored() -> None:
  assert wanted_parts(PARTS, ('snow', 'fog', 'frost'), (5, 2)) == (('snow', 'fog'), (2,))
  assert wanted_parts(PARTS, ('fog',), (2, 1)) == (('fog',), (2, 1))
  with pytest.raises(InputError, match='snow 1 are wanted, but the set has snow 2, fog 1, fog 2'):
    wanted_parts(PARTS, ('snow', 'fog'), (1, 2))
  with pytest.raises(InputError, match='frost are wanted'):
    wanted_parts(PARTS, ('frost',), (1,))
