"""Corruptions by name.

`corrupt` and `corrupt_each` check their input and corrupt batches. `apply` corrupts one image
inside a compiled step.
"""

import dataclasses
import functools
import importlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core import random_keys
from robustness.core.arguments import as_array, as_images, as_key, check_integers
from robustness.core.errors import KEYS, InputError, naming_arguments
from robustness.core.registry import are_distinct
from robustness.core.sequential import map_entries
from robustness.core.settings import choice, require
from robustness.core.typing import PlainValue
from robustness.core.user_code import RecordedReference, is_reference, load, part_name
from robustness.corruptions import textures
from robustness.corruptions.corruption import SIDES, Constants, Corruption, interpolated
from robustness.corruptions.names import CATALOGUE, KNOWN, NAMES, NUMBERS, SEVERITIES
from robustness.corruptions.pixels import QUANTIZE, to_levels

Options = Mapping[str, PlainValue]
"""Options of one corruption by name, such as {'exchange': 'swap'}."""
StaticOptions = tuple[tuple[str, tuple[tuple[str, object], ...]], ...]
"""Options of corruptions as hashable tuples, such as (('glass_blur', (('exchange', 'swap'),)),)."""
Numbers = float | jax.Array | np.ndarray
"""Severities as a number or an array."""

CORRUPTIONS: dict[str, Corruption] = {
  name: vars(importlib.import_module(f'robustness.corruptions.{file}'))[name]
  for name, (_, file) in CATALOGUE.items()
}
"""{name: corruption} of all corruptions of this package."""


def find(name: str, key: str = 'name') -> Corruption:
  """Returns the corruption with a name such as 'fog', or a reference FILE.py:NAME.

  Args:
    name: the name or reference.
    key: name of the setting that holds it, for the error message.

  Raises:
    InputError: there is no such corruption.
  """
  if not is_reference(name):
    choice(key, name, KNOWN)
    return CORRUPTIONS[name]
  corruption: Any = load(name, key).value
  is_new = isinstance(corruption, Corruption) and part_name(name) not in NUMBERS
  valid = 'a function of a new name with @corruption(...) above it, as in docs/recipes.md'
  require(is_new, key, name, valid)
  return corruption


def check_names(key: str, names: Sequence[str], valid: Iterable[str] = KNOWN) -> None:
  """Raises InputError unless every name is the name of a known corruption.

  Args:
    key: name of the setting that holds the names, for the message.
    names: names such as 'fog', or references FILE.py:NAME.
    valid: names that are allowed, including names of sets.

  Raises:
    InputError: a name is not valid, a reference leads to no corruption, or two references have the
      same NAME.
  """
  valid = tuple(valid)
  for name in names:
    if not is_reference(name):
      choice(key, name, valid)
    elif not isinstance(name, RecordedReference):  # references in stored results are never loaded
      find(name, key)
  referenced = [part_name(name) for name in dict.fromkeys(names) if is_reference(name)]
  require(are_distinct(referenced), key, tuple(names), 'corruptions of distinct names')


@dataclasses.dataclass(frozen=True)
class ConstantsTable:
  """The published constants of all corruptions for one image size.

  For example, `table['gaussian_blur']` is {'sigma': (1.0, 2.0, 3.0, 4.0, 6.0)} for 224 pixels.

  Attributes:
    side: side in pixels of the images for which the constants were published.
    between: fractional severities in [1, 5], for which constants are interpolated. They are
      numbered 6, 7, … after the published severities 1 to 5: with `between` = (2.5,), severity 6
      selects the constants of severity 2.5.
  """

  side: int
  between: tuple[float, ...] = ()

  def __getitem__(self, name: str) -> Constants:
    """Looks up the constants of a corruption, as {parameter: one value per severity}.

    The table is for images of one size. The five published values come first, then those
    interpolated at the fractional severities `between`.

    Args:
      name: name of the corruption.

    Raises:
      InputError: No constants were published for this corruption and size.
    """
    by_side = find(name).constants
    if self.side not in by_side:
      raise InputError(
        f'{name} has no published constants for images of {self.side} pixels: ask for those of '
        f'another size, one of {", ".join(map(str, by_side))} ({KEYS.study.constants} of a '
        'study, or side= of corrupt).'
      )
    return {
      key: (*five, *(interpolated(five, severity) for severity in self.between))
      for key, five in by_side[self.side].items()
    }


TABLES = {side: ConstantsTable(side) for side in SIDES}
"""{side: constants published for images of this side in pixels}."""


def table_for(height: int, width: int, side: int | None = None) -> ConstantsTable:
  """Returns the corruption constants for images of a given size.

  Constants were published for images of 32, 64, 224 and 299 pixels.

  Args:
    height: height of the images in pixels.
    width: width of the images in pixels.
    side: one of the published sizes. None selects the size nearest to the shorter side on a
      logarithmic scale, for example 32 for 45 pixels, 64 for 96 and 224 for 256.

  Raises:
    InputError: No constants were published for this side.
  """
  if side is None:
    shorter = min(height, width)
    side = min(TABLES, key=lambda s: (abs(math.log(s / shorter)), s))
  if side not in TABLES:
    raise InputError(
      f'there are no constants for images of {side} pixels; valid: '
      f'{", ".join(map(str, TABLES))}, or None for the nearest.'
    )
  return TABLES[side]


@naming_arguments('images')
def corrupt(
  key: jax.Array | int,
  images: object,
  name: str,
  severity: Numbers,
  quantize: str | None = None,
  *,
  side: int | None = None,
  photographs: textures.Source = None,
  **options: object,
) -> jax.Array:
  """Corrupts an image or a batch with one corruption, such as 'fog' at severity 3.

  Image b of a batch is corrupted with the key fold_in(key, b). Its result therefore depends on its
  index but not on the size of the batch.

  Args:
    key: random key, or a seed.
    images: [H, W, C] or [B, H, W, C], floating, in [0, 1], with 1 or 3 channels: an array, or
      anything that NumPy reads, such as a PyTorch tensor on the CPU. Values outside [0, 1] by at
      most .001 are rounding errors and are clipped.
    name: one of `NAMES`, `C_BAR`, `SETS['laion_c']` or `SETS['resampling']`, 'watermark', or
      `FILE.py:NAME`.
    severity: 1..5, a scalar, or [B] with one per image; integers may be traced. Fractional
      severities such as 2.5 use interpolated constants. Each new set of fractional severities is
      compiled again.
    quantize: None returns unrounded floats; 'floor' or 'round' returns 8-bit levels / 255. The
      released sets were truncated ('floor').
    side: image size that selects the constants: 32, 64, 224 or 299; None selects the nearest.
    photographs: for `mosaic` and `stickers`, a folder of pictures (`laion_c.load_tiles`); for
      `frost`, a folder, 'imagecorruptions' or arrays (`textures.pictures`). None makes procedural
      pictures.
    **options: variants of the corruption, for example exchange='swap' of glass_blur.

  Returns:
    float32 in the shape of `images`, in [0, 1]; NaN where a traced severity is not in 1..5.

  Raises:
    InputError: The name, an option or quantize is unknown; the severity is outside 1..5; the key is
      invalid; or images are integers, out of range, of a wrong shape, or too small.
  """
  if 'photographs' in find(name).options and photographs is not None:
    options['photographs'] = photographs
  array = as_images(images)
  return _checked_and_corrupted(key, array, 0, severity, (name,), quantize, side, {name: options})


@naming_arguments('images')
def corrupt_each(
  key: jax.Array | int,
  images: object,
  index: jax.Array | np.ndarray,
  severity: Numbers,
  quantize: str | None = None,
  *,
  names: Sequence[str] = NAMES,
  side: int | None = None,
  options: Mapping[str, Options] | None = None,
) -> jax.Array:
  """Corrupts a batch with a corruption per image, selected by `index`.

  One function is compiled for all corruptions and severities. Image b is corrupted with the key
  fold_in(key, b), as in `corrupt`. On a CPU only the selected corruption of each image is computed.
  Accelerators process images in parallel and compute all corruptions in `names` for every image.

  Args:
    key: random key, or a seed.
    images: [B, H, W, C], floating, in [0, 1], with 1 or 3 channels; see `corrupt`.
    index: integers [B], indices into `names`, or a scalar for all images; may be traced.
    severity: 1..5, a scalar, or [B] with one per image; see `corrupt`.
    quantize: None returns unrounded floats; 'floor' or 'round' returns 8-bit levels / 255.
    names: the corruptions that can occur; only these are compiled.
    side: image size that selects the constants: 32, 64, 224 or 299; None selects the nearest.
    options: {corruption: {option: value}}, for example {'frost': {'photographs': FOLDER}}.

  Returns:
    float32 [B, H, W, C] in [0, 1]; NaN where a traced index or severity is invalid.

  Raises:
    InputError: As in `corrupt`, and for an index outside `names`.
  """
  images = as_images(images, ranks=(4,))
  options = options or {}
  return _checked_and_corrupted(key, images, index, severity, tuple(names), quantize, side, options)


def _checked_and_corrupted(
  key: jax.Array | int,
  images: jax.Array,
  index: int | jax.Array | np.ndarray,
  severity: Numbers,
  names: tuple[str, ...],
  quantize: str | None,
  side: int | None,
  options: Mapping[str, Options],
) -> jax.Array:
  """Checks all arguments except the images, and returns the corrupted images.

  Args:
    key: random key, or a seed.
    images: a batch [B, H, W, C], or a single image [H, W, C], in [0, 1].
    index: index of the corruption in `names`, of each image.
    severity: severity of each image, 1..5, which may be fractional.
    names: names of the corruptions.
    quantize: how results are rounded to 8 bits, 'floor' or 'round'; None does not round.
    side: size of the images that selects the constants; None selects the nearest.
    options: {corruption: {option: value}}.
  """
  batch = images.shape[:-3]  # (B,), or () for one image
  # fractional severities, listed in `between`, are numbered 6, 7, ... after the published 1 to 5
  severity_numbers, between = number_severities(severity)
  table = checked_table(images.shape[-3:-1], names, quantize, side, options, between)
  check_integers('index', index, batch, range(len(names)))
  num_severities = len(SEVERITIES) + len(between)
  check_integers('severity', severity_numbers, batch, range(1, num_severities + 1))
  static_options, frost_pictures = _split_options(options)
  indices = jnp.asarray(as_array('index', index), jnp.int32)
  severities = jnp.asarray(as_array('severity', severity_numbers), jnp.int32)
  arrays = as_key(key), images, indices, severities, frost_pictures
  settings = {'names': names, 'quantize': quantize, 'side': table.side, 'between': between}
  return _corrupt(*arrays, static=static_options, **settings)


def _split_options(
  options: Mapping[str, Options],
) -> tuple[StaticOptions, tuple[jax.Array, ...] | None]:
  """Splits options of corruptions into static arguments of `jax.jit` and traced pictures.

  Args:
    options: {corruption: {option: value}}.

  Returns:
    The options as tuples, which are hashable, and the pictures of frost if they are given as
    arrays, uint8 [h, w, 3] each, else None.
  """
  static, frost_pictures = [], None
  for name, values in options.items():
    static_values = dict(values)
    photographs = values.get('photographs')
    # the path of a folder with photographs is static
    if photographs is not None and not isinstance(photographs, (str, os.PathLike)):
      if name != 'frost':
        kind = type(photographs).__name__
        raise InputError(f'photographs of {name} must be a folder of pictures; got a {kind}.')
      frost_pictures = tuple(jnp.asarray(array) for array in textures.pictures(photographs))
      del static_values['photographs']
    static.append((name, tuple(sorted(static_values.items()))))
  return tuple(static), frost_pictures


@functools.partial(jax.jit, static_argnames=('names', 'quantize', 'side', 'between', 'static'))
@random_keys.without_global_draws
def _corrupt(
  key: jax.Array,
  images: jax.Array,
  index: jax.Array,
  severity: jax.Array,
  frost_pictures: tuple[jax.Array, ...] | None,
  *,
  static: StaticOptions,
  **settings: Any,
) -> jax.Array:
  """Corrupts an image or a batch by `apply`, in one compiled function.

  Args:
    key: random key; image b of a batch gets fold_in(key, b).
    images: [H, W, C] or [B, H, W, C].
    index: index of the corruption in `names`, a scalar or [B].
    severity: 1..5, or 6, 7, ... for the fractional severities `between`; a scalar or [B].
    frost_pictures: pictures of frost as traced arrays, uint8 [h, w, 3] each; None if `static` names
      their folder, or frost is procedural.
    static: all other options of the corruptions, as static arguments of `jax.jit`.
    **settings: the arguments `names`, `quantize`, `side` and `between` of `apply`.
  """
  options: dict[str, dict[str, object]] = {name: dict(pairs) for name, pairs in static}
  if frost_pictures is not None:
    options['frost']['photographs'] = frost_pictures
  corrupt_one: Callable[..., jax.Array] = functools.partial(apply, options=options, **settings)
  if images.ndim == 3:
    return corrupt_one(key, images, index, severity)
  numbers = jnp.arange(len(images))
  keys = jax.vmap(jax.random.fold_in, (None, 0))(key, numbers)
  index = jnp.broadcast_to(index, numbers.shape)
  severity = jnp.broadcast_to(severity, numbers.shape)
  return map_entries(corrupt_one, keys, images, index, severity)


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
  """Corrupts one image inside a compiled function, float32 [H, W, C] in [0, 1].

  `index` selects the corruption from `names` and may be traced. A function is then compiled once
  for all corruptions. Outside of compiled code use `corrupt` or `corrupt_each`.

  Under `vmap` over images, `index` and `severity` should not be mapped: if they are mapped, every
  corruption is computed for every image.

  Args:
    key: random key, or a seed.
    image: floating [H, W, C] in [0, 1].
    index: integer scalar, index into `names`.
    severity: integer scalar, 1..5, or 6, 7, ... for the severities in `between`.
    names: the corruptions that can occur; only these are compiled.
    quantize: None returns unrounded floats; 'floor' or 'round' returns 8-bit levels / 255.
    side: image size that selects the constants: 32, 64, 224 or 299; None selects the nearest.
    options: {corruption: {option: value}}, for example {'frost': {'photographs': FOLDER}}.
    between: fractional severities in [1, 5], selected by `severity` = 6, 7, ...

  Returns:
    The corrupted image. It is NaN if a traced index or severity is invalid.

  Raises:
    InputError: As in `corrupt_each`, for the values that are not traced.
  """
  key, image = as_key(key), as_images(image, ranks=(3,))
  options = options or {}
  table = checked_table(image.shape[:2], names, quantize, side, options, between)
  num_severities = len(SEVERITIES) + len(between)
  check_integers('index', index, (), range(len(names)))
  check_integers('severity', severity, (), range(1, num_severities + 1))

  def branch(name: str, key: jax.Array, image: jax.Array, severity: jax.Array) -> jax.Array:
    """Returns the image under one corruption, as a branch of `lax.switch` over all corruptions.

    The result is rounded as the argument `quantize` of `apply` says: 'floor' and 'round' return
    8-bit levels / 255, None rounds nothing.

    Args:
      name: name of the corruption. `table[name]` has its constants and `options` its options.
      key: random key.
      image: floating [H, W, C] in [0, 1].
      severity: number of the severity.
    """
    corruption = find(name)
    corrupted = corruption(key, image, severity, table[name], **options.get(name, {}))
    shape, dtype = getattr(corrupted, 'shape', None), getattr(corrupted, 'dtype', None)
    if (shape, dtype) != (image.shape, image.dtype):
      raise InputError(
        f'{name} returns {dtype} of shape {shape}: it must return {image.dtype} of the shape of '
        f'its image, {image.shape}.'
      )
    # 'floor' is what the released code does, except for a few corruptions, which it rounds
    rounding = 'round' if corruption.rounded and quantize == 'floor' else quantize
    levels = to_levels(corrupted, rounding) if rounding else corrupted
    if not is_reference(name):
      return levels
    # a user's corruption may leave [0, 1], and NaN must not become a level
    return jnp.where(jnp.isfinite(corrupted), jnp.clip(levels, 0, 1), jnp.nan)

  # A single name gets branches too: without them XLA fuses the corruption with the operations
  # around it, and results differ in their last digits.
  branches: list[Callable[..., jax.Array]] = [functools.partial(branch, name) for name in names]
  branches.append(lambda key, image, severity: jnp.full_like(image, jnp.nan))
  with random_keys.pinned():  # equal random numbers under all flags of JAX
    index, severity = jnp.asarray(index, jnp.int32), jnp.asarray(severity, jnp.int32)
    is_valid = (index >= 0) & (index < len(names)) & (severity >= 1) & (severity <= num_severities)
    selected = jnp.where(is_valid, index, len(names))  # the last branch returns NaN
    return jax.lax.switch(selected, branches, key, image, severity)


def checked_table(
  shape: Sequence[int],
  names: Sequence[str],
  quantize: str | None,
  side: int | None,
  options: Mapping[str, Options],
  between: Sequence[float] = (),
) -> ConstantsTable:
  """Returns the constants for images of a size, after checking all settings of `apply`.

  Args:
    shape: height and width of the images.
    names: the corruptions.
    quantize: rounding of the results to 8 bits, one of `QUANTIZE`, or None for floats.
    side: size of images, in pixels, for which the constants were published; None takes the size
      nearest to `shape`.
    options: {corruption: {option: value}}.
    between: fractional severities in [1, 5], for which constants are interpolated.

  Raises:
    InputError: a setting is invalid, or images are too small for a corruption.
  """
  if quantize is not None:
    choice('quantize', quantize, QUANTIZE)
  table = table_for(shape[0], shape[1], side)
  if not names:
    raise InputError(f'names are empty; give some of: {", ".join(NAMES)}.')
  for name in names:
    find(name).check_options(options.get(name, {}))
    find(name).check_side(shape, table[name])
  for name in options:
    choice('options', name, names)
  for value in between:
    if not SEVERITIES[0] <= value <= SEVERITIES[-1]:
      raise InputError(f'between has {value:g}; severities are in [1, 5].')
  elastic_variant = options.get('elastic_transform', {}).get('variant', 'released')
  if between and elastic_variant != 'released':
    raise InputError(
      "elastic_transform has constants of its own in the variant 'imagecorruptions', for the five "
      f'severities alone; got {between[0]}.'
    )
  return dataclasses.replace(table, between=tuple(between))


def number_severities(severity: Numbers) -> tuple[jax.Array | np.ndarray, tuple[float, ...]]:
  """Returns severities as integers for `apply`, and the distinct fractional severities, ascending.

  The integers are 1..5 for whole severities, and 6, 7, ... for fractional ones in ascending order.
  For example, [2, 3.5, 1.5] becomes [2, 7, 6] and (1.5, 3.5).

  Raises:
    InputError: a severity is outside [1, 5], or is a traced float.
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
  # the negation of valid, so that NaN is invalid too
  invalid = values[~((values >= SEVERITIES[0]) & (values <= SEVERITIES[-1]))]
  if invalid.size:
    raise InputError(f'severity is {invalid.flat[0]:g}; it must be in [1, 5].')
  is_integer = values == np.round(values)
  between = np.unique(values[~is_integer])
  numbers = np.searchsorted(between, values) + len(SEVERITIES) + 1
  return np.where(is_integer, values, numbers).astype(np.int32), tuple(between.tolist())


def refuse_stored(columns: Mapping[str, object]) -> None:
  """Raises InputError if the images of a data set were stored with a corruption or perturbation.

  Studies that corrupt images call this, because a second corruption would not be meaningful.

  Args:
    columns: columns of the data set by name, such as 'corruption' of CIFAR-10-C.
  """
  if 'corruption' in columns or 'perturbation' in columns:
    raise InputError(
      'these images are stored corrupted ones, which would be corrupted again: take clean images, '
      f"or set {KEYS.study.source}='stored' in a study that has it, such as corruption_error."
    )
