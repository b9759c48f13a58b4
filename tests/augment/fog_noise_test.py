"""Tests that fog noise has the stored spectrum of fog, and which other spectra it takes."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment import fog_noise
from robustness.augment.fog_noise import STORED, FogNoise
from robustness.config.experiment import Execution
from robustness.core import random_images
from robustness.core.rows import ArrayRows
from robustness.corruptions import corrupt
from robustness.fourier import spectrum
from robustness.measurement import measure
from robustness.studies.corruption_spectrum import CorruptionSpectrum
from tests.augment import pictures
from tests.refusals import refused

KEYS = jax.random.split(jax.random.key(0), 3000)


@pytest.mark.slow
def test_the_mean_magnitude_of_the_noise_is_the_stored_one_at_every_frequency():
  """The noise is measured without clipping, with 9000 draws per frequency."""
  mean = fog_noise.magnitude(str(STORED), 3)
  deviations = jnp.asarray(fog_noise.deviation(mean, (32, 32)))

  def magnitude(key):
    white = random_images.normal(key, (32, 32, 3))
    coloured = jnp.fft.rfft2(white, axes=(0, 1)) * deviations[..., None]
    noise = jnp.fft.irfft2(coloured, s=(32, 32), axes=(0, 1))
    return spectrum.half_magnitude(noise).mean(-1)

  half = np.asarray(jax.jit(lambda keys: jax.lax.map(magnitude, keys).mean(0))(KEYS))
  np.testing.assert_allclose(spectrum.full_map(half, 32), mean, rtol=0.04)


def test_noise_is_added_and_clipped():
  grey = jnp.full((32, 32, 3), 0.5)
  images = pictures.augmented(FogNoise(5), KEYS[:200], grey)
  assert images.min() == 0 and images.max() == 1
  energy = [(fog_noise.magnitude(str(STORED), s) ** 2).sum() for s in range(1, 6)]
  assert energy == sorted(energy), 'severities grow'
  channels = images[..., 0].ravel(), images[..., 1].ravel()
  assert abs(np.corrcoef(*channels)[0, 1]) < 0.2, 'channels are independent'


def test_the_stored_spectrum_says_where_it_comes_from_and_is_that_of_fog(cifar10_dir):
  with np.load(STORED) as file:
    provenance = json.loads(str(file['provenance']))
  assert provenance['data']['split'] == 'train' and provenance['data']['num_examples'] == 5000
  import tensorflow_datasets as tfds

  rows = tfds.load('cifar10', split='train[:200]', data_dir=str(cifar10_dir), batch_size=-1)
  images = jnp.asarray(np.asarray(rows['image']) / np.float32(255))
  change = corrupt(0, images, 'fog', 3) - images
  half = np.asarray(jax.vmap(spectrum.half_magnitude)(change)).mean((0, -1))
  ratio = spectrum.full_map(half, 32) / fog_noise.magnitude(str(STORED), 3)
  assert abs(np.median(ratio) - 1) < 0.05 and ratio.min() > 0.7 and ratio.max() < 1.4


@pytest.mark.slow
def test_the_spectrum_may_be_a_workdir_of_the_study_or_a_file(tmp_path):
  study = CorruptionSpectrum(corruptions=('snow', 'fog'), severities=(2,), severity=2)
  images = np.random.default_rng(0).random((3, 16, 18, 3), np.float32)
  rows = ArrayRows(images, np.zeros(3, int), ('any',))
  results = measure(study, Execution(), [], rows, tmp_path / 'records')
  maps = results.arrays['spectrum']
  results.write(tmp_path / 'run')
  np.testing.assert_array_equal(fog_noise.magnitude(str(tmp_path / 'run'), 2), maps[1, 0])
  np.savez_compressed(tmp_path / 'fog.npz', **fog_noise._stored(str(tmp_path / 'run')))
  np.testing.assert_array_equal(fog_noise.magnitude(str(tmp_path / 'fog.npz'), 2), maps[1, 0])
  described = FogNoise(2, str(tmp_path / 'run')).describe()
  assert FogNoise(2, str(tmp_path / 'fog.npz')).describe() == described
  assert 'spectrum_sha256' in described
  assert 'spectrum_sha256' not in FogNoise().describe()
  refused(r'severities \[2\] and not at 3', FogNoise, 3, str(tmp_path / 'run'))
  results.settings['normalisation'] = 'sum'
  results.write(tmp_path / 'sum')
  refused(r"normalisation and channels \('sum', 'each'\)", FogNoise, 2, str(tmp_path / 'sum'))
  results.arrays['corruption'] = np.array(['snow', 'frost'])
  results.write(tmp_path / 'other')
  refused("without 'fog'", FogNoise, 2, str(tmp_path / 'other'))


def test_images_of_another_size_are_refused_with_a_hint():
  message = r'32 × 32 pixels, and these have 28 × 28.*corruption_spec'
  refused(message, FogNoise(), KEYS[0], {'image': jnp.zeros((28, 28, 1))})
