"""Wraps a user's function on NumPy arrays as a classifier, and checks what it returns."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import InputError
from robustness.core.settings import choice

Rows = TypeVar('Rows', np.ndarray, jax.Array)
OUTPUTS = ('logits', 'probabilities')
"""What a user's function may return."""
SUM_TOLERANCE = 2e-3
"""Largest difference of a sum of probabilities from 1; rounding to bfloat16 changes each
probability by a share of up to 2**-9."""
NO_LOGITS = (
  "gives probabilities (no negative number, and every row's sum is 1) where logits are expected: "
  'give their logarithms.'
)
"""The end of messages on classifiers that return probabilities, after the classifier's name."""


@dataclasses.dataclass(frozen=True)
class CheckedFunction:
  """A user's NumPy function that is checked and returns logits.

  Attributes:
    function: function from images float32 [B, H, W, C] to an array [B, classes].
    num_classes: number of classes that it must return.
    outputs: 'logits', or 'probabilities', which are replaced by their logarithms.
    batch_size: number of images in every call, padded by zeros; 0 for any number.
  """

  function: Callable[[np.ndarray], object]
  num_classes: int
  outputs: str = 'logits'
  batch_size: int = 0

  def __post_init__(self) -> None:
    choice('outputs', self.outputs, OUTPUTS)
    if not callable(self.function):
      raise InputError(
        f'{self.function!r} is no function of images: give one that maps float32 '
        '[B, height, width, channels] to [B, classes].'
      )
    if self.batch_size < 0:
      raise InputError(f'batch_size is {self.batch_size}; it must be at least 1, or 0 for any.')

  def __call__(self, images: np.ndarray) -> np.ndarray:
    """Returns logits float32 [B, classes] of images float32 [B, H, W, C].

    NaN is allowed here, because the evaluation refuses it with the names of image and view.

    Raises:
      InputError: the function does not return floats [B, classes]. Or it returns probabilities and
        `outputs` is 'logits', or the other way round.
    """
    size = self.batch_size or len(images)
    batches = [images[start : start + size] for start in range(0, len(images), size)]
    return np.concatenate([self._logits_of_batch(batch, size) for batch in batches])

  def _logits_of_batch(self, images: np.ndarray, size: int) -> np.ndarray:
    """Calls the function once, and returns the logits of at most `size` images, float32.

    The function gets a copy of the images, padded by zeros to `size` images, which it may change.
    """
    padded = np.zeros((size, *images.shape[1:]), np.float32)
    padded[: len(images)] = images
    output = np.asarray(self.function(padded))
    if output.shape != (size, self.num_classes):
      raise InputError(
        f'it returned shape {output.shape} for {size} images and '
        f'{self.num_classes} classes, not {(size, self.num_classes)}.'
      )
    if not jnp.issubdtype(output.dtype, jnp.floating):
      raise InputError(f'it returned {output.dtype}; {self.outputs} are floats, one a class.')
    output = output[: len(images)].astype(np.float32)
    finite = output[np.isfinite(output).all(1)]
    is_distribution = are_distributions(finite)
    if self.outputs == 'logits':
      # the one logit of a single class may be 1
      if self.num_classes > 1 and len(finite) and is_distribution.all():
        raise InputError(
          "it returns probabilities (no negative number, and every row's sum is 1) "
          "where logits were announced: give outputs='probabilities'."
        )
      return output
    if not is_distribution.all():
      row = finite[np.argmin(is_distribution)]  # the first one that is none
      raise InputError(
        f'it returned a row with minimum {row.min():g} and sum {row.sum():g}, which '
        "are no probabilities: give outputs='logits'."
      )
    with np.errstate(divide='ignore'):  # the logit of a probability 0 is −∞
      return np.log(output)


def are_distributions(rows: Rows) -> Rows:
  """Returns whether each row is a probability distribution, bool [N].

  Its numbers must not be negative, and their sum must be 1 up to rounding.

  Args:
    rows: [N, classes].
  """
  return (rows >= 0).all(1) & (abs(rows.sum(1) - 1) <= SUM_TOLERANCE)


def check_logits(name: str, logits: Any, count: int, classes: int) -> None:
  """Raises InputError unless an array has the shape and a floating type of logits.

  Args:
    name: name of the classifier, for the message.
    logits: an array of any library, such as NumPy or PyTorch.
    count: number of images.
    classes: number of classes.
  """
  shape = tuple(getattr(logits, 'shape', ()))
  if shape != (count, classes):
    raise InputError(
      f'{name} gives {shape or type(logits).__name__} for {count} images and {classes} class '
      f'names; it must give {(count, classes)}.'
    )
  if 'float' not in str(logits.dtype):
    raise InputError(f'{name} gives {logits.dtype}; logits are floats, one a class.')
