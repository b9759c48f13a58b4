"""Results come first, so that what goes wrong with a figure loses nothing."""

from __future__ import annotations

import pathlib

import pandas as pd
import pytest
from matplotlib.figure import Figure

from robustness.present.publish import Presentation, publish
from robustness.results import Results
from tests.present.made_results import made_results

RESULTS = made_results()
ENVIRONMENT = {'command': 'python main.py --config=configs/accuracy.py', 'seed': 0}


def test_a_folder_holds_results_figures_and_report(tmp_path: pathlib.Path) -> None:
  def draw(results: Results) -> dict[str, tuple[Figure, str]]:
    assert results is RESULTS
    figure = Figure()
    figure.subplots().plot([0, 1])
    return {'line': (figure, 'A line.')}

  presented = Presentation('A line', ('yin2019fourier',), draw)
  publish(tmp_path, RESULTS, presented, ENVIRONMENT, {})
  pd.testing.assert_frame_equal(Results.read(tmp_path).table, RESULTS.table)
  assert (tmp_path / 'figures/line.png').read_bytes().startswith(b'\x89PNG')
  page = (tmp_path / 'report.html').read_text()
  for text in ('A line.', ENVIRONMENT['command'], 'The largest top-1 error', 'yin2019fourier'):
    assert text in page


def test_a_figure_that_fails_leaves_the_results(tmp_path: pathlib.Path) -> None:
  with pytest.raises(ZeroDivisionError):
    publish(tmp_path, RESULTS, Presentation('None', draw=lambda _: 1 // 0), ENVIRONMENT, {})
  pd.testing.assert_frame_equal(Results.read(tmp_path).table, RESULTS.table)
