r"""How evenly accuracy is spread over classes.

python main.py --config=configs/class_balance.py --workdir=/tmp/class_balance

  No download. A small CNN on MNIST digits. Half a minute on 2 cores.

python main.py --config=configs/class_balance.py:cifar10 --workdir=/tmp/class_balance_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  CIFAR-10's test images by TFDS.
"""

from robustness.config.defaults import ConfigDict, variants
from robustness.config.trainings import resnet20_on_cifar10, small_cnn_on_digits


def digits() -> ConfigDict:
  """Returns the default config: accuracy by class of a small CNN on MNIST digits."""
  return small_cnn_on_digits('class_balance')


def cifar10() -> ConfigDict:
  """Returns the config of accuracy by class of a ResNet-20 on all test images of CIFAR-10."""
  return resnet20_on_cifar10('class_balance', num_images=0)


get_config = variants(digits, cifar10)
