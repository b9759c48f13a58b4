r"""Several networks on the same neighbor sets, beside their published rows (Shankar et al. 2021).

python main.py --config=configs/video_testbed.py:resnet18,vgg16=FILE --workdir=/tmp/testbed \
    --config.data.metadata=SETS --config.data.path=FRAMES

  Tables 5 and 6 and figure 3: each network's accuracies on anchors and at pm-10 beside those that
  the paper printed for it (the table `published`), all of them among the published models, and the
  line through yours. SETS and FRAMES are the folder imagenet-vid-robust or ytbb-robust.

  The networks are those of the testbed that are here, with torchvision's first weights where these
  have a name (`robustness list classifiers`): resnet18, resnet34, resnet50, squeezenet1_0,
  squeezenet1_1, vgg16, vgg16_bn, vgg19, vgg19_bn; squeezenet1_0 has a published row on YTBB-Robust
  alone. The paper's weights of resnet101 and resnet152 are given as files, resnet101=FILE, and
  networks trained by finetune_video.py and video_training.py as folders:
  resnet50_finetuned=WORKDIR/checkpoints/resnet50 (vgg16bn_finetuned on ImageNet-Vid),
  resnet50_augment_shot_noise=WORKDIR/checkpoints/resnet50_augment_shot_noise.
  Without a list after the colon all that need no file are measured. On YTBB-Robust begin the list
  with ytbb: video_testbed.py:ytbb,resnet18,resnet50.
"""

from robustness.config.defaults import ConfigDict, check_variant, default_config

NETWORKS = {
  'resnet18': 'torchvision:resnet18.IMAGENET1K_V1',
  'resnet34': 'torchvision:resnet34.IMAGENET1K_V1',
  'resnet50': 'torchvision:resnet50.IMAGENET1K_V1',
  'resnet101': '',
  'resnet152': '',
  'squeezenet1_0': 'torchvision:squeezenet1_0.IMAGENET1K_V1',
  'squeezenet1_1': 'torchvision:squeezenet1_1.IMAGENET1K_V1',
  'vgg16': 'torchvision:vgg16.IMAGENET1K_V1',
  'vgg16_bn': 'timm:vgg16_bn.tv_in1k',
  'vgg19': 'timm:vgg19.tv_in1k',
  'vgg19_bn': 'timm:vgg19_bn.tv_in1k',
}
"""Weights by architecture, the name of which is the published row's; '' are given as a file."""
FINETUNED = '_finetuned'
PRINTED = {'vgg16bn': 'vgg16_bn'}
"""Architectures by what the paper calls fine-tuned ones."""
YTBB = 'ytbb'


def get_config(variant: str = '') -> ConfigDict:
  """Returns the config of the networks that the variant lists, NAME or NAME=FILE."""
  first, _, further = variant.partition(',')
  space = 'youtube_bb' if first == YTBB else 'imagenet_vid'
  chosen = further if first == YTBB else variant
  chosen = chosen or ','.join(name for name in NETWORKS if NETWORKS[name])
  listed = [entry.partition('=') for entry in chosen.split(',')]
  architectures = {name: _architecture(name) for name, *_ in listed}
  for name in architectures.values():
    check_variant(name, NETWORKS)
  if len(architectures) < len(listed):
    raise ValueError(f'a network stands twice in {chosen!r}: list each once.')
  config = default_config('video_pm_k', labels=tuple(name for name, *_ in listed))
  config.data.source = 'video_neighbors'
  for name, _, file in listed:
    config.classifiers[name].name = architectures[name]
    config.classifiers[name].weights = file or NETWORKS.get(name, '')
    config.classifiers[name].label_space = '' if name.endswith(FINETUNED) else space
  return config


def _architecture(name: str) -> str:
  own, *trained = name.removesuffix(FINETUNED).split('_augment_')
  return own if own == name or trained else PRINTED.get(own, own)
