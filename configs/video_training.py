"""A ResNet-50 trained on ImageNet, measured on neighbor sets (Shankar et al. 2021).

python main.py --config=configs/video_training.py:gaussian_noise --workdir=/tmp/gaussian_noise \\
    --config.data.metadata=SETS --config.data.path=FRAMES

  Tables 2, 5 and 6, "+ noise augmentation": training images have one corruption, of a severity
  drawn from 1 to 5; the paper states neither severities nor shares. The variants are the six that
  its text names, gaussian_noise, shot_noise, impulse_noise, gaussian_blur, contrast and
  jpeg_compression, those that its tables add, defocus_blur and brightness, and `regular` without
  any. Table 5 has no row of brightness and regular, table 6 none of contrast. ImageNet comes by
  TFDS. On YTBB-Robust write ytbb before: video_training.py:ytbb,brightness.

python main.py --config=configs/video_training.py:ilsvrc30 --workdir=/tmp/ilsvrc30 \\
    --config.data.metadata=SETS --config.data.path=FRAMES \\
    --config.classifiers.resnet50_ilsvrc30.data.path=IMAGENET

  Table 9: from random weights on the 30 classes of ImageNet-Vid alone, each of which has the
  images of its members among the class folders in IMAGENET/train (288 of 1000). "+ FT" is
  finetune_video.py:resnet50 with --config.classifier.initial_weights=<workdir>/checkpoints/
  resnet50_ilsvrc30; what it leaves is measured by video_pm_k.py:frames.
"""

from robustness.config.defaults import ConfigDict, check_variant, default_config, train_on_imagenet

CORRUPTIONS = (
  *('gaussian_noise', 'shot_noise', 'impulse_noise', 'gaussian_blur', 'contrast'),
  *('jpeg_compression', 'defocus_blur', 'brightness', 'regular'),
)
PRINTED = {'contrast': 'contrast_change', 'brightness': 'brightness_change'}
"""What the paper's tables call them, where it is another word."""
COARSE = 'ilsvrc30'
YTBB = 'ytbb,'


def get_config(variant: str = 'gaussian_noise') -> ConfigDict:
  """Returns the training on a corruption, or `ilsvrc30`."""
  name = variant.removeprefix(YTBB)
  check_variant(name, CORRUPTIONS if variant.startswith(YTBB) else (*CORRUPTIONS, COARSE))
  label = name if name == COARSE else f'augment_{PRINTED.get(name, name)}'
  config = default_config('video_pm_k', labels=(f'resnet50_{label}',))
  train_on_imagenet(config)
  [classifier] = config.classifiers.values()
  classifier.augment.policy = ('flip',)
  classifier.data.source = 'tfds'
  classifier.data.name = config.data.name
  config.data.source, config.data.name, config.data.split = 'video_neighbors', '', 'test'
  if name == COARSE:
    classifier.data.source, classifier.data.name = 'folder', ''
    classifier.data.label_space = 'imagenet_vid'
    return config
  classifier.label_space = 'youtube_bb' if variant.startswith(YTBB) else 'imagenet_vid'
  if name != 'regular':
    classifier.augment.policy = ('flip', 'corruption')
    classifier.augment.corruption.corruptions = (name,)
  return config
