"""Bands of frequencies, and the whole map of a table's rows."""

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
  return np.arange(n) - n // 2


def test_bands_of_28_pixels_lie_where_the_documentation_says():
  of_cell = bands(centred(28)[:, None], centred(28), (28, 28))
  assert of_cell.shape == (28, 28) and set(of_cell.ravel()) == set(BANDS)
  along = {band: np.abs(centred(28)[of_cell[14] == band]) for band in BANDS}
  assert along['low'].max() == 3 and set(along['mid']) == {4, 5, 6} and along['high'].min() == 7


def test_cells_of_bands_that_a_window_shows():
  """The window of figure 4: a fifth of the middle band and nothing of the high one."""
  cells = FourierHeatmap(window=63)._cells((224, 224, 3))
  assert cells['mid'] == (1520, 7392) and cells['high'][0] == 0
  assert cells['all'] == (63 * 63, 224 * 224)
  assert sum(cells[name][1] for name in BANDS) == 224 * 224


@pytest.mark.parametrize(('size', 'window'), [((6, 5), 0), ((7, 8), 0), ((8, 8), 3), ((8, 9), 4)])
def test_every_cell_has_the_value_of_its_frequency(tmp_path, size, window):
  f = distinct_frequencies(*size, window)
  values = np.random.default_rng(0).random(len(f))
  places = pd.DataFrame({'frequency_y': f.fy, 'frequency_x': f.fx})
  table = assemble([arrays(ERROR, 'net', places, values, n=9, confidence=0.95)])
  results = Results('made', [], {'image_shape': [*size, 3]}, {'window': window}, table=table)
  axis_y, axis_x, drawn = centred_map(results, 'error', 'net')
  for axis, side in zip((axis_y, axis_x), size, strict=True):
    np.testing.assert_array_equal(axis, np.arange(window or side) - (window or side) // 2)
  np.testing.assert_array_equal(drawn, values[f.cell])
  assert (centred_map(results, 'error', 'net', column='n')[2] == 9).all()
  results.table = table[:-1]
  assert np.isnan(centred_map(results, 'error', 'net')[2]).sum() in (1, 2)
  message = r"no error by frequency of 'other'.*are \['net'\]"
  refused(message, centred_map, results, 'error', 'other')
  results.table = pd.concat([table, table.assign(classifier='second')])
  finished = FinishedMap(tmp_path, results, 'here')
  refused("here has heat maps of net, second, none of 'x'", finished.classifier_rows, 'x')
