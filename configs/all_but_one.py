r"""Training on all corruptions but one (Yin et al. 2019, table 3, the column "all-but-one").

python main.py --config=configs/all_but_one.py --workdir=/tmp/all_but_one

  No download, and no finding: small CNNs on MNIST digits, trained on all but contrast and all but
  impulse noise, at severities 1 and 5; to see what a run leaves. One minute on 2 cores.

python main.py --config=configs/all_but_one.py:cifar10 --workdir=/tmp/all_but_one_cifar10

  The paper's 13 corruptions and 5 severities: 65 networks, airbench94 for 12 epochs each; 2000 test
  images, corrupted as CIFAR-10-C was (`protocol='as_released'`); with the published column. An
  estimated 4 days of 2 cores, 5 hours of an accelerator. Stop it at any time; the same command goes
  on. The paper trains WRN-28-10 and does not say whether clean images are in the mix; here there
  are none.

python main.py --config=configs/all_but_one.py:fog --workdir=/tmp/all_but_one_fog

  The five networks of one corruption of these, such as on another machine. Copy the folders in
  checkpoints/ of all parts into one workdir, and :cifar10 resumes from them.
"""

from robustness.config.defaults import ConfigDict, check_variant, default_config
from robustness.config.trainings import train_airbench, train_small_networks, use_cifar10

CORRUPTIONS = (
  *('brightness', 'contrast', 'defocus_blur', 'elastic_transform', 'fog', 'gaussian_blur'),
  *('glass_blur', 'impulse_noise', 'jpeg_compression', 'pixelate', 'shot_noise', 'speckle_noise'),
  'zoom_blur',
)
"""The corruptions of table 3 that the paper could make on training images."""


def get_config(variant: str = 'digits') -> ConfigDict:
  """Returns the config of a variant: 'digits', 'cifar10', or a corruption, such as 'fog'.

  A corruption has the networks of 'cifar10' that leave out this corruption.
  """
  check_variant(variant, ('digits', 'cifar10', *CORRUPTIONS))
  if variant == 'digits':
    return digits()
  return cifar10(CORRUPTIONS if variant == 'cifar10' else (variant,))


def digits() -> ConfigDict:
  """Returns the default config: error of four small CNNs on corrupted MNIST digits.

  Each is trained without one of two corruptions, at one of two severities.
  """
  config = _network_by_corruption(('contrast', 'impulse_noise'), (1, 5))
  train_small_networks(config, epochs=2.0)
  for classifier in config.classifiers.values():
    classifier.augment.policy = ('corruption', 'crop')
  config.data.num_images = 500
  return config


def cifar10(corruptions: tuple[str, ...]) -> ConfigDict:
  """Returns the config of airbench94 networks, each trained on CIFAR-10 with corruptions left out.

  There is a network for each of `corruptions` and each severity; 2000 test images are evaluated.
  """
  config = _network_by_corruption(corruptions, (1, 2, 3, 4, 5))
  train_airbench(config)
  use_cifar10(config, num_images=2000)
  config.study.protocol = 'as_released'
  for classifier in config.classifiers.values():
    classifier.augment.policy = ('corruption', 'alternating_flip', 'crop')
    classifier.data.source = 'tfds'  # trains on clean images even if the study reads stored ones
    classifier.data.tfds.dataset = 'cifar10'
  return config


def _network_by_corruption(corruptions: tuple[str, ...], severities: tuple[int, ...]) -> ConfigDict:
  """Returns the config with a network for each corruption and severity, named such as 'fog_3'.

  A network trains on all of `CORRUPTIONS` but its own, at its own severity.
  """
  cells = [(name, severity) for name in corruptions for severity in severities]
  config = default_config('all_but_one', tuple(f'{name}_{severity}' for name, severity in cells))
  config.study.update(corruptions=corruptions, severities=severities)
  for (name, severity), classifier in zip(cells, config.classifiers.values(), strict=True):
    classifier.augment.corruption.corruptions = CORRUPTIONS
    classifier.augment.corruption.left_out = (name,)
    classifier.augment.corruption.severities = (severity,)
  return config
