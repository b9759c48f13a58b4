"""Tests resampling against Pillow, PyTorch's interpolate and libjpeg."""

import io

import numpy as np
import pytest
from PIL import Image

from robustness.corruptions import SETS, corrupt
from robustness.corruptions.resampling import SCALES
from robustness.corruptions.views import CorruptionOptions
from tests.corruptions.pictures import natural
from tests.refusals import refused

IMAGE = natural(45, 64)
KERNELS = {'nearest': 'NEAREST', 'box': 'BOX', 'bilinear': 'BILINEAR', 'bicubic': 'BICUBIC'}
KERNELS |= {'lanczos': 'LANCZOS'}


def small_shape(severity: int) -> tuple[int, int]:
  """Returns the height and width to which `IMAGE` is reduced at a severity."""
  height, width = (int(side * SCALES[severity - 1]) for side in IMAGE.shape[:2])
  return height, width


def by_pillow(image, shape, kernel):
  """Returns an image [H, W, C] resized to (height, width) by Pillow in float32, in 0..1."""
  filtering = Image.Resampling[KERNELS[kernel]]
  planes = [
    Image.fromarray(plane).resize(shape[::-1], filtering) for plane in image.transpose(2, 0, 1)
  ]
  return np.clip(np.stack([np.asarray(plane) for plane in planes], -1), 0, 1)


@pytest.mark.parametrize('severity', [1, 3, 5])
@pytest.mark.parametrize('kernel', KERNELS)
def test_kernels_are_pillows(kernel, severity):
  small = by_pillow(IMAGE, small_shape(severity), kernel)
  theirs = by_pillow(small, IMAGE.shape[:2], 'nearest' if kernel == 'box' else kernel)
  ours = np.asarray(corrupt(0, IMAGE, f'resample_{kernel}', severity))
  np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize('severity', [1, 5])
def test_aliased_bilinear_resampling_is_pytorchs(severity):
  torch = pytest.importorskip('torch')
  interpolate = torch.nn.functional.interpolate
  image = torch.from_numpy(IMAGE.transpose(2, 0, 1).copy())[None]
  small = interpolate(image, small_shape(severity), mode='bilinear', antialias=False)
  theirs = interpolate(small, IMAGE.shape[:2], mode='bilinear')[0].permute(1, 2, 0).numpy()
  ours = np.asarray(corrupt(0, IMAGE, 'resample_bilinear_aliased', severity))
  np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize('up', ['nearest', 'bilinear', 'bicubic', 'lanczos'])
def test_another_kernel_may_enlarge(up):
  small = by_pillow(IMAGE, small_shape(4), 'box')
  ours = np.asarray(corrupt(0, IMAGE, 'resample_box', 4, up=up))
  np.testing.assert_allclose(ours, by_pillow(small, IMAGE.shape[:2], up), atol=1e-5)
  expected = {} if up == 'nearest' else {'resample_box': {'up': up}}
  assert CorruptionOptions(resample_box=up).non_default() == expected
  refused("up is 'box'; valid", corrupt, 0, IMAGE, 'resample_box', 4, up='box')
  refused('quality is 101', corrupt, 0, IMAGE, 'resample_jpeg', 4, quality=101)


@pytest.mark.parametrize('quality', [75, pytest.param(30, marks=pytest.mark.slow)])
def test_jpeg_compresses_the_small_image(quality):
  small = by_pillow(IMAGE, small_shape(3), 'bilinear')
  file = io.BytesIO()
  Image.fromarray(np.rint(small * 255).astype(np.uint8)).save(file, 'JPEG', quality=quality)
  decoded = np.asarray(Image.open(file)).astype(np.float32) / 255
  theirs = by_pillow(decoded, IMAGE.shape[:2], 'bilinear')
  ours = np.asarray(corrupt(0, IMAGE, 'resample_jpeg', 3, quality=quality))
  assert np.mean(np.abs(ours - theirs) < 1e-4) > 0.99


@pytest.mark.slow
def test_every_kernel_loses_more_with_severity():
  for name in SETS['resampling']:
    errors = [
      float(np.square(np.asarray(corrupt(0, IMAGE, name, s)) - IMAGE).mean()) for s in (1, 5)
    ]
    assert 0 < errors[0] < errors[1], name
  refused(
    'too small for resample_box: it needs 4 or more', corrupt, 0, IMAGE[:3], 'resample_box', 1
  )
