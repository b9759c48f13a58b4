r"""mCE to a stated half width from a fraction of the passes: one corruption an image.

python main.py --config=configs/sampled_mce.py --workdir=/tmp/sampled_mce \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  CIFAR-10 test images by TFDS, 2457 of them, each under one of the 15 corruptions at one severity:
  mCE by the published errors of RobustBench's Standard network to ± .1 or better, in 2457 passes
  instead of 184,275. A smaller --config.study.mce_half_width says how many images it needs.

python main.py --config=configs/sampled_mce.py:imagenet --workdir=/tmp/sampled_mce_imagenet \
    --config.classifier.name=resnet50 --config.classifier.weights=torchvision:resnet50.IMAGENET1K_V1

  ImageNet's validation images by TFDS, 2571 of them: mCE by AlexNet's errors to ± .025.
"""

from robustness.config.defaults import ConfigDict, default_config, variants
from robustness.config.trainings import resnet20_on_cifar10, use_imagenet


def cifar10() -> ConfigDict:
  """Returns the config of mCE of a ResNet-20 on CIFAR-10 test images that are corrupted here.

  Corruptions are computed as for the released CIFAR-10-C. 2457 images suffice for mCE ± 0.1, the
  default half width; mCE is a ratio, 1 for the published baseline.
  """
  config = resnet20_on_cifar10('sampled_mce', num_images=2457)
  config.study.protocol = 'as_released'
  return config


def imagenet() -> ConfigDict:
  """Returns the config of mCE of a ResNet-50 on ImageNet's validation images, corrupted here.

  Images are resized, cropped and corrupted as for the released ImageNet-C. 2571 images suffice for
  mCE ± 0.025; mCE is a ratio, 1 for AlexNet.
  """
  config = default_config('sampled_mce')
  use_imagenet(config, num_images=2571)
  config.data.update(interpolation='bilinear', resized_by='pillow')
  config.study.update(protocol='as_released', baseline='alexnet', mce_half_width=0.025)
  config.classifier.name = 'resnet50'
  return config


get_config = variants(cifar10, imagenet)
