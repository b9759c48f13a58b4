"""A ResNet-50 trained on ImageNet, measured on neighbor sets (Shankar et al. 2021).

python main.py --config=configs/video_training.py:gaussian_noise --workdir=/tmp/gaussian_noise \\
    --config.data.video_neighbors.metadata=SETS --config.data.video_neighbors.frames=FRAMES

  Tables 2, 5 and 6, "+ noise augmentation": training images have one corruption, of a severity
  drawn from 1 to 5; the paper states neither severities nor shares. The variants are the six that
  its text names, gaussian_noise, shot_noise, impulse_noise, gaussian_blur, contrast and
  jpeg_compression, those that its tables add, defocus_blur and brightness, and `regular` without
  any. Table 5 has no row of brightness and regular, table 6 none of contrast. ImageNet comes by
  TFDS. On YTBB-Robust write ytbb before: video_training.py:ytbb,brightness.

python main.py --config=configs/video_training.py:ilsvrc30 --workdir=/tmp/ilsvrc30 \\
    --config.data.video_neighbors.metadata=SETS --config.data.video_neighbors.frames=FRAMES \\
    --config.classifiers.resnet50_ilsvrc30.data.folder.path=IMAGENET

  Table 9: from random weights on the 30 classes of ImageNet-Vid alone; each has the
  images of its members among the class folders in IMAGENET/train (288 of 1000).

python main.py --config=configs/video_training.py:ilsvrc30_finetuned --workdir=/tmp/ilsvrc30_ft \\
    --config.data.video_neighbors.metadata=SETS --config.data.video_neighbors.frames=FRAMES \\
    --config.classifiers.resnet50_ilsvrc30_finetuned.data.video_neighbors.metadata=BUILT \\
    --config.classifiers.resnet50_ilsvrc30_finetuned.data.video_neighbors.frames=TRAINING

  "+ FT" of table 9: fine-tunes the network of /tmp/ilsvrc30 (another by the key initial_weights of
  the classifier) on the frames in TRAINING of the sets in BUILT/train, with the settings of
  finetune_video.py, and measures it on the neighbor sets.
"""

from robustness.config.defaults import ConfigDict, check_variant, default_config
from robustness.config.trainings import finetune_on_frames, train_on_imagenet

CORRUPTIONS = (
  *('gaussian_noise', 'shot_noise', 'impulse_noise', 'gaussian_blur', 'contrast'),
  *('jpeg_compression', 'defocus_blur', 'brightness', 'regular'),
)
"""Corruptions of training images in the paper; 'regular' has none."""
PRINTED = {'contrast': 'contrast_change', 'brightness': 'brightness_change'}
"""Names in the paper's tables, where these differ."""
COARSE, FINETUNED = 'ilsvrc30', 'ilsvrc30_finetuned'
"""Variants that train on the 30 classes of ImageNet-Vid."""
YTBB = 'ytbb,'
"""Beginning of variants that are measured on YTBB-Robust."""


def get_config(variant: str = 'gaussian_noise') -> ConfigDict:
  """Returns the config of a variant of training a ResNet-50.

  The variant 'contrast', for example, trains on ImageNet under this corruption, and 'ytbb,contrast'
  measures the same training on the classes of YouTube-BB. 'ilsvrc30' trains on the 30 classes of
  ImageNet-Vid alone, and 'ilsvrc30_finetuned' fine-tunes that network on video frames.
  """
  if variant == FINETUNED:
    return finetuned()
  is_ytbb = variant.startswith(YTBB)
  name = variant.removeprefix(YTBB)  # a corruption, or 'ilsvrc30'
  check_variant(name, CORRUPTIONS if is_ytbb else (*CORRUPTIONS, COARSE, FINETUNED))
  label = name if name == COARSE else f'augment_{PRINTED.get(name, name)}'
  config = default_config('video_pm_k', labels=(f'resnet50_{label}',))
  train_on_imagenet(config)
  [classifier] = config.classifiers.values()
  classifier.data.source = 'tfds'
  config.data.source, config.data.split = 'video_neighbors', 'test'
  if name == COARSE:
    classifier.data.source = 'folder'
    classifier.data.folder.label_space = 'imagenet_vid'
    return config
  classifier.label_space = 'youtube_bb' if is_ytbb else 'imagenet_vid'
  if name != 'regular':
    classifier.augment.policy = ('flip', 'corruption')
    classifier.augment.corruption.corruptions = (name,)
  return config


def finetuned() -> ConfigDict:
  """Returns the config that fine-tunes the network of the variant 'ilsvrc30' on video frames.

  The network, trained on the 30 classes of ImageNet-Vid, is read from a workdir in /tmp. It is then
  measured on neighbor sets.
  """
  config = default_config('video_pm_k', labels=(f'resnet50_{FINETUNED}',))
  config.data.update(source='video_neighbors', resize=256, crop=224)
  [classifier] = config.classifiers.values()
  classifier.update(name='resnet50', initial_weights=f'/tmp/{COARSE}/checkpoints/resnet50_{COARSE}')
  config.training.learning_rate = 1e-4
  finetune_on_frames(config)
  return config
