"""Sources `imagenet_c`, `tiny_imagenet_c`, `imagenet_3dcc` and `laion_c`: image folders as
released.

Files are PATH/<corruption>/<severity>/<WordNet identifier>/<image>.JPEG; files of LAION-C are
PATH/<distortion>/intensity_level_<severity>/<superclass>/<image>_<distortion>_<severity>.JPEG.

Corruptions and severities may be missing, but all that exist must have the same images. Rows are
ordered by corruption (as in `robustness.corruptions.names.NUMBERS`), then severity, then class and
file name; `base_id` is the index among the images of one severity. The release has no clean images.
They are read as the first rows if there is a folder PATH/clean/<WordNet identifier>/; they must be
prepared as the corrupted ones were (resize to 256, crop to 224).

Tiny-ImageNet-C as first archived has 1,000 class folders of frost, and 200 of every other
corruption. Only the 200 are read of frost, and the results state how many are left out.
"""

import dataclasses
import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from input_pipeline.corruption_parts import check_names, of_parts
from input_pipeline.image_files import folders_in, has_suffix, read_file, read_header, skip_reason
from input_pipeline.images import Images, PartsStore
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import KEYS, InputError
from robustness.core.paths import HIDDEN, access_refused, is_passed_over
from robustness.core.pictures import SUFFIXES
from robustness.core.rows import in_class_order
from robustness.corruptions.names import (
  CLEAN_PART,
  NAMES,
  NUMBERS,
  SETS,
  SEVERITIES,
  STORED_SETS,
  StoredPart,
)

CLEAN_FOLDER = 'clean'
"""Name of the folder of clean images."""
_DISTORTION = re.compile(
  r'_(glitched|mosaic|stickers?|vertical_lines|geometric_shapes|luminance(_checkerboard)?)_[1-5]'
  r'(?=\.\w+$)'
)
"""End of a LAION-C file name before its suffix, such as '_mosaic_3': distortion and severity."""


@dataclasses.dataclass(frozen=True)
class ImagenetC(Source):
  """ImageNet-C as released, <corruption>/<severity>/<class>/<image>.

  Also the base class of similar data sets.

  Attributes:
    path: folder with a folder for each corruption.
    title: name of the data set in messages.
    has_more_frost: whether frost has more classes than other corruptions. The surplus classes are
      ignored.
    corruptions: valid names of the folders in `path`.
    severity_folder: pattern for the names of severity folders, where '{}' is the severity.
  """

  splits = ('test',)
  title: ClassVar[str] = 'ImageNet-C'
  has_more_frost: ClassVar[bool] = False
  corruptions: ClassVar[tuple[str, ...]] = NAMES
  severity_folder: ClassVar[str] = '{}'

  path: str = ''

  def base_name(self, file: str) -> str:
    """Returns the name that an image has in common under all corruptions and severities.

    Args:
      file: path <class>/<image>, which is returned unchanged unless a subclass overrides this.
    """
    return file

  def open(self, settings: DataSettings) -> Images:
    """Opens a data set with the layout of ImageNet-C, without decoding its images, in RGB.

    A part is a corruption at one severity. All parts must have the same images, in the same order.
    In one of these data sets frost has more classes than the other corruptions; they are left out.

    Args:
      settings: not used; the data set has a single split.

    Raises:
      InputError: corruptions and severities have different images, or a folder is not a corruption
        of this data set.
    """
    layout = f'<corruption>/{self.severity_folder.format("<severity>")}/<class>/<image>.'
    root = self.folder(f'give the folder of {self.title}: {layout}')
    folders = self._parts(root)
    without_frost = [p for part, p in folders.items() if part.corruption != NUMBERS['frost']]
    classes: set[str] | None = None  # the class folders that are read; None reads all
    facts = {}
    if self.has_more_frost and without_frost:
      # of frost, which has more classes, only the classes of the other corruptions are read
      classes = {name for path in without_frost for name in folders_in(path)}
      frost = [path for path in folders.values() if path not in without_frost]
      left_out_classes = {name for path in frost for name in folders_in(path)} - classes
      if left_out_classes:
        facts['class_folders_left_out'] = len(left_out_classes)
    left_out = Counter[str]()
    files_of_part = same_files([*folders.values()], left_out, classes, base_name=self.base_name)
    files = files_of_part[0]  # of the first part, to which the labels belong
    names, labels = labels_of_folders(files)
    paths = [str(folder) for folder in folders.values()]
    first_file = os.path.join(paths[0], files[0])
    size, _ = read_header(first_file)
    if size == (64, 64) and not self.has_more_frost:
      fix = f'set {KEYS.data.source}=tiny_imagenet_c.'
      raise InputError(f'{first_file} has 64 × 64 pixels: it looks like Tiny-ImageNet-C; {fix}')

    def path_of(part: int, index: int) -> str:
      """Returns the path of image `index` under the corruption and severity number `part`."""
      return os.path.join(paths[part], files_of_part[part][index])

    _, first_images = np.unique(labels, return_index=True)  # of each class
    first_of_classes = {*first_images.tolist()}

    def file(index: int) -> str:
      """Returns a path that changes with an image: of its class folder, which has many images.

      Files that are overwritten do not change their folder. The first image of a class therefore
      has its own path.
      """
      part, base = divmod(index, len(files))
      path = path_of(part, base)
      return path if base in first_of_classes else os.path.dirname(path)

    return of_parts(
      [*folders],
      len(files),
      title=f'{self.title} in {self.path}',
      description={'path': self.path, **facts},
      class_names=names,
      channels=3,
      store=PartsStore(lambda part, i: path_of(part, i).encode(), labels),
      read=functools.partial(read_file, channels=3),
      header=lambda path: read_header(path.decode()),
      where=lambda index: f'{path_of(*divmod(index, len(files)))} (example {index})',
      file=file,
      # To read millions of headers would take an hour; a file of another size raises an error when
      # it is read.
      sizes=lambda indices: [size] * len(indices),
      names=[self.base_name(file).replace(os.sep, '/') for file in files],
      left_out=left_out,
    )

  def _parts(self, root: Path) -> dict[StoredPart, Path]:
    """Finds the folder of each corruption and severity in a folder like ImageNet-C.

    Args:
      root: the folder, with folders corruption/severity.

    Returns:
      {(corruption, severity): folder}, with clean images first if there are any.

    Raises:
      InputError: a folder is named after no corruption or severity.
    """
    folders = folders_in(root)
    clean = folders.pop(CLEAN_FOLDER, None)
    check_names(folders, root, self.corruptions)
    parts = {CLEAN_PART: clean} if clean else {}
    severity_of = {self.severity_folder.format(s): s for s in SEVERITIES}  # by name of the folder
    stored_names = [name for name in self.corruptions if name in folders]
    for name in stored_names:
      severity_folders = folders_in(folders[name])
      unknown = sorted(set(severity_folders) - set(severity_of))
      if unknown or not severity_folders:
        problem = f'{folders[name]} holds {", ".join(unknown) or "nothing"}'
        form = f'folders named after severities: {", ".join(severity_of)} (ImageNet-P has none)'
        raise InputError(f'{problem}; expected {form}.')
      for folder, path in severity_folders.items():
        parts[StoredPart(NUMBERS[name], severity_of[folder])] = path
    return parts


class TinyImagenetC(ImagenetC):
  """Tiny-ImageNet-C in its released layout.

  Its frost has more classes than the other corruptions; the surplus classes are ignored.
  """

  name = 'tiny_imagenet_c'
  title = 'Tiny-ImageNet-C'
  has_more_frost = True


class Imagenet3DCC(ImagenetC):
  """ImageNet-3DCC in its released layout, read like ImageNet-C."""

  name = 'imagenet_3dcc'
  title = 'ImageNet-3DCC'
  corruptions = STORED_SETS['imagenet_3dcc']


class LaionC(ImagenetC):
  """LAION-C in its released layout.

  The files are <distortion>/intensity_level_<severity>/<superclass>/<image>.
  """

  name = 'laion_c'
  title = 'LAION-C'
  corruptions = SETS['laion_c']
  severity_folder = 'intensity_level_{}'

  def base_name(self, file: str) -> str:
    """Returns a file's path without the suffix _<distortion>_<severity> of its name.

    The result is the same under all distortions and severities.
    """
    return _DISTORTION.sub('', file)


def labels_of_folders(files: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
  """Returns the classes, in label order, and labels, int32 [N], of N paths <class>/<image>."""
  folders = [os.path.dirname(file) for file in files]
  names = in_class_order(set(folders))
  position = {name: label for label, name in enumerate(names)}
  return tuple(names), np.array([position[folder] for folder in folders], np.int32)


def same_files(
  folders: list[Path],
  left_out: Counter[str],
  classes: set[str] | None = None,
  extensions: Sequence[str] = SUFFIXES,
  base_name: Callable[[str], str] = lambda file: file,
) -> list[list[str]]:
  """Lists the images in several folders, which must contain the same images.

  Args:
    folders: the folders, such as one for each corruption and severity.
    left_out: counter of files that are not read, by reason, which is updated.
    classes: class folders to read; None reads all.
    extensions: suffixes of the images.
    base_name: called with a path <class>/<image>; returns a name that the image has in all folders,
      even if its path differs.

  Returns:
    For each folder a list of paths <class>/<image>. Entry i of every list is the same image.

  Raises:
    InputError: there are no images, or a folder lacks an image of another folder.
  """
  first = sorted(_listed(folders[0], classes, extensions, left_out), key=base_name)
  names_in_first = list(map(base_name, first))
  files_of_folder = [first]
  if not first:
    problem = f'{folders[0]} holds no <class>/<image>'
    raise InputError(f'{problem}; expected files ending in {", ".join(extensions)}.')
  for folder in folders[1:]:
    files = sorted(_listed(folder, classes, extensions, left_out), key=base_name)
    names = list(map(base_name, files))
    if names != names_in_first:
      # names in one folder alone; empty if a folder only has two files with one base name
      unmatched = set(names).symmetric_difference(names_in_first)
      name = min(unmatched or names)
      lacking, having = folders[0], folder
      if name in names_in_first:
        lacking, having = folder, folders[0]
      fix = 'every corruption and severity must hold the same images. Unpack the archive again.'
      raise InputError(f'{lacking} lacks {name}, which {having} has: {fix}')
    files_of_folder.append(first if files == first else files)
  return files_of_folder


@access_refused()
def _listed(
  folder: Path, classes: set[str] | None, extensions: Sequence[str], left_out: Counter[str]
) -> list[str]:
  """Lists the images in a folder of class folders as paths <class>/<image>, in any order.

  Args:
    folder: the folder.
    classes: class folders to read; None reads all.
    extensions: suffixes of the images.
    left_out: counter of files that are not read, by reason, which is updated.

  Raises:
    UnicodeEncodeError: a path is not valid in UTF-8.
  """
  paths = []
  for class_folder in folders_in(folder).values():
    if classes is not None and class_folder.name not in classes:
      continue
    for file in os.listdir(class_folder):
      if is_passed_over(file):
        left_out[HIDDEN] += 1
      elif has_suffix(file, extensions):
        paths.append(os.path.join(class_folder.name, file))
      else:
        left_out[skip_reason(file)] += 1
  ''.join((str(folder), *paths)).encode()  # raises UnicodeEncodeError
  return paths
