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
from robustness.models import adaptation
from robustness.models.adaptation import Adaptation, Apply, ImageBatch, Layers, Outputs, Result
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
  """TENT: minimises the entropy of the predictions, by steps after each batch.

  The loss is the mean entropy −Σ_c p_c log p_c, with the predicted probability p_c of class c. A
  step changes the scale and bias of normalisation layers. The predictions of a batch are from
  before its last step.

  Attributes:
    optimizer: 'adam', or 'sgd' with a momentum of .9.
    nesterov: whether the momentum of 'sgd' is Nesterov's, as in the authors' code and CoTTA's. The
      code of EATA and SAR has plain momentum.
    learning_rate: the learning rate of each step.
    steps: number of steps on each batch.
    protocol: 'per_shift' returns to the trained weights when the perturbation changes, such as the
      corruption or severity. 'continual' keeps the weights. 'episodic' returns to the trained
      weights before every batch.

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
    """Raises InputError for settings that have no effect.

    They are `nesterov` without SGD, and a single step if weights return to the trained ones after
    each batch: a step only affects later predictions.
    """
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
    """Whether the weights are kept when the perturbation of the images changes."""
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
    """Returns whether the parameters of the layer at `path` adapt.

    They do in normalisation layers.

    Args:
      path: names of the modules down to the layer.
      layers: {path: class} of the network's layers.
    """
    return issubclass(layers.get(path, object), NORMALISATIONS)

  def begin(self, variables: PyTree, layers: Layers, num_classes: int) -> PyTree:
    """Returns the initial weights and optimizer state.

    Args:
      variables: the trained variables of the network.
      layers: {path: class} of the network's layers.
      num_classes: number of logits.

    Returns:
      {'weights': {path: parameter}, 'optimizer': its state}. The weights are the parameters that
      adapt, see `is_learnt`.

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
      problem = f'which adapts {self.adapts}, and these have no scale or bias'
      fix = "Set it to '', or to 'statistics' where there is batch normalisation."
      raise SettingError(KEYS.classifier.adaptation.name, self.name, problem=problem, fix=fix)
    return {'weights': weights, 'optimizer': self._optimizer.init(weights)}

  def __call__(self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Takes `self.steps` steps on a batch, and returns outputs and the state after the last step.

    The outputs are computed with the weights before the last step.

    Args:
      apply: function (variables, images) -> (logits, outputs of layers).
      variables: the trained variables of the network.
      state: the state from `begin` or the previous batch.
      batch: the images.
    """
    predict, trained = self.bound(apply, variables, state, batch)
    for number in range(1, self.steps):
      keys = jax.vmap(jax.random.fold_in, (0, None))(batch.keys, number)  # not the last step's
      _, state = self.step(predict, trained, state, batch._replace(keys=keys))
    return self.step(predict, trained, state, batch)

  def bound(
    self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch
  ) -> tuple[Predict, PyTree]:
    """Returns the network as a function of its adapted weights, and their trained values.

    Args:
      apply: function (variables, images) -> (logits, outputs of layers).
      variables: the trained variables of the network.
      state: the state, with the paths of the adapted weights in `state['weights']`.
      batch: the batch; its mask selects the images for statistics of batch normalisation.

    Returns:
      A function (adapted weights {path: array}, images) -> outputs, and {path: trained weight}.
    """
    flat = traverse_util.flatten_dict(variables)

    def predict(weights: PyTree, images: jax.Array) -> Outputs:
      """Applies the network with `weights`, {path: array}, in place of trained weights."""
      changed = traverse_util.unflatten_dict({**flat, **weights})
      return self.normalised(apply, changed, images, batch.mask)

    return predict, {path: flat[path] for path in state['weights']}

  def step(self, predict: Predict, trained: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Takes one optimizer step, and returns the outputs before it and the state after it.

    Args:
      predict: function (adapted weights, images) -> outputs, from `bound`.
      trained: {path: weight} before adaptation.
      state: the state before the step.
      batch: the images.
    """

    def loss(logits: jax.Array) -> tuple[jax.Array, None]:
      """Returns the mean entropy of the predictions, and None."""
      return batch.mean(adaptation.entropy(adaptation.log_probabilities(logits))), None

    gradient, outputs, _ = self.gradient(predict, state['weights'], batch, loss)
    return outputs, self.updated(state, gradient)

  def gradient(
    self, predict: Predict, weights: PyTree, batch: ImageBatch, loss: Loss
  ) -> tuple[PyTree, Outputs, Any]:
    """Returns the gradient of a loss with respect to the adapted weights.

    Args:
      predict: function (adapted weights, images) -> outputs, from `bound`.
      weights: {path: array}, the adapted weights.
      batch: the images.
      loss: called with the logits; returns the loss and further values.

    Returns:
      The gradient {path: array}, the outputs of the network, and the further values.
    """

    def value(weights: PyTree) -> tuple[jax.Array, tuple[Outputs, Any]]:
      """Returns the loss, for `jax.grad`, and (outputs of the network, further values of the loss).

      Args:
        weights: {path: array}, the weights that are adapted.
      """
      outputs = predict(weights, batch.images)
      logits, _ = outputs
      number, further_values = loss(logits)
      return number, (outputs, further_values)

    gradient, (outputs, further_values) = jax.grad(value, has_aux=True)(weights)
    return gradient, outputs, further_values

  def updated(self, state: PyTree, gradient: PyTree) -> dict[str, PyTree]:
    """Returns the state after an optimizer step, given the gradient of the loss."""
    updates, optimizer = self._optimizer.update(gradient, state['optimizer'], state['weights'])
    weights = optax.apply_updates(state['weights'], updates)
    return {**state, 'weights': weights, 'optimizer': optimizer}


@dataclasses.dataclass(frozen=True)
class SelectiveTent(Tent):
  """Base class of methods that learn only from images with confident predictions.

  The entropy of a prediction must be below E₀. The defaults are from the authors' code of EATA and
  SAR for ResNet-50 on ImageNet.

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
    """Takes one step, and returns the outputs before it and the state after it.

    Args:
      predict: function (adapted weights, images) -> outputs, from `bound`.
      trained: {path: weight} before adaptation.
      state: the state before the step.
      batch: the images.
    """
