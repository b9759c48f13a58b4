"""Small results of every study, as its `reduce` would give them, made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from robustness.results import Number, Results, Table

EXACT, CLUSTERS, PAIRED = 'clopper-pearson 0.95', 'korn-graubard 0.95', 'paired bonett-price 0.95'
STUDENT, DRAWN = 'student 0.95', 'bootstrap over images 0.95'
PAIR = [{'label': 'first'}, {'label': 'second'}]
CURVE = {'': 0.0, '_low': -0.05, '_high': 0.05}
"""An interval of ± .05 by the ends of its arrays' names."""


def number(value: float, half: float = 0.02, interval: str = EXACT, n: int = 200) -> Number:
  return Number(value, value - half, value + half, n, interval)


def made(
  study: str,
  numbers: dict[str, Number],
  tables: dict[str, Table] | None = None,
  arrays: dict[str, Any] | None = None,
  classifier: Any = PAIR,
  **settings: Any,
) -> Results:
  given = {name: np.asarray(values) for name, values in (arrays or {}).items()}
  own = {'confidence': 0.95, **settings}
  return Results(study, classifier, {}, own, numbers, tables or {}, given)


def both(**by_name: tuple[float, float]) -> dict[str, Number]:
  """Returns a number of each of the pair; __ in a name stands for a slash."""
  return {
    f'{label}/{name.replace("__", "/")}': number(value)
    for name, values in by_name.items()
    for label, value in zip(('first', 'second'), values, strict=True)
  }


def comparison(*rows: tuple[str, float], columns: tuple[str, ...] = ('first', 'second', 'view')):
  ends = ('error, second - first', 'low', 'high', 'McNemar p', 'significant')
  return Table(
    (*columns, *ends),
    [['first', 'second', view, d, d - 0.05, d + 0.05, 0.01, abs(d) > 0.05] for view, d in rows],
  )


def results() -> dict[str, Results]:
  """Returns results by study."""
  of = (_of_classes, _of_corruptions, _of_attacks_and_bands, _of_heat_maps)
  return {each.study: each for group in of for each in group()}


def _of_classes() -> list[Results]:
  return [
    made(
      'accuracy',
      both(top1_accuracy=(0.9, 0.8)),
      {
        'comparison': Table(
          ('first', 'second', 'b', 'c', 'difference', 'low', 'high', 'p'),
          [['first', 'second', 30, 10, -0.1, -0.15, -0.05, 0.001]],
        ),
        'by_class': Table(
          ('classifier', 'class', 'images', 'accuracy', 'low', 'high', 'most often taken for'),
          [
            [label, name, 100, value, value - 0.1, value + 0.1, 'dog']
            for label in ('first', 'second')
            for name, value in (('cat', 0.7), ('dog', 0.9))
          ],
        ),
      },
    ),
    made(
      'calibration',
      {
        **both(ece__clean=(0.1, 0.2), ece__official=(0.2, 0.3)),
        **both(brier__clean=(0.1, 0.2), aurc__clean=(0.1, 0.2)),
        'second/ece_difference/clean': number(0.1, interval=DRAWN),
        **both(overconfidence__clean=(0.01, -0.1), overconfidence__official=(0.15, 0.0)),
      },
    ),
    made(
      'video_pm_k',
      {
        **both(accuracy_anchor=(0.8, 0.7), accuracy_pm_10=(0.6, 0.6), drop_pm_10=(0.2, 0.1)),
        **both(accuracy_static=(0.6, 0.5)),
        'second/drop_difference_pm_10': number(-0.1, interval=PAIRED),
        'fit_slope': number(0.9, 0.1),
        'fit_intercept': number(-0.1, 0.1),
      },
      {
        'comparison': Table(
          ('first', 'second', 'frames', 'b', 'c', 'difference', 'low', 'high', 'p'),
          [['first', 'second', 'pm-10', 9, 9, 0.0, -0.05, 0.05, 1.0]],
        )
      },
    ),
  ]


def _of_corruptions() -> list[Results]:
  return [
    made(
      'tradeoff',
      {
        'second/slope': number(-0.5, 0.1, DRAWN),
        'second/intercept': number(0.3, 0.05, DRAWN),
        'second/residual': number(0.1, 0.02, DRAWN),
        'second/slope_over_corruptions': number(-0.5, 0.6, 'student over corruptions 0.95', 15),
        'second/accuracy_change/clean': number(0.0, interval=PAIRED),
        'second/accuracy_change/fog': number(0.4, interval=PAIRED),
        'second/accuracy_change/snow': number(-0.1, interval=PAIRED),
      },
      arrays={
        'share': np.linspace(0.04, 0.7, 25),
        **{
          f'second/line{end}': np.linspace(0.28, -0.05, 25) + shift for end, shift in CURVE.items()
        },
      },
    )
  ]


def _of_attacks_and_bands() -> list[Results]:
  return [
    made(
      'attack_error',
      {
        **both(clean_error=(0.1, 0.1), attack_error=(0.9, 0.3)),
        **both(high_frequency__clean=(0.1, 0.1), high_frequency__pgd=(0.3, 0.4)),
      },
      {'comparison': comparison(('clean', 0.0), ('epsilon 0.03137', -0.6))},
      attacks=['pgd'],
      norm='linf',
      epsilon=8 / 255,
    ),
    made(
      'fourier_attack',
      both(clean_error=(0.1, 0.1), error_1_query=(0.5, 0.3), error_10_queries=(0.9, 0.6)),
      {'comparison': comparison(('clean', 0.0), ('1 query', -0.2), ('10 queries', -0.3))},
      norm=24.0,
      queries=10,
    ),
    made(
      'band_noise',
      both(clean_error=(0.1, 0.1), error__low_pass_3=(0.4, 0.3), error__high_pass_5=(0.2, 0.6)),
      {'comparison': comparison(('clean', 0.0), ('low_pass_3', -0.1), ('high_pass_5', 0.4))},
      norm=8.0,
    ),
    made(
      'filtered_accuracy',
      both(
        clean_accuracy=(0.9, 0.9),
        accuracy__low_pass_3=(0.3, 0.5),
        accuracy__low_pass_5=(0.6, 0.8),
        accuracy__high_pass_5=(0.2, 0.1),
      ),
      {'comparison': comparison(('low_pass_3', 0.2), ('high_pass_5', -0.1))},
    ),
  ]


def _of_heat_maps() -> list[Results]:
  error = np.full((5, 5), 0.1)
  error[1, 4] = error[3, 0] = 0.5
  maps = {
    'frequency_y': np.arange(5) - 2,
    'frequency_x': np.arange(5) - 2,
    'first/error': error,
    'second/error': error.T,
    **{f'second/difference{end}': error.T - error + shift for end, shift in CURVE.items()},
    'second/difference_significant': error != error.T,
  }
  return [
    made(
      'fourier_heatmap',
      {
        **both(clean_error=(0.1, 0.1), error_low_frequencies=(0.2, 0.4)),
        **both(error_high_frequencies=(0.6, 0.3)),
        'second/difference_all_frequencies': number(-0.21, 0.03, PAIRED),
      },
      arrays=maps,
      norm=4.0,
    ),
    made(
      'fourier_preview',
      {
        **both(clean_error=(0.1, 0.1)),
        **both(sensitivity_per_cell__low=(3.0, 1.0), sensitivity_per_cell__high=(0.6, 1.0)),
      },
    ),
  ]
