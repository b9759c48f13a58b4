"""The figure of the study `fourier_preview`, from its results alone."""

from __future__ import annotations

from matplotlib.figure import Figure

from robustness.figures import style
from robustness.figures.frequency_axes import HORIZONTAL, VERTICAL, checked_map, show_map
from robustness.figures.panels import name_axes, panels
from robustness.results import Results

_BELOW = 3  # classifiers below each other


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws the preview, beside the measured heat map if there is one.

  Args:
    results: what the study left in `results.json` and `results.npz`.

  Returns:
    {'preview': (figure, caption)}.
  """
  n = next(iter(results.numbers.values())).n
  table = results.tables.get('rank correlation')
  correlations = {row[0]: row[1] for row in table.rows} if table else {}
  caption = (
    f'Mean first-order sensitivity S(f) = (Σ_c |F(∇_c loss)|²)^½ on {n} images, one backward pass '
    'each, zero frequency in the centre.'
  )
  if correlations:
    words = ', '.join(f'{label} {style.correlation(rho)}' for label, rho in correlations.items())
    caption += (
      " Right: the error that a heat map measured. Spearman's rank correlation over its distinct "
      f'frequencies: {words}.'
    )
  return {'preview': (_panels(results, correlations), caption)}


@style.styled
def _panels(results: Results, correlations: dict[str, float]) -> Figure:
  """A row a classifier, or two of more than three: sensitivity, and the measured error."""
  arrays, columns = results.arrays, 2 if correlations else 1
  count = len(results.prefixes)
  in_row = columns if count <= _BELOW else 3 if columns == 1 else 4
  size = 8.0 if count <= _BELOW else 6.5
  figure, grid = panels(columns * count, min(2.7, 6.6 / in_row), in_row, share=False)
  figure.set_layout_engine('compressed')
  letters = int(0.8 * figure.get_figwidth() / min(in_row, len(grid)) / style.LETTER * 8 / size)
  for place, (label, prefix) in enumerate(results.prefixes.items()):
    line = grid[columns * place : columns * (place + 1)]
    axes_of_map = arrays['frequency_y'], arrays['frequency_x']
    values = checked_map(arrays[f'{prefix}sensitivity'], *axes_of_map, label)
    image = show_map(
      line[0], values, *axes_of_map, style.MAGNITUDE, (0.0, float(values.max()) or 1)
    )
    line[0].set_title(style.wrapped(f'{label}: sensitivity to first order', letters), fontsize=size)
    figure.colorbar(
      image, ax=line[0], label=style.wrapped('mean S (loss per unit of norm)', letters)
    )
    if columns == 2:
      measured = arrays['measured_y'], arrays['measured_x']
      error = 100 * checked_map(arrays[f'{prefix}measured_error'], *measured, label)
      image = show_map(line[1], error, *measured, style.MAGNITUDE, (0.0, 100.0))
      said = f'measured, rank correlation {style.correlation(correlations[label])}'
      line[1].set_title(style.wrapped(said, letters), fontsize=size)
      figure.colorbar(image, ax=line[1], label='top-1 error (%)')
  name_axes(figure, HORIZONTAL, VERTICAL)
  return figure
