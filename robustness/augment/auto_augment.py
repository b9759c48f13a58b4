"""AutoAugment: a sub-policy of two operations is drawn for every image."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment import Augmentation, Example, sub_policies
from robustness.augment.magnitudes import STRONGEST, magnitude
from robustness.augment.operations import (
  MEAN_COLOUR,
  Drawn,
  Operations,
  below,
  check_colour,
  resembled,
)
from robustness.augment.sub_policies import LISTS, SubPolicy

FILL = {'tensorflow_models': MEAN_COLOUR, 'torchvision': (0,), 'efficientnet': (128,)}
SQUARE = {'tensorflow_models': (125, 122, 113), 'torchvision': (0,), 'efficientnet': (128,)}
"""Levels of what warps vacate, and of what Cutout covers.

In tensorflow_models images are transparent there: black (grey under the square) for the operation
that follows, and the mean colour at the end.
"""


@dataclasses.dataclass(frozen=True)
class AutoAugment(Augmentation):
  """Draws a sub-policy; each of its two operations is applied with its probability, in order.

  Signs of shears, translations and rotations are ±1 with probability ½, and so is the direction of
  torchvision's factors. The image is in 8-bit levels / 255 where an operation was applied.

  Attributes:
    policy: 'cifar10' and 'imagenet', the published 25 sub-policies; 'cifar10_reference_95', the 95
      of the code that was released for CIFAR-10, which Yin et al. (2019) name as theirs.
    without: operations whose sub-policies are left out. Yin et al. leave out
      ('Brightness', 'Contrast'): 78 of the 95 remain, 19 of the 25 of CIFAR-10, 23 of ImageNet's.
    magnitudes: what a magnitude means: 'tensorflow_models', 'torchvision' or 'efficientnet', see
      `robustness.augment.magnitudes`; '' takes 'tensorflow_models' for its 95 and 'torchvision' for
      the published lists.
    sub_policies: sub-policies in place of a list, each 'Rotate .7 2, TranslateX .3 9': operation,
      probability, magnitude, twice.
    fill: levels 0..255 of what a warp vacates, one or one a channel; () is the implementation's:
      the mean colour of CIFAR-10, black, grey.

  Reference:
    Cubuk et al. (2019), AutoAugment: Learning Augmentation Policies from Data, section 3.
  """

  sequential: ClassVar[bool] = True
  policy: str = 'cifar10'
  without: tuple[str, ...] = ()
  magnitudes: str = ''
  sub_policies: tuple[str, ...] = ()
  fill: tuple[int, ...] = ()

  def __post_init__(self) -> None:
    self.choice('policy', LISTS)
    self.choice('magnitudes', ('', *STRONGEST))
    check_colour(self.fill, self.key('fill'))
    for policy in self.chosen:
      for step in policy:
        magnitude(self.implementation, step.name, step.level, 32, 32)

  @property
  def chosen(self) -> tuple[SubPolicy, ...]:
    """The sub-policies that are drawn from."""
    lines = self.sub_policies or LISTS[self.policy].strip().splitlines()
    parsed = sub_policies.parsed(lines, self.key('sub_policies'))
    return sub_policies.remaining(parsed, self.without, self.key('without'))

  @property
  def implementation(self) -> str:
    """Whose magnitudes, fill and square."""
    usual = 'tensorflow_models' if self.policy == 'cifar10_reference_95' else 'torchvision'
    return self.magnitudes or usual

  @property
  def vacated(self) -> tuple[int, ...]:
    """Levels of what a warp vacates."""
    return self.fill or FILL[self.implementation]

  @property
  def resembles(self) -> tuple[str, ...]:
    """See `Augmentation`: what the operations are like."""
    return resembled(step.name for policy in self.chosen for step in policy)

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """See `Augmentation`; C is 1 or 3."""
    image = example['image']
    height, width = image.shape[:2]
    possible, table = _compiled(self, height, width)
    shares = jax.random.uniform(key, (9,))  # one call: it costs as much as an operation
    chosen, chance, sign, place = shares[0], shares[1:3], shares[3:5], shares[5:].reshape(2, 2)
    policy = below(chosen, len(table['name']))
    name, probability, value, mirrored = (
      jnp.asarray(table[field])[policy] for field in ('name', 'probability', 'value', 'mirrored')
    )
    signed = jnp.where(sign < 0.5, value, mirrored)
    places = below(place, jnp.array([[height, width]]))
    drawn = Drawn(jnp.where(chance < probability, name, -1), signed, places)
    return {**example, 'image': possible.in_sequence(image, drawn, self.vacated)}


@functools.lru_cache
def _compiled(
  own: AutoAugment, height: int, width: int
) -> tuple[Operations, dict[str, np.ndarray]]:
  """Returns the operations that can occur, and arrays [sub-policies, 2] of what they are."""
  steps = [step for pair in own.chosen for step in pair]
  names = tuple(sorted({step.name for step in steps if step.probability > 0}))
  values = [magnitude(own.implementation, s.name, s.level, height, width) for s in steps]
  table: dict[str, list[float]] = {
    'name': [names.index(s.name) if s.name in names else -1 for s in steps],
    'probability': [s.probability for s in steps],
    'value': [m.value for m in values],
    'mirrored': [m.mirrored for m in values],
  }
  transparent = own.implementation == 'tensorflow_models'
  vacated = (0,) if transparent else own.vacated
  possible = Operations(names, 'nearest', vacated, SQUARE[own.implementation], transparent)
  return possible, {
    field: np.array(x, np.int32 if field == 'name' else np.float32).reshape(-1, 2)
    for field, x in table.items()
  }
