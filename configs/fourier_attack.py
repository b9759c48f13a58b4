"""Fourier basis images of large norm as an attack without gradients (Yin et al. 2019, fig. 7 c, d).

python main.py --config=configs/fourier_attack.py --workdir=/tmp/fourier_attack

  No download. Trains the two small CNNs of the heat maps and shows 1000 test digits with every
  frequency at norm 8; a random half of the digits chooses the worst ten, on the others the error
  with the worst one and with the best of ten is measured: .73 and .93 for the plain network, .72
  and .89 for the other, from .03 and .02 on clean digits; the worst frequencies are (-4, 1) and
  (-3, 1).

python main.py --config=configs/fourier_attack.py:cifar10 --workdir=/tmp/fourier_attack_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  CIFAR-10 by TFDS at norm 3.43, which is as much a pixel as the paper's 24 at 224 pixels.

python main.py --config=configs/fourier_attack.py:imagenet --workdir=/tmp/fourier_attack_imagenet \
    --config.data.source=folder --config.data.folder.path=DIR --config.data.num_images=1000 \
    --config.study.heat_map=WORKDIR

  EfficientNet-Lite0 at the paper's norm of 24. WORKDIR is a finished run of
  configs/fourier_heatmap.py on other images (--config.seed=1 draws others), which names the
  frequencies, so that eleven views are shown in place of hundreds. Images that both runs hold are
  left out. Without a heat map the 15 × 15 lowest frequencies are tried. The paper's network:
  --config.classifier.name=resnet50
  --config.classifier.weights=torchvision:resnet50.IMAGENET1K_V1 (pip install '.[hub]').
"""

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, variants


def digits() -> ConfigDict:
  """Returns the default config: attacks with Fourier basis images on two small CNNs on digits.

  One is trained with noise.
  """
  config = trainings.plain_and_noisy_digits('fourier_attack')
  config.study.norm = 8.0
  return config


def cifar10() -> ConfigDict:
  """Returns the config of attacks with Fourier basis images on a ResNet-20.

  It takes 1000 CIFAR-10 test images.
  """
  config = trainings.resnet20_on_cifar10('fourier_attack')
  config.study.norm = 3.43  # as much a pixel as the paper's 24 at 224 × 224 pixels
  return config


def imagenet() -> ConfigDict:
  """Returns the config of attacks with Fourier basis images on EfficientNet-Lite0.

  It takes 20 ImageNet pictures and the 15 × 15 lowest frequencies.
  """
  config = trainings.efficientnet_lite0('fourier_attack', 'foolbox')
  config.study.window = 15
  return config


get_config = variants(digits, cifar10, imagenet)
