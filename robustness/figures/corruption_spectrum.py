"""The figures of the study `corruption_spectrum`, from its results alone."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from robustness.figures import style
from robustness.figures.corruption_error import gallery
from robustness.figures.panels import name_axes, panels
from robustness.figures.spectra import DECADES, SMALLEST, spectrum_panels
from robustness.results import Results

_COLUMNS = 5


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws all figures.

  Args:
    results: what the study left in `results.json` and `results.npz`.

  Returns:
    {name: (figure, caption)}: `spectra`, `radial`, `high_frequency_fraction`, `gallery`.
  """
  n = results.numbers['rms/clean'].n
  severity = int(results.arrays['severity'][_shown(results)])
  rows, columns = results.arrays['high_pass_lowest']
  frost = results.settings.get('frost', {}).get('source')
  drawn = f' Frost is {frost}.' if frost else ''
  return {
    'spectra': (
      spectra(results),
      (
        f'Mean |F(x)| of the clean images, and mean |F(C(x) − x)| at severity {severity} with '
        f'its share of high frequency in energy; {n} images, zero frequency in the centre, one '
        f'logarithmic scale.{drawn}'
      ),
    ),
    'radial': (
      radial(results),
      (
        'Mean |F(C(x) − x)| by distance from zero frequency, a line a severity with its '
        'interval; dashed: the clean images.'
      ),
    ),
    'high_frequency_fraction': (
      fraction_bars(results),
      (
        f'Share of the energy of C(x) − x at |f_y| ≥ {rows} and |f_x| ≥ {columns} cycles per '
        f'image, mean over images and severities with intervals over {n} images; dots are single '
        'severities, the dashed line is white noise.'
      ),
    ),
    'gallery': (
      gallery(results.arrays['gallery'], _names(results), results.arrays['severity'].tolist()),
      'One image under every corruption and severity.',
    ),
  }


def _names(results: Results) -> list[str]:
  return [str(name) for name in results.arrays['corruption']]


def _shown(results: Results) -> int:
  """The index of the severity that the maps show: the one asked for, or the middle one."""
  severities = results.arrays['severity'].tolist()
  severity = results.settings['severity']
  return severities.index(severity) if severity in severities else len(severities) // 2


@style.styled
def spectra(results: Results) -> Figure:
  """Draws the clean images' mean spectrum and that of each corruption, a panel each."""
  names, arrays, index = _names(results), results.arrays, _shown(results)
  maps = [arrays['clean_spectrum'], *arrays['spectrum'][:, index]]
  fractions = [
    results.numbers['high_frequency_fraction/clean'].value,
    *arrays['high_frequency_fraction'][:, index],
  ]
  titles = ['clean images', *(_spaced(name) for name in names)]
  titles = [
    f'{title}, {style.percent(share, 0)}' for title, share in zip(titles, fractions, strict=True)
  ]
  columns = _COLUMNS if len(maps) > 16 else 4
  return spectrum_panels(
    titles, maps, arrays['frequency_y'], arrays['frequency_x'], columns, decades=DECADES
  )


@style.styled
def radial(results: Results) -> Figure:
  """Draws mean |F| against |f|, a small panel a corruption, a line a severity."""
  names, arrays = _names(results), results.arrays
  figure, grid = panels(len(names), 1.25, _COLUMNS, style.PAGE_WIDTH, spare=0.2)
  rows = -(-len(names) // _COLUMNS)
  scale = Normalize(0, 5)
  colours = colormaps['viridis_r']
  for place, (axes, name) in enumerate(zip(grid, names, strict=True)):
    axes.set_title(_spaced(name), fontsize=7)
    for s, severity in enumerate(arrays['severity']):
      _band(axes, results, colours(scale(severity)), (place, s))
    axes.plot(arrays['radius'], arrays['clean_radial'], color='0.3', linestyle='--', linewidth=0.8)
    style.log_scale(axes)
    axes.spines[['top', 'right']].set_visible(False)
  largest = max(float(arrays['radial'].max()), float(arrays['clean_radial'].max()))
  grid[0].set_ylim(largest * 10.0**-DECADES, 1.5 * largest)
  edges = np.linspace(0, 5, 256)
  bar = figure.colorbar(
    ScalarMappable(scale, colours),
    ax=grid,
    label='severity',
    shrink=min(1.0, 1.6 / rows),
    boundaries=edges[edges >= 0.5],
  )
  bar.set_ticks([int(s) for s in arrays['severity']])
  name_axes(figure, 'radial frequency |f| (cycles per image)', 'mean |F|')
  style.legend_above(figure, [style.dashed('clean images', color='0.3')])
  return figure


def _band(axes: Axes, results: Results, colour: tuple[float, ...], index: tuple[int, int]) -> None:
  """Draws the curve of a corruption at a severity with its interval."""
  radius = results.arrays['radius']
  value, low, high = (
    np.maximum(values[index], SMALLEST) for values in results.with_interval('radial')
  )
  axes.plot(radius, value, color=colour, linewidth=0.9)
  axes.fill_between(radius, low, high, color=colour, alpha=0.3, linewidth=0)


@style.styled
def fraction_bars(results: Results) -> Figure:
  """Draws horizontal bars of the share of high-frequency energy, dots for single severities."""
  names, arrays = _names(results), results.arrays
  numbers = [results.numbers[f'high_frequency_fraction/{name}'] for name in names]
  value, low, high = (
    100 * np.array([getattr(number, end) for number in numbers]) for end in ('value', 'low', 'high')
  )
  figure = Figure(figsize=(style.COLUMN_WIDTH, 0.8 + 0.2 * len(names)), layout='constrained')
  axes = figure.subplots()
  places = np.arange(len(names))
  spread = np.nan_to_num(np.stack([value - low, high - value]))
  axes.barh(
    places, value, 0.7, color=style.COLOURS[0], alpha=0.75, xerr=spread, error_kw={'linewidth': 0.7}
  )
  single = 100 * arrays['high_frequency_fraction']
  axes.plot(single.T, np.tile(places, (single.shape[1], 1)), 'k.', markersize=2.5)
  axes.axvline(100 * float(arrays['high_pass_share']), color='0.3', linestyle='--', linewidth=0.8)
  axes.set_yticks(places, [_spaced(name) for name in names])
  axes.invert_yaxis()
  axes.set_xlim(0, 100)
  axes.set_xlabel('energy of C(x) − x at high frequency (%)')
  axes.spines[['top', 'right']].set_visible(False)
  style.legend_above(
    figure,
    [
      style.dashed('white noise', color='0.3'),
      style.dashed('single severities', '', marker='.', color='black', markersize=2.5),
    ],
  )
  return figure


def _spaced(name: str) -> str:
  return name.replace('_', ' ')
