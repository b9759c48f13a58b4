"""Test-time adaptation: a network adapts to the images that are evaluated; one method per file.

A prediction then may depend on the other images of its batch and, if weights are adapted, on
earlier batches. `robustness.evaluation.adapting` decides which images form a batch and in which
order the batches come.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from robustness.core.errors import InputError
from robustness.core.registry import Part, Registry, setting, word
from robustness.core.typing import PyTree

Outputs = tuple[jax.Array, dict[str, jax.Array]]
"""Logits [B, classes] of a batch, and the outputs of the requested layers by name."""
Apply = Callable[[PyTree, jax.Array], Outputs]
"""A function that applies the network with the given variables to images [B, H, W, C]."""
Layers = Mapping[tuple[str, ...], type[nn.Module]]
"""{path of a Linen layer within its network: its class}, see `linen_layers`."""
Result = tuple[Outputs, PyTree]
"""The outputs of a batch, and the state of the adaptation for the next batch."""
STATISTICS = 'batch_stats'
"""The Flax collection with the running mean and variance of batch normalisation."""
_ADAPTING = jax.make_user_context()
"""A context that makes JAX retrace jitted functions inside a network. JAX's cache does not notice
Flax's method interceptors, so it would otherwise reuse a trace without the adaptation."""
_MIN_LOGIT = -1e30
"""The logit that replaces −∞, which the projection to a label space assigns to classes that no
output of the network belongs to; −∞ would make the entropy NaN."""


class ImageBatch(NamedTuple):
  """A batch of test images, perturbed by the study but not yet normalised.

  Attributes:
    images: [B, H, W, C] in [0, 1].
    mask: bool [B], False for images that only pad the batch.
    keys: a random key of each image, [B]. It depends only on seed, study, image and view (the way
      in which the image is perturbed).
  """

  images: jax.Array
  mask: jax.Array
  keys: jax.Array

  def mean(self, values: jax.Array) -> jax.Array:
    """Returns the mean of values [B] over all images that are not padding."""
    return jnp.where(self.mask, values, 0).sum() / self.mask.sum()


@dataclasses.dataclass(frozen=True)
class Adaptation(Part):
  """Base class of methods that adapt a network to the test images.

  Layers of batch normalisation use the mean λ μ_s + (1 − λ) μ_t and the variance λ σ²_s + (1 − λ)
  σ²_t. μ_s and σ²_s are the running statistics from the training. μ_t and σ²_t are the mean and
  variance over the images and positions of the test batch. Fields are set by
  `config.classifier.adaptation.<name>.<field>`.

  Attributes:
    unbiased: whether σ²_t divides by the number of values minus 1.
    batch_size: n, the number of images in a batch. The last batch may be smaller.
    source_weight: λ, in [0, 1]; 0 uses only statistics of the test batch, 1 only statistics of the
      training.
    order: 'random' shows the images in a random order. 'label_shift' shows one class after the
      other, with classes and the images within a class in a random order.
    kinds: classes of the layers that the method changes. A network must have at least one such
      layer. () for any network.
    adapts: the layers that the method changes, in words such as 'normalisation layers', for
      messages.

  Reference:
    Schneider et al. (2020), Improving robustness against common corruptions by covariate shift
    adaptation, section 3. Their pseudo sample size N corresponds to λ = N / (N + n).
  """

  section = 'config.classifier.adaptation'
  unbiased: ClassVar[bool] = False
  kinds: ClassVar[tuple[type[nn.Module], ...]] = ()
  adapts: ClassVar[str] = ''

  batch_size: int = setting(200, 'at least 1', lambda x: x >= 1)
  source_weight: float = setting(0.0, 'in [0, 1]', lambda x: 0 <= x <= 1)
  order: str = word('random', ('random', 'label_shift'))

  @property
  def is_continual(self) -> bool:
    """Whether the state is kept when the perturbation of the images changes."""
    return False

  @property
  def is_episodic(self) -> bool:
    """Whether every batch starts from the initial state."""
    return False

  @property
  def num_clean_images(self) -> int:
    """The number of unperturbed images that the method uses before test images; 0 for none."""
    return 0

  def begin(self, variables: PyTree, layers: Layers, num_classes: int) -> PyTree:
    """Returns the state before the first batch; () for an adaptation without state.

    Args:
      variables: the trained variables of the network.
      layers: {path: class} of the network's layers.
      num_classes: number of logits.
    """
    return ()

  def observe(self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch) -> PyTree:
    """Returns the state after a batch of unperturbed images, which are not predicted.

    Called after `begin` and before test images are predicted, for `num_clean_images` images in
    batches.

    Args:
      apply: function (variables, images) -> (logits, outputs of layers).
      variables: the trained variables of the network.
      state: the state from `begin` or the previous batch.
      batch: the images.
    """
    return state

  @abc.abstractmethod
  def __call__(self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Predicts one batch, and returns the network's outputs and the state for the next batch.

    Args:
      apply: function (variables, images) -> (logits, outputs of layers).
      variables: the trained variables of the network.
      state: the state from `begin`, `observe` or the previous batch.
      batch: the images.
    """

  def normalised(
    self, apply: Apply, variables: PyTree, images: jax.Array, mask: jax.Array
  ) -> Outputs:
    """Applies the network with statistics of the test batch in batch normalisation.

    Mean and variance are λ times the running statistics from the training, plus 1 − λ times the
    statistics of the test batch, with λ = `source_weight`.

    Args:
      apply: function (variables, images) -> (logits, outputs of layers).
      variables: variables of the network.
      images: [B, H, W, C].
      mask: bool [B], the images that count in the statistics of the batch.
    """
    if self.source_weight == 1:
      return apply(variables, images)

    def normalise(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
      """Calls a method of a layer, and replaces the statistics if the layer is BatchNorm.

      It is an interceptor for `nn.intercept_methods`. The mean and variance are a mix of the
      trained ones, with weight `source_weight`, and those of the current batch.

      Args:
        call: the original method.
        args: its positional arguments.
        kwargs: its keyword arguments.
        context: has the layer, `context.module`.
      """
      layer = context.module
      # the clone that is applied below is intercepted too: it has no path, and is not changed again
      if not isinstance(layer, nn.BatchNorm) or not layer.path:
        return call(*args, **kwargs)
      if layer.axis != -1:
        raise InputError(f'the normalisation {"/".join(layer.path)} is not over the last axis.')
      x = args[0] if args else kwargs['x']
      trained, weight = layer.variables[STATISTICS], self.source_weight
      scale_and_bias = layer.variables.get('params', {})
      mean, var = moments(x, mask, ddof=int(self.unbiased))
      batch = {'mean': mean, 'var': var}
      mixed = {name: weight * trained[name] + (1 - weight) * batch[name] for name in batch}
      clone = layer.clone(parent=None, use_running_average=True)
      return clone.apply({'params': scale_and_bias, STATISTICS: mixed}, x)

    # a new object in JAX's user context, so that jitted functions are not reused without adaptation
    with _ADAPTING(object()), nn.intercept_methods(normalise):
      return apply(variables, images)


ADAPTATIONS = Registry('robustness.models.adaptation', Adaptation)  # type: ignore[type-abstract]


def linen_layers(apply: Apply, variables: PyTree, image: jax.ShapeDtypeStruct) -> Layers:
  """Traces a network, and returns the Linen layers that it applies, {path: class}.

  Args:
    apply: function (variables, images) -> (logits, outputs of layers).
    variables: variables of the network.
    image: shape and type of images [B, H, W, C].
  """
  layers: dict[tuple[str, ...], type[nn.Module]] = {}

  def note(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
    """Calls a method of a layer, and stores the layer's class."""
    layers[context.module.path] = type(context.module)
    return call(*args, **kwargs)

  # a new object in JAX's user context, so that jitted functions are traced again and call `note`
  with _ADAPTING(object()), nn.intercept_methods(note):
    jax.eval_shape(apply, variables, image)
  return layers


def log_probabilities(logits: jax.Array) -> jax.Array:
  """Returns the logarithms of softmax probabilities, finite even for the logit −∞.

  Args:
    logits: [..., classes].
  """
  return jax.nn.log_softmax(jnp.maximum(logits, _MIN_LOGIT))


def entropy(log_p: jax.Array) -> jax.Array:
  """Returns the entropies −Σ_c p_c log p_c in nats, [...].

  Args:
    log_p: log p_c, [..., classes].
  """
  return -(jnp.exp(log_p) * log_p).sum(-1)


def moments(x: jax.Array, mask: jax.Array, ddof: int) -> tuple[jax.Array, jax.Array]:
  """Returns the mean and the variance of each channel over images and positions, float32 [C] each.

  Args:
    x: [B, ..., C].
    mask: bool [B], the images that count.
    ddof: the variance divides by the number of values minus `ddof`, or by 1 if that is less.
  """
  x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
  axes = tuple(range(x.ndim - 1))
  weight = mask.reshape(-1, *[1] * (x.ndim - 1)).astype(x.dtype)  # [B, 1, ..., 1]
  count = mask.sum() * np.prod(x.shape[1:-1], initial=1)  # images × positions
  mean = (weight * x).sum(axes) / count
  squares = (weight * (x - mean.reshape(*[1] * len(axes), -1)) ** 2).sum(axes)
  return mean, squares / jnp.maximum(count - ddof, 1)
