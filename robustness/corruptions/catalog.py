"""Corruptions by name: one image in a compiled study, or whole batches with their input checked."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core import random_keys
from robustness.core.errors import KEYS, InputError
from robustness.core.registry import is_reference, load, part_name
from robustness.core.sequential import map_entries
from robustness.core.settings import choice, require
from robustness.core.typing import PlainValue
from robustness.corruptions import textures
from robustness.corruptions.corruption import SIDES, Constants, Corruption, between_five
from robustness.corruptions.names import CATALOGUE, KNOWN, NAMES, NUMBERS, SEVERITIES
from robustness.corruptions.pixels import QUANTIZE, to_levels

Options = Mapping[str, PlainValue]
ROUNDING = 1e-3  # a quarter of an 8-bit level: less beyond [0, 1] is rounding, and is clipped

CORRUPTIONS: dict[str, Corruption] = {
  name: vars(importlib.import_module(f'robustness.corruptions.{file}'))[name]
  for name, (_, file) in CATALOGUE.items()
}


def find(name: str, where: str = 'name') -> Corruption:
  """Returns the corruption of a name, or that of `FILE.py:NAME`; messages call the key `where`."""
  if not is_reference(name):
    choice(where, name, KNOWN)
    return CORRUPTIONS[name]
  value = load(name, where).value
  if not isinstance(value, Corruption):
    raise InputError(
      f'{where} names {name!r}, which is no corruption: write @corruption(...) above the function, '
      'as docs/recipes.md does.'
    )
  if part_name(name) in NUMBERS:
    raise InputError(f'{where} names {name!r}, but {part_name(name)!r} is here already: rename it.')
  return value


def check_names(where: str, names: Sequence[str], valid: Iterable[str] = KNOWN) -> None:
  """Raises InputError unless each name is valid, or a reference to a corruption of another name."""
  words = tuple(valid)
  for name in names:
    if is_reference(name):
      find(name, where)
    else:
      choice(where, name, words)
  called = [part_name(name) for name in dict.fromkeys(names) if is_reference(name)]
  require(len({*called}) == len(called), where, tuple(names), 'corruptions of distinct names')


@dataclasses.dataclass(frozen=True)
class ConstantsTable:
  """The constants of one image size.

  Attributes:
    side: of the images it was published for, in pixels; also its name.
    between: further severities in [1, 5], numbers 6, 7, ..., after the five.
  """

  side: int
  between: tuple[float, ...] = ()

  def __getitem__(self, name: str) -> Constants:
    """Returns {parameter: one value for each severity} of a corruption; the five stay as they are,
    and bounds over all severities too, so that their images do."""
    by_side = find(name).constants
    if self.side not in by_side:
      raise InputError(
        f'{name} has no published constants for images of {self.side} pixels: ask for those of '
        f'another size, one of {", ".join(map(str, by_side))} ({KEYS.study.constants}, or side=).'
      )
    return {
      key: (*five, *(between_five(five, severity) for severity in self.between))
      for key, five in by_side[self.side].items()
    }


TABLES = {side: ConstantsTable(side) for side in SIDES}


def table_for(height: int, width: int, side: int | None = None) -> ConstantsTable:
  """Returns the constants for images of a size.

  These are those of the side with the smallest |log(side / shorter side of the image)|; of two at
  one distance the smaller. So 28 → 32, 45 → 32, 46 → 64, 96 → 64, 128 → 224, 256 → 224, 288 → 299.

  `side` takes the table of this side whatever the size.

  Raises:
    InputError: there is no table of that side.
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


def corrupt(
  key: jax.Array | int,
  images: object,
  name: str,
  severity: float | jax.Array | np.ndarray,
  quantize: str | None = None,
  *,
  side: int | None = None,
  photographs: str | os.PathLike[str] | Sequence[jax.Array | np.ndarray] | None = None,
  **options: object,
) -> jax.Array:
  """Corrupts an image or a batch.

  In a batch, image b is corrupted with fold_in(key, b), so a result depends on the image's place
  and not on the batch's size. Draws depend on the key alone.

  Args:
    key: random key, or a seed.
    images: [H, W, C] or [B, H, W, C], floating, in [0, 1], with 1 or 3 channels: an array, or
      anything that NumPy reads, such as a PyTorch tensor on the CPU. What lies beyond [0, 1] by at
      most .001 is rounding and is clipped.
    name: one of `NAMES`, `C_BAR` or `SETS['laion_c']`, or `FILE.py:NAME`.
    severity: 1..5, a scalar, or [B] with one for each image; integers may be traced. Numbers
      between the five take constants between theirs (`ConstantsTable.between`); every
      set of them is compiled once.
    quantize: None leaves floats; 'floor' or 'round' gives 8-bit levels / 255. The released sets
      were truncated ('floor').
    side: the size whose constants are used, one of 32, 64, 224, 299; None takes the nearest.
    photographs: for `mosaic` and `stickers` a folder of pictures (`laion_c.tiles_of`); for `frost`
      those of frost: a folder, 'imagecorruptions', or arrays (see
      `weather.frost`); None draws procedural frost.
    **options: a corruption's own named variants, for example exchange='swap' of glass_blur.

  Returns:
    float32 in the shape of `images`, in [0, 1]; NaN where a traced severity is not in 1..5.

  Raises:
    InputError: an unknown name, option or quantize; a severity outside 1..5; images that are
      integer, out of range, of a wrong shape, or too small for this corruption; no key.
  """
  if photographs is not None and 'photographs' in find(name).options:
    options['photographs'] = photographs
  return _checked_and_corrupted(
    key, as_images(images), 0, severity, (name,), quantize, side, {name: options}
  )


def corrupt_each(
  key: jax.Array | int,
  images: object,
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
    key: as in `corrupt`.
    images: as in `corrupt`, [B, H, W, C].
    severity: as in `corrupt`.
    quantize: as in `corrupt`.
    side: as in `corrupt`.
    index: integers [B], positions in `names`, or one for all; may be traced.
    names: the corruptions that can occur; only these are compiled.
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
  for name in set(names) - {'frost'}:
    pictures = options.get(name, {}).get('photographs', '')
    if not isinstance(pictures, (str, os.PathLike)):
      got = type(pictures).__name__
      raise InputError(f'photographs of {name} must be a folder of pictures; got a {got}.')
  photographs = options.get('frost', {}).get('photographs')
  given = photographs is not None and not isinstance(photographs, (str, os.PathLike))
  static = tuple(
    (name, tuple(sorted((k, v) for k, v in own.items() if not given or k != 'photographs')))
    for name, own in options.items()
  )
  return _corrupt(
    as_key(key),
    images,
    jnp.asarray(as_array('index', index), jnp.int32),
    jnp.asarray(as_array('severity', number), jnp.int32),
    tuple(jnp.asarray(p) for p in textures.pictures(photographs)) if given else None,
    static=static,
    names=names,
    quantize=quantize,
    side=table.side,
    between=between,
  )


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
  side: int | None,
  between: tuple[float, ...],
  static: tuple[tuple[str, tuple[tuple[str, object], ...]], ...],
) -> jax.Array:
  """Calls `apply` for every image, with the hashable options `static` and its other arguments."""
  options: dict[str, dict[str, object]] = {name: dict(own) for name, own in static}
  if photographs is not None:
    options['frost']['photographs'] = photographs
  of_image = functools.partial(
    apply, options=options, names=names, quantize=quantize, side=side, between=between
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
    key: as in `corrupt`.
    quantize: as in `corrupt`.
    side: as in `corrupt`.
    image: floating [H, W, C] in [0, 1].
    index: integer scalar, position in `names`.
    severity: integer scalar, 1..5.
    names: as in `corrupt_each`.
    options: as in `corrupt_each`.
    between: further severities in [1, 5], which `severity` = 6, 7, ... stands for.

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

  def branch(name: str, key: jax.Array, image: jax.Array, severity: jax.Array) -> jax.Array:
    one = find(name)
    corrupted = one(key, image, severity, table[name], **options.get(name, {}))
    how = 'round' if one.rounded and quantize == 'floor' else quantize
    return to_levels(corrupted, how) if how else corrupted

  # Branches even for one name: XLA would merge it with its surroundings, and round in another way.
  branches: list[Callable[..., jax.Array]] = [functools.partial(branch, name) for name in names]
  branches.append(lambda key, image, severity: jnp.full_like(image, jnp.nan))
  with random_keys.pinned():
    index, severity = jnp.asarray(index, jnp.int32), jnp.asarray(severity, jnp.int32)
    valid = (index >= 0) & (index < len(names)) & (severity >= 1) & (severity <= most)
    chosen = jnp.where(valid, index, len(names))
    return jax.lax.switch(chosen, branches, key, image, severity)


def checked_table(
  shape: Sequence[int],
  names: Sequence[str],
  quantize: str | None,
  side: int | None,
  options: Mapping[str, Options],
  between: Sequence[float] = (),
) -> ConstantsTable:
  """Returns the constants for images of a shape (H, W) after checking the arguments of `apply`: all
  but the image's values, index and severity."""
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
  if between and options.get('elastic_transform', {}).get('variant', 'released') != 'released':
    raise InputError(
      "elastic_transform has constants of its own in the variant 'imagecorruptions', for the five "
      f'severities alone; got {between[0]}.'
    )
  return dataclasses.replace(table, between=tuple(between))


def numbered(
  severity: float | jax.Array | np.ndarray,
) -> tuple[jax.Array | np.ndarray, tuple[float, ...]]:
  """Returns severities by number, 1..5 or from 6 on for those between, and the latter, ascending.
  Raises InputError for one outside [1, 5], or one that is traced and no integer."""
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
  whole = values == np.round(values)
  between = np.unique(values[~whole])
  numbers = np.searchsorted(between, values) + len(SEVERITIES) + 1
  return np.where(whole, values, numbers).astype(np.int32), tuple(between.tolist())


def as_array(name: str, value: object) -> jax.Array | np.ndarray:
  """Returns anything that NumPy reads, a PyTorch tensor on the CPU too, as an array; raises
  InputError with `name` and the reason where NumPy cannot."""
  if isinstance(value, jax.Array):
    return value
  try:
    return np.asarray(value)
  except (TypeError, ValueError, RuntimeError) as error:
    raise InputError(
      f'{name} is a {type(value).__name__} that NumPy cannot read ({error}). Of a PyTorch tensor, '
      'pass tensor.detach().cpu().'
    ) from error


def as_key(key: object) -> jax.Array:
  """Returns a random key, or that of a seed; raises InputError for neither."""
  if isinstance(key, jax.Array):
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if key.shape == () if typed else (key.ndim == 1 and key.dtype == jnp.uint32):
      return key
    raise InputError(
      f'key has the shape {key.shape} and is {key.dtype}; it must be one key, as jax.random.key(0) '
      'gives it, or a seed.'
    )
  if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < 2**32:
    return random_keys.from_seed(int(key))
  raise InputError(
    f'key is {key!r}; it must be a random key, as jax.random.key(0) gives it, or a seed in '
    '0..4294967295.'
  )


def as_images(
  images: object, ranks: tuple[int, ...] = (3, 4), taker: str = 'corruptions'
) -> jax.Array:
  """Returns images of a valid number of dimensions as float32, clipped to [0, 1] where they lie
  beyond it by rounding. Of traced ones type and shape alone are checked. `taker` is what messages
  call those who take them.

  Raises:
    InputError: a wrong shape or type, or values outside [0, 1] that are no rounding; names what
      was given and the fix.
  """
  array = as_array('images', images)
  shape = tuple(array.shape)
  forms = ' or '.join({3: '[H, W, C]', 4: '[B, H, W, C]'}[rank] for rank in ranks)
  if len(shape) not in ranks or shape[-1] not in (1, 3):
    hint = ''
    if len(shape) in ranks and shape[-3] in (1, 3):
      hint = ' Move the channels last: np.moveaxis(images, -3, -1).'
    elif len(shape) == 4:
      hint = ' Take jax.vmap or corrupt_each for a batch.'
    raise InputError(
      f'images have the shape {shape}; {taker} take {forms} with 1 or 3 channels last.{hint}'
    )
  if 0 in shape:
    raise InputError(f'images have the shape {shape}: there is nothing to change.')
  if not jnp.issubdtype(array.dtype, jnp.floating):
    raise InputError(
      f'images are {array.dtype}; {taker} take floats in [0, 1]. Divide 8-bit images by 255.'
    )
  array = jnp.asarray(array)
  least, most = array.min(), array.max()
  if isinstance(least, jax.core.Tracer):  # of a known array too, inside a branch that is traced
    return array.astype(jnp.float32)
  low, high = float(least), float(most)
  if not (low >= -ROUNDING and high <= 1 + ROUNDING):
    raise InputError(
      f'images have values from {low:.9g} to {high:.9g}; {taker} take values in '
      '[0, 1]. Normalise afterwards; divide 8-bit values by 255.'
    )
  return jnp.clip(array.astype(jnp.float32), 0, 1)


def refuse_stored(columns: Mapping[str, object]) -> None:
  """Raises InputError if a row with these columns is one of stored corrupted images, or a frame of
  stored perturbed ones."""
  if 'corruption' in columns or 'perturbation' in columns:
    raise InputError(
      'these images are stored corrupted ones, which would be corrupted again: take clean images, '
      f"or set {KEYS.study.source}='stored' in a study that has it, such as corruption_error."
    )


def check_integers(name: str, value: object, batch: tuple[int, ...], valid: Sequence[int]) -> None:
  """Raises InputError unless a value, or one for each image, is among consecutive integers.

  `batch` is (B,) of a batch, () of one image; of a traced value shape and type are checked.
  """
  values, valid_range = as_array(name, value), f'{valid[0]}..{valid[-1]}'
  if not jnp.issubdtype(values.dtype, jnp.integer):
    raise InputError(f'{name} is {value!r}; it must be an integer in {valid_range}.')
  if values.shape not in ((), batch):
    raise InputError(
      f'{name} has the shape {values.shape}; it must be one integer, or one for '
      f'each image: {batch}.'
    )
  if isinstance(values, jax.core.Tracer):
    return
  invalid = np.setdiff1d(np.asarray(values), valid)
  if invalid.size:
    raise InputError(f'{name} is {invalid[0]}; it must be an integer in {valid_range}.')
