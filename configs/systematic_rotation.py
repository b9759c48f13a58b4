"""Systematic robustness to rotation: ρ (Omran and Schiele 2022).

python main.py --config=configs/systematic_rotation.py --workdir=/tmp/systematic_rotation

  No download. In training five of ten classes of digits are shown rotated, by multiples of 30°, the
  other five upright alone; in the test all are shown rotated by 90°, 180° and 270°, which moves
  pixels and interpolates none. Less than a minute on 2 cores. Expect the classes that were never
  shown rotated to be far below the others, and some (0, 8) to be helped by their symmetry. Several
  seeds: --config.seeds=0,1,2.

python main.py --config=configs/systematic_rotation.py:cifar10 --workdir=/tmp/rotation_cifar10

  airbench94 at half its width on CIFAR-10, 12 epochs twice. Other training angles, for example
  right angles alone: --config.classifiers.erm.augment.environment.angles=90,180,270.

python main.py --config=configs/systematic_rotation.py:imagenet --workdir=/tmp/rotation_imagenet \
    --config.data.tfds.data_dir=DIR

  ResNet-50 on ImageNet by TFDS: half of the 1000 classes are shown rotated, 90 epochs twice, an
  estimated 21 hours of an accelerator. :imagenet_finetuned begins with torchvision's weights, f0,
  and takes 5 epochs.

Every variant can be followed by +methods, such as :digits+methods: every environment equally often
in a batch, Group DRO, IRM and CORAL over environments and mixup within each, with plain training,
`erm`. ImageNet is then read from class folders, as in systematic_corruptions.py.
"""

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, default_config, variants

LABELS = 'upright', 'erm'
"""A network trained upright, for comparison, and one to which some classes are shown rotated."""


def digits() -> ConfigDict:
  """Returns the default config: robustness to rotation of two small CNNs on MNIST digits.

  One network is trained upright. The other sees five of the ten classes rotated too.
  """
  config = default_config('systematic', LABELS)
  trainings.train_small_networks(config)
  trainings.train_selectively(config, ('rotation',))
  return config


def cifar10() -> ConfigDict:
  """Returns the config of robustness to rotation of two airbench94 at half width on CIFAR-10.

  One network is trained upright. The other sees five of the ten classes rotated too.
  """
  config = default_config('systematic', LABELS)
  trainings.train_half_airbench(config)
  trainings.train_selectively(config, ('rotation',))
  return config


def imagenet() -> ConfigDict:
  """Returns the config of robustness to rotation of two ResNet-50 on ImageNet.

  One network is trained upright. The other sees half of the classes rotated too.
  """
  config = default_config('systematic', LABELS)
  trainings.train_on_imagenet(config)
  trainings.train_selectively(config, ('rotation',))
  return config


def imagenet_finetuned() -> ConfigDict:
  """Returns the config of `imagenet`, but fine-tuned from torchvision's weights.

  One is fine-tuned on upright images; its accuracy is the baseline b of the relative robustness ρ.
  """
  config = imagenet()
  trainings.finetune_resnet50(config)
  return config


get_config = variants(
  *(digits, cifar10, imagenet, imagenet_finetuned), added={'methods': trainings.add_methods}
)
