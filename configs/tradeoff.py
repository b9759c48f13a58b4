r"""Accuracy that training gains at high and loses at low frequencies (Yin et al. 2019, figure 6).

python main.py --config=configs/tradeoff.py --workdir=/tmp/tradeoff

  No download. Trains the two small CNNs of the heat maps on MNIST digits and shows 500 test digits
  under 15 corruptions. For each corruption: the share of its energy at high frequency, and the
  Gaussian network's accuracy minus the natural one's on the same images; a line through the 15
  points. Expect a slope near -.6: on digits, strokes on an empty ground, noise in training helps
  against fog and frost most. On natural images the paper finds the opposite. Half a minute on 2
  cores.

python main.py --config=configs/tradeoff.py:cifar10 --workdir=/tmp/tradeoff_cifar10 \
    --config.classifiers.first.name=resnet20 --config.classifiers.first.weights=FILE \
    --config.classifiers.second.name=resnet56 --config.classifiers.second.weights=FILE

  1000 CIFAR-10 test images by TFDS under the paper's 15 corruptions. FILE is a published state dict
  or a checkpoint folder of a run here; the first classifier is the one that changes are from. More
  of any labels: :cifar10,natural,mine,theirs. The six trainings of the paper in one run, with this
  figure: configs/fourier_table.py.
"""

from robustness.config.defaults import ConfigDict, variants
from robustness.config.trainings import plain_and_noisy_digits, resnet20_on_cifar10


def digits() -> ConfigDict:
  """Returns the default config: accuracy gained and lost by training with noise, by frequency.

  It compares two small CNNs on MNIST digits.
  """
  return plain_and_noisy_digits('tradeoff', num_images=500)


def cifar10(labels: tuple[str, ...] = ('first', 'second')) -> ConfigDict:
  """Returns the config of accuracy gained and lost by training, by frequency, on CIFAR-10.

  It takes 1000 test images and Yin et al.'s 15 corruptions; `labels` are those of the networks.
  """
  config = resnet20_on_cifar10('tradeoff', labels=labels)
  config.study.corruptions = ('fourier_cifar',)
  return config


get_config = variants(digits, cifar10, labelled=cifar10)
