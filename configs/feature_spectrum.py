r"""Spectra of feature maps through a network: the frequencies that each layer keeps.

python main.py --config=configs/feature_spectrum.py --workdir=/tmp/feature_spectrum

  No download. Trains a small CNN on MNIST digits; log-amplitude of the output of each of its stages
  along the diagonal, from frequency 0 to π, for 1000 test digits. Strides remove the highest
  frequencies of their input, which leaves spectra that fall less from stage to stage.

python main.py --config=configs/feature_spectrum.py:cifar10 --workdir=/tmp/spectrum_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  500 CIFAR-10 test images by TFDS. For blocks inside stages, name them, such as
  --config.study.of_layers=stage1/block0,stage1/block1.
"""

from robustness.config.defaults import ConfigDict, variants
from robustness.config.trainings import resnet20_on_cifar10, small_cnn_on_digits


def digits() -> ConfigDict:
  """Returns the default config: spectra of feature maps of a small CNN on MNIST digits."""
  return small_cnn_on_digits('feature_spectrum')


def cifar10() -> ConfigDict:
  """Returns the config of spectra of a ResNet-20's feature maps on 500 CIFAR-10 test images."""
  return resnet20_on_cifar10('feature_spectrum', num_images=500)


get_config = variants(digits, cifar10)
