"""Auto-PGD: projected gradient ascent with momentum that halves its own step size."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.attacks import (
  LOSSES,
  Array,
  Attack,
  Logits,
  Scalar,
  balls,
  likeliest,
  margin,
  targeted_dlr,
  wrong_classes,
)
from robustness.attacks.in_turn import whole
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE

MOMENTUM, INCREASING = 0.75, 0.75  # α and ρ of the paper
Aux = TypeVar('Aux')
Iterate = dict[str, Array]
"""Points `x` [B, H, W, C] with `gradient`, and `loss` and `margin` [B]."""


@dataclasses.dataclass(frozen=True)
class AutoPGD(Attack):
  """Gives the iterate with the largest margin, of n steps from a random point at the ball's edge;
  with `targets` the image itself where no run succeeds.

  With z = Π(x_k + η·direction) a step is x_(k+1) = Π(x_k + α(z − x_k) + (1 − α)(x_k − x_(k−1))).
  η begins at 2ε. At each checkpoint it is halved, and the ascent goes on from the point of highest
  loss, for an image whose loss rose in at most ρ of the last steps, or whose highest loss has
  not grown since the last checkpoint, where η was kept. n steps take n + 1 forward and backward
  passes.

  As in the authors' code the first step counts as a rise where its loss is above 0, and a tie with
  ρ halves (the paper: fewer than ρ).

  Attributes:
    steps: n ≥ 1; the paper takes 100.
    targets: 0 ascends `loss`; k ≥ 1 makes a run for each of the k likeliest wrong classes, which
      ascends the targeted DLR loss (`targeted_dlr`), on the images that are still right.
    passes: of the network, whose mean gradient a step takes; above 1 for a random one.

  Reference:
    Croce & Hein (2020), Reliable evaluation of adversarial robustness with an ensemble of diverse
    parameter-free attacks, algorithm 1 and section 4.
  """

  resembles = (NOISE,)
  steps: int = setting(10, 'at least 1', lambda x: x >= 1)
  targets: int = setting(0, 'at least 0', lambda x: x >= 0)
  passes: int = setting(1, 'at least 1', lambda x: x >= 1)

  @property
  def in_turn(self) -> bool:
    return self.targets > 0

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    if not self.targets:
      return self._ascend(keys, logits, images, labels, scale, None, False)
    run = functools.partial(self.run, logits=logits, scale=scale)
    count = min(self.targets, wrong_classes(logits, images))
    return whole(run, count, logits, keys, images, labels)

  def run(
    self, number: Array, keys: Array, images: Array, labels: Array, logits: Logits, scale: Scalar
  ) -> Array:
    """Returns what one run gives, see `in_turn`; it ends when all images are wrong."""
    targets = likeliest(logits(images), number) if self.targets else None
    return self._ascend(keys, logits, images, labels, scale, targets, True)

  def _ascend(
    self,
    keys: Array,
    logits: Logits,
    images: Array,
    labels: Array,
    scale: Scalar,
    targets: Array | None,
    stop: bool,
  ) -> Array:
    images, epsilon = jax.lax.stop_gradient(images), scale * self.epsilon
    spans = jnp.asarray(checkpoints(self.steps))

    def value(x: Array) -> tuple[Array, tuple[Array, Array]]:
      scores = logits(x)
      if targets is None:
        losses = LOSSES[self.loss](scores, labels)
      else:
        losses = targeted_dlr(scores, labels, targets)
      return losses.sum(), (losses, margin(scores, labels))

    def evaluated(x: Array) -> Iterate:
      gradient, (loss, wrongness) = mean_gradient(value, x, self.passes)
      without_gradient = jnp.isnan(gradient).any((1, 2, 3))  # NaN is given, and so refused
      return {
        'x': jnp.where(balls.by_row(without_gradient), jnp.nan, x),
        'gradient': gradient,
        'loss': loss,
        'margin': jnp.where(without_gradient, jnp.inf, wrongness),
      }

    def step(state: _State) -> _State:
      made = evaluated(self._moved(state, images, epsilon))
      return state.after(made, spans[state.number], stop & (state.worst['margin'] > 0))

    def goes_on(state: _State) -> Array:
      return (state.number < self.steps) & ((not stop) | (state.worst['margin'] <= 0).any())

    begin, rows = evaluated(balls.edge(keys, images, self.norm, epsilon)), jnp.zeros(len(images))
    size, none = rows + 2 * epsilon, rows.astype(jnp.int32)
    state = _State(
      jnp.int32(0), begin, begin['x'], begin, begin, size, rows == 0, begin['loss'], rows, none
    )
    return jax.lax.stop_gradient(jax.lax.while_loop(goes_on, step, state).worst['x'])

  def _moved(self, state: _State, images: Array, epsilon: Scalar) -> Array:
    now, size = state.now, balls.by_row(state.size)
    direction = jax.vmap(lambda g: balls.direction(g, self.norm))(now['gradient'])
    z = balls.clipped(images, now['x'] + size * direction - images, self.norm, epsilon)
    alpha = jnp.where(state.number == 0, 1.0, MOMENTUM)
    x = now['x'] + alpha * (z - now['x']) + (1 - alpha) * (now['x'] - state.previous)
    return balls.clipped(images, x - images, self.norm, epsilon)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _State:
  """What is carried from step to step, of each image."""

  number: Array  # of steps so far
  now: Iterate
  previous: Array  # the point before it
  best: Iterate  # of highest loss
  worst: Iterate  # of the largest margin
  size: Array  # η
  halved: Array  # whether η was halved at the last checkpoint
  best_before: Array  # the highest loss at the last checkpoint
  last_loss: Array  # of the last step, 0 at first
  rises: Array  # steps since the last checkpoint in which the loss rose

  def after(self, made: Iterate, span: Array, done: Array) -> _State:
    """Returns the state after a step; `span` is the number of steps a checkpoint ends, or 0, `done`
    [B] keeps what is `worst`."""
    check = span > 0
    rises = self.rises + (made['loss'] > self.last_loss)
    best = _where(made['loss'] > self.best['loss'], made, self.best)
    stalled = ~self.halved & (best['loss'] <= self.best_before)
    halve = check & ((rises <= INCREASING * span) | stalled)
    return _State(
      number=self.number + 1,
      now=_where(halve, best, made),
      previous=self.now['x'],
      best=best,
      worst=_where(~done & (made['margin'] > self.worst['margin']), made, self.worst),
      size=jnp.where(halve, self.size / 2, self.size),
      halved=jnp.where(check, halve, self.halved),
      best_before=jnp.where(check, best['loss'], self.best_before),
      last_loss=made['loss'],
      rises=jnp.where(check, 0, rises),
    )


def _where(condition: Array, first: Iterate, second: Iterate) -> Iterate:
  """Returns the first where the condition [B] holds, else the second, array by array."""
  return jax.tree.map(functools.partial(jax.vmap(jax.lax.select), condition), first, second)


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


def mean_gradient(
  value: Callable[[Array], tuple[Array, Aux]], x: Array, passes: int
) -> tuple[Array, Aux]:
  """Returns the mean gradient of several passes at x, and what the last one gives beside it."""
  gradient = jax.grad(value, has_aux=True)
  first = gradient(x)

  def add(_: Array, state: tuple[Array, Aux]) -> tuple[Array, Aux]:
    again, aux = gradient(x)
    return state[0] + again, aux

  total, aux = jax.lax.fori_loop(1, passes, add, first) if passes > 1 else first
  return total / passes, aux
