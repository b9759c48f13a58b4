"""Random resized crop against Pillow, and the distribution of its boxes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from robustness.augment import random_resized_crop as crop

KEYS = jax.random.split(jax.random.key(4), 600)


def boxes(height: int, width: int, **settings: float) -> np.ndarray:
  chosen = crop.Settings(**settings)
  drawn = jax.vmap(lambda key: jnp.stack(crop.box(key, height, width, chosen)))(KEYS)
  return np.asarray(drawn)


@pytest.mark.parametrize(('height', 'width'), [(32, 32), (48, 64)])
def test_pixels_are_those_of_pillows_resize_of_the_box(height: int, width: int) -> None:
  """Float32 against Pillow's float32 mode: the same filter, 1e-5."""
  image = np.random.default_rng(0).random((height, width, 3), np.float32)
  settings = crop.Settings()
  augment = jax.jit(lambda key: crop.augment(key, {'image': jnp.asarray(image)}, settings)['image'])
  for key, (top, left, rows, columns) in zip(KEYS[:12], boxes(height, width), strict=False):
    part = (left, top, left + columns, top + rows)
    expected = np.stack(
      [
        Image.fromarray(image[..., channel])
        .crop(tuple(map(int, part)))
        .resize((width, height), Image.Resampling.BILINEAR)
        for channel in range(3)
      ],
      -1,
    )
    np.testing.assert_allclose(augment(key), expected, atol=1e-5)


def test_boxes_lie_inside_and_their_areas_and_ratios_are_as_wanted() -> None:
  top, left, rows, columns = boxes(224, 224).T
  assert (top >= 0).all() and (top + rows <= 224).all()
  assert (left >= 0).all() and (left + columns <= 224).all()
  area, ratio = rows * columns / 224**2, columns / rows
  assert 0.075 < area.min() < 0.12 and 0.9 < area.max() <= 1
  assert abs(np.quantile(area, 0.25) - 0.31) < 0.06  # uniform on [.08, 1] but for boxes redrawn
  assert 0.74 < ratio.min() < 0.8 and 1.25 < ratio.max() < 1.35
  assert abs(np.log(ratio).mean()) < 0.03


def test_the_whole_image_is_taken_where_no_box_fits() -> None:
  top, left, rows, columns = boxes(10, 100, smallest_area=1.0, aspect=1.0).T
  assert (top == 0).all() and (left == 0).all() and (rows == 10).all() and (columns == 100).all()
  image = jnp.asarray(np.random.default_rng(0).random((10, 100, 3), np.float32))
  same = crop.augment(KEYS[0], {'image': image}, crop.Settings(smallest_area=1.0, aspect=1.0))
  np.testing.assert_allclose(same['image'], image, atol=1e-6)
