"""Classifiers that a user defines in a Python file, `FILE.py:NAME` in a config.

NAME is a `Classifier`, a `Model` (what `robustness.classifier` returns), or a function without
arguments that returns one of these. The file is run, as any script would be.

The content of the file does not identify the classifier, because its weights may be in another
file. A resumed run therefore compares outputs on four fixed images, within a tolerance: libraries
and devices change the last digits, another network changes the first.
"""

import dataclasses
import functools

import numpy as np
from absl import logging

from robustness.classifiers import ClassifierKind, ClassifierSettings, Images
from robustness.core import user_code
from robustness.core.errors import KEYS, InputError, error_of_user
from robustness.models.classifier import Classifier
from robustness.models.model import Model

WHERE = 'config.classifier.name'
"""The setting with 'FILE.py:NAME', for messages."""
KEY = 'outputs_on_fixed_images'
"""The key of the numbers in results and records that identify a classifier, see `probe`."""
TOLERANCE = 1e-3
"""Largest difference of two outputs that count as equal, as a share of the largest output."""
RANDOM = 'not the same twice'
"""The value that `probe` returns for a classifier if its outputs differ between two calls."""
PROJECTIONS = 4
"""The number of random projections of the logits of each image."""
_MAX_DEPTH = 30.0
"""Largest difference of a logit from the largest one when outputs are compared. A logit below that,
such as −∞, counts as this difference below."""


@dataclasses.dataclass(frozen=True)
class FromFile(ClassifierKind):
  """A `Classifier` or `Model` that a user's Python file defines.

  The file may also define a function that returns one.
  """

  @classmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Returns whether the name is `FILE.py:NAME`, and NAME is no architecture."""
    return user_code.is_reference(section.name) and section.architecture is None

  @property
  def channels(self) -> int:
    """The number of channels of the images that the classifier takes.

    1 for a `Model`, what `robustness.classifier` returns, which takes any number: images get the
    largest number of channels that any classifier of the run needs.
    """
    made = _classifier_in_file(self.name, self._digest)
    return made.input_shape[2] if isinstance(made, Classifier) else 1

  def check(self, label: str, image_shape: tuple[int, int, int], precision: str) -> None:
    """Raises InputError for settings that have no effect on a classifier in a file.

    These are an input filter, weights and a training: the object that the user's file defines
    brings its own.

    Args:
      label: name of the classifier, for messages.
      image_shape: height, width and channels of the images.
      precision: 'float32' or 'bfloat16', the arithmetic of the network.
    """
    if self.input_filter:
      raise InputError(
        f'{label} is a classifier of a file, which brings its own input filter: set '
        f"{KEYS.classifier.input_filter.name}=''."
      )
    if self.weights or self.train:
      raise InputError(
        f'{self.name} brings its own weights: leave {KEYS.classifier.weights} '
        f'empty and {KEYS.classifier.train} False.'
      )
    super().check(label, image_shape, precision)

  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """Returns the classifier that the file defines, with the name `label`.

    The provenance has the name and SHA-256 of the file, and outputs for fixed images. A resumed run
    compares these, to detect that the classifier has changed. `precision` has no effect.

    Raises:
      InputError: the file or NAME does not exist, the file or the classifier raises an error, or
        NAME is neither a `Classifier` nor a `Model`.
    """
    made = _identified_classifier(self.name, self._digest, images.shape, images.class_names)
    return dataclasses.replace(made, name=label)

  @property
  def _digest(self) -> str:
    """The SHA-256 of the file."""
    return user_code.load(self.name, WHERE).digest


def forget() -> None:
  """Clears the caches of loaded files, because files that they read may have changed."""
  user_code.forget()
  _classifier_in_file.cache_clear()
  _identified_classifier.cache_clear()


@functools.lru_cache(maxsize=8)
def _classifier_in_file(reference: str, digest: str) -> Classifier | Model:
  """Returns the classifier or model that a user's file defines.

  A function in the file is called without arguments, and its result returned.

  Args:
    reference: 'FILE.py:NAME'.
    digest: SHA-256 of the file. It is part of the cache key, so that a changed file is read again.
  """
  loaded = user_code.load(reference, WHERE)
  made = loaded.value
  try:
    if callable(made) and not isinstance(made, Classifier | Model):
      made = made()
  except InputError:
    raise
  except (Exception, SystemExit) as error:  # the function is the user's and may raise anything
    message = f'{reference} raised {type(error).__name__}: {error}'
    raise error_of_user(error) or InputError(message) from error
  if not isinstance(made, Classifier | Model):
    raise InputError(
      f'{loaded.name} in {loaded.path} is a {type(made).__name__}, not a Classifier: see '
      'robustness.classifier.'
    )
  return made


@functools.lru_cache(maxsize=8)
def _identified_classifier(
  reference: str, digest: str, shape: tuple[int, int, int], class_names: tuple[str, ...]
) -> Classifier:
  """Returns the classifier that a user's file defines, with a provenance that identifies it.

  Logs a warning if its outputs for the same images differ between two calls.

  Args:
    reference: 'FILE.py:NAME'.
    digest: SHA-256 of the file.
    shape: shape of the images that a `Model` classifies, (H, W, C).
    class_names: names of the classes of a `Model`.
  """
  loaded = user_code.load(reference, WHERE)
  made = _classifier_in_file(reference, digest)
  title = f'{loaded.name} in {loaded.path}'
  if isinstance(made, Model):  # it becomes a classifier of images like these examples
    made = made.classifier(fixed_images(shape), class_names)
  fingerprint = probe(made, title)  # RANDOM if two calls have different logits
  if fingerprint == RANDOM:
    logging.warning('%s is %s: changes of its weights between runs cannot be seen', title, RANDOM)
  facts = {'file': loaded.path.name, 'object': loaded.name, 'file_sha256': digest, KEY: fingerprint}
  return dataclasses.replace(made, provenance={**made.provenance, **facts})


def probe(classifier: Classifier, title: str = '') -> list[float] | str:
  """Returns 16 numbers that identify a classifier, computed from its logits on four images.

  The result is the text `RANDOM` if a second call has other numbers.

  Args:
    classifier: the classifier.
    title: name of the classifier in messages; '' takes `classifier.name`.

  Raises:
    InputError: The classifier raises an error.
  """
  images = fixed_images(classifier.input_shape)
  try:
    first = random_projections(classifier.predict(images))
    again = random_projections(classifier.predict(images))
  except (Exception, SystemExit) as error:  # the classifier is the user's and may raise anything
    reason = str(error) if isinstance(error, InputError) else f'{type(error).__name__}: {error}'
    if classifier.host_function:
      reason += ' (If it takes one number of images only, give batch_size=... to from_callable.)'
    name = title or classifier.name
    raise InputError(f'{name} failed on the 4 images that identify it: {reason}') from error
  if np.abs(first - again).max() > TOLERANCE * np.abs(first).max():
    return RANDOM
  return first.tolist()


def fixed_images(shape: tuple[int, int, int]) -> np.ndarray:
  """Returns four test images: a ramp, a wave, noise and grey.

  float32 [4, H, W, C] in [0, 1].
  """
  height, width, channels = shape
  y, x = np.mgrid[:height, :width] / max(height, width)  # coordinates in [0, 1), each [H, W]
  noise, grey = np.random.default_rng(0).random(shape), np.full(shape, 0.5)
  # a ramp along x, and a wave with 1.3 periods along x and 2.1 along y
  planes = (x, 0.5 + 0.5 * np.sin(2 * np.pi * (1.3 * x + 2.1 * y)))
  ramp, wave = (np.repeat(plane[..., None], channels, -1) for plane in planes)
  return np.stack([ramp, wave, noise, grey]).astype(np.float32)


def random_projections(logits: np.ndarray) -> np.ndarray:
  """Projects the logits of N images onto P = `PROJECTIONS` random directions, always the same.

  A projection of logits z onto a direction u is Σ_c u_c z_c / √classes, rounded to six digits.

  Args:
    logits: [N, classes].

  Returns:
    float64 [N · P], the P numbers of the first image first.
  """
  # logits far below the largest, such as −∞ for a class that is never predicted, are raised
  logits = np.maximum(logits.astype(np.float64), logits.max(1, keepdims=True) - _MAX_DEPTH)
  num_classes = logits.shape[1]
  directions = np.random.default_rng(1).normal(size=(num_classes, PROJECTIONS))
  values = (np.nan_to_num(logits) @ directions / np.sqrt(num_classes)).ravel()
  return np.array([float(f'{value:.6g}') for value in values])
