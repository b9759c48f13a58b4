"""Tests bands of frequencies, and heat maps made of the rows of a table."""

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.means import arrays
from robustness.estimates.quantity import ERROR
from robustness.estimates.table import assemble
from robustness.fourier.basis import distinct_frequencies
from robustness.fourier.maps import BANDS, FinishedMap, bands, centred_map
from robustness.results import Results
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.refusals import refused


def centred(n: int) -> np.ndarray:
  """Returns the frequencies of n cells of a centred spectrum."""
  return np.arange(n) - n // 2


def test_bands_of_28_pixels_end_at_3_and_6_cycles_as_documented():
  band_of_cell = bands(centred(28)[:, None], centred(28), (28, 28))
  assert band_of_cell.shape == (28, 28) and set(band_of_cell.ravel()) == set(BANDS)
  # The row of vertical frequency zero shows the bands along the horizontal axis.
  frequencies = {band: np.abs(centred(28)[band_of_cell[14] == band]) for band in BANDS}
  assert (
    frequencies['low'].max() == 3
    and set(frequencies['mid']) == {4, 5, 6}
    and frequencies['high'].min() == 7
  )


def test_cells_of_every_band_inside_a_window_are_counted():
  """The window of figure 4 has a fifth of the middle band and nothing of the high one."""
  cells = FourierHeatmap(window=63)._num_cells((224, 224, 3))
  assert cells['mid'] == (1520, 7392) and cells['high'][0] == 0
  assert cells['all'] == (63 * 63, 224 * 224)
  assert sum(cells[name][1] for name in BANDS) == 224 * 224


@pytest.mark.parametrize(('size', 'window'), [((6, 5), 0), ((7, 8), 0), ((8, 8), 3), ((8, 9), 4)])
def test_every_cell_of_a_map_has_the_value_of_its_frequency(tmp_path, size, window):
  frequencies = distinct_frequencies(*size, window)
  values = np.random.default_rng(0).random(len(frequencies))
  facets = pd.DataFrame({'frequency_y': frequencies.fy, 'frequency_x': frequencies.fx})
  table = assemble([arrays(ERROR, 'net', facets, values, n=9, confidence=0.95)])
  results = Results('made', [], {'image_shape': [*size, 3]}, {'window': window}, table=table)
  axis_y, axis_x, heat_map = centred_map(results, 'error', 'net')
  for axis, side in zip((axis_y, axis_x), size, strict=True):
    np.testing.assert_array_equal(axis, np.arange(window or side) - (window or side) // 2)
  np.testing.assert_array_equal(heat_map, values[frequencies.cell])
  assert (centred_map(results, 'error', 'net', column='n')[2] == 9).all()
  results.table = table[:-1]  # without one frequency, which has one cell or two
  assert np.isnan(centred_map(results, 'error', 'net')[2]).sum() in (1, 2)
  message = r"no error by frequency of 'other'.*are \['net'\]"
  refused(message, centred_map, results, 'error', 'other')
  results.table = pd.concat([table, table.assign(classifier='second')])
  finished = FinishedMap(tmp_path, results, 'here')
  refused("here has heat maps of net, second, none of 'x'", finished.classifier_rows, 'x')
