"""Tests the study `fourier_preview`: spectra of loss gradients and their correlation with a map."""

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from robustness.attacks import cross_entropy
from robustness.estimates.table import select
from robustness.fourier.basis import basis_image, distinct_frequencies
from robustness.studies.fourier_preview import FourierPreview
from tests.networks import SHAPE
from tests.studies.conftest import COUNT, classifier, measured, rows, table_of
from tests.studies.fourier_attack_test import finished
from tests.table_rows import estimate

FREQUENCIES = distinct_frequencies(*SHAPE[:2])


def gradients() -> np.ndarray:
  """Returns the gradients of the loss of the first network, [N, H, W, C]."""
  network, data = classifier('', 0), rows()

  def loss(images: jax.Array) -> jax.Array:
    return cross_entropy(network.forward(network.variables, images, ())[0], data.labels).sum()

  return np.asarray(jax.grad(loss)(data.images))


def by_frequency(results: pd.DataFrame, quantity: str) -> np.ndarray:
  """Returns the values of the first classifier in the order of `FREQUENCIES`."""
  estimates = select(results, quantity, frequency_y=..., frequency_x=...)
  first = estimates[estimates.classifier == estimates.classifier.iloc[0]]
  np.testing.assert_array_equal(first.frequency_y, FREQUENCIES.fy)
  np.testing.assert_array_equal(first.frequency_x, FREQUENCIES.fx)
  return first.value.to_numpy()


@pytest.mark.slow
def test_sensitivity_is_the_root_mean_square_slope_and_bands_have_the_mean_energy():
  results = measured(FourierPreview())[0].table
  gradient, (height, width, _), frequencies = gradients(), SHAPE, FREQUENCIES
  slopes = np.zeros((COUNT, len(frequencies)))
  for index, (fy, fx) in enumerate(zip(frequencies.fy, frequencies.fx, strict=True)):
    cosine = np.asarray(basis_image(fy, fx, height, width, 'cosine'))
    y, x = np.mgrid[:height, :width]
    sine = np.sqrt(2 / (height * width)) * np.sin(2 * np.pi * (fy * y / height + fx * x / width))
    squares = [np.einsum('nhwc,hw->nc', gradient, w) ** 2 for w in (cosine, sine)]
    has_no_sine = 2 * fy % height == 0 and 2 * fx % width == 0  # it equals its mirror
    mean = squares[0] if has_no_sine else (squares[0] + squares[1]) / 2
    slopes[:, index] = np.sqrt(mean.sum(1))
  values = by_frequency(results, 'sensitivity')
  np.testing.assert_allclose(values, slopes.mean(0), rtol=1e-4, atol=2e-6)
  energy = np.abs(np.fft.fft2(gradient, axes=(1, 2))).astype(float) ** 2
  rows_axis, columns_axis = (np.fft.fftfreq(side, 1 / side) for side in (height, width))
  distance = np.hypot(rows_axis[:, None], columns_axis[None, :])
  nyquist = min(height, width) / 2
  masks = {'low': distance < nyquist / 4, 'high': distance >= nyquist / 2}
  for band, mask in masks.items():
    share = (energy * mask[..., None]).sum((1, 2, 3)) / energy.sum((1, 2, 3))
    row = estimate(results, 'first', 'sensitivity_per_cell', band=band)
    assert row.value == pytest.approx(share.mean() / mask.mean(), rel=1e-4)
    half = stats.t.ppf(0.975, COUNT - 1) * stats.sem(share) / mask.mean()
    ends = max(0, row.value - half), row.value + half
    assert (row.low, row.high) == pytest.approx(ends, rel=1e-4) and row.n == COUNT
    second = estimate(results, 'second', 'sensitivity_per_cell', band=band).value
    pair = estimate(results, 'second', 'sensitivity_per_cell', 'first', band=band)
    assert pair.value == pytest.approx(second - row.value)
  masks['mid'] = ~(masks['low'] | masks['high'])
  per_cell = {k: estimate(results, 'first', 'sensitivity_per_cell', band=k).value for k in masks}
  weighted = [mask.mean() * per_cell[band] for band, mask in masks.items()]
  assert sum(weighted) == pytest.approx(1)


def test_rank_correlation_is_over_the_distinct_frequencies_of_the_window(tmp_path):
  error = np.random.default_rng(0).random(len(FREQUENCIES))
  study = FourierPreview(heat_map=finished(tmp_path / 'map', error))
  measurement, *evaluations = measured(study, ('first',))
  results = measurement.table
  sensitivity = by_frequency(results, 'sensitivity')
  np.testing.assert_allclose(by_frequency(results, 'measured_error'), error)
  row = estimate(results, 'first', 'rank_correlation')
  assert row.value == pytest.approx(stats.spearmanr(sensitivity, error).statistic)
  assert row.n == len(FREQUENCIES) and np.isnan(row.low)
  for name, values, expected in (('monotone', sensitivity**2, 1), ('flat', 0 * error, np.nan)):
    changed_map = FourierPreview(heat_map=finished(tmp_path / name, values))
    correlated = table_of(changed_map, evaluations)
    rho = estimate(correlated, 'first', 'rank_correlation').value
    assert rho == pytest.approx(expected, nan_ok=True)
