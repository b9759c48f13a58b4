"""Classifiers: functions from images in [0, 1] to logits and outputs of named layers."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Self, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.errors import FlaxError

from robustness.core.errors import KEYS, InputError, SettingError, for_caller, nearest
from robustness.core.rows import check_class_names, values_outside
from robustness.core.typing import Facts, PyTree
from robustness.models.adaptation import Adaptation, linen_layers
from robustness.models.adaptation import Layers as LinenLayers
from robustness.models.callables import NO_LOGITS, CheckedFunction, are_distributions, check_logits
from robustness.models.inputs import InputFilter, Inputs
from robustness.models.layers import FEATURES, first_calls, sown_features

Layers = dict[str, jax.Array]
"""{name of a layer: its output [B, ...]}."""
Outputs = tuple[jax.Array, Layers]
"""Logits [B, classes], and the outputs of layers."""
Forward = Callable[[PyTree, jax.Array, tuple[str, ...]], Outputs]
"""A function of variables, images in [0, 1] and names of layers, as the field `forward` holds."""
Network = Callable[[PyTree, jax.Array, Collection[str]], Outputs]
"""A function of variables, normalised images and names of layers."""
LOGITS = 'logits'
"""The name of the layer with the logits."""
UNPROJECTED = 'unprojected_logits'
"""The name of the layer with the logits of all classes, if `LOGITS` belong to a label space."""
STAGES = 'stages'
"""The name that stands for all layers in `Classifier.stages`."""


@dataclasses.dataclass(frozen=True, repr=False)
class Classifier:
  """A network with its weights, preprocessing and class names.

  Attributes:
    name: the name of the classifier in tables and figures.
    forward: pure function `(variables, images, layers) -> (logits, outputs)`. Images are float32
      [B, H, W, C] in [0, 1]; the function normalises them, so that perturbations apply to pixels.
      `layers` is a static tuple of names. Logits are float32 [B, classes], and outputs are
      {layer: [B, ...]}.
    variables: the weights, a pytree of arrays.
    input_shape: height, width and channels of the images.
    class_names: the names of the outputs, in order.
    layers: the names of layers that `forward` can return, with `logits` last.
    stages: the layers that a study records for the name 'stages': the stem, the residual stages and
      the logits.
    provenance: JSON values that identify the weights, for results and records.
    host_function: function on NumPy arrays that predicts on the host in place of `forward`, see
      `from_callable`; None for a network.
    calls_host: whether `forward` calls back to the host. The evaluation then uses one device,
      because threads of several devices could wait for each other forever (see `from_torch`).
    adaptation: the adaptation at test time, see `with_adaptation`; None for none.
  """

  name: str
  forward: Forward
  variables: PyTree
  input_shape: tuple[int, int, int]
  class_names: tuple[str, ...]
  layers: tuple[str, ...] = (LOGITS,)
  stages: tuple[str, ...] = (LOGITS,)
  provenance: Facts = dataclasses.field(default_factory=dict)
  host_function: CheckedFunction | None = None
  calls_host: bool = False
  adaptation: Adaptation | None = None

  def __repr__(self) -> str:
    """Returns the name, the size of images and the number of classes in one line."""
    size = ' × '.join(map(str, self.input_shape))
    return f'Classifier({self.name!r}, images {size}, {self.num_classes} classes)'

  def __post_init__(self) -> None:
    check_class_names(self.class_names, f'class_names of {self.name}')

  @classmethod
  def from_callable(
    cls,
    function: Callable[[np.ndarray], object],
    input_shape: tuple[int, int, int],
    class_names: Sequence[str],
    *,
    name: str = 'callable',
    outputs: str = 'logits',
    batch_size: int = 0,
    provenance: Facts | None = None,
  ) -> Self:
    """Returns a classifier that calls any function on NumPy arrays on the host.

    The function may be an ONNX session or a served model, for example. It has no gradient and no
    layers, so that gradient attacks and records of layers raise InputError.

    Args:
      function: function from images float32 [B, H, W, C] to an array [B, classes], which normalises
        images itself. Values are in [0, 1] unless a study does not clip its perturbations.
      input_shape: height, width and channels of the images.
      class_names: names of the outputs, in order.
      name: the name of the classifier in tables and figures.
      outputs: 'logits' or 'probabilities'.
      batch_size: number of images in a call, for functions with a fixed number; 0 for any number.
      provenance: JSON values that distinguish this classifier from others with its name, such as a
        digest of its file. Records of an earlier run are reused if these values are equal.

    Raises:
      InputError: `function` cannot be called, there are no classes, or `outputs` is invalid.
    """
    if not class_names:
      raise InputError(f'{name} has no classes: give class_names, one for each output.')
    return cls(
      name,
      _host_only,  # raises InputError, because the function cannot be compiled
      None,  # the function holds its weights, if it has any
      input_shape,
      tuple(class_names),
      layers=(),
      stages=(),
      provenance={'kind': 'callable', 'outputs': outputs, **(provenance or {})},
      host_function=CheckedFunction(function, len(class_names), outputs, batch_size),
    )

  @classmethod
  def from_nnx(
    cls,
    module: object,
    *,
    name: str,
    input_shape: tuple[int, int, int],
    class_names: Sequence[str],
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    stages: Sequence[str] = (),
    provenance: Facts | None = None,
    input_filter: InputFilter | None = None,
  ) -> Self:
    """Returns a classifier that applies an `nnx.Module` `module(images) -> logits`.

    The classifier uses a copy of the module in evaluation mode (`Module.eval()`) with its current
    arrays. It has gradients, so that attacks work. Its layers are 'logits' and the paths of all
    submodules, such as 'blocks/0'. Other arguments are described in `from_linen`.

    Raises:
      InputError: `module` is no NNX module, or does not return [B, classes] for images alone.
    """
    from robustness.models import nnx_module  # NNX takes a second to import

    network = nnx_module.split(module, name)
    return cls(
      name,
      _forward(network, Inputs(tuple(mean), tuple(std), input_filter)),
      network.variables,
      input_shape,
      tuple(class_names),
      layers=(*nnx_module.layer_names(network, input_shape, len(class_names), name), LOGITS),
      stages=(*stages, LOGITS),
      provenance={'kind': 'nnx', **(provenance or {})},
    )

  @classmethod
  def from_torch(
    cls,
    module: object,
    input_shape: tuple[int, int, int],
    class_names: Sequence[str],
    *,
    name: str = 'torch',
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    batch_size: int = 64,
    head: str = '',
    provenance: Facts | None = None,
    input_filter: InputFilter | None = None,
  ) -> Self:
    """Returns a classifier that calls a PyTorch `module(images [B, C, H, W]) -> logits`.

    The classifier takes images [B, H, W, C] in [0, 1], like all classifiers, and has gradients. The
    module gets (images − mean) / std and computes in float32 on its device. Its layers are 'logits'
    and the names of all submodules, such as 'layer1.0'. Their outputs [B, C, H, W] are returned as
    [B, H, W, C].

    Args:
      module: a module in evaluation mode (`module.eval()`), which is not changed.
      input_shape: height, width and channels of the images.
      class_names: names of the outputs, in order.
      name: the name of the classifier in tables and figures.
      mean: number that is subtracted from images in [0, 1], one per channel or one for all.
      std: number that the difference is divided by, one per channel or one for all.
      batch_size: largest number of images in a call of the module.
      head: name of the submodule, such as 'fc', that turns features into logits; its input is then
        the layer 'features' too. '' for none.
      provenance: JSON values in addition to the SHA-256 of the weights.
      input_filter: filter of the images before normalisation.

    Raises:
      InputError: `module` is no PyTorch module in evaluation mode, or does not return finite,
        repeatable logits [B, classes] with a gradient.
    """
    from robustness.models import torch_module  # PyTorch is optional, and takes a second to import

    inputs = Inputs(tuple(mean), tuple(std), input_filter)
    noise = np.random.default_rng(0).random((3, *input_shape), np.float32)
    images = np.asarray(inputs(jnp.asarray(noise)))  # on which the module is checked
    network = torch_module.wrap(module, images, len(class_names), name, batch_size, head)
    return cls(
      name,
      _forward(network, inputs),
      None,  # the module holds its weights
      input_shape,
      tuple(class_names),
      layers=(*network.shapes, LOGITS),
      provenance={**torch_module.facts(network), **(provenance or {})},
      calls_host=True,
    )

  @property
  def num_classes(self) -> int:
    """The number of classes."""
    return len(self.class_names)

  def predict(self, images: np.ndarray) -> np.ndarray:
    """Returns logits float32 [B, classes] of images float32 [B, H, W, C] in [0, 1].

    Raises:
      InputError: images are no floats of shape [B, *input_shape], or have values outside [0, 1].
    """
    if images.dtype != np.float32 or images.shape[1:] != tuple(self.input_shape):
      shape = ', '.join(map(str, self.input_shape))
      got = f'{images.dtype} of shape {images.shape}'
      raise InputError(f'{self.name} takes float32 images [B, {shape}]; got {got}.')
    if outside := values_outside(images):
      raise InputError(
        f'{outside}; they must lie in [0, 1]: divide 8-bit images by 255 and leave normalisation '
        'out.'
      )
    if not len(images):  # networks may divide by the number of images
      return np.zeros((0, self.num_classes), np.float32)
    if self.host_function:
      return self.host_function(images)
    with self.host_errors():
      on_device, _ = self.apply(self.variables, jnp.asarray(images), layers=())
      logits = np.asarray(on_device)
    if self.num_classes > 1 and are_distributions(logits).all():
      raise InputError(f'{self.name} {NO_LOGITS}')
    return logits

  def apply(self, variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
    """Returns the logits and the outputs of layers, and checks their shapes and types.

    Args:
      variables: the weights.
      images: [B, H, W, C] in [0, 1].
      layers: names of the layers.

    Returns:
      Logits float32 [B, classes], and {layer: output [B, ...]}.

    Raises:
      InputError: logits are not floats [B, classes], a requested layer is missing, or the
        classifier is a Python callable on the host, which JAX cannot trace.
    """
    if self.host_function:
      raise without_gradient(self.name)
    try:
      result: object = self.forward(variables, images, layers)
    except jax.errors.JAXTypeError as error:
      reason = str(error).splitlines()[0]
      raise InputError(
        f'forward of {self.name} cannot be compiled ({reason}) Give jax.numpy alone, or see '
        'Classifier.from_callable.'
      ) from error
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
      raise InputError(
        f'forward of {self.name} returned {type(result).__name__}; it must return the pair '
        '(logits, {layer: output}), where {} stands for no layers.'
      )
    logits, outputs = result
    check_logits(self.name, logits, len(images), self.num_classes)
    if LOGITS in layers:
      outputs = {**outputs, LOGITS: logits}
    absent = [name for name in layers if name not in outputs]
    if absent:
      raise InputError(f'{self.name} was asked for the layer {absent[0]!r} and gives {[*outputs]}.')
    return jnp.asarray(logits, jnp.float32), outputs

  @contextlib.contextmanager
  def host_errors(self) -> Iterator[None]:
    """Context in which errors of a Python function inside a compiled program keep their type.

    JAX turns them into a JaxRuntimeError with the text of the traceback. The context raises the
    InputError or KeyboardInterrupt that this text names.
    """
    try:
      yield
    except jax.errors.JaxRuntimeError as error:
      if self.calls_host and str(error).rstrip(': \n').endswith(KeyboardInterrupt.__name__):
        raise KeyboardInterrupt from error
      # the text after the last 'InputError: ', or all of it if this is another error
      message = str(error).rpartition(f'{InputError.__name__}: ')[2]
      if not self.calls_host or message == str(error):
        raise
      raise InputError(f'{self.name}: {message}') from error

  def select_layers(self, requested: Sequence[str]) -> tuple[str, ...]:
    """Returns names of layers, with 'stages' replaced by the names of all stages.

    Args:
      requested: names of layers, or 'stages'.

    Raises:
      InputError: a layer is unknown; the message lists the valid ones.
    """
    if requested and self.host_function:
      raise InputError(
        f'{self.name} is a callable, whose layers cannot be seen: set '
        f'{KEYS.study.layers}=() (asked for: ' + ', '.join(requested) + ').'
      )
    names: dict[str, None] = {}  # a set in the order of insertion
    for name in requested:
      names |= dict.fromkeys(self.stages if name == STAGES else (name,))
    for name in names:
      if name not in self.layers:
        valid = nearest(name, (STAGES, *self.layers))
        raise InputError(f'{self.name} has no layer {name!r}; {valid}.')
    return tuple(names)

  def with_adaptation(self, adaptation: Adaptation | None) -> Self:
    """Returns a copy that adapts to test images.

    Args:
      adaptation: the method; None returns the classifier unchanged.

    Raises:
      InputError: the classifier has no Flax Linen layer that the method changes. Or batch
        normalisation would take the statistics of a single image.
    """
    if adaptation is None:
      return self
    # A function on the host has no layers. The error below names those that the adaptation needs;
    # if it needs none in particular, `linen_layers` raises InputError.
    layers = {} if self.host_function and adaptation.kinds else self.linen_layers()
    has_needed_layer = any(issubclass(kind, adaptation.kinds) for kind in layers.values())
    if adaptation.kinds and not has_needed_layer:
      problem = f'which adapts {adaptation.adapts}, and {self.name} has none (in Flax Linen)'
      fix = "Set it to '', or choose a network that has, such as resnet50."
      raise SettingError(KEYS.classifier.adaptation.name, adaptation.name, problem=problem, fix=fix)
    if any(issubclass(kind, nn.BatchNorm) for kind in layers.values()):
      has_statistics = adaptation.batch_size > 1 or adaptation.source_weight > 0
      valid = 'at least 2 where batch normalisation takes the statistics of the batch alone'
      adaptation.require(has_statistics, 'batch_size', f'{valid} (source_weight=0)')
    else:
      default = type(adaptation).source_weight
      is_unset = adaptation.source_weight == default
      adaptation.require(is_unset, 'source_weight', f'{default} without batch normalisation')
    # A network that is still to be trained has an empty provenance, which identifies no weights. It
    # stays empty; this method is called again after the training.
    facts = {**self.provenance, 'adaptation': adaptation.describe()} if self.provenance else {}
    return dataclasses.replace(self, adaptation=adaptation, provenance=facts)

  def linen_layers(self) -> LinenLayers:
    """Returns the Flax Linen layers of the network, {path: class}.

    Raises:
      InputError: the classifier is a callable on the host.
    """
    apply: Callable[..., Outputs] = functools.partial(self.apply, layers=())
    images = jax.ShapeDtypeStruct((1, *self.input_shape), jnp.float32)
    return linen_layers(apply, self.variables, images)

  def select_outputs(self, requested: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the layers that a study records.

    'stages' is replaced by the names of all stages. 'unprojected_logits' are the logits of the
    weights' classes, before predictions are projected onto a coarser label space. In a classifier
    without such a projection they are 'logits'.

    Args:
      requested: names of layers, 'stages' or 'unprojected_logits'.

    Raises:
      InputError: a layer is unknown, or it is not 'logits' and the classifier is a callable.
    """
    projects_logits = UNPROJECTED in self.layers
    names = [LOGITS if x == UNPROJECTED and not projects_logits else x for x in requested]
    if all(name == LOGITS for name in names):  # a callable has logits too, but no layers
      return tuple(names)
    if self.host_function and LOGITS in names:
      raise InputError(
        f'{self.name} is a callable, whose layers cannot be seen, and the study records '
        f'{", ".join(names)}: give the network itself ({KEYS.classifier.name}), or another study.'
      )
    return self.select_layers(names)


def from_linen(
  module: nn.Module,
  variables: PyTree,
  *,
  name: str,
  input_shape: tuple[int, int, int],
  class_names: Sequence[str],
  mean: Sequence[float],
  std: Sequence[float],
  stages: Sequence[str] = (),
  provenance: Facts | None = None,
  input_filter: InputFilter | None = None,
) -> Classifier:
  """Returns a classifier that applies a Linen module `module(images, train=False) -> logits`.

  Args:
    module: the network, which takes normalised images.
    variables: the collections of its variables, {'params': ..., 'batch_stats': ...}.
    name: the name of the classifier in tables and figures.
    input_shape: height, width and channels of the images.
    class_names: names of the outputs, in order.
    mean: number that is subtracted from images in [0, 1], one per channel or one for all.
    std: number that the difference is divided by, one per channel or one for all.
    stages: paths of the layers that 'stages' stands for, besides the logits.
    provenance: JSON values on the origin of the weights.
    input_filter: filter of the images before normalisation.

  Returns:
    The classifier. Its layers are all module paths (such as 'stage1/block0'), 'logits', and
    'features' if the network sows the inputs of its last linear map.

  Raises:
    InputError: the module cannot be applied to images alone, or returns no floats [B, classes].
  """
  images = jax.ShapeDtypeStruct((1, *input_shape), jnp.float32)
  apply = functools.partial(module.apply, mutable=['intermediates'], capture_intermediates=True)
  try:
    logits, state = jax.eval_shape(apply, variables, images)  # shapes, nothing is computed
  except InputError:
    raise
  except (TypeError, ValueError, FlaxError) as error:
    raise InputError(
      f'{name} cannot be applied to images {images.shape} alone: {type(error).__name__}: {error} '
      "Give all its collections, such as {'params': ..., 'batch_stats': ...}, and a module whose "
      '__call__ takes images [B, H, W, C], with train=False by default.'
    ) from error
  outputs = first_calls(state['intermediates'])  # {path of a submodule: shape of its output}
  if empty := [path for path, x in outputs.items() if 0 in getattr(x, 'shape', ())]:
    raise InputError(
      f'images of {input_shape[0]} × {input_shape[1]} pixels are too small for {name}: nothing is '
      f'left of them in its layer {empty[0]!r}. Set {KEYS.data.resize}.'
    )
  check_logits(name, logits, 1, len(class_names))
  # the path of `module` is '', and submodules that do not return one array are no layers
  layers = [path for path, x in outputs.items() if path and isinstance(x, jax.ShapeDtypeStruct)]
  if FEATURES not in layers and sown_features(state['intermediates']) is not None:
    layers.append(FEATURES)
  network = functools.partial(_apply_linen, module)
  return Classifier(
    name,
    _forward(network, Inputs(tuple(mean), tuple(std), input_filter)),
    variables,
    input_shape,
    tuple(class_names),
    layers=(*layers, LOGITS),
    stages=(*stages, LOGITS),
    provenance=dict(provenance or {}),
  )


def _apply_linen(
  module: nn.Module, variables: PyTree, images: jax.Array, layers: Collection[str]
) -> Outputs:
  """Calls a Linen module on normalised images, and captures the outputs of its submodules.

  Args:
    module: the module.
    variables: its variables.
    images: normalised images [B, H, W, C].
    layers: paths of the submodules to capture, such as 'stage1/block0'. 'features' is a value that
      the module sows, unless a submodule has this name.

  Returns:
    Logits, and {layer: output}.
  """
  if not layers:
    return cast(jax.Array, module.apply(variables, images)), {}
  logits, state = module.apply(
    variables,
    images,
    mutable=['intermediates'],
    capture_intermediates=lambda submodule, _: '/'.join(submodule.path) in layers,
  )
  outputs = first_calls(state['intermediates'])
  sown = sown_features(state['intermediates'])
  if FEATURES in layers and sown is not None:
    outputs.setdefault(FEATURES, sown)  # a submodule with the name 'features' takes precedence
  return logits, outputs


def without_gradient(name: str) -> InputError:
  """Returns the InputError for an attack on a function that JAX cannot trace.

  Args:
    name: label of the classifier.
  """
  makers = 'Classifier.from_nnx, Classifier.from_torch or robustness.models.classifier.from_linen'
  return InputError(
    f'{name} is a callable, which has no gradient: give a network in JAX or PyTorch, by '
    # the functions for users of the command line, or the one for callers in Python
    f'{for_caller(makers, "robustness.classifier(module)")}.'
  )


def without_finite_gradient(name: str, place: str) -> InputError:
  """Returns the InputError for an attack that made pixels of NaN or infinity.

  The cause is a gradient of the classifier that is not finite, or an attack in a user's file that,
  for example, divides by zero.

  Args:
    name: label of the classifier.
    place: description of the image, such as 'example 3, clean'.
  """
  return InputError(
    f'the attacked image is not finite for {place}: {name} has a gradient there that is not '
    'finite, or the attack makes NaN, if it is your own. The logarithm of a probability of exactly '
    '0 is a frequent cause of such a gradient: give the logits before the softmax, or '
    'jnp.log(jnp.maximum(probabilities, jnp.finfo(jnp.float32).tiny)); see docs/your_model.md.'
  )


def _host_only(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
  """Raises InputError; stands for `forward` in classifiers that are functions on the host."""
  raise without_gradient('it')


def _forward(network: Network, inputs: Inputs) -> Forward:
  """Returns a function for `Classifier.forward` that includes preprocessing.

  Args:
    network: function (variables, normalised images, layers) -> (logits, outputs of layers).
    inputs: filters and normalises images in [0, 1].
  """

  def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...] = ()) -> Outputs:
    """Returns logits and outputs of layers for images that are not yet preprocessed.

    It becomes `Classifier.forward`.

    Args:
      variables: the variables of the network.
      images: images [B, H, W, C] in [0, 1], before filters and normalisation.
      layers: names of the layers to return.

    Returns:
      Logits, float32 [B, classes], and {layer: output}.
    """
    inner_layers = frozenset(layers) - {LOGITS}
    logits, outputs = network(variables, inputs(images), inner_layers)
    logits = logits.astype(jnp.float32)
    if LOGITS in layers:
      outputs = {**outputs, LOGITS: logits}
    return logits, outputs

  return forward
