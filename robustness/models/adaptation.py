"""Test-time adaptation: batch normalisation adapts to the images that are evaluated.

A prediction then depends on the other images of its batch and, if weights are adapted, on earlier
batches. `robustness.evaluation.adapting` decides which images form a batch and in which order the
batches come.
"""

import abc
import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import traverse_util

from robustness.core.errors import InputError
from robustness.core.registry import Part, Registry, setting, word
from robustness.core.typing import PyTree

Outputs = tuple[jax.Array, dict[str, jax.Array]]
"""Logits [B, classes] of a batch, and the outputs of the requested layers by name."""
Apply = Callable[[PyTree], Outputs]
"""A function that applies the network with the given variables to the current batch."""
Result = tuple[Outputs, PyTree]
"""The outputs of a batch, and the state of the adaptation for the next batch."""
STATISTICS = 'batch_stats'
"""The Flax collection with the running mean and variance of batch normalisation."""
_ADAPTING = jax.make_user_context()
"""A context that makes JAX retrace jitted functions inside a network. JAX's cache does not notice
Flax's method interceptors, so it would otherwise reuse a trace without the adaptation."""
_MIN_LOGIT = -1e30  # classes without members have −∞
"""The logit that replaces −∞, which the projection to a label space assigns to classes that no
output of the network belongs to; −∞ would make the entropy NaN."""


@dataclasses.dataclass(frozen=True)
class Adaptation(Part):
  """Base class of adaptations: the fields are keys of `config.classifier.adaptation.<name>`.

  Every layer of batch normalisation uses the mean λ μ_s + (1 − λ) μ_t and the variance
  λ σ²_s + (1 − λ) σ²_t. Here μ_s and σ²_s are the running statistics from the training, and μ_t and
  σ²_t are the mean and variance over the images and positions of the test batch.

  Attributes:
    unbiased: whether σ²_t divides by the number of values minus 1.
    batch_size: n, the number of images in a batch. The last batch of a sequence of images has those
      that remain.
    source_weight: λ; 0 uses only the statistics of the test batch, 1 only the training's.

  Reference:
    Schneider et al. (2020), Improving robustness against common corruptions by covariate shift
    adaptation, section 3. Their pseudo sample size N corresponds to λ = N / (N + n).
  """

  section: ClassVar[str] = 'config.classifier.adaptation'
  unbiased: ClassVar[bool] = False

  batch_size: int = setting(200, 'at least 1', lambda x: x >= 1)
  source_weight: float = setting(0.0, 'in [0, 1]', lambda x: 0 <= x <= 1)

  @property
  def is_continual(self) -> bool:
    """Whether the state after one view is the initial state of the next."""
    return False

  def begin(self, variables: PyTree) -> PyTree:
    """Returns the state before the first batch; the empty tuple for an adaptation without state."""
    return ()

  @abc.abstractmethod
  def __call__(self, apply: Apply, variables: PyTree, state: PyTree, mask: jax.Array) -> Result:
    """Returns the outputs of the network for one batch, and the state for the next batch.

    Args:
      apply: applies the network with the given variables to the images of the batch.
      variables: the trained variables of the network.
      state: the state that `begin` or the previous batch returned.
      mask: bool [B], False on rows that only pad the batch.
    """

  def normalised(self, apply: Apply, variables: PyTree, mask: jax.Array) -> Outputs:
    """Returns the outputs of the network with the mixed statistics in batch normalisation."""
    if self.source_weight == 1:
      return apply(variables)

    def normalise(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
      """Runs a batch normalisation layer with mixed statistics, and any other layer unchanged."""
      layer = context.module
      if not isinstance(layer, nn.BatchNorm) or not layer.path:  # the one below has no path
        return call(*args, **kwargs)
      if layer.axis != -1:
        raise InputError(f'the normalisation {"/".join(layer.path)} is not over the last axis.')
      stored, weight, x = layer.variables, self.source_weight, args[0] if args else kwargs['x']
      batch = dict(zip(('mean', 'var'), moments(x, mask, int(self.unbiased)), strict=True))
      mixed = {k: weight * stored[STATISTICS][k] + (1 - weight) * batch[k] for k in batch}
      fixed = layer.clone(parent=None, use_running_average=True)
      return fixed.apply({'params': stored.get('params', {}), STATISTICS: mixed}, x)

    with _ADAPTING(object()), nn.intercept_methods(normalise):
      return apply(variables)


@dataclasses.dataclass(frozen=True)
class Statistics(Adaptation):
  """Normalises with a mixture of the test batch's and the training's mean and variance.

  No weights change. The variance of the test batch is unbiased, as in the authors' code.
  """

  name = 'statistics'
  unbiased = True

  def __call__(self, apply: Apply, variables: PyTree, state: PyTree, mask: jax.Array) -> Result:
    """Returns the outputs with mixed statistics, and the state unchanged; see `Adaptation`."""
    return self.normalised(apply, variables, mask), state


@dataclasses.dataclass(frozen=True)
class Tent(Adaptation):
  """Minimises the mean entropy of the predictions, −Σ_c p_c log p_c, by a step after each batch.

  Here p_c is the predicted probability of class c. A step changes the scale and bias of batch
  normalisation. Each batch is predicted before the step that it causes.

  Attributes:
    optimizer: 'adam', or 'sgd' with a momentum of .9.
    nesterov: whether the momentum of 'sgd' is Nesterov's, as in the authors' code and CoTTA's; the
      code of EATA and SAR has plain momentum.
    learning_rate: the learning rate of each step.
    reset: 'view' returns to the trained weights at the start of every view, or, for stored
      corrupted images, of every corruption and severity; 'never' continues with the weights from
      the previous view.

  Reference:
    Wang et al. (2021), Tent: Fully Test-Time Adaptation by Entropy Minimization, section 3.
  """

  name = 'tent'

  optimizer: str = word('adam', ('adam', 'sgd'))
  nesterov: bool = True
  learning_rate: float = setting(1e-3, 'above 0', lambda x: 0 < x < np.inf)
  reset: str = word('view', ('view', 'never'))

  def __post_init__(self) -> None:
    super().__post_init__()
    momentum = self.optimizer == 'sgd'
    self.require(self.nesterov or momentum, 'nesterov', "True unless optimizer is 'sgd'")

  @property
  def is_continual(self) -> bool:
    """Whether the weights are kept from view to view, which is so if `reset` is 'never'."""
    return self.reset == 'never'

  @property
  def _steps(self) -> optax.GradientTransformation:
    """The optimizer that takes one step per batch."""
    if self.optimizer == 'sgd':
      return optax.sgd(self.learning_rate, momentum=0.9, nesterov=self.nesterov)
    return optax.adam(self.learning_rate)

  def begin(self, variables: PyTree) -> PyTree:
    """Returns scales and biases of normalisation layers by path, and the optimizer's state."""
    layers = set()
    for path in adapted_layers(variables):
      layers.add(tuple('params' if key == STATISTICS else key for key in path))
    flat = traverse_util.flatten_dict(variables)
    learnt = {path: jnp.asarray(x) for path, x in flat.items() if path[:-1] in layers}
    return learnt, self._steps.init(learnt)

  def __call__(self, apply: Apply, variables: PyTree, state: PyTree, mask: jax.Array) -> Result:
    """Returns the outputs with the current weights, and the state after one optimizer step."""
    learnt, steps = state
    flat = traverse_util.flatten_dict(variables)

    def entropy(learnt: PyTree) -> tuple[jax.Array, Outputs]:
      """Returns the mean entropy in nats over rows that are no padding, and the outputs."""
      adapted = traverse_util.unflatten_dict({**flat, **learnt})
      logits, outputs = self.normalised(apply, adapted, mask)
      log_p = jax.nn.log_softmax(jnp.maximum(logits, _MIN_LOGIT))
      entropies = -(jnp.exp(log_p) * log_p).sum(-1)
      return jnp.where(mask, entropies, 0).sum() / mask.sum(), (logits, outputs)

    gradient, answered = jax.grad(entropy, has_aux=True)(learnt)
    updates, steps = self._steps.update(gradient, steps, learnt)
    return answered, (optax.apply_updates(learnt, updates), steps)


ADAPTATIONS = Registry('robustness.models.adaptation', Adaptation)  # type: ignore[type-abstract]


def adapted_layers(variables: PyTree) -> set[tuple[str, ...]]:
  """Returns the paths of all batch normalisation layers within the collection 'batch_stats'.

  A layer counts if it stores exactly a `mean` and a `var`, because other layers may store further
  arrays in the collection, such as fixed filters. The result is empty for variables that are no
  mapping, such as a callable's.
  """
  flat = traverse_util.flatten_dict(variables) if isinstance(variables, Mapping) else {}
  arrays = collections.defaultdict(set)
  for path in flat:
    if STATISTICS in path:
      arrays[path[:-1]].add(path[-1])
  return {layer for layer, names in arrays.items() if names == {'mean', 'var'}}


def moments(x: jax.Array, mask: jax.Array, ddof: int) -> tuple[jax.Array, jax.Array]:
  """Returns the mean and the variance of each channel over rows and positions, float32 [C] each.

  Rows of `x` [B, ..., C] contribute where `mask`, bool [B], is True. The variance divides by the
  number of values minus `ddof`, at least 1.
  """
  x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
  axes = tuple(range(x.ndim - 1))
  weight = mask.reshape(-1, *[1] * (x.ndim - 1)).astype(x.dtype)
  count = mask.sum() * np.prod(x.shape[1:-1], initial=1)
  mean = (weight * x).sum(axes) / count
  squares = (weight * (x - mean.reshape(*[1] * len(axes), -1)) ** 2).sum(axes)
  return mean, squares / jnp.maximum(count - ddof, 1)
