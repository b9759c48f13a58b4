"""Sources `cifar10_c`, `cifar100_c` and `cifar10_1`: test sets as released, in `.npy` files.

CIFAR-10-C and CIFAR-100-C are PATH/<corruption>.npy, uint8 [5 n, 32, 32, 3], the n images at
severity 1, then at 2, and so on, with PATH/labels.npy, the n labels repeated five times. Any of the
19 corruptions may be missing. Rows are ordered by corruption (as in
`robustness.corruptions.names.NAMES`), then severity, then image; `base_id` is the index in CIFAR's
test set as its authors released it. Pixels stay on disk until a batch needs them.

The release has no clean images. They are read as the first rows if PATH/clean.npy exists, uint8
[n, 32, 32, 3] in the same order, or if `clean_dataset` names a TFDS set; its test split is sorted
by its feature `id`, which is the released order.

CIFAR-10.1 is PATH/cifar10.1_<version>_data.npy and ..._labels.npy, a second test set for CIFAR-10's
classes (Recht et al. 2018): v4 has 2021 images, v6 2000. `example_id` is the index in the files.
"""

import dataclasses
from pathlib import Path
from typing import ClassVar

import numpy as np

from input_pipeline.corruption_parts import check_names, of_parts
from input_pipeline.image_files import looks_like
from input_pipeline.images import Images, PartsStore, array_images
from input_pipeline.settings import DataSettings, Source
from input_pipeline.sources.npz import read_npy
from robustness.core.errors import KEYS, InputError, SettingError
from robustness.core.paths import expanded
from robustness.core.settings import choice
from robustness.corruptions.names import CLEAN_PART, NAMES, NUMBERS, SEVERITIES, StoredPart

_NAMES = 'airplane automobile bird cat deer dog frog horse ship truck'
CLASS_NAMES = tuple(_NAMES.split())
"""CIFAR-10's classes in label order."""
# CIFAR-100's fine classes in label order, which is alphabetical (Krizhevsky 2009)
_CIFAR100_NAMES = """
  apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle
  bowl boy bridge bus butterfly camel can castle caterpillar cattle
  chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
  dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
  lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
  mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree
  plain plate poppy porcupine possum rabbit raccoon ray road rocket
  rose sea seal shark shrew skunk skyscraper snail snake spider
  squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
  train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
IMAGE_SHAPE = (32, 32, 3)
LABELS, CLEAN_FILE = 'labels', 'clean'
"""Names of the files, without suffix, that are not corruptions."""
VERSIONS = ('v4', 'v6')
"""Released versions of CIFAR-10.1."""


@dataclasses.dataclass(frozen=True)
class Cifar10C(Source):
  """CIFAR-10-C in its released files.

  Attributes:
    path: folder with labels.npy and an .npy file of images for each corruption.
    clean_dataset: TFDS name of a data set from which clean test images are read; '' reads none.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
  """

  moved_keys = {'name': 'clean_dataset'}
  splits = ('test',)
  title: ClassVar[str] = 'CIFAR-10-C'
  classes: ClassVar[tuple[str, ...]] = CLASS_NAMES

  path: str = ''
  clean_dataset: str = ''
  data_dir: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Returns the images, uint8 [32, 32, 3], ordered by corruption, severity and image.

    Raises:
      InputError: files are missing, damaged or inconsistent.
    """
    holds = 'which holds labels.npy and one .npy file a corruption'
    folder = self.folder(f'give the folder of {self.title}, {holds}.')
    files = {file.stem: file for file in sorted(folder.glob('[!.]*.npy'))}
    if LABELS not in files:
      inside = [path.parent for path in sorted(folder.glob(f'*/{LABELS}.npy'))]
      fix = f'give {inside[0] if inside else f"the folder of {self.title} as released"}.'
      raise InputError(f'{folder} has no labels.npy{looks_like(folder)}; {fix}')
    labels_file = files.pop(LABELS)
    labels = read_labels(labels_file, classes=len(self.classes))
    clean_file = files.pop(CLEAN_FILE, None)
    check_names(files, folder)
    arrays: dict[StoredPart, np.ndarray] = {}  # in the order of the returned images
    if clean_file:
      arrays[CLEAN_PART] = read_images(clean_file, len(labels))
    elif self.clean_dataset:
      arrays[CLEAN_PART] = self._clean_from_tfds(labels)
    # A run that resumes compares the images of files that have changed. Clean images from TFDS have
    # no file here, and the file of the labels takes its place.
    file_of_part = [clean_file or labels_file] if arrays else []
    stored_names = [name for name in NAMES if name in files]
    for name in stored_names:
      file_of_part += [files[name]] * len(SEVERITIES)
      images = read_images(files[name], len(SEVERITIES) * len(labels))
      for severity, array in zip(SEVERITIES, np.split(images, len(SEVERITIES)), strict=True):
        arrays[StoredPart(NUMBERS[name], severity)] = array
    images_of_part = list(arrays.values())  # mapped from files; an image is copied when it is read
    return of_parts(
      [*arrays],
      len(labels),
      title=f'{self.title} in {self.path}',
      description={'path': self.path},
      class_names=self.classes,
      channels=IMAGE_SHAPE[2],
      store=PartsStore(lambda part, i: np.array(images_of_part[part][i]), labels, IMAGE_SHAPE),
      sizes=lambda indices: [IMAGE_SHAPE[:2]] * len(indices),
      file=lambda index: str(file_of_part[index // len(labels)]),
    )

  def _clean_from_tfds(self, labels: np.ndarray) -> np.ndarray:
    """Reads the clean test images from TFDS in the order of the release, uint8 [n, 32, 32, 3].

    Args:
      labels: labels of the corrupted images.

    Raises:
      InputError: the labels in TFDS differ from `labels`.
    """
    key = self.key('clean_dataset')
    images, clean_labels = test_set(self.clean_dataset, self.data_dir, key)
    if clean_labels.tolist() != labels.tolist():
      raise InputError(
        f'the test labels of {self.clean_dataset!r} are not those of {self.path}: its '
        f"images are others. Set {key}='' to read no clean images."
      )
    return images


class Cifar100C(Cifar10C):
  """CIFAR-100-C in its released files, read like CIFAR-10-C."""

  name = 'cifar100_c'
  title = 'CIFAR-100-C'
  classes = tuple(_CIFAR100_NAMES.split())


@dataclasses.dataclass(frozen=True)
class Cifar101(Source):
  """CIFAR-10.1, a second test set for CIFAR-10, in its released files.

  Attributes:
    path: folder of the files.
    version: 'v4' or 'v6'; '' uses the version in the folder, if there is only one.
  """

  name = 'cifar10_1'
  splits = ('test',)
  moved_keys = {'name': 'version'}

  path: str = ''
  version: str = ''

  def open(self, settings: DataSettings) -> Images:
    """Reads CIFAR-10.1 from the released .npy files, as uint8 [32, 32, 3] images in memory.

    Args:
      settings: not used.

    Raises:
      SettingError: the folder does not have the files of one version, or of the version in the
        settings.
    """
    folder = expanded(self.path)
    versions = [name for name in VERSIONS if (folder / f'cifar10.1_{name}_data.npy').is_file()]
    if not self.path:
      versions = []  # the folder would be the working folder
    if not self.version and len(versions) != 1:
      listed = ' and '.join(versions) or 'no cifar10.1_<version>_data.npy'
      valid = ', '.join(VERSIONS)
      fix = f'Give the folder of CIFAR-10.1 and choose {self.key("version")}, one of {valid}.'
      raise self.refused('path', f'which holds {listed}', fix)
    version = self.version or versions[0]
    choice(self.key('version'), version, VERSIONS)
    # the labels are listed once, as there are no severities
    labels = read_labels(folder / f'cifar10.1_{version}_labels.npy', repeats=1)
    images = np.array(read_images(folder / f'cifar10.1_{version}_data.npy', len(labels)))
    description = {'path': self.path, 'name': version}
    return array_images(images, labels, CLASS_NAMES, f'CIFAR-10.1 {version}', description)


def read_images(path: Path, count: int) -> np.ndarray:
  """Memory-maps an .npy file of images, uint8 [count, 32, 32, 3].

  Raises:
    InputError: the array has another shape or type.
  """
  images = read_pixels(path, ndim=4)
  if len(images) != count:
    number = f'{path} holds {len(images)} images'
    raise InputError(f'{number}; its labels say {count}. Fetch both files again.')
  return images


def read_pixels(path: Path, ndim: int) -> np.ndarray:
  """Memory-maps an .npy file of images (`ndim` 4) or videos (`ndim` 5).

  Returns:
    uint8 [N, 32, 32, 3], or [N, frames, 32, 32, 3].

  Raises:
    InputError: the array has another shape or type.
  """
  pixels = read_npy(path)
  if pixels.dtype != np.uint8 or pixels.ndim != ndim or pixels.shape[-3:] != IMAGE_SHAPE:
    expected = f'[{"N" if ndim == 4 else "N, frames"}, {", ".join(map(str, IMAGE_SHAPE))}]'
    release = {4: 'CIFAR-10-C', 5: 'CIFAR-10-P'}.get(pixels.ndim)
    hint = f' It looks like {release}.' if release and pixels.ndim != ndim else ''
    problem = f'{path} is {pixels.dtype} of shape {pixels.shape}'
    raise InputError(f'{problem}; expected uint8 {expected}.{hint}')
  return pixels


def read_labels(
  path: Path, repeats: int = len(SEVERITIES), classes: int = len(CLASS_NAMES)
) -> np.ndarray:
  """Reads the labels of n images, int32 [n], from a file that repeats them for each severity.

  Args:
    path: an .npy file of integers [repeats · n].
    repeats: how often the file repeats the labels.
    classes: number of classes, 10 for CIFAR-10 or 100 for CIFAR-100.

  Raises:
    InputError: the file is invalid, a label is out of range, or the repeats differ.
  """
  labels = np.asarray(read_npy(path))
  if labels.ndim != 1 or labels.dtype.kind not in 'iu' or not labels.size:
    raise InputError(f'{path} is {labels.dtype} of shape {labels.shape}; expected integers [N].')
  low, high = labels.min(), labels.max()
  is_of_cifar = low >= 0 and high < 100
  stored_classes = 10 if high < 10 else 100  # CIFAR-10 or CIFAR-100, by the largest label
  if not is_of_cifar or stored_classes != classes:
    hint = f' It looks like CIFAR-{stored_classes}: see {KEYS.data.source}.' if is_of_cifar else ''
    problem = f'{path} has labels {low}..{high}'
    raise InputError(f'{problem}; CIFAR-{classes} has 0..{classes - 1}.{hint}')
  first = labels[: len(labels) // repeats]
  if len(labels) % repeats or (labels.reshape(repeats, -1) != first).any():
    problem = f'{path} has {len(labels)} labels that are not the same {repeats} times over'
    raise InputError(f'{problem}, once a severity.')
  return first.astype(np.int32)


def test_set(dataset: str, data_dir: str, key: str) -> tuple[np.ndarray, np.ndarray]:
  """Reads a CIFAR test set from TFDS in the order in which CIFAR's authors released it.

  TFDS stores the order in the feature `id`.

  Args:
    dataset: TFDS name of the data set.
    data_dir: folder of prepared TFDS data sets; '' is TFDS's default.
    key: name of the setting that holds `dataset`, for error messages.

  Returns:
    Images, uint8 [N, 32, 32, 3], and labels, int32 [N].
  """
  from input_pipeline.tfds_sets import prepared_builder

  builder = prepared_builder(dataset, data_dir, key)
  if not {'id', 'image', 'label'} <= set(builder.info.features):
    fix = (
      'The released order needs it. Give cifar10 or cifar100, whichever has the same classes, or '
      "'' to read no clean images."
    )
    raise SettingError(key, dataset, problem="whose examples have no 'id'", fix=fix)
  stored = builder.as_dataset(split='test').as_numpy_iterator()
  examples = sorted(stored, key=lambda example: example['id'])
  labels = np.array([example['label'] for example in examples], np.int32)
  return np.stack([example['image'] for example in examples]), labels
