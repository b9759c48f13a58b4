"""AutoAttack: a sequence of parameter-free attacks, each on the images that remain correct."""

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from robustness import attacks
from robustness.attacks import Arguments, Array, Attack, Flag, Logits, Scalar, balls
from robustness.attacks.auto_pgd import AutoPGD
from robustness.attacks.fab import FAB
from robustness.attacks.in_turn import in_turn
from robustness.attacks.square import Square
from robustness.core.registry import setting, word
from robustness.corruptions.names import NOISE

STEPS, QUERIES, TARGETS, PASSES = 100, 5000, 9, 20
"""The numbers in the paper: steps of Auto-PGD and FAB, queries of Square, classes that targeted
attacks try, and passes over which gradients of random networks are averaged."""
VERSIONS = {
  'standard': ('apgd_ce', 'apgd_t', 'fab_t', 'square'),
  'plus': ('apgd_ce', 'apgd_dlr', 'fab', 'square', 'apgd_t', 'fab_t'),
  'rand': ('apgd_ce', 'apgd_dlr'),
}
RESTARTS = {'standard': 1, 'plus': 5, 'rand': 1}
"""Runs of each untargeted attack except Square, in ℓ∞ and ℓ2."""
L1_RESTARTS, L1_TARGETS = 5, 5
"""Runs of Auto-PGD on the cross-entropy, and classes that targeted Auto-PGD tries, in ℓ1."""
SQUARE, SQUARE_GAIN = 'square', 0.002
"""The name of Square, and the largest share of images on which it alone may succeed before there is
a warning that attacks by gradients may have failed."""
NO_GRADIENT = 'have no gradient of the DLR loss at a random start: gradient attacks may fail there'
BY_SQUARE = 'fall to Square and to no attack by gradients before: these may have failed'
RANDOM = "get other logits when they are shown again: the version 'rand' is for that"
REPEATS, DIFFERS = 5, 1e-4
"""Number of passes that test whether a network is random, and the difference of logits, scaled to
length 1, above which it is."""
State = Mapping[str, Array]
"""The state after some of the runs: `adversarial` images [B, H, W, C], `is_right` bool [B] (whether
these images are still classified correctly), and `stage` int32 [B] (number of the attack that
succeeded, counted from 1; 0 if none did)."""


@dataclasses.dataclass(frozen=True)
class AutoAttack(Attack):
  """Runs several attacks in order, each on the images that are still classified correctly.

  Returns the result of the first attack that succeeds. An image that no attack changes successfully
  is returned unchanged.

  The version 'standard' runs Auto-PGD on the cross-entropy, targeted Auto-PGD on the DLR loss,
  targeted FAB, and Square. 'plus' adds Auto-PGD on the DLR loss and untargeted FAB, and runs
  untargeted attacks except Square five times. 'rand', for random networks, runs Auto-PGD on both
  losses and averages gradients over 20 passes. ℓ1 has 'standard' only, with five runs of Auto-PGD
  on the cross-entropy and five target classes of targeted Auto-PGD.

  `observed` runs everything in one call. `begin`, `advance` and `finish` compute the same in
  pieces, so that a caller can show progress.

  Attributes:
    version: 'standard', 'plus' or 'rand'.
    iterations: steps of Auto-PGD and FAB; 100 in the paper.
    queries: queries of Square; 5000 in the paper.

  Reference:
    Croce & Hein (2020), Reliable evaluation of adversarial robustness with an ensemble of diverse
    parameter-free attacks, section 6. ℓ1: Croce & Hein (2021), Mind the box: l1-APGD for sparse
    adversarial attacks on image classifiers.
  """

  norms = balls.NORMS
  resembles = (NOISE,)
  in_turn = True  # later runs leave out the images that are misclassified already
  version: str = word('standard', VERSIONS)
  iterations: int = setting(STEPS, 'at least 1', lambda x: x >= 1)
  queries: int = setting(
    QUERIES, 'at least 1', lambda x: x >= 1, only_with=('version', 'standard', 'plus')
  )

  def __post_init__(self) -> None:
    """Raises InputError for 'plus' and 'rand' in ℓ1, where the authors define only 'standard'."""
    super().__post_init__()
    is_defined = self.norm != 'l1' or self.version == 'standard'
    self.require(is_defined, 'version', "'standard' in ℓ1")

  @property
  def stages(self) -> tuple[str, ...]:
    """The names of the attacks of this version, in order, such as 'apgd_ce'."""
    return VERSIONS[self.version]

  @property
  def shortcoming(self) -> str:
    """Name of the attack in the warning that it finds fewer errors than as published.

    For instance 'AutoAttack of 10 steps and 5000 queries'. '' if steps and queries are the
    published numbers.
    """
    has_queries = SQUARE in self.stages
    if self.iterations == STEPS and (not has_queries or self.queries == QUERIES):
      return ''
    queries = f' and {self.queries} queries' if has_queries else ''
    return f'AutoAttack of {self.iterations} steps{queries}'

  @property
  def flags(self) -> Mapping[str, Flag]:
    """The warnings that results may contain, as {end of the sentence: which images it counts}.

    A warning is a sentence such as 'N images have no gradient …'. N is the number of images with
    the output that the `Flag` describes: without a gradient, broken by Square only, or with random
    logits.
    """
    flags = {NO_GRADIENT: Flag('no_gradient', value=True)}
    if self.stages[-1] == SQUARE:
      # the last stage, Square, has the number `len(self.stages)`, since stages count from 1
      flags[BY_SQUARE] = Flag('stage', value=len(self.stages), tolerated=SQUARE_GAIN)
    if self.version != 'rand':  # 'rand' is for networks with random logits
      flags[RANDOM] = Flag('random', value=True)
    return flags

  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns the first result of `observed`: the adversarial images [B, H, W, C]."""
    return self.observed(keys, logits, images, labels, scale)[0]

  def observed(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> tuple[Array, dict[str, Array]]:
    """Returns the adversarial images [B, H, W, C], and diagnostics for each image.

    `Attack.observed` describes the diagnostics `stage`, `no_gradient` and `random`.
    """
    arguments = Arguments(keys, logits, jax.lax.stop_gradient(images), labels, scale)
    state = self.begin(logits, arguments.images, labels)
    num_classes = attacks.num_wrong_classes(logits, images) + 1
    for stage, (_, num_runs) in enumerate(self.members(num_classes)):  # the attacks in turn
      state = self.advance(stage, 0, num_runs, arguments, state)  # all its runs, from number 0
    return self.finish(arguments, state)

  @staticmethod
  def begin(logits: Logits, images: Array, labels: Array) -> State:
    """Returns the state before the first attack, in which each image is unchanged."""
    is_right = logits(images).argmax(-1) == labels
    return {'adversarial': images, 'is_right': is_right, 'stage': jnp.zeros_like(labels)}

  def advance(
    self, stage: int, first_run: Array | int, num_runs: int, arguments: Arguments, state: State
  ) -> State:
    """Runs one attack of the ensemble, or a part of it, and returns the new state.

    A targeted attack has one run for each target class, any other attack one for each random start.
    Only images that are still classified correctly are attacked.

    Args:
      stage: index of the attack in `stages`, from 0.
      first_run: number of the first run, from 0; may be traced.
      num_runs: number of runs.
      arguments: the arguments of AutoAttack.
      state: the state from `begin` or from the previous call.
    """
    number = stage + 1  # of the attack in `State.stage`, where 0 means that none succeeded
    images = jax.lax.stop_gradient(arguments.images)
    stage_keys = jax.vmap(lambda key: jax.random.fold_in(key, number))(arguments.keys)
    stage_arguments = arguments._replace(keys=stage_keys, images=images)
    num_classes = attacks.num_wrong_classes(arguments.logits, images) + 1
    attack, _ = self.members(num_classes)[stage]
    before = state['adversarial'], state['is_right']
    adversarial, is_right = in_turn(attack.run, num_runs, stage_arguments, before, first_run)
    successful_stage = jnp.where(state['is_right'] & ~is_right, number, state['stage'])
    return {'adversarial': adversarial, 'is_right': is_right, 'stage': successful_stage}

  def finish(self, arguments: Arguments, state: State) -> tuple[Array, dict[str, Array]]:
    """Returns the adversarial images and diagnostics, after all attacks of the ensemble.

    The ensemble runs its attacks, `self.stages`, in turn on the images that are still right.

    Args:
      arguments: random keys [B], function from images to logits, clean images [B, H, W, C], labels
        [B], and the radius as a multiple of `epsilon`.
      state: the state after the last attack: `adversarial` images, whether the prediction
        `is_right` [B], and the `stage` [B] that first made it wrong.

    Returns:
      Images [B, H, W, C], and {diagnostic: [B]}. `stage` is the number of the attack that
      succeeded, from 1; 0 for an image that was wrong already, and one more than the last number if
      none succeeded. `no_gradient` and `random` are warnings: the loss of an attacked image has the
      gradient 0, or logits differ when computed again.
    """
    keys, logits, images, labels, scale = arguments
    # for `no_gradient`: the gradient of the loss DLR at a random point of the ball
    start = balls.random_shift(keys, images, self.norm, scale * self.epsilon)
    gradient = jax.grad(lambda x: attacks.dlr(logits(x), labels).sum())(start)
    stage = jnp.where(state['is_right'], len(self.stages) + 1, state['stage'])
    return state['adversarial'], {
      'stage': stage,
      'no_gradient': (stage > 0) & (gradient == 0).all((1, 2, 3)),
      'random': _repeats_differ(logits, images),
    }

  def members(self, num_classes: int) -> list[tuple[AutoPGD | FAB | Square, int]]:
    """Returns the attacks of this version in order, each with its number of runs.

    A targeted attack runs once for each target class. There are at most nine target classes, and at
    most `L1_TARGETS` for Auto-PGD in ℓ1. Square runs once. Other untargeted attacks run
    `RESTARTS[version]` times, and `L1_RESTARTS` times in ℓ1.

    Args:
      num_classes: number of classes of the classifier.
    """
    is_l1 = self.norm == 'l1'
    targets = min(TARGETS, num_classes - 1)
    apgd_targets = min(L1_TARGETS, targets) if is_l1 else targets
    repeats = L1_RESTARTS if is_l1 else RESTARTS[self.version]
    passes = PASSES if self.version == 'rand' else 1
    ball = self.norm, self.epsilon  # the first arguments of every attack
    apgd = functools.partial(AutoPGD, *ball, steps=self.iterations)
    fab = functools.partial(FAB, *ball, steps=self.iterations)
    members: dict[str, tuple[AutoPGD | FAB | Square, int]] = {
      'apgd_ce': (apgd(passes=passes), repeats),
      'apgd_dlr': (apgd(passes=passes, loss='dlr'), repeats),
      'apgd_t': (apgd(targets=apgd_targets), apgd_targets),
      'fab': (fab(targets=0), repeats),
      'fab_t': (fab(targets=targets), targets),
      'square': (Square(*ball, queries=self.queries), 1),
    }
    return [members[name] for name in self.stages]


def _repeats_differ(logits: Logits, images: Array) -> Array:
  """Returns for each image whether repeated passes return different logits, bool [B]."""
  scores = jax.lax.map(lambda _: logits(images), jnp.arange(REPEATS))  # [passes, B, classes]
  finite = jnp.where(jnp.isneginf(scores), 0, scores)  # −∞: a class that the classifier lacks
  scaled = finite / (jnp.linalg.norm(finite, axis=-1, keepdims=True) + 1e-10)  # to length 1
  distances = jnp.linalg.norm(scaled[:, None] - scaled[None], axis=-1)  # [passes, passes, B]
  predicted = scores.argmax(-1)  # [passes, B]
  has_other_class = (predicted != predicted[:1]).any(0)  # than in the first pass
  return (distances.max((0, 1)) > DIFFERS) | has_other_class
