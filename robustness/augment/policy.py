"""An ordered tuple of augmentations, applied to a batch inside the training step."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from robustness.augment import AUGMENTATIONS, Augmentation, Example
from robustness.core import random_keys
from robustness.core.errors import InputError, key_name
from robustness.core.sequential import by_branch, map_rows
from robustness.core.typing import Facts
from robustness.parallel import Parallel

KEY = 'key'
"""The column of random keys where rows are processed one by one."""
OCCURRENCE = 'occurrence'
"""The column that numbers the copies of a row in a batch; see `random_keys.occurrences`."""


@dataclasses.dataclass(frozen=True)
class Policy:
  """A sequence of augmentations that is applied to batches of training examples.

  Attributes:
    augmentations: the augmentations in order, each at most once.
  """

  augmentations: tuple[Augmentation, ...] = ()

  def __post_init__(self) -> None:
    """Raises InputError if two augmentations have the same name.

    Both would use the same random numbers.
    """
    names = [augmentation.name for augmentation in self.augmentations]
    for name in names:
      if names.count(name) > 1:
        key = key_name('config.classifier.augment.policy')
        raise InputError(f'{key} names {name!r} twice: an augmentation is applied once.')

  @classmethod
  def of(cls, **sections: Mapping[str, object]) -> Policy:
    """Returns a policy from names and settings: `Policy.of(crop={'padding': 4})`.

    Augmentations are applied in the order of the arguments.
    """
    return from_section({'policy': tuple(sections), **sections}, 'policy')

  def describe(self) -> list[Facts]:
    """Returns the names and settings of the augmentations in order, as JSON values."""
    return [augmentation.describe() for augmentation in self.augmentations]

  @property
  def added_columns(self) -> dict[str, int]:
    """The columns that the augmentations add to examples, as {name: n}.

    A column has integers in [0, n), for instance the number of the corruption that was applied.
    """
    return {name: n for part in self.augmentations for name, n in part.added_columns().items()}

  def metrics(self, batch: Example) -> dict[str, jax.Array]:
    """Returns the metrics to log for an augmented batch, as {name: mean over the batch}."""
    return {name: mean for part in self.augmentations for name, mean in part.metrics(batch).items()}

  def __call__(
    self, batch: Example, seed: int | jax.Array, step: jax.Array, parallel: Parallel | None = None
  ) -> Example:
    """Returns the augmented batch.

    `image` is [B, H, W, C], or [B, V, H, W, C] after an augmentation that makes V images of one.

    Args:
      batch: examples as arrays with a leading axis B: `image` [B, H, W, C], `label` and so on (see
        `Augmentation`). Copies of an example get the same random numbers, unless the column
        `OCCURRENCE` numbers the copies.
      seed: seed of the training; may be traced.
      step: number of completed steps, int32 scalar.
      parallel: the devices that share the batch, if called inside a parallel step; None for a
        single device. Under pmap the batch is the part of one device.
    """
    for augmentation in self.augmentations:
      name, columns = augmentation.name, augmentation.added_columns()
      has_several_images = batch['image'].ndim == 5  # [B, V, H, W, C]
      if columns and has_several_images:
        raise InputError(
          f'the augmentation {name!r} gives a row a column, {", ".join(columns)}, '
          'and one before it in the policy gives several images of a row: put it before that one.'
        )
      if augmentation.one_key_a_row:
        # equal in all steps, and for all copies of a row, without the column that numbers copies
        keys = row_keys({'example_id': batch['example_id']}, seed, name, jnp.zeros_like(step))
      else:
        keys = row_keys(batch, seed, name, step)
      batch = _augment_batch(augmentation, keys, batch, parallel)
    return batch


def _augment_batch(
  augmentation: Augmentation, keys: jax.Array, batch: Example, parallel: Parallel | None
) -> Example:
  """Returns the batch after one augmentation.

  An augmentation that is `sequential` processes examples one by one on a CPU. An augmentation with
  `branches` computes examples with the same random choice together. All others are vectorised.

  Args:
    augmentation: the augmentation.
    keys: random keys [B] of the examples.
    batch: examples as arrays with a leading axis B.
    parallel: the devices that share the batch; None for a single device.
  """
  is_sequential = augmentation.sequential and jax.default_backend() == 'cpu'
  if is_sequential or augmentation.branches:
    apply = _apply_to_rows if is_sequential else _apply_branches
    on_device = functools.partial(apply, augmentation)
    rows = {**batch, KEY: keys}
    return parallel.by_device(on_device, rows) if parallel else on_device(rows)
  if augmentation.needs_partner:
    axis_name = parallel.axis_name if parallel else None
    batch = {**batch, 'partner': _partner_rows(augmentation, batch, axis_name)}
  return jax.vmap(functools.partial(_augment, augmentation))(keys, batch)


def _apply_to_rows(augmentation: Augmentation, rows: Example) -> Example:
  """Returns examples after an augmentation, which processes them one by one in a loop.

  The loop computes only the random choice of each example, while `jax.vmap` would compute every
  choice for each.

  Args:
    augmentation: the augmentation.
    rows: examples as arrays [B, ...], with their random keys in the column `KEY`. The result has no
      such column.
  """

  def augment_row(row: Mapping[str, jax.Array], _: None) -> Example:
    """Returns one example after the augmentation, for `map_rows`."""
    example = dict(row)
    key = example.pop(KEY)
    return _augment(augmentation, key, example, one_by_one=True)

  return map_rows(augment_row, rows, None)


def _apply_branches(augmentation: Augmentation, rows: Example) -> Example:
  """Returns examples after an augmentation that computes equal random choices together.

  An example is a random corruption, which overrides `Augmentation.branches`.

  Args:
    augmentation: the augmentation.
    rows: examples as arrays [B, ...], with their random keys in the column `KEY`. Images are [B, H,
      W, C] or [B, V, H, W, C]. The result has no column of keys.
  """
  rows = dict(rows)
  keys, images = rows.pop(KEY), rows.pop('image')
  images_per_row = images.shape[1] if images.ndim == 5 else 1  # V
  if images.ndim == 5:  # image v of a row gets fold_in(key of the row, v)
    keys_of_row = jax.vmap(jax.random.fold_in, (None, 0))  # from one key and numbers [V]
    keys_of_rows = jax.vmap(keys_of_row, (0, None))  # from keys [B] and numbers [V] to keys [B, V]
    keys = keys_of_rows(keys, jnp.arange(images_per_row)).ravel()
  # from here on, each of the B · V images is a row
  flat = images.reshape(-1, *images.shape[-3:])  # [B · V, H, W, C]
  columns = {name: jnp.repeat(values, images_per_row, axis=0) for name, values in rows.items()}
  branches = jax.vmap(augmentation.draw_branch)(keys, columns)
  augmented = by_branch(augmentation.apply_branch, augmentation.branches, branches, keys, flat)
  # An added column has the branch of each row. `Policy` refuses an augmentation with such a column
  # for rows with several images, so that a row has one branch.
  added = dict.fromkeys(augmentation.added_columns(), branches[::images_per_row])  # [B]
  return {**rows, **added, 'image': augmented.reshape(images.shape)}


def _augment(
  augmentation: Augmentation, key: jax.Array, example: Example, one_by_one: bool = False
) -> Example:
  """Returns an example after an augmentation.

  If the example has V images, each is augmented with different random numbers. Only an augmentation
  that mixes the example with a partner mixes all V images with the same weight, because the example
  has one target.

  Args:
    augmentation: the augmentation.
    key: random key of the example.
    example: the example, with `image` [H, W, C] or [V, H, W, C].
    one_by_one: whether V images are augmented in a loop instead of together.
  """
  if example['image'].ndim == 3:
    return _augment_and_check(augmentation, key, example)

  def augment_image(number: jax.Array) -> Example:
    """Returns the example with only one of its images, augmented.

    Args:
      number: index of the image.
    """
    view = {**example, 'image': example['image'][number]}
    if 'partner' in example:
      partner = example['partner']
      view['partner'] = {**partner, 'image': partner['image'][number]}
    # with a partner, all V images are mixed with the same weight
    image_key = key if 'partner' in example else jax.random.fold_in(key, number)
    augmented = _augment_and_check(augmentation, image_key, view)
    if augmented['image'].ndim != 3:
      raise InputError(
        f'the augmentation {augmentation.name!r} gives several images of a row, and so does one '
        'before it in the policy: leave one of them out.'
      )
    return augmented

  numbers = jnp.arange(len(example['image']))
  views = jax.lax.map(augment_image, numbers) if one_by_one else jax.vmap(augment_image)(numbers)
  # columns other than the image are equal in all V results
  columns = {name: values[0] for name, values in views.items()}
  return {**columns, 'image': views['image']}


def _augment_and_check(augmentation: Augmentation, key: jax.Array, example: Example) -> Example:
  """Returns the augmented example without the entry `partner`, after a check of its form.

  Args:
    augmentation: the augmentation, which may be a user's.
    key: random key.
    example: columns of one row, {name: value}, with 'image' in [0, 1]. Augmentations that mix
      images also need 'partner', another row of the batch.

  Raises:
    InputError: a user-defined augmentation leaves out an entry of the example, or changes height,
      width or channels of the image, or returns an image of integers.
  """
  augmented = augmentation(key, example)
  is_mapping = isinstance(augmented, Mapping)
  # all columns of the example, and perhaps more
  has_columns = is_mapping and augmented.keys() >= example.keys() - {'partner'}
  if not has_columns:
    columns = sorted(augmented) if is_mapping else type(augmented).__name__
    raise InputError(
      f'the augmentation {augmentation.name!r} gives {columns}; it must give the example that it '
      "is given, {**example, 'image': image}."
    )
  image, shape = augmented['image'], example['image'].shape
  if image.shape[-3:] != shape or not jnp.issubdtype(image.dtype, jnp.floating):
    raise InputError(
      f'the augmentation {augmentation.name!r} gives an image of {image.dtype}{list(image.shape)}; '
      f'it must give floats in [0, 1] of the shape that it is given, {list(shape)}.'
    )
  return {name: value for name, value in augmented.items() if name != 'partner'}


def _mirrored_in_groups(groups: jax.Array) -> jax.Array:
  """Returns the index of each example's partner within its group, int32 [B].

  The i-th example of a group is paired with the i-th from the end. For the groups 7, 3, 7, 7 the
  indices are 3, 1, 2, 0.

  Args:
    groups: the group of each example, integers [B].
  """
  order = jnp.argsort(groups, stable=True)  # the rows sorted by group
  place = jnp.argsort(order)  # the inverse: the place of each row when sorted
  # the first and the last place of each row's group
  first = jnp.searchsorted(groups[order], groups, 'left')
  last = jnp.searchsorted(groups[order], groups, 'right') - 1
  distance_from_first = place - first
  return order[last - distance_from_first]  # the partner is as far from the last place


def row_keys(batch: Example, seed: int | jax.Array, name: str, step: jax.Array) -> jax.Array:
  """Returns a random key for each example of a batch, [B].

  Keys depend on seed, name, step and the column `example_id`. If the column `OCCURRENCE` numbers
  copies of an example, they also depend on this number.

  Args:
    batch: examples as arrays with a leading axis B.
    seed: seed of the training.
    name: name of the augmentation or attack that uses the keys.
    step: number of completed steps, int32 scalar.
  """
  stream = random_keys.stream(seed, f'training/{name}')
  ids = batch['example_id']
  occurrences = batch.get(OCCURRENCE, jnp.zeros_like(ids))
  key_of_row = functools.partial(random_keys.for_occurrence, stream)
  return jax.vmap(key_of_row, (0, None, 0))(ids, step, occurrences)


def _partner_rows(augmentation: Augmentation, batch: Example, axis_name: str | None) -> Example:
  """Returns the partner of each example, for augmentations that mix two examples.

  The partner of example i is example B − 1 − i of the B examples of all devices. With
  `augmentation.within`, the name of a column, the same holds within each group of examples with
  equal values in this column.

  Args:
    augmentation: the augmentation that mixes examples.
    batch: the examples of this device.
    axis_name: axis of pmap over the devices; None if `batch` has the examples of all devices.
  """
  within = augmentation.within
  if within and (within not in batch or batch[within].ndim > 1):
    numbers = sorted(name for name, values in batch.items() if values.ndim == 1)
    raise InputError(
      f'{augmentation.key("within")} is {within!r}, which is no column with one number a row at '
      f'that place of the policy; take one of {", ".join(numbers)}.'
    )
  full_batch = jax.lax.all_gather(batch, axis_name, tiled=True) if axis_name else batch
  # the rows in reverse order, within each group or as a whole
  order = _mirrored_in_groups(full_batch[within]) if within else slice(None, None, -1)
  mirrored = {name: values[order] for name, values in full_batch.items()}
  if not axis_name:
    return mirrored
  # only the partners of the rows of this device
  size = len(batch['image'])
  start = jax.lax.axis_index(axis_name) * size
  return {k: jax.lax.dynamic_slice_in_dim(v, start, size) for k, v in mirrored.items()}


def from_section(section: Mapping[str, object], path: str) -> Policy:
  """Reads a policy from the config section `config.classifier.augment`.

  Args:
    section: `policy`, a tuple of names of augmentations, and a dictionary of settings for each
      name.
    path: name of the section, for messages.

  Raises:
    InputError: An augmentation or key is unknown, an augmentation is named twice, or `policy` is no
      tuple of names.
  """
  names = section.get('policy', ())
  if not isinstance(names, tuple | list) or not all(isinstance(n, str) and n for n in names):
    raise InputError(
      f'{path}.policy is {names!r}; it must be a tuple of names of augmentations, such as '
      f"('flip', 'crop'), of: {', '.join(AUGMENTATIONS.classes())}. () augments nothing."
    )
  AUGMENTATIONS.check_sections(section, path, 'policy', tuple(names))
  return Policy(tuple(AUGMENTATIONS.select(name, section, path, 'policy') for name in names))
