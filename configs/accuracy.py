"""Top-1 and top-5 accuracy of any classifier on any source: the smallest study.

python main.py --config=configs/accuracy.py --workdir=/tmp/accuracy \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE \
    --config.data.source=tfds --config.data.name=cifar10 --config.data.split=test

  Prints both accuracies with exact intervals; the published ResNet-20 gives .9173 on all 10,000
  test images of CIFAR-10. Other sources: --config.data.source=folder --config.data.path=DIR (class
  folders), or source=npz with a path to an archive. --config.data.num_images=1000 takes a seeded
  random subset.

python main.py --config=configs/accuracy.py --workdir=/tmp/imagenet_r \
    --config.classifier.name=efficientnet_lite0 --config.classifier.label_space=data \
    --config.data.source=natural_shifts --config.data.name=imagenet_r --config.data.path=DIR

  Natural shifts of ImageNet as released: imagenet_v2, imagenet_a, imagenet_r, imagenet_sketch,
  imagenet_real (ImageNet's validation images, and --config.data.metadata=real.json) and objectnet;
  all but objectnet by TFDS too, without a path. With label_space=data the network chooses among the
  classes that the set has, as is usual for imagenet_a, imagenet_r and objectnet; without it, among
  all 1000.
"""

from robustness.config.defaults import ConfigDict, default_config


def get_config() -> ConfigDict:
  """Returns the config; the classifier's weights and the data are the user's."""
  return default_config('accuracy')
