r"""AUROC and FPR95 of scores that detect images of unknown classes (out of distribution).

python main.py --config=configs/ood_scores.py --workdir=/tmp/known \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  2000 CIFAR-10 test images by TFDS: logits and features are recorded.

python main.py --config=configs/ood_scores.py:unknown --workdir=/tmp/unknown \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE --config.data.folder.path=DIR

  The same of images of no class that the network knows: a folder of class folders; the images
  are resized to 32 pixels.

python main.py --config=configs/ood_scores.py:workdirs --workdir=/tmp/ood \
    --config.predictions=/tmp/known --config.out_of_distribution=/tmp/unknown

  How well each score separates the two sets; workdirs of corrupted images of the known classes in
  --config.shifted are counted as known (full-spectrum).

python main.py --config=configs/ood_scores.py:openood --workdir=/tmp/openood \
    --config.predictions=/tmp/known --config.bank=/tmp/training \
    --config.near=WORKDIR,WORKDIR --config.far=WORKDIR,WORKDIR

  All scores, as OpenOOD 1.5 has them, with means over near and over far sets. The bank is the first
  command with --config.data.split=train.
"""

from robustness.config import defaults
from robustness.config.defaults import ConfigDict, variants
from robustness.config.trainings import resnet20_on_cifar10, use_cifar10
from robustness.estimates.fitted_scores import SCORES


def cifar10() -> ConfigDict:
  """Returns the config that records a ResNet-20 on images of known classes.

  They are 2000 CIFAR-10 test images.
  """
  return resnet20_on_cifar10('ood_scores', num_images=2000)


def unknown() -> ConfigDict:
  """Returns the config that records a ResNet-20 on a folder of images of no class that it knows."""
  config = defaults.default_config('ood_scores')
  config.data.update(source='folder', known_classes=False, resize=32, crop=32)
  config.classifier.name = 'resnet20'
  return config


def workdirs() -> ConfigDict:
  """Returns the config that compares finished runs on known and on unknown classes."""
  return defaults.predictions_config('ood_scores')


def openood() -> ConfigDict:
  """Returns the config that compares finished runs by the protocol of OpenOOD 1.5."""
  config = workdirs()
  config.study.scores = tuple(SCORES)
  return config


def sets() -> ConfigDict:
  """Returns the battery that records one network on all sets of OpenOOD 1.5 for CIFAR-10."""
  names_in_tfds = {'cifar100': 'cifar100', 'mnist': 'mnist', 'svhn': 'svhn_cropped', 'dtd': 'dtd'}
  unknown_sets = ('cifar100', 'tiny_imagenet', 'mnist', 'svhn', 'dtd', 'places365')
  config = defaults.default_battery(
    dict.fromkeys(('known', 'training', *unknown_sets), 'ood_scores')
  )
  use_cifar10(config, num_images=2000)
  config.classifier.name = 'resnet20'
  config.battery.training.data.update(split='train', num_images=5000)
  for name in unknown_sets:  # from TFDS, or from a folder that the user names
    data = config.battery[name].data
    data.known_classes = False
    data.resize, data.crop = 32, 32
    if name in names_in_tfds:
      data.tfds.dataset = names_in_tfds[name]
    else:
      data.source = 'folder'
  return config


get_config = variants(cifar10, unknown, workdirs, openood, sets)
