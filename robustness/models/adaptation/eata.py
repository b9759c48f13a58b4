"""EATA: entropy minimisation on reliable and non-redundant images, with a Fisher penalty."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.registry import setting
from robustness.core.typing import PyTree
from robustness.models import adaptation
from robustness.models.adaptation import Apply, ImageBatch, Layers, Result
from robustness.models.adaptation.tent import Predict, SelectiveTent


@dataclasses.dataclass(frozen=True)
class Eata(SelectiveTent):
  """EATA: minimises the entropy of selected images, with a penalty on changed weights.

  The loss of a batch is Σ e^(E₀ − H) H / n + β Σ_i F_i (θ_i − θ_i⁰)². The first sum is over n
  selected images, and e^(E₀ − H) has no gradient.

  * H is the entropy of the prediction for an image, and E₀ is `margin` · ln C for C classes.
  * An image is selected if H < E₀ and if the cosine of its probabilities and p̄ is below ε. p̄ is
    the moving average (.9) of the mean probabilities of selected images.
  * θ are scales and biases of normalisation layers, and θ⁰ their trained values.
  * F is the squared gradient of the cross-entropy at the predicted classes, averaged over batches
    of unperturbed images.

  There is no step for a batch without selected images.

  Attributes:
    redundancy: ε; above 1 selects all images with H < E₀. The authors take .05 for ImageNet and .4
      for CIFAR-10.
    fisher_weight: β; 0 is the method ETA, which needs no clean images.
    fisher_images: number of unperturbed images for F, rounded up to entire batches.

  Reference:
    Niu et al. (2022), Efficient Test-Time Model Adaptation without Forgetting, equations 2 to 9.
  """

  redundancy: float = setting(0.05, 'above 0', lambda x: 0 < x < np.inf)
  fisher_weight: float = setting(2000.0, 'at least 0', lambda x: 0 <= x < np.inf)
  fisher_images: int = setting(2000, 'at least 1', lambda x: x >= 1, only_with=('fisher_weight',))

  @property
  def num_clean_images(self) -> int:
    """The number of unperturbed images that F, the mean squared gradient, is computed from."""
    return self.fisher_images if self.fisher_weight else 0

  def begin(self, variables: PyTree, layers: Layers, num_classes: int) -> PyTree:
    """Returns the initial weights and optimizer state, with three further keys, which are zeros.

    'fisher' is F, the mean squared gradient, and 'batches' the number of batches in this mean.
    'mean' is p̄ [classes], the average probabilities of selected images.
    """
    state = super().begin(variables, layers, num_classes)
    fisher = jax.tree.map(jnp.zeros_like, state['weights'])
    return {**state, 'fisher': fisher, 'batches': 0, 'mean': jnp.zeros(num_classes)}

  def observe(self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch) -> PyTree:
    """Updates the mean squared gradient F in the state with a batch of unperturbed images.

    Args:
      apply: function (variables, images) -> (logits, outputs of layers).
      variables: the trained variables of the network.
      state: the state before the batch.
      batch: the images.
    """
    predict, _ = self.bound(apply, variables, state, batch)

    def loss(logits: jax.Array) -> tuple[jax.Array, None]:
      """Returns the mean cross-entropy to the predicted classes, and None."""
      return -batch.mean(adaptation.log_probabilities(logits).max(-1)), None

    gradient, _, _ = self.gradient(predict, state['weights'], batch, loss)
    batches = state['batches'] + 1
    # the mean over the batches so far
    fisher = jax.tree.map(lambda f, g: f + (g**2 - f) / batches, state['fisher'], gradient)
    return {**state, 'fisher': fisher, 'batches': batches}

  def step(self, predict: Predict, trained: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Takes one step, and returns the outputs before it and the state after it.

    The state is unchanged if no image is selected.

    Args:
      predict: function (adapted weights, images) -> outputs, from `bound`.
      trained: {path: weight} before adaptation.
      state: the state before the step.
      batch: the images.
    """
    past_mean = state['mean']  # p̄, 0 before the first selected image
    has_mean = past_mean.any()

    def loss(logits: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
      """Returns the weighted mean entropy of selected images, which adaptation by EATA minimises.

      Images are selected if their entropy is below E₀ and their probabilities p are unlike the
      moving average p̄ (`past_mean`). Their weight is exp(E₀ − entropy).

      Args:
        logits: [B, C].

      Returns:
        The loss, and (number of selected images, sum of their p divided by the number, [C]).
      """
      log_p = adaptation.log_probabilities(logits)
      p, entropies = jax.lax.stop_gradient(jnp.exp(log_p)), adaptation.entropy(log_p)
      products = p @ past_mean
      norms = jnp.linalg.norm(p, axis=-1) * jnp.linalg.norm(past_mean)
      cosine = products / jnp.maximum(norms, 1e-8)
      e0 = self.max_entropy(logits)  # E₀
      is_new = ~has_mean | (cosine < self.redundancy)  # p is unlike p̄, or there is no p̄ yet
      is_selected = batch.mask & (entropies < e0) & is_new
      # the weight of an image in a mean over the selected ones: 1 / their number, or 0
      share = is_selected / jnp.maximum(is_selected.sum(), 1)
      weight = jnp.exp(e0 - jax.lax.stop_gradient(entropies))
      return (share * weight * entropies).sum(), (is_selected.sum(), share @ p)

    gradient, outputs, (count, batch_mean) = self.gradient(predict, state['weights'], batch, loss)
    for path, fisher in state['fisher'].items():
      # the gradient 2 β F (θ − θ⁰) of the penalty β F (θ − θ⁰)²
      change = state['weights'][path] - trained[path]
      gradient[path] += 2 * self.fisher_weight * fisher * change
    stepped = self.updated(state, gradient)
    stepped['mean'] = jnp.where(has_mean, 0.9 * past_mean + 0.1 * batch_mean, batch_mean)
    return outputs, jax.tree.map(lambda x, y: jnp.where(count > 0, x, y), stepped, state)
