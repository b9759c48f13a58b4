"""Where maps of several kinds stand, and that their scales do not cover each other."""

import numpy as np
import pandas as pd

from robustness.estimates.quantity import Quantity
from robustness.present import maps
from robustness.present.notation import Notation


def test_differences_begin_a_line_where_not_all_fit_one():
  assert maps._places([3, 2]) == (5, [0, 1, 2, 3, 4])
  assert maps._places([7, 6]) == (4, [*range(7), *range(8, 14)])
  assert maps._places([13]) == (5, [*range(13)])


def test_scales_stand_apart_beside_the_maps_of_their_kind():
  y, x = np.meshgrid([1.0, 2.0], [1.0, 2.0], indexing='ij')
  rows = pd.DataFrame({'row': y.ravel(), 'column': x.ravel(), 'value': 0.5, 'marked': False})
  error = Quantity('error', 'error', better='lower')
  shown = [
    maps.Panel(f'map {k}', rows, Notation(error, difference=difference))
    for difference, count in ((False, 7), (True, 6))
    for k in range(count)
  ]
  figure = maps.maps(shown, 'row', 'column')
  figure.canvas.draw()
  bars = [axes.get_position() for axes in figure.axes[16:]]
  assert len(bars) == 2 and bars[0].y0 > bars[1].y1, 'neither covers the other'
  titles = [axes.get_title() for axes in figure.axes[:16]]
  assert titles[7] == '' and titles[8] == 'map 0'
