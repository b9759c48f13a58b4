"""`robustness detection`: scores a detector on neighbor sets.

robustness detection --metadata=DIR --truth=FILE --detections=FILE --out=DIR

  mAP of detection and of localisation on the anchors and on the worst frame of each set. FILEs are
  COCO annotations (or a folder of ILSVRC's) and COCO results. Writes DIR/results.json, DIR/figures
  and DIR/report.html; with --frames=DIR also pictures of anchors and of the worst frames, and
  with --predictions=FILE the detector as a classifier, which video_pm_k.py:predictions scores.
"""

import argparse
import functools
import shlex
from collections.abc import Sequence

import pandas as pd

from robustness.cli import new_parser
from robustness.core.errors import renaming_section
from robustness.core.paths import expanded
from robustness.present.notation import Notation, value_words
from robustness.present.publish import Presentation, publish
from robustness.results import Results
from robustness.video import detection, detection_figures
from robustness.video.average_precision import Scoring
from robustness.workdirs import workdir

PROGRAM = 'robustness detection'
RESULTS = 'out', 'predictions'
"""Flags that say where results are written."""
PRESENTED = Presentation(
  'Detection on neighboring video frames', (detection.PAPER,), detection_figures.draw
)


def main(arguments: Sequence[str]) -> int:
  """Scores a detector on sets of neighboring video frames and prints the numbers; returns 0.

  Args:
    arguments: the command line after `robustness detection`.
  """
  options = _parser().parse_args(arguments)
  scoring = Scoring(options.k, options.threshold, options.recall_points, not options.neighbors_only)
  inputs = detection.read(options.metadata, options.truth, options.detections)
  # The workdir is locked to these settings: all flags but those that say where results go.
  config = {name: str(value) for name, value in vars(options).items() if name not in RESULTS}
  config['sha256'] = inputs.digest
  predictions = inputs.predictions() if options.predictions else {}
  with renaming_section('workdir', 'out'), workdir.locked(options.out):
    workdir.write_config(workdir.open_or_create(options.out, config), config)
    if options.predictions:
      workdir.write_json(options.predictions, predictions)
    results = detection.score(inputs, scoring, options.frames, options.shown)
    environment = workdir.environment(f'{PROGRAM} {shlex.join(arguments)}')
    workdir.write_json(options.out / workdir.ENVIRONMENT, environment)
    publish(options.out, results, PRESENTED, environment, config)
  print('\n'.join([*_lines(results, options.k), f'written to {options.out}']))
  return 0


def _lines(results: Results, k: int) -> list[str]:
  """Returns the lines to print: notes, then a line for each estimate.

  Args:
    results: estimates by `kind` and `k`. The table 'remarks' has a row for each kind of unusual
      boxes: (remark, number of such boxes, number of all boxes, first such box). `settings['k']` is
      the largest distance in frames between a neighbor and its anchor.
    k: the distance that the user asked for. A note says if no neighbor is that far from its anchor.
  """
  declared = {quantity.name: quantity for quantity in results.quantities}
  estimates = []
  for _, row in results.table.iterrows():
    quantity = declared[row.quantity]
    facets = [name for name in ('kind', 'k') if not pd.isna(row[name])]
    condition = ' '.join(value_words(quantity.facet(name), row[name]) for name in facets)
    estimates.append(f'{quantity.words} {condition}: {Notation(quantity).full(row)}, n = {row.n}')
  notes = []
  for remark, count, total, first in results.tables['remarks'].rows:
    if count:
      notes.append(f'note: {count} of {total} {remark}, first {first}')
  largest = results.settings['k']
  if largest < k:
    notes.append(
      f'note: --k is {k}, but no neighbor is more than {largest} frames from its anchor: '
      f'pm-{largest}'
    )
  return [*notes, *estimates]


def _parser() -> argparse.ArgumentParser:
  """Returns the parser of the command line."""
  parser = new_parser(PROGRAM, __doc__)
  needed = functools.partial(parser.add_argument, type=expanded, required=True)
  needed('--metadata', help='folder of the neighbor sets')
  needed('--truth', help='boxes: COCO annotations, or a folder of ILSVRC .xml files')
  needed('--detections', help='boxes, as COCO results')
  needed('--out', help='where the report goes')
  add = parser.add_argument
  add('--frames', default='', help='folder that the paths of the metadata begin in, for pictures')
  scores = 'file for the score of each class in each frame, that of its most confident box'
  add('--predictions', type=expanded, help=f'{scores}, for video_pm_k.py:predictions')
  add('--shown', type=int, default=4, help='sets that are pictured (default: 4)')
  add('--k', type=int, default=10, help='frames on each side (default: 10)')
  add('--threshold', type=float, default=0.5, help='least IoU (default: 0.5)')
  add('--recall_points', type=int, default=0, help='0 for the area (default), 11 or 101')
  add('--neighbors_only', action='store_true', help='the anchor cannot be the worst frame')
  return parser
