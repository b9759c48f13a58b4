"""CIFAR-10.1 as it was released: PATH/cifar10.1_<version>_data.npy and ..._labels.npy.

A second test set for CIFAR-10's classes (Recht et al. 2018): v4 has 2021 images, v6 2000.
`example_id` is the position in the files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from input_pipeline.images import Source, array_source
from input_pipeline.settings import DataSettings
from input_pipeline.sources.cifar10_c import CLASS_NAMES, read_images, read_labels
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import choice

VERSIONS = ('v4', 'v6')


def open_source(settings: DataSettings) -> Source:
  """Returns the images of the version `settings.name` in the folder `settings.path`.

  Raises:
    InputError: a file is missing, the version is not chosen where both are there, or an array has
      another dtype, shape or length.
  """
  choice('config.data.split', settings.split, ('test',))
  folder = expanded(settings.path)
  version = settings.name or _only_version(folder, settings.path)
  choice('config.data.name', version, VERSIONS)
  data, labels_file = (folder / f'cifar10.1_{version}_{kind}.npy' for kind in ('data', 'labels'))
  labels = read_labels(labels_file, repeats=1)
  images = np.array(read_images(data, len(labels)))
  return array_source(
    images,
    labels,
    CLASS_NAMES,
    title=f'CIFAR-10.1 {version}',
    description={'source': 'cifar10_1', 'path': settings.path, 'name': version},
  )


def _only_version(folder: Path, path: str) -> str:
  versions = [v for v in VERSIONS if path and (folder / f'cifar10.1_{v}_data.npy').is_file()]
  if len(versions) != 1:
    listed = ' and '.join(versions) or 'no cifar10.1_<version>_data.npy'
    raise InputError(
      f'config.data.path is {path!r}, which holds {listed}: give the folder of '
      f'CIFAR-10.1 and choose config.data.name, one of {", ".join(VERSIONS)}.'
    )
  return versions[0]
