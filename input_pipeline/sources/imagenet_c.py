"""ImageNet-C and Tiny-ImageNet-C as they were released.

Files are PATH/<corruption>/<severity>/<WordNet identifier>/<image>.JPEG.

Any of the 19 corruptions and any severities may be there, each with the same images. Rows are
ordered by corruption (as in `robustness.corruptions.names.NAMES`), then severity, then class and
file name; `base_id` is the position among the images of one severity. Clean images, which the
release lacks, come first if there is a folder PATH/clean/<WordNet identifier>/; they must be
prepared as the corrupted ones were (resize to 256, crop to 224).

Tiny-ImageNet-C as first archived has 1,000 class folders of frost, and 200 of every other
corruption: of frost the classes of the others are read; results say how many are left out.
"""

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from input_pipeline.corruption_parts import CLEAN_PART, StoredPart, check_names, of_parts
from input_pipeline.image_files import (
  EXTENSIONS,
  existing_folder,
  folders_in,
  read_file,
  read_header,
)
from input_pipeline.images import Images, PartsStore
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import InputError
from robustness.corruptions.names import NAMES, NUMBERS, SEVERITIES

CLEAN_FOLDER = 'clean'


class ImagenetC(Source):
  """ImageNet-C as it was released: <corruption>/<severity>/<class>/<image>."""

  splits = ('test',)
  title: ClassVar[str] = 'ImageNet-C'
  has_more_frost: ClassVar[bool] = False

  def open(self, settings: DataSettings) -> Images:
    """See `Source`; RGB."""
    layout = '<corruption>/<severity>/<class>/<image>.'
    root = existing_folder(settings.path, f'give the folder of {self.title}: {layout}')
    folders = _parts(root)
    others = [folder for part, folder in folders.items() if part[0] != NUMBERS['frost']]
    classes = set(folders_in(others[0])) if self.has_more_frost and others else None
    files = same_files(list(folders.values()), classes)
    of_files = [os.path.dirname(file) for file in files]
    number = {name: label for label, name in enumerate(sorted(set(of_files)))}
    left_out = set().union(*map(folders_in, folders.values())) - classes if classes else ()
    facts = {'class_folders_left_out': len(left_out)} if left_out else {}
    paths = [str(folder) for folder in folders.values()]
    ''.join((*paths, *files)).encode()  # refuses what is no text
    size, _ = read_header(os.path.join(paths[0], files[0]))
    if size[:2] == (64, 64) and not self.has_more_frost:
      where, fix = os.path.join(paths[0], files[0]), 'set config.data.source=tiny_imagenet_c.'
      raise InputError(f'{where} has 64 × 64 pixels: it looks like Tiny-ImageNet-C; {fix}')

    def path(part: int, index: int) -> str:
      return os.path.join(paths[part], files[index])

    return of_parts(
      [*folders],
      len(files),
      title=f'{self.title} in {settings.path}',
      description={'path': settings.path, **facts},
      class_names=tuple(number),
      channels=3,
      store=PartsStore(
        lambda part, index: path(part, index).encode(),
        np.array([number[name] for name in of_files], np.int32),
      ),
      read=functools.partial(read_file, channels=3),
      where=lambda index: f'{path(*divmod(index, len(files)))} (example {index})',
      # Millions of headers would take an hour: another size is noticed when its file is read.
      sizes=lambda indices: [size] * len(indices),
      names=[file.replace(os.sep, '/') for file in files],
    )


class TinyImagenetC(ImagenetC):
  """Tiny-ImageNet-C as it was released: <corruption>/<severity>/<class>/<image>."""

  name = 'tiny_imagenet_c'
  title = 'Tiny-ImageNet-C'
  has_more_frost = True


def _parts(root: Path) -> dict[StoredPart, Path]:
  folders = folders_in(root)
  clean = folders.pop(CLEAN_FOLDER, None)
  check_names(folders, root)
  parts = {CLEAN_PART: clean} if clean else {}
  for name in (name for name in NAMES if name in folders):
    severities = folders_in(folders[name])
    unknown = sorted(set(severities) - {str(s) for s in SEVERITIES})
    if unknown or not severities:
      raise InputError(
        f'{folders[name]} holds {", ".join(unknown) or "nothing"}; expected folders '
        f'named after severities: {", ".join(map(str, SEVERITIES))} (ImageNet-P has none).'
      )
    parts.update({StoredPart(NUMBERS[name], int(s)): path for s, path in severities.items()})
  return parts


def same_files(
  folders: list[Path], classes: set[str] | None = None, extensions: Sequence[str] = EXTENSIONS
) -> list[str]:
  """Returns the sorted paths <class>/<image> of some classes, the same below every folder."""
  first = _listed(folders[0], classes, extensions)
  if not first:
    raise InputError(
      f'{folders[0]} holds no <class>/<image>; expected files ending in {", ".join(extensions)}.'
    )
  for folder in folders[1:]:
    files = _listed(folder, classes, extensions)
    if files != first:
      name = min(set(files) ^ set(first))
      lacking, having = (folder, folders[0]) if name in set(first) else (folders[0], folder)
      raise InputError(
        f'{lacking} lacks {name}, which {having} has: every corruption and severity '
        'must hold the same images. Unpack the archive again.'
      )
  return first


def _listed(folder: Path, classes: set[str] | None, extensions: Sequence[str]) -> list[str]:
  return sorted(
    os.path.join(entry.name, file)
    for entry in folders_in(folder).values()
    if classes is None or entry.name in classes
    for file in os.listdir(entry)
    if file.lower().endswith(tuple(extensions)) and not file.startswith('.')
  )
