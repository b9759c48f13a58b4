"""Error under band-limited noise of fixed norm, by bandwidth (Yin et al. 2019, figure 5).

python main.py --config=configs/band_noise.py --workdir=/tmp/band_noise

  No download. Trains the two small CNNs of the heat maps, plain and with Gaussian noise, and shows
  1000 test digits with noise of norm 8 in low- and high-centred squares of frequencies. Low-centred
  noise hurts most: error .35 at B = 1, .28 at 3 and .10 at 27 for the plain network, .09, .17 and
  .04 for the other, which is better in every band (the paper's CIFAR-10 networks differ at B = 3
  the other way). High-centred noise costs the plain network 2 to 6 points, the other about 1.

python main.py --config=configs/band_noise.py:cifar10 --workdir=/tmp/band_noise_cifar10 \
    --config.classifiers.natural.weights=FILE --config.classifiers.gaussian.weights=FILE

  Two networks on the same noise, 1000 CIFAR-10 test images by TFDS, norm 8 as in the paper; without
  weights --config.classifiers.natural.train=True trains one. Give one label
  per network: :cifar10,natural,gaussian,adversarial. --config.study.bandwidths=3,15,31 takes fewer
  bandwidths (odd ones, for sides of an even number of pixels).
"""

from robustness.config.defaults import ConfigDict, variants
from robustness.config.trainings import plain_and_noisy_digits, resnet20_on_cifar10


def digits() -> ConfigDict:
  """Returns the default config: error of two small CNNs on MNIST digits with band-limited noise.

  One is trained with noise.
  """
  return plain_and_noisy_digits('band_noise')


def cifar10(labels: tuple[str, ...] = ('natural', 'gaussian')) -> ConfigDict:
  """Returns the config of error under band-limited noise on CIFAR-10 (Yin et al. 2019, figure 5).

  `labels` are the labels of the networks. 'gaussian' is trained with noise and 'adversarial' by
  PGD; all others are trained with flips and crops alone.
  """
  config = resnet20_on_cifar10('band_noise', labels=labels)
  for classifier in config.classifiers.values():
    classifier.augment.policy = ('flip', 'crop')
    classifier.augment.gaussian.sigma = 0.1
  if 'gaussian' in labels:
    config.classifiers.gaussian.augment.policy = ('flip', 'crop', 'gaussian')
  if 'adversarial' in labels:
    config.classifiers.adversarial.attack.name = 'pgd'
  config.training.update(epochs=200.0, batch_size=128)
  return config


get_config = variants(digits, cifar10, labelled=cifar10)
