"""Accuracy on low- and high-passed images, by bandwidth (Yin et al. 2019, figure 1).

python main.py --config=configs/filtered_accuracy.py --workdir=/tmp/filtered

  No download. Trains five small CNNs on MNIST digits: one on the images as they are, and with a
  input filter low pass 3 and 7 and high pass 21 and 25. All are shown 1000 test digits
  through filters of every bandwidth; `trained_accuracy` has each of the four at its own.
  Trained behind its filter a network has .63 (low pass 3), .96 (low pass 7), .89 (high pass 21) and
  .95 (high pass 25), on images through the same filters the plain one .15, .89, .13 and .34.

python main.py --config=configs/filtered_accuracy.py:cifar10 --workdir=/tmp/filtered_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  One network, not trained for filters, on 1000 filtered CIFAR-10 test images. With
  --config.classifier.train=True --config.classifier.input_filter.name=low_pass and
  --config.classifier.input_filter.low_pass.bandwidth=15 it is trained behind a filter (the paper:
  low pass 15, high pass 31).
"""

from robustness.config.defaults import (
  ConfigDict,
  choose,
  default_config,
  read_cifar10,
  train_small_networks,
)

STUDY = 'filtered_accuracy'
FRONT_ENDS = {'low_pass_3': 3, 'low_pass_7': 7, 'high_pass_21': 21, 'high_pass_25': 25}


def get_config(variant: str = 'digits') -> ConfigDict:
  """Returns the variant 'digits' or 'cifar10'."""
  return choose(variant, digits, cifar10)


def digits() -> ConfigDict:
  """The default: small CNNs on MNIST digits, one plain and four behind filters."""
  config = default_config(STUDY, labels=('natural', *FRONT_ENDS))
  train_small_networks(config, epochs=6.0)
  for label, bandwidth in FRONT_ENDS.items():
    kind = label.rpartition('_')[0]
    config.classifiers[label].input_filter.name = kind
    config.classifiers[label].input_filter[kind].bandwidth = bandwidth
  return config


def cifar10() -> ConfigDict:
  """One network on filtered CIFAR-10 test images."""
  config = default_config(STUDY)
  read_cifar10(config)
  config.classifier.name = 'resnet20'
  return config
