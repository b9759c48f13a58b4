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
  """The images of a batch as the network gets them, after a study's view and before normalisation.

  Attributes:
    images: [B, H, W, C] in [0, 1].
    mask: bool [B], False on rows that only pad the batch.
    keys: a random key of each image, [B]. It depends on seed, study, example and view only.
  """

  images: jax.Array
  mask: jax.Array
  keys: jax.Array

  def mean(self, values: jax.Array) -> jax.Array:
    """Returns the mean of values [B] over the rows with a True `mask`, which are no padding."""
    return jnp.where(self.mask, values, 0).sum() / self.mask.sum()


@dataclasses.dataclass(frozen=True)
class Adaptation(Part):
  """Base class of adaptations, with fields set by `config.classifier.adaptation.<name>.<field>`.

  Every layer of batch normalisation uses the mean λ μ_s + (1 − λ) μ_t and the variance
  λ σ²_s + (1 − λ) σ²_t, with λ in [0, 1]. Here μ_s and σ²_s are the running statistics from the
  training, and μ_t and σ²_t are the mean and variance over the images and positions of the test
  batch.

  Attributes:
    unbiased: whether σ²_t divides by the number of values minus 1.
    batch_size: n, the number of images in a batch. The last batch of a sequence of images has those
      that remain.
    source_weight: λ; 0 uses only statistics of the test batch, 1 only statistics of the training.
    order: 'random' shows the images of a stream in a random order; 'label_shift' class after class,
      with classes and the images within a class in a random order.
    kinds: classes of the layers that the method changes; a network must have at least one such
      layer. () for any network.
    adapts: what the method changes, such as 'normalisation layers', for the message about a network
      without it.

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
    """Whether the adaptation continues in the next view from its state after the last one."""
    return False

  @property
  def is_episodic(self) -> bool:
    """Whether every batch starts from the initial state."""
    return False

  @property
  def num_clean_images(self) -> int:
    """The number of images without a study's changes that `observe` is called with; 0 for none."""
    return 0

  def begin(self, variables: PyTree, layers: Layers, num_classes: int) -> PyTree:
    """Returns the state before the first batch; the empty tuple for an adaptation without state.

    Args:
      variables: the trained variables of the network.
      layers: {path: class} of the network's layers.
      num_classes: number of logits.
    """
    return ()

  def observe(self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch) -> PyTree:
    """Returns the state after a batch of images without a study's changes.

    The evaluation calls this method after `begin`, for `num_clean_images` images in batches, before
    it predicts the images of a study. `__call__` explains the arguments.
    """
    return state

  @abc.abstractmethod
  def __call__(self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Returns the outputs of the network for one batch, and the state for the next batch.

    Args:
      apply: function (variables, images) -> (logits, outputs of layers).
      variables: the trained variables of the network.
      state: the state that `begin`, `observe` or the previous batch returned.
      batch: the images of the batch.
    """

  def normalised(
    self, apply: Apply, variables: PyTree, images: jax.Array, mask: jax.Array
  ) -> Outputs:
    """Returns the network's outputs, with mixed statistics in layers of batch normalisation.

    Mean and variance are `source_weight` · (running statistics from the training) + (1 −
    `source_weight`) · (statistics of the `images` at which `mask`, bool [B], is True).
    """
    if self.source_weight == 1:
      return apply(variables, images)

    def normalise(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
      """Calls a method of a layer, for `nn.intercept_methods`; BatchNorm gets mixed statistics."""
      layer = context.module
      # the clone that is applied below is intercepted too: it has no path, and is not changed again
      if not isinstance(layer, nn.BatchNorm) or not layer.path:
        return call(*args, **kwargs)
      if layer.axis != -1:
        raise InputError(f'the normalisation {"/".join(layer.path)} is not over the last axis.')
      x = args[0] if args else kwargs['x']
      # `stored` has the statistics from the training, and scale and bias
      stored, weight = layer.variables, self.source_weight
      mean, var = moments(x, mask, ddof=int(self.unbiased))
      batch = {'mean': mean, 'var': var}
      mixed = {k: weight * stored[STATISTICS][k] + (1 - weight) * batch[k] for k in batch}
      clone = layer.clone(parent=None, use_running_average=True)
      return clone.apply({'params': stored.get('params', {}), STATISTICS: mixed}, x)

    # a new object in JAX's user context, so that jitted functions are not reused without adaptation
    with _ADAPTING(object()), nn.intercept_methods(normalise):
      return apply(variables, images)


ADAPTATIONS = Registry('robustness.models.adaptation', Adaptation)  # type: ignore[type-abstract]


def linen_layers(apply: Apply, variables: PyTree, image: jax.ShapeDtypeStruct) -> Layers:
  """Returns {path: class} of the Linen layers that a network applies; nothing is computed.

  `image` has the shape and type of images [B, H, W, C].
  """
  layers: dict[tuple[str, ...], type[nn.Module]] = {}

  def note(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
    """Runs a method of a layer and notes the layer."""
    layers[context.module.path] = type(context.module)
    return call(*args, **kwargs)

  # a new object in JAX's user context, so that jitted functions are traced again and call `note`
  with _ADAPTING(object()), nn.intercept_methods(note):
    jax.eval_shape(apply, variables, image)
  return layers


def log_probabilities(logits: jax.Array) -> jax.Array:
  """Returns log p of logits [..., classes]; it is finite also for classes with the logit −∞."""
  return jax.nn.log_softmax(jnp.maximum(logits, _MIN_LOGIT))


def entropy(log_p: jax.Array) -> jax.Array:
  """Returns the entropies −Σ_c p_c log p_c in nats of log p [..., classes]."""
  return -(jnp.exp(log_p) * log_p).sum(-1)


def moments(x: jax.Array, mask: jax.Array, ddof: int) -> tuple[jax.Array, jax.Array]:
  """Returns the mean and the variance of each channel over rows and positions, float32 [C] each.

  Rows of `x` [B, ..., C] contribute where `mask`, bool [B], is True. The variance divides by the
  number of values minus `ddof`, at least 1.
  """
  x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
  axes = tuple(range(x.ndim - 1))
  weight = mask.reshape(-1, *[1] * (x.ndim - 1)).astype(x.dtype)  # [B, 1, ..., 1]
  count = mask.sum() * np.prod(x.shape[1:-1], initial=1)  # images × positions
  mean = (weight * x).sum(axes) / count
  squares = (weight * (x - mean.reshape(*[1] * len(axes), -1)) ** 2).sum(axes)
  return mean, squares / jnp.maximum(count - ddof, 1)
