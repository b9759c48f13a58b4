r"""Families of networks compared on scenes, as in SI-Score's figures 2 and 3 and 5 to 10.

python main.py --config=configs/si_score_families.py:batch_or_group_norm --workdir=/tmp/norms \
    --config.data.scenes.foregrounds=DIR --config.data.scenes.backgrounds=DIR \
    --config.study.factor=size

  Figures 2 and 5: ResNet-50 with BatchNorm and with GroupNorm. DIR are cutouts with alpha in class
  folders, and backgrounds (docs/scenes.md). Run it for size, location and rotation. Expect
  GroupNorm to be better on small objects and less sensitive to the place. The paper's weights were
  not published; these are timm's, of two training recipes, a1 (BatchNorm) and a1h (GroupNorm), so
  that their difference is not of the normalisation alone.

  :bit_or_vit_location    figure 3, top: BiT-R101x3 and ViT-B/16, trained on ImageNet, a grid of
                          56 × 56 places, 4 × 4 of them a patch of the ViT
  :bit_or_vit_patches     figure 3, middle: BiT-R50x1 and ViT-L/32, ImageNet-21k, the same grid
  :vit_b32_patches        the same with ViT-B/32 at 224 pixels: 7 × 7 patches, 8 × 8 places each, as
                          the paper describes; published ViT-L/32 have 384 pixels, 12 × 12 patches
  :clip_location          figure 3, bottom: ResNet-50 with GroupNorm and CLIP's ResNet-50
  :bit_or_vit_21k         figure 7: BiT-R50x3 and ViT-B/16, trained on ImageNet-21k
  :bit_or_vit_imagenet    figure 7: BiT-R101x1 and ViT-B/16, trained on ImageNet
  :clip                   figures 8 to 10: ResNet-50 with GroupNorm, CLIP's ResNet-50 and ViT-B/32

  Figure 6 names no pairs: use the pairs of figure 7 with --config.study.factor=grid. Figures 7, 9
  and 10 are of size and rotation: --config.study.factor=size and =rotation. The first of each is
  the baseline of the difference maps; `normalised_accuracy` is the accuracy as a share of each
  network's largest, and its difference the third column of figure 3. Expect ViT to lose less at the
  edges, and no trace of its patches; CLIP to be lower and flatter.

  Scenes as they were released: --config.study.stored=True --config.data.source=si_score
  --config.data.si_score.path=area --config.data.si_score.metadata=object_size/metadata.csv, with
  the folder's factor.

Weights in the list of `robustness list classifiers` are fetched (pip install '.[hub]'). BiT
trained on ImageNet alone (the BiT-S files) and CLIP are given as files:

  --config.classifiers.bit_r101x3.weights=BiT-S-R101x3.npz
  --config.classifiers.clip_resnet50.weights=ZERO_SHOT.safetensors

A zero-shot file is made by `python -m robustness.models.zero_shot` from lines such as
'n01440764<TAB>tench', one for each of ImageNet's classes. Every network gets the scenes at its own
size.
"""

from robustness.config.defaults import ConfigDict, check_variant, default_config

RESNET50 = ('resnet50', 'timm:resnet50.a1_in1k')
"""(architecture, weights) of a network, as are the following."""
GROUP_NORM = ('resnet50_gn', 'timm:resnet50_gn.a1h_in1k')
VIT_IMAGENET = ('vit_b16', 'timm:vit_base_patch16_224.augreg_in1k')
VIT_21K = ('vit_b16', 'timm:vit_base_patch16_224.augreg_in21k_ft_in1k')
VIT_B32 = ('vit_b32', 'timm:vit_base_patch32_224.augreg_in21k_ft_in1k')
VIT_L32 = ('vit_l32', 'timm:vit_large_patch32_384.orig_in21k_ft_in1k')
BIT_50X1 = ('bit_r50x1', 'timm:resnetv2_50x1_bit.goog_in21k_ft_in1k')
BIT_50X3 = ('bit_r50x3', 'timm:resnetv2_50x3_bit.goog_in21k_ft_in1k')
FILE = ''
"""Weights that are published as a file, which the user names."""
CLIP_RESNET50 = ('clip_rn50_quickgelu', FILE)
CLIP_VIT_B32 = ('clip_vit_b32_quickgelu', FILE)
COMPARISONS = {
  'batch_or_group_norm': ('size', {'batch_norm': RESNET50, 'group_norm': GROUP_NORM}),
  'bit_or_vit_location': ('grid', {'bit_r101x3': ('bit_r101x3', FILE), 'vit_b16': VIT_IMAGENET}),
  'bit_or_vit_patches': ('grid', {'bit_r50x1': BIT_50X1, 'vit_l32': VIT_L32}),
  'vit_b32_patches': ('grid', {'bit_r50x1': BIT_50X1, 'vit_b32': VIT_B32}),
  'clip_location': ('location', {'group_norm': GROUP_NORM, 'clip_resnet50': CLIP_RESNET50}),
  'bit_or_vit_21k': ('size', {'bit_r50x3': BIT_50X3, 'vit_b16': VIT_21K}),
  'bit_or_vit_imagenet': ('size', {'bit_r101x1': ('bit_r101x1', FILE), 'vit_b16': VIT_IMAGENET}),
  'clip': (
    'location',
    {'group_norm': GROUP_NORM, 'clip_resnet50': CLIP_RESNET50, 'clip_vit_b32': CLIP_VIT_B32},
  ),
}
"""{variant: (factor of SI-Score or 'grid', {label: (architecture, weights)})}."""


def get_config(variant: str = 'batch_or_group_norm') -> ConfigDict:
  """Returns the config that compares two classifiers by size or location of the object.

  `variant` is one of `COMPARISONS`, such as 'batch_or_group_norm'.
  """
  check_variant(variant, COMPARISONS)
  factor, classifiers = COMPARISONS[variant]  # classifiers are {label: (architecture, weights)}
  config = default_config('si_score', labels=tuple(classifiers))
  config.study.factor = factor
  config.data.source = 'scenes'
  config.batch_size = 8  # a row holds a whole cutout
  for label, (name, weights) in classifiers.items():
    config.classifiers[label].update(name=name, weights=weights)
  return config
