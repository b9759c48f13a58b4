"""Auto-PGD: projected gradient ascent with momentum that halves its own step size."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from robustness.attacks import LOSSES, Array, Attack, Logits, Scalar, balls, margin
from robustness.core.registry import setting
from robustness.corruptions.names import LIKE_NOISE

MOMENTUM, INCREASING = 0.75, 0.75  # α and ρ of the paper
Iterate = dict[str, Array]
"""Points `x` [B, H, W, C] with `gradient`, and `loss` and `margin` [B]."""


@dataclasses.dataclass(frozen=True)
class AutoPGD(Attack):
  """Gives the iterate with the largest margin, of n steps from a random point.

  With z = Π(x_k + η·direction) a step is x_(k+1) = Π(x_k + α(z − x_k) + (1 − α)(x_k − x_(k−1))).
  η begins at 2ε. At each checkpoint it is halved, and the ascent goes on from the point of highest
  loss, for an image whose loss rose in fewer than ρ of the last steps, or whose highest loss has
  not grown since the last checkpoint, where η was kept. n steps take n + 1 forward and backward
  passes.

  Attributes:
    steps: n ≥ 1; the paper takes 100.

  Reference:
    Croce & Hein (2020), Reliable evaluation of adversarial robustness with an ensemble of diverse
    parameter-free attacks, algorithm 1 and section 4.
  """

  resembles = LIKE_NOISE
  steps: int = setting(10, 'at least 1', lambda x: x >= 1)

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    images, epsilon = jax.lax.stop_gradient(images), scale * self.epsilon
    spans = jnp.asarray(checkpoints(self.steps))

    def value(x: Array) -> tuple[Array, tuple[Array, Array]]:
      scores = logits(x)
      losses = LOSSES[self.loss](scores, labels)
      return losses.sum(), (losses, margin(scores, labels))

    def evaluated(x: Array) -> Iterate:
      gradient, (loss, wrongness) = jax.grad(value, has_aux=True)(x)
      return {'x': x, 'gradient': gradient, 'loss': loss, 'margin': wrongness}

    def step(k: Array, state: _State) -> _State:
      return state.after(evaluated(self._moved(k, state, images, epsilon)), spans[k])

    begin, rows = evaluated(balls.start(keys, images, self.norm, epsilon)), jnp.zeros(len(images))
    size, none = rows + 2 * epsilon, rows.astype(jnp.int32)
    state = _State(begin, begin['x'], begin, begin, size, rows == 0, begin['loss'], none)
    return jax.lax.stop_gradient(jax.lax.fori_loop(0, self.steps, step, state).worst['x'])

  def _moved(self, k: Array, state: _State, images: Array, epsilon: Scalar) -> Array:
    now, size = state.now, state.size.reshape(-1, 1, 1, 1)
    direction = jax.vmap(lambda g: balls.direction(g, self.norm))(now['gradient'])
    z = balls.clipped(images, now['x'] + size * direction - images, self.norm, epsilon)
    alpha = jnp.where(k == 0, 1.0, MOMENTUM)
    x = now['x'] + alpha * (z - now['x']) + (1 - alpha) * (now['x'] - state.previous)
    return balls.clipped(images, x - images, self.norm, epsilon)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _State:
  """What is carried from step to step, of each image."""

  now: Iterate
  previous: Array  # the point before it
  best: Iterate  # of highest loss
  worst: Iterate  # of the largest margin
  size: Array  # η
  halved: Array  # whether η was halved at the last checkpoint
  best_before: Array  # the highest loss at the last checkpoint
  rises: Array  # steps since then in which the loss rose

  def after(self, made: Iterate, span: Array) -> _State:
    """Returns the state after a step; `span` is the number of steps a checkpoint ends, or 0."""
    check = span > 0
    rises = self.rises + (made['loss'] > self.now['loss'])
    best = _where(made['loss'] > self.best['loss'], made, self.best)
    stalled = ~self.halved & (best['loss'] <= self.best_before)
    halve = check & ((rises < INCREASING * span) | stalled)
    return _State(
      now=_where(halve, best, made),
      previous=self.now['x'],
      best=best,
      worst=_where(made['margin'] > self.worst['margin'], made, self.worst),
      size=jnp.where(halve, self.size / 2, self.size),
      halved=jnp.where(check, halve, self.halved),
      best_before=jnp.where(check, best['loss'], self.best_before),
      rises=jnp.where(check, 0, rises),
    )


def _where(condition: Array, first: Iterate, second: Iterate) -> Iterate:
  """Returns the first where the condition [B] holds, else the second, array by array."""
  return {
    name: jnp.where(condition.reshape(-1, *[1] * (value.ndim - 1)), value, second[name])
    for name, value in first.items()
  }


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
