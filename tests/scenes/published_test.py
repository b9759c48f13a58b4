"""Stored scenes as a table of pairs × levels."""

from __future__ import annotations

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.scenes import designs
from robustness.scenes import estimates as scene_table

DESIGN = designs.cross('places', areas=(0.2, 0.5), angles=(0, 90), xs=(0.1, 0.35), side=64)
OBJECTS, BACKGROUNDS = np.array([0, 0, 4]), np.array([2, 7, 2])


def stored(kept: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
  """The kept scenes of the full cross as columns, in some order."""
  pair, level = (places[order] for places in np.nonzero(kept))
  factors = {
    name: getattr(DESIGN, name)[level].astype(np.float32) for name in ('x', 'y', 'area', 'angle')
  }
  return {
    **factors,
    'object': OBJECTS[pair],
    'background': BACKGROUNDS[pair],
    'fraction_inside': np.linspace(0.6, 1, len(pair), dtype=np.float32),
  }


def test_any_order_with_gaps_gives_the_table() -> None:
  generator = np.random.default_rng(0)
  kept = generator.random((3, len(DESIGN))) < 0.8
  kept[:, 0] = True
  kept[2] |= ~kept[:2].any(0)  # every level occurs
  order = generator.permutation(int(kept.sum()))
  table = scene_table.tabulate(stored(kept, order), 'places', 64)
  np.testing.assert_array_equal(table.spread(np.ones(len(table.pair), bool)), kept)
  for name in ('x', 'y', 'area', 'angle'):
    np.testing.assert_allclose(getattr(table.design, name), getattr(DESIGN, name), atol=1e-7)
  assert table.objects.tolist() == [0, 0, 4] and table.backgrounds.tolist() == [2, 7, 2]
  assert table.design.min_inside == pytest.approx(0.6)
  values = generator.random((3, len(DESIGN)))
  np.testing.assert_array_equal(
    table.spread(values[kept][order], np.nan), np.where(kept, values, np.nan)
  )


def test_the_same_scene_twice_is_refused() -> None:
  columns = stored(np.ones((3, len(DESIGN)), bool), np.arange(3 * len(DESIGN)))
  doubled = {name: np.append(values, values[3]) for name, values in columns.items()}
  with pytest.raises(InputError, match='object 0 on background 2 is stored more than once'):
    scene_table.tabulate(doubled, 'places', 64)


def test_rows_that_are_no_scenes_are_refused() -> None:
  with pytest.raises(InputError, match="no column 'x', so they are no stored scenes"):
    scene_table.tabulate({'label': np.zeros(3)}, 'size', 64)
