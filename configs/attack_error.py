"""Error under attacks, and spectra of adversarial perturbations (Yin et al. 2019, figure 7 a, b).

python main.py --config=configs/attack_error.py --workdir=/tmp/attacks

  No download. Trains the small CNN on MNIST digits twice, plain and on the examples of a PGD attack
  of 3 steps (ℓ∞, ε = .1), and attacks both on 1000 test digits with PGD (10 steps) and FGSM at
  ε = .05 and .1; about half a minute on 2 cores. At ε = .1 the plain network's error rises from
  3 % to 75 % under PGD (57 % under FGSM), the other's from 6 % to 15 %.

python main.py --config=configs/attack_error.py:cifar10 --workdir=/tmp/attacks_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  CIFAR-10 by TFDS: PGD ℓ∞, ε = 8/255, 10 steps of 2/255, on 1000 test images. The published
  ResNet-20 has no image left (200 of 200 wrong), and 69 % of the energy of what the attack adds is
  at high frequency: white noise has 71 %, clean images 1 %.

  Figure 7 a and b from one run, of a natural and an adversarial network (any labels):
  :cifar10,natural,adversarial --config.classifiers.natural.weights=FILE and so on.

python main.py --config=configs/attack_error.py:autoattack_cifar10 --workdir=/tmp/autoattack \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  CIFAR-10 by TFDS: AutoAttack, version standard, ℓ∞, ε = 8/255, on 100 test images; with
  --config.study.attack.auto_attack.version=plus or rand, and --config.study.norm=l2
  --config.study.epsilon=.5. The published ResNet-20 has no image left; of one that is trained on
  PGD 24 % of 96 are right (docs/studies/attack_error.md), at 5 s of a core for each image on
  average.

  For ℓ2 --config.study.norm=l2 --config.study.epsilon=.5 --config.study.attack.pgd.step_size=.1;
  the worst of more attacks --config.study.attacks=pgd,auto_pgd, of two losses
  --config.study.attacks=pgd,pgd_dlr=pgd --config.study.attack.pgd_dlr.loss=dlr; more radii
  --config.study.epsilons=.004,.016; more random starts --config.study.restarts=5.
  Adversarial training: --config.classifier.train=True --config.classifier.attack.name=pgd.
"""

from robustness.config.defaults import ConfigDict, default_config, sections_of_classifiers, variants
from robustness.config.trainings import resnet20_on_cifar10, train_small_networks


def digits() -> ConfigDict:
  """Returns the default config: PGD and FGSM attacks on two small CNNs on MNIST digits.

  One is trained adversarially.
  """
  config = default_config('attack_error', labels=('natural', 'adversarial'))
  config.study.update(attacks=('pgd', 'fgsm'), epsilon=0.1, epsilons=(0.05,))
  train_small_networks(config, epochs=6.0)
  adversarial = config.classifiers.adversarial.attack
  adversarial.name = 'pgd'
  adversarial.pgd.update(epsilon=0.1, steps=3, step_size=0.05)
  return config


def cifar10(labels: tuple[str, ...] = ()) -> ConfigDict:
  """Returns the config of attacked networks on 1000 CIFAR-10 test images.

  The attack is PGD in the ℓ∞ ball of 8/255 with 10 steps, the default. `labels` are the labels of
  the networks; () is one network without a label. A network with the label 'adversarial' is
  trained by PGD too.
  """
  config = resnet20_on_cifar10('attack_error', labels=labels)
  for classifier in sections_of_classifiers(config):
    classifier.augment.policy = ('flip', 'crop')
  if 'adversarial' in labels:
    config.classifiers.adversarial.attack.name = 'pgd'
  return config


def autoattack_cifar10() -> ConfigDict:
  """Returns the config of AutoAttack on one network and 100 CIFAR-10 test images."""
  config = cifar10()
  config.study.attacks = ('auto_attack',)
  config.data.num_images = 100
  return config


get_config = variants(digits, cifar10, autoattack_cifar10, labelled=cifar10)
