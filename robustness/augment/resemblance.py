"""How far an augmentation is from a corruption: the minimal sample distance of their features.

f(t) is the mean over fixed images of a feature of the image under t, where t is one draw of an
augmentation or of a transform, the same for all images.

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


def of_augmentation(
  features: Features, images: np.ndarray, augmentation: Augmentation, samples: int, key: jax.Array
) -> np.ndarray:
  """Returns f of each of some samples of an augmentation, [samples, D].

  Args:
    features: pure function from images [B, H, W, C] in [0, 1] to [B, D], such as what the last
      layer but one of a trained network gives.
    images: [N, H, W, C] in [0, 1]; the paper takes 100 training images, uncropped.
    augmentation: for example `Policy.of(rand_augment={}).augmentations[0]`; of one that gives
      several images of an image (augmix) the last one counts. One that mixes images or goes by
      class is refused.
    samples: how many are drawn.
    key: of the draws.
  """
  if augmentation.needs_partner or isinstance(augmentation, Environment):
    raise InputError(
      f'{augmentation.name!r} depends on more than the image: it has no feature of its own.'
    )

  def shown(key: jax.Array, image: jax.Array) -> jax.Array:
    example = {'image': image, 'label': jnp.int32(0), 'example_id': jnp.int32(0)}
    made = augmentation(key, example)['image']
    return made if made.ndim == 3 else made[-1]

  return _means(features, images, shown, samples, key)


def of_transform(
  features: Features, images: np.ndarray, name: str, level: int, draws: int, key: jax.Array
) -> np.ndarray:
  """Returns f of some draws of a transform at one level, [draws, D]; see `of_augmentation`.

  Args:
    features, images, key: see there.
    name: of `robustness.environments.transforms`: a corruption or 'rotation'.
    level: severity or degrees.
    draws: how many; the paper takes 100.

  Raises:
    InputError: an unknown name, or images that it cannot be applied to.
  """
  transforms.check_names('name', (name,))
  rotates = name == transforms.ROTATION
  transforms.check_levels('level', *(((1,), (level,)) if rotates else ((level,), (1,))))
  transforms.get(name).check_shape(images.shape[1:])

  def shown(key: jax.Array, image: jax.Array) -> jax.Array:
    return transforms.transform(key, image, 1, jnp.float32(level), (name,))

  return _means(features, images, shown, draws, key)


def _means(
  features: Features,
  images: np.ndarray,
  shown: Callable[[jax.Array, jax.Array], jax.Array],
  count: int,
  key: jax.Array,
) -> np.ndarray:
  floats = np.issubdtype(np.asarray(images).dtype, np.floating)
  if not (floats and np.size(images) and 0 <= np.min(images) <= np.max(images) <= 1 and count > 0):
    raise InputError(
      f'got {count} draws of images of type {np.asarray(images).dtype} and shape '
      f'{np.shape(images)}; there must be one or more of each, with floats in [0, 1].'
    )
  pictures = jnp.asarray(images, jnp.float32)

  @jax.jit
  def mean(key: jax.Array) -> jax.Array:
    return features(jax.lax.map(lambda image: shown(key, image), pictures)).mean(0)

  return np.stack([np.asarray(mean(own)) for own in jax.random.split(key, count)])


def minimal_sample_distance(augmentation: ArrayLike, corruption: ArrayLike) -> float:
  """Returns min_a ‖f(a) − mean_c f(c)‖₂, 0 where one sample of the augmentation is the corruption.

  An augmentation with one sample near the corruption scores low, however rare that sample is. It is
  not symmetric, never grows with more samples, and has the scale of the features: values compare
  under one classifier only.

  Args:
    augmentation: f of each of A samples of the augmentation, [A, D] (paper: 100 000 samples).
    corruption: f of each of C draws of the corruption at one severity, [C, D] (paper: 100 draws).

  Raises:
    InputError: no samples, or features of another size.
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
