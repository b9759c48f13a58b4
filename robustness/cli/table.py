"""`robustness table`: finished runs as one table for a paper, a README or a spreadsheet.

robustness table WORKDIR --format=latex
robustness table first=WORKDIR second=WORKDIR --quantity=error --columns=corruption --intervals

  Rows and columns are `classifier`, `quantity`, or facets of results.csv such as corruption and
  severity; by default the headline quantities of each classifier. The best of the classifiers is
  bold. docs/table.md shows more.
"""

import argparse
import dataclasses
import itertools
import sys
from collections.abc import Mapping, Sequence

from robustness import comparison
from robustness.cli import verification
from robustness.cli.leaderboard import protocol_of
from robustness.core.errors import InputError
from robustness.core.settings import choice, differing_keys
from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.present import side_by_side, tables
from robustness.results import Results

FORMATS = {'latex': tables.to_latex, 'markdown': tables.to_markdown, 'csv': tables.to_csv}


def main(arguments: Sequence[str]) -> int:
  """Prints the table and returns 0; what a reader must know of the runs goes to stderr."""
  given = _parser().parse_args(arguments)
  if not given.workdirs:
    raise InputError('robustness table needs the workdir of a finished run; none is given.')
  choice('--format', given.format, FORMATS)
  quantities, rows, columns = (
    tuple(filter(None, names.split(','))) for names in (given.quantity, given.rows, given.columns)
  )
  tasks = read(given.workdirs)
  table, best = side_by_side.arranged(tasks, quantities, rows, columns, given.intervals)
  print(FORMATS[given.format](table, best), end='')
  return 0


def read(workdirs: Sequence[str]) -> dict[str, Results]:
  """Returns the results of finished workdirs (PATH, or LABEL=PATH) by task, `SINGLE` for a study.

  Classifiers of all are side by side, under distinct labels; of several seeds these are the means.
  Notes on stderr which workdirs have other images or other settings of the study, and which values
  their records do not give. Ratios to the
  first classifier of each run are left out where the runs begin with different ones.

  Raises:
    InputError: a workdir without results, or with others than its records give, or workdirs of
      different studies, or of settings that their quantities name.
  """
  found = {}
  for name, path in comparison.named_workdirs(workdirs).items():
    found[name] = Results.read(path)
    for reason in [*verification.unverifiable(path).values()][:1]:
      print(f'note: {name}: {reason}', file=sys.stderr)
  labels = comparison.distinct_labels(
    {name: set(results.labels) for name, results in found.items()},
    comparison.typed_labels(workdirs),
  )
  tasks: dict[str, dict[str, Results]] = {}
  for name, results in found.items():
    for task, own in results.over_seeds.by_task.items():
      own = own if own.study else dataclasses.replace(own, study=results.study)
      tasks.setdefault(task, {})[name] = own
  return {task: _joined(task, of, labels) for task, of in tasks.items()}


def _joined(
  task: str, several: Mapping[str, Results], labels: Mapping[tuple[str, str], str]
) -> Results:
  (first_name, first), *others = several.items()
  where, declared = f'{task}: ' if task else '', dict[str, Quantity]()
  for quantity in itertools.chain(*(own.quantities for own in several.values())):
    declared.setdefault(quantity.name, quantity)
  for name, other in others:
    if first.study != other.study:
      raise InputError(
        f'{first_name} is of the study {first.study} and {name} of {other.study}: give workdirs of '
        'one study.'
      )
    both = ('images', first.data, other.data), ('settings', protocol_of(first), protocol_of(other))
    for what, own, others_own in both:
      if lines := differing_keys(own, others_own):
        told = f'{where}{first_name} and {name} have other {what} ({"; ".join(lines[:3])})'
        if what == 'settings' and any(declared[q.name] != q for q in other.quantities):
          raise InputError(f'{told}, and other quantities: make a table of each.')
        print(f'note: {told}', file=sys.stderr)
  ratios = _ratios_to_own(several)
  if ratios:
    told = f'each run divides {" and ".join(ratios)} by its own first classifier: left out'
    print(f'note: {where}{told}', file=sys.stderr)
  renamed = []
  for name, own in several.items():
    names = {label: labels[name, label] for label in own.labels}
    ours = {
      'classifier': own.table.classifier.map(names),
      'versus': own.table.versus.replace(names),
    }
    renamed.append(own.table.assign(**ours)[~own.table['quantity'].isin(ratios)])
  return dataclasses.replace(
    first,
    classifiers=[{'label': labels[name, k]} for name, own in several.items() for k in own.labels],
    table=assemble(renamed),
    quantities=tuple(quantity for name, quantity in declared.items() if name not in ratios),
  )


def _ratios_to_own(several: Mapping[str, Results]) -> list[str]:
  """Returns the quantities that runs state as ratios to a classifier that is not the same in all:
  the first one of a run, by the digest of its weights."""
  ratios, baselines = dict[str, None](), set[str]()
  for name, own in several.items():
    itself = own.table[own.table.note.str.contains(ITSELF, regex=False)]
    ratios |= dict.fromkeys(itself['quantity'])
    baselines.add(own.classifiers[0].get('sha256', name) if len(itself) else '')
  return list(ratios) if len(baselines) > 1 else []


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    'robustness table', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  add = parser.add_argument
  add('workdirs', nargs='*', metavar='WORKDIR', help='a finished workdir, or LABEL=WORKDIR')
  add('--format', default='markdown', help=f'{", ".join(FORMATS)} (markdown)')
  add('--quantity', default='', metavar='NAME,NAME', help='of results.csv (the headlines)')
  add('--rows', default='', metavar='NAME,NAME', help='what rows are of (classifier)')
  add('--columns', default='', metavar='NAME,NAME', help='what columns are of (quantity)')
  add('--intervals', action='store_true', help='write the interval behind each value')
  return parser
