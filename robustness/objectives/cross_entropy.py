"""Cross-entropy with label smoothing, and AugMix's objective for several images per row."""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from robustness.augment import multi_image_augmentations
from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting
from robustness.objectives import Arrays, Minimised, Objective, State, Total

MIN_PROBABILITY = 1e-7  # lower bound of the mixture's probabilities, as in the released code


@dataclasses.dataclass(frozen=True)
class CrossEntropy(Objective):
  """Cross-entropy with label smoothing, in nats.

  The loss is −Σ_k q_k·log softmax(z)_k for the logits z and the smoothed target q. It is averaged
  over the images that augmentation makes of a training image.

  Attributes:
    label_smoothing: ε in [0, 1); the smoothed target is (1 − ε)·target + ε / classes.

  Reference:
    Szegedy et al. (2016), Rethinking the Inception Architecture, section 7.
  """

  name = 'cross_entropy'
  label_smoothing: float = setting(0.0, 'in [0, 1)', lambda x: 0 <= x < 1)

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """Returns the losses with equal weights, the unchanged state and no metrics."""
    losses = cross_entropy(outputs['logits'], batch['target'], self.label_smoothing)
    return losses, jnp.ones_like(losses), state, {}


@dataclasses.dataclass(frozen=True)
class JSD(Objective):
  """AugMix's objective CE(z_1) + λ·JS(p_1, …, p_V) for V ≥ 2 images of each training image.

  CE(z_1) is the cross-entropy of the first image, which is the clean one with AugMix. JS is the
  Jensen–Shannon divergence of the predicted probabilities p_v of all V images.

  All images of a batch pass the network together. Batch normalisation thus uses statistics of clean
  and mixed images, as in the released code. Metrics are `clean_loss` and `divergence`.

  Attributes:
    weight: weight λ ≥ 0 of the divergence.
    label_smoothing: ε in [0, 1); the smoothed target is (1 − ε)·target + ε / classes.

  Reference:
    Hendrycks et al. (2020), AugMix, section 3: λ = 12 and V = 3.
  """

  name = 'jsd'
  weight: float = setting(12.0, 'at least 0', lambda x: 0 <= x < float('inf'))
  label_smoothing: float = setting(0.0, 'in [0, 1)', lambda x: 0 <= x < 1)

  def __call__(self, outputs: Arrays, batch: Arrays, state: State, total: Total) -> Minimised:
    """Returns the losses of examples with several images each, equal weights, state and metrics.

    The loss is the cross-entropy of the first image, which is clean, plus a weight times the
    Jensen–Shannon divergence of the predictions for all images.

    Args:
      outputs: `logits`, [B, V, classes] for V images of each example.
      batch: `target`, the class probabilities [B, classes].
      state: state of the objective, returned unchanged.
      total: not used.

    Raises:
      InputError: augmentation returns one image per example, so that there is nothing to compare.
    """
    logits = outputs['logits'].astype(jnp.float32)
    if logits.ndim != 3:
      raise InputError(
        "the objective 'jsd' compares several images of a row, and the policy gives one: put "
        f'{multi_image_augmentations()} into {KEYS.classifier.augment.policy}.'
      )
    clean = cross_entropy(logits[:, 0], batch['target'], self.label_smoothing)
    divergence = jensen_shannon(logits)
    metrics = {'clean_loss': clean.mean(), 'divergence': divergence.mean()}
    losses = clean + self.weight * divergence
    return losses, jnp.ones_like(losses), state, metrics


def cross_entropy(logits: jax.Array, target: jax.Array, smoothing: float = 0.0) -> jax.Array:
  """Returns the cross-entropy with smoothed targets in nats, float32 [B].

  Args:
    logits: z [B, classes], or [B, V, classes] for the mean over V images.
    target: q [B, classes], with sums of 1.
    smoothing: ε in [0, 1); the smoothed target is (1 − ε)·q + ε / classes.
  """
  logits, smoothed = logits.astype(jnp.float32), optax.smooth_labels(target, smoothing)
  if logits.ndim == 2:
    return optax.softmax_cross_entropy(logits, smoothed)
  targets = jnp.broadcast_to(smoothed[:, None], logits.shape)
  return optax.softmax_cross_entropy(logits, targets).mean(1)


def jensen_shannon(logits: jax.Array) -> jax.Array:
  """Returns the Jensen–Shannon divergence of V predictions in nats, float32 [B].

  It is 1/V Σ_v KL(p_v ‖ m), from 0 to ln V, with the mixture m = max(1/V Σ_v p_v, 10⁻⁷).

  Args:
    logits: z [B, V, classes], with the predictions p_v = softmax(z_v).
  """
  log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
  p = jnp.exp(log_p)
  log_mixture = jnp.log(jnp.clip(p.mean(1, keepdims=True), MIN_PROBABILITY, 1))
  return (p * (log_p - log_mixture)).sum(-1).mean(-1)
