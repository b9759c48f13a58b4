"""Corruptions by name: one image in a compiled study, or whole batches with their input checked."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError, nearest
from robustness.core.settings import choice
from robustness.corruptions import blur, digital, elastic, liquid, noise, weather
from robustness.corruptions.checks import check_images, check_severity, check_side
from robustness.corruptions.levels import QUANTIZE, to_levels
from robustness.corruptions.names import NAMES
from robustness.corruptions.severities import table_for

Options = Mapping[str, Any]

FUNCTIONS: dict[str, Callable[..., jax.Array]] = {
  'gaussian_noise': noise.gaussian_noise,
  'shot_noise': noise.shot_noise,
  'impulse_noise': noise.impulse_noise,
  'defocus_blur': blur.defocus_blur,
  'glass_blur': blur.glass_blur,
  'motion_blur': blur.motion_blur,
  'zoom_blur': blur.zoom_blur,
  'snow': weather.snow,
  'frost': weather.frost,
  'fog': weather.fog,
  'brightness': digital.brightness,
  'contrast': digital.contrast,
  'elastic_transform': elastic.elastic_transform,
  'pixelate': digital.pixelate,
  'jpeg_compression': digital.jpeg_compression,
  'speckle_noise': noise.speckle_noise,
  'gaussian_blur': blur.gaussian_blur,
  'spatter': liquid.spatter,
  'saturate': digital.saturate,
}
assert tuple(FUNCTIONS) == NAMES


def corrupt(
  key: jax.Array,
  images: jax.Array | np.ndarray,
  name: str,
  severity: int | jax.Array | np.ndarray,
  quantize: str | None = None,
  *,
  side: int | None = None,
  photographs: Sequence[Any] | None = None,
  **options: Any,
) -> jax.Array:
  """Corrupts an image or a batch.

  In a batch, image b is corrupted with fold_in(key, b), so a result depends on the image's place
  and not on the batch's size. Draws depend on the key alone.

  Args:
    key: random key.
    images: [H, W, C] or [B, H, W, C], floating, in [0, 1], with 1 or 3 channels.
    name: one of `NAMES`.
    severity: 1..5, a scalar, or [B] with one for each image; may be traced.
    quantize: None leaves floats; 'floor' or 'round' gives 8-bit levels / 255. The released sets
      were truncated ('floor').
    side: the size whose constants are used, one of 32, 64, 224, 299; None takes the nearest.
    photographs: of frost, for `frost` (see `weather.frost`); None draws procedural frost.
    **options: a corruption's own named variants, for example exchange='swap' of glass_blur.

  Returns:
    float32 in the shape of `images`, in [0, 1].

  Raises:
    InputError: an unknown name, option or quantize; a severity outside 1..5; images that are
      integer, out of range, of a wrong shape, or too small for this corruption.
  """
  choice('name', name, NAMES)
  if quantize is not None:
    choice('quantize', quantize, QUANTIZE)
  check_images(images)
  check_severity(severity, images.shape[:-3])
  table = table_for(images.shape[-3], images.shape[-2], side)
  check_side(name, images.shape[-3:-1], table[name])
  check_options(name, options)
  if photographs is not None and name == 'frost':
    options['photographs'] = tuple(jnp.asarray(p) for p in photographs)
  static = tuple(sorted((k, v) for k, v in options.items() if k != 'photographs'))
  arrays = {k: v for k, v in options.items() if k == 'photographs'}
  return _corrupt(
    key,
    jnp.asarray(images, jnp.float32),
    jnp.asarray(severity, jnp.int32),
    arrays,
    name=name,
    quantize=quantize,
    side=table.side,
    static=static,
  )


@functools.partial(jax.jit, static_argnames=('name', 'quantize', 'side', 'static'))
def _corrupt(
  key: jax.Array,
  images: jax.Array,
  severity: jax.Array,
  arrays: Options,
  *,
  name: str,
  quantize: str | None,
  side: int,
  static: tuple[tuple[str, Any], ...],
) -> jax.Array:
  constants = table_for(images.shape[-3], images.shape[-2], side)[name]

  def one(key: jax.Array, image: jax.Array, severity: jax.Array) -> jax.Array:
    result = FUNCTIONS[name](key, image, severity, constants, **arrays, **dict(static))
    return to_levels(result, quantize) if quantize else result

  if images.ndim == 3:
    return one(key, images, severity)
  keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(len(images)))
  return map_images(one, keys, images, jnp.broadcast_to(severity, images.shape[:1]))


def map_images(function: Callable[..., jax.Array], *arrays: jax.Array) -> jax.Array:
  """Applies a function to every image of a batch, in the way that is quick on the device.

  On a CPU images follow one another, so that each stays in the cache and choices between severities
  stay choices; accelerators take them all at once.

  Args:
    function: of one entry of each array.
    *arrays: each [B, ...].
  """
  if jax.default_backend() == 'cpu':
    return jax.lax.map(lambda entries: function(*entries), arrays)
  return jax.vmap(function)(*arrays)


def apply(
  key: jax.Array,
  image: jax.Array,
  index: jax.Array,
  severity: jax.Array,
  *,
  names: Sequence[str] = NAMES,
  quantize: str | None = None,
  side: int | None = None,
  options: Mapping[str, Options] | None = None,
) -> jax.Array:
  """Corrupts one image by the number of the corruption, so that a study compiles once.

  Under vmap over images leave `index` and `severity` unmapped: mapped ones make every corruption
  run. Values are not checked, for they may be traced.

  Args:
    key: random key.
    image: float32 [H, W, C] in [0, 1].
    index: integer scalar, position in `names`.
    severity: integer scalar, 1..5.
    names: the corruptions that can occur; only these are compiled.
    quantize: None, 'floor' or 'round', as in `corrupt`.
    side: the size whose constants are used; None takes the nearest.
    options: {corruption: {option: value}}, for example {'frost': {'photographs': ...}}.

  Raises:
    InputError: an unknown name or option, or an image too small for one of them.
  """
  table = table_for(image.shape[0], image.shape[1], side)
  branches = []
  for name in names:
    choice('name', name, NAMES)
    own = dict((options or {}).get(name, {}))
    check_options(name, own)
    check_side(name, image.shape[:2], table[name])
    branches.append(functools.partial(_branch, name, table[name], own))
  if len(branches) == 1:  # XLA would merge it with its surroundings, and round in another way
    branches *= 2
  result = jax.lax.switch(index, branches, key, image, severity)
  return to_levels(result, quantize) if quantize else result


def _branch(
  name: str, constants: Any, options: Options, key: jax.Array, image: jax.Array, severity: jax.Array
) -> jax.Array:
  return FUNCTIONS[name](key, image, severity, constants, **options)


def check_options(name: str, options: Options) -> None:
  """Refuses options that a corruption does not have; names those that it has."""
  valid = list(inspect.signature(FUNCTIONS[name]).parameters)[4:]
  for option in options:
    if option not in valid:
      listed = nearest(option, valid) if valid else 'it has no options'
      raise InputError(f'{name} has no option {option!r}: {listed}.')
