"""How often predictions change along sequences of ever stronger corruption (flip rate).

python main.py --config=configs/flip_rate.py --workdir=/tmp/flip_rate

  No download. Trains the two small CNNs of the heat maps on MNIST digits and shows 200 test digits
  in nine frames of rising severity, 1 to 5, under each of the official 15 corruptions; states flip
  rates and the ratio of the Gaussian network's to the natural one's.

python main.py --config=configs/flip_rate.py:cifar10 --workdir=/tmp/flip_rate_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  CIFAR-10 test images by TFDS. Sequences are made on the device with the corruption's draws held
  fixed: rates are no published ones of ImageNet-P or CIFAR-10-P.
"""

from robustness.config.defaults import ConfigDict, variants
from robustness.config.trainings import plain_and_noisy_digits, resnet20_on_cifar10


def digits() -> ConfigDict:
  """Returns the default config: flip rates of two small CNNs on MNIST digits.

  One is trained with noise.
  """
  return plain_and_noisy_digits('flip_rate', num_images=200)


def cifar10() -> ConfigDict:
  """Returns the config of the flip rate of a ResNet-20 on 1000 CIFAR-10 test images."""
  return resnet20_on_cifar10('flip_rate')


get_config = variants(digits, cifar10)
