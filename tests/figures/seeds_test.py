"""The picture of several seeds."""

from __future__ import annotations

import numpy as np

from robustness.figures import seeds
from robustness.results import Results, Table


def test_a_line_a_number_with_a_dot_a_seed() -> None:
  rows = [['top1', 0.8, 0.9, 0.85, 0.21, 1.49], ['top5', 0.9, 0.9, 0.9, 0.9, 0.9]]
  columns = ('number', 'seed 0', 'seed 1', 'mean', 'low', 'high')
  results = Results('accuracy', {}, {}, {}, tables={'seeds': Table(columns, rows)})
  ((name, (figure, caption)),) = seeds.draw(results).items()
  assert name == 'seeds' and '2 seeds' in caption
  (axes,) = figure.axes
  assert [label.get_text() for label in axes.get_yticklabels()] == ['top1', 'top5']
  drawn = np.concatenate([line.get_xdata() for line in axes.lines if line.get_marker() == 'o'])
  assert sorted(drawn) == [0.8, 0.9, 0.9, 0.9]


def test_numbers_that_do_not_exist_are_left_out() -> None:
  """Results that were read again have None for NaN."""
  rows = [['x', float('nan'), 1.0, float('nan'), float('nan'), float('nan')]]
  rows.append(['y', 1.0, None, None, None, None])
  table = Table(('number', 'seed 0', 'seed 1', 'mean', 'low', 'high'), rows)
  assert seeds.draw(Results('accuracy', {}, {}, {}, tables={'seeds': table})) == {}
