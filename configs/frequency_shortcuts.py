"""The frequencies that alone suffice to recognise a class, by class.

python main.py --config=configs/frequency_shortcuts.py --workdir=/tmp/shortcuts

  No download. Trains the two small CNNs of the heat maps on MNIST digits and shows 1000 test digits
  through 200 random sets of frequencies. Half of the digits of a class choose its set; accuracies
  through it and on whole images are of the other half. Of the plain network, 28 % of the
  frequencies suffice for .94 of fives, and make fives of .2 % of the others.

python main.py --config=configs/frequency_shortcuts.py:cifar10 --workdir=/tmp/shortcuts_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  One network on 1000 CIFAR-10 test images by TFDS. Of 500, half of the frequencies suffice the
  published ResNet-20 for .96 of deer; through the cat's set it takes .88 of all others for cats.
"""

from robustness.config.defaults import ConfigDict, variants
from robustness.config.trainings import plain_and_noisy_digits, resnet20_on_cifar10


def digits() -> ConfigDict:
  """Returns the default config: frequencies that suffice two small CNNs to recognise a digit.

  One is trained with noise.
  """
  return plain_and_noisy_digits('frequency_shortcuts')


def cifar10() -> ConfigDict:
  """Returns the config of frequencies that suffice a ResNet-20 to recognise a CIFAR-10 class."""
  return resnet20_on_cifar10('frequency_shortcuts')


get_config = variants(digits, cifar10)
