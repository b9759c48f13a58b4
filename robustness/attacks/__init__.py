"""Attacks: perturbations that are found with the network's gradient, pure JAX.

The same attack serves adversarial training and the views of a study.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from robustness.attacks import balls
from robustness.core.errors import InputError
from robustness.core.registry import Part, Registry, word

STATISTICS = ('running', 'batch')
Array = jax.Array
Scalar = Array | float
Logits = Callable[[Array], Array]
"""A pure function from images [B, H, W, C] to logits [B, classes]."""


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns −log softmax(z)_y, float32 [B]."""
  return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels)


def margin(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns max_{i≠y} z_i − z_y, float32 [B]: above 0 where the prediction is wrong."""
  scores = logits.astype(jnp.float32)
  own = jnp.take_along_axis(scores, labels[:, None], 1)[:, 0]
  others = jnp.where(jax.nn.one_hot(labels, scores.shape[1], dtype=bool), -jnp.inf, scores)
  return others.max(1) - own


def dlr(logits: jax.Array, labels: jax.Array) -> jax.Array:
  """Returns the difference of logits ratio, (max_{i≠y} z_i − z_y) / (z_(1) − z_(3)), float32 [B].

  z_(1) ≥ z_(2) ≥ ... are the logits in order. Shifting or scaling the logits does not change it, so
  that it has a gradient where the cross-entropy of a sure prediction has none in float32.

  Raises:
    InputError: fewer than three classes.

  Reference: Croce & Hein (2020), see `auto_pgd`, equation 6.
  """
  if logits.shape[-1] < 3:
    raise InputError(
      f"the loss 'dlr' compares the first with the third logit, and this classifier has "
      f"{logits.shape[-1]} classes: take 'auto_pgd' or 'pgd' with the loss 'cross_entropy'."
    )
  top = jax.lax.top_k(logits.astype(jnp.float32), 3)[0]
  return margin(logits, labels) / (top[:, 0] - top[:, 2] + 1e-12)


def lead(logits: jax.Array, labels: jax.Array, targets: jax.Array) -> jax.Array:
  """Returns z_t − z_y for classes t, int32 [B]; float32 [B]."""
  scores = logits.astype(jnp.float32)
  own, other = (jnp.take_along_axis(scores, at[:, None], 1)[:, 0] for at in (labels, targets))
  return other - own


def targeted_dlr(logits: jax.Array, labels: jax.Array, targets: jax.Array) -> jax.Array:
  """Returns (z_t − z_y) / (z_(1) − (z_(3) + z_(4)) / 2) for classes t, int32 [B]; float32 [B].

  Raises:
    InputError: fewer than four classes.

  Reference: Croce & Hein (2020), see `auto_pgd`, equation 7.
  """
  if logits.shape[-1] < 4:
    raise InputError(
      f'the targeted loss compares the first with the third and fourth logit, and this classifier '
      f"has {logits.shape[-1]} classes: take 'auto_pgd' with the loss 'cross_entropy'."
    )
  top = jax.lax.top_k(logits.astype(jnp.float32), 4)[0]
  return lead(logits, labels, targets) / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2 + 1e-12)


def likeliest(logits: jax.Array, number: Array | int) -> jax.Array:
  """Returns the class that comes after `number` + 1 likelier ones, int32 [B]: of an image that is
  classified rightly, 0 gives the likeliest wrong one."""
  return jnp.argsort(-logits, axis=-1)[:, number + 1].astype(jnp.int32)


def wrong_classes(logits: Logits, images: Array) -> int:
  """Returns how many classes there are beside an image's own."""
  return jax.eval_shape(logits, images).shape[1] - 1


LOSSES = {'cross_entropy': cross_entropy, 'dlr': dlr}
"""What attacks ascend, for each image, of logits [B, classes] and labels int32 [B]."""


class Flag(NamedTuple):
  """A sign that an attack has failed on an image, read from what it observes (see `Attack`).

  Attributes:
    observed: which of the observations shows it.
    value: the observation's value that shows it.
    tolerated: the largest share of images on which it may show without a warning.
  """

  observed: str
  value: int
  tolerated: float = 0.0


@dataclasses.dataclass(frozen=True)
class Attack(Part):
  """Base class: the fields are the keys of `config.classifier.attack.<name>`, and all but `norm`,
  `epsilon` and `statistics` those of `config.study.attack.<name>` of the study `attack_error`.

  Attributes:
    norm: 'linf' or 'l2'.
    epsilon: ε, radius of the ball for pixels in [0, 1]; .03137 is 8/255.
    statistics: which statistics batch normalisation uses while a training's examples are made:
      'running' averages, or those of the 'batch'; the averages are not moved by an attack.
    loss: what is ascended, 'cross_entropy' or 'dlr', see `LOSSES`.
  """

  section: ClassVar[str] = 'config.classifier.attack'
  norm: str = 'linf'
  epsilon: float = 8 / 255
  statistics: str = word('batch', STATISTICS)
  loss: str = word('cross_entropy', LOSSES)

  def __post_init__(self) -> None:
    super().__post_init__()
    balls.check(f'{self.section}.{self.name}', self.norm, self.epsilon)
    unused = self.in_turn and self.loss != 'cross_entropy'
    self.require(not unused, 'loss', "'cross_entropy', for this attack has a loss of its own")

  @abc.abstractmethod
  def __call__(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> Array:
    """Returns adversarial images [B, H, W, C] in [0, 1], which carry no gradient.

    Each row depends on its own key, image and label only, given `logits` of which the same holds.

    Args:
      keys: [B], for the random start.
      logits: of the classifier.
      images: float32 [B, H, W, C] in [0, 1].
      labels: int32 [B].
      scale: multiplies ε and the step size; may be traced, so that several ε are one compilation.
    """

  @property
  @abc.abstractmethod
  def resembles(self) -> tuple[str, ...]:
    """Transforms of `robustness.environments.transforms`, or families of these, that a training
    would show by it; see `robustness.augment.Augmentation`."""

  @property
  def draws(self) -> bool:
    """Whether another key gives another result, so that restarts differ."""
    return True

  @property
  def in_turn(self) -> bool:
    """Whether its runs take a part of the images at a time, see `robustness.attacks.in_turn`, and
    ascend a loss of their own in place of `loss`."""
    return False

  @property
  def stages(self) -> tuple[str, ...]:
    """Names of the attacks that it is made of, in their order; () of a single one."""
    return ()

  @property
  def words(self) -> str:
    """The first setting that other attacks do not have, and those that are not the default."""
    shared = {field.name for field in dataclasses.fields(Attack)}
    fields = [field for field in dataclasses.fields(self) if field.name not in shared]
    values = [(field.name, getattr(self, field.name), field.default) for field in fields]
    changed = [(name, value) for name, value, default in values[1:] if value != default]
    return ', '.join(f'{value} {name}' for name, value, *_ in (*values[:1], *changed))

  @property
  def shortcoming(self) -> str:
    """The attack in words, if errors under it bound those under AutoAttack from below; else ''."""
    return self.name

  @property
  def flags(self) -> Mapping[str, Flag]:
    """Signs that it has failed, by what is said of the images that show them."""
    return {}

  def observed(
    self, keys: Array, logits: Logits, images: Array, labels: Array, scale: Scalar = 1.0
  ) -> tuple[Array, dict[str, Array]]:
    """Returns what a call does, and of one with `stages` what it finds of each image, [B]: `stage`
    int32, the number from 1 of the attack that succeeded, 0 where the image is wrong by itself and
    one more than there are where none does; `no_gradient` bool, right images whose DLR loss has no
    gradient at a random start; `random` bool, whether further passes give other logits."""
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
    """Returns, of some runs, the result with the largest margin, image by image.

    An image is predicted wrongly if any of its runs ended so. The first run has the given keys, run
    r has fold_in(key, r): more restarts never make an attack weaker. One that draws nothing runs
    once.
    """
    first = self(keys, logits, images, labels, scale)
    if first.shape != images.shape:
      raise InputError(
        f'the attack {self.name!r} gives images of {list(first.shape)} for {list(images.shape)}.'
      )
    if restarts == 1 or not self.draws:
      return first

    def again(run: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
      kept, largest = state
      own = jax.vmap(lambda key: jax.random.fold_in(key, run))(keys)
      other = self(own, logits, images, labels, scale)
      margins = margin(logits(other), labels)
      better = balls.by_row(margins > largest)
      return jnp.where(better, other, kept), jnp.maximum(margins, largest)

    state = (first, margin(logits(first), labels))
    return jax.lax.fori_loop(1, restarts, again, state)[0]


ATTACKS = Registry('robustness.attacks', Attack)  # type: ignore[type-abstract]
