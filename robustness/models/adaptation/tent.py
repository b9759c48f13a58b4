"""TENT: entropy minimisation by the scales and biases of normalisation layers."""

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import traverse_util

from robustness.core.errors import KEYS, SettingError
from robustness.core.registry import setting, word
from robustness.core.typing import PyTree
from robustness.models.adaptation import (
  Adaptation,
  Apply,
  ImageBatch,
  Layers,
  Outputs,
  Result,
  entropy,
  log_probabilities,
)
from robustness.models.layers import GroupNorm

Predict = Callable[[PyTree, jax.Array], Outputs]
"""A function that applies the network to images [B, H, W, C] with weights {path: array}, which
replace trained ones."""
Loss = Callable[[jax.Array], tuple[jax.Array, Any]]
"""A function from logits [B, classes] to the loss and further values."""
NORMALISATIONS = (nn.BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm, nn.RMSNorm, GroupNorm)
"""The layers with scales and biases that adapt."""


@dataclasses.dataclass(frozen=True)
class Tent(Adaptation):
  """Minimises the mean entropy of the predictions, −Σ_c p_c log p_c, by a step after each batch.

  Here p_c is the predicted probability of class c. A step changes the scale and bias of
  normalisation layers. The predictions of a batch are from before its last step.

  Attributes:
    optimizer: 'adam', or 'sgd' with a momentum of .9.
    nesterov: whether the momentum of 'sgd' is Nesterov's, as in the authors' code and CoTTA's; the
      code of EATA and SAR has plain momentum.
    learning_rate: the learning rate of each step.
    steps: number of steps on each batch.
    protocol: 'per_shift' returns to the trained weights at the start of every view, or, for stored
      corrupted images, of every corruption and severity; 'continual' continues with the weights
      from the previous view; 'episodic' returns to the trained weights before every batch.

  Reference:
    Wang et al. (2021), Tent: Fully Test-Time Adaptation by Entropy Minimization, section 3.
  """

  kinds: ClassVar[tuple[type[nn.Module], ...]] = NORMALISATIONS
  adapts = 'normalisation layers'

  optimizer: str = word('adam', ('adam', 'sgd'))
  nesterov: bool = True
  learning_rate: float = setting(1e-3, 'above 0', lambda x: 0 < x < np.inf)
  steps: int = setting(1, 'at least 1', lambda x: x >= 1)
  protocol: str = word('per_shift', ('per_shift', 'continual', 'episodic'))

  def __post_init__(self) -> None:
    super().__post_init__()
    # 'adam' ignores the setting, which must therefore keep its default
    is_used = self.optimizer == 'sgd'
    self.require(is_used or self.nesterov, 'nesterov', "True unless optimizer is 'sgd'")
    # A step only affects later predictions, and 'episodic' returns to the trained weights after
    # each batch: a single step would have no effect.
    has_effect = self.steps > 1 or not self.is_episodic
    self.require(has_effect, 'steps', "at least 2 where protocol is 'episodic'")

  @property
  def is_continual(self) -> bool:
    """Whether the weights are kept from view to view."""
    return self.protocol == 'continual'

  @property
  def is_episodic(self) -> bool:
    """Whether every batch starts from the trained weights."""
    return self.protocol == 'episodic'

  @property
  def _optimizer(self) -> optax.GradientTransformation:
    """The optimizer that takes the steps."""
    if self.optimizer == 'sgd':
      return optax.sgd(self.learning_rate, momentum=0.9, nesterov=self.nesterov)
    return optax.adam(self.learning_rate)

  def is_learnt(self, path: tuple[str, ...], layers: Layers) -> bool:
    """Returns whether the parameters of the layer at `path` adapt; `layers` is {path: class}."""
    return issubclass(layers.get(path, object), NORMALISATIONS)

  def begin(self, variables: PyTree, layers: Layers, num_classes: int) -> PyTree:
    """See `Adaptation.begin`; returns {'weights': {path: parameter}, 'optimizer': its state}.

    The weights are the parameters that adapt, see `is_learnt`.

    Raises:
      SettingError: no parameter adapts.
    """
    weights = {}
    for path, x in traverse_util.flatten_dict(variables).items():
      if 'params' in path:
        # (..., 'params', *layer, name of the parameter); a probe adds 'network' before 'params'
        layer = path[path.index('params') + 1 : -1]
        if self.is_learnt(layer, layers):
          weights[path] = jnp.asarray(x)
    if not weights:
      raise SettingError(
        KEYS.classifier.adaptation.name,
        self.name,
        problem=f'which adapts {self.adapts}, and these have no scale or bias',
        fix="Set it to '', or to 'statistics' where there is batch normalisation.",
      )
    return {'weights': weights, 'optimizer': self._optimizer.init(weights)}

  def __call__(self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Takes `self.steps` steps on a batch, and returns outputs with the state after the last step.

    The outputs are computed with the weights before the last step.
    """
    predict, trained = self.bound(apply, variables, state, batch)
    for number in range(1, self.steps):
      keys = jax.vmap(jax.random.fold_in, (0, None))(batch.keys, number)  # not the last step's
      _, state = self.step(predict, trained, state, batch._replace(keys=keys))
    return self.step(predict, trained, state, batch)

  def bound(
    self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch
  ) -> tuple[Predict, PyTree]:
    """Returns the function `predict` of a batch's images, and {path: weight before adaptation}.

    `predict(weights, images)` returns the network's outputs with `weights`, {path: array}, in place
    of trained ones. Its batch normalisation uses `batch.mask`. The second result has the paths of
    the weights that adapt, in state['weights'], with their values in the trained `variables`.
    """
    flat = traverse_util.flatten_dict(variables)

    def predict(weights: PyTree, images: jax.Array) -> Outputs:
      """Returns the outputs with `weights`, {path: array}, in place of the trained ones."""
      changed = traverse_util.unflatten_dict({**flat, **weights})
      return self.normalised(apply, changed, images, batch.mask)

    return predict, {path: flat[path] for path in state['weights']}

  def step(self, predict: Predict, trained: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Returns the outputs with the current weights, and the state after one optimizer step.

    `predict` is the function (adapted weights, images) -> outputs, `trained` has {path: weight}
    before adaptation; both are from `bound`.
    """

    def loss(logits: jax.Array) -> tuple[jax.Array, None]:
      """Returns the mean entropy of the predictions."""
      return batch.mean(entropy(log_probabilities(logits))), None

    gradient, outputs, _ = self.gradient(predict, state['weights'], batch, loss)
    return outputs, self.updated(state, gradient)

  def gradient(
    self, predict: Predict, weights: PyTree, batch: ImageBatch, loss: Loss
  ) -> tuple[PyTree, Outputs, Any]:
    """Returns the gradient of a loss by the weights, the outputs, and the loss's second result.

    `loss` takes the logits of the batch and returns (number, further values).
    """

    def value(weights: PyTree) -> tuple[jax.Array, tuple[Outputs, Any]]:
      """Returns the loss, and the outputs with the loss's second result."""
      logits, layers = predict(weights, batch.images)
      number, further_values = loss(logits)
      return number, ((logits, layers), further_values)

    gradient, (outputs, further_values) = jax.grad(value, has_aux=True)(weights)
    return gradient, outputs, further_values

  def updated(self, state: PyTree, gradient: PyTree) -> dict[str, PyTree]:
    """Returns the state after a step of the optimizer with this gradient of the loss."""
    updates, optimizer = self._optimizer.update(gradient, state['optimizer'], state['weights'])
    weights = optax.apply_updates(state['weights'], updates)
    return {**state, 'weights': weights, 'optimizer': optimizer}


@dataclasses.dataclass(frozen=True)
class SelectiveTent(Tent):
  """Base class of methods that learn only from images with predictions of entropy below E₀.

  The defaults are from the authors' code of EATA and SAR for ResNet-50 on ImageNet.

  Attributes:
    margin: E₀ divided by ln C, for C classes.
  """

  batch_size: int = setting(64, 'at least 1', lambda x: x >= 1)
  optimizer: str = word('sgd', ('adam', 'sgd'))
  nesterov: bool = False
  learning_rate: float = setting(2.5e-4, 'above 0', lambda x: 0 < x < np.inf)
  margin: float = setting(0.4, 'in (0, 1]', lambda x: 0 < x <= 1)

  def max_entropy(self, logits: jax.Array) -> float:
    """Returns E₀ in nats for logits [..., C]."""
    return self.margin * math.log(logits.shape[-1])

  @abc.abstractmethod
  def step(self, predict: Predict, trained: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Returns the outputs with the current weights, and the state after one step.

    `predict` is the function (adapted weights, images) -> outputs, `trained` has {path: weight}
    before adaptation; both are from `bound`.
    """
