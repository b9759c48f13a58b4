"""Other packages' corruptions as functions of one 8-bit image, where they are installed.

The older ones no longer import beside current NumPy, SciPy and scikit-image; `_restore` gives them
the few names they miss and changes nothing that they compute.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from robustness.corruptions import NAMES

Corruption = Callable[[np.ndarray], Any]

TORCH_CLASSES = {
  'gaussian_noise': 'GaussianNoise',
  'shot_noise': 'ShotNoise',
  'impulse_noise': 'ImpulseNoise',
  'defocus_blur': 'DefocusBlur',
  'glass_blur': 'OriginalGlassBlur',
  'motion_blur': 'MotionBlur',
  'zoom_blur': 'ZoomBlur',
  'snow': 'Snow',
  'frost': 'Frost',
  'fog': 'Fog',
  'brightness': 'Brightness',
  'contrast': 'Contrast',
  'elastic_transform': 'Elastic',
  'pixelate': 'Pixelate',
  'jpeg_compression': 'JPEGCompression',
  'speckle_noise': 'SpeckleNoise',
  'gaussian_blur': 'GaussianBlur',
  'saturate': 'Saturation',
}
UNFAITHFUL = {
  'imagecorruptions': {'elastic_transform', 'pixelate'},
  'torch_uncertainty': {
    'motion_blur',
    'brightness',
    'saturate',
    'elastic_transform',
    'snow',
    'zoom_blur',
    'spatter',
  },
}
"""By module: what is another corruption under the same name (constants or algorithm)."""


def load(module: str) -> types.ModuleType:
  """Imports 'imagecorruptions', 'imagenet_c' or 'torch_uncertainty'."""
  _restore()
  if module == 'torch_uncertainty':
    from tests.models.peers import peer

    peer('torchvision')
    return importlib.import_module('torch_uncertainty.transforms.corruption')
  return _adapted(importlib.import_module(module))


def corruptions(module: str, loaded: types.ModuleType, severity: int) -> dict[str, Corruption]:
  """Returns what a package offers, by our names; each takes uint8 [H, W, 3]."""
  if module == 'torch_uncertainty':
    return {
      name: _on_tensors(getattr(loaded, word)(severity))
      for name, word in TORCH_CLASSES.items()
      if hasattr(loaded, word)
    }
  return {
    name: functools.partial(loaded.corrupt, severity=severity, corruption_name=name)
    for name in NAMES
  }


def _on_tensors(transform: Callable[[Any], Any]) -> Corruption:
  import torch

  def call(image: np.ndarray) -> Any:
    with torch.inference_mode():
      return transform(torch.from_numpy(image.transpose(2, 0, 1).astype(np.float32) / 255))

  return call


def _restore() -> None:
  """Puts back names that older packages import."""
  import scipy.ndimage

  sys.modules.setdefault('scipy.ndimage.interpolation', scipy.ndimage)
  if not hasattr(np, 'float_'):
    np.float_ = np.float64  # type: ignore[attr-defined]
  if importlib.util.find_spec('pkg_resources') is None:
    resources = types.ModuleType('pkg_resources')
    resources.resource_filename = lambda package, path: str(  # type: ignore[attr-defined]
      pathlib.Path(str(sys.modules[package].__file__)).parent / path
    )
    sys.modules['pkg_resources'] = resources


def _adapted(package: types.ModuleType) -> types.ModuleType:
  """Lets a package call scikit-image's `gaussian` by its older signature."""
  from skimage.filters import gaussian

  def older(image: np.ndarray, *args: Any, multichannel: bool = False, **options: Any) -> Any:
    if multichannel:
      options['channel_axis'] = -1
    return gaussian(image, *args, **options)

  sys.modules[f'{package.__name__}.corruptions'].gaussian = older  # type: ignore[attr-defined]
  return package
