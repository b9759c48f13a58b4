"""How often predictions change along the sequences of ImageNet-P and CIFAR-10-P (mFP, mFR, mT5D).

python main.py --config=configs/perturbation_stability.py --workdir=/tmp/imagenet_p \
    --config.classifier.name=resnet50 --config.classifier.weights=FILE \
    --config.data.imagenet_p.path=DIR

  ImageNet-P as released (DIR/<perturbation>/<class>/<image>.mp4, decoded by PyAV:
  pip install '.[video]'), against AlexNet's published figures. A ResNet-50 has a mean flip rate of
  .58 and a mean top-5 distance of .784, which papers print times 100.

python main.py --config=configs/perturbation_stability.py:cifar10_p --workdir=/tmp/cifar10_p \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE \
    --config.data.cifar10_p.path=DIR

  CIFAR-10-P as released (a folder of .npy files), with the labels of TFDS's test set: the mean flip
  probability, which papers print without a baseline. Several classifiers are divided by the first.

Perturbations of the folder that are not wanted are read too: keep those in another folder.
"""

from robustness.config.defaults import ConfigDict, default_config, variants
from robustness.config.trainings import efficientnet_lite0


def imagenet_p() -> ConfigDict:
  """Returns the default config: changes of EfficientNet-Lite0's predictions on ImageNet-P.

  They are divided by AlexNet's.
  """
  config = efficientnet_lite0('perturbation_stability', 'imagenet_p')
  config.study.baseline = 'alexnet'
  return config


def cifar10_p() -> ConfigDict:
  """Returns the config of changes of a ResNet-20's predictions on CIFAR-10-P."""
  config = default_config('perturbation_stability')
  config.study.perturbations = ('cifar10_p',)
  config.data.source = 'cifar10_p'
  config.data.cifar10_p.label_dataset = 'cifar10'
  config.classifier.name = 'resnet20'
  return config


get_config = variants(imagenet_p, cifar10_p)
