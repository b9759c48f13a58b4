"""Training on common corruptions, such as all but the one that is measured."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from robustness.core.settings import choice, require
from robustness.corruptions.catalog import apply, checked_table
from robustness.corruptions.names import KNOWN, SETS, SEVERITIES, spelt_out

WHERE = 'config.classifier.augment.corruption'
SEQUENTIAL = True


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.corruption`.

  Attributes:
    corruptions: names, or names of sets: 'official' (15), 'extra' (4), 'all' (19), 'fourier_cifar',
      'fourier_imagenet'.
    left_out: corruptions that are not drawn.
    severities: of 1..5, drawn uniformly.
    probability: of corrupting an image.
    constants: the table of constants: 32, 64, 224 or 299; 0 takes the nearest to the image size.
  """

  corruptions: tuple[str, ...] = ('official',)
  left_out: tuple[str, ...] = ()
  severities: tuple[int, ...] = SEVERITIES
  probability: float = 1.0
  constants: int = 0

  def __post_init__(self) -> None:
    for name in self.corruptions:
      choice(f'{WHERE}.corruptions', name, (*SETS, *KNOWN))
    for name in self.left_out:
      choice(f'{WHERE}.left_out', name, spelt_out(self.corruptions))
    require(bool(self.names), f'{WHERE}.left_out', self.left_out, 'fewer than all corruptions')
    require(
      bool(self.severities) and set(self.severities) <= set(SEVERITIES),
      f'{WHERE}.severities',
      self.severities,
      'some of 1..5',
    )
    require(0 <= self.probability <= 1, f'{WHERE}.probability', self.probability, 'in [0, 1]')

  @property
  def names(self) -> tuple[str, ...]:
    """The corruptions that are drawn from, in the order of `KNOWN`."""
    return tuple(name for name in spelt_out(self.corruptions) if name not in self.left_out)


def resembles(settings: Settings) -> tuple[str, ...]:
  """Returns the corruptions that are drawn."""
  return settings.names


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Corrupts the image by one corruption at one severity, both drawn uniformly.

  The corruptions are those of the study `corruption_error`, but drawn anew for every example and
  step; values are not rounded to 8 bits.

  Args:
    key: decides which, how strongly, and what the corruption draws.
    example: with `image` [H, W, C] in [0, 1].
    settings: see there.

  Returns:
    The example with the corrupted image [H, W, C] in [0, 1].

  Raises:
    InputError: images that are too small for one of the corruptions.

  Reference:
    Yin et al. (2019), A Fourier Perspective on Model Robustness, table 3: trained on all
    corruptions but one at one severity, measured on the one that is left out.
  """
  image = apply_branch(draw_branch(key, settings), key, example['image'], settings)
  return {**example, 'image': image}


def branches(settings: Settings) -> int:
  """Returns how many different things can be done to an image."""
  return len(settings.names) * len(settings.severities) + 1


def draw_branch(key: jax.Array, settings: Settings) -> jax.Array:
  """Returns which it is for an example, int32 scalar; the last one leaves the image as it is."""
  key_chosen, key_applied = jax.random.split(jax.random.fold_in(key, 0))
  corrupted = branches(settings) - 1
  chosen = jax.random.randint(key_chosen, (), 0, corrupted)
  return jnp.where(jax.random.bernoulli(key_applied, settings.probability), chosen, corrupted)


def apply_branch(
  branch: jax.Array, key: jax.Array, image: jax.Array, settings: Settings
) -> jax.Array:
  """Returns the image [H, W, C] as `draw_branch` has it; see `augment`."""
  names, side = settings.names, settings.constants or None
  checked_table(image.shape[:2], names, None, side, {})
  index, place = jnp.divmod(branch, len(settings.severities))
  severity = jnp.array(settings.severities)[place]

  def corrupted(image: jax.Array) -> jax.Array:
    return apply(jax.random.fold_in(key, 1), image, index, severity, names=names, side=side)

  unchanged = branch == branches(settings) - 1
  return jax.lax.cond(unchanged, lambda image: image, corrupted, image)
