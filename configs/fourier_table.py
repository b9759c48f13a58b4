r"""The trainings of Yin et al. (2019) in one run, with tables 1 and 3 and figures 3, 5, 6, 7, 8.

python main.py --config=configs/fourier_table.py --workdir=/tmp/fourier_table

  No download, and no finding: five recipes on MNIST digits with a small CNN, to see what a run
  leaves (docs/batteries.md). One to two minutes on 2 cores.

python main.py --config=configs/fourier_table.py:cifar10 --workdir=/tmp/fourier_cifar10

  airbench94 on all of CIFAR-10, 12 epochs for each recipe; 2000 test images, 500 in the heat maps
  and under PGD, 1000 under noise in bands (figure 5): an estimated nine hours of two cores, minutes
  of an accelerator. Stop it at any time; the same command resumes it. Three seeds' results are in
  docs/records/reproduction.md: natural .933 on clean images, Gaussian .908, AutoAugment .930, 60 of
  the 75 changes of table 3 with the published sign, fog noise harmful under fog. All 10,000 test
  images: --config.data.num_images=0.
  AutoAugment is without Cutout here, adversarial training takes two steps, and corrupted images are
  made as CIFAR-10-C was (`protocol='as_released'`), except frost, which is drawn. Tables 1 and 3
  and figure 6 on the released files, all 10,000 images of the paper's 15 corruptions:

python main.py --config=configs/fourier_table.py:cifar10_c --workdir=/tmp/fourier_cifar10_c \
    --config.battery.errors.data.cifar10_c.path=DIR \
    --config.battery.tradeoff.data.cifar10_c.path=DIR

python main.py --config=configs/fourier_table.py:cifar10_half --workdir=/tmp/fourier_half

  Half the network's width and half the epochs, all else as in :cifar10: less than two hours of 2
  cores. One seed: natural .905 on clean images, Gaussian .856, 64 signs as published.

python main.py --config=configs/fourier_table.py:full --workdir=/tmp/fourier_full

  The paper's network and test images: WRN-28-10, all 10,000; 200 epochs in bfloat16, as Wide
  ResNets are trained, for the paper states none; measured in float32. Estimated, not measured:
  31.5 GFLOP an image forward and backward x 10^7 images = 315 PFLOP a recipe, 15 minutes at 350
  TFLOP/s (.35 of an H100's peak), 26 at 200; adversarial training with 7 steps is 8 of these. With
  six more recipes 14 units, 3.5 to 6.2 hours, and in evaluation 11.2 million images forward and .7
  million gradients of attacks (140 PFLOP, 7 to 14 minutes and the corruptions). The attack, 7 steps
  of 2/255 in a ball of 8/255, is the field's; the paper has none.

python main.py --config=configs/fourier_table.py:imagenet --workdir=/tmp/fourier_imagenet

  Table 4 and figure 4: ResNet-50, 90 epochs of ImageNet by TFDS (manual download; docs/papers.md),
  all 50,000 validation images under the corruptions, 15 million in 60 views of five networks. In
  the heat maps it shows each frequency to the number of images that its error needs for ± 3
  points; --config.battery.heat_maps.study.half_width=0 shows all, 496 million. Trained in
  bfloat16, measured in float32. Corrupts crops of 224 pixels where the paper corrupts whole
  pictures (docs/contradictions.md). Not run.

python main.py --config=configs/fourier_table.py:imagenet,natural,gaussian \
    --config.battery.tasks=heat_maps --config.battery.heat_maps.study.norm=40 --workdir=/tmp/norm_40

  Figure 9: two of these networks at norm 40; the paper does not name its two.

Every variant takes recipes after commas: :cifar10,natural,gaussian,adversarial trains these three.
"""

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, check_variant, default_battery, variants

TASKS = {
  'errors': 'corruption_error',
  'tradeoff': 'tradeoff',
  'heat_maps': 'fourier_heatmap',
  'band_noise': 'band_noise',
  'attacks': 'attack_error',
}
"""{name of a task: the study that it runs}."""
TABLES = ('errors', 'tradeoff', 'heat_maps')
"""Tasks of the tables, without figures of attacks."""
RECIPES = ('natural', 'gaussian', 'adversarial', 'low_pass', 'high_pass', 'auto_augment')
"""Names of the trainings that are compared."""
CIFAR10_RECIPES = (*RECIPES, 'fog_noise')
"""Names of the trainings on CIFAR-10."""


def get_config(variant: str = 'digits') -> ConfigDict:
  """Returns the config of a variant, the name of a function below, for example 'cifar10'.

  Names of recipes may follow, as in 'cifar10,natural,adversarial'. Only these are trained; without
  names all are.
  """
  name, *recipes = variant.split(',')
  config = variants(digits, cifar10, cifar10_half, cifar10_c, full, imagenet)(name)
  for recipe in recipes:
    check_variant(recipe, config.classifiers)
  with config.classifiers.unlocked():
    for recipe in {*config.classifiers} - {*(recipes or config.classifiers)}:
      del config.classifiers[recipe]
  return config


def digits() -> ConfigDict:
  """Returns the default config: a battery of studies of a small CNN on MNIST digits, by recipe.

  Digits are not flipped, and AutoAugment, which changes colours, is left out.
  """
  labels = tuple(label for label in RECIPES if label != 'auto_augment')
  config = _recipes('small_cnn', labels, sigma=0.4, low_pass=9, high_pass=27)
  config.battery.tasks = TABLES
  config.data.num_images = 200
  for task in ('errors', 'tradeoff'):
    config.battery[task].study.severities = (1, 5)
  config.battery.heat_maps.study.norm = 8.0
  config.battery.heat_maps.data.num_images = 100
  for classifier in config.classifiers.values():
    policy = classifier.augment.policy
    classifier.augment.policy = tuple(name for name in policy if name != 'flip')
    classifier.augment.crop.padding = 2
  config.classifiers.adversarial.attack.pgd.update(epsilon=0.1, step_size=0.04, steps=4)
  config.training.epochs = 4.0
  return config


def cifar10() -> ConfigDict:
  """Returns the config of a battery of studies of airbench94 on CIFAR-10, trained by each recipe.

  Training takes all training images, and tasks evaluate 500 to 2000 test images.
  """
  config = _recipes('airbench94', CIFAR10_RECIPES, sigma=0.1, low_pass=15, high_pass=31)
  trainings.train_airbench(config)
  trainings.use_cifar10(config, num_images=2000)
  for task in ('errors', 'tradeoff'):
    config.battery[task].study.protocol = 'as_released'
  config.battery.heat_maps.study.norm = 4.0
  config.battery.heat_maps.data.num_images = 500
  config.battery.band_noise.data.num_images = 1000
  config.battery.attacks.data.num_images = 500
  for label in ('gaussian', 'fog_noise'):
    config.classifiers[label].augment.policy = ('alternating_flip', 'crop', label)
  config.classifiers.auto_augment.augment.policy = ('auto_augment', 'crop', 'alternating_flip')
  trainings.take_two_steps(config.classifiers.adversarial)
  return config


def cifar10_half() -> ConfigDict:
  """Returns the config of `cifar10` with half the width and half the epochs."""
  config = cifar10()
  for classifier in config.classifiers.values():
    classifier.name = 'airbench94_half'
  config.training.epochs = 6.0
  return config


def cifar10_c() -> ConfigDict:
  """Returns the config of `cifar10` with errors on the stored images of CIFAR-10-C."""
  config = cifar10()
  for task in ('errors', 'tradeoff'):
    config.battery[task].study.update(protocol='exact', source='stored')
    config.battery[task].data.source = 'cifar10_c'
    config.battery[task].data.cifar10_c.clean_dataset = 'cifar10'
    config.battery[task].data.num_images = 0  # all
  return config


def full() -> ConfigDict:
  """Returns the config of a battery of studies of WRN-28-10 on CIFAR-10, trained by each recipe.

  It trains for 200 epochs in bfloat16 and takes all test images. The paper does not state a
  number of epochs.
  """
  config = _recipes('wide_resnet_28_10', CIFAR10_RECIPES, sigma=0.1, low_pass=15, high_pass=31)
  trainings.use_cifar10(config, num_images=0)  # all
  for task in ('errors', 'tradeoff'):
    config.battery[task].study.protocol = 'as_released'
  config.battery.heat_maps.study.norm = 4.0
  config.battery.heat_maps.data.num_images = 1000
  config.classifiers.adversarial.attack.pgd.steps = 7
  config.training.update(epochs=200.0, weight_decay=5e-4)
  config.training.update(precision='bfloat16', checkpoint_every_steps=1000)
  return config


def imagenet() -> ConfigDict:
  """Returns the config of a battery of studies of ResNet-50 on ImageNet (Yin et al. 2019, table 4).

  It is trained by each recipe but 'adversarial'.
  """
  recipes = tuple(label for label in RECIPES if label != 'adversarial')
  config = _recipes('resnet50', recipes, sigma=0.4, low_pass=45, high_pass=223)
  config.battery.tasks = TABLES
  config.classifiers.auto_augment.augment.policy = ('flip', 'auto_augment')
  config.classifiers.auto_augment.augment.auto_augment.policy = 'imagenet'
  trainings.train_on_imagenet(config)
  for task in ('errors', 'tradeoff'):
    config.battery[task].study.corruptions = ('fourier_imagenet',)
  config.battery.heat_maps.study.update(norm=15.7, window=63)
  config.battery.heat_maps.data.num_images = 0  # all
  config.battery.heat_maps.study.half_width = 0.03
  return config


def _recipes(
  network: str, labels: tuple[str, ...], sigma: float, low_pass: int, high_pass: int
) -> ConfigDict:
  """Returns a config with all tasks, and one network trained by each recipe.

  A classifier's label is its recipe. All recipes flip and crop. 'auto_augment' applies its policy
  before it crops and flips, as in the code that the paper names.

  Args:
    network: name of the architecture.
    labels: the recipes, names in `CIFAR10_RECIPES`.
    sigma: standard deviation of the recipe 'gaussian', in units of pixel values in [0, 1].
    low_pass: bandwidth of the recipe 'low_pass': number of frequencies that it keeps on an axis.
    high_pass: bandwidth of the recipe 'high_pass'.
  """
  config = default_battery(TASKS, labels, 'fourier_table')
  for task in ('errors', 'tradeoff'):
    config.battery[task].study.corruptions = ('fourier_cifar',)
  config.battery.heat_maps.study.layers = ('stages',)
  for label, classifier in config.classifiers.items():
    classifier.update(name=network, train=True)
    noise = (label,) if label in ('gaussian', 'fog_noise') else ()
    classifier.augment.policy = ('flip', 'crop', *noise)
    classifier.augment.gaussian.sigma = sigma
    classifier.augment.auto_augment.policy = 'cifar10_reference_95'
    classifier.augment.auto_augment.without = ('Brightness', 'Contrast')
    if label in ('low_pass', 'high_pass'):
      classifier.input_filter.name = label
    if label == 'auto_augment':
      classifier.augment.policy = ('auto_augment', 'crop', 'flip', 'cutout')
      classifier.augment.crop.border = 'mean_colour'
    classifier.input_filter.low_pass.bandwidth = low_pass
    classifier.input_filter.high_pass.bandwidth = high_pass
    if label == 'adversarial':
      classifier.attack.name = 'pgd'
  return config
