"""An ordered tuple of augmentations, applied to a batch inside the training step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core import parts, random_keys
from robustness.core.errors import InputError
from robustness.core.parts import Part
from robustness.core.sequential import by_branch, map_rows
from robustness.parallel import Parallel

PACKAGE = 'robustness.augment'
KEY = 'key'
"""The column of random keys, where rows are taken one after another."""
OCCURRENCE = 'occurrence'
"""The column that tells copies of a row in a batch apart; see `random_keys.occurrences`."""

Batch = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Policy:
  """Augmentations in the order in which they are applied.

  Attributes:
    augmentations: selected parts of `robustness.augment`, each at most once.
  """

  augmentations: tuple[Part, ...] = ()

  @classmethod
  def of(cls, **sections: Mapping[str, Any]) -> Policy:
    """Returns the policy of these augmentations in this order, `Policy.of(crop={'padding': 4})`."""
    return from_section({'policy': tuple(sections), **sections}, 'policy')

  def describe(self) -> list[dict[str, Any]]:
    """Returns names and settings in order, as plain values."""
    return [part.describe() for part in self.augmentations]

  @property
  def added(self) -> dict[str, int]:
    """The columns that augmentations add to the rows, and how many values each has."""
    return {
      name: count
      for part in self.augmentations
      if hasattr(part.module, 'adds')
      for name, count in part.module.adds(part.settings).items()
    }

  def metrics(self, batch: Batch) -> dict[str, jax.Array]:
    """Returns what the augmentations have logged of a batch that they left: means over its rows."""
    return {
      name: value
      for part in self.augmentations
      if hasattr(part.module, 'metrics')
      for name, value in part.module.metrics(batch, part.settings).items()
    }

  def __call__(
    self, batch: Batch, seed: int, step: jax.Array, parallel: Parallel | None = None
  ) -> Batch:
    """Augments a batch.

    Args:
      batch: examples stacked, see `robustness.augment`; `image` [B, H, W, C]. Rows that it holds
        several times draw alike unless `OCCURRENCE` numbers them.
      seed: of the training.
      step: int32 scalar, the steps done.
      parallel: the devices that share the batch, where it is called inside a step that they run;
        None on a single one. Under pmap the batch is one device's share.

    Returns:
      The batch; `image` is [B, H, W, C], or [B, V, H, W, C] where an augmentation gives V images.
    """
    for part in self.augmentations:
      keys = row_keys(batch, seed, part.name, step)
      if getattr(part.module, 'SEQUENTIAL', False) and jax.default_backend() == 'cpu':
        batch = _on_each_device(_in_sequence, part, {**batch, KEY: keys}, parallel)
      elif hasattr(part.module, 'draw_branch'):
        batch = _on_each_device(_by_branch, part, {**batch, KEY: keys}, parallel)
      else:
        given = batch
        if getattr(part.module, 'NEEDS_PARTNER', False):
          given = {**batch, 'partner': partners(batch, parallel.axis_name if parallel else None)}
        batch = jax.vmap(functools.partial(_augment, part))(keys, given)
    return batch


def _on_each_device(
  function: Callable[[Part, Batch], Batch], part: Part, rows: Batch, parallel: Parallel | None
) -> Batch:
  """Applies a function to each device's own rows, among which it is free to choose an order."""
  own = functools.partial(function, part)
  return parallel.by_device(own, rows) if parallel else own(rows)


def _in_sequence(part: Part, rows: Batch) -> Batch:
  """Applies one augmentation to row after row, so that what a row does not need costs nothing."""

  def augmented(row: Mapping[str, jax.Array], _: None) -> Batch:
    example = dict(row)
    return _augment(part, example.pop(KEY), example, jax.lax.map)

  return map_rows(augmented, rows, None)


def _by_branch(part: Part, rows: Batch) -> Batch:
  """Applies one augmentation to rows sorted by what they drew; see `by_branch`."""
  module, settings = part.module, part.settings
  rows = dict(rows)
  keys, images = rows.pop(KEY), rows['image']
  if images.ndim == 5:
    numbers = jnp.arange(images.shape[1])
    keys = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))(keys, numbers).ravel()
  flat = images.reshape(-1, *images.shape[-3:])
  drawn = jax.vmap(lambda key: module.draw_branch(key, settings))(keys)

  def applied(branch: jax.Array, key: jax.Array, image: jax.Array) -> jax.Array:
    return module.apply_branch(branch, key, image, settings)

  made = by_branch(applied, module.branches(settings), drawn, keys, flat)
  return {**rows, 'image': made.reshape(images.shape)}


def _at_once(function: Callable[[jax.Array], Batch], numbers: jax.Array) -> Batch:
  return jax.vmap(function)(numbers)


def _augment(
  part: Part, key: jax.Array, example: Batch, over: Callable[..., Batch] = _at_once
) -> Batch:
  """Applies one augmentation to one row, to each of its images if it has several.

  Images of a row are varied independently, but mixed with a partner's alike: a row has one target.
  `over(function, numbers)` applies a function to the image of each number.
  """
  if example['image'].ndim == 3:
    return _without_partner(part.module.augment(key, example, part.settings))
  mixes = 'partner' in example

  def each(number: jax.Array) -> Batch:
    view = _view(example, number)
    if mixes:
      view['partner'] = _view(example['partner'], number)
    own_key = key if mixes else jax.random.fold_in(key, number)
    after = part.module.augment(own_key, view, part.settings)
    if after['image'].ndim != 3:
      raise InputError(
        f'the augmentation {part.name!r} gives several images of a row, and so does one before it '
        'in the policy: leave one of them out.'
      )
    return _without_partner(after)

  several = over(each, jnp.arange(len(example['image'])))
  return {name: value if name == 'image' else value[0] for name, value in several.items()}


def _view(example: Batch, number: jax.Array) -> Batch:
  """Returns the example with one of its images."""
  return {**example, 'image': example['image'][number]}


def _without_partner(example: Batch) -> Batch:
  return {name: value for name, value in example.items() if name != 'partner'}


def row_keys(batch: Batch, seed: int, name: str, step: jax.Array) -> jax.Array:
  """Returns the keys by which a part of a training draws for each row, [B].

  Args:
    batch: with `example_id` and, where rows may occur several times, `OCCURRENCE`.
    seed: of the training.
    name: of the part.
    step: int32 scalar, the steps done.
  """
  stream = random_keys.stream(seed, f'training/{name}')
  ids = batch['example_id']
  again = batch.get(OCCURRENCE, jnp.zeros_like(ids))
  keyed = functools.partial(random_keys.for_occurrence, stream)
  return jax.vmap(keyed, (0, None, 0))(ids, step, again)


def partners(batch: Batch, axis_name: str | None) -> Batch:
  """Returns for each row the one at the mirrored place of the whole batch, over all devices."""
  if axis_name is None:
    return {name: value[::-1] for name, value in batch.items()}
  index, count = jax.lax.axis_index(axis_name), jax.lax.psum(1, axis_name)

  def mirrored(value: jax.Array) -> jax.Array:
    whole = jax.lax.all_gather(value, axis_name)
    return whole[count - 1 - index][::-1]

  return {name: mirrored(value) for name, value in batch.items()}


def from_section(section: Mapping[str, Any], where: str) -> Policy:
  """Reads `config.classifier.augment`: `policy`, a tuple of names, and a section for each name.

  Raises:
    InputError: an unknown augmentation or key (the nearest valid ones are named), one named twice,
      or a policy that is no tuple of names.
  """
  parts.refuse_unknown(PACKAGE, section, where, 'policy')
  names = section.get('policy', ())
  listed = isinstance(names, tuple | list)
  if not listed or not all(isinstance(name, str) and name for name in names):
    raise InputError(
      f'{where}.policy is {names!r}; it must be a tuple of names of augmentations, such as '
      f"('flip', 'crop'), of: {', '.join(parts.modules(PACKAGE))}. () augments nothing."
    )
  for name in names:
    if list(names).count(name) > 1:
      raise InputError(f'{where}.policy names {name!r} twice: an augmentation is applied once.')
  return Policy(tuple(parts.select(PACKAGE, name, section, where, 'policy') for name in names))
