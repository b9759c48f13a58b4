"""Tests rows that are read one by one in a loop, and rows that are sorted by branch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core import sequential
from robustness.core.sequential import SequentialRow, by_branch, column_and_position, map_rows

COLUMNS = {'image': np.arange(24, dtype=np.float32).reshape(3, 2, 4), 'label': np.arange(3)}
ROWS = jax.tree.map(jnp.asarray, COLUMNS)
BRANCHES = [lambda x: x, lambda x: x + 10, lambda x: 2 * x, lambda x: -x]


def test_sequential_rows_are_mappings_and_located_works_for_both_kinds():
  row = SequentialRow(ROWS, 1)
  assert list(row) == list(COLUMNS) and len(row) == 2 and 'image' in row
  assert row.get('absent') is None
  with pytest.raises(KeyError, match='absent'):
    row['absent']
  for name, value in {**row}.items():
    np.testing.assert_array_equal(value, COLUMNS[name][1])
  for row in (SequentialRow(ROWS, 2), {name: x[2] for name, x in ROWS.items()}):
    stack, index = column_and_position(row, 'image')
    np.testing.assert_array_equal(stack[index], COLUMNS['image'][2])


def test_sequential_rows_equal_vmapped_rows():
  def function(row, view):
    return {**row, 'sum': row['image'].sum() * view + row['label']}

  sequential = jax.jit(lambda rows: map_rows(function, rows, 2.0))(COLUMNS)
  mapped = jax.vmap(function, (0, None))(COLUMNS, 2.0)
  jax.tree.map(np.testing.assert_array_equal, sequential, mapped)


def switched(branch, x):
  return jax.lax.switch(branch, BRANCHES, x)


@pytest.mark.parametrize('tile', [1, 3, 4, 32])
@pytest.mark.parametrize('size', [1, 9, 16])
def test_every_row_has_the_result_of_its_branch(size, tile, monkeypatch):
  """Sizes need not be multiples of a tile, and a branch may have all rows or none."""
  monkeypatch.setattr(sequential, 'TILE', tile)
  generator = np.random.default_rng(size)
  x = generator.normal(size=(size, 2)).astype(np.float32)
  apply = jax.jit(lambda branch, x: by_branch(switched, 4, branch, x))
  for branch in (generator.integers(0, 4, size), np.full(size, 2), np.arange(size) % 2 * 3):
    expected = np.stack([BRANCHES[b](row) for b, row in zip(branch, x, strict=True)])
    np.testing.assert_array_equal(apply(jnp.int32(branch), x), expected)


def test_each_tile_computes_one_branch():
  """The compiled loop holds a conditional; under vmap it would be a choice between all results."""
  x, branch = jnp.ones((8, 2)), jnp.arange(8) % 4
  sorted_rows = str(jax.make_jaxpr(lambda b, x: by_branch(switched, 4, b, x))(branch, x))
  at_once = str(jax.make_jaxpr(jax.vmap(switched))(branch, x))
  assert ' cond[' in sorted_rows and ' cond[' not in at_once
