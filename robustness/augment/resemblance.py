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
Transform = Callable[[jax.Array, jax.Array], jax.Array]
"""A function from a random key and an image [H, W, C] to the changed image."""


def of_augmentation(
  features: Features, images: np.ndarray, augmentation: Augmentation, samples: int, key: jax.Array
) -> np.ndarray:
  """Returns the mean features of the images for many random draws of an augmentation, [samples, D].

  A draw changes all images with the same random numbers. Its features are averaged over the images.

  Args:
    features: pure function from images [B, H, W, C] in [0, 1] to [B, D], such as the output of the
      penultimate layer of a trained network.
    images: [N, H, W, C] in [0, 1]; the paper takes 100 training images, uncropped.
    augmentation: for example `Policy.of(rand_augment={}).augmentations[0]`. If it returns several
      images (augmix), the last one is used.
    samples: number of draws.
    key: random key.

  Raises:
    InputError: The augmentation depends on other images of the batch or on the class.
  """
  if augmentation.needs_partner or isinstance(augmentation, Environment):
    raise InputError(
      f'{augmentation.name!r} depends on more than the image: it has no feature of its own.'
    )

  def augmented(key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after the augmentation with a random key, [H, W, C]."""
    # the label and the id are placeholders, on which the augmentation does not depend
    example = {'image': image, 'label': jnp.int32(0), 'example_id': jnp.int32(0)}
    variants = augmentation(key, example)['image']
    # of an augmentation that returns several images, such as AugMix's, the last is a changed one
    return variants if variants.ndim == 3 else variants[-1]

  return _means(features, images, augmented, samples, key)


def of_transform(
  features: Features, images: np.ndarray, name: str, level: int, draws: int, key: jax.Array
) -> np.ndarray:
  """Returns the mean features of the images for many random draws of a corruption, [draws, D].

  A draw changes all images with the same random numbers. Its features are averaged over the images.

  Args:
    features: function from images to features, as in `of_augmentation`.
    images: [N, H, W, C] in [0, 1].
    name: name of a corruption, or 'rotation'.
    level: severity of a corruption in 1..5, or angle of a rotation in degrees.
    draws: number of draws; the paper takes 100.
    key: random key.

  Raises:
    InputError: The name is unknown, or the corruption cannot be applied to the images.
  """
  transforms.check_names('name', (name,))
  # `level` is an angle or a severity; 1 stands for the other one, since it is valid for both
  if name == transforms.ROTATION:
    transforms.check_levels('level', severities=(1,), angles=(level,))
  else:
    transforms.check_levels('level', severities=(level,), angles=(1,))
  transforms.get(name).check_shape(images.shape[1:])

  def transformed(key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image after the corruption with a random key, [H, W, C]."""
    # transform number 1, the only one in (name,); number 0 is the clean image
    return transforms.transform(key, image, 1, jnp.float32(level), (name,))

  return _means(features, images, transformed, draws, key)


def _means(
  features: Features, images: np.ndarray, transform: Transform, count: int, key: jax.Array
) -> np.ndarray:
  """Returns the mean features of the images for each of `count` random draws, [count, D].

  Args:
    features: function from images [B, H, W, C] to features [B, D].
    images: [N, H, W, C] in [0, 1].
    transform: function from a random key and an image to the changed image. All images have the
      same key in one draw.
    count: number of draws.
    key: random key.
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
    """Returns the mean features of all images after one random draw, [D]."""
    return features(jax.lax.map(lambda image: transform(key, image), pictures)).mean(0)

  return np.stack([np.asarray(mean(draw_key)) for draw_key in jax.random.split(key, count)])


def minimal_sample_distance(augmentation: ArrayLike, corruption: ArrayLike) -> float:
  """Returns how close an augmentation comes to a corruption, min_a ‖f(a) − mean_c f(c)‖₂.

  f are the mean features for a draw a of the augmentation or a draw c of the corruption. The
  distance is small if a single draw of the augmentation is close to the corruption, however rare
  such draws are. More draws never make it larger. It is not symmetric. It has the scale of the
  features, so compare values of the same classifier only.

  Args:
    augmentation: f for A draws of the augmentation, [A, D], from `of_augmentation` (paper: 100 000
      draws).
    corruption: f for C draws of the corruption at one severity, [C, D], from `of_transform` (paper:
      100 draws).

  Raises:
    InputError: There are no draws, or D differs.
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
