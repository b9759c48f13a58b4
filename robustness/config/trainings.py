"""Data and trainings that several files of `configs/` share; each function sets all of its
values.
"""

import copy

from ml_collections import ConfigDict

from robustness.config.defaults import default_config, sections_of_classifiers


def use_cifar10(config: ConfigDict, num_images: int = 1000) -> None:
  """Sets `config.data` to random CIFAR-10 test images from TFDS.

  Args:
    config: the config, which is changed.
    num_images: number of images; 0 uses all 10,000.
  """
  config.data.update(source='tfds', num_images=num_images)
  config.data.tfds.dataset = 'cifar10'
  # has an effect only if a user changes `source` to 'cifar10_c', which also needs clean images
  config.data.cifar10_c.clean_dataset = 'cifar10'


def use_imagenet(config: ConfigDict, num_images: int = 0) -> None:
  """Sets `config.data` to random ImageNet validation images from TFDS.

  Images are resized to 256 and cropped to 224 pixels.

  Args:
    config: the config, which is changed.
    num_images: number of images; 0 uses all 50,000.
  """
  config.data.update(source='tfds', split='validation', num_images=num_images)
  config.data.update(resize=256, crop=224)
  config.data.tfds.dataset = 'imagenet2012'


def resnet20_on_cifar10(
  study_name: str, num_images: int = 1000, labels: tuple[str, ...] = ()
) -> ConfigDict:
  """Returns the config of a study of ResNet-20 networks on CIFAR-10 test images.

  The networks are not trained: users name their weights.

  Args:
    study_name: name of the study.
    num_images: number of random test images; 0 uses all.
    labels: labels of the networks; () for a single network without label.
  """
  config = default_config(study_name, labels)
  use_cifar10(config, num_images)
  for classifier in sections_of_classifiers(config):
    classifier.name = 'resnet20'
  return config


def small_cnn_on_digits(study_name: str) -> ConfigDict:
  """Returns the config of a study of a small CNN, trained on MNIST digits, the default data."""
  config = default_config(study_name)
  train_small_networks(config)
  return config


def efficientnet_lite0(study_name: str, source: str) -> ConfigDict:
  """Returns the config of a study of the published EfficientNet-Lite0 on images of a source.

  Args:
    study_name: the study.
    source: name of the source, such as 'foolbox' for 20 pictures of ImageNet.
  """
  config = default_config(study_name)
  config.data.source = source
  config.classifier.name = 'efficientnet_lite0'
  return config


def plain_and_noisy_digits(study_name: str, num_images: int = 0) -> ConfigDict:
  """Returns the config of a study of two small CNNs, trained on MNIST digits.

  One is trained on the digits as they are, the other with Gaussian noise. The study measures a
  random choice of `num_images` test digits; 0 uses all 1000.
  """
  config = default_config(study_name, labels=('natural', 'gaussian'))
  train_small_networks(config)
  add_gaussian_noise(config.classifiers.gaussian)
  config.data.num_images = num_images
  return config


def train_small_networks(config: ConfigDict, epochs: float = 12.0) -> None:
  """Sets every classifier to a small CNN, trained on randomly cropped digits."""
  for classifier in sections_of_classifiers(config):
    classifier.update(name='small_cnn', train=True)
    classifier.augment.policy = ('crop',)
    classifier.augment.crop.padding = 2
  config.training.update(epochs=epochs, checkpoint_every_steps=100)


def add_gaussian_noise(classifier: ConfigDict) -> None:
  """Adds Gaussian noise of standard deviation 0.4 to the training images of a classifier."""
  classifier.augment.policy += ('gaussian',)
  classifier.augment.gaussian.sigma = 0.4


def train_on_imagenet(config: ConfigDict) -> None:
  """Sets every classifier to a ResNet-50, trained on ImageNet as by Goyal et al. (2017).

  The training has 90 epochs in batches of 1024 random crops and flips, in bfloat16. The learning
  rate rises to .1 per 256 images in 5 epochs, and then falls as a cosine. Weight decay is 1e-4.
  Validation images are resized to 256 and cropped to 224 pixels, and are measured in float32.
  """
  use_imagenet(config)
  for classifier in config.classifiers.values():
    classifier.update(train=True, name='resnet50')
    classifier.data.random_crop_area = 0.08
    # random crops are taken when images are read, in place of the augmentation 'crop'
    other_parts = (name for name in classifier.augment.policy if name not in ('flip', 'crop'))
    classifier.augment.policy = ('flip', *other_parts)
  config.training.update(epochs=90.0, batch_size=1024, weight_decay=1e-4, precision='bfloat16')
  config.training.update(learning_rate=0.4, warmup_epochs=5.0, checkpoint_every_steps=1000)


def finetune_resnet50(config: ConfigDict) -> None:
  """Changes the training of `train_on_imagenet` to 5 epochs from torchvision's weights."""
  for classifier in config.classifiers.values():
    classifier.initial_weights = 'torchvision:resnet50.IMAGENET1K_V1'
  config.training.update(epochs=5.0, learning_rate=0.04, warmup_epochs=0.5)


def finetune_on_frames(config: ConfigDict) -> None:
  """Sets every classifier to be fine-tuned as by Shankar et al. (2021, table 10).

  The training has 10 epochs in batches of 32, and its learning rate falls on plateaus. The paper
  does not state the optimizer. Chosen here are stochastic gradient descent without weight decay,
  and the defaults of momentum (.9) and patience (one epoch).
  """
  for classifier in sections_of_classifiers(config):
    classifier.train = True
  config.training.update(epochs=10.0, batch_size=32, schedule='plateau')
  config.training.update(nesterov=False, weight_decay=0.0)


def train_airbench(config: ConfigDict, network: str = 'airbench94') -> None:
  """Sets every classifier to be trained as airbench94 on CIFAR-10 (Jordan 2024).

  The function sets `config.training`, and network, augmentation and label smoothing of each
  classifier. Jordan's learning rate is for the sum of the losses in a batch, the rate here for
  their mean.

  Args:
    config: the config, which is changed.
    network: name of an architecture, such as 'airbench94_half'.
  """
  for classifier in sections_of_classifiers(config):
    classifier.update(name=network, train=True)
    classifier.augment.policy = ('alternating_flip', 'crop')
    classifier.augment.crop.update(padding=2, border='reflect')
    for objective in classifier.objective.values():
      if 'label_smoothing' in objective:
        objective.label_smoothing = 0.2
  config.training.update(epochs=12.0, batch_size=1000, schedule='triangular', learning_rate=1.5)
  config.training.update(momentum=0.85, weight_decay=1.33e-3, decay='all', bias_rate=64.0)
  config.training.update(stem_epochs=3.0, lookahead=5)
  config.training.update(evaluate_every_epochs=4.0, checkpoint_every_steps=50)


def take_two_steps(classifier: ConfigDict) -> None:
  """Sets a classifier's adversarial training to two steps of PGD.

  With one step, networks learn to read the label from the perturbation, and PGD finds an
  adversarial example for every image (docs/records/reproduction.md).
  """
  classifier.attack.pgd.update(steps=2, step_size=5 / 255)


def train_selectively(config: ConfigDict, environments: tuple[str, ...]) -> None:
  """Sets the classifier `erm` to be trained with image transforms on some classes only.

  Its name stands for empirical risk minimisation, which is training by the mean loss.

  The classes are divided at random into one group for each transform, such as blur. The training
  shows a transform only on the classes of its group. The first classifier is the baseline and is
  trained without transforms.

  Args:
    config: the config with the baseline and `erm`, which is changed.
    environments: names of the transforms.
  """
  config.study.update(environments=environments, baseline=next(iter(config.classifiers)))
  config.data.random_class_groups = len(environments)
  for classifier in config.classifiers.values():  # without effect for the baseline
    classifier.augment.environment.transforms = environments
  config.classifiers.erm.augment.policy += ('environment',)


def train_half_airbench(config: ConfigDict) -> None:
  """Sets CIFAR-10 and classifiers that are airbench94 at half its width, trained on it.

  Flips are random instead of alternating by epoch, because a training that draws images by
  transform, as `train_selectively` has, has no epochs.
  """
  use_cifar10(config)
  train_airbench(config, 'airbench94_half')
  for classifier in config.classifiers.values():
    classifier.augment.policy = ('flip', 'crop')


def add_methods(config: ConfigDict) -> None:
  """Adds five classifiers that are trained by other methods on the same images as `erm`.

  `balanced` has every transform equally often in a batch. `group_dro`, `irm` and `coral` have
  objectives that distinguish transforms. `mixup` mixes images under the same transform. All other
  settings are the same as in `erm`.
  """
  classifiers = config.classifiers
  for name in ('balanced', 'group_dro', 'irm', 'coral', 'mixup'):
    with classifiers.unlocked():
      classifiers[name] = copy.deepcopy(classifiers.erm)
  for name in ('group_dro', 'irm', 'coral'):
    classifiers[name].objective.name = name
    classifiers[name].objective[name].column = 'environment'
  # one for each group of classes with its transform, and one of the images as they are
  num_environments = 1 + config.data.random_class_groups
  classifiers.balanced.training.balanced = 'environment'
  classifiers.group_dro.objective.group_dro.groups = num_environments
  irm = classifiers.irm.objective.irm
  irm.update(environments=num_environments, penalty=10.0, rescale=True)
  # the weight of the penalty rises from 1 after a quarter of the steps; `steps` is 0 if the config
  # sets epochs
  irm.anneal_steps = config.training.steps // 4 or 100
  classifiers.irm.training.clip_norm = 1.0  # squared logits explode at the first steps
  classifiers.coral.objective.coral.update(environments=num_environments, pairs='same_classes')
  # a batch then has rows of each environment, which CORAL compares
  classifiers.coral.training.balanced = 'environment'
  classifiers.mixup.augment.policy = (*classifiers.erm.augment.policy, 'mixup')
  classifiers.mixup.augment.mixup.within = 'environment'
