"""Scenes against Pillow on real cutouts, and what must hold whatever the pictures."""

from __future__ import annotations

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from robustness.core.errors import InputError
from robustness.scenes.compose import compose
from tests.scenes import pillow_scenes

UPRIGHT = (
  (0.01, 0, 0.5, 0.5),
  (0.6, 0, 0.5, 0.5),
  (1.0, 0, 0.5, 0.5),
  (0.2, 0, 0.05, 0.95),
  (0.2, 0, 1.0, 0.0),
)
TURNED = (
  (0.2, 21, 0.5, 0.5),
  (0.8, 161, 0.5, 0.5),
  (1.0, 341, 0.5, 0.5),
  (0.3, 90, 0.2, 0.9),
  (0.5, 270, 0.5, 0.5),
  (0.3, 37, 1.0, 0.0),
)


@functools.partial(jax.jit, static_argnames=('rotate', 'measure'))
def composed(
  foreground: np.ndarray,
  background: np.ndarray,
  *factors: float,
  rotate: bool,
  measure: str = 'rectangle',
  size: np.ndarray | None = None,
) -> tuple[jax.Array, jax.Array]:
  return compose(foreground, background, *factors, rotate=rotate, measure=measure, size=size)


def close(scene: jax.Array, expected: np.ndarray) -> float:
  """The share of pixels all of whose channels lie within 2 levels."""
  return float((np.abs(np.asarray(scene) * 255 - expected) <= 2).all(-1).mean())


@pytest.mark.parametrize(
  ('name', 'ground', 'side'),
  [
    ('koala/koala1', 'forest1.jpeg', 224),
    ('vase/vase1', 'grass1.jpg', 224),
    ('strawberry/strawberry1', 'ocean1.jpg', 500),
    ('starfish/starfish1', 'field1.jpg', 224),
  ],
)
def test_agrees_with_pillow_on_real_cutouts(
  shared_dir: pathlib.Path, name: str, ground: str, side: int
) -> None:
  folder = shared_dir / 'data/si_score'
  cutout = Image.open(folder / f'foregrounds/{name}.png')
  background = pillow_scenes.background(folder / 'backgrounds' / ground, side)
  pixels = pillow_scenes.as_floats(cutout), pillow_scenes.as_floats(background)
  for factors in (*UPRIGHT, *TURNED):
    expected, share = pillow_scenes.paste(cutout, background, *factors)
    scene, fraction = composed(*pixels, *factors, rotate=factors[1] != 0)
    assert close(scene, expected) >= 0.99, factors
    assert fraction == np.float32(share), factors


def made_cutout(height: int = 31, width: int = 47) -> np.ndarray:
  random = np.random.default_rng(0)
  cutout = random.random((height, width, 4), np.float32)
  cutout[..., 3] = np.hypot(*np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]) < 1
  return cutout


def made_background(side: int = 64) -> np.ndarray:
  return np.random.default_rng(1).random((side, side, 3), np.float32)


def test_agrees_with_pillow_on_noise() -> None:
  levels = np.round(made_cutout() * 255).astype(np.uint8)
  ground = np.round(made_background() * 255).astype(np.uint8)
  for factors in (*UPRIGHT, *TURNED):
    expected, _ = pillow_scenes.paste(Image.fromarray(levels), Image.fromarray(ground), *factors)
    scene, _ = composed(
      levels / np.float32(255), ground / np.float32(255), *factors, rotate=factors[1] != 0
    )
    assert close(scene, expected) >= 0.97, factors  # roundings to 8 bits show most in noise


def test_many_factors_at_once_are_each_alone() -> None:
  factors = np.array(TURNED, np.float32).T
  many = jax.jit(jax.vmap(lambda *f: compose(made_cutout(), made_background(), *f)))(*factors)
  for index, placing in enumerate(TURNED):
    scene, fraction = composed(made_cutout(), made_background(), *placing, rotate=True)
    np.testing.assert_allclose(many[0][index], scene, atol=1.5 / 255)  # a level may go either way
    assert np.isclose(many[0][index], scene, atol=1e-5).mean() > 0.99
    assert many[1][index] == fraction


def test_padding_changes_nothing() -> None:
  cutout = made_cutout()
  padded = np.pad(cutout, ((0, 9), (0, 40), (0, 0)))
  size = np.array(cutout.shape[:2], np.int32)
  for angle in (0, 50):
    factors, rotate = (0.4, angle, 0.4, 0.6), angle != 0
    whole, _ = composed(cutout, made_background(), *factors, rotate=rotate)
    part, _ = composed(padded, made_background(), *factors, rotate=rotate, size=size)
    np.testing.assert_allclose(part, whole, atol=1e-5)


def test_rotating_by_nothing_is_not_rotating() -> None:
  still, inside = compose(made_cutout(), made_background(), 0.3, 0, 0.2, 0.3)
  for angle in (jnp.float32(0), jnp.float32(360)):
    turned, share = compose(made_cutout(), made_background(), 0.3, angle, 0.2, 0.3)
    np.testing.assert_allclose(turned, still, atol=1.5 / 255)  # the looked-up pixels have 8 bits
    assert inside == share


def test_four_quarter_turns_come_back() -> None:
  square = made_cutout(40, 40)
  ground = np.zeros((64, 64, 3), np.float32)
  scenes = [
    np.asarray(compose(square, ground, 0.4, jnp.float32(a), 0.5, 0.5)[0]) for a in (0, 90, 180, 270)
  ]
  for quarter in range(1, 4):
    np.testing.assert_allclose(scenes[quarter], np.rot90(scenes[0], quarter), atol=1e-5)


def test_nothing_of_the_object_leaves_the_background() -> None:
  ground = made_background()
  for angle in (0, 30):
    scene, share = compose(made_cutout(), ground, 0.1, angle, 2.0, 0.5)
    np.testing.assert_array_equal(scene, ground)
    assert share == 0


def test_the_area_of_a_mask_counts_its_pixels() -> None:
  ground = np.zeros((256, 256, 3), np.float32)
  cutout = made_cutout(80, 80)
  cutout[..., :3] = 1
  shown = [
    float(composed(cutout, ground, 0.2, 0, 0.5, 0.5, rotate=False, measure=m)[0].mean())
    for m in ('rectangle', 'mask')
  ]
  assert shown[1] == pytest.approx(0.2, abs=0.002)
  assert shown[0] == pytest.approx(0.2 * cutout[..., 3].mean(), abs=0.002)


def test_the_background_has_what_the_object_leaves() -> None:
  def total(ground: jax.Array) -> jax.Array:
    return compose(made_cutout(), ground, 0.2, 0, 0.5, 0.5)[0].sum()

  slope = jax.grad(total)(0.5 * jnp.asarray(made_background()) + 0.25)
  np.testing.assert_allclose(slope[:10], 1)
  np.testing.assert_allclose(slope[32, 32], 0, atol=1e-5)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'foreground': np.ones((4, 4, 3), np.float32)}, r'\[h, w, 4\] with alpha'),
    ({'background': np.ones((8, 9, 3), np.float32)}, r'\[S, S, 3\]'),
    ({'area': 0.0}, 'area = 0.0 is not positive'),
    ({'measure': 'masks'}, "did you mean 'mask'"),
  ],
)
def test_bad_input_is_refused(change: dict[str, object], message: str) -> None:
  good = {
    'foreground': made_cutout(),
    'background': made_background(),
    'area': 0.2,
    'angle': 0,
    'x': 0.5,
    'y': 0.5,
  }
  with pytest.raises(InputError, match=message):
    compose(**{**good, **change})  # type: ignore[arg-type]
