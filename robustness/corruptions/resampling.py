"""Resampling: an image is shrunk by a factor and enlarged to its size again.

Kernels are 'nearest', 'box', 'bilinear', 'bicubic' (Keys, a = -½) and 'lanczos' (three lobes) at
pixel centres, as in Pillow. Antialiased kernels are stretched by the factor when they shrink, as in
Pillow; those named `_aliased` are not, as in `torch.nn.functional.interpolate`, where the bicubic
kernel has a = -¾ instead. The results between are clipped to [0, 1] and not rounded. No set of
such images was published: the factors are this project's.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.settings import require
from robustness.corruptions import jpeg
from robustness.corruptions.corruption import Corruption, Strength, corruption
from robustness.corruptions.digital import box_membership
from robustness.corruptions.filters import HIGHEST
from robustness.corruptions.names import BLUR

SCALES = (0.8, 0.65, 0.5, 0.35, 0.25)
"""Side of the shrunk image divided by the side of the image, by severity."""
ENLARGING = ('nearest', 'bilinear', 'bicubic', 'lanczos')
"""Kernels that enlarge."""
QUALITY = 75
"""JPEG quality of the shrunk image in `resample_jpeg`, which is Pillow's default."""


def resize(
  image: jax.Array, shape: tuple[int, int], kernel: str, antialias: bool = True
) -> jax.Array:
  """Returns an image [H, W, C] resized to a shape (height, width) and clipped to [0, 1].

  Args:
    image: [H, W, C].
    shape: the new height and width.
    kernel: 'nearest', 'box', 'bilinear', 'bicubic' or 'lanczos'. 'box' can only shrink: each new
      pixel is the mean of a box of old pixels.
    antialias: whether the kernel is widened when the image shrinks. It has no effect on 'nearest'
      and 'box'.
  """
  old_shape = image.shape[:2]
  if kernel == 'box':
    # which old pixels are in the box of each new one, 0 or 1, [new size, old size]
    rows = box_membership(old_shape[0], shape[0])
    columns = box_membership(old_shape[1], shape[1])
    row_weights = rows / rows.sum(1, keepdims=True)
    column_weights = columns / columns.sum(1, keepdims=True)
    return jnp.einsum('yi,xj,ijc->yxc', row_weights, column_weights, image, precision=HIGHEST)
  if kernel == 'nearest':
    y = _nearest_lines(old_shape[0], shape[0])
    x = _nearest_lines(old_shape[1], shape[1])
    return image[y][:, x]
  method = {'lanczos': 'lanczos3'}.get(kernel, kernel)  # JAX's name
  size = (*shape, image.shape[-1])
  return jnp.clip(jax.image.resize(image, size, method, antialias, precision=HIGHEST), 0, 1)


def _nearest_lines(old: int, new: int) -> np.ndarray:
  """Returns the nearest old pixel for each pixel of a resized line, int [new].

  New pixel k takes old pixel ⌊(k + ½) · old / new⌋. Ties are decided by summing in float64, as in
  Pillow.

  Args:
    old: number of pixels of the line.
    new: number of pixels of the resized line.
  """
  return np.cumsum([old / new / 2, *[old / new] * (new - 1)]).astype(int)


def _resampling(
  name: str, shrinking: str, enlarging: str, antialias: bool = True, jpeg_quality: int = 0
) -> Corruption:
  """Returns a corruption that shrinks an image and enlarges it to its size again.

  Args:
    name: name of the corruption.
    shrinking: kernel that shrinks.
    enlarging: kernel that enlarges, the default of the corruption's option `up`.
    antialias: whether the shrinking kernel is stretched by the factor.
    jpeg_quality: quality of the JPEG file in which the shrunk image is stored, the default of the
      corruption's option `quality`. With 0 there is no file and no such option.
  """
  other_kernels = (kernel for kernel in ENLARGING if kernel != enlarging)
  options = {'up': (enlarging, *other_kernels)}
  if jpeg_quality:
    options['quality'] = ()  # not a choice of words

  def resampled(
    key: jax.Array,
    image: jax.Array,
    strength: Strength,
    up: str = enlarging,
    quality: int = jpeg_quality,
  ) -> jax.Array:
    """Applies the corruption: shrinks the image by the factor of its severity, then enlarges it.

    The shrunk image is compressed to JPEG and decoded, unless `quality` is 0.

    Args:
      key: not used.
      image: float32 [H, W, C] in [0, 1].
      strength: has the constant `scale`, the factor.
      up: kernel by which the image is enlarged.
      quality: quality of the JPEG.
    """
    require(quality in range(101), 'quality', quality, 'an integer in 1..100; 0 does not compress')

    def shrunk_and_enlarged(image: jax.Array, scale: float) -> jax.Array:
      """Shrinks the image by a factor and enlarges it to its size again, [H, W, C].

      The kernels are `shrinking` and `up`. In between the image is compressed to JPEG, unless
      `quality` is 0.

      Args:
        image: float32 [H, W, C].
        scale: the factor, at most 1.
      """
      height, width = image.shape[:2]
      small = resize(image, (int(height * scale), int(width * scale)), shrinking, antialias)
      compressed = jpeg.round_trip(small, quality) if quality else small
      return resize(compressed, (height, width), up)

    # a branch for each severity, because the shapes of the shrunk images differ
    scales = strength.constants['scale']
    branches = [functools.partial(shrunk_and_enlarged, scale=scale) for scale in scales]
    return jax.lax.switch(strength.index, branches, image)

  resampled.__name__ = name
  return corruption(
    'scale',
    {32: SCALES, 224: SCALES},
    BLUR,
    options=options,
    least_side=lambda constants: 4,
    reason='or no pixel remains',
  )(resampled)


resample_nearest = _resampling('resample_nearest', 'nearest', 'nearest')
resample_box = _resampling('resample_box', 'box', 'nearest')
resample_bilinear = _resampling('resample_bilinear', 'bilinear', 'bilinear')
resample_bicubic = _resampling('resample_bicubic', 'bicubic', 'bicubic')
resample_lanczos = _resampling('resample_lanczos', 'lanczos', 'lanczos')
resample_bilinear_aliased = _resampling(
  'resample_bilinear_aliased', 'bilinear', 'bilinear', antialias=False
)
resample_bicubic_aliased = _resampling(
  'resample_bicubic_aliased', 'bicubic', 'bicubic', antialias=False
)
resample_jpeg = _resampling('resample_jpeg', 'bilinear', 'bilinear', jpeg_quality=QUALITY)
