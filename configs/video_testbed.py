r"""Several networks on the same neighbor sets, with their published rows (Shankar et al. 2021).

python main.py --config=configs/video_testbed.py:resnet18,vgg16=FILE --workdir=/tmp/testbed \
    --config.data.video_neighbors.metadata=SETS --config.data.video_neighbors.frames=FRAMES

  Tables 5 and 6 and figure 3: each network's accuracies on anchors and at pm-10 with those that
  the paper printed for it (the table `published`), all of them among the published models, and the
  line through yours. SETS and FRAMES are the folder imagenet-vid-robust or ytbb-robust.

  The networks of the testbed that are implemented here have torchvision's first weights where
  these have a name (`robustness list classifiers`): resnet18, resnet34, resnet50, squeezenet1_0,
  squeezenet1_1, vgg16, vgg16_bn, vgg19, vgg19_bn; squeezenet1_0 has a published row on
  YTBB-Robust alone. Further networks of the tables are run by PyTorch from timm (pip install
  '.[timm]'), such as densenet121, inceptionv4, dpn92, nasnetalarge, resnet101 and resnet152: all
  of `IN_TIMM`. Several of these want --config.data.resize=256 --config.data.crop=224
  --config.data.interpolation=bilinear, for their records differ; networks of 299 or 331 pixels
  are run in a workdir each. A FILE after a name takes other weights. Networks trained by
  finetune_video.py and video_training.py are given as folders:
  resnet50_finetuned=WORKDIR/checkpoints/resnet50 (vgg16bn_finetuned on ImageNet-Vid),
  resnet50_augment_shot_noise=WORKDIR/checkpoints/resnet50_augment_shot_noise. Without a list
  after the colon those that are here are measured. On YTBB-Robust begin the list with ytbb:
  video_testbed.py:ytbb,resnet18,resnet50.
"""

from robustness.config.defaults import ConfigDict, check_variant, default_config

NETWORKS = {
  'resnet18': 'torchvision:resnet18.IMAGENET1K_V1',
  'resnet34': 'torchvision:resnet34.IMAGENET1K_V1',
  'resnet50': 'torchvision:resnet50.IMAGENET1K_V1',
  'squeezenet1_0': 'torchvision:squeezenet1_0.IMAGENET1K_V1',
  'squeezenet1_1': 'torchvision:squeezenet1_1.IMAGENET1K_V1',
  'vgg16': 'torchvision:vgg16.IMAGENET1K_V1',
  'vgg16_bn': 'timm:vgg16_bn.tv_in1k',
  'vgg19': 'timm:vgg19.tv_in1k',
  'vgg19_bn': 'timm:vgg19_bn.tv_in1k',
}
"""{name of the published row, which is the architecture: its weights}."""
IN_TIMM = {
  **{name: f'{name}.tv_in1k' for name in ('resnet101', 'resnet152', 'vgg11', 'vgg13')},
  **{f'vgg{depth}_bn': f'vgg{depth}_bn.tv_in1k' for depth in (11, 13)},
  **{f'densenet{depth}': f'densenet{depth}.tv_in1k' for depth in (121, 161, 169, 201)},
  **{name: f'{name}.mx_in1k' for name in ('dpn68', 'dpn68b', 'dpn92', 'dpn98', 'dpn107', 'dpn131')},
  'inceptionv3': 'inception_v3.tv_in1k',
  'inceptionv4': 'inception_v4.tf_in1k',
  'inceptionresnetv2': 'inception_resnet_v2.tf_in1k',
  'nasnetalarge': 'nasnetalarge.tf_in1k',
  'pnasnet5large': 'pnasnet5large.tf_in1k',
  'xception': 'legacy_xception.tf_in1k',
  'senet154': 'legacy_senet154.in1k',
  **{f'se_resnet{depth}': f'legacy_seresnet{depth}.in1k' for depth in (50, 101, 152)},
  **{f'se_resnext{kind}': f'legacy_seresnext{kind}.in1k' for kind in ('50_32x4d', '101_32x4d')},
}
"""{name of the published row: name of the network in timm}."""
OF_THIS_PROJECT = (*NETWORKS, 'resnet101', 'resnet152')
"""Architectures that are implemented here."""
FINETUNED = '_finetuned'
"""End of the names of networks that were fine-tuned on video frames."""
PRINTED = {'vgg16bn': 'vgg16_bn'}
"""{name of a fine-tuned network in the paper: its architecture}."""
YTBB = 'ytbb'
"""First entry of a variant that is measured on YTBB-Robust."""


def get_config(variant: str = '') -> ConfigDict:
  """Returns the config of pm-k accuracy of the networks in a list, such as 'resnet18,vgg16=FILE'.

  FILE has the weights of a network, in place of its published weights. '' lists all networks that
  have published weights here. A list that begins with 'ytbb' is measured on YTBB-Robust, any other
  on ImageNet-Vid-Robust.
  """
  first, _, networks = variant.partition(',')
  is_ytbb = first == YTBB
  label_space = 'youtube_bb' if is_ytbb else 'imagenet_vid'
  entries = (networks if is_ytbb else variant) or ','.join(NETWORKS)
  files: dict[str, str] = {}  # {name of a network: FILE, or '' for its published weights}
  for entry in entries.split(','):
    name, _, file = entry.partition('=')
    check_variant(_architecture(name), (*NETWORKS, *IN_TIMM))
    if name in files:
      raise ValueError(f'a network stands twice in {entries!r}: list each once.')
    files[name] = file
  config = default_config('video_pm_k', labels=tuple(files))
  config.data.source = 'video_neighbors'
  for name, file in files.items():
    classifier, architecture = config.classifiers[name], _architecture(name)
    # Networks that are not implemented here, or whose published weights are those of timm, run in
    # PyTorch, from timm.
    is_built_here = architecture in (OF_THIS_PROJECT if file else NETWORKS)
    classifier.name = architecture if is_built_here else f'timm:{IN_TIMM[architecture]}'
    classifier.weights = file or NETWORKS.get(name, '')
    # A network that was fine-tuned on frames answers with their classes already.
    classifier.label_space = '' if name.endswith(FINETUNED) else label_space
  return config


def _architecture(name: str) -> str:
  """Returns the architecture of a network, from its name in the published table.

  'resnet50_finetuned' and 'resnet50_augment_shot_noise', for example, are a 'resnet50'.
  """
  network, *corruption = name.removesuffix(FINETUNED).split('_augment_')
  # Only names that end in '_finetuned' may be spelt otherwise than the architecture.
  return network if network == name or corruption else PRINTED.get(network, network)
