"""Fine-tunes a ConvNeXt, Swin, DeiT III or EfficientNetV2 with its authors' recipe.

python main.py --config=configs/fine_tuning.py:swin_tiny --workdir=/tmp/fine_tuned \
    --config.data.folder.path=PICTURES

  PICTURES/train/CLASS/ and PICTURES/test/CLASS/ hold the pictures. The variant is a network of
  `STARTS`; its published weights are downloaded from the hub, or
  --config.classifier.initial_weights=FILE. The last layer is new where the classes are.

  Batches have 512 images, --config.training.accumulate=16 takes 32 at a time. The learning rate
  follows another --config.training.batch_size in proportion, and is low for a new last layer:
  raise --config.training.learning_rate or --config.training.epochs for few pictures.

The constants are from the releases that fine-tune weights of ImageNet-22k on ImageNet-1k
(ConvNeXt: TRAINING.md; Swin: configs/swin/*_22kto1k_finetune.yaml; EfficientNetV2: `ImagenetFt` of
efficientnetv2/datasets.py) and, for DeiT III, weights of ImageNet-1k (README_revenge.md). Different
here:

  All: cosines fall to 0 and warm-ups rise from 0, by steps; the releases end at 1e-6 (Swin: 2e-7)
  and begin at 1e-6 (Swin: 2e-8). Weights begin with the hub's, which are fine-tuned on 1k already.
  ConvNeXt, Swin, DeiT III: RandAugment applies one of torchvision's operations at nine tenths of
  the range, where timm's rand-m9-mstd0.5-inc1 draws two, each applied with probability ½, at a
  random strength near that. Mixup or CutMix is drawn for a row, theirs for a batch.
  ConvNeXt, Swin: pixels of a quarter of their images are erased in a rectangle; here they are not.
  ConvNeXt: the rate falls from block to block, as in timm, theirs by groups of blocks (12 layers).
  There is no recipe for its tiny size, which has the drop path of its training.
  DeiT III: the small size is published for 384 pixels.
  EfficientNetV2: a picture is cut to a square, theirs is distorted to it; the covered square of
  half its side is grey, theirs has random pixels of this mean. The least of 10,000 steps is left
  out.
"""

from robustness.config.defaults import ConfigDict, check_variant, default_config

STARTS = {
  'convnext_tiny': ('timm:convnext_tiny.fb_in22k_ft_in1k', 0.1),
  'convnext_base': ('timm:convnext_base.fb_in22k_ft_in1k', 0.2),
  'convnext_large': ('timm:convnext_large.fb_in22k_ft_in1k', 0.3),
  'swin_tiny': ('timm:swin_tiny_patch4_window7_224.ms_in22k_ft_in1k', 0.1),
  'swin_small': ('timm:swin_small_patch4_window7_224.ms_in22k_ft_in1k', 0.2),
  'swin_base': ('timm:swin_base_patch4_window7_224.ms_in22k_ft_in1k', 0.2),
  'deit3_s16': ('timm:deit3_small_patch16_224.fb_in1k', 0.0),
  'deit3_b16': ('timm:deit3_base_patch16_224.fb_in1k', 0.2),
  'deit3_l16': ('timm:deit3_large_patch16_224.fb_in1k', 0.45),
  'efficientnetv2_s': ('timm:tf_efficientnetv2_s.in21k_ft_in1k', 0.2 * 39 / 40),  # block i of 40
}
"""{architecture: (published weights to begin with, drop path of the last block)}."""


def get_config(variant: str = 'convnext_base') -> ConfigDict:
  """Returns the config that fine-tunes the architecture `variant`, such as 'swin_tiny'."""
  check_variant(variant, STARTS)
  config = default_config('accuracy')
  classifier, training = config.classifier, config.training
  classifier.name, classifier.train = variant, True
  classifier.initial_weights, training.drop_path = STARTS[variant]
  classifier.augment.policy = ('flip', 'rand_augment')
  classifier.augment.rand_augment.update(operations=1, magnitude=27)
  classifier.objective.cross_entropy.label_smoothing = 0.1
  config.data.update(source='folder', resize=256, crop=224)
  classifier.data.random_crop_area = 0.08
  training.update(batch_size=512, optimizer='adamw', epochs=30.0)
  recipes = {'convnext': convnext, 'swin': swin, 'deit3': deit3, 'efficientnetv2': efficientnetv2}
  family, _, _ = variant.partition('_')
  rate = recipes[family](config)  # of 512 images
  # A reference: the learning rate follows a batch size that the user sets later.
  training.learning_rate = training.get_ref('batch_size').to_float() * (rate / 512)
  return config


def convnext(config: ConfigDict) -> float:
  """Sets the recipe of ConvNeXt, without Mixup and CutMix.

  Returns the learning rate for batches of 512 images.
  """
  config.training.update(weight_decay=1e-8, layer_decay=0.8, head_scale=0.001)
  return 5e-5


def swin(config: ConfigDict) -> float:
  """Sets the recipe of Swin; returns the learning rate of a batch of 512 images."""
  config.classifier.augment.policy += ('mixup_or_cutmix',)
  config.training.update(weight_decay=1e-8, warmup_epochs=5.0, clip_norm=5.0)
  return 2e-5


def deit3(config: ConfigDict) -> float:
  """Sets the recipe of DeiT III; returns the learning rate of a batch of 512 images."""
  config.classifier.augment.policy += ('mixup_or_cutmix',)
  config.training.update(epochs=20.0, weight_decay=0.1, warmup_epochs=5.0)
  return 1e-5


def efficientnetv2(config: ConfigDict) -> float:
  """Sets the recipe of EfficientNetV2 at 384 pixels.

  Returns the learning rate of a batch of 512 images. Training covers a square at a random place in
  grey, the pixel value 191; its side is half the image's.
  """
  config.classifier.augment.policy = ('flip', 'cutout')
  config.data.update(resize=384, crop=384)
  config.classifier.augment.cutout.update(size=config.data.get_ref('crop') // 2, fill=(191,))
  config.classifier.data.random_crop_area = 0.0
  config.training.update(optimizer='rmsprop', epsilon=1e-3, schedule='constant', epochs=15.0)
  config.training.update(weight_decay=1e-5, warmup_epochs=1.0, ema_decay=0.9996)
  return 1e-3
