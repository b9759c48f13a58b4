"""Tests that scenes of cutouts that are resized in advance equal scenes composed one by one."""

import jax
import numpy as np
import pytest

from robustness.scenes import designs, views
from robustness.scenes.designs import Design
from tests.refusals import refused

SIDE = 48


def row(height: int = 23, width: int = 31) -> dict[str, np.ndarray]:
  """Returns a background and a random cutout of this size, padded to 40 x 40 pixels."""
  generator = np.random.default_rng(2)
  foreground = generator.integers(0, 256, (40, 40, 4), np.uint8)
  foreground[..., 3] = 255 * (generator.random((40, 40)) < 0.7)
  return {
    'image': generator.random((SIDE, SIDE, 3), np.float32),
    'foreground': foreground,
    'foreground_size': np.array([height, width], np.int32),
  }


def scenes(design, scene_row, measure='rectangle'):
  """Returns the scenes of all levels as a run shows them, [levels, SIDE, SIDE, 3]."""
  show, prepare = views.scene_functions(design, SIDE, measure)
  levels = views.level_parameters(design)

  @jax.jit
  def all_levels(columns: dict[str, jax.Array]) -> jax.Array:
    ready = prepare(columns) if prepare else columns
    return jax.lax.map(lambda level: show(jax.random.key(0), ready, level), levels)

  return np.asarray(all_levels(scene_row))


def resizes_in_advance(design: Design, side: int = SIDE, measure: str = 'rectangle') -> bool:
  """Returns whether cutouts are resized once for all scenes of a size."""
  return views.scene_functions(design, side, measure)[0].__name__ == 'look_up'


DESIGNS = {
  'places': designs.cross('places', areas=(0.1, 0.6), xs=(0, 0.4, 1), ys=(0.05, 0.9)),
  'angles': designs.cross('angles', areas=(0.2, 1.0), angles=(1, 61, 90, 180, 301)),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', list(DESIGNS))
@pytest.mark.parametrize('size', [(23, 31), (40, 3)])
def test_scenes_of_resized_cutouts_equal_composed_ones(name, size, monkeypatch):
  design = DESIGNS[name]
  assert resizes_in_advance(design)
  from_resized = scenes(design, row(*size))
  monkeypatch.setattr(views, 'MAX_SHEET_PIXELS', 0)  # no cutout is resized in advance
  assert not resizes_in_advance(design)
  composed = scenes(design, row(*size))
  assert np.abs(from_resized - row()['image']).max((1, 2, 3)).min() > 0.1, 'shows the object'
  np.testing.assert_allclose(from_resized, composed, atol=1.6 / 255)  # rounding may differ
  if name == 'angles':
    assert np.isclose(from_resized, composed, atol=1e-5).mean() > 0.98


def test_objects_far_outside_leave_the_background():
  design = designs.cross('far', areas=(0.2,), xs=(-3, 0.5, 4), min_inside=0)
  assert resizes_in_advance(design)
  before, middle, beyond = np.abs(scenes(design, row()) - row()['image']).max((1, 2, 3))
  assert middle > 0.1
  assert before < 1e-6 and beyond < 1e-6


def test_rows_without_objects_are_refused():
  plain = {k: v for k, v in row().items() if k != 'foreground'}
  refused('the data hold no objects', scenes, DESIGNS['places'], plain)


def test_cutouts_of_many_sizes_or_places_are_not_resized_in_advance():
  for name in designs.FACTORS:
    assert resizes_in_advance(designs.published(name), 512) == (name != 'size')
  moved = designs.cross('moved', angles=(0, 10), xs=(0.2, 0.8))
  assert not resizes_in_advance(moved), 'every place would need a window of a rotated cutout'
  assert not resizes_in_advance(DESIGNS['places'], measure='mask')
