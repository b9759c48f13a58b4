"""Systematic robustness to corruptions: ρ (Omran and Schiele 2022).

python main.py --config=configs/systematic_corruptions.py --workdir=/tmp/systematic

  No download. Ten digits in five groups of two classes; in training Gaussian noise is shown to the
  first group alone, Gaussian blur to the second, contrast to the third, snow to the fourth. All are
  shown to all classes in the test. Trains a network on clean digits, for comparison, and one with
  the selective augmentation, in about half a minute on 2 cores. Expect the outlined cells of the
  grid to be as bright as the clean ones, and unseen cells of contrast to be darker than for the
  network that never saw contrast: what changes the contrast has come to mean the classes of C3.
  Compensated by the network trained on clean digits ρ is 0: unseen classes gain nothing over it.
  Several seeds: --config.seeds=0,1,2.

python main.py --config=configs/systematic_corruptions.py:methods --workdir=/tmp/systematic_methods

  The same with further ways of training on the permitted cells: every environment equally often
  in a batch, Group DRO, IRM and CORAL over environments (five, the clean one among them), mixup
  within each of them, and AugMix, a leak that is meant here: its autocontrast is like contrast.
  About 7 minutes. Mixup across environments joins them with labels of held-out classes:
  --config.classifiers.mixup.augment.mixup.within=
  --config.classifiers.mixup.augment.environment.allow_leaks=True.

python main.py --config=configs/systematic_corruptions.py:cifar10 --workdir=/tmp/systematic_cifar10

  airbench94 at half its width on CIFAR-10 by TFDS, 12 epochs twice, three seeds; 1000 test images:
  an estimated two hours and a half of 2 cores, minutes of an accelerator.
  docs/records/reproduction.md has the results: seen classes .950, unseen ones .387, below the
  clean network's .605, so that ρ is 0.

python main.py --config=configs/systematic_corruptions.py:cifar10_finetuned \
    --workdir=/tmp/systematic_finetuned --config.classifiers.clean.initial_weights=DIR \
    --config.classifiers.erm.initial_weights=DIR

  airbench94 from trained weights, 40 steps of 250 images, three seeds: about 10 minutes. DIR is
  checkpoints/airbench94 in the workdir of configs/train.py:cifar10_fast. The baseline b has
  40 steps on clean images.

python main.py --config=configs/systematic_corruptions.py:imagenet \
    --workdir=/tmp/systematic_imagenet --config.data.tfds.data_dir=DIR

  ResNet-50 on ImageNet by TFDS, 90 epochs twice, for accelerators. Estimated, not measured: 230
  million images forward and backward (25 GFLOP each), 21 hours at 3000 images a second, which takes
  12 or more cores to decode JPEG files; 2.1 million images forward in the test, some minutes.

python main.py --config=configs/systematic_corruptions.py:imagenet_finetuned \
    --workdir=/tmp/systematic_imagenet_finetuned --config.data.tfds.data_dir=DIR

  The same from a given f0, torchvision's ResNet-50 (flips and crops alone), 5 epochs: b is its
  accuracy after 5 clean epochs. An estimated 1.5 hours.

Every variant can be followed by +methods, such as :cifar10+methods. Balanced batches need rows in
files or in memory. :imagenet+methods and :imagenet_finetuned+methods read class folders, the same
1000 in IMAGENET/train and IMAGENET/val: --config.data.source=folder
--config.data.folder.path=IMAGENET --config.data.split=val.
"""

import copy

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, default_config, variants

LABELS = 'clean', 'erm'
"""Labels of a network trained without corruptions, for comparison, and of one trained on the
permitted cells.
"""
ENVIRONMENTS = ('gaussian_noise', 'gaussian_blur', 'contrast', 'snow')
"""The corruptions T_1, ..., T_4, which training shows to one group of classes each."""
SEEDS = (0, 1, 2)
"""Seeds of the repetitions in the paper's setting."""


def digits() -> ConfigDict:
  """Returns the default config: robustness to corruptions of two small CNNs on MNIST digits.

  One network is trained on clean images. The other also sees four corruptions, such as snow, each
  on one group of classes.
  """
  config = default_config('systematic', LABELS)
  trainings.train_small_networks(config)
  trainings.train_selectively(config, ENVIRONMENTS)
  return config


def methods() -> ConfigDict:
  """Returns the config of robustness to corruptions by way of training, on MNIST digits.

  Each corruption, such as contrast, is shown on one class group only. AugMix is an exception on
  purpose (`allow_leaks`): its autocontrast, which resembles contrast, is applied to all classes.
  """
  config = digits()
  trainings.add_methods(config)
  with config.classifiers.unlocked():
    config.classifiers.augmix = copy.deepcopy(config.classifiers.erm)
  config.classifiers.augmix.augment.policy = ('crop', 'environment', 'augmix')
  config.classifiers.augmix.augment.environment.allow_leaks = True
  config.classifiers.augmix.objective.name = 'jsd'
  return config


def cifar10() -> ConfigDict:
  """Returns the config of robustness to corruptions of two airbench94 at half width on CIFAR-10.

  One network is trained on clean images. The other also sees four corruptions, such as snow, each
  on one group of classes.
  """
  config = default_config('systematic', LABELS)
  trainings.train_half_airbench(config)
  trainings.train_selectively(config, ENVIRONMENTS)
  config.seeds = SEEDS
  return config


def cifar10_finetuned() -> ConfigDict:
  """Returns the config of robustness to corruptions of two airbench94, fine-tuned on CIFAR-10.

  The user sets the initial weights of both networks. `clean` is fine-tuned on clean images; its
  accuracy is the baseline b of the relative robustness ρ. `erm` also sees corruptions: the classes
  are divided into four groups, one for each corruption of `ENVIRONMENTS`, which is shown on images
  of its group only (`trainings.train_selectively`).
  """
  config = default_config('systematic', LABELS)
  trainings.use_cifar10(config, num_images=500)
  for classifier in config.classifiers.values():
    classifier.update(name='airbench94', train=True)
    classifier.augment.policy = ('flip', 'crop')
    classifier.augment.crop.update(padding=2, border='reflect')
  trainings.train_selectively(config, ENVIRONMENTS)
  config.training.update(steps=40, batch_size=250, learning_rate=0.1, evaluate_every_epochs=0.0)
  config.seeds = SEEDS
  return config


def imagenet() -> ConfigDict:
  """Returns the config of robustness to corruptions of two ResNet-50 on ImageNet.

  One network is trained on clean images. The other also sees four corruptions, such as snow, each
  on one group of classes.
  """
  config = default_config('systematic', LABELS)
  trainings.train_on_imagenet(config)
  trainings.train_selectively(config, ENVIRONMENTS)
  return config


def imagenet_finetuned() -> ConfigDict:
  """Returns the config of `imagenet`, but fine-tuned from torchvision's weights.

  One is fine-tuned on clean images; its accuracy is the baseline b of the relative robustness ρ.
  The other also sees each corruption on one class group.
  """
  config = imagenet()
  trainings.finetune_resnet50(config)
  return config


get_config = variants(
  *(digits, methods, cifar10, cifar10_finetuned, imagenet, imagenet_finetuned),
  added={'methods': trainings.add_methods},
)
