"""Systematic robustness to corruptions: ρ (Omran and Schiele 2022).

python main.py --config=configs/systematic_corruptions.py --workdir=/tmp/systematic

  No download. Ten digits in five groups of two classes; in training Gaussian noise is shown to the
  first group alone, Gaussian blur to the second, contrast to the third, snow to the fourth. All are
  shown to all classes in the test. Trains a network on clean digits, for comparison, and one with
  the selective augmentation, in about half a minute on 2 cores. Expect the outlined cells of the
  grid to be as bright as the clean ones, and unseen cells of contrast to be darker than those of
  the network that never saw contrast: what changes the contrast has come to mean the classes of C3.
  Compensated by the network trained on clean digits ρ is 0: unseen classes gain nothing over it.
  Several seeds: --config.seeds="(0,1,2)".

python main.py --config=configs/systematic_corruptions.py:methods --workdir=/tmp/systematic_methods

  The same with further ways of training on the permitted cells: every environment equally often
  in a batch, Group DRO, IRM and CORAL over environments (five, the clean one among them),
  mixup across environments, and AugMix. The last two are leaks that are meant here: mixup joins
  environments with labels of held-out classes, AugMix's autocontrast is like contrast. About 7
  minutes.

python main.py --config=configs/systematic_corruptions.py:cifar10 --workdir=/tmp/systematic_cifar10

  ResNet-20 on CIFAR-10 by TFDS, one epoch, three seeds: 27 minutes on 2 cores, other work beside
  it. Expect signs and not levels: .77 of the images of seen classes are right, .19 of unseen ones,
  fewer than the clean network's.

python main.py --config=configs/systematic_corruptions.py:cifar10_finetuned \
    --workdir=/tmp/systematic_finetuned --config.classifiers.clean.initial_weights=FILE \
    --config.classifiers.erm.initial_weights=FILE

  The same from trained weights of ResNet-20, 250 steps of 32 images, three seeds: about 10 minutes.
  The baseline b is that of 250 steps on clean images.

python main.py --config=configs/systematic_corruptions.py:imagenet \
    --workdir=/tmp/systematic_imagenet --config.data.data_dir=DIR

  ResNet-50 on ImageNet by TFDS, 90 epochs twice, for accelerators. Estimated, not measured: 230
  million images forward and backward (25 GFLOP each), 21 hours at 3000 images a second, which takes
  12 or more cores to decode JPEG files; 2.1 million images forward in the test, some minutes.
"""

from robustness.config.defaults import (
  ConfigDict,
  choose,
  default_config,
  read_cifar10,
  train_on_imagenet,
)

STUDY = 'systematic'
ENVIRONMENTS = ('gaussian_noise', 'gaussian_blur', 'contrast', 'snow')
SEEDS = (0, 1, 2)


def get_config(variant: str = 'digits') -> ConfigDict:
  """Returns the variant 'digits', 'methods', 'cifar10', 'cifar10_finetuned' or 'imagenet'."""
  return choose(variant, digits, methods, cifar10, cifar10_finetuned, imagenet)


def _base(
  architecture: str, policy: tuple[str, ...], methods: tuple[str, ...] = ('erm',)
) -> ConfigDict:
  """The baseline, trained on clean images, and the network with selective augmentation."""
  config = default_config(STUDY, labels=('clean', *methods))
  config.study.environments = ENVIRONMENTS
  config.study.baseline = 'clean'
  config.data.random_class_groups = len(ENVIRONMENTS)
  for classifier in config.classifiers.values():
    classifier.name = architecture
    classifier.train = True
    classifier.augment.policy = policy
    classifier.augment.environment.transforms = ENVIRONMENTS
  for method in methods:
    config.classifiers[method].augment.policy = (*policy, 'environment')
  return config


def digits(methods: tuple[str, ...] = ('erm',)) -> ConfigDict:
  """The default: two small CNNs on MNIST digits."""
  config = _base('small_cnn', ('crop',), methods)
  for classifier in config.classifiers.values():
    classifier.augment.crop.padding = 2
  config.training.epochs = 12.0
  config.training.checkpoint_every_steps = 100
  return config


def methods() -> ConfigDict:
  """Ways of training on the permitted cells, on MNIST digits."""
  config = digits(('erm', 'balanced', 'group_dro', 'irm', 'coral', 'mixup', 'augmix'))
  config.classifiers.balanced.training.balanced = 'environment'
  count = {'group_dro': 'groups', 'irm': 'environments', 'coral': 'environments'}
  for name, key in count.items():
    objective = config.classifiers[name].objective
    objective.name = name
    objective[name].column = 'environment'
    objective[name][key] = 1 + len(ENVIRONMENTS)
  config.classifiers.irm.objective.irm.penalty = 10.0
  config.classifiers.irm.objective.irm.anneal_steps = 100
  config.classifiers.irm.objective.irm.rescale = True
  config.classifiers.irm.training.clip_norm = 1.0  # squared logits explode at the first steps
  config.classifiers.coral.objective.coral.pairs = 'same_classes'
  config.classifiers.coral.training.balanced = 'environment'  # enough rows of each in a batch
  config.classifiers.mixup.augment.policy = ('crop', 'environment', 'mixup')
  config.classifiers.mixup.augment.environment.allow_leaks = True
  config.classifiers.augmix.augment.policy = ('crop', 'environment', 'augmix')
  config.classifiers.augmix.augment.environment.allow_leaks = True
  config.classifiers.augmix.objective.name = 'jsd'
  return config


def cifar10() -> ConfigDict:
  """ResNet-20 on CIFAR-10, a short training."""
  config = _base('resnet20', ('flip', 'crop'))
  read_cifar10(config)
  config.training.epochs = 1.0
  config.training.batch_size = 32
  config.training.warmup_epochs = 0.1
  config.training.learning_rate = 0.1
  config.seeds = SEEDS
  return config


def cifar10_finetuned() -> ConfigDict:
  """ResNet-20 with given weights, fine-tuned on CIFAR-10; b is that of clean fine-tuning."""
  config = cifar10()
  config.data.num_images = 500
  config.training.steps = 250
  config.training.learning_rate = 0.02
  config.training.evaluate_every_epochs = 0.0
  return config


def imagenet() -> ConfigDict:
  """ResNet-50 on ImageNet."""
  config = _base('resnet50', ('flip',))
  train_on_imagenet(config)
  return config
