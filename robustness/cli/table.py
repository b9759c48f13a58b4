"""`robustness table`: finished runs as one table for a paper, a README or a spreadsheet.

robustness table WORKDIR --format=latex
robustness table WORKDIR WORKDIR --show=clean,mCE,heat_map,attack
robustness table first=WORKDIR second=WORKDIR --quantity=error --columns=corruption --intervals

  Rows and columns are `classifier`, `quantity`, or facets of results.csv such as corruption and
  severity; by default the headline quantities of each classifier. The best of the classifiers is
  bold. docs/table.md shows more.
"""

import argparse
import dataclasses
import functools
import itertools
import sys
from collections.abc import Mapping, Sequence

from robustness.cli import new_parser, verification
from robustness.comparison import entries
from robustness.core.errors import InputError
from robustness.core.settings import choice, differing_keys
from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.evaluation import recorded_study
from robustness.present import side_by_side, tables
from robustness.results import DIGEST_OF_IMAGES, Results

FORMATS = {'latex': tables.to_latex, 'markdown': tables.to_markdown, 'csv': tables.to_csv}


def main(arguments: Sequence[str]) -> int:
  """Prints a table of estimates from finished workdirs, and notes on stderr; returns 0.

  Args:
    arguments: the command line after `robustness table`.

  Raises:
    InputError: a flag is wrong, or the workdirs cannot be in one table.
  """
  options = _parser().parse_args(arguments)
  choice('--format', options.format, FORMATS)
  quantities, rows, columns = options.quantity, options.rows, options.columns
  show = options.show
  if show and (quantities or rows or columns):
    raise InputError('--show names all columns: leave out --quantity, --rows and --columns.')
  tasks = read(options.workdirs, options.study)
  table, best = side_by_side.arrange(tasks, quantities, rows, columns, options.intervals, show)
  print(FORMATS[options.format](table, best), end='')
  selections = side_by_side.named_selections(tasks, quantities, (*rows, *columns), show)
  for note in side_by_side.notes_of(selections):
    print(f'note: {note}', file=sys.stderr)
  return 0


def read(workdirs: Sequence[str], study_file: str = '') -> dict[str, Results]:
  """Joins the results of finished workdirs, for one table.

  Classifiers of all workdirs get distinct labels. Runs of several seeds contribute their means.
  Studies that some workdirs lack are left out. Ratios to the first classifier, such as mCE, are
  left out if the first classifiers differ.

  Prints notes on what is left out, on runs with other images or settings than the first, and on
  values that saved predictions do not reproduce.

  Args:
    workdirs: finished workdirs, PATH or LABEL=PATH.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.

  Returns:
    {name of the study in the battery: results of all classifiers}; the name is `SINGLE` for runs of
    a single study.

  Raises:
    InputError: a workdir has no results or contradicts its saved predictions. Also if workdirs are
      of different studies, have no study in common, or measure different quantities of the same
      name.
  """
  runs: dict[str, Results] = {}
  tasks_by_run: dict[str, dict[str, Results]] = {}
  study_names: dict[str, dict[str, str]] = {}  # {name of the run: {task: name of the study}}
  for name, path in entries.named_workdirs(workdirs).items():
    results = Results.read(path)
    runs[name], tasks_by_run[name], study_names[name] = results, {}, {}
    for task, results_of_task in results.over_seeds.by_task.items():
      study = results_of_task.study or results.study
      tasks_by_run[name][task] = dataclasses.replace(results_of_task, study=study)
      study_names[name][task] = study
    verification.note_unverifiable(path, name, study_file)
  labels_by_run = {name: set(results.labels) for name, results in runs.items()}
  labels = entries.distinct_labels(labels_by_run, entries.typed_labels(workdirs))
  results_by_task = {}
  for task in entries.common_tasks(study_names):
    results_by_run = {name: tasks[task] for name, tasks in tasks_by_run.items()}
    digests = {name: results.image_digest(task) for name, results in runs.items()}
    results_by_task[task] = _join_runs(task, results_by_run, labels, digests)
  return results_by_task


def _join_runs(
  task: str,
  results_by_run: Mapping[str, Results],
  labels: Mapping[tuple[str, str], str],
  digests: Mapping[str, str],
) -> Results:
  """Joins the results of several runs of the same study.

  Args:
    task: name of the study in the battery; '' for a single study.
    results_by_run: {name of a run: its results}.
    labels: {(name of a run, label of a classifier): distinct label}.
    digests: {name of a run: digest of its images, or ''}.

  Raises:
    InputError: the runs are of different studies, or measure different quantities of the same name.
  """
  first = next(iter(results_by_run.values()))
  prefix = f'{task}: ' if task else ''  # of notes
  declared: dict[str, Quantity] = {}  # by the first run that has the quantity
  for quantity in itertools.chain(*(results.quantities for results in results_by_run.values())):
    declared.setdefault(quantity.name, quantity)
  _check_comparable(prefix, results_by_run, declared, digests)
  ratios = _ratios_to_different_baselines(results_by_run)
  if ratios:
    note = f'each run divides {" and ".join(ratios)} by its own first classifier: left out'
    print(f'note: {prefix}{note}', file=sys.stderr)
  tables, classifiers = [], []
  for name, results in results_by_run.items():
    new_labels = {label: labels[name, label] for label in results.labels}
    classifiers += [{'label': label} for label in new_labels.values()]
    table = results.table[~results.table['quantity'].isin(ratios)]
    versus = table.versus.replace(new_labels)  # '' stays
    tables.append(table.assign(classifier=table.classifier.map(new_labels), versus=versus))
  quantities = tuple(quantity for name, quantity in declared.items() if name not in ratios)
  return dataclasses.replace(
    first, classifiers=classifiers, table=assemble(tables), quantities=quantities
  )


def _check_comparable(
  prefix: str,
  results_by_run: Mapping[str, Results],
  declared: Mapping[str, Quantity],
  digests: Mapping[str, str],
) -> None:
  """Prints a note for each run with other images or settings than the first run.

  Args:
    prefix: beginning of notes, such as 'noise: ' for the study 'noise' of a battery.
    results_by_run: {name of a run: its results}.
    declared: {name: quantity}, as the first run with the quantity declares it.
    digests: {name of a run: digest of its images, or ''}.

  Raises:
    InputError: runs are of different studies. Also if settings differ and change the meaning of a
      quantity, for instance the corruptions that it averages over.
  """
  (first_name, first), *later = results_by_run.items()
  for name, other in later:
    if first.study != other.study:
      raise InputError(
        f'{first_name} is of the study {first.study} and {name} of {other.study}: give workdirs of '
        'one study.'
      )
    differing_data = differing_keys(first.data, other.data)
    digest, other_digest = digests[first_name], digests[name]
    if not differing_data and digest and other_digest:  # the data are described as equal
      differing_data = differing_keys(digest, other_digest, DIGEST_OF_IMAGES)
    differing_settings = differing_keys(first.protocol, other.protocol)
    for subject, lines in (('images', differing_data), ('settings', differing_settings)):
      if lines:
        first_lines = '; '.join(lines[:3])
        note = f'{prefix}{first_name} and {name} have other {subject} ({first_lines})'
        if subject == 'settings' and any(declared[q.name] != q for q in other.quantities):
          raise InputError(f'{note}, and other quantities: make a table of each.')
        print(f'note: {note}', file=sys.stderr)


def _ratios_to_different_baselines(results_by_run: Mapping[str, Results]) -> list[str]:
  """Returns the names of ratios, such as 'mCE', that cannot be compared between runs.

  They are ratios to the first classifier of a run. [] if the first classifier of all runs is the
  same network, measured in the same way.

  Args:
    results_by_run: {name of a run: its results}.
  """
  ratios, baselines = dict[str, None](), set[str]()
  for name, results in results_by_run.items():
    # The ratio of a baseline to itself, which has this note, shows which quantities are ratios.
    of_baseline = results.table[results.table.note.str.contains(ITSELF, regex=False)]
    ratios |= dict.fromkeys(of_baseline['quantity'])
    # the name of the run stands for an unknown network, and '' for no baseline
    network = entries.network_of(results.classifiers[0]) or name
    baselines.add(network if len(of_baseline) else '')
  return list(ratios) if len(baselines) > 1 else []


def _split_names(text: str) -> tuple[str, ...]:
  """Returns the names in the value of a flag, NAME,NAME."""
  return tuple(filter(None, text.split(',')))


def _parser() -> argparse.ArgumentParser:
  """Returns the parser of the command line."""
  parser = new_parser('robustness table', __doc__)
  add = parser.add_argument
  add('workdirs', nargs='+', metavar='WORKDIR', help='a finished workdir, or LABEL=WORKDIR')
  add('--format', default='markdown', help=f'{", ".join(FORMATS)} (markdown)')
  add_names = functools.partial(add, type=_split_names, default=(), metavar='NAME,NAME')
  add_names('--show', help='preset columns with short headings: clean, mCE, tasks')
  add_names('--quantity', help='quantities as named in results.csv (default: the headlines)')
  add_names('--rows', help='what each row stands for (default: classifier)')
  add_names('--columns', help='what each column stands for (default: quantity)')
  add('--intervals', action='store_true', help='write the interval behind each value')
  recorded_study.add_flag(parser)
  return parser
