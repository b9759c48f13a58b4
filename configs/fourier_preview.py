"""A preview of a Fourier heat map from one backward pass an image, next to the measured map.

python main.py --config=configs/fourier_preview.py --workdir=/tmp/preview \
    --config.study.heat_map=/tmp/heatmap \
    --config.classifiers.natural.weights=/tmp/heatmap/checkpoints/natural \
    --config.classifiers.gaussian.weights=/tmp/heatmap/checkpoints/gaussian

  After `python main.py --config=configs/fourier_heatmap.py --workdir=/tmp/heatmap`: it takes the
  networks and heat maps of the run. Spearman's rank correlation over the 394 distinct frequencies
  is about .6 for the plain network and .5 for the other; the whole preview takes seconds.

python main.py --config=configs/fourier_preview.py:cifar10 --workdir=/tmp/preview_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  The preview alone, on 1000 CIFAR-10 test images by TFDS; --config.study.heat_map=WORKDIR draws the
  map of a finished run next to it. The mean is over images, and a sure network has small gradients
  on most of them: it says which frequencies matter first, not what the error at a norm will be.
"""

from robustness.config.defaults import ConfigDict, default_config, variants
from robustness.config.trainings import resnet20_on_cifar10


def digits() -> ConfigDict:
  """Returns the default config: previews of Fourier heat maps of two small CNNs on MNIST digits.

  The user sets their weights, for example to a run of configs/fourier_heatmap.py.
  """
  config = default_config('fourier_preview', labels=('natural', 'gaussian'))
  for classifier in config.classifiers.values():
    classifier.name = 'small_cnn'
  return config


def cifar10() -> ConfigDict:
  """Returns the config of a preview of a ResNet-20's Fourier heat map on 1000 CIFAR-10 images."""
  return resnet20_on_cifar10('fourier_preview')


get_config = variants(digits, cifar10)
