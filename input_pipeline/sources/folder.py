"""Sources `folder` and `foolbox`: image files in class folders, PATH/class/ or PATH/split/class/.

Classes are the folders sorted by name, or by number if all names are numbers. A class without
images keeps its label, and the log names it. Images may be at any depth in their class folder and
are sorted by path; hidden files and other kinds of files are not read but counted. `example_id` is
the index among all images in this order.

The source `foolbox` reads the 20 labelled ImageNet pictures that come with the package foolbox (MIT
licence), files `imagenet_<number>_<class>.jpg`; `example_id` is the number.
"""

import dataclasses
import importlib.util
import itertools
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from input_pipeline import image_files
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source
from input_pipeline.shards import SPLITS
from robustness.core.errors import KEYS, InputError, SettingError, nearest
from robustness.core.pictures import SUFFIXES
from robustness.models import label_space
from robustness.models.imagenet_names import WNIDS
from robustness.models.label_space import LabelSpace


@dataclasses.dataclass(frozen=True)
class Folder(Source):
  """Image files in class folders, <class>/<image> or <split>/<class>/<image>.

  Attributes:
    path: folder that contains the class folders, or a folder for each split.
    label_space: coarse classes into which ImageNet's classes are merged, such as 'laion_c'. Folders
      must then be named by WordNet identifiers; folders of no coarse class are ignored. '' keeps
      the classes.
  """

  path: str = ''
  label_space: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Returns the images, grey if every file is grey, else in RGB."""
    root = self.find_root(settings.split)
    classes = image_files.folders_in(root)
    if not classes:
      release = image_files.looks_like(root)
      raise InputError(f'{root} holds no class folders{release}; expected {root}/<class>/<image>.')
    left_out = Counter[str]()
    image_files.count_outside_classes(root, left_out)
    files_of_class: dict[str, list[Path]] = {}
    names: dict[Path, str] = {}  # {path of a file: <class folder>/<file name>}
    for name, folder in classes.items():
      files_of_class[name] = image_files.images_in(folder, left_out=left_out)
      names |= {file: f'{name}/{file.name}' for file in files_of_class[name]}
    if self.label_space:  # joins class folders to coarser classes
      files_of_class = merge_classes(files_of_class, label_space.get(self.label_space), root)
    paths = [*itertools.chain.from_iterable(files_of_class.values())]
    # with a label space, the images of folders that belong to none of its classes
    left_out[f'images of no class of {self.label_space}'] = len(names) - len(paths)
    if not paths:
      problem = f'{root}: none of its {len(classes)} class folders holds an image'
      raise InputError(f'{problem}; expected files ending in {", ".join(SUFFIXES)}.')
    image_files.refuse_copies(root, paths)
    counts = [*map(len, files_of_class.values())]
    labels = np.arange(len(counts), dtype=np.int32).repeat(counts)  # of each file
    return image_files.file_images(
      [*map(str, paths)],
      labels,
      tuple(files_of_class),
      title=f'folder {str(root)!r}',
      description={'path': self.path, 'split': settings.split},
      names=[names[path] for path in paths],
      left_out=left_out,
    )

  def find_root(self, split: str) -> Path:
    """Returns the folder that contains the class folders of a split.

    This is PATH/<split> if it exists and contains folders. Otherwise it is PATH, for the split '',
    and for 'test' if the folders in PATH are not named like splits.

    Raises:
      InputError: there is no such folder.
    """
    root = self.folder('give the folder that holds one folder a class.')
    if split and os.path.isdir(root / split) and image_files.folders_in(root / split):
      return root / split
    folders = image_files.folders_in(root)
    num_named_as_splits = len({*folders} & {*SPLITS})
    # among other folders, a single one called 'train' may be a class
    are_splits = num_named_as_splits > 1 or (num_named_as_splits == 1 and len(folders) == 1)
    if split == '' or (split == 'test' and not are_splits):
      return root
    raise SettingError(
      KEYS.data.split,
      split,
      problem=f'but {root} has no folder {split!r} of class folders',
      fix=f'{nearest(split, folders)}. Put class folders to train on into train and others into '
      f"test. {KEYS.data.split:--}='' reads the class folders in {self.key('path')} itself, for "
      'all uses.',
    )


def merge_classes(
  files: Mapping[str, list[Path]], space: LabelSpace, root: Path
) -> dict[str, list[Path]]:
  """Merges files of ImageNet's classes into coarser classes.

  Args:
    files: {WordNet identifier: files of the class}; other keys are ignored.
    space: the coarser classes.
    root: folder of the images, for messages.

  Returns:
    {coarser class: files}, in label order.

  Raises:
    InputError: no key of `files` belongs to a coarser class.
  """
  by_class: dict[str, list[Path]] = {name: [] for name in space.class_names}
  for folder, paths in files.items():
    if folder in space.aliases:  # {WordNet identifier of a member: label of the coarser class}
      label = space.aliases[folder]
      by_class[space.class_names[label]] += paths
  if not any(by_class.values()):
    raise InputError(
      f'{root}: none of its {len(files)} class folders ({", ".join([*files][:3])}) is a member of '
      f'{space.name}, such as {next(iter(space.aliases))}: give class folders of ImageNet.'
    )
  return by_class


class Foolbox(Source):
  """The 20 labelled ImageNet images in the package foolbox.

  There are labels only for classes of these 20 images.
  """

  name = 'foolbox'
  splits = ('test',)

  def open(self, settings: DataSettings) -> Images:
    """Returns the images, in RGB, without importing foolbox."""
    spec = importlib.util.find_spec('foolbox')
    if spec is None or not spec.submodule_search_locations:
      raise InputError(
        f"{KEYS.data.source} is 'foolbox', which is not installed: pip install "
        f"'.[imagenet]', or read your own pictures with {KEYS.data.source:--}=folder "
        f'{KEYS.data.folder.path:--}=DIR.'
      )
    folder = Path(spec.submodule_search_locations[0], 'data')
    paths = [str(path) for path in sorted(folder.glob('imagenet_*.jpg'))]
    # the last word of a name is the position of its class among ImageNet's: imagenet_02_<class>.jpg
    class_indices = [int(Path(path).stem.rpartition('_')[2]) for path in paths]
    classes, labels = np.unique(class_indices, return_inverse=True)
    names = [WNIDS[index] for index in classes]
    description = {'split': settings.split}
    labels = labels.astype(np.int32)
    return image_files.file_images(paths, labels, names, 'foolbox', description, channels=3)
