"""How often the intervals of sequential designs hold, and what share of passes they take: exactly.

python -m benchmarks.sequential_coverage [--half_widths .2 .1 .05 .03] [--confidences .95]

Each line has a half width, a confidence, the images of a round times the largest number of rounds,
the least coverage over all proportions, and the expected images at an error of .02, .1, .25 and .5
as a share of the images of the fixed design. All are computed over every path of the count.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks import timing
from robustness.estimates.fixed_width import fixed_size, plan

ERRORS = (0.02, 0.1, 0.25, 0.5)


def line(half_width: float, confidence: float) -> dict[str, str]:
  """Returns the table's line for one half width and confidence, as {head of the column: cell}.

  The least coverage is over all proportions; each share is the expected number of images of the
  sequential design at one of `ERRORS` ÷ the number of images of the fixed design.
  """
  design, fixed = plan(half_width, confidence), fixed_size(half_width, confidence)
  # in 16 parts, which takes less memory
  least_coverage = min(
    design.coverage(part).min() for part in np.array_split(design.proportions_to_test(), 16)
  )
  shares = design.expected_trials(ERRORS) / fixed
  return {
    '±': f'{half_width:g}',
    'confidence': f'{confidence:g}',
    'fixed n': str(fixed),
    'sequential n': f'{design.trials} × {design.looks}',
    'least coverage': f'{least_coverage:.4f}',
    **{f'share at {e:g}': f'{share:.2f}' for e, share in zip(ERRORS, shares, strict=True)},
  }


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints a line for each confidence and half width."""
  parser = timing.options(__doc__)
  parser.add_argument('--half_widths', type=float, nargs='+', default=[0.2, 0.1, 0.07, 0.05, 0.03])
  parser.add_argument('--confidences', type=float, nargs='+', default=[0.9, 0.95, 0.99])
  args = parser.parse_args(arguments)
  timing.print_table(line(width, level) for level in args.confidences for width in args.half_widths)


if __name__ == '__main__':
  main()
