"""`robustness compare`: finished workdirs of the same study or battery, side by side.

robustness compare WORKDIR WORKDIR --out=DIR

  Writes results.csv, results.json, results.npz, figures and report.html to DIR: accuracy of every
  classifier in every group of views, its difference from the first one (paired where both were
  shown the same images), effective robustness where there are enough classifiers, and the study's
  own findings of all of them together, such as maps of differences. LABEL=WORKDIR names one.
  docs/comparing.md says how each number is made.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from robustness import summaries, workdir
from robustness.config.battery import PARTS
from robustness.core.errors import InputError
from robustness.evaluation import compared_runs as comparison
from robustness.evaluation import entries
from robustness.evaluation.finished import SINGLE
from robustness.evaluation.study import Study
from robustness.present import charts, tables, text
from robustness.present.publish import Presentation, publish
from robustness.results import Results
from robustness.summaries.joined import Joined

PROGRAM = 'robustness compare'
COMPARISON = 'comparison'


def main(arguments: Sequence[str]) -> int:
  """Compares, prints the accuracies and where all lies; returns 0, or 2 for bad input."""
  try:
    given = _parser().parse_args(arguments)
    command = shlex.join([*PROGRAM.split(), *arguments])
    results = run(given.workdirs, given.out, given.common, command)
  except InputError as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  for part, of in results.by_part.items():
    for own in tables.tables(_compared(of)):
      print(f'{part}: {own.title}' if part else own.title, *text.lines(own.table), '', sep='\n')
  print(f'written to {given.out}')
  return 0


def run(
  workdirs: Sequence[str], out: pathlib.Path, common: bool = False, command: str = ''
) -> Results:
  """Compares workdirs and writes what is found.

  Args:
    workdirs: paths, or LABEL=PATH.
    out: the folder that is written; not one of the workdirs. Parts of batteries are in `parts/`.
    common: compares runs that share a part of their images on that part.
    command: what was typed.

  Raises:
    InputError: see `entries.read` and `pairing.pair`.
  """
  if (out / workdir.CONFIG).exists():
    raise InputError(f'--out is {out}, which is a workdir: give a folder of its own.')
  of_parts = entries.read(workdirs)
  baseline = max(of_parts.values(), key=len)[0].label  # some are left out of some parts
  environment = workdir.environment(0, command)
  config = {'workdirs': list(workdirs), 'common': common}
  studies = {part: of[0].finished.study for part, of in of_parts.items()}
  parts = {part: comparison.compare(of, common, baseline) for part, of in of_parts.items()}
  if SINGLE in parts:
    whole = dataclasses.replace(
      parts[SINGLE], study=COMPARISON, settings={**parts[SINGLE].settings, 'baseline': baseline}
    )
    publish(out, whole, _presented(studies[SINGLE]), environment, config)
    return whole
  figures = {
    part: publish(out / PARTS / part, of, _presented(studies[part]), environment, config)
    for part, of in parts.items()
  }
  joined = summaries.join(None, parts, {'parts': list(parts), 'baseline': baseline})
  joined.study = COMPARISON
  further = summaries.captioned(figures)
  publish(out, joined, Joined(None, studies, parts), environment, config, further)
  return joined


def _compared(results: Results) -> Results:
  """Returns the accuracies and effective robustness alone."""
  return dataclasses.replace(results, quantities=(comparison.ACCURACY, comparison.EFFECTIVE))


def _presented(study: Study) -> Presentation:
  """Returns what draws and tells a comparison: the accuracies, then as the study does."""

  def draw(results: Results) -> Mapping[str, Any]:
    together = comparison.WHY_NOT not in results.tables
    return {**charts.draw(_compared(results)), **(study.figures(results) if together else {})}

  title = ': '.join(filter(None, ('Finished runs side by side', study.title)))
  return Presentation(title, study.papers, draw)


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
