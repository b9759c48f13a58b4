"""Systematic robustness to rotation: ρ (Omran and Schiele 2022).

python main.py --config=configs/systematic_rotation.py --workdir=/tmp/systematic_rotation

  No download. In training five of ten classes of digits are shown rotated, by multiples of 30°, the
  other five upright alone; in the test all are shown rotated by 90°, 180° and 270°, which moves
  pixels and interpolates none. About 20 seconds on 2 cores. Expect the classes that were never
  shown rotated to be far below the others, and some (0, 8) to be helped by their symmetry. Several
  seeds: --config.seeds="(0,1,2)".

python main.py --config=configs/systematic_rotation.py:cifar10 --workdir=/tmp/rotation_cifar10

  ResNet-20 on CIFAR-10 by TFDS. Other training angles, for example right angles alone:
  --config.classifiers.erm.augment.environment.angles="(90,180,270)".
"""

from robustness.config.defaults import ConfigDict, choose, default_config, read_cifar10

STUDY = 'systematic'
ENVIRONMENTS = ('rotation',)


def get_config(variant: str = 'digits') -> ConfigDict:
  """Returns the variant 'digits' or 'cifar10'."""
  return choose(variant, digits, cifar10)


def _base(architecture: str) -> ConfigDict:
  """A network trained upright, for comparison, and one with the selective augmentation."""
  config = default_config(STUDY, labels=('upright', 'erm'))
  config.study.environments = ENVIRONMENTS
  config.study.baseline = 'upright'
  config.data.random_class_groups = 1
  config.data.classes_per_group = 5
  for classifier in config.classifiers.values():
    classifier.name = architecture
    classifier.train = True
    classifier.augment.policy = ('crop',)
    classifier.augment.environment.transforms = ENVIRONMENTS
  config.classifiers.erm.augment.policy = ('crop', 'environment')
  return config


def digits() -> ConfigDict:
  """The default: two small CNNs on MNIST digits."""
  config = _base('small_cnn')
  for classifier in config.classifiers.values():
    classifier.augment.crop.padding = 2
  config.training.epochs = 12.0
  config.training.checkpoint_every_steps = 100
  return config


def cifar10() -> ConfigDict:
  """ResNet-20 on CIFAR-10, a short training."""
  config = _base('resnet20')
  read_cifar10(config)
  config.training.epochs = 4.0
  config.training.batch_size = 128
  config.training.learning_rate = 0.1
  return config
