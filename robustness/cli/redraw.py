"""`robustness report WORKDIR`: figures and reports again, from the results of a finished run.

robustness report WORKDIR [--study=FILE.py:NAME] [--pdf]

  For a stopped run it lists what is missing, and the command that resumes it. No
  Python file that the workdir names is run: a study in such a file is drawn by the default figures,
  unless you type --study. Values are computed again from the records where these are present.
"""

import functools
import pathlib
from collections.abc import Mapping, Sequence

from robustness.cli import new_parser, verification
from robustness.config.recorded import recorded
from robustness.core.errors import InputError
from robustness.core.typing import Facts
from robustness.evaluation import recorded_study
from robustness.evaluation.study import Study
from robustness.present import page
from robustness.present.publish import Drawn, Presented, illustrate, with_task_captions
from robustness.results import REBUILD, SINGLE, Results
from robustness.workdirs import finished_workdir, workdir


def main(arguments: Sequence[str]) -> int:
  """Draws figures and reports of a finished workdir again; returns 0.

  Args:
    arguments: the command line after `robustness report`.

  Raises:
    InputError: the results of the workdir cannot be drawn.
  """
  parser = new_parser('robustness report', __doc__)
  parser.add_argument('workdir', metavar='WORKDIR', help='a finished workdir')
  parser.add_argument('--pdf', action='store_true', help='write the figures as PDF too')
  recorded_study.add_flag(parser)
  options = parser.parse_args(arguments)
  print(redraw(options.workdir, options.study, options.pdf))
  return 0


def redraw(directory: str, study_file: str = '', pdf: bool = False) -> pathlib.Path:
  """Writes the figures and reports of a finished run again.

  Args:
    directory: the workdir.
    study_file: `FILE.py:NAME`, a Python file to run for a user-defined study; '' runs none.
    pdf: whether figures are written as PDF too.

  Returns:
    The path of the report.

  Raises:
    InputError: the run is unfinished, its results were altered, the existing report has more rows
      than the results, or another process works in the workdir.
  """
  path, config, environment = finished_workdir.find(directory)
  sections = finished_workdir.study_sections(config, path)
  recorded_study.refuse_other_study(study_file, list(sections.values()))
  seeds = finished_workdir.seeds_of(config, path)
  run_folders = [path / workdir.seed_folder(seed) for seed in seeds] or [path]
  # {folder of a seed, or the workdir if there are no seeds: {task: folder of its results}}
  task_folders: dict[pathlib.Path, dict[str, pathlib.Path]] = {}
  all_folders: list[pathlib.Path] = []
  for folder in run_folders:
    left_out = finished_workdir.left_out(folder)
    tasks = [task for task in sections if task not in left_out]
    task_folders[folder] = {task: workdir.task_folder(folder, task) for task in tasks}
    all_folders += task_folders[folder].values()
  all_folders += [*run_folders, path]
  # Nothing is written if any results are missing, altered, or fewer than a report shows.
  finished_workdir.refuse_unfinished(path, all_folders, environment['command'])
  with workdir.held(path):
    # {folder: text about values that its records do not reproduce}
    unverified = verification.note_unverifiable(path, str(path), study_file)
    _refuse_less(all_folders)
    draw = functools.partial(_draw, unverified, environment, recorded(config), pdf)
    # With seeds the workdir itself comes last, with the report of the means over seeds.
    for folder in dict.fromkeys([*run_folders, path]):
      studies, whole_run = finished_workdir.studies_and_presentation(
        path, Results.read(folder), config, study_file
      )
      folders_by_task = task_folders.get(folder, {})  # {} for the means over seeds
      drawn = {task: draw(subfolder, studies[task]) for task, subfolder in folders_by_task.items()}
      if SINGLE not in folders_by_task:  # the folder of a single study is drawn already
        # The report of a battery shows the figures of its tasks too.
        draw(folder, whole_run, with_task_captions(drawn))
    return path / page.NAME


def _draw(
  unverified: Mapping[pathlib.Path, str],
  environment: Facts,
  settings: Facts,
  pdf: bool,
  folder: pathlib.Path,
  presented: Presented,
  figures_of_tasks: Drawn = (),
) -> Drawn:
  """Writes the figures and the report of the results in a folder, and returns the figures.

  Args:
    unverified: {folder: text about values that its records do not reproduce}.
    environment: versions and command of the run, for the report.
    settings: the config of the run, for the report.
    pdf: whether figures are written as PDF too.
    folder: folder with results.json.
    presented: the study, or another object that has title, figures and findings.
    figures_of_tasks: figures of single studies, which the report of a battery shows too.

  Raises:
    InputError: the results cannot be drawn.
  """
  text, results = unverified.get(folder, ''), Results.read(folder)
  if isinstance(presented, Study):
    results = results.with_facets(presented.described_facets)
  try:
    return illustrate(
      folder, results, presented, environment, settings, figures_of_tasks, text, pdf
    )
  except InputError:
    raise
  except (AttributeError, LookupError, TypeError, ValueError) as error:
    raise InputError(
      f'{folder}: these results cannot be drawn ({error!r}): results.json or results.npz was '
      f'altered, or is of another version. {REBUILD}'
    ) from error


def _refuse_less(folders: Sequence[pathlib.Path]) -> None:
  """Raises InputError if a report has more rows in a table than the results next to it.

  Drawing the report again would lose these rows.

  Args:
    folders: folders with a report and results.
  """
  for folder in dict.fromkeys(folders):
    if names := page.shortened_tables(folder, Results.read(folder)):
      raise InputError(
        f'{folder / page.NAME} has more rows of {", ".join(names[:3])} than the results beside it, '
        f'which were damaged or altered, and is not replaced. {REBUILD} Or delete the report.'
      )
