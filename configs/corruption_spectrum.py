"""Spectra of the common corruptions (Yin et al. 2019, figure 2); no classifier is used.

python main.py --config=configs/corruption_spectrum.py --workdir=/tmp/spectra

  No download. What 15 corruptions at 5 severities change in 200 MNIST digits: mean |F(C(x) - x)|
  as maps and by radius, and the share of its energy at high frequency.

python main.py --config=configs/corruption_spectrum.py:cifar10 --workdir=/tmp/spectra_cifar10

  1000 CIFAR-10 test images by TFDS under the paper's 15 corruptions, with the constants of
  CIFAR-10-C. The noises have 70 to 71 % of their energy at high frequency (white noise has 71.2 %),
  defocus and Gaussian blur and JPEG about 53 %, glass blur 47 %, pixelate 43 %, contrast 9 %, fog
  4 %, brightness 1 %.

python main.py --config=configs/corruption_spectrum.py:imagenet --workdir=/tmp/spectra_imagenet

  20 ImageNet pictures that come with `pip install '.[imagenet]'`, with the constants of ImageNet-C.
  Your own folder of pictures (class folders), with a seeded choice of 1000 of them:

python main.py --config=configs/corruption_spectrum.py:imagenet --workdir=/tmp/spectra_folder \
    --config.data.source=folder --config.data.folder.path=DIR --config.data.num_images=1000
"""

from robustness.config.defaults import ConfigDict, default_config, variants
from robustness.config.trainings import use_cifar10


def digits() -> ConfigDict:
  """Returns the default config: spectra of corruptions on MNIST digits."""
  config = default_config('corruption_spectrum')
  config.data.num_images = 200
  return config


def cifar10() -> ConfigDict:
  """Returns the config of spectra of Yin et al.'s 15 corruptions on 1000 CIFAR-10 test images."""
  config = default_config('corruption_spectrum')
  config.study.corruptions = ('fourier_cifar',)
  use_cifar10(config)
  return config


def imagenet() -> ConfigDict:
  """Returns the config of spectra of corruptions on 20 ImageNet pictures of 224 × 224 pixels."""
  config = default_config('corruption_spectrum')
  config.study.constants = 224
  config.data.update(source='foolbox', resize=256, crop=224)
  return config


get_config = variants(digits, cifar10, imagenet)
