"""The minimal sample distance of an augmentation from a corruption, in the features of a network.

f(t) is the mean over fixed images of the features of t(image), where t is one random draw of an
augmentation or transform, the same for all images.

Reference:
  Mintun, Kirillov & Xie (2021), On Interaction Between Augmentations and Corruptions in Natural
  Corruption Robustness, section 3.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from robustness.augment import Augmentation
from robustness.augment.environment import Environment
from robustness.core.errors import InputError
from robustness.environments import transforms

Features = Callable[[jax.Array], jax.Array]
"""A function from images [B, H, W, C] in [0, 1] to their features [B, D]."""


def of_augmentation(
  features: Features, images: np.ndarray, augmentation: Augmentation, samples: int, key: jax.Array
) -> np.ndarray:
  """Returns the features of random samples of an augmentation, [samples, D].

  A sample is the mean over the N images of their features after one draw of the augmentation.

  Args:
    features: Pure function from images [B, H, W, C] in [0, 1] to [B, D], such as the output of the
      penultimate layer of a trained network.
    images: [N, H, W, C] in [0, 1]; the paper takes 100 training images, uncropped.
    augmentation: For example `Policy.of(rand_augment={}).augmentations[0]`. If it returns several
      images (augmix), the last one is used. If it depends on other rows or on the class, InputError
      is raised.
    samples: Number of samples.
    key: Random key.
  """
  if augmentation.needs_partner or isinstance(augmentation, Environment):
    problem = 'depends on more than the image: it has no feature of its own'
    raise InputError(f'{augmentation.name!r} {problem}.')

  def augmented(key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns an image after one draw of the augmentation, [H, W, C]."""
    # the label and the id are placeholders, on which the augmentation does not depend
    example = {'image': image, 'label': jnp.int32(0), 'example_id': jnp.int32(0)}
    variants = augmentation(key, example)['image']
    # of an augmentation that returns several images, such as AugMix's, the last is a changed one
    return variants if variants.ndim == 3 else variants[-1]

  return _means(features, images, augmented, samples, key)


def of_transform(
  features: Features, images: np.ndarray, name: str, level: int, draws: int, key: jax.Array
) -> np.ndarray:
  """Returns the mean features of the images after each random draw of a transform, [draws, D].

  Args:
    features: Function from images to features, as in `of_augmentation`.
    images: [N, H, W, C] in [0, 1].
    name: Transform of `robustness.environments.transforms`: a corruption or 'rotation'.
    level: Severity of a corruption in 1..5, or angle of a rotation in degrees.
    draws: Number of draws; the paper takes 100.
    key: Random key.

  Raises:
    InputError: The name is unknown, or the transform cannot be applied to the images.
  """
  transforms.check_names('name', (name,))
  # `level` is one of them; 1 is a valid severity and a valid angle
  severity, angle = (1, level) if name == transforms.ROTATION else (level, 1)
  transforms.check_levels('level', severities=(severity,), angles=(angle,))
  transforms.get(name).check_shape(images.shape[1:])

  def transformed(key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns an image after one draw of the transform, [H, W, C]."""
    # transform number 1, the only one in (name,); number 0 is the clean image
    return transforms.transform(key, image, 1, jnp.float32(level), (name,))

  return _means(features, images, transformed, draws, key)


def _means(
  features: Features,
  images: np.ndarray,
  transform: Callable[[jax.Array, jax.Array], jax.Array],
  count: int,
  key: jax.Array,
) -> np.ndarray:
  """Returns the mean features of images after each of `count` draws of a transform, [count, D].

  `transform` is a function of a key and an image; all images of a draw have the same key.
  """
  is_float = np.issubdtype(np.asarray(images).dtype, np.floating)
  is_valid = is_float and np.size(images) and 0 <= np.min(images) <= np.max(images) <= 1
  if not is_valid or count < 1:
    raise InputError(
      f'got {count} draws of images of type {np.asarray(images).dtype} and shape '
      f'{np.shape(images)}; there must be one or more of each, with floats in [0, 1].'
    )
  pictures = jnp.asarray(images, jnp.float32)

  @jax.jit
  def mean(key: jax.Array) -> jax.Array:
    """Returns the mean features [D] of all images after the draw with a key."""
    return features(jax.lax.map(lambda image: transform(key, image), pictures)).mean(0)

  return np.stack([np.asarray(mean(draw_key)) for draw_key in jax.random.split(key, count)])


def minimal_sample_distance(augmentation: ArrayLike, corruption: ArrayLike) -> float:
  """Returns min_a ‖f(a) − mean_c f(c)‖₂ over samples a of an augmentation and c of a corruption.

  f are features, from `of_augmentation` and `of_transform`. The distance is 0 if the features of a
  sample of the augmentation equal the mean features of the corruption. An augmentation with
  one sample near the corruption has a small distance, however rare that sample is. The distance is
  not symmetric, never grows with more samples, and has the scale of the features: compare values of
  the same classifier only.

  Args:
    augmentation: f of A samples of the augmentation, [A, D] (paper: 100 000 samples).
    corruption: f of C draws of the corruption at one severity, [C, D] (paper: 100 draws).

  Raises:
    InputError: There are no samples, or D differs.
  """
  samples, draws = np.asarray(augmentation, float), np.asarray(corruption, float)
  for name, values in (('augmentation', samples), ('corruption', draws)):
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
      raise InputError(
        f'{name} has the shape {values.shape}; give the finite features of one sample or more, '
        '[samples, features].'
      )
  if samples.shape[1] != draws.shape[1]:
    raise InputError(
      f'augmentation has {samples.shape[1]} features and corruption {draws.shape[1]}: both must be '
      'of one classifier.'
    )
  return float(np.sqrt(((samples - draws.mean(0)) ** 2).sum(1).min()))
