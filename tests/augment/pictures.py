"""Makes pictures for tests of augmentations: foolbox's real ones, or seeded random ones."""

import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image


def real(count=4):
  """Returns pictures of ImageNet as Pillow images of 224 pixels in RGB, or skips the test."""
  spec = importlib.util.find_spec('foolbox')
  if spec is None or not spec.submodule_search_locations:
    pytest.skip("needs foolbox's pictures (pip install '.[imagenet]')")
  folder = pathlib.Path(spec.submodule_search_locations[0]) / 'data'
  files = sorted(folder.glob('imagenet_*'))[:count]
  return [Image.open(file).convert('RGB').resize((224, 224)) for file in files]


def seeded(height, width, count=3):
  """Returns Pillow images of smooth colours and noise, with many levels and uneven histograms."""
  generator = np.random.default_rng(0)
  pictures = []
  for _ in range(count):
    coarse = generator.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
    noisy = 0.7 * smooth + generator.normal(20, 8, smooth.shape)
    pictures.append(Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)))
  return pictures


def batch(pictures):
  """Returns Pillow images as an array, float32 [B, H, W, C] in [0, 1]."""
  arrays = [np.asarray(picture) for picture in pictures]
  return np.stack([a if a.ndim == 3 else a[..., None] for a in arrays]).astype(np.float32) / 255


def augmented(augmentation, keys, image):
  """Returns an image augmented with each key, or each of B images with the key of its index."""
  axis = 0 if np.ndim(image) == 4 else None
  each = jax.vmap(lambda key, image: augmentation(key, {'image': image})['image'], (0, axis))
  return np.asarray(jax.jit(each)(keys, jnp.asarray(image)))
