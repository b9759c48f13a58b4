"""Auto-PGD: projected gradient ascent with momentum that halves its own step size."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from robustness.attacks import balls, pgd
from robustness.attacks.losses import LOSSES, margin
from robustness.core.settings import choice, require

WHERE = 'config.classifier.attack.auto_pgd'
RESEMBLES = pgd.RESEMBLES
MOMENTUM, INCREASING = 0.75, 0.75  # α and ρ of the paper


@dataclasses.dataclass(frozen=True)
class Settings:
  """The section `config.classifier.attack.auto_pgd`; see `robustness.attacks.pgd.Settings`.

  Attributes:
    norm: 'linf' or 'l2'.
    epsilon: ε, radius of the ball for pixels in [0, 1].
    steps: n ≥ 1; the paper takes 100.
    statistics: see `robustness.attacks`.
    loss: 'cross_entropy' or 'dlr'.
  """

  norm: str = 'linf'
  epsilon: float = 8 / 255
  steps: int = 10
  statistics: str = 'batch'
  loss: str = 'cross_entropy'

  def __post_init__(self) -> None:
    balls.check(WHERE, self.norm, self.epsilon)
    require(self.steps >= 1, f'{WHERE}.steps', self.steps, 'at least 1')
    choice(f'{WHERE}.statistics', self.statistics, pgd.STATISTICS)
    choice(f'{WHERE}.loss', self.loss, LOSSES)

  @property
  def draws(self) -> bool:
    """Whether another key gives another result: always."""
    return True


def checkpoints(steps: int) -> np.ndarray:
  """Returns, for each step k, how many steps ended with it at a checkpoint; 0 elsewhere, int [n].

  Checkpoints are ⌈p_j n⌉ with p_1 = .22 and p_(j+1) = p_j + max(p_j − p_(j−1) − .03, .06).
  """
  shares = [0.0, 0.22]
  while shares[-1] < 1:
    shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
  ends = np.unique([int(np.ceil(round(share * steps, 9))) for share in shares])
  ends = ends[ends <= steps]
  spans = np.zeros(steps, np.int32)
  spans[ends[1:] - 1] = np.diff(ends)
  return spans


def attack(
  keys: jax.Array,
  logits: Callable[[jax.Array], jax.Array],
  images: jax.Array,
  labels: jax.Array,
  settings: Settings,
  scale: jax.Array | float = 1.0,
) -> jax.Array:
  """Returns the iterate with the largest margin, of n steps from a random point.

  With z = Π(x_k + η·direction) a step is x_(k+1) = Π(x_k + α(z − x_k) + (1 − α)(x_k − x_(k−1))).
  η begins at 2ε. At each checkpoint it is halved, and the ascent goes on from the point of highest
  loss, for an image whose loss rose in fewer than ρ of the last steps, or whose highest loss has
  not grown since the last checkpoint, where η was kept. n steps take n + 1 forward and backward
  passes.

  Args:
    keys: [B], for the random start.
    logits: pure function of images; see `robustness.attacks`.
    images: float32 [B, H, W, C] in [0, 1].
    labels: int32 [B].
    settings: of the attack.
    scale: multiplies ε and the step size.

  Returns:
    Images float32 [B, H, W, C] in [0, 1].

  Reference:
    Croce & Hein (2020), Reliable evaluation of adversarial robustness with an ensemble of diverse
    parameter-free attacks, algorithm 1 and section 4.
  """
  images = jax.lax.stop_gradient(images)
  norm, epsilon = settings.norm, scale * settings.epsilon
  spans = jnp.asarray(checkpoints(settings.steps))

  def value(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    scores = logits(x)
    losses = LOSSES[settings.loss](scores, labels)
    return losses.sum(), (losses, margin(scores, labels))

  def evaluated(x: jax.Array) -> dict[str, jax.Array]:
    gradient, (loss, wrongness) = jax.grad(value, has_aux=True)(x)
    return {'x': x, 'gradient': gradient, 'loss': loss, 'margin': wrongness}

  def step(k: jax.Array, state: dict) -> dict:
    moved = _with_momentum(k, state, images, norm, epsilon)
    return _kept(state, evaluated(moved), spans[k])

  begin = evaluated(pgd.start(keys, images, norm, epsilon))
  state = _initial_state(begin, 2 * epsilon)
  return jax.lax.stop_gradient(jax.lax.fori_loop(0, settings.steps, step, state)['worst']['x'])


def _initial_state(begin: dict[str, jax.Array], step_size: jax.Array | float) -> dict[str, Any]:
  rows = jnp.zeros(len(begin['x']))
  return {
    'now': begin,
    'previous': begin['x'],
    'best': begin,
    'worst': begin,
    'size': rows + step_size,
    'halved': rows == 0,
    'best_before': begin['loss'],
    'rises': rows.astype(jnp.int32),
  }


def _with_momentum(
  k: jax.Array, state: dict[str, Any], images: jax.Array, norm: str, epsilon: jax.Array | float
) -> jax.Array:
  """Returns x_(k+1)."""
  now, size = state['now'], state['size'].reshape(-1, 1, 1, 1)
  direction = jax.vmap(lambda g: balls.direction(g, norm))(now['gradient'])
  z = pgd.clipped(images, now['x'] + size * direction - images, norm, epsilon)
  alpha = jnp.where(k == 0, 1.0, MOMENTUM)
  x = now['x'] + alpha * (z - now['x']) + (1 - alpha) * (now['x'] - state['previous'])
  return pgd.clipped(images, x - images, norm, epsilon)


def _kept(state: dict[str, Any], after: dict[str, jax.Array], span: jax.Array) -> dict[str, Any]:
  """Returns the state after a step; `span` is the number of steps a checkpoint ends, or 0."""
  check = span > 0
  rises = state['rises'] + (after['loss'] > state['now']['loss'])
  best = _where(after['loss'] > state['best']['loss'], after, state['best'])
  stalled = ~state['halved'] & (best['loss'] <= state['best_before'])
  halve = check & ((rises < INCREASING * span) | stalled)
  return {
    'now': _where(halve, best, after),
    'previous': state['now']['x'],
    'best': best,
    'worst': _where(after['margin'] > state['worst']['margin'], after, state['worst']),
    'size': jnp.where(halve, state['size'] / 2, state['size']),
    'halved': jnp.where(check, halve, state['halved']),
    'best_before': jnp.where(check, best['loss'], state['best_before']),
    'rises': jnp.where(check, 0, rises),
  }


def _where(condition: jax.Array, first: dict, second: dict) -> dict:
  """Returns the first where the condition [B] holds, else the second, array by array."""
  return {
    name: jnp.where(condition.reshape(-1, *[1] * (value.ndim - 1)), value, second[name])
    for name, value in first.items()
  }
