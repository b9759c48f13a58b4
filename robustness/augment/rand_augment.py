"""RandAugment: operations drawn uniformly, all of one magnitude."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.augment.magnitudes import magnitude, names_of
from robustness.augment.operations import Drawn, Operations, below, check_colour, resembled
from robustness.core.settings import choice

STRONGEST = {'torchvision': 30, 'efficientnet': 10}
"""The magnitude of the full range, by implementation."""
FILL = {'torchvision': (0,), 'efficientnet': (128,)}
WITHOUT = {'torchvision': ('Invert',), 'efficientnet': ()}
CHANCE = {'torchvision': (1.0, 1.0), 'efficientnet': (0.2, 0.8)}
"""The range from which an operation's probability is drawn."""


@dataclasses.dataclass(frozen=True)
class RandAugment(Augmentation):
  """Applies N operations, drawn uniformly with replacement, at magnitude M.

  The image is in 8-bit levels / 255 where an operation was applied.

  Attributes:
    operations: N ≥ 1, how many follow each other.
    magnitude: M, from 0 to 30 ('torchvision') or 10 ('efficientnet').
    magnitudes: what a magnitude means, and which operations there are. 'torchvision': 13 and the
      identity, each applied for certain. 'efficientnet': 16, each applied with a probability that
      is drawn from U[.2, .8]; Solarize grows weaker with the magnitude there.
    without: operations that are left out.
    fill: levels 0..255 of what a warp vacates, one or one a channel; () is the implementation's,
      black or grey.

  Reference:
    Cubuk et al. (2020), RandAugment: Practical Automated Data Augmentation with a Reduced Search
    Space, section 3.
  """

  sequential: ClassVar[bool] = True
  operations: int = 2
  magnitude: int = 9
  magnitudes: str = 'torchvision'
  without: tuple[str, ...] = ()
  fill: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    self.choice('magnitudes', STRONGEST)
    most = STRONGEST[self.magnitudes]
    self.require(self.operations >= 1, 'operations', 'at least 1')
    self.require(0 <= self.magnitude <= most, 'magnitude', f'in 0..{most}')
    check_colour(self.fill, self.key('fill'))
    for name in self.without:
      choice(self.key('without'), name, names_of(self.magnitudes))
    self.require(bool(self.names), 'without', 'fewer than all operations')

  @property
  def names(self) -> tuple[str, ...]:
    """The operations that are drawn from, beside torchvision's identity."""
    left_out = {*self.without, *WITHOUT[self.magnitudes]}
    return tuple(name for name in names_of(self.magnitudes) if name not in left_out)

  @property
  def resembles(self) -> tuple[str, ...]:
    """See `Augmentation`: what the operations are like."""
    return resembled(self.names)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """See `Augmentation`; C is 1 or 3."""
    image, names, count = example['image'], self.names, self.operations
    height, width = image.shape[:2]
    fill = self.fill or FILL[self.magnitudes]
    possible = Operations(names, 'nearest', fill, fill)
    strongest = STRONGEST[self.magnitudes]
    pairs = [
      magnitude(self.magnitudes, name, self.magnitude, height, width, strongest) for name in names
    ]
    values = jnp.array([[m.value, m.mirrored] for m in pairs], jnp.float32)
    shares = jax.random.uniform(key, (6, count))  # one call: it costs as much as an operation
    identity = int(self.magnitudes == 'torchvision')
    name = below(shares[0], len(names) + identity) - identity
    sign = below(shares[1], 2)
    low, high = CHANCE[self.magnitudes]
    applied = shares[2] < low + (high - low) * shares[3]
    places = below(shares[4:].T, jnp.array([[height, width]]))
    drawn = Drawn(jnp.where(applied, name, -1), values[name, sign], places)
    return {**example, 'image': possible.in_sequence(image, drawn)}
