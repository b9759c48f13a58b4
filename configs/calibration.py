r"""Do classifiers know when they are wrong? Calibration and selective risk, clean and corrupted.

python main.py --config=configs/calibration.py --workdir=/tmp/calibration

  No download. Trains the two small CNNs of the heat maps on MNIST digits and shows 1000 test digits
  under 15 corruptions at 5 severities: ECE (bins of equal width and of equal mass, debiased), Brier
  score of the top label, AURC, each with bootstrap intervals over the images, reliability diagrams
  and the quantities by severity (Ovadia et al. 2019). docs/calibration.md says what each is.

python main.py --config=configs/calibration.py:cifar10 --workdir=/tmp/calibration_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  CIFAR-10 test images by TFDS.

python main.py --config=configs/calibration.py:workdir --workdir=/tmp/calibration_of_a_run \
    --config.predictions=WORKDIR

  The same numbers in every view of any finished run (frequencies of a heat map, attacks,
  bands), from its records: no classifier, no images. --config.task chooses the task of a battery.
"""

from robustness.config.defaults import ConfigDict, nested, variants
from robustness.config.trainings import plain_and_noisy_digits, resnet20_on_cifar10


def digits() -> ConfigDict:
  """Returns the default config: calibration of two small CNNs on MNIST digits.

  One is trained with noise.
  """
  return plain_and_noisy_digits('calibration')


def cifar10() -> ConfigDict:
  """Returns the config of the calibration of a ResNet-20 on CIFAR-10, clean and corrupted.

  It takes 1000 test images and the official 15 corruptions.
  """
  return resnet20_on_cifar10('calibration')


def workdir() -> ConfigDict:
  """Returns the config that computes calibration from the records of a finished run."""
  study = {'name': 'calibration', 'bins': 15, 'resamples': 1000, 'confidence': 0.95}
  return nested({'study': study, 'predictions': '', 'task': '', 'seed': 0})


get_config = variants(digits, cifar10, workdir)
