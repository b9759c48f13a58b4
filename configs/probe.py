"""Probes on frozen features: a linear map, nearest neighbors and class means, under corruptions.

python main.py --config=configs/probe.py --workdir=/tmp/probe

  No download. Fits three probes to the features of a small CNN with random weights, on 1000 MNIST
  digits, and measures them on 200 test digits under two corruptions; a minute on 2 cores.

python main.py --config=configs/probe.py:own --workdir=/tmp/probe_dinov2 \
    --config.classifiers.linear.name=dinov2_s14 --config.classifiers.linear.weights=FILE \
    --config.data.source=tfds --config.data.tfds.dataset=cifar10 --config.data.split=test \
    --config.training.split=train --config.data.resize=224

  Any backbone: an architecture with weights (a head is not needed), FILE.py:NAME, timm:NAME or
  hf:REPOSITORY. It is fitted to config.training.split of the data, or to the rows of
  --config.classifiers.linear.data; features are recorded once, in the workdir's `features`.
  --config.classifiers.linear.probe.linear.layer=stage3 takes another layer, means over positions;
  --config.classifiers.linear.probe.linear.rows_per_class=16 a part of the rows, drawn by the seed,
  and --config.seeds='(0,1,2)' fits it with each seed: errors of one seed have the interval over
  images, their mean that over seeds.
"""

from robustness.config.defaults import ConfigDict, default_config, variants

PROBES = ('linear', 'knn', 'prototype')
"""Kinds of probes that are compared."""


def digits() -> ConfigDict:
  """Returns the default config: error under corruptions of three probes on MNIST digits.

  The probes read random features.
  """
  config = default_config('corruption_error', PROBES)
  for name, classifier in config.classifiers.items():
    classifier.weights = 'random'
    classifier.probe.name = name
    classifier.probe[name].rows_per_class = 100
  config.study.corruptions = ('gaussian_noise', 'contrast')
  config.data.num_images = 200
  return config


def own() -> ConfigDict:
  """Returns the config of the error of a linear probe under corruptions.

  The user names the data and the network whose features the probe reads.
  """
  config = default_config('corruption_error', ('linear',))
  config.classifiers.linear.probe.name = 'linear'
  return config


get_config = variants(digits, own)
