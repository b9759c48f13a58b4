r"""Rescaled confidence and prediction sets under corruption, fitted on held-out images.

python main.py --config=configs/recalibration.py --workdir=/tmp/recalibration

  No download. Trains a small CNN on MNIST digits and fits temperature, vector and matrix scaling
  and split conformal sets on 500 clean test digits; the other 500 measure ECE, likelihood, coverage
  and size of the sets, clean and under 15 corruptions at 5 severities. Sets that hold the class of
  90 % of clean digits hold it less often the stronger the corruption.

python main.py --config=configs/recalibration.py:cifar10 --workdir=/tmp/recalibration_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  1000 CIFAR-10 test images by TFDS, half of them held out. docs/calibration.md says what each is.
"""

from robustness.config.defaults import ConfigDict, variants
from robustness.config.trainings import resnet20_on_cifar10, small_cnn_on_digits


def digits() -> ConfigDict:
  """Returns the default config: rescaled confidence of a small CNN on MNIST digits."""
  return small_cnn_on_digits('recalibration')


def cifar10() -> ConfigDict:
  """Returns the config of the rescaled confidence of a ResNet-20 on CIFAR-10, clean and corrupted.

  It takes 1000 test images and the official 15 corruptions.
  """
  return resnet20_on_cifar10('recalibration')


get_config = variants(digits, cifar10)
