"""Top-1 and top-5 accuracy of any classifier on any source: the smallest study.

python main.py --config=configs/accuracy.py --workdir=/tmp/accuracy

  No download. Trains a small CNN on 4000 MNIST digits and measures it on 1000 test digits; about
  98 %, in half a minute on 2 cores.

python main.py --config=configs/accuracy.py:own --workdir=/tmp/accuracy_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE \
    --config.data.source=tfds --config.data.tfds.dataset=cifar10 --config.data.split=test

  Prints both accuracies with exact intervals; the published ResNet-20 has .9173 on all 10,000
  test images of CIFAR-10. Other sources: --config.data.source=folder --config.data.folder.path=DIR
  (class folders), or source=npz with npz.path=FILE. --config.data.num_images=1000 takes a
  seeded random subset.

python main.py --config=configs/accuracy.py:own --workdir=/tmp/imagenet_r \
    --config.classifier.name=efficientnet_lite0 --config.classifier.label_space=data \
    --config.data.source=natural_shifts --config.data.natural_shifts.dataset=imagenet_r \
    --config.data.natural_shifts.path=DIR

  Natural shifts of ImageNet as released: imagenet_v2, imagenet_a, imagenet_r, imagenet_sketch,
  imagenet_real (ImageNet's validation images, and
  --config.data.natural_shifts.real_labels=real.json) and objectnet; all but objectnet by TFDS too,
  without a path. With label_space=data the network chooses among the classes that the set has, as
  is usual for imagenet_a, imagenet_r and objectnet; without it, among all 1000.

python main.py --config=configs/accuracy.py:both_ways --workdir=/tmp/both_ways \
    --config.classifiers.among_all.weights=FILE --config.classifiers.among_own.weights=FILE \
    --config.data.source=natural_shifts --config.data.natural_shifts.dataset=imagenet_r \
    --config.data.natural_shifts.path=DIR

  The same network among all 1000 classes and among the classes of the data, side by side.
"""

from robustness.config.defaults import ConfigDict, default_config, variants
from robustness.config.trainings import small_cnn_on_digits


def digits() -> ConfigDict:
  """Returns the default config: accuracy of a small CNN that is trained on MNIST digits."""
  return small_cnn_on_digits('accuracy')


def own() -> ConfigDict:
  """Returns the config of the accuracy of a classifier on data; the user names both."""
  return default_config('accuracy')


def both_ways() -> ConfigDict:
  """Returns the config of the accuracy of two CLIP classifiers that choose among different classes.

  One chooses among all classes that it has prompts for, the other only among the data's classes.
  """
  config = default_config('accuracy', ('among_all', 'among_own'))
  for classifier in config.classifiers.values():
    classifier.name = 'clip_vit_b32_quickgelu'
  config.classifiers.among_own.label_space = 'data'
  return config


get_config = variants(digits, own, both_ways)
