"""Fog noise: additive noise with the spectrum of the change that the corruption fog makes.

The package holds the spectrum of fog on CIFAR-10 (`STORED`). For other images, measure one with the
study `corruption_spectrum` and set `spectrum` to its workdir:

  python main.py --config=configs/corruption_spectrum.py:cifar10 --workdir=/tmp/fog \
      --config.study.corruptions=fog --config.data.split=train --config.data.num_images=5000

`numpy.savez_compressed(STORED, **_stored(WORKDIR))` made the stored file from the workdir of the
command above; its array `provenance` states what was measured.
"""

import dataclasses
import functools
import hashlib
import json
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment import Augmentation, Example
from robustness.core import random_images
from robustness.core.array_files import read_npz
from robustness.core.errors import KEYS, InputError, for_caller, key_name
from robustness.core.paths import expanded
from robustness.core.registry import setting
from robustness.core.typing import PlainValue
from robustness.corruptions.names import HAZE
from robustness.results import Results

STORED = pathlib.Path(__file__).with_name('fog_of_cifar10.npz')
"""Spectrum of fog on 5000 training images of CIFAR-10."""
STUDY, FOG = 'corruption_spectrum', 'fog'
"""The study that measures spectra, and the corruption that is used of it."""
MEAN_IF_COMPLEX, MEAN_IF_REAL = math.sqrt(math.pi) / 2, math.sqrt(2 / math.pi)
"""Mean of |F|, where F is the orthonormal Fourier transform of white noise with standard deviation
1: at frequencies where F is complex, and at those where F is real, since they equal their
negative."""


@dataclasses.dataclass(frozen=True)
class FogNoise(Augmentation):
  """Adds Gaussian noise with the frequency spectrum of the corruption fog.

  Let F be the Fourier transform. At each frequency, the mean |F| of the noise equals the mean |F|
  of (foggy image − clean image). The noise is independent at each frequency and in each channel.
  The noisy image is clipped to [0, 1]. The spectrum must be measured on images of the same size.

  Attributes:
    severity: severity of the fog, 1..5.
    spectrum: workdir of the study `corruption_spectrum`, or a file made from one. '' is the
      spectrum of fog on 5000 training images of CIFAR-10.

  Reference:
    Yin et al. (2019), A Fourier Perspective on Model Robustness, section 4.2.
  """

  name = 'fog_noise'
  resembles = (HAZE, 'brownish_noise')
  severity: int = setting(3, 'in 1..5', lambda x: x in range(1, 6))
  spectrum: str = ''

  def __post_init__(self) -> None:
    """Raises InputError if `spectrum` cannot be read or lacks the severity."""
    super().__post_init__()
    if self.spectrum:
      magnitude(self.spectrum, self.severity)

  def describe(self) -> dict[str, PlainValue]:
    """Returns name and settings as JSON values, which show whether two trainings are the same.

    The path of the spectrum is replaced by a digest of its values.
    """
    if not self.spectrum:
      return super().describe()
    digest = hashlib.sha256(magnitude(self.spectrum, self.severity).tobytes()).hexdigest()
    settings = {k: v for k, v in super().describe().items() if k != 'spectrum'}
    return {**settings, 'spectrum_sha256': digest}

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with noise added to its image, [H, W, C].

    The noise is white noise that is multiplied by a factor at each frequency.
    """
    image = example['image']
    mean = magnitude(self.spectrum or str(STORED), self.severity)
    deviations = jnp.asarray(deviation(mean, image.shape[:2]))
    white = random_images.normal(key, image.shape)
    half_spectrum = jnp.fft.rfft2(white, axes=(0, 1)) * deviations[..., None]
    noise = jnp.fft.irfft2(half_spectrum, s=image.shape[:2], axes=(0, 1))
    return {**example, 'image': jnp.clip(image + noise.astype(image.dtype), 0, 1)}


SECTION = f'{FogNoise.section}.{FogNoise.name}'
"""Section of the config, for messages."""


def deviation(mean: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
  """Returns for each frequency the factor that turns white noise into fog noise.

  A factor is the mean |F| of the change by fog, divided by the mean |F| of white noise of standard
  deviation 1, where F is the Fourier transform.

  Args:
    mean: mean |F| of the change by fog, [H, W], with frequency zero in the centre; see `magnitude`.
    shape: height and width of the images.

  Returns:
    float32 [H, W // 2 + 1], in the order of `rfft2`.

  Raises:
    InputError: `mean` was measured on images of another size.
  """
  if mean.shape != tuple(shape):
    raise InputError(
      f'the spectrum of fog was measured on images of {mean.shape[0]} × {mean.shape[1]} pixels, '
      f'and these have {shape[0]} × {shape[1]}. Measure it on them: '
      + for_caller(
        f'python main.py --config=configs/{STUDY}.py --workdir=DIR --{KEYS.study.corruptions}=fog',
        f"robustness.measure('{STUDY}', ..., corruptions=('fog',), workdir=DIR)",
      )
      + f' with the {KEYS.data} of this training, then set {key_name(SECTION)}.spectrum=DIR.'
    )
  height, width = mean.shape
  fy, fx = np.arange(height)[:, None], np.arange(width // 2 + 1)[None, :]
  # F is real at the frequencies that equal their negative: 0, and half the size if it is even
  is_real = (2 * fy % height == 0) & (2 * fx % width == 0)
  half = np.fft.ifftshift(mean)[:, : width // 2 + 1]  # frequency zero first, as in `rfft2`
  return (half / np.where(is_real, MEAN_IF_REAL, MEAN_IF_COMPLEX)).astype(np.float32)


@functools.lru_cache
def magnitude(source: str, severity: int) -> np.ndarray:
  """Returns the mean |F| of (foggy image − clean image), [H, W].

  F is the orthonormal Fourier transform. Frequency zero is in the centre.

  Args:
    source: workdir of the study `corruption_spectrum`, or a file made from one.
    severity: severity of the fog, 1..5.

  Raises:
    InputError: `source` has no spectrum of fog at this severity.
  """
  arrays = _stored(source)
  severities = arrays['severity'].tolist()
  if severity not in severities:
    raise InputError(
      f'{source} has the spectrum of fog at the severities {severities} and not '
      f'at {severity}: set {key_name(SECTION)}.severity to one of these.'
    )
  return arrays['spectrum'][severities.index(severity)]


def _stored(source: str) -> dict[str, np.ndarray]:
  """Returns the spectrum of fog at S severities, from a workdir or a file.

  Returns:
    {'spectrum': mean |F| [S, H, W], 'severity': int [S], 'provenance': text about the measurement}.
  """
  path = expanded(source)
  if path.is_dir():
    return _from_results(Results.read(path), source)
  if not path.is_file():
    raise InputError(
      f'{key_name(SECTION)}.spectrum is {source!r}, which does not exist; give the workdir of a '
      f"run of the study {STUDY!r}, a file made of one, or '' for the spectrum of CIFAR-10."
    )
  arrays, names = read_npz(path), ('spectrum', 'severity', 'provenance')
  for name in names:
    if name not in arrays:
      raise InputError(f'{key_name(SECTION)}.spectrum is {source!r}, which has no array {name!r}.')
  return {name: arrays[name] for name in names}


def _from_results(results: Results, source: str) -> dict[str, np.ndarray]:
  """Returns the spectrum of fog at S severities, from results of `corruption_spectrum`.

  The results must have been measured with the orthonormal transform and separate channels ('each'),
  not on grey images.

  Args:
    results: results of the study.
    source: their workdir, for messages.

  Returns:
    {'spectrum': mean |F| [S, H, W], 'severity': int [S], 'provenance': text about the measurement}.
  """
  if results.study != STUDY or FOG not in results.arrays.get('corruption', ()):
    raise InputError(
      f'{source} holds results of the study {results.study!r} without {FOG!r}; '
      f'{key_name(SECTION)}.spectrum takes those of {STUDY!r} with '
      f'{KEYS.study.corruptions:--}={FOG}.'
    )
  options = results.settings['normalisation'], results.settings['channels']
  if options != ('orthonormal', 'each'):
    raise InputError(
      f"{source} was measured with normalisation and channels {options}; run it with 'orthonormal' "
      "and 'each'."
    )
  index = results.arrays['corruption'].tolist().index(FOG)
  provenance = {'study': results.study, 'data': results.data, 'settings': results.settings}
  return {
    'spectrum': results.arrays['spectrum'][index],
    'severity': results.arrays['severity'],
    'provenance': np.array(json.dumps(provenance)),
  }
