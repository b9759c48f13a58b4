"""Tests the study `corruption_spectrum` against NumPy on the images it shows."""

import jax
import numpy as np
import pandas as pd
import pytest

from robustness.config import experiment
from robustness.core.rows import ArrayRows
from robustness.estimates.table import assemble, select
from robustness.evaluation.study import Evaluation, Findings
from robustness.fourier.filters import high_pass
from robustness.parallel.mesh import MeshParallel
from robustness.studies.corruption_spectrum import CorruptionSpectrum
from tests.refusals import refused
from tests.studies.conftest import recorded, show_image
from tests.table_rows import estimate

SHAPE, COUNT = (32, 32, 3), 11
CORRUPTIONS = ('contrast', 'gaussian_noise', 'brightness')
SMALL = CorruptionSpectrum(corruptions=CORRUPTIONS, severities=(1, 3))


def rows(count: int = COUNT) -> ArrayRows:
  """Returns pictures with amplitudes that fall with frequency; the last is black."""
  generator = np.random.default_rng(0)
  f = np.hypot(np.fft.fftfreq(32)[:, None], np.fft.rfftfreq(32)[None, :])[None, :, :, None]
  noise = np.fft.rfft2(generator.normal(size=(count, *SHAPE)), axes=(1, 2))
  images = np.fft.irfft2(noise / np.maximum(f, 1 / 32) ** 1.2, axes=(1, 2))
  images = np.clip(0.5 + 0.18 * images / images.std(), 0, 1).astype(np.float32)
  images[-1] = 0
  return ArrayRows(images, np.zeros(count, int), ('any',))


def reduced(study: CorruptionSpectrum, folder, parallel=None, layout=(4, 3)) -> Findings:
  """Returns the findings of a study on `rows`."""
  parallel = parallel or MeshParallel(jax.devices()[:1])
  records = recorded(folder, study, None, rows(), parallel, layout)
  return study.reduce([Evaluation('images', records)], SHAPE)


def changes_of(study: CorruptionSpectrum) -> np.ndarray:
  """Returns C(x) - x of every view and image (x in the clean view), [V, N, H, W, C]."""
  images, views = rows().images, range(len(study.views(SHAPE)))
  change = np.array([[show_image(study, x, v, e) for e, x in enumerate(images)] for v in views])
  change[1:] -= images
  return change.astype(float)


def table_of(findings: Findings) -> pd.DataFrame:
  return assemble(findings.estimates)


def grid(table: pd.DataFrame, quantity: str) -> np.ndarray:
  """Returns the values of a quantity, [corruptions, severities]."""
  rows = select(table, quantity, corruption=..., severity=...)
  return rows.value.to_numpy().reshape(rows.corruption.nunique(), -1)


def test_spectra_fractions_and_sizes_against_plain_numpy(tmp_path):
  findings, change = reduced(SMALL, tmp_path), changes_of(SMALL)
  table = table_of(findings)
  spectra = np.abs(np.fft.fft2(change, axes=(2, 3), norm='ortho'))
  spectra = np.fft.fftshift(spectra, axes=(2, 3))
  mean = spectra.mean((1, -1))
  np.testing.assert_allclose(findings.arrays['clean_spectrum'], mean[0], atol=2e-6)
  np.testing.assert_allclose(findings.arrays['spectrum'], mean[1:].reshape(3, 2, 32, 32), atol=2e-6)
  energy = (change**2).sum((2, 3, 4))
  high = (spectra**2)[:, :, high_pass(32, 32, 27)].sum((2, 3))
  with np.errstate(invalid='ignore'):
    fraction = high / energy
  expected = np.nanmean(fraction, 1)
  shares = grid(table, 'high_frequency_fraction').ravel()
  np.testing.assert_allclose(shares, expected[1:], rtol=1e-4)
  clean = estimate(table, 'images', 'clean_high_frequency_fraction')
  assert clean.value == pytest.approx(expected[0], rel=1e-4) and clean.n == COUNT - 1
  contrast = estimate(table, 'images', 'high_frequency_fraction', corruption='contrast')
  assert contrast.n == COUNT - 1, 'contrast leaves a black image as it is'
  assert contrast.value == pytest.approx(np.nanmean(fraction[5:7]), rel=1e-4)
  assert contrast.low < contrast.value < contrast.high
  rms = np.sqrt(energy / np.prod(SHAPE))
  brightness = estimate(table, 'images', 'rms', corruption='brightness')
  assert brightness.value == pytest.approx(rms[3:5].mean(), rel=1e-4)
  np.testing.assert_allclose(grid(table, 'rms').ravel(), rms[1:].mean(1), rtol=1e-4)
  assert estimate(table, 'images', 'clean_rms').value == pytest.approx(rms[0].mean(), rel=1e-4)
  assert findings.tables['high pass'].rows == [[3, 3, high_pass(32, 32, 27).mean()]]


def test_amplitudes_by_radius_are_means_over_rings(tmp_path):
  table, change = table_of(reduced(SMALL, tmp_path)), changes_of(SMALL)
  spectra = np.abs(np.fft.fft2(change, axes=(2, 3), norm='ortho')).mean(-1)
  f = np.fft.fftfreq(32, 1 / 32)
  ring = np.floor(np.hypot(f[:, None], f[None]) + 0.5)
  expected = np.array([spectra[:, :, ring == r].mean((1, 2)) for r in np.unique(ring)]).T
  rows = select(table, 'radial_amplitude', corruption=..., severity=..., radius=...)
  assert rows.radius.unique().tolist() == np.unique(ring).tolist()
  np.testing.assert_allclose(rows.value, expected[1:].ravel(), rtol=1e-4, atol=1e-6)
  clean = select(table, 'clean_radial_amplitude', radius=...)
  np.testing.assert_allclose(clean.value, expected[0], rtol=1e-4)
  assert ((clean.low <= clean.value) & (clean.value <= clean.high) & (clean.low >= 0)).all()
  by_corruption = select(table, 'radial_amplitude', corruption='contrast', radius=...)
  np.testing.assert_allclose(by_corruption.value, expected[5:7].mean(0), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_normalisation_channels_and_bandwidth_change_spectra_as_named(tmp_path):
  settings = {'corruptions': ('contrast',), 'severities': (2,)}
  default = reduced(CorruptionSpectrum(**settings), tmp_path / 'plain')
  scaled = reduced(CorruptionSpectrum(**settings, normalisation='sum'), tmp_path / 'sum')
  np.testing.assert_allclose(scaled.arrays['spectrum'], 32 * default.arrays['spectrum'], rtol=1e-6)
  for quantity in ('high_frequency_fraction', 'rms'):
    scaled_grid, plain_grid = (grid(table_of(e), quantity) for e in (scaled, default))
    np.testing.assert_array_equal(scaled_grid, plain_grid)
  grey = reduced(CorruptionSpectrum(**settings, channels='grey'), tmp_path / 'grey')
  assert (grey.arrays['clean_spectrum'] < default.arrays['clean_spectrum']).mean() > 0.9
  wide_band = reduced(CorruptionSpectrum(**settings, bandwidth=31), tmp_path / 'wide')
  wide_share, share = (
    grid(table_of(findings), 'high_frequency_fraction').item() for findings in (wide_band, default)
  )
  assert wide_share > share


def test_a_classifier_in_its_config_is_refused():
  config = {'study': {'name': 'corruption_spectrum'}, 'classifier': {'name': 'small_cnn'}}
  refused('corruption_spectrum measures images alone', experiment.from_config, config)
