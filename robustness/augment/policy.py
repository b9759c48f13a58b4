"""An ordered tuple of augmentations, applied to a batch inside the training step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core import parts, random_keys
from robustness.core.errors import InputError
from robustness.core.parts import Part

PACKAGE = 'robustness.augment'
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

  def __call__(
    self, batch: Batch, seed: int, step: jax.Array, axis_name: str | None = None
  ) -> Batch:
    """Augments a batch.

    Args:
      batch: examples stacked, see `robustness.augment`; `image` [B, H, W, C].
      seed: of the training.
      step: int32 scalar, the steps done.
      axis_name: of pmap, where the batch is one device's share; None under jit.

    Returns:
      The batch; `image` is [B, H, W, C], or [B, V, H, W, C] where an augmentation gives V images.
    """
    for part in self.augmentations:
      keys = _keys(batch['example_id'], seed, part.name, step)
      given = batch
      if getattr(part.module, 'NEEDS_PARTNER', False):
        given = {**batch, 'partner': partners(batch, axis_name)}
      batch = jax.vmap(functools.partial(_augment, part))(keys, given)
    return batch


def _augment(part: Part, key: jax.Array, example: Batch) -> Batch:
  """Applies one augmentation to one row, to each of its images if it has several.

  Images of a row are varied independently, but mixed with a partner's alike: a row has one target.
  """
  if example['image'].ndim == 3:
    return _without_partner(part.module.augment(key, example, part.settings))
  mixes = 'partner' in example

  def each(number: jax.Array) -> Batch:
    view = _view(example, number)
    if mixes:
      view['partner'] = _view(example['partner'], number)
    own_key = key if mixes else jax.random.fold_in(key, number)
    return _without_partner(part.module.augment(own_key, view, part.settings))

  several = jax.vmap(each)(jnp.arange(len(example['image'])))
  return {name: value if name == 'image' else value[0] for name, value in several.items()}


def _view(example: Batch, number: jax.Array) -> Batch:
  """Returns the example with one of its images."""
  return {**example, 'image': example['image'][number]}


def _without_partner(example: Batch) -> Batch:
  return {name: value for name, value in example.items() if name != 'partner'}


def _keys(example_ids: jax.Array, seed: int, name: str, step: jax.Array) -> jax.Array:
  stream = random_keys.stream(seed, f'training/{name}')
  return jax.vmap(lambda example_id: random_keys.for_example(stream, example_id, step))(example_ids)


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
  if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
    raise InputError(
      f'{where}.policy is {names!r}; it must be a tuple of names of augmentations, such as '
      f"('flip', 'crop'), of: {', '.join(parts.modules(PACKAGE))}. () augments nothing."
    )
  for name in names:
    if list(names).count(name) > 1:
      raise InputError(f'{where}.policy names {name!r} twice: an augmentation is applied once.')
  return Policy(tuple(parts.select(PACKAGE, name, section, where, 'policy') for name in names))
