"""A row that is cut out when it is looked at is the row."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.sequential import SequentialRow, located, map_rows

COLUMNS = {'image': np.arange(24, dtype=np.float32).reshape(3, 2, 4), 'label': np.arange(3)}


def test_it_is_a_mapping_of_its_columns() -> None:
  row = SequentialRow({name: jnp.asarray(x) for name, x in COLUMNS.items()}, 1)
  assert list(row) == list(COLUMNS) and len(row) == 2 and 'image' in row
  assert row.get('absent') is None
  with pytest.raises(KeyError, match='absent'):
    row['absent']
  for name, value in {**row}.items():
    np.testing.assert_array_equal(value, COLUMNS[name][1])


@pytest.mark.parametrize(
  'row',
  [
    SequentialRow({k: jnp.asarray(v) for k, v in COLUMNS.items()}, 2),
    {k: jnp.asarray(v[2]) for k, v in COLUMNS.items()},
  ],
)
def test_a_column_is_located_in_either_kind_of_row(
  row: SequentialRow | dict[str, jax.Array],
) -> None:
  stack, index = located(row, 'image')
  np.testing.assert_array_equal(stack[index], COLUMNS['image'][2])


def test_rows_in_turn_are_rows_at_once() -> None:
  def function(row: dict[str, jax.Array], view: jax.Array) -> dict[str, jax.Array]:
    return {**row, 'sum': row['image'].sum() * view + row['label']}

  sequential = jax.jit(lambda rows: map_rows(function, rows, 2.0))(COLUMNS)
  mapped = jax.vmap(function, (0, None))(COLUMNS, 2.0)
  jax.tree.map(np.testing.assert_array_equal, sequential, mapped)
