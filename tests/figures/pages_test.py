"""What figures of many classifiers, corruptions or classes look like: all on a page, nothing on top
of each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text

from robustness.corruptions.names import KNOWN
from robustness.figures import accuracy_bars, calibration, heat_map_panels, style, video_pm_k
from robustness.figures.error_curves import ErrorCurve, error_curves
from robustness.metrics import proportion
from robustness.present.named_points import Panel, named_points
from robustness.results import Number, Results, Table

LABELS = (
  *('natural', 'gaussian noise σ=.4, long training', 'efficientnet_lite0_fine_tuned_on_all'),
  *('$net_{x', 'run1/adversarially_trained', 'f', 'g', 'h', 'vit_base_patch16_224', 'j', 'k'),
)
FREQUENCIES = np.arange(8) - 4


def number(value: float = 0.2) -> Number:
  return Number(value, value - 0.05, value + 0.05, 100, 'made')


def results(count: int, **found: Any) -> Results:
  classifiers = [{'label': label} for label in LABELS[:count]]
  settings = {'false_discovery_rate': 0.05, 'confidence': 0.95, 'bins': 5}
  return Results('made', classifiers[0] if count == 1 else classifiers, {}, settings, **found)


def check(figure: Figure) -> None:
  """No larger than a page with a legend; titles, labels and legends inside and apart."""
  width, height = figure.get_size_inches()
  assert width <= style.PAGE_WIDTH + 0.01 and height <= style.PAGE_HEIGHT + 1.5
  texts = style.styled(_words)(figure)
  page = figure.bbox.padded(1)
  for text, box in texts:
    assert page.x0 <= box.x0 and box.x1 <= page.x1, text
    assert page.y0 <= box.y0 and box.y1 <= page.y1, text
  for (one, first), (other, second) in itertools.combinations(texts, 2):
    assert not first.padded(-1).overlaps(second.padded(-1)), (one, other)


def _words(figure: Figure) -> list[tuple[str, Any]]:
  """Titles, names of axes and entries of legends, with their places."""
  figure.draw_without_rendering()
  found: list[Text] = [text for legend in figure.legends for text in legend.get_texts()]
  found += [t for t in (figure._supxlabel, figure._supylabel) if t]  # type: ignore[attr-defined]
  for axes in figure.axes:
    found += [axes.title, axes.xaxis.label, axes.yaxis.label]
  shown = [text for text in found if text.get_text().strip() and text.get_visible()]
  return [(text.get_text(), text.get_window_extent()) for text in shown]


@pytest.mark.parametrize('count', [3, 4, 11])
def test_heat_maps_of_many_classifiers_stand_in_rows(count: int) -> None:
  maps = {label: np.full((8, 8), 0.2) for label in LABELS[:count]}
  clean = dict.fromkeys(maps, number())
  figure = heat_map_panels(maps, FREQUENCIES, FREQUENCIES, clean)
  check(figure)
  assert sum(bool(axes.images) for axes in figure.axes) == 2 * count - 1


@pytest.mark.parametrize('count', [2, 11])
def test_bars_of_rates_end_where_the_rates_do(count: int) -> None:
  bars = {name: dict.fromkeys(LABELS[:count], number(0.07)) for name in KNOWN}
  figure = accuracy_bars(bars, 'flip rate (%)')
  check(figure)
  assert all(axes.get_xlim() == (0, 20) for axes in figure.axes)
  drawn = [text.get_text() for axes in figure.axes for text in axes.get_yticklabels()]
  assert [name.replace('\n', '') for name in drawn] == list(KNOWN)


@pytest.mark.parametrize('count', [1, 8])
def test_every_corruption_has_a_point_and_a_look_of_its_own(count: int) -> None:
  share = np.linspace(0, 1, len(KNOWN))
  rows = pd.DataFrame({'value': share, 'low': share - 0.1, 'high': share + 0.1}, index=KNOWN)
  panels = [Panel((label, 'slope 0.25 (0.22 to 0.28)'), rows, rows) for label in LABELS[:count]]
  figure = named_points(panels, 'share (%)', 'accuracy minus that of natural (points)')
  check(figure)
  for axes in figure.axes[:count]:
    drawn = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    looks = {(c.lines[0].get_marker(), c.lines[0].get_color()) for c in drawn}
    assert len(drawn) == len(looks) == len(KNOWN)


def by_class(classes: int) -> Table:
  columns = [f'{name}{end}' for name in ('anchor', 'pm-k') for end in ('', ' low', ' high')]
  values = np.random.default_rng(0).random(classes)
  rows = [[f'class {k}', 3, *[0.9] * 3, *[value] * 3] for k, value in enumerate(values)]
  return Table(('class', 'n', *columns), rows)


@pytest.mark.parametrize(('count', 'classes'), [(1, 30), (9, 1000)])
def test_of_many_classes_the_least_accurate_are_drawn(count: int, classes: int) -> None:
  table = by_class(classes)
  prefixes = [''] if count == 1 else [f'{label}/' for label in LABELS[:count]]
  found = results(count, tables={f'{prefix}by_class': table for prefix in prefixes})
  figure = video_pm_k.class_accuracies(found)
  check(figure)
  ordered = sorted(table.rows, key=lambda row: row[5])
  drawn = [text.get_text() for text in figure.axes[0].get_yticklabels()]
  assert drawn == [f'{row[0]} (3)' for row in ordered[: len(drawn)]]
  said = video_pm_k._which_classes(found)
  assert len(drawn) == 30 if classes == 30 else f'first {len(drawn)} of 1000' in said


@pytest.mark.parametrize(('largest', 'end'), [(0.004, 1), (0.2, 20), (1, 100)])
def test_curves_end_where_their_intervals_do(largest: float, end: float) -> None:
  low = np.zeros(3)
  curve = ErrorCurve(np.arange(3), low, low, np.array([0, largest, np.nan]))
  figure = error_curves({'a': {'net': curve}}, 'severity')
  assert figure.axes[0].get_ylim() == (0, end)


@pytest.mark.parametrize('count', [2, 9])
def test_reliability_stands_in_rows(count: int) -> None:
  arrays: dict[str, np.ndarray] = {'view': np.array(['clean', 'fog'])}
  for prefix in [''] if count == 1 else [f'{label}/' for label in LABELS[:count]]:
    arrays |= {f'{prefix}bin_{name}': np.ones((2, 5)) for name in ('confidence', 'accuracy')}
    arrays[f'{prefix}bin_size'] = np.full((2, 5), 9)
  made = results(count, arrays=arrays)
  check(calibration._reliability(made, 0.95))


def looks(count: int) -> Sequence[tuple[str, str, str]]:
  return [(style.colour(k), style.marker(k), style.dashes(k)) for k in range(count)]


def test_no_two_classifiers_look_the_same() -> None:
  assert len({style.colour(k) for k in range(14)}) == 14
  assert len({look[:2] for look in looks(100)}) == 100


def test_a_dollar_is_a_letter(tmp_path) -> None:
  """In labels, names of classes and folders; Matplotlib would read mathematics."""
  bars = {'$a_{': {'$\\frac': proportion(1, 3)}}
  for figure in (
    accuracy_bars(bars),
    heat_map_panels({'a$^': np.zeros((8, 8)), '$_$': np.zeros((8, 8))}, FREQUENCIES, FREQUENCIES),
  ):
    style.add_box(figure, 'folder: /tmp/$x_/$')
    style.save(figure, tmp_path / 'figure.png')


@style.styled
def test_logarithmic_axes_need_no_mathematics() -> None:
  figure = Figure()
  axes = figure.subplots()
  axes.plot([1, 2], [1e-3, 1e2])
  style.log_scale(axes)
  figure.draw_without_rendering()
  labels = [text.get_text() for text in axes.get_yticklabels() if text.get_text()]
  assert '10⁻²' in labels and '10⁰' in labels and not any('$' in text for text in labels)
  axes.set_ylim(0.02, 0.08)
  figure.draw_without_rendering()
  assert '4×10⁻²' in [text.get_text() for text in axes.get_yminorticklabels()]


def test_text_is_broken_where_words_are_joined() -> None:
  assert style.wrapped('efficientnet_lite0_fine tuned', 14) == 'efficientnet_\nlite0_fine\ntuned'
  assert style.wrapped('abcdefgh', 3) == 'abc\ndef\ngh'
  assert style.wrapped('', 5) == ''
