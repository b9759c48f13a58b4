"""CNS-Bench: pictures of ImageNet's classes with shifts of continuous strength.

Files are PATH/<shift>/<index>_<class>/seed_<seed>_scale_<scale>.jpg, with the index of the class in
ImageNet, and the scale, the strength of the shift, times 1000. Columns are `shift`, `scale` and
`base_id`: pictures of one class and seed, of all shifts and scales, are versions of one picture.
Rows are ordered by shift, class and file name. Class names are the WordNet identifiers of the
classes with pictures.

Reference: the layout of the release of CNS-Bench (Edmond, doi:10.17617/3.MAGNKP).
"""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from input_pipeline.image_files import file_images, folders_in, images_in
from input_pipeline.images import Images
from input_pipeline.selection import choose_groups
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import InputError
from robustness.core.registry import are_distinct
from robustness.core.settings import choice
from robustness.models.imagenet_names import WNIDS

_CLASS = re.compile(r'(\d{3})_.+', re.ASCII)
"""Name of a class folder; its group is the index of the class in ImageNet."""
_PICTURE = re.compile(r'seed_(\d{4})_scale_(\d{4})\.jpg', re.ASCII)
"""Name of a picture; its groups are the seed, and the scale times 1000."""


@dataclasses.dataclass(frozen=True)
class CnsBench(Source):
  """Images of CNS-Bench, with shifts (such as snow) of varying strength.

  The files are <shift>/<index>_<class>/seed_<seed>_scale_<scale>.jpg, where the scale is the
  strength of the shift.

  Attributes:
    path: folder with a folder for each shift.
    shifts: names of the shifts to read; () reads all.
  """

  splits = ('test',)

  path: str = ''
  shifts: tuple[str, ...] = ()

  def open(self, settings: DataSettings) -> Images:
    """Returns the images, in RGB.

    A file name has a seed and the scale of the shift, as seed_0003_scale_1500.jpg. Files of one
    class and seed are versions of the same image. A random subset
    (`config.data.num_images`) has either all versions of an image or none.

    Raises:
      InputError: a shift is missing, or a class folder or file has a name of another form.
    """
    self.require(are_distinct(self.shifts), 'shifts', 'distinct')
    root = self.folder('give the folder of CNS-Bench: <shift>/<index>_<class>/<picture>.')
    folders = folders_in(root)
    for shift in self.shifts:
      choice(f'a shift in {self.key("shifts")}', shift, sorted(folders))
    left_out = Counter[str]()
    paths = self._paths(folders, left_out)
    if not paths:
      raise InputError(f'{root} holds no pictures <shift>/<index>_<class>/<picture>.jpg.')
    shifts, class_indices, seeds, scales = zip(*paths, strict=True)
    # labels number the classes that have pictures, [N]
    classes, labels = np.unique(class_indices, return_inverse=True)
    class_and_seed = 10_000 * np.array(class_indices) + seeds  # seeds are below 10,000
    _, bases = np.unique(class_and_seed, return_inverse=True)  # one number for all versions
    columns = {'shift': np.array(shifts), 'scale': np.array(scales, np.float32)}
    return file_images(
      [*paths.values()],
      labels.astype(np.int32),
      [WNIDS[index] for index in classes],
      title=f'CNS-Bench in {self.path}',
      description={'path': self.path, 'shifts': list(self.shifts or folders)},
      channels=3,
      columns={**columns, 'base_id': bases.astype(np.int32)},
      choose=functools.partial(choose_groups, bases, noun='pictures'),
      left_out=left_out,
    )

  def _paths(
    self, folders: Mapping[str, Path], left_out: Counter[str]
  ) -> dict[tuple[str, int, int, float], str]:
    """Lists the pictures of all shifts, as {(shift, class in ImageNet's order, seed, scale): path}.

    Args:
      folders: {shift: folder}.
      left_out: counter of files that are not read, by reason, which is updated.

    Raises:
      InputError: a class folder or file has a name of another form, or a picture exists twice.
    """
    paths: dict[tuple[str, int, int, float], str] = {}
    for shift in self.shifts or folders:
      for folder in folders_in(folders[shift]).values():
        class_match = _CLASS.fullmatch(folder.name)
        if not class_match or int(class_match[1]) >= len(WNIDS):
          raise InputError(f'{folder} is no class folder: expected <index>_<class>, as 007_cock.')
        class_index = int(class_match[1])
        for file in images_in(folder, left_out=left_out):
          match = _PICTURE.fullmatch(file.name)
          if not match:
            raise InputError(f'{file} has no scale: expected a name as seed_0003_scale_1500.jpg.')
          seed, scale = int(match[1]), int(match[2]) / 1000
          picture = (shift, class_index, seed, scale)
          if picture in paths:
            raise InputError(f'{paths[picture]} and {file} are one picture: remove the copy.')
          paths[picture] = str(file)
    return paths
