"""A network that a user passes from Python, as `robustness.classifier` returns it.

It becomes a `Classifier` when images are given, because a call shows the number of classes.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from flax import linen as nn

from robustness.core import user_data
from robustness.core.errors import InputError
from robustness.core.settings import choice, require
from robustness.core.typing import PyTree
from robustness.models import weights
from robustness.models.callables import OUTPUTS, are_distributions
from robustness.models.classifier import Classifier, Outputs, from_linen
from robustness.models.inputs import Inputs
from robustness.models.label_space import DATA, MERGES

Call = Callable[[PyTree, Any], Any]
"""A function of variables and a batch of images that returns the outputs of a module."""
FIRST, LAST = CHANNELS = ('first', 'last')
TOLERANCE = 1e-4
"""Largest difference between the outputs of two calls, as a share of the largest output."""


@dataclasses.dataclass(frozen=True)
class Model:
  """A user's network, with the meaning of its inputs and outputs.

  Attributes:
    module: a function of images or of (variables, images); a module of Linen, NNX, Equinox, PyTorch
      or Keras; a model of MAITE; the name of an architecture, such as 'resnet50'; or 'timm:NAME'.
    variables: weights for a Linen module or a function of variables. For the name of an
      architecture, a file or name of weights; None for the published weights.
    mean: mean of images in [0, 1] for normalisation, one number per channel or one for all; None
      for 0.
    std: standard deviation for normalisation, like `mean`; None for 1.
    channels: 'first' if the module takes images [B, C, H, W], 'last' for [B, H, W, C]. None is
      'first' for PyTorch, Equinox and MAITE, otherwise 'last'.
    outputs: 'logits' or 'probabilities', which the module returns.
    class_names: names of the module's outputs in order; None for the names in MAITE's metadata, or
      else the class names of the data.
    name: label in tables and figures; '' for MAITE's id, or else the name of the class or function.
    label_space: coarse label space to convert predictions to, such as 'imagenet_vid'. 'data' keeps
      only the classes of the data, and '' keeps all.
    merge: how a coarse class gets its probability from those of the classes that it combines:
      'max', 'sum' or 'mean'.
  """

  module: Any
  variables: PyTree = dataclasses.field(default=None, repr=False)
  mean: Sequence[float] | None = None
  std: Sequence[float] | None = None
  channels: str | None = None
  outputs: str = 'logits'
  class_names: Sequence[str] | None = None
  name: str = ''
  label_space: str = ''
  merge: str = 'max'

  def __post_init__(self) -> None:
    """Raises InputError if a field of this description of a user's model is not valid.

    `module` is a function, a module of a library, or the name of an architecture. A Linen module
    needs variables. `merge` joins probabilities of several classes and needs a label space that
    does.
    """
    choice('outputs', self.outputs, OUTPUTS)
    choice('channels', self.channels or LAST, CHANNELS)
    choice('merge', self.merge, MERGES)
    is_merged = self.merge == 'max' or self.label_space not in ('', DATA)
    require(is_merged, 'merge', self.merge, "'max' unless label_space joins several classes")
    # a text is the name of an architecture
    if not callable(self.module) and not isinstance(self.module, str):
      raise InputError(
        f'{self.module!r} is no function and no module of Linen, NNX, Equinox, PyTorch or Keras.'
      )
    if self.library == 'linen' and self.variables is None:
      raise InputError(
        f"{self.label} is a Linen module: give variables={{'params': ..., 'batch_stats': ...}}."
      )

  @property
  def library(self) -> str:
    """The library that `module` is of, by its class.

    It is 'maite', 'linen', 'nnx', 'torch', 'keras', 'equinox', or 'function' for any other
    callable.
    """
    if user_data.maite_metadata(self.module):
      return 'maite'
    if isinstance(self.module, nn.Module):
      return 'linen'
    modules = [f'{base.__module__}.' for base in type(self.module).__mro__]
    packages = {'flax.nnx.': 'nnx', 'torch.': 'torch', 'keras.': 'keras', 'equinox.': 'equinox'}
    for package, library in packages.items():
      if any(module.startswith(package) for module in modules):
        return library
    return 'function'

  @property
  def takes_channels_first(self) -> bool:
    """Whether the module gets images [B, C, H, W]; otherwise it gets [B, H, W, C]."""
    default = FIRST if self.library in ('torch', 'equinox', 'maite') else LAST
    return (self.channels or default) == FIRST

  @property
  def label(self) -> str:
    """The name in tables and figures, by default from the architecture, class or function."""
    if isinstance(self.module, str):  # an architecture, such as 'resnet50' or 'FILE.py:NAME'
      return self.name or self.module.rpartition(':')[2]
    model_id = str(user_data.maite_metadata(self.module).get('id', '')).replace('/', '_')
    kind = getattr(self.module, '__name__', '') or type(self.module).__name__
    name = self.name or model_id or kind
    return 'classifier' if name == '<lambda>' else name

  def classifier(self, images: np.ndarray, class_names: Sequence[str] = ()) -> Classifier:
    """Makes a `Classifier` from the module, after a check of its outputs.

    The module is called with the first image and its negative, twice, and then with two copies of
    the first image. The outputs for this image must be equal in all calls. Batch normalisation over
    the current batch is thus refused.

    Args:
      images: float32 [N, H, W, C] in [0, 1], with N at least 1. Only the first image is used.
      class_names: class names of the data; () numbers the outputs from 0.

    Returns:
      A classifier for images [H, W, C] of this size.

    Raises:
      InputError: the module is in training mode, fails, returns NaN, differs in a second call or
        depends on the other images of a batch; or its outputs do not match `outputs` or the number
        of class names.
    """
    height, width, channels = images.shape[1:]
    inputs = Inputs(tuple(self.mean or (0.0,)), tuple(self.std or (1.0,)))
    inputs.check(channels)
    if self.library == 'torch' and self.mean is None and self.std is None:
      logging.info('%s gets images in [0, 1]: no mean and std are applied', self.label)
    apply = self._normalised_function()

    def call(variables: PyTree, batch: Any) -> Any:
      """Calls the user's module on images [B, H, W, C] in [0, 1], and returns its outputs.

      Images are filtered and normalised by `inputs` first, and get the module's order of axes.
      """
      # modules of other libraries than JAX take NumPy arrays, here a copy that they may change
      normalised = inputs(batch) if isinstance(batch, jax.Array) else np.array(inputs(batch))
      if self.takes_channels_first:
        normalised = normalised.transpose(0, 3, 1, 2)
      return apply(variables, normalised)

    pair = np.concatenate([images[:1], 1 - images[:1]])
    outputs = self._outputs(call, pair)
    num_outputs = outputs.shape[1]
    names_of_model = self.class_names or user_data.maite_class_names(self.module)
    names = tuple(names_of_model or class_names or map(str, range(num_outputs)))
    if len(names) != num_outputs:
      raise InputError(
        f'{self.label} gives {num_outputs} outputs, and there are {len(names)} class names: '
        'give class_names with a name for each output.'
      )
    self._check(outputs)
    made = self._make_classifier(call, inputs, (height, width, channels), names)
    self._check_repeated(call, made, pair, outputs)
    if self.mean is None and self.std is None:
      return made
    scaling = {'mean': [*map(float, inputs.mean)], 'std': [*map(float, inputs.std)]}
    return dataclasses.replace(made, provenance={**made.provenance, 'preprocessing': scaling})

  def _check_repeated(
    self, call: Call, made: Classifier, pair: np.ndarray, outputs: np.ndarray
  ) -> None:
    """Checks that an image has the same outputs in every call, whatever the other images are.

    Args:
      call: function of (variables, images in [0, 1]) that returns the module's outputs.
      made: the classifier made from the module.
      pair: two different images, [2, H, W, C].
      outputs: the module's outputs for the pair, [2, classes].

    Raises:
      InputError: the outputs differ.
    """
    logits = made.predict(pair)  # log probabilities if the module returns probabilities
    repeated = np.exp(logits) if self.outputs == 'probabilities' else logits
    if _outputs_differ(outputs, repeated):
      raise InputError(
        f'{self.label} gives other outputs when it is called again: switch off dropout.'
      )
    outputs_of_copies = self._outputs(call, pair[[0, 0]])
    if _outputs_differ(outputs[:1], outputs_of_copies[:1]):
      raise InputError(
        f'{self.label} gives an image other outputs beside other images: have normalisation use '
        'running statistics, as in evaluation mode.'
      )

  def _normalised_function(self) -> Call:
    """Wraps the module as a function of (variables, normalised images).

    The function takes the images in the module's order of axes and returns the module's outputs.

    Raises:
      InputError: a module of PyTorch, Equinox or NNX cannot be called in evaluation mode.
    """
    module = self.module
    if self.library == 'maite':
      return lambda _, batch: np.stack([user_data.as_array(row) for row in module([*batch])])
    if self.library == 'torch':
      import torch

      from robustness.models import torch_module

      torch_module.check_module(module, self.label)  # raises InputError in training mode

      def run(_: PyTree, batch: np.ndarray) -> np.ndarray:
        """Calls a PyTorch module on normalised images, on the module's device.

        Args:
          _: variables, not used: the module holds its weights.
          batch: images in the module's order of axes.

        Returns:
          The module's outputs.
        """
        device = next((parameter.device for parameter in module.parameters()), 'cpu')
        with torch.no_grad():
          outputs = module(torch.from_numpy(np.ascontiguousarray(batch)).to(device))
        if not isinstance(outputs, torch.Tensor):
          raise InputError(
            f'{self.label} gives {type(outputs).__name__}, not a tensor: give a module that '
            'returns the logits alone.'
          )
        return outputs.cpu().numpy()

      return run
    if self.library == 'keras':
      import keras

      return lambda _, batch: keras.ops.convert_to_numpy(module(batch, training=False))
    if self.library == 'equinox':
      import equinox

      if not equinox.tree_equal(module, equinox.nn.inference_mode(module)):
        raise InputError(f'{self.label} is in training mode: give equinox.nn.inference_mode of it.')
      return lambda _, batch: jax.vmap(module)(jnp.asarray(batch))
    if self.library == 'linen':
      return module.apply
    if self.library == 'nnx':
      from robustness.models import nnx_module

      network = nnx_module.split(module, self.label)
      return lambda _, batch: network(network.variables, jnp.asarray(batch), ())[0]
    if self.variables is None:
      return lambda _, batch: module(batch)
    return module  # a function of variables and images

  def _outputs(self, call: Call, images: np.ndarray) -> np.ndarray:
    """Returns the module's outputs [B, classes] for images [B, H, W, C] in [0, 1].

    Raises:
      InputError: the call fails, or does not return an array [B, classes].
    """
    try:
      returned = call(self.variables, images)
    except InputError:
      raise
    except Exception as error:  # the module is the user's and may raise anything
      first_line = str(error).partition('\n')[0]
      reason = ' '.join(first_line.split())
      layouts = {FIRST: '[B, C, H, W]', LAST: '[B, H, W, C]'}
      current, other = (FIRST, LAST) if self.takes_channels_first else (LAST, FIRST)
      raise InputError(
        f'{self.label} failed on images {list(images.shape)}: {type(error).__name__}: '
        f'{reason} (It got {layouts[current]}; robustness.classifier(..., channels={other!r}) '
        f'gives it {layouts[other]}.)'
      ) from error
    count, kind = len(images), type(returned).__name__
    try:
      outputs = np.asarray(returned)
    except Exception as error:  # a tuple of arrays, or a tensor with a gradient
      raise InputError(
        f'{self.label} gives a {kind} for {count} images, which is no array ({count}, classes): '
        f'{error} Give a function that returns the outputs alone.'
      ) from error
    if outputs.ndim != 2 or len(outputs) != count:
      raise InputError(
        f'{self.label} gives {outputs.shape or f"a {kind}"} for {count} images, not '
        f'({count}, classes).'
      )
    return outputs

  def _check(self, outputs: np.ndarray) -> None:
    """Checks that outputs are what `self.outputs` says, logits or probabilities.

    Args:
      outputs: outputs of the module, [B, classes].

    Raises:
      InputError: an output is NaN, the outputs are probabilities although `self.outputs` is
        'logits', or the other way round.
    """
    if np.isnan(outputs).any():
      raise InputError(f'{self.label} gives NaN for an image in [0, 1]: check its weights.')
    has_probabilities = outputs.shape[1] > 1 and bool(are_distributions(outputs).all())
    if has_probabilities != (self.outputs == 'probabilities'):
      other = next(name for name in OUTPUTS if name != self.outputs)
      raise InputError(
        f'{self.label} gives a row with minimum {outputs[0].min():g} and sum {outputs[0].sum():g}, '
        f'which is not what outputs={self.outputs!r} says: give outputs={other!r}.'
      )

  def _make_classifier(
    self, call: Call, inputs: Inputs, shape: tuple[int, int, int], names: tuple[str, ...]
  ) -> Classifier:
    """Makes a `Classifier` with named layers and gradients if the module's library has them.

    PyTorch modules with channels first, and Linen and NNX modules with channels last, have both.
    Other modules that JAX can trace have only gradients. All others have neither.

    Args:
      call: function of (variables, images in [0, 1]) that returns the module's outputs.
      inputs: the normalisation.
      shape: height, width and channels of the images.
      names: the class names.
    """
    options: dict[str, Any] = {'name': self.label, 'mean': inputs.mean, 'std': inputs.std}
    options |= {'input_shape': shape, 'class_names': names}
    facts, library = {'kind': self.library}, self.library
    if library == 'torch' and self.takes_channels_first:
      made = Classifier.from_torch(self.module, **options)
    elif library == 'nnx' and not self.takes_channels_first:
      made = Classifier.from_nnx(self.module, **options)
    elif library == 'linen' and not self.takes_channels_first:
      facts['sha256'] = weights.digest(self.variables)
      made = from_linen(self.module, self.variables, **options, provenance=facts)
    elif _is_traceable(call, self.variables, shape):

      def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
        """Returns the outputs of the module; the outputs of its layers are not known."""
        return call(variables, images), {}

      made = Classifier(self.label, forward, self.variables, shape, names, provenance=facts)
    else:
      function = functools.partial(call, self.variables)
      return Classifier.from_callable(
        function, shape, names, name=self.label, outputs=self.outputs, provenance=facts
      )
    return _with_log_outputs(made) if self.outputs == 'probabilities' else made


def _outputs_differ(first: np.ndarray, second: np.ndarray) -> bool:
  """Returns whether two calls returned different outputs [B, classes].

  Outputs may differ by `TOLERANCE` times the largest output. Infinite or NaN values are not
  compared.
  """
  is_finite = np.isfinite(first) & np.isfinite(second)  # a log probability may be −∞
  tolerance = TOLERANCE * np.abs(first[is_finite]).max(initial=0)
  return bool((np.abs(first[is_finite] - second[is_finite]) > tolerance).any())


def _is_traceable(call: Call, variables: PyTree, shape: tuple[int, int, int]) -> bool:
  """Returns whether JAX can trace `call` for images [2, *shape]."""
  try:
    jax.eval_shape(call, variables, jax.ShapeDtypeStruct((2, *shape), jnp.float32))
  except Exception:  # functions of NumPy and other libraries raise errors of many types
    return False
  return True


def _with_log_outputs(classifier: Classifier) -> Classifier:
  """Changes a classifier with probabilities as outputs to return their logarithms, as logits.

  Args:
    classifier: the classifier.
  """

  def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
    """Returns the logarithms of the probabilities, and the outputs of layers."""
    probabilities, outputs = classifier.forward(variables, images, layers)
    return jnp.log(probabilities), outputs

  return dataclasses.replace(classifier, forward=forward)
