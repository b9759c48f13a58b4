"""`robustness compare`: finished workdirs of the same study or battery, side by side.

robustness compare WORKDIR WORKDIR --out=DIR

  Writes results.csv, results.json, results.npz, figures and report.html to DIR. LABEL=WORKDIR names
  a workdir. docs/comparing.md says what is compared and how each number is made.
"""

import argparse
import dataclasses
import functools
import pathlib
import shlex
from collections.abc import Mapping, Sequence

import pandas as pd

from robustness.combined import join_tasks
from robustness.comparison.compare import EFFECTIVE, PRINTED_FACETS, WHY_NOT, compare
from robustness.comparison.entries import Entry, named_workdirs, read_entries, typed_labels
from robustness.comparison.references import with_references
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.progress import phase
from robustness.core.typing import Facts
from robustness.estimates.quantity import ACCURACY, SHARE
from robustness.estimates.table import assemble, facets_of, with_facet
from robustness.evaluation import recorded_study
from robustness.evaluation.study import Study
from robustness.present import charts, summary, text
from robustness.present.publish import Drawn, Presentation, figures_of, publish, with_task_captions
from robustness.results import SINGLE, Results
from robustness.workdirs import workdir

PROGRAM, COMPARISON = 'robustness compare', 'comparison'


def main(arguments: Sequence[str]) -> int:
  """Compares finished workdirs and prints the main results; returns 0.

  The report is written to the folder `--out`.

  Args:
    arguments: the command line after `robustness compare`.
  """
  parser = argparse.ArgumentParser(prog=PROGRAM, description='Compares finished workdirs.')
  add = parser.add_argument
  add('workdirs', nargs='+', metavar='WORKDIR', help='a workdir, or LABEL=WORKDIR')
  add('--out', type=expanded, required=True, help='where the comparison goes')
  add('--pdf', action='store_true', help='write the figures as PDF too')
  common = 'compare runs that share a part of their images on that part alone'
  add('--common', action='store_true', help=common)
  reference = 'task of batteries; gives effective robustness in others relative to its accuracy'
  add('--reference', action='append', default=[], metavar='TASK', help=reference)
  recorded_study.add_flag(parser)
  flags = parser.parse_args(arguments)
  command = shlex.join([*PROGRAM.split(), *arguments])

  with phase('estimates, figures and report'):
    results = run(
      flags.workdirs, flags.out, flags.common, command, flags.reference, flags.study, flags.pdf
    )
  for task, results_of_task in results.by_task.items():
    if task:
      print(f'{task}:')
    print(*text.summary(_keep_printed(results_of_task)), '', sep='\n')
  print(f'accuracies in every view, and figures: {flags.out}/report.html')
  return 0


def run(
  workdirs: Sequence[str],
  out: pathlib.Path,
  common: bool = False,
  command: str = '',
  references: Sequence[str] = (),
  study_file: str = '',
  pdf: bool = False,
) -> Results:
  """Compares finished workdirs and writes the comparison to a folder.

  Args:
    workdirs: finished workdirs, PATH or LABEL=PATH.
    out: the folder. Comparisons of the single studies of batteries go to its folder `tasks/`.
    common: if true, runs with different images are compared on the images that all share. If false,
      such runs raise an error.
    command: the command line, which is recorded.
    references: names of studies of a battery, for effective robustness. It is the accuracy in the
      other studies beyond the accuracy that a fit to these studies predicts.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.
    pdf: whether figures are written as PDF too.
  """
  workdir.refuse_results(out)
  entries = read_entries(named_workdirs(workdirs), study_file, typed_labels(workdirs))
  environment = workdir.environment(command)
  config = {'workdirs': list(workdirs), 'common': common}
  results, tasks = compare_tasks(entries, common, references)

  def write(folder: pathlib.Path, results: Results, figures_of_tasks: Drawn = ()) -> Drawn:
    """Writes results, figures and the report to a folder.

    Args:
      folder: the folder.
      results: the results.
      figures_of_tasks: PNG files and captions that the report shows last.

    Returns:
      The PNG files of the figures with captions.
    """
    presented = results.presentation
    assert isinstance(presented, Presentation)
    return publish(folder, results, presented, environment, config, figures_of_tasks, pdf)

  figures = {}
  for task, results_of_task in tasks.items():
    figures[task] = write(workdir.task_folder(out, task), results_of_task)
  write(out, results, with_task_captions(figures))
  return results


def compare_tasks(
  entries: Mapping[str, Sequence[Entry]], common: bool = False, references: Sequence[str] = ()
) -> tuple[Results, dict[str, Results]]:
  """Compares classifiers image by image, in one study or in each study of a battery.

  Args:
    entries: {name of the study in the battery: classifiers with their predictions}.
    common: if true, runs with different images are compared on the images that all share. If false,
      such runs raise an error.
    references: names of studies that effective robustness is relative to.

  Returns:
    (results of all studies together, {name of the study: results}). The second is {} for a single
    study.
  """
  # The first classifier is the baseline of all tasks. Tasks lack a classifier that they could not
  # measure, so it is the first one of the task with the most classifiers.
  baseline = max(entries.values(), key=len)[0].label
  tasks = {
    task: compare(entries_of_task, common, baseline) for task, entries_of_task in entries.items()
  }
  if references:
    if SINGLE in tasks:
      raise InputError('--reference names tasks of batteries, and these workdirs hold one study.')
    tasks = with_references(tasks, references)
  for task, results in tasks.items():
    results.presentation = _presentation(entries[task][0].finished.study)
  if SINGLE in tasks:
    settings = {**tasks[SINGLE].settings, 'baseline': baseline}
    return dataclasses.replace(tasks[SINGLE], study=COMPARISON, settings=settings), {}
  results = join_tasks(tasks, {'tasks': list(tasks), 'baseline': baseline}, COMPARISON)
  studies = {task: entries_of_task[0].finished.study for task, entries_of_task in entries.items()}
  results.presentation = summary.present_run('', studies)
  return results, tasks


def _keep_printed(results: Results) -> Results:
  """Returns a comparison with only the estimates that the command prints.

  These are the estimates of the study, then accuracies on clean images and over all perturbations
  (`PRINTED_FACETS`). If both are missing, all accuracies are printed. Accuracies that the study
  already reports, as a main result or as the reference of one, are left out.
  """
  is_accuracy = results.table['quantity'] == ACCURACY.name
  other_estimates, accuracies = results.table[~is_accuracy], results.table[is_accuracy]
  accuracies = _by_view(accuracies, results.settings[PRINTED_FACETS])
  quantities = [q for q in results.quantities if q != ACCURACY]
  # printed results of the study that may be accuracies under another name
  stated = [q for q in quantities if q.headline or q.name == ACCURACY.reference]
  shares = [q.name for q in stated if q.kind == SHARE and q.better == 'higher']
  headlines = other_estimates[other_estimates['quantity'].isin(shares)]
  # All accuracies in a condition, which is the values of all facets, are printed if one of them is
  # not among the headlines.
  is_new = pd.Series(~_keys(accuracies).isin(_keys(headlines)), accuracies.index)
  condition = [accuracies[name] for name in facets_of(accuracies)]
  is_printed = is_new.groupby(condition, dropna=False).transform('any')
  table = assemble([other_estimates, accuracies[is_printed]])
  return dataclasses.replace(results, table=table, quantities=(*quantities, ACCURACY))


def _by_view(accuracies: pd.DataFrame, views: Sequence[Facts]) -> pd.DataFrame:
  """Returns the accuracies on some perturbations, named in a column `view`, such as 'fog 3'.

  If there are none, all accuracies are returned unchanged.

  Args:
    accuracies: rows of the table of results.
    views: descriptions of the perturbations, such as {'corruption': 'fog', 'severity': 3}.
  """
  names = facets_of(accuracies)
  view_of_row = [row.dropna().to_dict() for _, row in accuracies[names].iterrows()]
  is_selected = [view in views for view in view_of_row]
  if not any(is_selected):
    return accuracies
  words = [' '.join(map(str, view.values())) for view in view_of_row if view in views]
  return assemble([with_facet(accuracies[is_selected].drop(columns=names), 'view', words)])


def _keys(table: pd.DataFrame) -> pd.MultiIndex:
  """Returns (classifier, versus, value, number of images) of each row of results.

  Values are rounded to 9 decimals, so that equal ones compare equal.
  """
  return pd.MultiIndex.from_frame(table[['classifier', 'versus', 'value', 'n']].round({'value': 9}))


def _presentation(study: Study) -> Presentation:
  """Returns the title and figures of a comparison.

  The figures of the study come first, then the accuracies on each perturbation.
  """
  title = ': '.join(filter(None, ('Finished runs side by side', study.title)))
  # a function of this module and not a lambda, because results are pickled with it
  return Presentation(title, study.papers, functools.partial(_draw, study))


def _draw(study: Study, results: Results) -> Mapping[str, charts.Picture]:
  """Returns the figures of a comparison, {file name: (figure, caption)}.

  The figures of the study come first, then accuracies and effective robustness. If the estimates of
  the study could not be computed, it has no figures; the results then have a table `WHY_NOT`.
  """
  figures_of_study = {} if WHY_NOT in results.tables else figures_of(study, results)
  accuracies = charts.draw(dataclasses.replace(results, quantities=(ACCURACY, EFFECTIVE)))
  return {**figures_of_study, **accuracies}
