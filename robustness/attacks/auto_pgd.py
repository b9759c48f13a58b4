"""Auto-PGD: projected gradient ascent with momentum that adapts its step size."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness import attacks
from robustness.attacks import Arguments, Array, Attack, Logits, Scalar, balls
from robustness.attacks.in_turn import attack_in_turn
from robustness.core.registry import setting
from robustness.corruptions.names import NOISE

MOMENTUM, RISING_SHARE = 0.75, 0.75  # α and ρ of the paper
RADII, FIRST_SHARE = (3.0, 2.0, 1.0), 0.3
"""Radii of the three ascents in ℓ1 as multiples of ε, and share of the steps of the first two."""
SPARSER_BELOW, DIVISOR, MAX_REDUCTION, CHECKPOINT_SHARE = 0.95, 1.5, 10.0, 0.04
"""Numbers of Auto-PGD in ℓ1: an image became sparser if its number of changed values is below this
share of the last number; the divisor of the number of values that a step changes, and of the step
size; the largest reduction of the step size, as a factor; and the share of the steps of an ascent
between two checkpoints."""
Aux = TypeVar('Aux')
Iterate = dict[str, Array]
"""Points `x` and their `gradient` [B, H, W, C], `loss` and `margin` [B]."""


@dataclasses.dataclass(frozen=True)
class AutoPGD(Attack):
  """Gradient ascent on the loss within the ball, with automatic halving of the step size.

  The ascent starts at a random point at the edge of the ball. The result is the point with the
  largest margin on the path: largest logit of a wrong class minus logit of the label. If `targets`
  is above 0 and no run succeeds, the result is the clean image.

  In ℓ∞ and ℓ2 a step of size η has momentum:
    z = Π(x_k + η·direction),
    x_(k+1) = Π(x_k + α(z − x_k) + (1 − α)(x_k − x_(k−1))).
  Π projects onto the ball. The direction is the sign (ℓ∞) or the unit vector (ℓ2) of the gradient.
  α is .75, but 1 in the first step. η starts at 2ε. η is halved at a checkpoint in two cases:

  * the loss rose in at most 75 % of the steps since the last checkpoint;
  * η was not halved at the last checkpoint, and the highest loss has not grown since.

  The ascent then continues from the point of highest loss. n steps take n + 1 forward and backward
  passes.

  In ℓ1 there are three ascents without momentum, in balls of radius 3ε, 2ε and ε, with 30, 30 and
  40 % of the steps. The second and third ascent start at the point of highest loss of the previous
  ascent, projected onto the smaller ball. Let s be the number of values in which the point of
  highest loss differs from the clean image. A step of length η changes the s / 1.5 values with the
  largest gradient by equal amounts. η starts at the radius. A checkpoint at which s has fallen
  below .95 of its last value resets η to the radius, and the ascent continues from the point of
  highest loss. Any other checkpoint divides η by 1.5, down to a tenth of the radius. n steps
  take n + 3 passes.

  Two details follow the authors' code instead of the paper: the first step counts as a rise if its
  loss is above 0, and η is also halved if the loss rose in exactly 75 % of the steps.

  Attributes:
    steps: number of steps n; the paper takes 100.
    targets: 0 maximises `loss`. k ≥ 1 maximises `targeted_dlr` for each of the k likeliest wrong
      classes in turn, on the images that are still classified correctly.
    passes: number of passes over which the gradient is averaged; above 1 for random networks.

  Reference:
    Croce & Hein (2020), Reliable evaluation of adversarial robustness with an ensemble of diverse
    parameter-free attacks, algorithm 1 and section 4. ℓ1: Croce & Hein (2021), Mind the box:
    l1-APGD for sparse adversarial attacks on image classifiers, algorithm 1 and section 3.
  """

  norms = balls.NORMS
  resembles = (NOISE,)
  steps: int = setting(10, 'at least 1', lambda x: x >= 1)
  targets: int = setting(0, 'at least 0', lambda x: x >= 0)
  passes: int = setting(1, 'at least 1', lambda x: x >= 1)

  @property
  def in_turn(self) -> bool:
    """Whether the attack skips misclassified images.

    True if the attack has target classes.
    """
    return self.targets > 0

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns the adversarial images of Auto-PGD, [B, H, W, C].

    With `targets`, it is run for each of the most likely wrong classes in turn, on the images that
    are still right.

    Args:
      keys: random keys [B].
      logits: function from images to logits.
      images: clean images [B, H, W, C] in [0, 1].
      labels: classes that the attack moves predictions away from, int32 [B].
      scale: factor of the radius ε.
    """
    arguments = Arguments(keys, logits, images, labels, scale)
    if not self.targets:
      return self._ascend(arguments, targets=None, can_stop=False)
    count = min(self.targets, attacks.num_wrong_classes(logits, images))
    return attack_in_turn(self.run, count, arguments)

  def run(self, number: Array, arguments: Arguments) -> Array:
    """Returns the images of largest margin that one run finds, [B, H, W, C].

    The margin is the largest logit of a wrong class minus the logit of the label. The run ends
    early when all images are misclassified.

    Args:
      number: number of the run, from 0. With `targets`, run 0 targets the class with the second
        largest logit, run 1 the third largest, and so on. Without `targets`, it is not used.
      arguments: the arguments of the attack.
    """
    targets = None
    if self.targets:
      targets = attacks.likely_wrong_class(arguments.logits(arguments.images), number)
    return self._ascend(arguments, targets, can_stop=True)

  def _ascend(self, arguments: Arguments, targets: Array | None, can_stop: bool) -> Array:
    """Returns for each image the point of largest margin on its path, [B, H, W, C].

    Args:
      arguments: the arguments of the attack.
      targets: target classes, int32 [B]; None maximises `loss`.
      can_stop: whether the search ends for an image as soon as it is misclassified.
    """
    evaluated = functools.partial(self._evaluated, arguments, targets)
    if self.norm == 'l1':
      return self._ascend_sparsely(evaluated, arguments, can_stop)
    keys, _, images, _, scale = arguments
    images, epsilon = jax.lax.stop_gradient(images), scale * self.epsilon
    steps_since_checkpoint = jnp.asarray(checkpoints(self.steps))  # by step, 0 if no checkpoint

    def step(state: _State) -> _State:
      """Returns the state after one more step."""
      iterate = evaluated(self._step_with_momentum(state, images, epsilon))
      return state.after(iterate, steps_since_checkpoint[state.number], can_stop)

    def continues(state: _State) -> Array:
      """Returns whether to take another step.

      With `can_stop`, the loop ends early when all images are misclassified.
      """
      is_right = state.largest_margin['margin'] <= 0
      return (state.number < self.steps) & ((not can_stop) | is_right.any())

    start = evaluated(balls.random_shift(keys, images, self.norm, epsilon))
    state = jax.lax.while_loop(continues, step, _State.first(start, epsilon))
    return jax.lax.stop_gradient(state.largest_margin['x'])

  def _evaluated(self, arguments: Arguments, targets: Array | None, x: Array) -> Iterate:
    """Returns points with their gradients, losses and margins.

    Args:
      arguments: the arguments of the attack.
      targets: target classes, int32 [B]; None stands for the loss `loss`.
      x: the points, [B, H, W, C].
    """

    def value(x: Array) -> tuple[Array, tuple[Array, Array]]:
      """Returns the sum of the losses at points x, for `jax.grad`, and (losses [B], margins [B]).

      The loss is `self.loss`, or targeted DLR if there are target classes. The margin is the
      largest logit of a wrong class minus the logit of the label.
      """
      scores, labels = arguments.logits(x), arguments.labels
      if targets is None:
        losses = attacks.LOSSES[self.loss](scores, labels)
      else:
        losses = attacks.targeted_dlr(scores, labels, targets)
      return losses.sum(), (losses, attacks.margin(scores, labels))

    gradient, (loss, margins) = mean_gradient(value, x, self.passes)
    # A NaN gradient turns the image into NaN and its margin into the largest one, so that it is the
    # result, which the study refuses.
    is_nan = jnp.isnan(gradient).any((1, 2, 3))
    return {
      'x': jnp.where(balls.as_image_factors(is_nan), jnp.nan, x),
      'gradient': gradient,
      'loss': loss,
      'margin': jnp.where(is_nan, jnp.inf, margins),
    }

  def _ascend_sparsely(
    self, evaluated: Callable[[Array], Iterate], arguments: Arguments, can_stop: bool
  ) -> Array:
    """Returns for each image the point of largest margin that the attack finds in ℓ1.

    The class docstring describes the three ascents. Points come from the last ascent, in the ball
    of radius ε.

    Args:
      evaluated: function from points [B, H, W, C] to the points with their gradients, losses and
        margins.
      arguments: the arguments of the attack.
      can_stop: whether the search ends for an image as soon as it is misclassified.
    """
    keys, _, images, _, scale = arguments
    images, epsilon = jax.lax.stop_gradient(images), scale * self.epsilon

    def ascend(x: Array, ascent: tuple[Array, Array, Array]) -> tuple[Array, Array]:
      """Runs one of the three ascents, for `jax.lax.scan`.

      Args:
        x: the starting points [B, H, W, C], which are first projected onto the ball of this ascent.
        ascent: (radius of the ball, number of steps, whether the search ends for an image as soon
          as it is misclassified), scalars.

      Returns:
        (points of highest loss, where the next ascent starts; points of largest margin).
      """
      radius, num_steps, ends_early = ascent
      start = evaluated(balls.clipped(images, x - images, 'l1', radius))

      def step(state: _SparseState) -> _SparseState:
        """Takes one step of an ascent in the ℓ1 ball, for `lax.while_loop`.

        The state moves to a new point, which is projected onto the ball of the ascent's `radius`
        around `images`. Step size and sparsity change at checkpoints.
        """
        iterate = evaluated(balls.clipped(images, state.moved() - images, 'l1', radius))
        # steps between checkpoints: 4 % of all steps, rounded down, but at least one step
        period = jnp.maximum(CHECKPOINT_SHARE * num_steps, 1).astype(int)
        is_checkpoint = (state.number + 1) % period == 0
        return state.after(iterate, images, radius, is_checkpoint, ends_early)

      def continues(state: _SparseState) -> Array:
        """Returns whether to take another step.

        With `ends_early`, the loop ends when all images are misclassified.
        """
        is_right = state.largest_margin['margin'] <= 0
        return (state.number < num_steps) & (~ends_early | is_right.any())

      step_size = jnp.full(len(x), radius, jnp.float32)
      num_changed = _num_changed(start['x'], images)
      # the starting points are also the points of highest loss and of largest margin
      first_state = _SparseState(jnp.int32(0), start, start, start, step_size, num_changed)
      state = jax.lax.while_loop(continues, step, first_state)
      return state.highest_loss['x'], state.largest_margin['x']

    # 10 steps are 3, 3 and 4 for the three ascents; `round`, because .3 · 10 is slightly above 3
    first = math.ceil(round(FIRST_SHARE * self.steps, 9))
    second = min(first, self.steps - first)
    nums_steps = jnp.asarray([first, second, self.steps - first - second])
    radii = epsilon * jnp.asarray(RADII, jnp.float32)
    # only the last ascent, in the ball of radius ε, can end early
    end_early = jnp.asarray([False, False, can_stop])
    start = balls.random_shift(keys, images, 'l1', RADII[0] * epsilon)  # in the first, largest ball
    # the points of largest margin of each ascent, [3, B, H, W, C]
    _, points = jax.lax.scan(ascend, start, (radii, nums_steps, end_early))
    return jax.lax.stop_gradient(points[-1])

  def _step_with_momentum(self, state: _State, images: Array, epsilon: Scalar) -> Array:
    """Returns the points after a step with momentum, [B, H, W, C].

    The points are Π(x + α(z − x) + (1 − α)(x − x_previous)), where Π projects onto the ball. z are
    the points after a step without momentum. α is 1 in the first step, and then .75.
    """
    x, size = state.current['x'], balls.as_image_factors(state.step_size)
    steepest = functools.partial(balls.steepest_direction, norm=self.norm)
    direction = jax.vmap(steepest)(state.current['gradient'])
    z = balls.clipped(images, x + size * direction - images, self.norm, epsilon)
    alpha = jnp.where(state.number == 0, 1.0, MOMENTUM)  # the first step has no momentum
    moved = x + alpha * (z - x) + (1 - alpha) * (x - state.previous)
    return balls.clipped(images, moved - images, self.norm, epsilon)


class _State(NamedTuple):
  """State of Auto-PGD in ℓ∞ or ℓ2 for B images, between two steps.

  Arrays are [B] unless a comment states another shape.
  """

  number: Array  # completed steps, a scalar
  current: Iterate
  previous: Array  # the points before the current ones, [B, H, W, C]
  highest_loss: Iterate  # the iterate of highest loss
  largest_margin: Iterate  # the iterate of largest margin
  step_size: Array  # η
  was_halved: Array  # whether η was halved at the last checkpoint
  checkpoint_loss: Array  # the highest loss at the last checkpoint
  last_loss: Array  # the loss of the last step, 0 at first
  rises: Array  # steps since the last checkpoint in which the loss rose

  @classmethod
  def first(cls, start: Iterate, epsilon: Scalar) -> _State:
    """Returns the state before the first step, from the starting points.

    Args:
      start: the starting points with their gradients, losses and margins.
      epsilon: radius ε of the ball.
    """
    zeros = jnp.zeros(len(start['x']))
    step_size, rises = zeros + 2 * epsilon, zeros.astype(jnp.int32)  # η begins at 2 ε
    was_halved = zeros == 0  # True, so that the first checkpoint does not count as stalled
    # the current one, the previous points, and the ones of highest loss and of largest margin
    iterates = start, start['x'], start, start
    return cls(jnp.int32(0), *iterates, step_size, was_halved, start['loss'], zeros, rises)

  def after(self, iterate: Iterate, steps_since_checkpoint: Array, can_stop: bool) -> _State:
    """Returns the state after a step.

    Args:
      iterate: the points after the step, with their gradients, losses and margins.
      steps_since_checkpoint: if the step ends at a checkpoint, the number of steps since the
        previous checkpoint; else 0.
      can_stop: whether the search ends for an image as soon as it is misclassified.
    """
    is_checkpoint = steps_since_checkpoint > 0
    rises = self.rises + (iterate['loss'] > self.last_loss)
    highest_loss, largest_margin = _best_points(self, iterate, can_stop)
    # η was not halved at the last checkpoint, and the highest loss has not grown since
    is_stalled = ~self.was_halved & (highest_loss['loss'] <= self.checkpoint_loss)
    rises_rarely = rises <= RISING_SHARE * steps_since_checkpoint
    is_halved = is_checkpoint & (rises_rarely | is_stalled)
    return _State(
      number=self.number + 1,
      current=_select(is_halved, highest_loss, iterate),  # continues from this point
      previous=self.current['x'],
      highest_loss=highest_loss,
      largest_margin=largest_margin,
      step_size=jnp.where(is_halved, self.step_size / 2, self.step_size),
      was_halved=jnp.where(is_checkpoint, is_halved, self.was_halved),
      checkpoint_loss=jnp.where(is_checkpoint, highest_loss['loss'], self.checkpoint_loss),
      last_loss=iterate['loss'],
      rises=jnp.where(is_checkpoint, 0, rises),
    )


class _SparseState(NamedTuple):
  """State of Auto-PGD in ℓ1 for B images, between two steps of one of its three ascents."""

  number: Array  # completed steps, a scalar
  current: Iterate
  highest_loss: Iterate  # the iterate of highest loss
  largest_margin: Iterate  # the iterate of largest margin
  step_size: Array  # η, [B]
  num_changed: Array  # s of `AutoPGD`, the number of changed values at the last checkpoint, [B]

  def moved(self) -> Array:
    """Returns the points after a step, which may leave the ball, [B, H, W, C]."""
    num_moved = self.num_changed / DIVISOR  # values that the step changes
    direction = jax.vmap(sparse_direction)(self.current['gradient'], num_moved)
    return self.current['x'] + balls.as_image_factors(self.step_size) * direction

  def after(
    self, iterate: Iterate, images: Array, radius: Array, is_checkpoint: Array, can_stop: Array
  ) -> _SparseState:
    """Returns the state after a step.

    Args:
      iterate: the points after the step, with their gradients, losses and margins.
      images: clean images [B, H, W, C].
      radius: radius of the ball of this ascent.
      is_checkpoint: whether the step ends at a checkpoint, a scalar.
      can_stop: whether the search ends for an image as soon as it is misclassified, a scalar.
    """
    highest_loss, largest_margin = _best_points(self, iterate, can_stop)
    num_changed = _num_changed(highest_loss['x'], images)
    is_sparser = is_checkpoint & (num_changed < SPARSER_BELOW * self.num_changed)
    reduced = jnp.maximum(self.step_size / DIVISOR, radius / MAX_REDUCTION)
    # a checkpoint resets η to the radius if the image became sparser, and reduces it otherwise
    step_size = jnp.where(is_checkpoint, reduced, self.step_size)
    return _SparseState(
      number=self.number + 1,
      current=_select(is_sparser, highest_loss, iterate),  # continues from this point
      highest_loss=highest_loss,
      largest_margin=largest_margin,
      step_size=jnp.where(is_sparser, radius, step_size),
      num_changed=jnp.where(is_checkpoint, num_changed, self.num_changed),
    )


def _num_changed(x: Array, images: Array) -> Array:
  """Returns the number of values of x that differ from the clean images, float32 [B]."""
  return (x != images).sum((1, 2, 3)).astype(jnp.float32)


def _best_points(
  state: _State | _SparseState, iterate: Iterate, can_stop: Array | bool
) -> tuple[Iterate, Iterate]:
  """Returns the best points so far by loss and by margin, including the new points.

  Args:
    state: the state before the step.
    iterate: the points after the step, with their gradients, losses and margins.
    can_stop: whether the search ends for an image as soon as it is misclassified. The first
      misclassified point is then its point of largest margin.

  Returns:
    (points of highest loss, points of largest margin).
  """
  is_higher = iterate['loss'] > state.highest_loss['loss']
  is_final = can_stop & (state.largest_margin['margin'] > 0)
  is_larger = ~is_final & (iterate['margin'] > state.largest_margin['margin'])
  highest_loss = _select(is_higher, iterate, state.highest_loss)
  return highest_loss, _select(is_larger, iterate, state.largest_margin)


def sparse_direction(gradient: Array, count: Array) -> Array:
  """Returns a step direction of ℓ1 length 1 that changes only few values, [H, W, C].

  The `count` values with the largest gradient magnitude change by equal amounts, in the direction
  of the gradient's sign. Ties with the smallest of these magnitudes change too. All other entries
  are 0, also where the gradient is 0.

  Args:
    gradient: [H, W, C].
    count: number of values to change, a float that is rounded up to at least 1.
  """
  magnitude = jnp.abs(gradient)
  # index of the least magnitude selected when sorted; rounding it down rounds `count` up
  rank = jnp.clip(magnitude.size - count, 0, magnitude.size - 1).astype(int)
  threshold = jnp.sort(magnitude, axis=None)[rank]
  signs = jnp.where(magnitude >= threshold, jnp.sign(gradient), 0)
  return signs / jnp.maximum(jnp.abs(signs).sum(), 1)


def _select(condition: Array, first: Iterate, second: Iterate) -> Iterate:
  """Selects `first` for the images where the condition [B] holds, and `second` for others."""
  return jax.tree.map(functools.partial(jax.vmap(jax.lax.select), condition), first, second)


def checkpoints(steps: int) -> np.ndarray:
  """Returns the checkpoints of Auto-PGD for n steps, int32 [n].

  An entry is 0 for a step that does not end at a checkpoint. For a step that does, the entry is the
  number of steps since the previous checkpoint. There are checkpoints after ⌈p_j n⌉ steps, with p_0
  = 0, p_1 = .22 and p_(j+1) = p_j + max(p_j − p_(j−1) − .03, .06).
  """
  shares = [0.0, 0.22]
  while shares[-1] < 1:
    shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
  ends = np.unique([int(np.ceil(round(share * steps, 9))) for share in shares])
  ends = ends[ends <= steps]  # 0, and the steps that end at a checkpoint, counted from 1
  spans = np.zeros(steps, np.int32)
  spans[ends[1:] - 1] = np.diff(ends)  # entry 0 is of step 1
  return spans


def mean_gradient(
  value: Callable[[Array], tuple[Array, Aux]], x: Array, passes: int
) -> tuple[Array, Aux]:
  """Returns the gradient of `value` at x, averaged over repeated calls.

  Averaging helps where the network is random, so that every call returns another gradient.

  Args:
    value: function from x to (scalar, auxiliary output).
    x: where the gradient is taken.
    passes: number of calls.

  Returns:
    (mean gradient, auxiliary output of the last call).
  """
  gradient = jax.grad(value, has_aux=True)
  first = gradient(x)

  def add(_: Array, state: tuple[Array, Aux]) -> tuple[Array, Aux]:
    """Adds the gradient of one more call; returns (sum of gradients, auxiliary output)."""
    summand, aux = gradient(x)
    return state[0] + summand, aux

  total, aux = jax.lax.fori_loop(1, passes, add, first) if passes > 1 else first
  return total / passes, aux
