"""The 20 labelled ImageNet pictures that come with the package foolbox (MIT licence).

A file is called `imagenet_<number>_<class>.jpg`; `example_id` is its number. Classes are the 19
that occur, sorted by WordNet identifier.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np
import tensorflow as tf

from input_pipeline.images import MemoryStore, Source, encoded
from input_pipeline.settings import DataSettings
from input_pipeline.sources.folder import header_sizes, read_file
from robustness.core.errors import InputError
from robustness.core.settings import choice

WNIDS = {
  22: 'n01614925',
  99: 'n01855672',
  129: 'n02006656',
  243: 'n02108422',
  251: 'n02110341',
  305: 'n02172182',
  317: 'n02259212',
  438: 'n02815834',
  455: 'n02877765',
  471: 'n02950826',
  541: 'n03249569',
  559: 'n03376595',
  609: 'n03594945',
  630: 'n03680355',
  741: 'n03998194',
  853: 'n04417672',
  915: 'n04613696',
  949: 'n07745940',
  990: 'n12768682',
}
"""WordNet identifiers by the position in ImageNet's 1000 classes that a file's name tells."""


def open_source(settings: DataSettings) -> Source:
  """Returns the 20 pictures, uint8 RGB.

  Raises:
    InputError: another split than 'test', or the package is not installed.
  """
  choice('config.data.split', settings.split, ('test',))
  paths = [str(path) for path in sorted(_folder().glob('imagenet_*.jpg'))]
  if not paths:
    raise InputError(f'{_folder()} holds no ImageNet pictures: use foolbox 3.')
  classes = list(WNIDS)
  numbers = [int(Path(path).stem.rpartition('_')[2]) for path in paths]
  labels = np.array([classes.index(number) for number in numbers], np.int32)
  return Source(
    title='foolbox',
    description={'source': 'foolbox', 'split': settings.split},
    num_examples=len(paths),
    class_names=tuple(WNIDS.values()),
    channels=3,
    store=MemoryStore(tf.constant(encoded(paths)), tf.constant(labels)),
    read=functools.partial(read_file, channels=3),
    where=lambda index: f'{paths[index]} (example {index})',
    sizes=functools.partial(header_sizes, paths),
  )


def _folder() -> Path:
  """Returns the package's folder of pictures; the package itself is not imported."""
  spec = importlib.util.find_spec('foolbox')
  if spec is None or not spec.submodule_search_locations:
    raise InputError(
      "config.data.source is 'foolbox', which is not installed: pip install "
      "'.[imagenet]', or read your own pictures with --config.data.source=folder "
      '--config.data.path=DIR.'
    )
  return Path(spec.submodule_search_locations[0], 'data')
