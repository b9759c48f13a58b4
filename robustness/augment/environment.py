"""Selective augmentation: T_k is applied to images of the classes C_k, and to no others."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import require
from robustness.environments import transforms
from robustness.environments.class_groups import COLUMN, SAMPLED

WHERE = 'config.classifier.augment.environment'
SEQUENTIAL = True


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.environment`.

  Attributes:
    transforms: T_1, ..., T_M, names of corruptions or 'rotation'; T_k belongs to class group k of
      `config.data`.
    severities: of corruptions; one is drawn uniformly for every image and step.
    angles: of a rotation in degrees, counter-clockwise; one is drawn uniformly.
    share: probability that an image of C_k is shown as T_k; it stays clean otherwise. Where
      `config.training.balanced` is 'environment', the order of the rows decides that instead.
    allow_leaks: whether other parts may show held-out classes what is like a transform; read where
      environments are stored too, and this augmentation is not in the policy.
  """

  transforms: tuple[str, ...] = ('gaussian_noise', 'gaussian_blur', 'contrast', 'snow')
  severities: tuple[int, ...] = (1, 2, 3, 4, 5)
  angles: tuple[int, ...] = tuple(range(30, 360, 30))
  share: float = 0.5
  allow_leaks: bool = False

  def __post_init__(self) -> None:
    transforms.check_names(f'{WHERE}.transforms', self.transforms)
    transforms.check_levels(WHERE, self.severities, self.angles)
    require(0 <= self.share <= 1, f'{WHERE}.share', self.share, 'a probability in [0, 1]')


def adds(settings: Settings) -> dict[str, int]:
  """Returns the column that is added, and how many values it has: E_0, E_1, ..., E_M."""
  return {'environment': 1 + len(settings.transforms)}


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Shows an image of the class group k as T_k with probability `share`, all others as they are.

  No image of a held-out cell T_k × C_j, j ≠ k, can come out: which transform may act is the class
  group's own number.

  Args:
    key: decides whether, how strongly, and the transform's own draws.
    example: with `image` [H, W, C] in [0, 1] and `class_group`.
    settings: see there.

  Returns:
    The example with the image, and the number of the environment it is in as `environment`.

  Raises:
    InputError: the rows have no class groups.

  Reference:
    Omran & Schiele (2022), section 2: one of five severities is sampled for each image.
  """
  if COLUMN not in example:
    raise InputError(
      f'the augmentation environment needs the column {COLUMN!r}: set config.data.class_groups, '
      'or config.data.random_class_groups, to say which classes see which transform.'
    )
  key_choice, key_level, key_draws = jax.random.split(key, 3)
  names, group = settings.transforms, example[COLUMN]
  if SAMPLED in example:
    applied = example[SAMPLED] == group
  else:
    applied = jax.random.bernoulli(key_choice, settings.share) & (group <= len(names))
  environment = jnp.where(applied, group, 0)
  image = transforms.transform(
    key_draws, example['image'], environment, _level(key_level, environment, settings), names
  )
  return {**example, 'image': image, 'environment': environment}


def metrics(batch: dict[str, Any], settings: Settings) -> dict[str, jax.Array]:
  """Returns the share of each environment in a batch, `share_clean`, `share_<transform>`."""
  names = (transforms.CLEAN, *settings.transforms)
  return {f'share_{name}': (batch['environment'] == k).mean() for k, name in enumerate(names)}


def _level(key: jax.Array, environment: jax.Array, settings: Settings) -> jax.Array:
  """Returns a severity, or an angle for a rotation, drawn uniformly."""
  severity_key, angle_key = jax.random.split(key)
  severity = jax.random.choice(severity_key, jnp.array(settings.severities, jnp.float32))
  angle = jax.random.choice(angle_key, jnp.array(settings.angles, jnp.float32))
  rotates = np.array([False, *(name == transforms.ROTATION for name in settings.transforms)])
  return jnp.where(jnp.asarray(rotates)[environment], angle, severity)
