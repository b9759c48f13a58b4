"""Scenes from cutouts resized once are the scenes composed one by one."""

import jax
import numpy as np
import pytest

from robustness.scenes import designs, views
from robustness.scenes.designs import Design
from tests.refusals import refused

SIDE = 48


def row(height: int = 23, width: int = 31) -> dict[str, np.ndarray]:
  generator = np.random.default_rng(2)
  foreground = generator.integers(0, 256, (40, 40, 4), np.uint8)
  foreground[..., 3] = 255 * (generator.random((40, 40)) < 0.7)
  return {
    'image': generator.random((SIDE, SIDE, 3), np.float32),
    'foreground': foreground,
    'foreground_size': np.array([height, width], np.int32),
  }


def scenes(design, scene_row, measure='rectangle'):
  """Every level, as the runner shows it."""
  show, prepare = views.shown(design, SIDE, measure)
  levels = views.parameters(design)

  @jax.jit
  def all_levels(columns: dict[str, jax.Array]) -> jax.Array:
    ready = prepare(columns) if prepare else columns
    return jax.lax.map(lambda level: show(jax.random.key(0), ready, level), levels)

  return np.asarray(all_levels(scene_row))


def looks_up(design: Design, side: int = SIDE, measure: str = 'rectangle') -> bool:
  """Whether the object is resized once for all scenes."""
  return views.shown(design, side, measure)[0].__name__ == 'look_up'


DESIGNS = {
  'places': designs.cross('places', areas=(0.1, 0.6), xs=(0, 0.4, 1), ys=(0.05, 0.9)),
  'angles': designs.cross('angles', areas=(0.2, 1.0), angles=(1, 61, 90, 180, 301)),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', list(DESIGNS))
@pytest.mark.parametrize('size', [(23, 31), (40, 3)])
def test_looking_up_is_composing(name, size, monkeypatch):
  design = DESIGNS[name]
  assert looks_up(design)
  looked_up = scenes(design, row(*size))
  monkeypatch.setattr(views, 'MAX_SHEET_PIXELS', 0)
  assert not looks_up(design)
  composed = scenes(design, row(*size))
  assert np.abs(looked_up - row()['image']).max((1, 2, 3)).min() > 0.1, 'the object is seen'
  np.testing.assert_allclose(looked_up, composed, atol=1.6 / 255)  # of 8-bit pixels
  if name == 'angles':
    assert np.isclose(looked_up, composed, atol=1e-5).mean() > 0.98


def test_rows_without_objects_are_refused():
  plain = {k: v for k, v in row().items() if k != 'foreground'}
  refused('the data hold no objects', scenes, DESIGNS['places'], plain)


def test_only_few_sizes_are_resized_in_advance():
  prepared = {name: looks_up(designs.published(name), 512) for name in designs.FACTORS}
  assert prepared == {'size': False, 'location': True, 'rotation': True}
  moved = designs.cross('moved', angles=(0, 10), xs=(0.2, 0.8))
  assert not looks_up(moved), 'a window for each place'
  assert not looks_up(DESIGNS['places'], measure='mask')
