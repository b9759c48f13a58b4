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

from robustness.config.defaults import ConfigDict, default_config, variants
from robustness.config.trainings import add_gaussian_noise, train_small_networks, use_cifar10


def digits() -> ConfigDict:
  """Returns the default config: two small CNNs on MNIST digits."""
  config = default_config('frequency_shortcuts', labels=('natural', 'gaussian'))
  train_small_networks(config)
  add_gaussian_noise(config.classifiers.gaussian)
  return config


def cifar10() -> ConfigDict:
  """Returns the config of one network on CIFAR-10."""
  config = default_config('frequency_shortcuts')
  use_cifar10(config)
  config.classifier.name = 'resnet20'
  return config


get_config = variants(digits, cifar10)
