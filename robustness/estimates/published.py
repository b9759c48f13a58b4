"""Published errors and accuracies with sources: baselines of mCE, tables of Yin et al. (2019)."""

import dataclasses
import importlib.resources
import math
import tomllib
from collections.abc import Mapping


def _parse_table(text: str) -> dict[str, dict[str, float]]:
  """Parses a table with named rows and columns, and returns {column: {row: number}}.

  The first line has the names of the columns. Every other line is the name of a row and its
  numbers. Words are separated by spaces.
  """
  names, *lines = (line.split() for line in text.strip().splitlines())
  columns: dict[str, dict[str, float]] = {name: {} for name in names}
  for row, *numbers in lines:
    for name, number in zip(names, numbers, strict=True):
      columns[name][row] = float(number)
  return columns


_TEXT = importlib.resources.files(__package__).joinpath('published.toml').read_text('utf-8')
_TABLES = {name: _parse_table(text) for name, text in tomllib.loads(_TEXT).items()}
ALEXNET_ERRORS = _TABLES['errors']['alexnet']
"""{corruption: top-1 error of AlexNet on ImageNet-C, mean over severities}, denominators of mCE.

Source: Hendrycks and Dietterich, Benchmarking neural network robustness to common corruptions and
perturbations (2019), and the values printed with their released code.
"""

ALEXNET_CLEAN_ERROR = 0.43478
"""Top-1 error of the same AlexNet, torchvision's, on the ImageNet validation set."""

ALEXNET_FLIPS = _TABLES['sequences']['flips']
"""{perturbation: flip probability of AlexNet on ImageNet-P}, the denominators of mFR."""
ALEXNET_TOP5_DISTANCES = _TABLES['sequences']['top5']
"""{perturbation: top-5 distance of AlexNet on ImageNet-P}, the denominators of mT5D.

Source of both: Hendrycks and Dietterich (2019), rounded. The flip probabilities and top-5 distances
of a ResNet-50 divided by these numbers have the published means .580 and .784.
"""

ALEXNET_3DCC_ERRORS = _TABLES['errors_3dcc']['alexnet']
"""{corruption: top-1 error of AlexNet on 5,000 images of ImageNet-3DCC, mean over severities}.

Source: Kar et al., 3D Common Corruptions for Object Recognition (2022), and their evaluation.
"""

CIFAR10_STANDARD_ERRORS = _TABLES['errors']['standard']
"""{corruption: top-1 error of a plainly trained WideResNet-28-10 on CIFAR-10-C, mean over
severities}.

Source: RobustBench (Croce et al. 2021), the model "Standard" in the table of accuracies by
corruption and severity on all 10,000 images that its repository holds.
"""


@dataclasses.dataclass(frozen=True)
class PublishedErrors:
  """A classifier's published errors under corruptions, such as AlexNet's on ImageNet-C.

  Attributes:
    title: the classifier and the data set, in words.
    corrupted: {corruption: error}, averaged over severities, as fractions.
    side: side of the images in pixels.
    set_name: name of the data set in papers, such as 'ImageNet-C'.
    clean: error on clean images; NaN if it was not published. Without it there is no relative mCE.
  """

  title: str
  corrupted: Mapping[str, float]
  side: int
  set_name: str
  clean: float = math.nan

  @property
  def means(self) -> dict[str, float]:
    """The errors as {corruption: error}, with the error on clean images at ''.

    `of_means.function_of_means` takes this dictionary as `baseline`.
    """
    return {'': self.clean, **self.corrupted}


BASELINES = {
  'alexnet': PublishedErrors(
    'AlexNet on ImageNet-C', ALEXNET_ERRORS, 224, 'ImageNet-C', clean=ALEXNET_CLEAN_ERROR
  ),
  'alexnet_3dcc': PublishedErrors(
    'AlexNet on 5,000 images of ImageNet-3DCC', ALEXNET_3DCC_ERRORS, 224, 'ImageNet-3DCC'
  ),
  'cifar10_standard': PublishedErrors(
    "RobustBench's Standard WideResNet-28-10 on CIFAR-10-C",
    CIFAR10_STANDARD_ERRORS,
    side=32,
    set_name='CIFAR-10-C',
  ),
}
"""Published errors by their name in the setting `baseline` of the study `corruption_error`."""


@dataclasses.dataclass(frozen=True)
class PublishedTable:
  """A table of accuracies from a paper, as fractions, by label of the classifier.

  Attributes:
    name: name of the table in the paper.
    images: number of test images, equal for each corruption and severity.
    clean: {label: accuracy on clean images}.
    corrupted: {label: {corruption: accuracy averaged over severities}}.
    average: {label: average over corruptions, as printed}.
    mce: {label: mCE, as printed}; empty if the table has none.
  """

  name: str
  images: int
  clean: Mapping[str, float]
  corrupted: Mapping[str, Mapping[str, float]]
  average: Mapping[str, float]
  mce: Mapping[str, float]


def _read_table(name: str, images: int) -> PublishedTable:
  """Reads a published table of accuracies, averaged over five severities, from published.toml.

  Labels of classifiers are the same as in `configs/fourier_table.py`.

  Args:
    name: name of the table in published.toml and in the paper.
    images: number of images of the test set.
  """
  columns = _TABLES[name.replace(' ', '_')]  # {label of the classifier: {row: number}}
  summary_rows = ('clean', 'average', 'mCE')
  corrupted = {}
  for label, column in columns.items():
    corrupted[label] = {row: x for row, x in column.items() if row not in summary_rows}

  def numbers(row: str) -> dict[str, float]:
    """Returns {label of the classifier: number} of a row, for the classifiers that have it."""
    return {label: column[row] for label, column in columns.items() if row in column}

  clean, average, mce = map(numbers, summary_rows)
  return PublishedTable(name, images, clean, corrupted, average, mce)


TABLE_3 = _read_table('table 3', 10_000)
"""Table 3 of Yin et al. (2019): WideResNet-28-10 on CIFAR-10 under 15 corruptions."""

SHAPE_BIAS = _TABLES['shape_bias']
"""Shape bias, and the shares of answers by shape and by texture, for humans and networks.

The answers of the ten humans are pooled. A network's probability of a class is the mean over the
ImageNet categories of the class.

Source: humans and networks by the answers that model-vs-human (79ed7cd) and vlm_shapebias (459198f)
released; ResNet-50 trained on Stylized-ImageNet by the table of texture-vs-shape (ccd0c01).
"""
HUMAN_SHAPE_BIAS = _TABLES['human_shape_bias']
"""Shape bias, and the shares of answers, of the ten humans by class of the shape, with 75 pictures
per class.
"""

BACKGROUNDS = _TABLES['backgrounds']
"""Accuracy on variants of ImageNet-9 and the difference between two variants, by network.

Source: Xiao et al., Noise or signal, 2021, and the table of backgrounds_challenge (46d224b).
"""

ALL_BUT_ONE = _TABLES['all_but_one']['all_but_one']
"""{corruption: accuracy of networks that were trained on all other corruptions}, the last column of
table 3. It is a mean over severities, with a network for each. It has no value for motion blur and
snow, because there were no training images with these corruptions.
"""

TABLE_4 = _read_table('table 4', 50_000)
"""Table 4 of Yin et al. (2019): ResNet-50 on ImageNet under 12 corruptions."""

TABLE_1 = {
  'natural': (0.9606, 0.9484, 0.9395, 0.9072, 0.7429),
  'fog_noise': (0.9090, 0.8726, 0.8120, 0.7175, 0.4626),
}
"""{training: accuracies on CIFAR-10 under fog at severities 1 to 5}, table 1 of Yin et al. (2019),
for a network that is trained plainly and for a network that is trained on fog noise.
"""
