"""SAR: sharpness-aware entropy minimisation on reliable images, with recovery from collapse."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from robustness.core.registry import setting
from robustness.core.typing import PyTree
from robustness.models import adaptation
from robustness.models.adaptation import ImageBatch, Layers, Result
from robustness.models.adaptation.tent import Predict, SelectiveTent


@dataclasses.dataclass(frozen=True)
class Sar(SelectiveTent):
  """SAR: sharpness-aware minimisation of the entropy of reliable images.

  Let w be the weights, and g the gradient at w of the mean entropy of images with an entropy below
  E₀. E₀ is `margin` · ln C for C classes. The loss is the mean entropy of reliable images at w + ρ
  g / ‖g‖. An image is reliable if its entropy is below E₀ both at w and at w + ρ g / ‖g‖.

  The weights return to the trained ones after each batch in which a moving average of the loss,
  with decay .9, is below `recovery`. As in the authors' code the average is not reset then, so that
  the weights may return after several batches in a row.

  Attributes:
    radius: ρ.
    recovery: the average in nats below which the weights return to the trained ones; 0 for never.
    fixed_layers: paths of layers with parameters that do not adapt, such as 'block11' or 'norm'.

  Reference:
    Niu et al. (2023), Towards Stable Test-Time Adaptation in Dynamic Wild World, equations 2 to 4.
  """

  adapts = 'normalisation layers outside of fixed_layers'

  radius: float = setting(0.05, 'at least 0', lambda x: 0 <= x < np.inf)
  recovery: float = setting(0.2, 'at least 0', lambda x: 0 <= x < np.inf)
  fixed_layers: tuple[str, ...] = ('stage4', 'block9', 'block10', 'block11', 'norm')

  def is_learnt(self, path: tuple[str, ...], layers: Layers) -> bool:
    """Returns whether the parameters of the layer at `path` adapt.

    They do in normalisation layers outside of `fixed_layers`.

    Args:
      path: names of the modules down to the layer.
      layers: {path: class} of the network's layers.
    """
    # of 'stage4/block0/bn1': 'stage4', 'stage4/block0' and the path itself
    starts = {'/'.join(path[: count + 1]) for count in range(len(path))}
    return super().is_learnt(path, layers) and not starts & {*self.fixed_layers}

  def begin(self, variables: PyTree, layers: Layers, num_classes: int) -> PyTree:
    """Returns the initial weights and optimizer state, and the average of the loss, ∞ at first."""
    return {**super().begin(variables, layers, num_classes), 'average': jnp.inf * jnp.ones(())}

  def step(self, predict: Predict, trained: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Takes one step, and returns the outputs before it and the state after it.

    If the moving average of the loss is below `recovery` after the step, the predictions have
    collapsed. Weights and optimizer then return to the initial ones, and the average stays.

    Args:
      predict: function (adapted weights, images) -> outputs, from `bound`.
      trained: {path: weight} before adaptation.
      state: the state before the step.
      batch: the images.
    """
    entropy = functools.partial(self._mean_entropy, batch.mask)
    ascent, outputs, (reliable, _) = self.gradient(predict, state['weights'], batch, entropy)
    # the step uses the gradient at nearby weights, which are `radius` away along `ascent`
    scale = self.radius / (optax.tree.norm(ascent) + 1e-12)
    nearby = jax.tree.map(lambda w, g: w + scale * g, state['weights'], ascent)
    entropy = functools.partial(self._mean_entropy, reliable)
    gradient, _, (reliable, mean_entropy) = self.gradient(predict, nearby, batch, entropy)
    average = state['average']
    # the average begins as ∞, and stays where no image is reliable
    moved = jnp.where(jnp.isinf(average), mean_entropy, 0.9 * average + 0.1 * mean_entropy)
    average = jnp.where(reliable.any(), moved, average)
    stepped = {**self.updated(state, gradient), 'average': average}
    initial = {'weights': trained, 'optimizer': self._optimizer.init(trained), 'average': average}
    has_collapsed = average < self.recovery
    return outputs, jax.tree.map(functools.partial(jnp.where, has_collapsed), initial, stepped)

  def _mean_entropy(
    self, rows: jax.Array, logits: jax.Array
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Returns the mean entropy of reliable images, as a loss for `gradient`.

    An image is reliable if its entropy is below the limit E₀, `max_entropy`, a share of log C.

    Args:
      rows: bool [B], the images that may be reliable; the others are left out.
      logits: [B, C].

    Returns:
      The mean (0 if no image is reliable), and a pair of the reliable images, bool [B], and the
      same mean.
    """
    entropies = adaptation.entropy(adaptation.log_probabilities(logits))
    reliable = rows & (entropies < self.max_entropy(logits))
    mean = jnp.where(reliable, entropies, 0).sum() / jnp.maximum(reliable.sum(), 1)
    return mean, (reliable, mean)
