"""The figures of the study `attack_error`, from its results alone."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustness.figures import style
from robustness.figures.accuracy_bars import accuracy_bars
from robustness.figures.error_curves import ErrorCurve, error_curves
from robustness.present.spectra import spectrum_panels
from robustness.results import Results

NORMS = {'linf': 'ℓ∞', 'l2': 'ℓ2'}


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws all figures.

  Args:
    results: what the study left in `results.json` and `results.npz`.

  Returns:
    {name: (figure, caption)}: `attack_error`, with several radii `error_by_epsilon`, `spectra` and
    `radial`.
  """
  settings = results.settings
  n = next(iter(results.numbers.values())).n
  attack = f'{NORMS[settings["norm"]]}, ε = {settings["epsilon"]:.4g}'
  figures: dict[str, tuple[Figure, str]] = {
    'attack_error': (
      _bars(results),
      f'Error clean and under attack ({attack}) on {n} images, with exact intervals.',
    )
  }
  if len(results.arrays['epsilon']) > 1:
    figures['error_by_epsilon'] = (
      _by_epsilon(results),
      'Error by radius, an image counting as wrong if any of the attacks changes it so.',
    )
  figures['spectra'] = (
    _spectra(results),
    f'Mean |F(δ)| over the images that the attack ({attack}) leaves wrong, zero frequency in the '
    'centre, one logarithmic scale; in brackets, of how many.',
  )
  figures['radial'] = (
    _radial(results),
    'Mean |F(δ)| over the same images by distance from zero frequency, with intervals; dashed: the '
    'clean images, scaled to the same mean as the first curve.',
  )
  return figures


def _bars(results: Results) -> Figure:
  names = [str(name) for name in results.arrays['attack']]
  bars = {}
  for label, prefix in results.prefixes.items():
    numbers = {'clean': results.numbers[f'{prefix}clean_error']}
    if len(names) > 1:
      numbers |= {name: results.numbers[f'{prefix}attack_error/{name}'] for name in names}
    of_all = names[0] if len(names) == 1 else 'any of them'
    bars[label] = {**numbers, of_all: results.numbers[f'{prefix}attack_error']}
  return accuracy_bars(bars, 'error (%)')


def _by_epsilon(results: Results) -> Figure:
  arrays = results.arrays
  curves = {}
  for label, prefix in results.prefixes.items():
    clean = results.numbers[f'{prefix}clean_error']
    curves[label] = ErrorCurve(
      np.append(0, arrays['epsilon']),
      *(
        np.append(start, arrays[f'{prefix}worst_error{end}'])
        for start, end in ((clean.value, ''), (clean.low, '_low'), (clean.high, '_high'))
      ),
    )
  norm = NORMS[results.settings['norm']]
  return error_curves({'': curves}, f'ε ({norm}, pixels in [0, 1])')


def _shown(results: Results) -> int:
  """Where the radius of the settings stands."""
  return int(np.argmin(np.abs(results.arrays['epsilon'] - results.settings['epsilon'])))


def _series(results: Results) -> dict[str, tuple[str, int]]:
  """Returns {title: (prefix, number of the attack)} of all classifiers and attacks."""
  names = [str(name) for name in results.arrays['attack']]
  series = {}
  for label, prefix in results.prefixes.items():
    for index, name in enumerate(names):
      words = (label if prefix else '', name if len(names) > 1 or not prefix else '')
      series[', '.join(filter(None, words))] = (prefix, index)
  return series


def _spectra(results: Results) -> Figure:
  arrays, at = results.arrays, _shown(results)
  names = [str(name) for name in arrays['attack']]
  titles, maps = [], []
  for title, (prefix, index) in _series(results).items():
    titles.append(f'{title} ({results.numbers[f"{prefix}change_norm/{names[index]}"].n})')
    maps.append(arrays[f'{prefix}spectrum'][at, index])
  return spectrum_panels(
    titles, maps, arrays['frequency_y'], arrays['frequency_x'], decades=0, quantity='mean |F(δ)|'
  )


@style.styled
def _radial(results: Results) -> Figure:
  arrays, at = results.arrays, _shown(results)
  figure = Figure(figsize=(style.COLUMN_WIDTH, 2.6), layout='constrained')
  axes = figure.subplots()
  for number, (title, (prefix, index)) in enumerate(_series(results).items()):
    _curve(axes, results, f'{prefix}radial', (at, index), number, title)
  prefix = next(iter(results.prefixes.values()))
  clean, first = arrays[f'{prefix}clean_radial'], arrays[f'{prefix}radial'][at, 0]
  if np.isfinite(first).all():
    axes.plot(
      arrays['radius'],
      clean * first.mean() / clean.mean(),
      color='0.3',
      linestyle='--',
      linewidth=0.8,
    )
  style.log_scale(axes)
  drawn = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines])
  lowest = np.min(drawn, initial=np.inf, where=drawn > 0)
  if np.isfinite(lowest):
    axes.set_ylim(bottom=lowest / 3)  # intervals may reach zero
  axes.set_xlabel('radial frequency |f| (cycles per image)')
  axes.set_ylabel('mean |F(δ)|')
  axes.spines[['top', 'right']].set_visible(False)
  style.legend_above(figure, [style.dashed('clean images, scaled', color='0.3')])
  return figure


def _curve(
  axes: Axes, results: Results, name: str, index: tuple[int, int], number: int, label: str
) -> None:
  """Draws one curve with its interval."""
  radius = results.arrays['radius']
  value, low, high = (values[index] for values in results.with_interval(name))
  colour = style.colour(number)
  axes.plot(radius, value, color=colour, label=label)
  axes.fill_between(
    radius,
    np.maximum(low, 1e-12),
    np.maximum(high, 1e-12),
    color=colour,
    alpha=0.2,
    linewidth=0,
  )
