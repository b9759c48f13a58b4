"""Calls a PyTorch module from compiled JAX functions, with outputs and gradients.

A compiled function sends images to the module on the host through `jax.pure_callback`. PyTorch's
autograd computes the vector-Jacobian products, so that gradient attacks work. Under `vmap` all
images are sent in one call, and the module processes them in batches of at most `batch_size`.
"""

import contextlib
import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.array_files import digest_of
from robustness.core.errors import InputError, importing, nearest
from robustness.core.typing import Facts, PyTree
from robustness.models.callables import check_logits
from robustness.models.layers import FEATURES

if TYPE_CHECKING:
  import torch

LOGITS = 'logits'
Shape = tuple[int, ...]
_LOCK = threading.Lock()  # one call at a time: hooks would record outputs of calls in other threads
_REPORTED_ERRORS = (InputError, KeyboardInterrupt)
# JAX logs the traceback of an error in a callback before it raises the error.
logging.getLogger('jax._src.callback').addFilter(
  lambda record: not (record.exc_info and isinstance(record.exc_info[1], _REPORTED_ERRORS))
)


@dataclasses.dataclass(frozen=True)
class TorchModule:
  """A PyTorch image classifier, checked by `wrap`, that JAX functions can call.

  Layers are submodules, by their names in PyTorch. If a submodule is called several times, its
  first output counts.

  Attributes:
    module: the module in evaluation mode, with all arrays on one device. It maps images
      [B, C, H, W] to logits.
    shapes: {layer: shape of its output for one image}, with channels last.
    classes: number of logits.
    batch_size: largest number of images in a call of the module.
    head: name of the submodule with the layer 'features' as input; '' for none.
  """

  module: 'torch.nn.Module'
  shapes: dict[str, Shape]
  classes: int
  batch_size: int
  head: str = ''

  def __call__(
    self, variables: PyTree, inputs: jax.Array, layers: Collection[str]
  ) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns logits and outputs of layers, differentiable with respect to the images.

    Args:
      variables: not used, since the module holds its weights.
      inputs: normalised images [B, H, W, C].
      layers: names of the layers.

    Returns:
      (logits [B, classes], {layer: output}).
    """
    names = tuple(sorted(layers))
    logits, *outputs = self._with_gradient(names)(inputs.astype(jnp.float32))
    return logits, dict(zip(names, outputs, strict=True))

  def _with_gradient(self, layers: tuple[str, ...]) -> Callable[[jax.Array], tuple[jax.Array, ...]]:
    """Returns a differentiable JAX function of images that calls the PyTorch module on the host.

    The function maps images [B, H, W, C] to (logits, output of each layer...). Under `vmap`, all
    images are sent to the host in one call, with additional leading axes.
    """
    shapes = [(self.classes,), *(self.shapes[name] for name in layers)]

    @jax.custom_vjp
    def apply(images: jax.Array) -> tuple[jax.Array, ...]:
      """Returns the logits and the outputs of the layers, computed on the host."""
      results = [jax.ShapeDtypeStruct((len(images), *shape), jnp.float32) for shape in shapes]
      function = functools.partial(self.outputs, layers)
      return tuple(jax.pure_callback(function, results, images, vmap_method='expand_dims'))

    def backward(images: jax.Array, cotangents: tuple[jax.Array, ...]) -> tuple[jax.Array]:
      """Returns the gradient of a loss with respect to images.

      Args:
        images: images [B, H, W, C].
        cotangents: gradients of the loss with respect to the logits and the outputs of the layers.
      """
      function = functools.partial(self.vector_jacobian_products, layers)
      result = jax.ShapeDtypeStruct(images.shape, jnp.float32)
      method = 'broadcast_all'  # images and cotangents get equal leading axes
      return (jax.pure_callback(function, result, images, *cotangents, vmap_method=method),)

    apply.defvjp(lambda images: (apply(images), images), backward)
    return apply

  def outputs(self, layers: tuple[str, ...], images: np.ndarray) -> list[np.ndarray]:
    """Returns the logits and the outputs of the layers for NumPy images on the host.

    The module is called on at most `batch_size` images at a time.

    Args:
      layers: names of the layers.
      images: normalised images [..., H, W, C].

    Returns:
      A list of the logits [..., classes] and of the output of each layer.
    """
    by_piece = []
    for piece in self._split_images(images):
      _, outputs = self._run(piece, layers, gradient=False)
      by_piece.append([outputs[name].float().cpu().numpy() for name in (LOGITS, *layers)])
    return [_join_pieces(images, pieces) for pieces in zip(*by_piece, strict=True)]

  def vector_jacobian_products(
    self, layers: tuple[str, ...], images: np.ndarray, *cotangents: np.ndarray
  ) -> np.ndarray:
    """Returns the vector-Jacobian product Σ_k v_k ∂z_k/∂x for images x.

    Args:
      layers: names of the layers. The z_k are the logits and the outputs of these layers.
      images: images x, [..., H, W, C].
      *cotangents: the vectors v_k, in the shapes of the z_k.

    Returns:
      The product, in the shape of `images`.
    """
    import torch

    # images and cotangents have the same leading axes, which are merged to one, see `_split_images`
    num_leading = np.ndim(images) - 3
    flat = [np.asarray(v).reshape(-1, *np.shape(v)[num_leading:]) for v in cotangents]
    pieces, start = [], 0  # `start` is the index of a piece's first image
    for piece in self._split_images(images):
      x, outputs = self._run(piece, layers, gradient=True)
      stop = start + len(piece)
      differentiable, vectors = [], []
      for name, cotangent in zip((LOGITS, *layers), flat, strict=True):
        output = outputs[name]
        if output.requires_grad:  # PyTorch refuses layers that do not depend on the images
          vector = torch.tensor(cotangent[start:stop], dtype=output.dtype, device=x.device)
          differentiable.append(output)
          vectors.append(vector)
      start = stop
      with _errors_on(piece):
        (product,) = torch.autograd.grad(differentiable, x, vectors)
      pieces.append(product.permute(0, 2, 3, 1).cpu().numpy())
    return _join_pieces(images, pieces)

  def _split_images(self, images: np.ndarray) -> list[np.ndarray]:
    """Splits images [..., H, W, C] into arrays [B, H, W, C] with B ≤ `batch_size`."""
    flat = np.reshape(images, (-1, *np.shape(images)[-3:]))
    return [flat[i : i + self.batch_size] for i in range(0, len(flat), self.batch_size)]

  def _run(
    self, images: np.ndarray, layers: Collection[str], gradient: bool
  ) -> tuple['torch.Tensor', dict[str, 'torch.Tensor']]:
    """Calls the module and records the outputs of layers.

    Args:
      images: [B, H, W, C].
      layers: names of the layers.
      gradient: whether PyTorch records the graph for a backward pass.

    Returns:
      (input [B, C, H, W] of the module, {layer: output with channels last}). The logits are
      included as 'logits'.

    Raises:
      InputError: the module fails, or changes its input in place.
    """
    import torch

    outputs: dict[str, torch.Tensor] = {}

    def record(name: str, module: object, inputs: object, output: object) -> None:
      """Stores the output of a layer's first call, with channels last. Used as a PyTorch hook.

      Outputs that are not tensors, such as tuples, are ignored.
      """
      if isinstance(output, torch.Tensor) and name not in outputs:
        copy = output.clone()  # later modules may change it in place, as nn.ReLU(inplace=True)
        outputs[name] = copy.permute(0, 2, 3, 1) if copy.ndim == 4 else copy

    modules, handles = dict(self.module.named_modules()), []  # handles remove the hooks
    deterministic = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
    # users may call under `torch.inference_mode`, where tensors have no version
    with _LOCK, torch.inference_mode(False), torch.set_grad_enabled(gradient), deterministic:
      x = torch.from_numpy(np.array(images.transpose(0, 3, 1, 2), order='C'))
      device = next(self.module.parameters(), x).device  # of `x` if there are no parameters
      x = x.to(device)
      version = x._version  # PyTorch's number of changes of the tensor
      for name in layers:
        if name == FEATURES and self.head:  # the input of the head
          hook = lambda module, inputs: record(FEATURES, module, inputs, inputs[0])  # noqa: E731
          handles.append(modules[self.head].register_forward_pre_hook(hook))
        else:
          handles.append(modules[name].register_forward_hook(functools.partial(record, name)))
      try:
        with _errors_on(images):
          logits = self.module(x.requires_grad_(gradient))
      finally:
        for handle in handles:
          handle.remove()
    if x._version != version:
      raise InputError('it changes its images in place: have it begin with images.clone().')
    return x, {**outputs, LOGITS: logits}


def wrap(
  module: object, images: np.ndarray, classes: int, name: str, batch_size: int, head: str = ''
) -> TorchModule:
  """Wraps a PyTorch module as a `TorchModule` and checks it on images.

  Args:
    module: the module.
    images: normalised images [B, H, W, C] for the checks.
    classes: the number of logits that the module must return.
    name: the name of the classifier, for messages.
    batch_size: largest number of images in a call.
    head: name of the submodule with the layer 'features' as input; '' for none.

  Raises:
    InputError: the module is not a PyTorch module in evaluation mode with float32 arrays on one
      device; its logits are not finite, not [B, classes], without a gradient or different in a
      second call; or it changes its images in place.
  """
  if batch_size < 1:
    raise InputError(f'batch_size of {name} is {batch_size}; it must be at least 1.')
  wrapped = TorchModule(check_module(module, name, head), {}, classes, batch_size, head)
  try:
    return dataclasses.replace(wrapped, shapes=_shapes_of_layers(wrapped, images))
  except InputError as error:
    raise InputError(f'{name}: {error}') from error


def check_module(module: object, name: str, head: str = '') -> 'torch.nn.Module':
  """Checks a PyTorch module without calling it, and returns it.

  Args:
    module: the object to check.
    name: the name of the classifier, for messages.
    head: name of a submodule that must exist; '' for none.

  Raises:
    InputError: `module` is not a PyTorch module, not in evaluation mode, or has no submodule
      `head`; or its arrays are not float32 or not on one device.
  """
  with importing(f"{name} needs PyTorch: pip install '.[torch]'"):
    import torch
  is_scripted = isinstance(module, torch.jit.ScriptModule)  # it has no hooks, which read layers
  if is_scripted or not isinstance(module, torch.nn.Module):
    plain = ' plain' if is_scripted else ''
    raise InputError(
      f'{name} is a {type(module).__name__}, not a{plain} torch.nn.Module: functions '
      'are wrapped by Classifier.from_callable.'
    )
  modules, arrays = dict(module.named_modules()), _arrays(module)
  # the path of the module itself is ''
  if training := [path or 'the module' for path, part in modules.items() if part.training]:
    raise InputError(f'{name} is in training mode (first {training[0]}): call module.eval().')
  devices = sorted({str(array.device) for array in arrays.values()})
  if len(devices) > 1 or devices == ['meta']:
    raise InputError(
      f'{name} has arrays on {" and ".join(devices)}: they must all be on one device that '
      "computes, as after module.to('cpu')."
    )
  dtypes = {path: str(x.dtype) for path, x in arrays.items() if x.is_floating_point()}
  if other := [f'{path} is {dtype}' for path, dtype in dtypes.items() if dtype != 'torch.float32']:
    raise InputError(f'{name} computes in float32 here, and {other[0]}: call module.float().')
  if head and head not in modules:
    raise InputError(f'{name} has no module {head!r}; {nearest(head, filter(None, modules))}.')
  return module


def _shapes_of_layers(wrapped: TorchModule, images: np.ndarray) -> dict[str, Shape]:
  """Calls a module to check its logits and to find its layers.

  Layers are 'features', and submodules that return float tensors [B, ...]. They are found by two
  calls with different numbers of images.

  Returns:
    {layer: shape of its output for one image}.

  Raises:
    InputError: the module fails a check of `wrap`.
  """
  layers = list(filter(None, dict(wrapped.module.named_modules())))  # the module itself is ''
  if wrapped.head:
    layers.append(FEATURES)
  _, outputs = wrapped._run(images, layers, gradient=False)
  _check(outputs[LOGITS], len(images), wrapped.classes)
  _, outputs_of_fewer = wrapped._run(images[1:], layers, gradient=False)
  _check(outputs_of_fewer[LOGITS], len(images) - 1, wrapped.classes)
  _check_second_call(wrapped, images, outputs[LOGITS])
  shapes = {}
  for layer, output in outputs.items():
    if layer == LOGITS or layer not in outputs_of_fewer:
      continue
    shape = tuple(output.shape[1:])  # for one image
    has_image_axis = output.shape == (len(images), *shape)
    follows_images = outputs_of_fewer[layer].shape == (len(images) - 1, *shape)
    if shape and has_image_axis and follows_images and output.is_floating_point():
      shapes[layer] = shape
  return shapes


def _check_second_call(wrapped: TorchModule, images: np.ndarray, logits: 'torch.Tensor') -> None:
  """Checks that another call of a module returns the same logits, with a gradient.

  Args:
    wrapped: the module.
    images: normalised images [B, H, W, C].
    logits: the logits of the first call on these images.

  Raises:
    InputError: the logits differ or have no gradient, or the backward pass fails.
  """
  import torch

  _, outputs = wrapped._run(images, (), gradient=False)
  if not torch.equal(logits, outputs[LOGITS]):
    raise InputError('it gives other logits when it is called again: switch off dropout.')
  _, outputs = wrapped._run(images, (), gradient=True)
  if not outputs[LOGITS].requires_grad:
    raise InputError('its logits have no gradient: wrap it by Classifier.from_callable.')
  wrapped.vector_jacobian_products((), images, np.ones(logits.shape, np.float32))


def facts(module: TorchModule) -> Facts:
  """Returns the number of parameters and a SHA-256 of all arrays, for the results."""
  arrays = {name: array.detach().cpu().numpy() for name, array in _arrays(module.module).items()}
  count = sum(parameter.numel() for parameter in module.module.parameters())
  return {'kind': 'torch', 'parameters': count, 'sha256': digest_of(arrays)}


@contextlib.contextmanager
def _errors_on(images: np.ndarray) -> Iterator[None]:
  """Returns a context that turns errors of the module into InputError with a one-line message.

  Args:
    images: images that the module is called with. The message has their shape.
  """
  try:
    yield
  except (Exception, SystemExit) as error:  # the module is the user's and may raise anything
    reason = ' '.join(str(error).split('\n', 1)[0].split())
    raise InputError(
      f'it failed on images [{", ".join(map(str, images.shape))}]: {type(error).__name__}: '
      f'{reason} (Call it on such images by itself to see where; where memory is short, give '
      'from_torch a smaller batch_size.)'
    ) from error


def _arrays(module: 'torch.nn.Module') -> dict[str, 'torch.Tensor']:
  """Returns {name: tensor} of all parameters and buffers of a module."""
  return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _check(logits: object, count: int, classes: int) -> None:
  """Checks that logits are a tensor [count, classes] of finite floats.

  Raises:
    InputError: they are not. The message begins with 'it'; the caller prepends the module's name.
  """
  import torch

  check_logits('it', logits, count, classes)
  if not isinstance(logits, torch.Tensor):
    raise InputError(f'it gives {type(logits).__name__}, not a torch.Tensor.')
  if not bool(torch.isfinite(logits).all()):
    raise InputError('it gives NaN or infinity for images of noise in [0, 1]: check its weights.')


def _join_pieces(images: np.ndarray, pieces: Sequence[np.ndarray]) -> np.ndarray:
  """Joins the results for parts of a batch of images to one array [..., *S].

  Args:
    images: the images before they were split into parts, [..., H, W, C].
    pieces: the result for each part, [B, *S], with the shape S for one image.
  """
  return np.concatenate(pieces).reshape(*np.shape(images)[:-3], *pieces[0].shape[1:])
