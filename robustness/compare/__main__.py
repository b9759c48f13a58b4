"""`python -m robustness.compare`: finished workdirs of the same study or battery, side by side.

python -m robustness.compare WORKDIR WORKDIR --out=DIR

  Writes comparison.csv, results.json, results.npz, figures and report.html to DIR: accuracy of
  every classifier in every group of views, its difference from the first one (paired where both
  were shown the same images), effective robustness where there are enough classifiers, and the
  study's own findings of all of them together, such as maps of differences. LABEL=WORKDIR names
  one. docs/comparing.md says how each number is made.
"""

from __future__ import annotations

import argparse
import csv
import io
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence

import pandas as pd

from robustness import summaries
from robustness.compare import comparison, entries
from robustness.compare.comparison import Compared
from robustness.core import workdir
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.estimates.quantity import ACCURACY
from robustness.estimates.table import SUBJECT, assemble, facets_of, with_facet
from robustness.evaluation.finished import SINGLE
from robustness.report import text
from robustness.report.publish import publish
from robustness.results import PART, Results, Table
from robustness.summaries.joined import Joined

PROGRAM = 'python -m robustness.compare'
CSV_NAME = 'comparison.csv'
SHOWN = ('views', 'classifier', 'accuracy', 'minus the first', 'p', 'significant', 'paired')


def main(arguments: Sequence[str]) -> int:
  """Compares, prints the table and where it lies; returns 0, or 2 for bad input."""
  try:
    given = _parser().parse_args(arguments)
    command = shlex.join([*PROGRAM.split(), *arguments])
    results = run(given.workdirs, given.out, given.common, command)
  except InputError as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  parts = ('part',) if len(results.data) > 1 else ()
  for line in text.lines(_columns(results.tables['comparison'], (*parts, *SHOWN))):
    print(line)
  print(f'written to {given.out}')
  return 0


def run(
  workdirs: Sequence[str], out: pathlib.Path, common: bool = False, command: str = ''
) -> Results:
  """Compares workdirs and writes what is found.

  Args:
    workdirs: paths, or LABEL=PATH.
    out: the folder that is written; not one of the workdirs.
    common: compares runs that share a part of their images on that part.
    command: what was typed.

  Raises:
    InputError: see `entries.read` and `pairing.pair`.
  """
  if (out / workdir.CONFIG).exists():
    raise InputError(f'--out is {out}, which is a workdir: give a folder of its own.')
  parts = entries.read(workdirs)
  baseline = _whole(parts)[0].label
  compared = {part: comparison.compare(part, of, common, baseline) for part, of in parts.items()}
  environment = workdir.environment(0, command)
  config = {'workdirs': list(workdirs), 'common': common}
  together, figures, studies = {}, {}, {}
  for part, of in compared.items():
    if of.together:
      name = part or 'study'
      together[name], studies[name] = of.together, parts[part][0].finished.study
      figures[name] = publish(out / 'parts' / name, of.together, studies[name], environment, config)
  results = _results(compared, together, parts)
  joined = Joined(None, studies, together)
  publish(out, results, joined, environment, config, summaries.captioned(figures))
  write_atomically(out / CSV_NAME, _csv(results.tables['comparison']).encode())
  return results


def _results(
  compared: Mapping[str, Compared],
  together: Mapping[str, Results],
  parts: Mapping[str, Sequence[entries.Entry]],
) -> Results:
  """Returns the table of all parts, and below it the studies' own findings."""
  whole = _whole(parts)
  reasons = [[part or 'study', of.why_not] for part, of in compared.items() if of.why_not]
  joined = summaries.join(None, together, {}) if together else None
  declared = {ACCURACY: None, comparison.EFFECTIVE: None}
  declared |= dict.fromkeys(joined.quantities if joined else ())
  return Results(
    'comparison',
    [{'label': entry.label, 'workdir': str(entry.finished.folder)} for entry in whole],
    {part or 'study': of[0].finished.results.data for part, of in parts.items()},
    {'parts': [part for part in parts if part != SINGLE], 'baseline': whole[0].label},
    joined.numbers if joined else {},
    {
      'comparison': comparison.table(compared),
      **({'not compared by the study itself': Table(('part', 'why'), reasons)} if reasons else {}),
      **({k: v for k, v in joined.tables.items() if k != 'parts'} if joined else {}),
    },
    table=_estimates(compared, joined),
    quantities=tuple(declared),
  )


def _estimates(compared: Mapping[str, Compared], joined: Results | None) -> pd.DataFrame:
  """Returns the compared accuracies, and what the studies find beside them."""
  own = assemble([with_facet(of.table, PART, part or 'study') for part, of in compared.items()])
  if joined is None:
    return own
  both = pd.concat([table.astype(object) for table in (own, joined.table)])
  keys = [*SUBJECT, *facets_of(both)]
  return assemble([both[~both.duplicated(keys)]])


def _whole(parts: Mapping[str, Sequence[entries.Entry]]) -> Sequence[entries.Entry]:
  """Returns the classifiers of the part that has most: some are left out of some parts."""
  return max(parts.values(), key=len)


def _columns(table: Table, names: Sequence[str]) -> Table:
  places = [list(table.columns).index(name) for name in names]
  return Table(names, [[row[place] for place in places] for row in table.rows])


def _csv(table: Table) -> str:
  buffer = io.StringIO()
  writer = csv.writer(buffer, lineterminator='\n')
  writer.writerow(table.columns)
  writer.writerows(['' if value is None else value for value in row] for row in table.rows)
  return buffer.getvalue()


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog=PROGRAM, description='Compares finished workdirs.')
  parser.add_argument('workdirs', nargs='+', metavar='WORKDIR', help='a workdir, or LABEL=WORKDIR')
  parser.add_argument('--out', type=pathlib.Path, required=True, help='where the comparison goes')
  parser.add_argument(
    '--common',
    action='store_true',
    help='compare runs that share a part of their images on that part alone',
  )
  return parser


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
