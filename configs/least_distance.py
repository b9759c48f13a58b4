"""Least distance of a wrong image, and accuracy over all radii, by FMN and DDN.

python main.py --config=configs/least_distance.py --workdir=/tmp/least_distance

  No download. Trains the small CNN on MNIST digits twice, plain and on the examples of a PGD attack
  in ℓ2, and searches 200 test digits for the nearest wrong images in ℓ2, in 100 steps each. The
  trainings take most of its one to two minutes on 2 quiet cores.

python main.py --config=configs/least_distance.py:cifar10 --workdir=/tmp/least_distance_cifar10 \
    --config.classifier.weights=FILE

  CIFAR-10 by TFDS, 200 test images, ResNet-20: FMN and DDN make 40,000 forward and backward passes.
  The published network's median distance is .084 by FMN, .076 by DDN and .075 by both.

  For ℓ∞ or ℓ1 --config.study.norm=linf --config.study.attacks=fmn, with
  --config.study.epsilons=0,.001,.002,.004.
"""

from robustness.config.defaults import ConfigDict, default_config, variants
from robustness.config.trainings import resnet20_on_cifar10, train_small_networks


def digits() -> ConfigDict:
  """Returns the default config: least ℓ2 distance to errors of two small CNNs on MNIST digits.

  One is trained adversarially.
  """
  config = _in_l2(default_config('least_distance', labels=('natural', 'adversarial')), step=0.1)
  train_small_networks(config, epochs=6.0)
  attack = config.classifiers.adversarial.attack
  attack.name = 'pgd'
  attack.pgd.update(norm='l2', epsilon=1.0, steps=3, step_size=0.5)
  return config


def cifar10() -> ConfigDict:
  """Returns the config of the least ℓ2 distance to errors of a ResNet-20 on 200 CIFAR-10 images."""
  return _in_l2(resnet20_on_cifar10('least_distance'), step=0.02)


def _in_l2(config: ConfigDict, step: float) -> ConfigDict:
  """Returns the config with FMN and DDN in ℓ2, 200 images, and the radii 0, step, …, 20·step.

  A radius is the ℓ2 norm of the change of an image with pixels in [0, 1].
  """
  config.study.attacks = ('fmn', 'ddn')
  config.study.norm = 'l2'
  config.study.epsilons = tuple(round(step * number, 3) for number in range(21))
  config.data.num_images = 200
  return config


get_config = variants(digits, cifar10)
