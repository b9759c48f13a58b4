"""Tests the waves of the Fourier basis, perturbations by them, and differences from papers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness import fourier
from robustness.evaluation.layout import Layout
from robustness.evaluation.records import Records
from robustness.fourier.basis import PHASES, add_wave, basis_image, distinct_frequencies
from robustness.studies.accuracy import Accuracy
from robustness.studies.band_noise import BandNoise
from robustness.studies.fourier_attack import FourierAttack
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.cases import cases
from tests.refusals import bad_setting, refused

SIZES = [(8, 8), (7, 7), (8, 5), (5, 8), (1, 6), (9, 12)]


def all_waves(height: int, width: int, phase: str, window: int = 0) -> tuple:
  """Returns the K distinct frequencies and their waves, float32 [K, height, width]."""
  frequencies = distinct_frequencies(height, width, window)
  wave = jax.vmap(lambda fy, fx: basis_image(fy, fx, height, width, phase))
  return frequencies, np.asarray(jax.jit(wave)(frequencies.fy, frequencies.fx))


def released_basis(height: int, width: int) -> np.ndarray:
  """Returns the basis as its authors construct it, [height, width, height, width].

  The wave of cell (i, j) of the centred spectrum has the coefficient 0.5 + 0.5i in one of (i, j)
  and its mirror cell and 0.5 - 0.5i in the other, or 1 if both are the same cell.
  """
  basis = np.zeros((height, width, height, width))
  for i in range(height):
    for j in range(width):
      mirror = [(n - 1 - p) if n % 2 else (n - p) % n for p, n in ((i, height), (j, width))]
      spectrum = np.zeros((height, width), complex)
      if mirror == [i, j]:
        spectrum[i, j] = 1
      else:
        first, second = sorted([(i, j), tuple(mirror)])
        spectrum[first], spectrum[second] = 0.5 + 0.5j, 0.5 - 0.5j
      basis[i, j] = np.fft.ifft2(np.fft.ifftshift(spectrum)).real * np.sqrt(height * width)
  return basis


@cases(
  'size, window, count',
  (32, 0, 514),
  (28, 0, 394),
  (224, 63, 1985),
  (224, 0, 25090),
  (31, 0, 481),
  (63, 0, 1985),
)
def test_the_number_of_distinct_frequencies_is_about_half_that_of_cells(size, window, count):
  assert len(distinct_frequencies(size, size, window)) == count


@pytest.mark.parametrize(('height', 'width'), SIZES)
def test_the_reference_phase_gives_the_released_basis(height, width):
  frequencies, waves = all_waves(height, width, 'reference')
  np.testing.assert_allclose(waves[frequencies.cell], released_basis(height, width), atol=1e-6)


@pytest.mark.parametrize('phase', PHASES)
@pytest.mark.parametrize(('height', 'width'), SIZES)
def test_waves_are_orthonormal_with_at_most_two_coefficients(height, width, phase):
  frequencies, waves = all_waves(height, width, phase)
  flat = waves.reshape(len(waves), -1)
  np.testing.assert_allclose(flat @ flat.T, np.eye(len(waves)), atol=2e-6)
  is_nonzero = np.abs(np.fft.fft2(waves)) > 1e-4
  is_mirror_of_itself = (2 * frequencies.fy % height == 0) & (2 * frequencies.fx % width == 0)
  np.testing.assert_array_equal(is_nonzero.sum((1, 2)), np.where(is_mirror_of_itself, 1, 2))
  assert is_nonzero[np.arange(len(waves)), frequencies.fy % height, frequencies.fx % width].all()


@pytest.mark.parametrize(('height', 'width'), SIZES)
def test_mirrored_cells_share_a_frequency(height, width):
  frequencies = distinct_frequencies(height, width)
  y, x = np.ogrid[:height, :width]
  mirror = frequencies.cell[(2 * (height // 2) - y) % height, (2 * (width // 2) - x) % width]
  np.testing.assert_array_equal(mirror, frequencies.cell)
  assert set(frequencies.cell.ravel()) == set(range(len(frequencies)))
  middle = frequencies.cell[height // 2, width // 2]
  assert (frequencies.fy[middle], frequencies.fx[middle]) == (0, 0)


@pytest.mark.parametrize('window', [1, 3, 4, 7])
def test_a_window_holds_the_lowest_frequencies(window):
  full, full_waves = all_waves(9, 8, 'reference')
  frequencies, waves = all_waves(9, 8, 'reference', window)
  rows, columns = (slice(n // 2 - window // 2, n // 2 - window // 2 + window) for n in (9, 8))
  np.testing.assert_array_equal(waves[frequencies.cell], full_waves[full.cell[rows, columns]])


def test_unusable_windows_phases_and_frequencies_are_refused():
  for window in (-1, 9):
    refused(f'window is {window}.*1..8', distinct_frequencies, 8, 9, window)
  misspelt = bad_setting('phase', 'cosin', words="did you mean 'cosine'")
  refused(misspelt, basis_image, jnp.int32(1), jnp.int32(1), 8, 8, 'cosin')
  refused('down .fy. is 2.5; it must be an integer in -4..4', basis_image, 2.5, 0, 8, 8)
  refused('across .fx. is 9; it must be an integer in -4..4', basis_image, 0, 9, 8, 9)


def test_a_perturbation_is_a_wave_of_the_norm_in_every_channel():
  image = jax.random.uniform(jax.random.key(0), (11, 16, 3))
  perturbed = add_wave(jax.random.key(1), image, jnp.int32(-2), jnp.int32(5), jnp.float32(4))
  delta = np.asarray(perturbed - image)
  np.testing.assert_allclose(np.linalg.norm(delta, axis=(0, 1)), 4, rtol=1e-5)
  wave = basis_image(jnp.int32(-2), jnp.int32(5), 11, 16)
  np.testing.assert_allclose(np.abs(np.einsum('hwc,hw->c', delta, wave)), 4, rtol=1e-5)


def test_signs_are_balanced_and_independent_between_channels():
  def sign(key):
    image = add_wave(key, jnp.zeros((4, 4, 3)), jnp.int32(0), jnp.int32(0), jnp.float32(4))
    return jnp.sign(image[0, 0])

  count = 4000
  signs = np.asarray(jax.vmap(sign)(jax.random.split(jax.random.key(0), count)))
  bound = 4 / np.sqrt(count)  # four standard errors of a mean of signs
  assert np.abs(signs.mean(0)).max() < bound
  assert np.abs(signs.T @ signs / count - np.eye(3)).max() < bound


def test_a_norm_of_zero_changes_nothing_and_clipping_keeps_the_unit_range():
  image = jax.random.uniform(jax.random.key(0), (8, 8, 3))
  arguments = jax.random.key(1), image, jnp.int32(1), jnp.int32(2)
  np.testing.assert_array_equal(add_wave(*arguments, jnp.float32(0)), image)
  unclipped = add_wave(*arguments, jnp.float32(9))
  clipped = add_wave(*arguments, jnp.float32(9), clip=True)
  assert float(unclipped.max()) > 1
  np.testing.assert_array_equal(clipped, jnp.clip(unclipped, 0, 1))


@cases(
  'study, side, differences',
  (BandNoise(), 32, []),
  (BandNoise(norm=1.0, clip=True), 32, ['norm 1, published 8', 'clipped']),
  (BandNoise(), 28, ['norm 8, published for 32 pixels only']),
  (FourierAttack(), 224, []),
  (FourierAttack(phase='cosine'), 32, ['norm 24, published for 224 pixels only', 'phase cosine']),
  (FourierHeatmap(norm=15.7, window=63), 224, []),
  (FourierHeatmap(norm=40.0), 224, []),
  (FourierHeatmap(norm=40.0, window=63), 224, []),
  (
    FourierHeatmap(norm=40.0, window=31),
    224,
    ['window 31 × 31, published all frequencies and 63 × 63'],
  ),
  (FourierHeatmap(norm=15.7), 224, ['window all frequencies, published 63 × 63']),
  (FourierHeatmap(norm=24.0, window=63), 224, ['norm 24, published 15.7 and 40']),
  (
    FourierHeatmap(norm=15.7, window=63, half_width=0.03),
    224,
    ['each frequency on as many images as ± 0.03 takes'],
  ),
  (FourierAttack(norm=15.7), 224, []),
  (FourierHeatmap(), 28, ['norm 4, published for 32 and 224 pixels only']),
)
def test_settings_that_differ_from_the_paper_are_stated(tmp_path, study, side, differences):
  records = Records(tmp_path, Layout(10, 1, 10, 1), {})
  records.write(0, 0, {'rank': np.zeros((10, 1), np.int32)})
  shape = side, side, 3
  of_images = Accuracy().differences(records, shape)  # stated by every study
  assert study.differences(records, shape) == [*of_images, *differences]


def test_heat_maps_of_the_paper_take_at_least_1000_images(tmp_path):
  data = {'data': {'name': 'cifar10', 'split': 'test'}}
  for count, differences in ((1000, []), (10_000, []), (999, ['999 of 10000 images'])):
    records = Records(tmp_path / str(count), Layout(count, 1, count, 1), data)
    records.write(0, 0, {'rank': np.zeros((count, 1), np.int32)})
    assert FourierHeatmap().differences(records, (32, 32, 3)) == differences


KEY, IMAGES = jax.random.key(3), jnp.full((4, 8, 6, 3), 0.5)


def test_a_batch_is_perturbed_with_one_frequency():
  changed = fourier.perturb(KEY, IMAGES, (2, -1), 1.5) - IMAGES
  np.testing.assert_allclose(jnp.linalg.norm(changed, axis=(1, 2)), 1.5, rtol=1e-5)
  wave = basis_image(jnp.int32(2), jnp.int32(-1), 8, 6)
  expected = jnp.broadcast_to(1.5 * jnp.abs(wave)[None, :, :, None], changed.shape)
  np.testing.assert_allclose(jnp.abs(changed), expected, atol=1e-6)


def test_a_batch_is_perturbed_with_one_frequency_for_each_image():
  pairs = jnp.array([[2, -1], [0, 0], [1, 1], [-4, 2]])
  batch = fourier.perturb(KEY, IMAGES, pairs, 1.5)
  np.testing.assert_array_equal(fourier.perturb(3, IMAGES, pairs, 1.5), batch, 'a seed is a key')
  np.testing.assert_array_equal(batch[0], fourier.perturb(KEY, IMAGES, (2, -1), 1.5)[0])
  norms = [1.5] * len(IMAGES)
  np.testing.assert_array_equal(fourier.perturb(KEY, IMAGES, pairs, norms), batch)
  single = fourier.perturb(jax.random.fold_in(KEY, 3), IMAGES[3], (-4, 2), 1.5)
  np.testing.assert_allclose(batch[3], single, atol=1e-6)
  np.testing.assert_allclose(jax.jit(fourier.perturb)(KEY, IMAGES, pairs, 1.5), batch, atol=1e-6)
  by_vmap = jax.vmap(lambda pair: fourier.perturb(KEY, IMAGES, pair, 1.5))(pairs)
  np.testing.assert_allclose(by_vmap[0, 0], batch[0], atol=1e-6)


def test_perturbed_images_do_not_depend_on_64_bits_in_jax():
  expected = fourier.perturb(KEY, IMAGES, (2, -1), [1.0, 2.0, 3.0, 4.0])
  with jax.enable_x64(True):
    norms = jnp.array([1.0, 2.0, 3.0, 4.0])
    perturbed = fourier.perturb(KEY, jnp.float64(IMAGES), jnp.array([2, -1]), norms)
  assert norms.dtype == np.float64 and perturbed.dtype == np.float32
  np.testing.assert_array_equal(perturbed, expected)


@cases(
  'images, frequency, norm, message',
  (np.zeros((8, 8, 3), np.uint8), (1, 2), 1.0, 'uint8'),
  (np.zeros((3, 8, 8), np.float32), (1, 2), 1.0, '3, 8, 8'),
  (np.full((8, 8, 3), 200.0), (1, 2), 1.0, 'values from 200 to 200'),
  (np.zeros((8, 8, 3)), (5, 0), 1.0, 'down .fy. is 5; it must be an integer in -4..4'),
  (np.zeros((8, 8, 3)), (0, 2.5), 1.0, 'are float64 .*; give cycles per image, integers'),
  (np.zeros((8, 8, 8, 3)), np.ones((5, 2), int), 1.0, r'\(5, 2\).* 8 images: \(8, 2\)'),
  (np.zeros((8, 8, 3)), (1, 2), -4, '^norm is -4; it must be a number of at least 0'),
  (np.zeros((8, 8, 8, 3)), (1, 2), np.ones(5), r'norm has the shape \(5,\).*\(8,\)'),
)
def test_unusable_images_frequencies_and_norms_are_refused(images, frequency, norm, message):
  refused(message, fourier.perturb, 0, images, frequency, norm)
