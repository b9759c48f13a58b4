"""ZERO: the majority vote of an image's most confident random views, without gradients."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.core import decimals
from robustness.core.registry import setting
from robustness.core.typing import PyTree
from robustness.models import adaptation
from robustness.models.adaptation import Adaptation, Apply, ImageBatch, Result

FLOOR = 1e-4
"""Weight of the mean probabilities, which order classes with equally many votes."""


@dataclasses.dataclass(frozen=True)
class Zero(Adaptation):
  """ZERO: predicts an image by a vote of its augmentations with the lowest entropy.

  The augmentations are the image and random resized crops, which are mirrored with probability ½.
  The logits are logarithms of the shares of votes, mixed with 1e-4 of the mean probabilities of the
  voting augmentations. In a tie, the augmentation with the next lowest entropy that votes for a
  tied class decides. No weights change, so that images are independent of one another.

  Attributes:
    num_views: number of augmentations of an image, including the image.
    voting_share: share of the augmentations that vote.

  Reference:
    Farina et al. (2024), Frustratingly Easy Test-Time Adaptation of Vision-Language Models, section
    3.
  """

  batch_size: int = setting(64, 'at least 1', lambda x: x >= 1)
  source_weight: float = setting(1.0, 'in [0, 1]', lambda x: 0 <= x <= 1)
  num_views: int = setting(64, 'at least 2', lambda x: x >= 2)
  voting_share: float = setting(0.3, 'in (0, 1]', lambda x: 0 < x <= 1)

  def __post_init__(self) -> None:
    """Raises InputError if no view would vote, or for an `order` of the images without effect."""
    super().__post_init__()
    self.require(self.num_voting >= 1, 'voting_share', 'a share that is at least one view')
    # with λ = 1 images are independent of one another, in any order
    has_effect = self.source_weight < 1 or self.order == 'random'
    self.require(has_effect, 'order', "'random' unless source_weight is below 1")

  @property
  def num_voting(self) -> int:
    """The number of augmentations that vote, rounded down."""
    return decimals.floor(self.num_views * self.voting_share)

  def __call__(self, apply: Apply, variables: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Predicts each image by a vote of its augmentations; the state is returned unchanged.

    Args:
      apply: function (variables, images) -> (logits, outputs of layers).
      variables: the trained variables of the network.
      state: the state of the adaptation.
      batch: the images.

    Returns:
      The logits [B, C] of the votes, and the outputs of layers for the images without crops; and
      the state.
    """
    logits_of_images, outputs = self.normalised(apply, variables, batch.images, batch.mask)

    def logits(number: jax.Array) -> jax.Array:
      """Returns the logits of augmentation `number` of every image, [B, C]."""
      keys = jax.vmap(jax.random.fold_in, (0, None))(batch.keys, number)
      images = jax.vmap(crop)(keys, batch.images)
      return self.normalised(apply, variables, images, batch.mask)[0]

    logits_of_crops = jax.lax.map(logits, jnp.arange(1, self.num_views))
    # the image itself is view 0, [views, B, C]
    logits_of_views = jnp.concatenate([logits_of_images[None], logits_of_crops])
    logits_of_votes = jax.vmap(votes, (1, None))(logits_of_views, self.num_voting)  # [B, C]
    return (logits_of_votes, outputs), state


def crop(key: jax.Array, image: jax.Array) -> jax.Array:
  """Returns a random crop of an image, resized to the shape of the image and sometimes mirrored.

  The area is uniform in [.08, 1] of the image's area. The ratio of the sides is log-uniform in
  [3/4, 4/3], as far as it fits, and the position uniform. The crop is mirrored with probability ½.
  The resize is linear and antialiased; at the edges it takes pixels just outside the crop.

  Args:
    key: random key.
    image: [H, W, C].
  """
  key_size, key_place, key_flip = jax.random.split(key, 3)
  # the area of the box in [.08, 1] of the image's, and an exponent in [−1, 1]
  lowest, highest = jnp.array([0.08, -1]), jnp.array([1, 1])
  area, exponent = jax.random.uniform(key_size, (2,), minval=lowest, maxval=highest)
  stretch = (4 / 3) ** (exponent / 2)  # the root of width ÷ height, (4 / 3) ** exponent
  # height and width of the box as shares of the image's
  share = jnp.minimum(jnp.sqrt(area) * jnp.stack([1 / stretch, stretch]), 1)
  # row and column in the image, in pixels, where the box begins
  start = jax.random.uniform(key_place, (2,)) * (1 - share) * jnp.array(image.shape[:2])
  # axes 0 and 1 are scaled by 1 / share and shifted, so that the box fills the image
  resized = jax.image.scale_and_translate(
    image, image.shape, (0, 1), 1 / share, -start / share, 'linear', antialias=True
  )
  return jnp.where(jax.random.bernoulli(key_flip), resized[:, ::-1], resized)


def votes(logits: jax.Array, count: int) -> jax.Array:
  """Returns the logits of an image, [classes], from a vote of its augmentations.

  The `count` augmentations of lowest entropy vote, each for its most probable class. The logit of a
  class is ln((1 − F) s + F p). Here s is the share of the votes, p the mean probability over the
  voting augmentations, and F = `FLOOR`. A tie is broken by the augmentation with the next lowest
  entropy that votes for one of the tied classes.

  Args:
    logits: logits of the augmentations, [views, classes].
    count: number of augmentations that vote.
  """
  size = logits.shape[-1]
  log_p = adaptation.log_probabilities(logits)
  order = jnp.argsort(adaptation.entropy(log_p))  # indices of views, the lowest entropy first
  voted_class = log_p.argmax(-1)[order]  # of all views, in this order; the first `count` vote
  shares = jax.nn.one_hot(voted_class[:count], size, dtype=log_p.dtype).mean(0)
  has_most_votes = shares == shares.max()
  is_tied = has_most_votes.sum() > 1
  # views after the voting ones can break a tie if they are for one of the tied classes
  can_break = has_most_votes[voted_class] & (jnp.arange(len(voted_class)) >= count)
  breaker = can_break.argmax()  # the first of them, which has the lowest entropy
  extra_vote = jax.nn.one_hot(voted_class[breaker], size, dtype=log_p.dtype) / count  # as a share
  shares += jnp.where(is_tied & can_break.any(), extra_vote, 0)
  mean_probability = jnp.exp(log_p[order[:count]]).mean(0)
  # `tiny` keeps the logarithm finite for a mean that is rounded to 0
  return jnp.log((1 - FLOOR) * shares + FLOOR * mean_probability + jnp.finfo(log_p.dtype).tiny)
