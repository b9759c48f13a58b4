"""Trains a classifier and measures its accuracy.

python main.py --config=configs/train.py --workdir=/tmp/train

  A small CNN on the 4000 training digits; about 98 % of the 1000 test digits, in half a minute.

python main.py --config=configs/train.py:cifar10 --workdir=/tmp/train_cifar10 \
    --config.classifier.name=wide_resnet_28_10

  The paper's network on CIFAR-10 with flip and crop (an accelerator's work: 200 epochs). Add
  --config.classifier.augment.policy=flip,crop,gaussian for its Gaussian augmentation,
  --config.precision=bfloat16 for speed. `<workdir>/checkpoints/<name>` then serves as
  --config.classifier.weights of every other config.

python main.py --config=configs/train.py:cifar10_fast --workdir=/tmp/train_fast

  airbench94 (Jordan 2024; 2 million parameters) for 12 epochs of all 50,000 images; the accuracy of
  one view of each of the 10,000 test images. Fewer epochs: --config.training.epochs=6; half the
  width, a quarter of the cost: --config.classifier.name=airbench94_half; on an accelerator
  --config.precision=bfloat16.
"""

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, default_config, variants


def digits() -> ConfigDict:
  """Returns the default config: the small CNN on MNIST digits."""
  return trainings.small_cnn_on_digits('accuracy')


def cifar10() -> ConfigDict:
  """Returns the config of a ResNet-20 trained on CIFAR-10 for 200 epochs with flips and crops."""
  config = trainings.resnet20_on_cifar10('accuracy', num_images=0)  # all test images
  config.classifier.train = True
  config.classifier.augment.policy = ('flip', 'crop')
  config.training.update(epochs=200.0, batch_size=128, learning_rate=0.1, weight_decay=5e-4)
  return config


def cifar10_fast() -> ConfigDict:
  """Returns the config of airbench94, trained on CIFAR-10 by its recipe.

  Unlike in the recipe, test images are not augmented.
  """
  config = default_config('accuracy')
  trainings.use_cifar10(config, num_images=0)  # all test images
  trainings.train_airbench(config)
  return config


get_config = variants(digits, cifar10, cifar10_fast)
