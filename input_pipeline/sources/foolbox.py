"""The 20 labelled ImageNet pictures that come with the package foolbox (MIT licence).

A file is called `imagenet_<number>_<class>.jpg`; `example_id` is its number. Classes are the 19
that occur, sorted by WordNet identifier.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from input_pipeline.image_files import file_images
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import InputError

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


class Foolbox(Source):
  """The 20 labelled ImageNet pictures that come with the package foolbox."""

  splits = ('test',)

  def open(self, settings: DataSettings) -> Images:
    """See `Source`; the package itself is not imported."""
    spec = importlib.util.find_spec('foolbox')
    if spec is None or not spec.submodule_search_locations:
      raise InputError(
        "config.data.source is 'foolbox', which is not installed: pip install "
        "'.[imagenet]', or read your own pictures with --config.data.source=folder "
        '--config.data.path=DIR.'
      )
    folder = Path(spec.submodule_search_locations[0], 'data')
    paths = [str(path) for path in sorted(folder.glob('imagenet_*.jpg'))]
    if not paths:
      raise InputError(f'{folder} holds no ImageNet pictures: use foolbox 3.')
    numbers = [int(Path(path).stem.rpartition('_')[2]) for path in paths]
    labels = np.array([list(WNIDS).index(number) for number in numbers], np.int32)
    description = {'split': settings.split}
    return file_images(paths, labels, tuple(WNIDS.values()), 'foolbox', description, channels=3)
