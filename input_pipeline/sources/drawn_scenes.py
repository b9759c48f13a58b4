"""Parts of scenes drawn in code (`drawn_objects`), so that a study runs without any file.

Rows are those of `scenes`. Drawings are no photographs, and results say that these are drawings.
"""

from __future__ import annotations

import numpy as np

from input_pipeline.images import Source
from input_pipeline.settings import DataSettings
from input_pipeline.sources import drawn_objects
from input_pipeline.sources.scenes import CANVAS, pairs_source
from robustness.scenes.classes import imagenet_index


def open_source(settings: DataSettings) -> Source:
  """Returns the pairs of drawn objects and grounds."""
  names = list(drawn_objects.DRAWINGS)
  cutouts = [drawn_objects.draw(name) for name in names]
  grounds = [
    drawn_objects.ground(index, settings.canvas or CANVAS)
    for index in range(drawn_objects.NUM_GROUNDS)
  ]
  return pairs_source(
    settings,
    'drawn scenes',
    {'cutouts': 'drawn in code, no photographs'},
    labels=[imagenet_index(name) for name in names],
    sizes=[(height, width) for height, width, _ in map(np.shape, cutouts)],
    cutout=cutouts.__getitem__,
    background=grounds.__getitem__,
    names=(names, [f'ground {index}' for index in range(len(grounds))]),
  )
