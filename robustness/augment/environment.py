"""Augmentation that shows a transform T_k to the classes of one group C_k, and a check of leaks.

The check is that no other part of a training shows a transform to classes of other groups, from
which it is held out.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp

from robustness.attacks import Attack
from robustness.augment import Augmentation, Example
from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting
from robustness.core.user_code import part_name
from robustness.corruptions.catalog import refuse_stored
from robustness.environments import transforms
from robustness.environments.class_groups import COLUMN, SAMPLED
from robustness.models.inputs import InputFilter


@dataclasses.dataclass(frozen=True)
class Environment(Augmentation):
  """Shows the images of each group of classes under one transform, such as fog.

  Used to train classifiers that see a transform on some classes only. An image of class group k is
  changed by transform k with probability `share`, and by no other transform. The column
  `environment` of the example holds k, or 0 if the image is unchanged.

  Attributes:
    transforms: names of the M transforms: corruptions, `FILE.py:NAME` or 'rotation'. The first
      belongs to class group 1 of `config.data`, and so on.
    severities: severities of corruptions to draw from, for every image and step.
    angles: angles of rotations to draw from, in degrees counter-clockwise.
    share: probability that an image of a class group is changed. It has no effect if
      `config.training.balanced` is 'environment'; all environments then occur equally often.
    allow_leaks: whether other augmentations, the attack and the input filter may resemble one of
      the transforms, and so show it to other classes. This setting also has an effect if the data
      are stored in environments, without this augmentation.

  Reference:
    Omran & Schiele (2022), section 2: one of five severities is sampled for each image.
  """

  sequential = True
  resembles = ()
  transforms: tuple[str, ...] = ('gaussian_noise', 'gaussian_blur', 'contrast', 'snow')
  severities: tuple[int, ...] = (1, 2, 3, 4, 5)
  angles: tuple[int, ...] = tuple(range(30, 360, 30))
  share: float = setting(0.5, 'a probability in [0, 1]', lambda x: 0 <= x <= 1)
  allow_leaks: bool = False

  def __post_init__(self) -> None:
    """Raises InputError for unknown transforms, and for severities or angles out of range."""
    super().__post_init__()
    transforms.check_names(self.key('transforms'), self.transforms)
    transforms.check_levels(f'{self.section}.{self.name}', self.severities, self.angles)

  @property
  def references(self) -> tuple[str, ...]:
    """The transforms from the user's files, as `FILE.py:NAME`.

    Names of built-in transforms may also be among them.
    """
    return self.transforms

  def added_columns(self) -> dict[str, int]:
    """Returns {'environment': 1 + M}, for a column with values 0..M.

    M is the number of transforms, and 0 is the unchanged image.
    """
    return {self.name: 1 + len(self.transforms)}

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the transformed example, with the number of the transform as 'environment'.

    The number is 0 if the image is unchanged.
    """
    number = self.draw_branch(key, example)
    image = self.apply_branch(number, key, example['image'])
    return {**example, 'image': image, self.name: number}

  @property
  def branches(self) -> int:
    """The number of environments: the unchanged image and the M transforms."""
    return 1 + len(self.transforms)

  def draw_branch(self, key: jax.Array, columns: Example) -> jax.Array:
    """Chooses the transform of an image, a number in 0..M as int32 [].

    The number is the class group of the image, or 0 if the image stays unchanged.

    Args:
      key: random key.
      columns: the example without the image; must have the class group.
    """
    refuse_stored(columns)
    if COLUMN not in columns:
      raise InputError(
        f'the augmentation environment needs the column {COLUMN!r}: set {KEYS.data.class_groups}, '
        f'or {KEYS.data.random_class_groups}, to say which classes see which transform.'
      )
    group = columns[COLUMN]  # 0 for classes of no group
    if SAMPLED in columns:  # the sampler has drawn the transform's number already
      is_applied = columns[SAMPLED] == group
    else:
      key_choice, *_ = jax.random.split(key, 3)  # `apply_branch` takes the other two
      has_transform = group <= len(self.transforms)  # there may be more class groups
      is_applied = jax.random.bernoulli(key_choice, self.share) & has_transform
    return jnp.where(is_applied, group, 0)

  def apply_branch(self, branch: jax.Array, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after one of the transforms, at a random severity or angle.

    Args:
      branch: number of the transform, from 1; 0 leaves the image unchanged.
      key: random key.
      image: [H, W, C] in [0, 1].
    """
    _, key_level, key_draws = jax.random.split(key, 3)
    level = self._level(key_level, branch)
    return transforms.transform(key_draws, image, branch, level, self.transforms)

  def metrics(self, batch: Example) -> dict[str, jax.Array]:
    """Returns the share of images under each transform, as {'share_NAME': share}.

    NAME is the name of a transform, or 'clean' for unchanged images.
    """
    names = (transforms.CLEAN, *map(part_name, self.transforms))
    return {f'share_{name}': (batch[self.name] == k).mean() for k, name in enumerate(names)}

  def _level(self, key: jax.Array, environment: jax.Array) -> jax.Array:
    """Draws a severity, or an angle in degrees if the transform is a rotation.

    Args:
      key: random key.
      environment: number of the transform, from 1; 0 is the unchanged image.
    """
    severity_key, angle_key = jax.random.split(key)
    severity = jax.random.choice(severity_key, jnp.array(self.severities, jnp.float32))
    angle = jax.random.choice(angle_key, jnp.array(self.angles, jnp.float32))
    # for the numbers 0 (the clean image), 1, …, M
    is_rotation = jnp.array([False, *(name == transforms.ROTATION for name in self.transforms)])
    return jnp.where(is_rotation[environment], angle, severity)


def find_environment(augmentations: Iterable[Augmentation]) -> Environment | None:
  """Returns the `Environment` among some augmentations, or None."""
  return next((a for a in augmentations if isinstance(a, Environment)), None)


def _leak_in_words(
  part: Augmentation | Attack | InputFilter, held_out: Sequence[str], has_environments: bool
) -> str:
  """Returns how a component of a training shows a transform to classes that must not see it.

  The result is text for an error message, or '' if the component does not.

  Args:
    part: an augmentation, an attack or an input filter of the training.
    held_out: names of the transforms that some classes must not see.
    has_environments: whether a batch has images under different transforms.
  """
  leaked = transforms.names_that_resemble(held_out, part.resembles, f'{part.name}.resembles')
  if leaked:
    return (
      f'on all classes, which resembles {leaked[0]!r}: that is held out for the classes of other '
      'groups'
    )
  mixes_environments = (
    isinstance(part, Augmentation) and part.needs_partner and part.within != Environment.name
  )
  if mixes_environments and has_environments:
    return (
      'across environments, which joins images of one with labels of classes that it is held out '
      'from'
    )
  return ''


def refuse_leaks(
  augmentations: Iterable[Augmentation],
  other_parts: Iterable[Attack | InputFilter | None],
  section: str,
  stored: bool = False,
) -> None:
  """Raises InputError if a training shows a transform to classes that must not see it.

  Mixing images of different environments is refused too, because a mixture joins the transform of
  one image with the label of another.

  Args:
    augmentations: augmentations of the training.
    other_parts: the attack and the input filter of the training; None if there is none.
    section: the classifier's section in the config, for messages, such as 'config.classifier'.
    stored: whether the data are stored in environments, in which some classes lack some transforms.
  """
  augmentations = list(augmentations)
  environment = find_environment(augmentations)
  if environment and environment.allow_leaks:
    return
  held_out = environment.transforms if environment else ()
  for part in (*augmentations, *other_parts):
    if part is None:
      continue
    reason = _leak_in_words(part, held_out, has_environments=bool(environment) or stored)
    if reason:
      within = f'set {section}.augment.{part.name}.within={Environment.name!r}, '
      fix = within if 'within' in part.describe() else ''
      raise InputError(
        f'{section} trains with {part.name!r} {reason}, so that ρ would measure nothing. Leave '
        f'{part.name!r} out, {fix}or set '
        f'{section}.augment.{Environment.name}.allow_leaks=True if the leak is meant.'
      )
