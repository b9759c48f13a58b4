"""AutoAttack: attacks without a step size to choose, one after another on what is still right."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from robustness.attacks import Array, Attack, Flag, Logits, Scalar, balls, dlr
from robustness.attacks.auto_pgd import AutoPGD
from robustness.attacks.fab import FAB
from robustness.attacks.in_turn import in_turn
from robustness.attacks.square import Square
from robustness.core.registry import setting, word
from robustness.corruptions.names import NOISE

STEPS, QUERIES, TARGETS, PASSES = 100, 5000, 9, 20
VERSIONS = {
  'standard': ('apgd_ce', 'apgd_t', 'fab_t', 'square'),
  'plus': ('apgd_ce', 'apgd_dlr', 'fab', 'square', 'apgd_t', 'fab_t'),
  'rand': ('apgd_ce', 'apgd_dlr'),
}
RESTARTS = {'standard': 1, 'plus': 5, 'rand': 1}
"""Runs of the attacks without targets but Square."""
SQUARE, SQUARE_GAIN = 'square', 0.002
NO_GRADIENT = (
  'have no gradient of the DLR loss at a random start: attacks by gradients may fail there'
)
BY_SQUARE = 'fall to Square and to no attack by gradients before: these may have failed'
RANDOM = "get other logits when they are shown again: the version 'rand' is for that"
REPEATS, DIFFERS = 5, 1e-4
"""Passes that show whether a network is random: by how much its logits of length 1 differ."""


@dataclasses.dataclass(frozen=True)
class AutoAttack(Attack):
  """Gives what the first attack that succeeds finds, and the image itself where none does.

  Each attack sees the images that all before it left right (`in_turn`): 'standard' is Auto-PGD on
  the cross-entropy, with targets on the DLR loss, FAB with targets, and Square. 'plus' repeats the
  attacks without targets and adds Auto-PGD on the DLR loss and FAB without targets; 'rand', for a
  random network, is Auto-PGD on both losses with mean gradients of 20 passes.

  Attributes:
    version: 'standard', 'plus' or 'rand'.
    iterations: steps of Auto-PGD and FAB; a number other than 100 is not AutoAttack.
    queries: of Square; a number other than 5000 is not AutoAttack.

  Reference:
    Croce & Hein (2020), Reliable evaluation of adversarial robustness with an ensemble of diverse
    parameter-free attacks, section 6.
  """

  resembles = (NOISE,)
  in_turn = True
  version: str = word('standard', VERSIONS)
  iterations: int = setting(STEPS, 'at least 1', lambda x: x >= 1)
  queries: int = setting(QUERIES, 'at least 1', lambda x: x >= 1)

  @property
  def stages(self) -> tuple[str, ...]:
    return VERSIONS[self.version]

  @property
  def shortcoming(self) -> str:
    lengths, published = {'steps': self.iterations}, {'steps': STEPS}
    if SQUARE in self.stages:
      lengths, published = {**lengths, 'queries': self.queries}, {**published, 'queries': QUERIES}
    if lengths == published:
      return ''
    return f'AutoAttack of {" and ".join(f"{count} {key}" for key, count in lengths.items())}'

  @property
  def flags(self) -> Mapping[str, Flag]:
    flags = {NO_GRADIENT: Flag('no_gradient', True)}
    if self.stages[-1] == SQUARE:
      flags[BY_SQUARE] = Flag('stage', len(self.stages), SQUARE_GAIN)
    if self.version != 'rand':
      flags[RANDOM] = Flag('random', True)
    return flags

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    return self.observed(keys, logits, images, labels, scale)[0]

  def observed(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> tuple[Array, dict[str, Array]]:
    images, scores = jax.lax.stop_gradient(images), logits(images)
    shown, right = images, scores.argmax(-1) == labels
    stage = jnp.where(right, len(self.stages) + 1, 0)
    for number, (attack, runs) in enumerate(self._attacks(scores.shape[1]), 1):
      own = jax.vmap(lambda key, number=number: jax.random.fold_in(key, number))(keys)
      run = functools.partial(attack.run, logits=logits, scale=scale)
      before = right
      shown, right = in_turn(run, runs, logits, own, images, labels, shown, right)
      stage = jnp.where(before & ~right, number, stage)
    begin = balls.edge(keys, images, self.norm, scale * self.epsilon)
    gradient = jax.grad(lambda x: dlr(logits(x), labels).sum())(begin)
    return shown, {
      'stage': stage,
      'no_gradient': (stage > 0) & (gradient == 0).all((1, 2, 3)),
      'random': _differs(logits, images),
    }

  def _attacks(self, classes: int) -> list[tuple[AutoPGD | FAB | Square, int]]:
    """Returns each attack with the number of its runs; no more targets than wrong classes."""
    targets, repeats = min(TARGETS, classes - 1), RESTARTS[self.version]
    passes = PASSES if self.version == 'rand' else 1
    apgd = functools.partial(AutoPGD, self.norm, self.epsilon, steps=self.iterations)
    fab = functools.partial(FAB, self.norm, self.epsilon, steps=self.iterations)
    known: dict[str, tuple[AutoPGD | FAB | Square, int]] = {
      'apgd_ce': (apgd(passes=passes), repeats),
      'apgd_dlr': (apgd(passes=passes, loss='dlr'), repeats),
      'apgd_t': (apgd(targets=targets), targets),
      'fab': (fab(targets=0), repeats),
      'fab_t': (fab(targets=targets), targets),
      'square': (Square(self.norm, self.epsilon, queries=self.queries), 1),
    }
    return [known[name] for name in self.stages]


def _differs(logits: Logits, images: Array) -> Array:
  """Returns whether passes give other logits or another class, bool [B]."""
  scores = jax.lax.map(lambda _: logits(images), jnp.arange(REPEATS))
  unit = scores / (jnp.linalg.norm(scores, axis=-1, keepdims=True) + 1e-10)
  change = jnp.linalg.norm(unit[:, None] - unit[None], axis=-1).max((0, 1))
  classes = scores.argmax(-1)
  return (change > DIFFERS) | (classes != classes[:1]).any(0)
