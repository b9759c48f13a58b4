"""Where images are stored, one file a kind; `open_source` picks the module by name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from input_pipeline.settings import DataSettings
from robustness.core.settings import choice

if TYPE_CHECKING:
  from input_pipeline.images import Source

MODULES = {
  'digits': 'input_pipeline.sources.digits',
  'tfds': 'input_pipeline.tfds_sets',
  'folder': 'input_pipeline.sources.folder',
  'npz': 'input_pipeline.sources.npz',
  'npy': 'input_pipeline.sources.npy',
  'foolbox': 'input_pipeline.sources.foolbox',
  'cifar10_c': 'input_pipeline.sources.cifar10_c',
  'cifar100_c': 'input_pipeline.sources.cifar10_c',
  'cifar10_1': 'input_pipeline.sources.cifar10_1',
  'imagenet_c': 'input_pipeline.sources.imagenet_c',
  'tiny_imagenet_c': 'input_pipeline.sources.imagenet_c',
  'tfds_corrupted': 'input_pipeline.sources.tfds_corrupted',
  'si_score': 'input_pipeline.sources.si_score',
  'video_neighbors': 'input_pipeline.sources.video_neighbors',
  'made_clips': 'input_pipeline.sources.made_clips',
  'scenes': 'input_pipeline.sources.scenes',
  'drawn_scenes': 'input_pipeline.sources.drawn_scenes',
  'environments': 'input_pipeline.sources.environments',
  'natural_shifts': 'input_pipeline.sources.natural_shifts',
}


def open_source(settings: DataSettings) -> Source:
  """Returns the source that `settings.source` names; its module has a function `open_source`."""
  choice('config.data.source', settings.source, MODULES)
  return importlib.import_module(MODULES[settings.source]).open_source(settings)
