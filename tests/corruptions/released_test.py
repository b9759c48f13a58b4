"""The protocol of the released sets: their sizes, 8-bit values and files, and what differs."""

from __future__ import annotations

import io

import jax
import numpy as np
import pytest
from PIL import Image

from robustness.core.errors import InputError
from robustness.corruptions import released
from robustness.corruptions.released import RELEASED
from robustness.corruptions.views import CorruptionViews

SETTINGS = {'corruptions': ('contrast',), 'severities': (3,)}


def shown(views: CorruptionViews, image: np.ndarray, place: int) -> np.ndarray:
  """Returns an image in a view, in levels of 0..255."""
  made = views.views(image.shape)
  parameters = {name: values[place] for name, values in made.parameters.items()}
  result = jax.jit(made.show)(jax.random.key(0), {'image': image}, parameters)
  return np.asarray(result) * 255


def photograph(side: int) -> np.ndarray:
  """Returns a smooth picture of floats that are no levels, float32 [side, side, 3]."""
  y, x = np.mgrid[:side, :side] / side
  waves = [0.5 + 0.4 * np.sin(7 * x + k) * np.cos(5 * y - k) for k in range(3)]
  return np.stack(waves, -1).astype(np.float32)


def test_images_of_64_pixels_go_through_a_jpeg_file_of_quality_85() -> None:
  image = np.round(photograph(64) * 255).astype(np.float32) / 255
  truncated = shown(CorruptionViews(**SETTINGS, quantize='floor'), image, 1)
  file = io.BytesIO()
  Image.fromarray(np.round(truncated).astype(np.uint8)).save(file, 'JPEG', quality=85)
  expected = np.asarray(Image.open(file)).astype(float)
  stored = shown(CorruptionViews(**SETTINGS, protocol='as_released'), image, 1)
  np.testing.assert_allclose(stored, expected, atol=1e-3)
  assert np.abs(stored - truncated).max() > 1


def test_images_of_32_pixels_are_truncated_and_clean_ones_rounded() -> None:
  image = photograph(32)
  views = CorruptionViews(**SETTINGS, protocol='as_released')
  levels = np.round(image * 255).astype(np.float32)
  between = np.abs(image * 255 % 1 - 0.5) < 1e-3  # halves, but for the guard of `to_levels`
  clean = np.where(between, levels, shown(views, image, 0))
  np.testing.assert_allclose(clean, levels, atol=1e-3)
  levels = shown(views, image, 0).round()
  floor = shown(CorruptionViews(**SETTINGS, quantize='floor'), levels / np.float32(255), 1)
  np.testing.assert_allclose(shown(views, image, 1), floor, atol=1e-3)


def test_a_protocol_that_the_data_cannot_follow_is_refused() -> None:
  views = CorruptionViews(**SETTINGS, protocol='as_released')
  with pytest.raises(InputError, match=r'images are 28 × 28.*32, 64, 224 pixels'):
    views.views((28, 28, 1))
  with pytest.raises(InputError, match='images are 256 × 224'):
    views.views((256, 224, 3))
  with pytest.raises(InputError, match='constants is 64'):
    CorruptionViews(**SETTINGS, protocol='as_released', constants=64).views((32, 32, 3))
  assert views.views((32, 32, 3)).image_shape == (32, 32, 3), 'resized to the network afterwards'


def test_records_of_the_exact_protocol_are_those_of_before() -> None:
  assert 'protocol' not in CorruptionViews().recording
  assert CorruptionViews(protocol='as_released').recording['protocol'] == 'as_released'


def test_what_differs_from_a_released_set_is_said() -> None:
  shape = (224, 224, 3)
  exact, followed = CorruptionViews(), CorruptionViews(protocol='as_released')
  assert released.setting_differences(exact, shape, 224) == [
    'frost is drawn, not photographed',
    'values are not rounded to 8 bits as released',
    'images are not stored as JPEG, quality 85',
  ]
  assert released.setting_differences(followed, shape, 224) == ['frost is drawn, not photographed']
  known = {'name': 'cifar10:3.0.2', 'split': 'test'}
  assert released.data_differences(known, 10_000, RELEASED[32]) == []
  assert released.data_differences({'source': 'digits'}, 300, RELEASED[32]) == [
    'the data are not known to be those of CIFAR-10-C and CIFAR-100-C',
    '300 of 10000 images',
  ]
  photographs = {'name': 'imagenet2012:5.1.0', 'split': 'validation', 'resize': 256, 'crop': 224}
  as_pillow = {**photographs, 'interpolation': 'bilinear', 'resized_by': 'pillow'}
  assert released.data_differences(as_pillow, 50_000, RELEASED[224]) == []
  assert released.data_differences(
    {**as_pillow, 'interpolation': 'bicubic'}, 50_000, RELEASED[224]
  ) == ['images were prepared otherwise, without config.data.interpolation=bilinear']
  assert released.shown_differences(exact) == []
  assert released.shown_differences(CorruptionViews(severities=(1, 2, 3, 4))) == [
    'without severity 5'
  ]
