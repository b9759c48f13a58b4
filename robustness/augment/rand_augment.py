"""RandAugment: operations drawn uniformly, all of one magnitude."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from robustness.augment import sequence
from robustness.augment.magnitudes import magnitude, names_of
from robustness.augment.operations import Drawn, Operations, check_colour, resembled
from robustness.core.settings import choice, require

WHERE = 'config.classifier.augment.rand_augment'
SEQUENTIAL = True

STRONGEST = {'torchvision': 30, 'efficientnet': 10}
"""The magnitude of the full range, by implementation."""
FILL = {'torchvision': (0,), 'efficientnet': (128,)}
WITHOUT = {'torchvision': ('Invert',), 'efficientnet': ()}
CHANCE = {'torchvision': (1.0, 1.0), 'efficientnet': (0.2, 0.8)}
"""The range from which an operation's probability is drawn."""


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.augment.rand_augment`.

  Attributes:
    operations: N ≥ 1, how many follow each other.
    magnitude: M, from 0 to 30 ('torchvision') or 10 ('efficientnet').
    magnitudes: what a magnitude means, and which operations there are. 'torchvision': 13 and the
      identity, each applied for certain. 'efficientnet': 16, each applied with a probability that
      is drawn from U[.2, .8]; Solarize grows weaker with the magnitude there.
    without: operations that are left out.
    fill: levels 0..255 of what a warp vacates, one or one a channel; () is the implementation's,
      black or grey.
  """

  operations: int = 2
  magnitude: int = 9
  magnitudes: str = 'torchvision'
  without: tuple[str, ...] = ()
  fill: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    choice(f'{WHERE}.magnitudes', self.magnitudes, STRONGEST)
    most = STRONGEST[self.magnitudes]
    require(self.operations >= 1, f'{WHERE}.operations', self.operations, 'at least 1')
    require(0 <= self.magnitude <= most, f'{WHERE}.magnitude', self.magnitude, f'in 0..{most}')
    check_colour(self.fill, f'{WHERE}.fill')
    for name in self.without:
      choice(f'{WHERE}.without', name, names_of(self.magnitudes))
    require(bool(self.names), f'{WHERE}.without', self.without, 'fewer than all operations')

  @property
  def names(self) -> tuple[str, ...]:
    """The operations that are drawn from, beside torchvision's identity."""
    left_out = {*self.without, *WITHOUT[self.magnitudes]}
    return tuple(name for name in names_of(self.magnitudes) if name not in left_out)


def resembles(settings: Settings) -> tuple[str, ...]:
  """Returns the transforms that the operations are like."""
  return resembled(settings.names)


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Applies N operations, drawn uniformly with replacement, at magnitude M.

  Args:
    key: decides the operations, signs, whether they are applied, and the places of squares.
    example: with `image` [H, W, C] in [0, 1].
    settings: see there.

  Returns:
    The example; its image is in 8-bit levels / 255 where an operation was applied.

  Reference:
    Cubuk et al. (2020), RandAugment: Practical Automated Data Augmentation with a Reduced Search
    Space, section 3.
  """
  image, names, count = example['image'], settings.names, settings.operations
  height, width = image.shape[:2]
  fill = settings.fill or FILL[settings.magnitudes]
  possible = Operations(names, 'nearest', fill, fill)
  strongest = STRONGEST[settings.magnitudes]
  pairs = [
    magnitude(settings.magnitudes, name, settings.magnitude, height, width, strongest)
    for name in names
  ]
  values = jnp.array([[m.value, m.mirrored] for m in pairs], jnp.float32)
  shares = jax.random.uniform(key, (6, count))  # one call: it costs as much as an operation
  identity = int(settings.magnitudes == 'torchvision')
  name = sequence.below(shares[0], len(names) + identity) - identity
  sign = sequence.below(shares[1], 2)
  low, high = CHANCE[settings.magnitudes]
  applied = shares[2] < low + (high - low) * shares[3]
  places = sequence.below(shares[4:].T, jnp.array([[height, width]]))
  drawn = Drawn(jnp.where(applied, name, -1), values[name, sign], places)
  return {**example, 'image': sequence.apply(image, drawn, possible)}
