"""The classifiers of several workdirs, part by part, with distinct labels."""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.settings import check_name, differing_keys
from robustness.evaluation import finished
from robustness.evaluation.finished import SINGLE, FinishedStudy
from robustness.evaluation.study import Evaluation, Study


@dataclasses.dataclass(frozen=True)
class Entry:
  """One classifier of one workdir, in one study.

  Attributes:
    label: distinct among all that are compared.
    own: the label it has in its workdir.
    finished: the study.
    evaluation: its records, under `label`.
  """

  label: str
  own: str
  finished: FinishedStudy
  evaluation: Evaluation


def read(workdirs: Sequence[str]) -> dict[str, list[Entry]]:
  """Returns the classifiers of all workdirs by the parts that all have; '' for a single study.

  Args:
    workdirs: paths, or LABEL=PATH.

  Raises:
    InputError: fewer than two classifiers, two of one label, workdirs of different studies or of
      different settings of what is shown, no part in common, or see `finished.read`.
  """
  named = dict(_named(workdir) for workdir in workdirs)
  for label in named:
    check_name('the comparison', label, is_key=False)
  if len(named) < len(workdirs):
    raise InputError(
      f'two of the workdirs {", ".join(workdirs)} have one name: write a label before each, as in '
      f'first={workdirs[0]}.'
    )
  parts = {name: finished.read(path) for name, path in named.items()}
  first = next(iter(parts.values()))
  common = [part for part in first if all(part in of for of in parts.values())]
  if not common:
    listed = '; '.join(f'{name}: {_listed(of)}' for name, of in parts.items())
    raise InputError(f'these workdirs have no study or part in common ({listed}).')
  labels = _labels(
    {name: {e.label for part in common for e in of[part].evaluations} for name, of in parts.items()}
  )
  entries = {
    part: _entries({name: of[part] for name, of in parts.items()}, labels) for part in common
  }
  if all(len(several) < 2 for several in entries.values()):
    raise InputError('a comparison needs at least two classifiers: give another workdir.')
  for part, several in entries.items():
    _check_same_views(part, several)
  return entries


def _named(given: str) -> tuple[str, pathlib.Path]:
  label, equals, path = given.partition('=')
  if equals and '/' not in label and label.strip() and not os.path.exists(given):
    return label.strip(), expanded(path)
  folder = expanded(given)
  return folder.resolve().name, folder


def _listed(parts: Mapping[str, FinishedStudy]) -> str:
  return ', '.join(name or f'the study {of.study.name}' for name, of in parts.items())


def _labels(own: Mapping[str, set[str]]) -> dict[tuple[str, str], str]:
  """Returns a label for each classifier, by its workdir and the label that it has there.

  That label where no other workdir has it; else the workdir's name if it has but one classifier,
  and else both.

  Args:
    own: labels by workdir, of all parts together: a classifier has one label in all of them.
  """
  count = collections.Counter(label for labels in own.values() for label in labels)

  def label_of(name: str, label: str) -> str:
    if count[label] == 1:
      return label
    return name if len(own[name]) == 1 else f'{name} {label}'

  return {(name, label): label_of(name, label) for name in own for label in own[name]}


def _entries(of: Mapping[str, FinishedStudy], labels: Mapping[tuple[str, str], str]) -> list[Entry]:
  """Returns the classifiers of one part under their `labels`."""
  return [
    Entry(labels[name, e.label], e.label, part, Evaluation(labels[name, e.label], e.records))
    for name, part in of.items()
    for e in part.evaluations
  ]


def _shown(study: Study) -> dict[str, Any]:
  """Returns what fixes how a study shows an image; not to how many, nor its intervals."""
  return {k: v for k, v in study.recording.items() if k not in ('half_width', 'confidence')}


def _check_same_views(part: str, entries: Sequence[Entry]) -> None:
  first = entries[0].finished
  where = f'in the part {part}, ' if part != SINGLE else ''
  for entry in entries[1:]:
    other = entry.finished
    if other.study.name != first.study.name:
      raise InputError(
        f'{where}{first.folder} is of the study {first.study.name} and {other.folder} of '
        f'{other.study.name}: give workdirs of the same study.'
      )
    names = [each.study.view_table(each.image_shape).names for each in (first, other)]
    lines = differing_keys(_shown(first.study), _shown(other.study))
    if lines or names[0] != names[1]:
      lines = lines or [f'image_shape: {first.image_shape} → {other.image_shape}']
      raise InputError(
        f'{where}{first.folder} and {other.folder} show their images differently; keys of '
        f'config.study that differ: {"; ".join(lines)}. Run one again with the same.'
      )
