r"""Accuracy on ImageNet-9 with backgrounds kept and exchanged, and the gap between two exchanges.

python main.py --config=configs/background_gap.py --workdir=/tmp/background_gap \
    --config.classifier.name=efficientnet_lite0 --config.data.imagenet_9.path=DIR

  DIR holds original, mixed_same and mixed_rand of the release bg_challenge. Of ImageNet's classes
  370 are joined to the nine; any other answer is wrong. Other variants:
  --config.data.imagenet_9.variants=mixed_same,mixed_rand,only_fg,no_fg

python main.py --config=configs/background_gap.py:challenge --workdir=/tmp/background_challenge \
    --config.classifier.name=efficientnet_lite0 --config.data.imagenet_9.path=DIR \
    --config.study.backgrounds=DIR/only_bg_t

  The challenge: which foregrounds (DIR/fg_mask) are recognised on every background. All 4050 × 4050
  pictures take days on a CPU; --config.study.num_backgrounds=100 and --config.data.num_images=200
  take a part.
"""

from robustness.config.defaults import ConfigDict, default_config, variants


def imagenet_9(study: str = 'background_gap') -> ConfigDict:
  """Returns the config of accuracy on ImageNet-9 by variant of the background.

  It reads the three variants that have the same foregrounds.
  """
  config = default_config(study)
  config.data.source = 'imagenet_9'
  config.classifier.label_space = 'imagenet_9'
  return config


def challenge() -> ConfigDict:
  """Returns the config of accuracy by foreground, each shown on every background."""
  config = imagenet_9(study='background_challenge')
  config.data.imagenet_9.masks = True
  return config


get_config = variants(imagenet_9, challenge)
