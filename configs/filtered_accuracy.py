r"""Accuracy on low- and high-passed images, by bandwidth (Yin et al. 2019, figure 1).

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

python main.py --config=configs/filtered_accuracy.py:cifar10_trained --workdir=/tmp/filtered_trained

  Figure 1 on CIFAR-10: networks trained behind low pass 3, 7 and 15 and high pass 31, 27 and 21,
  and one on whole images, airbench94_half for 12 epochs of 50,000 images each; 1000 test images.
  An estimated 90 minutes of 2 cores, minutes on an accelerator. The paper says no bandwidths.

python main.py --config=configs/filtered_accuracy.py:imagenet_trained \
    --workdir=/tmp/filtered_imagenet --config.data.tfds.data_dir=DIR

  The same with ResNet-50 on ImageNet, low pass 7, 23 and 45, high pass 223, 209 and 179. Seven
  trainings of 90 epochs, an estimated 10 hours each at 3000 images a second. Not run.
"""

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, default_config, variants


def digits() -> ConfigDict:
  """Returns the default config: accuracy of small CNNs on low- and high-passed MNIST digits.

  One is trained on whole images, and four behind a low or high pass.
  """
  config = _behind_filters(low_pass=(3, 7), high_pass=(21, 25))
  trainings.train_small_networks(config, epochs=6.0)
  return config


def cifar10() -> ConfigDict:
  """Returns the config of accuracy of a ResNet-20 on low- and high-passed CIFAR-10 test images."""
  return trainings.resnet20_on_cifar10('filtered_accuracy')


def cifar10_trained() -> ConfigDict:
  """Returns the config of networks trained behind filters on CIFAR-10 (Yin et al., figure 1)."""
  config = _behind_filters(low_pass=(3, 7, 15), high_pass=(31, 27, 21))
  trainings.train_airbench(config, 'airbench94_half')
  trainings.use_cifar10(config)
  return config


def imagenet_trained() -> ConfigDict:
  """Returns the config of ResNet-50 trained behind filters on ImageNet."""
  config = _behind_filters(low_pass=(7, 23, 45), high_pass=(223, 209, 179))
  trainings.train_on_imagenet(config)
  return config


def _behind_filters(low_pass: tuple[int, ...], high_pass: tuple[int, ...]) -> ConfigDict:
  """Returns the config of a classifier on whole images and one behind each filter.

  The arguments are the bandwidths of low and high passes: the number of frequencies that a filter
  keeps on an axis. Of 32, a low pass of 7 keeps |f| ≤ 3, and a high pass of 27 keeps |f| ≥ 3.
  """
  filters = [('low_pass', b) for b in low_pass] + [('high_pass', b) for b in high_pass]
  labels = ('natural', *(f'{kind}_{bandwidth}' for kind, bandwidth in filters))
  config = default_config('filtered_accuracy', labels)
  for label, (kind, bandwidth) in zip(labels[1:], filters, strict=True):
    config.classifiers[label].input_filter.name = kind
    config.classifiers[label].input_filter[kind].bandwidth = bandwidth
  return config


get_config = variants(digits, cifar10, cifar10_trained, imagenet_trained)
