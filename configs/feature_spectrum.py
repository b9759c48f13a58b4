r"""Which frequencies does each layer keep? Spectra of feature maps through a network.

python main.py --config=configs/feature_spectrum.py --workdir=/tmp/feature_spectrum

  No download. Trains a small CNN on MNIST digits; log-amplitude of the output of each of its stages
  along the diagonal, from frequency 0 to π, for 1000 test digits. Strides remove the highest
  frequencies of their input, which leaves spectra that fall less from stage to stage.

python main.py --config=configs/feature_spectrum.py:cifar10 --workdir=/tmp/spectrum_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  500 CIFAR-10 test images by TFDS. For the blocks inside stages give their names, such as
  --config.study.of_layers=stage1/block0,stage1/block1.
"""

from robustness.config.defaults import ConfigDict, choose, on_cifar10, one_on_digits

STUDY = 'feature_spectrum'


def get_config(variant: str = 'digits') -> ConfigDict:
  """Returns the variant 'digits' or 'cifar10'."""
  return choose(variant, digits, cifar10)


def digits() -> ConfigDict:
  """The default: a small CNN on MNIST digits."""
  return one_on_digits(STUDY)


def cifar10() -> ConfigDict:
  """One network on 500 CIFAR-10 test images."""
  return on_cifar10(STUDY, 500)
