"""An ordered tuple of augmentations, applied to a batch inside the training step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from robustness.augment import AUGMENTATIONS, Augmentation, Example
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.registry import part_name
from robustness.core.sequential import by_branch, map_rows
from robustness.core.typing import Facts
from robustness.parallel import Parallel

KEY = 'key'
"""The column of random keys, where rows are taken one after another."""
OCCURRENCE = 'occurrence'
"""The column that numbers copies of a row in a batch; see `random_keys.occurrences`."""


@dataclasses.dataclass(frozen=True)
class Policy:
  """Augmentations in the order in which they are applied, each at most once."""

  augmentations: tuple[Augmentation, ...] = ()

  @classmethod
  def of(cls, **sections: Mapping[str, object]) -> Policy:
    """Returns the policy of these augmentations in this order, `Policy.of(crop={'padding': 4})`."""
    return from_section({'policy': tuple(sections), **sections}, 'policy')

  def describe(self) -> list[Facts]:
    """Returns names and settings in order, as plain values."""
    return [own.describe() for own in self.augmentations]

  @property
  def added(self) -> dict[str, int]:
    """The columns that augmentations add to the rows, and how many values each has."""
    return {k: count for own in self.augmentations for k, count in own.added_columns().items()}

  def metrics(self, batch: Example) -> dict[str, jax.Array]:
    """Returns what the augmentations have logged of a batch that they left: means over its rows."""
    return {k: mean for own in self.augmentations for k, mean in own.metrics(batch).items()}

  def __call__(
    self, batch: Example, seed: int | jax.Array, step: jax.Array, parallel: Parallel | None = None
  ) -> Example:
    """Returns the batch augmented; `image` is [B, V, H, W, C] where an augmentation gives V images.

    Args:
      batch: examples stacked, see `Augmentation`, `image` [B, H, W, C]; rows that it holds several
        times draw alike unless `OCCURRENCE` numbers them.
      seed: of the training; it may be traced.
      step: int32 scalar, the steps done.
      parallel: the devices that share the batch, where it is called inside a step that they run;
        None on a single one. Under pmap the batch is one device's share.
    """
    for own in self.augmentations:
      if own.added_columns() and batch['image'].ndim == 5:
        raise InputError(
          f'the augmentation {own.name!r} gives a row a column, {", ".join(own.added_columns())}, '
          'and one before it in the policy gives several images of a row: put it before that one.'
        )
      if own.one_key_a_row:
        keys = row_keys({'example_id': batch['example_id']}, seed, own.name, jnp.zeros_like(step))
      else:
        keys = row_keys(batch, seed, own.name, step)
      in_turn = own.sequential and jax.default_backend() == 'cpu'
      if in_turn or own.branches:
        on_device = functools.partial(_in_sequence if in_turn else _by_branch, own)
        rows = {**batch, KEY: keys}
        batch = parallel.by_device(on_device, rows) if parallel else on_device(rows)
        continue
      given = batch
      if own.needs_partner:
        axis_name = parallel.axis_name if parallel else None
        given = {**batch, 'partner': _partners(own, batch, axis_name)}
      batch = jax.vmap(functools.partial(_augment, own))(keys, given)
    return batch


def _in_sequence(augmentation: Augmentation, rows: Example) -> Example:
  """Applies one augmentation to row after row, so that what a row does not need costs nothing."""

  def augmented(row: Mapping[str, jax.Array], _: None) -> Example:
    example = dict(row)
    return _augment(augmentation, example.pop(KEY), example, jax.lax.map)

  return map_rows(augmented, rows, None)


def _by_branch(augmentation: Augmentation, rows: Example) -> Example:
  """Applies one augmentation to rows sorted by what they drew; see `by_branch`."""
  rows, several = dict(rows), 1
  keys, images = rows.pop(KEY), rows.pop('image')
  if images.ndim == 5:
    several = images.shape[1]
    numbers = jnp.arange(several)
    keys = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))(keys, numbers).ravel()
  flat = images.reshape(-1, *images.shape[-3:])
  columns = {name: jnp.repeat(values, several, axis=0) for name, values in rows.items()}
  drawn = jax.vmap(augmentation.draw_branch)(keys, columns)
  made = by_branch(augmentation.apply_branch, augmentation.branches, drawn, keys, flat)
  added = dict.fromkeys(augmentation.added_columns(), drawn[::several])
  return {**rows, **added, 'image': made.reshape(images.shape)}


def _augment(
  augmentation: Augmentation,
  key: jax.Array,
  example: Example,
  over: Callable[..., Example] = lambda function, numbers: jax.vmap(function)(numbers),
) -> Example:
  """Applies one augmentation to one row, to each of its images if it has several.

  Images are varied independently, but mixed with a partner's alike: a row has one target.
  """
  if example['image'].ndim == 3:
    return _without_partner(_applied(augmentation, key, example))

  def each(number: jax.Array) -> Example:
    view, own_key = {**example, 'image': example['image'][number]}, key
    if 'partner' in example:
      partner = example['partner']
      view['partner'] = {**partner, 'image': partner['image'][number]}
    else:
      own_key = jax.random.fold_in(key, number)
    after = _applied(augmentation, own_key, view)
    if after['image'].ndim != 3:
      raise InputError(
        f'the augmentation {augmentation.name!r} gives several images of a row, and so does one '
        'before it in the policy: leave one of them out.'
      )
    return _without_partner(after)

  several = over(each, jnp.arange(len(example['image'])))
  return {name: value if name == 'image' else value[0] for name, value in several.items()}


def _applied(augmentation: Augmentation, key: jax.Array, example: Example) -> Example:
  """Calls an augmentation of one image; refuses what a step cannot go on with."""
  after, shape = augmentation(key, example), example['image'].shape
  if not isinstance(after, Mapping) or not {*example} - {'partner'} <= {*after}:
    columns = sorted(after) if isinstance(after, Mapping) else type(after).__name__
    raise InputError(
      f'the augmentation {augmentation.name!r} gives {columns}; it must give the example that it '
      "is given, {**example, 'image': image}."
    )
  image = after['image']
  if image.shape[-3:] != shape or not jnp.issubdtype(image.dtype, jnp.floating):
    raise InputError(
      f'the augmentation {augmentation.name!r} gives an image of {image.dtype}{list(image.shape)}; '
      f'it must give floats in [0, 1] of the shape that it is given, {list(shape)}.'
    )
  return after


def _without_partner(example: Example) -> Example:
  return {name: value for name, value in example.items() if name != 'partner'}


def row_keys(batch: Example, seed: int | jax.Array, name: str, step: jax.Array) -> jax.Array:
  """Returns the keys by which the part `name` of a training draws for each row, [B].

  They depend on `example_id`, step and, where rows may occur several times, `OCCURRENCE`.
  """
  stream = random_keys.stream(seed, f'training/{name}')
  ids = batch['example_id']
  again = batch.get(OCCURRENCE, jnp.zeros_like(ids))
  keyed = functools.partial(random_keys.for_occurrence, stream)
  return jax.vmap(keyed, (0, None, 0))(ids, step, again)


def _partners(augmentation: Augmentation, batch: Example, axis_name: str | None) -> Example:
  """Returns for each row the one at the mirrored place of the whole batch, over all devices, or of
  those of its rows that `augmentation.within` allows."""
  within = augmentation.within
  if within and (within not in batch or batch[within].ndim > 1):
    numbers = sorted(name for name, values in batch.items() if values.ndim == 1)
    raise InputError(
      f'{augmentation.key("within")} is {within!r}, which is no column of a number a row at that '
      f'place of the policy; these are: {", ".join(numbers)}.'
    )
  whole = jax.lax.all_gather(batch, axis_name, tiled=True) if axis_name else batch
  if within:
    groups = whole[within]
    order = jnp.argsort(groups, stable=True)
    first, end = (jnp.searchsorted(groups[order], groups, side) for side in ('left', 'right'))
    places = order[first + end - 1 - jnp.argsort(order)]
    mirrored = {name: values[places] for name, values in whole.items()}
  else:
    mirrored = {name: values[::-1] for name, values in whole.items()}
  if not axis_name:
    return mirrored
  rows, index = len(batch['image']), jax.lax.axis_index(axis_name)
  own = functools.partial(jax.lax.dynamic_slice_in_dim, start_index=index * rows, slice_size=rows)
  return {name: own(values) for name, values in mirrored.items()}


def from_section(section: Mapping[str, object], where: str) -> Policy:
  """Reads `config.classifier.augment`: `policy`, a tuple of names, and a section for each name.

  Raises:
    InputError: an unknown augmentation or key (the nearest valid ones are named), one named twice,
      or a policy that is no tuple of names.
  """
  names = section.get('policy', ())
  if not isinstance(names, tuple | list) or not all(isinstance(n, str) and n for n in names):
    raise InputError(
      f'{where}.policy is {names!r}; it must be a tuple of names of augmentations, such as '
      f"('flip', 'crop'), of: {', '.join(AUGMENTATIONS.classes())}. () augments nothing."
    )
  called = [part_name(name) for name in names]
  for name in called:
    if called.count(name) > 1:
      raise InputError(f'{where}.policy names {name!r} twice: an augmentation is applied once.')
  AUGMENTATIONS.check_sections(section, where, 'policy', tuple(names))
  return Policy(tuple(AUGMENTATIONS.select(name, section, where, 'policy') for name in names))
