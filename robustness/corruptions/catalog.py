"""Corruptions by name: one image in a compiled study, or whole batches with their input checked."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core import random_keys
from robustness.core.errors import InputError, nearest
from robustness.core.sequential import map_entries
from robustness.core.settings import choice
from robustness.corruptions import (
  blur,
  covers,
  digital,
  elastic,
  gradient_noise,
  liquid,
  noise,
  spectral_noise,
  splines,
  stars,
  textures,
  warps,
  waves,
  weather,
)
from robustness.corruptions.checks import as_array, as_images, as_key, check_integers, check_side
from robustness.corruptions.levels import QUANTIZE, to_levels
from robustness.corruptions.names import KNOWN, NAMES, SEVERITIES
from robustness.corruptions.severities import Table, table_for

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
  'blue_noise_sample': spectral_noise.blue_noise_sample,
  'brownish_noise': spectral_noise.brownish_noise,
  'caustic_refraction': warps.caustic_refraction,
  'checkerboard_cutout': covers.checkerboard_cutout,
  'circular_motion_blur': splines.circular_motion_blur,
  'cocentric_sine_waves': waves.cocentric_sine_waves,
  'inverse_sparkles': stars.inverse_sparkles,
  'lines': covers.lines,
  'perlin_noise': gradient_noise.perlin_noise,
  'pinch_and_twirl': warps.pinch_and_twirl,
  'plasma_noise': waves.plasma_noise,
  'ripple': warps.ripple,
  'single_frequency_greyscale': waves.single_frequency_greyscale,
  'sparkles': stars.sparkles,
  'transverse_chromatic_abberation': splines.transverse_chromatic_abberation,
}
assert tuple(FUNCTIONS) == KNOWN
ROUNDED = frozenset({'transverse_chromatic_abberation'})
"""What the released generators round to the nearest level, where they truncate all else."""


def corrupt(
  key: jax.Array | int,
  images: Any,
  name: str,
  severity: float | jax.Array | np.ndarray,
  quantize: str | None = None,
  *,
  side: int | None = None,
  photographs: str | os.PathLike[str] | Sequence[Any] | None = None,
  **options: Any,
) -> jax.Array:
  """Corrupts an image or a batch.

  In a batch, image b is corrupted with fold_in(key, b), so a result depends on the image's place
  and not on the batch's size. Draws depend on the key alone.

  Args:
    key: random key, or a seed.
    images: [H, W, C] or [B, H, W, C], floating, in [0, 1], with 1 or 3 channels: an array, or
      anything that NumPy reads, such as a PyTorch tensor on the CPU. What lies beyond [0, 1] by at
      most .001 is rounding and is clipped.
    name: one of `NAMES` or `C_BAR`.
    severity: 1..5, a scalar, or [B] with one for each image; integers may be traced. Numbers
      between the five take constants between theirs (`Table.with_between`); every set of them is
      compiled anew.
    quantize: None leaves floats; 'floor' or 'round' gives 8-bit levels / 255. The released sets
      were truncated ('floor').
    side: the size whose constants are used, one of 32, 64, 224, 299; None takes the nearest.
    photographs: of frost, for `frost`: a folder, 'imagecorruptions', or arrays (see
      `weather.frost`); None draws procedural frost.
    **options: a corruption's own named variants, for example exchange='swap' of glass_blur.

  Returns:
    float32 in the shape of `images`, in [0, 1]; NaN where a traced severity is not in 1..5.

  Raises:
    InputError: an unknown name, option or quantize; a severity outside 1..5; images that are
      integer, out of range, of a wrong shape, or too small for this corruption; no key.
  """
  choice('name', name, KNOWN)
  if photographs is not None and name == 'frost':
    options['photographs'] = photographs
  return _checked_and_corrupted(
    key, as_images(images), 0, severity, (name,), quantize, side, {name: options}
  )


def corrupt_each(
  key: jax.Array | int,
  images: Any,
  index: jax.Array | np.ndarray,
  severity: float | jax.Array | np.ndarray,
  quantize: str | None = None,
  *,
  names: Sequence[str] = NAMES,
  side: int | None = None,
  options: Mapping[str, Options] | None = None,
) -> jax.Array:
  """Corrupts every image of a batch by a corruption of its own.

  One function is compiled for all corruptions and severities. Image b is corrupted with
  fold_in(key, b), as in `corrupt`. On a CPU an image costs its own corruption; on accelerators,
  where images are not taken one after another, all of `names` are computed for every image.

  Args:
    key: random key, or a seed.
    images: [B, H, W, C], as in `corrupt`.
    index: integers [B], positions in `names`, or one for all; may be traced.
    severity: 1..5, [B] or one for all, as in `corrupt`.
    quantize: None, 'floor' or 'round', as in `corrupt`.
    names: the corruptions that can occur; only these are compiled.
    side: the size whose constants are used; None takes the nearest.
    options: {corruption: {option: value}}, for example {'frost': {'photographs': FOLDER}}.

  Returns:
    float32 [B, H, W, C] in [0, 1]; NaN where a traced index or severity is invalid.

  Raises:
    InputError: as in `corrupt`, and an index outside `names`.
  """
  images = as_images(images, ranks=(4,))
  return _checked_and_corrupted(
    key, images, index, severity, tuple(names), quantize, side, options or {}
  )


def _checked_and_corrupted(
  key: jax.Array | int,
  images: jax.Array,
  index: int | jax.Array | np.ndarray,
  severity: float | jax.Array | np.ndarray,
  names: tuple[str, ...],
  quantize: str | None,
  side: int | None,
  options: Mapping[str, Options],
) -> jax.Array:
  """Checks all but the images, which are checked, and calls the compiled function."""
  batch = images.shape[:-3]
  number, between = numbered(severity)
  table = checked_table(images.shape[-3:-1], names, quantize, side, options, between)
  check_integers('index', index, batch, range(len(names)))
  check_integers('severity', number, batch, range(1, len(SEVERITIES) + len(between) + 1))
  static, arrays = _separated(options)
  return _corrupt(
    as_key(key),
    images,
    jnp.asarray(as_array('index', index), jnp.int32),
    jnp.asarray(as_array('severity', number), jnp.int32),
    arrays,
    names=names,
    quantize=quantize,
    side=table.side,
    between=between,
    static=static,
  )


def _separated(
  options: Mapping[str, Options],
) -> tuple[tuple[tuple[str, tuple[tuple[str, Any], ...]], ...], tuple[jax.Array, ...] | None]:
  """Returns the options that a compilation is for, hashable, and pictures of frost if given."""
  photographs = options.get('frost', {}).get('photographs')
  given = photographs is not None and not isinstance(photographs, (str, os.PathLike))
  static = tuple(
    (name, tuple(sorted((k, v) for k, v in own.items() if not given or k != 'photographs')))
    for name, own in options.items()
  )
  return static, tuple(jnp.asarray(p) for p in textures.pictures(photographs)) if given else None


@functools.partial(jax.jit, static_argnames=('names', 'quantize', 'side', 'between', 'static'))
def _corrupt(
  key: jax.Array,
  images: jax.Array,
  index: jax.Array,
  severity: jax.Array,
  photographs: tuple[jax.Array, ...] | None,
  *,
  names: tuple[str, ...],
  quantize: str | None,
  side: int,
  between: tuple[float, ...],
  static: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...],
) -> jax.Array:
  options: dict[str, dict[str, Any]] = {name: dict(own) for name, own in static}
  if photographs is not None:
    options['frost']['photographs'] = photographs

  def of_image(
    key: jax.Array, image: jax.Array, index: jax.Array, severity: jax.Array
  ) -> jax.Array:
    return apply(
      key,
      image,
      index,
      severity,
      names=names,
      quantize=quantize,
      side=side,
      options=options,
      between=between,
    )

  if images.ndim == 3:
    return of_image(key, images, index, severity)
  numbers = jnp.arange(len(images))
  keys = jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)
  index, severity = (jnp.broadcast_to(x, numbers.shape) for x in (index, severity))
  return map_entries(of_image, keys, images, index, severity)


def apply(
  key: jax.Array | int,
  image: jax.Array,
  index: jax.Array | int,
  severity: jax.Array | int,
  *,
  names: Sequence[str] = NAMES,
  quantize: str | None = None,
  side: int | None = None,
  options: Mapping[str, Options] | None = None,
  between: Sequence[float] = (),
) -> jax.Array:
  """Corrupts one image by the number of the corruption, so that a study compiles once.

  For use inside a compiled step; `corrupt_each` is compiled already. Under vmap over images leave
  `index` and `severity` unmapped: mapped ones make every corruption run. Traced values are not
  checked; they give NaN where index or severity is invalid.

  Args:
    key: random key, or a seed.
    image: floating [H, W, C] in [0, 1].
    index: integer scalar, position in `names`.
    severity: integer scalar, 1..5.
    names: the corruptions that can occur; only these are compiled.
    quantize: None, 'floor' or 'round', as in `corrupt`.
    side: the size whose constants are used; None takes the nearest.
    options: {corruption: {option: value}}, for example {'frost': {'photographs': ...}}.
    between: further severities in [1, 5], which `severity` = 6, 7, ... stands for.

  Returns:
    float32 [H, W, C] in [0, 1].

  Raises:
    InputError: an unknown name or option, an image that is integer, a batch, out of range, or too
      small for one of the corruptions, or an index or severity that is known to be invalid.
  """
  key, image = as_key(key), as_images(image, ranks=(3,))
  options = options or {}
  table = checked_table(image.shape[:2], names, quantize, side, options, between)
  most = len(SEVERITIES) + len(between)
  check_integers('index', index, (), range(len(names)))
  check_integers('severity', severity, (), range(1, most + 1))
  branches: list[Callable[..., jax.Array]] = [
    functools.partial(_branch, name, table[name], options.get(name, {}), quantize) for name in names
  ]
  # A branch of its own even for one name: XLA would merge it with its surroundings, and round in
  # another way.
  branches.append(lambda key, image, severity: jnp.full_like(image, jnp.nan))
  valid = (index >= 0) & (index < len(names)) & (severity >= 1) & (severity <= most)
  chosen = jnp.where(valid, index, len(names))
  with random_keys.pinned():
    return jax.lax.switch(chosen, branches, key, image, severity)


def checked_table(
  shape: Sequence[int],
  names: Sequence[str],
  quantize: str | None,
  side: int | None,
  options: Mapping[str, Options],
  between: Sequence[float] = (),
) -> Table:
  """Returns the constants for images of a shape (H, W) after checking what is to be done to them.

  Args:
    shape: of the images.
    names, quantize, side, options, between: as in `apply`.

  Raises:
    InputError: as in `apply`, of all but the image's values, index and severity.
  """
  if quantize is not None:
    choice('quantize', quantize, QUANTIZE)
  table = table_for(shape[0], shape[1], side)
  if not names:
    raise InputError(f'names are empty; give some of: {", ".join(NAMES)}.')
  for name in names:
    choice('name', name, KNOWN)
    check_options(name, options.get(name, {}))
    check_side(name, tuple(shape), table[name])
  for name in options:
    choice('options', name, names)
  if between and options.get('elastic_transform', {}).get('variant', 'released') != 'released':
    raise InputError(
      "elastic_transform has constants of its own in the variant 'imagecorruptions', for the five "
      f'severities alone; got {between[0]}.'
    )
  return table.with_between(between)


def numbered(
  severity: float | jax.Array | np.ndarray,
) -> tuple[jax.Array | np.ndarray, tuple[float, ...]]:
  """Returns severities by number, 1..5 or from 6 on for those between, and the latter, ascending.

  Raises:
    InputError: a severity outside [1, 5], or one that is traced and no integer.
  """
  values = as_array('severity', severity)
  if not jnp.issubdtype(values.dtype, jnp.floating):
    return values, ()
  if isinstance(values, jax.core.Tracer):
    raise InputError(
      'severity is traced and no integer: number the severities between the five with `between` of '
      '`apply`, or pass values that are known.'
    )
  values = np.asarray(values, np.float64)
  invalid = values[~((values >= SEVERITIES[0]) & (values <= SEVERITIES[-1]))]
  if invalid.size:
    raise InputError(f'severity is {invalid.flat[0]:g}; it must be in [1, 5].')
  between = np.unique(values[values != np.round(values)])
  numbers = np.searchsorted(between, values) + len(SEVERITIES) + 1
  return np.where(values == np.round(values), values, numbers).astype(np.int32), tuple(
    between.tolist()
  )


def _branch(
  name: str,
  constants: Any,
  options: Options,
  quantize: str | None,
  key: jax.Array,
  image: jax.Array,
  severity: jax.Array,
) -> jax.Array:
  corrupted = FUNCTIONS[name](key, image, severity, constants, **options)
  if name in ROUNDED and quantize == 'floor':
    quantize = 'round'
  return to_levels(corrupted, quantize) if quantize else corrupted


def check_options(name: str, options: Options) -> None:
  """Refuses options that a corruption does not have; names those that it has."""
  valid = list(inspect.signature(FUNCTIONS[name]).parameters)[4:]
  for option in options:
    if option not in valid:
      listed = nearest(option, valid) if valid else 'it has no options'
      raise InputError(f'{name} has no option {option!r}: {listed}.')
