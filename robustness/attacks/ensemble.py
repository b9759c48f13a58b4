"""Ensembles: attacks that run one after another, each on the images that remain correct."""

import abc
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from robustness import attacks
from robustness.attacks import Array, Attack, Logits, Scalar
from robustness.attacks.in_turn import in_turn

State = Mapping[str, Array]
"""The state after some of the runs: `adversarial` images [B, H, W, C], `is_right` bool [B] (whether
these images are still classified correctly), and `stage` int32 [B] (number of the attack that
succeeded, counted from 1; 0 if none did)."""


class Arguments(NamedTuple):
  """The arguments of an attack, see `Attack.__call__`."""

  keys: Array
  logits: Logits
  images: Array
  labels: Array
  scale: Scalar = 1.0


class Member(Protocol):
  """The interface of an attack that an ensemble can run."""

  def run(
    self, number: Array, keys: Array, images: Array, labels: Array, logits: Logits, scale: Scalar
  ) -> Array:
    """Returns the adversarial images [B, H, W, C] of one of several runs, for clean images.

    `number`, from 0, tells the runs of the attack apart, which may be restarts or have different
    target classes. The other arguments are as in `Attack.__call__`.
    """


class Ensemble(Attack):
  """Base class of ensembles, which run other attacks one after another.

  Each of these attacks is a stage, and a stage may have several runs, such as one for each target
  class. `observed` computes all runs of all stages in one call. A host that shows progress calls
  `begin`, then `advance` for each run, then `finish`, with the same result.
  """

  in_turn = True  # later runs leave out the images that are misclassified already

  @abc.abstractmethod
  def members(self, classes: int) -> Sequence[tuple[Member, int]]:
    """Returns the attack of each of the `stages`, with its number of runs."""

  @abc.abstractmethod
  def finish(self, arguments: Arguments, state: State) -> tuple[Array, dict[str, Array]]:
    """Returns adversarial images and observations, as `observed` does, after the last run."""

  @staticmethod
  def begin(logits: Logits, images: Array, labels: Array) -> State:
    """Returns the state before the first run: the clean images, and no success of an attack."""
    is_right = logits(images).argmax(-1) == labels
    return {'adversarial': images, 'is_right': is_right, 'stage': jnp.zeros_like(labels)}

  def advance(
    self, stage: int, first: Array | int, count: int, arguments: Arguments, state: State
  ) -> State:
    """Returns the state after `count` runs of a stage, from run `first`, which may be traced.

    `state` is from `begin` or the previous call. `stage` is counted from 0 here, and from 1 in the
    state.
    """
    keys, logits, images, labels, scale = arguments
    images, number, was_right = jax.lax.stop_gradient(images), stage + 1, state['is_right']
    stage_keys = jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)
    member, _ = self.members(attacks.num_wrong_classes(logits, images) + 1)[stage]
    run = functools.partial(member.run, logits=logits, scale=scale)
    adversarial, is_right = in_turn(
      run, count, logits, stage_keys, images, labels, state['adversarial'], was_right, first=first
    )
    succeeded = jnp.where(was_right & ~is_right, number, state['stage'])
    return {'adversarial': adversarial, 'is_right': is_right, 'stage': succeeded}

  def observed(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> tuple[Array, dict[str, Array]]:
    """Returns the adversarial images and observations, see `Attack.observed`."""
    arguments = Arguments(keys, logits, jax.lax.stop_gradient(images), labels, scale)
    state = self.begin(logits, arguments.images, labels)
    members = self.members(attacks.num_wrong_classes(logits, images) + 1)
    for stage, (_, num_runs) in enumerate(members):
      state = self.advance(stage, 0, num_runs, arguments, state)
    return self.finish(arguments, state)

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns the first result of `observed`: the adversarial images [B, H, W, C]."""
    return self.observed(keys, logits, images, labels, scale)[0]
