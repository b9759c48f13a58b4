"""Fog noise: additive noise whose spectrum is that of what the corruption fog changes.

The package has the spectrum of fog on CIFAR-10 (`STORED`). For other images the study
`corruption_spectrum` measures one, and `spectrum` names its workdir:

  python main.py --config=configs/corruption_spectrum.py:cifar10 --workdir=/tmp/fog \
      --config.study.corruptions=fog --config.data.split=train --config.data.num_images=5000

`numpy.savez_compressed(STORED, **_stored(WORKDIR))` has made the stored file of the workdir of the
command above; it says of what it was measured.
"""

import dataclasses
import functools
import hashlib
import json
import math
import pathlib
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.augment import Augmentation, Example
from robustness.core import random_images
from robustness.core.array_files import read_npz
from robustness.core.errors import KEYS, InputError
from robustness.core.paths import expanded
from robustness.core.registry import setting
from robustness.core.typing import PlainValue
from robustness.corruptions.names import HAZE
from robustness.results import Results

STORED = pathlib.Path(__file__).with_name('fog_of_cifar10.npz')
STUDY, FOG = 'corruption_spectrum', 'fog'
COMPLEX, REAL = math.sqrt(math.pi) / 2, math.sqrt(2 / math.pi)
"""E|F| of white noise with deviation 1: of a frequency, and of one that is its own mirror."""


@dataclasses.dataclass(frozen=True)
class FogNoise(Augmentation):
  """Adds Gaussian noise, independent at each frequency and channel, and clips to [0, 1].

  The noise is Σ N(0, σ_ij²)·U_ij over the distinct frequencies, with both phases of U_ij. σ_ij is
  such that the mean |F| of the noise at (i, j), before clipping, is that of fog's change. Images of
  another size than the spectrum's are refused.

  Attributes:
    severity: of the fog, 1..5.
    spectrum: a workdir of the study `corruption_spectrum`, or a file made of one; '' is fog's on
      5000 training images of CIFAR-10.

  Reference:
    Yin et al. (2019), A Fourier Perspective on Model Robustness, section 4.2.
  """

  name: ClassVar[str] = 'fog_noise'
  resembles = (HAZE, 'brownish_noise')
  severity: int = setting(3, 'in 1..5', lambda x: x in range(1, 6))
  spectrum: str = ''

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.spectrum:
      magnitude(self.spectrum, self.severity)

  def describe(self) -> dict[str, PlainValue]:
    """See `Part`; a spectrum is known by its numbers, not by where it lies."""
    if not self.spectrum:
      return super().describe()
    values = magnitude(self.spectrum, self.severity)
    others = {k: v for k, v in super().describe().items() if k != 'spectrum'}
    return {**others, 'spectrum_sha256': hashlib.sha256(values.tobytes()).hexdigest()}

  def __call__(self, key: jax.Array, example: Example) -> Example:
    image = example['image']
    mean = magnitude(self.spectrum or str(STORED), self.severity)
    deviations = jnp.asarray(deviation(mean, image.shape[:2]))
    white = random_images.normal(key, image.shape)
    half = jnp.fft.rfft2(white, axes=(0, 1)) * deviations[..., None]
    noise = jnp.fft.irfft2(half, s=image.shape[:2], axes=(0, 1))
    return {**example, 'image': jnp.clip(image + noise.astype(image.dtype), 0, 1)}


WHERE = f'{FogNoise.section}.{FogNoise.name}'


def deviation(mean: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
  """Returns σ of each frequency of the half spectrum of images (H, W), float32 [H, W // 2 + 1], in
  `rfft2`'s order; `mean` is as `magnitude` gives it.

  Raises:
    InputError: the mean is of images of another size.
  """
  if mean.shape != tuple(shape):
    raise InputError(
      f'the spectrum of fog was measured on images of {mean.shape[0]} × {mean.shape[1]} pixels, '
      f'and these have {shape[0]} × {shape[1]}. Measure it on them: python main.py '
      f'--config=configs/{STUDY}.py --workdir=DIR --{KEYS.study.corruptions}=fog with the '
      f'{KEYS.data} of this training, then set {WHERE}.spectrum=DIR.'
    )
  height, width = mean.shape
  fy, fx = np.arange(height)[:, None], np.arange(width // 2 + 1)[None, :]
  own_mirror = (2 * fy % height == 0) & (2 * fx % width == 0)
  half = np.fft.ifftshift(mean)[:, : width // 2 + 1]
  return (half / np.where(own_mirror, REAL, COMPLEX)).astype(np.float32)


@functools.lru_cache
def magnitude(source: str, severity: int) -> np.ndarray:
  """Returns the mean |F| of fog's change, orthonormal, [H, W], zero frequency in the centre.

  `source` is a workdir or file.

  Raises:
    InputError: there is no such spectrum, and what would have to be done.
  """
  arrays = _stored(source)
  if severity not in arrays['severity']:
    raise InputError(
      f'{source} has the spectrum of fog at the severities {arrays["severity"].tolist()} and not '
      f'at {severity}: set {WHERE}.severity to one of these.'
    )
  return arrays['spectrum'][arrays['severity'].tolist().index(severity)]


def _stored(source: str) -> dict[str, np.ndarray]:
  """Returns `spectrum` [S, H, W], `severity` [S] and the text `provenance`, [] of words."""
  path = expanded(source)
  if path.is_dir():
    return _of_results(Results.read(path), source)
  if not path.is_file():
    raise InputError(
      f'{WHERE}.spectrum is {source!r}, which does not exist; give the workdir of a run of the '
      f"study {STUDY!r}, a file made of one, or '' for the spectrum of CIFAR-10."
    )
  arrays, names = read_npz(path), ('spectrum', 'severity', 'provenance')
  for name in names:
    if name not in arrays:
      raise InputError(f'{WHERE}.spectrum is {source!r}, which has no array {name!r}.')
  return {name: arrays[name] for name in names}


def _of_results(results: Results, source: str) -> dict[str, np.ndarray]:
  """Takes the spectrum of fog out of a study's results."""
  if results.study != STUDY or FOG not in results.arrays.get('corruption', ()):
    raise InputError(
      f'{source} holds results of the study {results.study!r} without {FOG!r}; {WHERE}.spectrum '
      f'takes those of {STUDY!r} with --{KEYS.study.corruptions}={FOG}.'
    )
  scale = results.settings['normalisation'], results.settings['channels']
  if scale != ('orthonormal', 'each'):
    raise InputError(
      f"{source} was measured with normalisation and channels {scale}; run it with 'orthonormal' "
      "and 'each'."
    )
  place = results.arrays['corruption'].tolist().index(FOG)
  measured_on = {'study': results.study, 'data': results.data, 'settings': results.settings}
  return {
    'spectrum': results.arrays['spectrum'][place],
    'severity': results.arrays['severity'],
    'provenance': np.array(json.dumps(measured_on)),
  }
