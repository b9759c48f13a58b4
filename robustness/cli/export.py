"""`robustness export`: results of a finished run, in the formats of papers, hubs and trackers.

robustness export WORKDIR --to=methods
robustness export WORKDIR --to=hub --out=DIR --dataset=ACCOUNT/NAME --task=ID
robustness export WORKDIR --to=wandb --project=NAME

  `methods` prints a paragraph for a paper: what is measured, what varies, which interval, n, seeds,
  hardware. `hub` writes, for the repository of a model, DIR/.eval_results/NAME.yaml, which the hub
  reads, and DIR/robustness.md, a section for its model card. `wandb` and `mlflow` send the log of
  the trainings and the results to a tracker, a run a classifier; sent again, what is new since.
  docs/table.md shows more.
"""

import argparse
import dataclasses
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustness.cli import new_parser, trackers, verification
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.core.plain_characters import escaped
from robustness.core.settings import choice
from robustness.core.typing import Facts
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import facets_of, select
from robustness.present import methods, side_by_side, tables
from robustness.present.notation import MINUS, value_text, words_with_condition
from robustness.present.phrases import data_words
from robustness.present.selection import overall_rows
from robustness.results import TASK, Results
from robustness.workdirs import finished_workdir

FORMATS = ('hub', 'methods', *trackers.TRACKERS)
_ID = re.compile(r'\w(?:[\w.-]*\w)?(?:/\w(?:[\w.-]*\w)?)?')
"""Matches an id of a hub, ACCOUNT/NAME or NAME; it is also the name of a file."""


def main(arguments: Sequence[str]) -> int:
  """Exports a finished run in the format that `--to` names; returns 0.

  `--to=methods` prints a paragraph for a paper. `--to=hub` writes files for a model hub.
  `--to=wandb` and `--to=mlflow` send the log to this tracker.

  Args:
    arguments: the command line after `robustness export`.

  Raises:
    InputError: a flag is wrong, or the workdir is unfinished or damaged.
  """
  options = _parser().parse_args(arguments)
  choice('--to', options.to, FORMATS)
  path, config, environment = finished_workdir.find(options.workdir)
  if options.to in trackers.TRACKERS:
    return track(path, options.to, options.project, config)
  results = Results.read(path)
  if options.to == 'methods':
    if options.classifier:
      choice('--classifier', options.classifier, results.labels)
    verification.note_unverifiable(path, str(path))
    print(methods.paragraph(results, environment, options.classifier))
    print('\nSettings:', *methods.settings(results, environment), sep='\n')
    return 0
  label = _check_hub_options(options, results.labels)
  # Values that the records do not reproduce. With several folders of results, one for each seed for
  # example, the text about the first one is enough: it is the note that is printed.
  unverified = list(verification.note_unverifiable(path, str(path)).values())[:1]
  files = {'robustness.md': card(results, label, environment, unverified)}
  if options.dataset:
    quantity, row = estimate(results, label, options.quantity, options.at)
    data = '; '.join([data_words(results.data), *unverified])
    entry = hub_entry(quantity, row, options, data, environment)
    files[f'.eval_results/{options.dataset.rpartition("/")[2]}.yaml'] = entry
  for name, text in files.items():
    (options.out / name).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out / name, text.encode())
    print(options.out / name)
  return 0


def _check_hub_options(options: argparse.Namespace, labels: Sequence[str]) -> str:
  """Checks the flags of an export to a model hub, and returns the classifier's label.

  Args:
    options: the flags. `--classifier` may be left out if the run has one classifier.
    labels: labels of the classifiers of the run.

  Raises:
    InputError: flags are missing or invalid, or the run has no such classifier.
  """
  if options.out is None or bool(options.dataset) != bool(options.task):
    raise InputError(
      'robustness export --to=hub needs --out=DIR, and --dataset and --task together: the ids of a '
      'benchmark of the hub.'
    )
  for key, name in (('dataset', options.dataset), ('task', options.task)):
    if name and not _ID.fullmatch(name):
      raise InputError(
        f'--{key} is {name!r:.80}: an id of the hub has letters, digits, and _ . - / between them.'
      )
  if options.out.is_file():
    raise InputError(f'--out is {options.out}, a file: name a folder.')
  label = options.classifier or (labels[0] if len(labels) == 1 else '')
  if label not in labels:
    raise InputError(f'--classifier is {label!r}: a hub has one model; {nearest(label, labels)}.')
  return label


def track(path: pathlib.Path, to: str, project: str, config: Facts) -> int:
  """Sends the log of each classifier to an experiment tracker and prints the URLs; returns 0.

  Args:
    path: the workdir.
    to: name of the tracker, 'wandb' or 'mlflow'.
    project: name of the project or experiment.
    config: the config of the run.
  """
  try:
    folders = sorted(log.parent for log in path.glob(f'seed*/{trackers.LOG}'))
    # With several seeds the workdir itself gets a log, of all seeds, only after the last seed.
    if not folders or (path / trackers.LOG).is_file():
      folders = [path, *folders]
    for folder in folders:
      for log in trackers.logged(folder):
        if folder != path:  # the name of a seed's log begins with its folder alone
          log = log._replace(name=f'{path.name} {log.name}')
        print(f'{log.name}: {trackers.TRACKERS[to](log, project, path, config)}')
  except ModuleNotFoundError as error:
    raise InputError(f'--to={to} needs {error.name}: pip install {to}.') from error
  except InputError:
    raise
  except Exception as error:  # trackers fail in their own ways; the cause is chained and quoted
    reason = str(error).partition('\n')[0] or type(error).__name__
    raise InputError(f'{to} refused what was sent: {reason}') from error
  return 0


def estimate(results: Results, label: str, name: str, at: str) -> tuple[Quantity, pd.Series]:
  """Returns the single estimate of a classifier to send to a hub, with its quantity.

  Args:
    results: results of a finished run.
    label: label of the classifier.
    name: name of a quantity, such as 'error'. '' takes the first main result of the study.
    at: A condition, such as 'corruption=fog,severity=3'. '' takes the value over all conditions.

  Returns:
    (quantity, row of the table of results).

  Raises:
    InputError: no estimate or several fit, or the name or condition is unknown.
  """
  declared = {quantity.name: quantity for quantity in results.quantities}
  headlines = [quantity.name for quantity in results.quantities if quantity.headline]
  if not name:
    name = headlines[0] if headlines else results.quantities[0].name
  choice('--quantity', name, declared)
  table = results.over_seeds.table
  table = table[table.classifier == label]
  condition = _parse_condition(table, declared[name], at)
  rows = overall_rows(table, declared[name])
  if condition:
    rows = select(table, name, '', **condition)
  rows = rows[(rows.versus == '') & rows['value'].notna()]  # no differences from a baseline
  if len(rows) != 1:
    of_quantity = table[(table['quantity'] == name) & (table.versus == '')]
    facets = [facet for facet in facets_of(of_quantity) if of_quantity[facet].notna().any()]
    place = f'at {at}' if at else 'over all'
    raise InputError(
      f'{len(rows)} estimates of {name} are {place}, and a hub takes '
      f'one: give --at=FACET=VALUE,... with facets of {", ".join(facets) or "none"}, or another '
      f'--quantity of {", ".join(declared)}.'
    )
  row = rows.iloc[0]
  # Tasks of a battery may declare a quantity of the same name in other words.
  results_of_task = results.by_task.get(row.get(TASK), results)
  return next(quantity for quantity in results_of_task.quantities if quantity.name == name), row


def _parse_condition(table: pd.DataFrame, quantity: Quantity, at: str) -> dict[str, Any]:
  """Parses a condition such as 'corruption=fog,epsilon=8/255' into {column: value}.

  A number may be written as reports print it, '8/255', or in full.

  Args:
    table: table of results, which must have these columns and values.
    quantity: the quantity, which knows how reports print its values.
    at: the condition.

  Raises:
    InputError: the table has no such column or value.
  """
  condition: dict[str, Any] = {}
  words = re.split(',(?=[^,=]+=)', at)  # at the commas before FACET=; values may have commas
  for word in filter(None, words):
    facet, _, text = word.partition('=')
    choice('--at', facet, facets_of(table))
    values = list(table[facet].dropna().unique())
    printed = {value_text(quantity.facet(facet), v).replace(MINUS, '-'): v for v in values}
    value_by_text = printed | {str(value): value for value in values}
    if text not in value_by_text:
      raise InputError(f'--at={facet}={text}: {nearest(text, printed)}.')
    condition[facet] = value_by_text[text]
  return condition


def hub_entry(
  quantity: Quantity, row: pd.Series, options: argparse.Namespace, data: str, environment: Facts
) -> str:
  """Returns an estimate as YAML for a model hub, with dataset, task, value, date and notes.

  Args:
    quantity: the quantity.
    row: the row of the table of results.
    options: flags of the command: `dataset`, `task`, `url`, and `percent`.
    data: the images in words, for the notes.
    environment: version ('robustness') and date ('started') of the run.

  Raises:
    InputError: `--percent` is set for a quantity without percent.
  """
  if options.percent and quantity.scale == 1:
    raise InputError(
      f'--percent is for what is printed in percent, and {quantity.name} is not: leave it out.'
    )
  scale = 100.0 if options.percent else 1.0
  low, high = (f'{scale * row[end]:.6g}' for end in ('low', 'high'))
  interval = f'{100 * row.confidence:g} % interval {low} to {high} ({row.method})'
  words = words_with_condition(quantity, row, facets_of(row.to_frame().T))
  if quantity.scale > 1:  # reports print it in percent, so that the unit is not obvious
    words = f'{words}, {"percent" if options.percent else "a fraction"}'
  notes = [
    words,
    row.note,
    '' if np.isnan(row.low) else interval,
    f'n = {row.n} observations of {row.clusters} independent units',
    data,
    f'classifier-robustness {environment.get("robustness", "")}',
  ]
  value = float(f'{scale * row.value:.6g}')  # rounded to six significant digits
  note = json.dumps(escaped('; '.join(filter(None, notes))), ensure_ascii=False)
  lines = [
    '- dataset:',
    f'    id: {json.dumps(options.dataset)}',
    f'    task_id: {json.dumps(options.task)}',
    f'  value: {np.format_float_positional(value, trim="0")}',
    f'  date: "{str(environment.get("started", ""))[:10]}"',
  ]
  if options.url:
    lines += ['  source:', f'    url: {json.dumps(options.url)}']
  return '\n'.join([*lines, f'  notes: {note}', ''])


def card(results: Results, label: str, environment: Facts, unverified: Sequence[str] = ()) -> str:
  """Returns a section of a model card on one classifier, in Markdown.

  The section has the main results with intervals, and the methods and settings.

  Args:
    results: results of a finished run.
    label: label of the classifier.
    environment: version and machine of the run.
    unverified: sentences about values that the saved predictions do not reproduce.
  """
  rows = results.table[results.table.classifier == label]
  tasks = dataclasses.replace(results, table=rows).over_seeds.by_task
  table, _ = side_by_side.arrange(tasks, rows=['quantity'], columns=['classifier'], intervals=True)
  paragraph = tables.markdown_text(methods.paragraph(results, environment, label))
  lines = [f'* {tables.markdown_text(line)}' for line in methods.settings(results, environment)]
  settings = '\n'.join(['Settings:', '', *lines])
  remarks = ''.join(f'\n{tables.markdown_text(reason)}.\n' for reason in unverified)
  return f'## Robustness\n\n{tables.to_markdown(table)}\n{paragraph}\n\n{settings}\n{remarks}'


def _parser() -> argparse.ArgumentParser:
  """Returns the parser of the command line."""
  parser = new_parser('robustness export', __doc__)
  add = parser.add_argument
  add('workdir', metavar='WORKDIR', help='workdir of a finished run')
  add('--to', required=True, metavar='FORMAT', help=', '.join(FORMATS))
  add('--out', type=expanded, metavar='DIR', help='where the files for a hub go')
  add('--classifier', default='', metavar='LABEL', help='label of the classifier, of several')
  add('--dataset', default='', metavar='ACCOUNT/NAME', help='the benchmark data set on the hub')
  add('--task', default='', metavar='ID', help='the id of its task, from its eval.yaml')
  add('--quantity', default='', metavar='NAME', help='quantity in results.csv (first headline)')
  add('--at', default='', metavar='FACET=VALUE,...', help='which estimate, where there are several')
  add('--percent', action='store_true', help='a share or mCE in percent, else a fraction')
  add('--url', default='', help='where the run is published')
  add('--project', default='robustness', metavar='NAME', help="tracker's project (robustness)")
  return parser
