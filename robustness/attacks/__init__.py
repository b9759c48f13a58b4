"""Attacks: adversarial perturbations in pure JAX, for adversarial training and for studies."""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from robustness.attacks import balls
from robustness.attacks.balls import Scalar as Scalar
from robustness.core.errors import InputError
from robustness.core.registry import Part, Registry, word

STATISTICS = ('running', 'batch')
"""The values of `Attack.statistics`."""
Array = jax.Array
Logits = Callable[[Array], Array]
"""A pure function from images [B, H, W, C] to logits [B, classes]."""

MIN_LOGIT = -1e9
"""The logit that replaces −∞ in the DLR losses, which have no finite gradient there. −∞ stands for
a class of the data that the classifier does not have."""


class Arguments(NamedTuple):
  """The arguments of a call of an attack.

  Attributes:
    keys: random keys [B].
    logits: the classifier, a function from images [B, H, W, C] to logits [B, classes].
    images: clean images, float32 [B, H, W, C] in [0, 1].
    labels: correct classes, int32 [B].
    scale: factor of the radius ε and the step size.
  """

  keys: Array
  logits: Logits
  images: Array
  labels: Array
  scale: Scalar = 1.0


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns the cross-entropy −log softmax(z)_y of logits z and labels y in nats, float32 [B]."""
  return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels)


def margin(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns max_{i≠y} z_i − z_y for logits z and labels y, float32 [B].

  The margin is above 0 if the prediction is wrong.
  """
  scores = logits.astype(jnp.float32)
  correct = jnp.take_along_axis(scores, labels[:, None], 1)[:, 0]
  wrong = jnp.where(jax.nn.one_hot(labels, scores.shape[1], dtype=bool), -jnp.inf, scores)
  return wrong.max(1) - correct


def dlr(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns the difference of logits ratio, (max_{i≠y} z_i − z_y) / (z_(1) − z_(3)), float32 [B].

  z are the logits, y the labels and z_(1) ≥ z_(2) ≥ ... the sorted logits. The loss does not change
  if the logits are shifted or scaled. Its gradient does not vanish for confident predictions, as
  the gradient of the cross-entropy does in float32.

  Raises:
    InputError: There are fewer than three classes.

  Reference: Croce & Hein (2020), Reliable evaluation of adversarial robustness, equation 6.
  """
  if logits.shape[-1] < 3:
    raise InputError(
      f"the loss 'dlr' compares the first with the third logit, and this classifier has "
      f"{logits.shape[-1]} classes: take 'auto_pgd' or 'pgd' with the loss 'cross_entropy'."
    )
  scores = jnp.maximum(logits.astype(jnp.float32), MIN_LOGIT)
  ranked, _ = jax.lax.top_k(scores, 3)  # z_(1), z_(2), z_(3)
  return margin(scores, labels) / (ranked[:, 0] - ranked[:, 2] + 1e-12)


def target_margin(logits: jax.Array, labels: jax.Array, targets: jax.Array) -> jax.Array:
  """Returns the logit difference z_t − z_y, float32 [B], for target classes t and labels y.

  Args:
    logits: z, [B, classes].
    labels: y, int32 [B].
    targets: t, int32 [B].
  """
  scores = logits.astype(jnp.float32)
  label_score = jnp.take_along_axis(scores, labels[:, None], 1)[:, 0]
  target_score = jnp.take_along_axis(scores, targets[:, None], 1)[:, 0]
  return target_score - label_score


def targeted_dlr(logits: jax.Array, labels: jax.Array, targets: jax.Array) -> jax.Array:
  """Returns the targeted DLR loss, (z_t − z_y) / (z_(1) − (z_(3) + z_(4)) / 2), float32 [B].

  z are the logits, y the labels, t the target classes and z_(1) ≥ z_(2) ≥ ... the sorted logits.

  Raises:
    InputError: There are fewer than four classes.

  Reference: Croce & Hein (2020), Reliable evaluation of adversarial robustness, equation 7.
  """
  if logits.shape[-1] < 4:
    raise InputError(
      f'the targeted loss compares the first with the third and fourth logit, and this classifier '
      f"has {logits.shape[-1]} classes: take 'auto_pgd' with the loss 'cross_entropy'."
    )
  scores = jnp.maximum(logits.astype(jnp.float32), MIN_LOGIT)
  ranked, _ = jax.lax.top_k(scores, 4)  # z_(1), ..., z_(4)
  gain = target_margin(scores, labels, targets)
  return gain / (ranked[:, 0] - (ranked[:, 2] + ranked[:, 3]) / 2 + 1e-12)


def likely_wrong_class(logits: jax.Array, number: Array | int) -> jax.Array:
  """Returns for each image the class with the (`number` + 2)-th largest logit, int32 [B].

  Targeted attacks use this class as their target. If the image is classified correctly, `number` 0
  is the likeliest wrong class, 1 the second likeliest, and so on.

  Args:
    logits: [B, classes].
    number: from 0 to classes − 2; may be traced.
  """
  descending = jnp.argsort(-logits, axis=-1)
  return descending[:, number + 1].astype(jnp.int32)


def num_wrong_classes(logits: Logits, images: Array) -> int:
  """Returns the number of classes minus one, which is the number of possible target classes.

  Args:
    logits: the classifier, a function from images [B, H, W, C] to logits [B, classes].
    images: example input; only its shape and type are used.
  """
  return jax.eval_shape(logits, images).shape[1] - 1


LOSSES = {'cross_entropy': cross_entropy, 'dlr': dlr}
"""Losses that attacks maximise: functions of logits [B, classes] and labels int32 [B] to [B]."""


class Flag(NamedTuple):
  """A sign in an attack's outputs that the attack may have failed on an image.

  Results warn if too many images have the sign, because the measured error may be too low.

  Attributes:
    observed: name of an output per image of `Attack.observed`, such as 'stage'.
    value: the value of this output that indicates a failure.
    tolerated: largest share of images with this value that causes no warning.
  """

  observed: str
  value: int
  tolerated: float = 0.0


@dataclasses.dataclass(frozen=True)
class Attack(Part):
  """Base class of attacks.

  The fields of an attack are keys of `config.classifier.attack.<name>` for adversarial training.
  They are also keys of `config.study.attack.<name>` in the study `attack_error`, except `norm`,
  `epsilon` and `statistics`.

  Attributes:
    norms: the norms that the attack supports.
    norm: 'linf', 'l2', or 'l1' if it is among `norms`.
    epsilon: radius ε of the ball for pixels in [0, 1]; .03137 is 8/255.
    statistics: what batch normalisation uses while a training makes adversarial examples: the
      'running' averages, or the statistics of the 'batch'. The averages are not updated.
    loss: the loss to maximise, 'cross_entropy' or 'dlr' (`LOSSES`).
  """

  section = 'config.classifier.attack'
  norms: ClassVar[tuple[str, ...]] = ('linf', 'l2')
  norm: str = 'linf'
  epsilon: float = 8 / 255
  statistics: str = word('batch', STATISTICS)
  loss: str = word('cross_entropy', LOSSES)

  def __post_init__(self) -> None:
    """Raises InputError for an invalid norm or radius, or a `loss` that would have no effect."""
    super().__post_init__()
    balls.check(f'{self.section}.{self.name}', self.norm, self.epsilon, norms=self.norms)
    is_ignored = self.has_fixed_loss and self.loss != 'cross_entropy'
    self.require(not is_ignored, 'loss', "'cross_entropy', for this attack has a loss of its own")

  @abc.abstractmethod
  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns adversarial images [B, H, W, C] in [0, 1], without gradient.

    An adversarial image does not depend on the other images of the batch, unless the classifier
    itself mixes them.

    Args:
      keys: random keys [B].
      logits: the classifier, a function from images [B, H, W, C] to logits [B, classes].
      images: float32 [B, H, W, C] in [0, 1].
      labels: int32 [B].
      scale: factor of ε and the step size. May be traced, so that one compilation serves many ε.
    """

  @property
  @abc.abstractmethod
  def resembles(self) -> tuple[str, ...]:
    """Names of image transforms that adversarial images look like, such as 'fog'.

    A name may also be of a family of transforms, such as 'noise'. Used to refuse the attack in a
    training that keeps such a transform from some of the classes.
    """

  @property
  def draws(self) -> bool:
    """Whether the attack uses its random keys, so that restarts differ.

    True by default.
    """
    return True

  @property
  def in_turn(self) -> bool:
    """Whether the attack skips images that are already misclassified.

    Such an attack collects the remaining images in small batches (`robustness.attacks.in_turn`). By
    default it is False: the attack runs on the entire batch.
    """
    return False

  @property
  def has_fixed_loss(self) -> bool:
    """Whether the attack always uses the same loss and ignores the setting `loss`.

    The default is `in_turn`: attacks that skip misclassified images.
    """
    return self.in_turn

  @property
  def stages(self) -> tuple[str, ...]:
    """Names of the attacks that an ensemble such as AutoAttack runs, in order.

    () for a single attack.
    """
    return ()

  @property
  def words(self) -> str:
    """The attack's own settings in words, such as '40 steps'; '' if it has none.

    Settings of the base class are left out. The first own setting is always listed, and another one
    only if it differs from its default.
    """
    shared = {field.name for field in dataclasses.fields(Attack)}
    fields = [field for field in dataclasses.fields(self) if field.name not in shared]
    listed = [*fields[:1], *(f for f in fields[1:] if getattr(self, f.name) != f.default)]
    return ', '.join(f'{getattr(self, field.name)} {field.name}' for field in listed)

  @property
  def shortcoming(self) -> str:
    """Name of the attack in the warning that it finds fewer errors than AutoAttack.

    '' for an attack that needs no such warning. The default is the attack's name.
    """
    return self.name

  @property
  def flags(self) -> Mapping[str, Flag]:
    """The warnings that results may contain, as {text: sign of failure}.

    A text follows the number of images, for instance 'have no gradient' in '12 images have no
    gradient'. {} by default.
    """
    return {}

  def observed(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> tuple[Array, dict[str, Array]]:
    """Returns the adversarial images [B, H, W, C], and diagnostics for each image by name.

    A single attack returns no diagnostics, {}. An ensemble such as AutoAttack overrides this method
    and returns arrays [B]:
      stage: int32, which attack of the ensemble succeeded, counted from 1. 0 if the clean image is
        misclassified, and the number of attacks + 1 if none succeeds.
      no_gradient: bool, whether the DLR loss has no gradient at a random start. False if the clean
        image is misclassified.
      random: bool, whether the classifier returns different logits when called again.

    For the arguments see `__call__`.
    """
    return self(keys, logits, images, labels, scale), {}

  def worst(
    self,
    restarts: int,
    keys: Array,
    logits: Logits,
    images: Array,
    labels: Array,
    scale: Scalar = 1.0,
  ) -> Array:
    """Runs the attack `restarts` times and returns the worst result for each image.

    The worst result has the largest margin: largest logit of a wrong class minus logit of the
    label. It is misclassified if any of the results is. Run 0 uses `keys`, and run r uses
    fold_in(key, r). More restarts therefore never weaken an attack. A margin of NaN counts as the
    largest, so that an image of NaN is the result. An attack that uses no random numbers runs once.

    Args:
      restarts: number of runs.
      keys: random keys [B].
      logits: function from images to logits.
      images: clean images [B, H, W, C] in [0, 1].
      labels: the true classes, int32 [B].
      scale: factor of the radius ε.
    """
    first = self._in_ball(self(keys, logits, images, labels, scale), images, scale)
    if restarts == 1 or not self.draws:
      return first

    def margins(images: Array) -> Array:
      """Returns the margins of images, [B]; ∞ in place of NaN."""
      values = margin(logits(images), labels)
      return jnp.where(jnp.isnan(values), jnp.inf, values)

    def restart(run: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
      """Runs the attack once more, as a step of `lax.fori_loop`.

      Args:
        run: number of the run, which the random keys depend on.
        state: the worst images so far, [B, H, W, C], and their margins [B]. A larger margin is
          worse: a wrong class has a larger logit than the label.

      Returns:
        The new state.
      """
      worst, largest = state
      run_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, run)
      candidates = self._in_ball(self(run_keys, logits, images, labels, scale), images, scale)
      new_margins = margins(candidates)
      is_worse = balls.as_image_factors(new_margins > largest)
      return jnp.where(is_worse, candidates, worst), jnp.maximum(new_margins, largest)

    worst, _ = jax.lax.fori_loop(1, restarts, restart, (first, margins(first)))
    return worst

  def _in_ball(self, results: Array, images: Array, scale: Scalar) -> Array:
    """Returns the results of a run, projected into the ball if the attack is user-defined.

    Args:
      results: adversarial images [B, H, W, C], as the attack returns them.
      images: clean images [B, H, W, C].
      scale: factor of ε, as in `__call__`.

    Raises:
      InputError: the results are no floats or have another shape.
    """
    shape = getattr(results, 'shape', ())
    if shape != images.shape or not jnp.issubdtype(results.dtype, jnp.floating):
      raise InputError(
        f'the attack {self.name!r} gives images of {list(shape)} for {list(images.shape)}: give '
        'floats of the shape that it gets.'
      )
    if not self.file:  # attacks of this package stay in the ball
      return results
    projected = balls.clipped(images, results - images, self.norm, scale * self.epsilon)
    return jnp.where(jnp.isfinite(results), projected, jnp.nan)


ATTACKS = Registry('robustness.attacks', Attack)  # type: ignore[type-abstract]
