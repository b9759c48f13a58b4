"""Writes finished workdirs from outcomes, without a run, and changes their files."""

import dataclasses
import json
import pathlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from robustness.corruptions.names import KNOWN
from robustness.estimates.table import assemble
from robustness.evaluation import study as studies
from robustness.evaluation.study import Study
from robustness.results import WHICH_NUMBERS, Results
from robustness.studies import accuracy, corruption_error, si_score
from robustness.workdirs.workdir import code_version
from tests.made_records import made

SHAPE = (28, 28, 1)


def edit(file: pathlib.Path, change: Callable[[Any], object]) -> None:
  """Applies a function to the JSON document in a file."""
  document = json.loads(file.read_text())
  change(document)
  file.write_text(json.dumps(document))


def state_images(workdir: pathlib.Path, count: int, digest: str) -> None:
  """Writes number and digest of the images into results.json, as a run does."""

  def change(document: Any) -> None:
    document['data']['num_examples'] = count
    rows = [['digest of the images', digest]]
    document['tables'][WHICH_NUMBERS] = {'columns': ['what', 'value'], 'rows': rows}

  edit(workdir / 'results.json', change)


def write(
  workdir: pathlib.Path,
  correct: Mapping[str, Sequence[bool]],
  example_ids: Iterable[int] = (),
  data: Mapping[str, Any] | None = None,
  digests: Iterable[int] = (),
) -> pathlib.Path:
  """Writes config, records and results of the study `accuracy` as a run does.

  Args:
    workdir: the folder.
    correct: whether each image is classified correctly, by classifier.
    example_ids: of the images; by default 0, 1, ...
    data: the section `data` of the results.
    digests: of the images; by default they follow from `data` and the ids.
  """
  ids = list(example_ids) or list(range(len(next(iter(correct.values())))))
  digests = list(digests) or [zlib.crc32(f'{data} {number}'.encode()) % 2**31 for number in ids]
  columns = {'example_id': ids, 'image_digest': digests}
  tables = {label: np.asarray(right, bool)[:, None] for label, right in correct.items()}
  return _written(workdir, accuracy.Accuracy(), {}, tables, columns, data or {})


def write_corrupted(
  workdir: pathlib.Path,
  clean: Mapping[str, Sequence[bool]],
  shifted: Mapping[str, Sequence[bool]],
  severity: int = 1,
  corruptions: Sequence[str] = ('fog',),
) -> pathlib.Path:
  """Writes a run of the study `corruption_error`, in which all corruptions have equal answers."""
  tables = {
    label: np.stack([clean[label], *[shifted[label]] * len(corruptions)], 1) for label in clean
  }
  section = {'corruptions': list(corruptions), 'severities': [severity]}
  study = corruption_error.CorruptionError(corruptions=tuple(corruptions), severities=(severity,))
  columns = {'example_id': [], 'image_digest': list(range(len(next(iter(tables.values())))))}
  return _written(workdir, study, section, tables, columns, {})


VERSIONS = [(name, severity) for name in ('fog', 'contrast') for severity in (1, 5)]
"""Corrupted versions of the images of `write_versions`; KNOWN has fog before contrast too."""


def write_versions(
  workdir: pathlib.Path,
  right: Mapping[str, np.ndarray],
  stored: bool,
  clean: bool = True,
  first_digest: int = 0,
  name: str = 'corruption_error',
) -> pathlib.Path:
  """Writes a run of two corruptions at two severities; `right` is [N, 5] for clean and `VERSIONS`.

  The versions are made in the run, or `stored` as rows in their order, with or without `clean`
  images. Digests count from `first_digest`; runs with other digests have other data.
  """
  section: dict[str, Any] = {'corruptions': ['fog', 'contrast'], 'severities': [1, 5]}
  count = len(next(iter(right.values())))
  digests = range(first_digest, first_digest + 5 * count)
  columns: dict[str, Sequence[int]] = {'image_digest': digests[:count]}
  tables = {label: np.asarray(answers, bool) for label, answers in right.items()}
  if stored:
    section['source'] = 'stored'
    versions = [('clean', 0), *VERSIONS][0 if clean else 1 :]
    number = {'clean': -1, **{name: KNOWN.index(name) for name, _ in VERSIONS}}
    columns = {
      'image_digest': digests[: len(versions) * count],
      'corruption': np.repeat([number[name] for name, _ in versions], count).tolist(),
      'severity': np.repeat([severity for _, severity in versions], count).tolist(),
      'base_id': list(range(count)) * len(versions),
    }
    start = 0 if clean else 1
    tables = {label: table[:, start:].T.reshape(-1, 1) for label, table in tables.items()}
  study = studies.from_config({'name': name, **section})
  return _written(workdir, study, section, tables, columns, {'name': str(first_digest)})


def write_scenes(
  workdir: pathlib.Path,
  study: si_score.SiScore,
  right: Mapping[str, np.ndarray],
  columns: Mapping[str, Any],
) -> pathlib.Path:
  """Writes a run of the study `si_score`; `right` is [N, V] by classifier."""
  default = dataclasses.asdict(si_score.SiScore())
  section = {k: v for k, v in dataclasses.asdict(study).items() if v != default[k]}
  return _written(workdir, study, section, right, columns, {})


def write_battery(workdir: pathlib.Path, tasks: Mapping[str, pathlib.Path]) -> pathlib.Path:
  """Moves finished workdirs of single studies, by the names of the tasks, into one of a battery."""
  sections = {}
  for name, single in tasks.items():
    (workdir / 'tasks' / name).mkdir(parents=True)
    (workdir / 'records').mkdir(exist_ok=True)
    (single / 'records').rename(workdir / 'records' / f'{name}-digest')
    for file in single.glob('results.*'):
      file.rename(workdir / 'tasks' / name / file.name)
    sections[name] = {'study': json.loads((single / 'config.json').read_text())['study']}
  return _with_config(workdir, battery={'tasks': list(tasks), **sections})


def _written(
  workdir: pathlib.Path,
  study: Study,
  section: Mapping[str, Any],
  tables: Mapping[str, np.ndarray],
  columns: Mapping[str, Any],
  data: Mapping[str, Any],
) -> pathlib.Path:
  described = {'source': 'digits', 'name': 'made', **data}
  records = []
  for label, right in tables.items():
    answers = {
      **{name: values for name, values in columns.items() if len(values)},
      'label': np.zeros(len(right), int),
      'prediction': ~right,
      'rank': ~right,
      'probability': np.where(right, 0.8, 0.2).astype(np.float32),
      'confidence': np.full(right.shape, 0.8, np.float32),
    }
    answers = {**dict.fromkeys(('example_id', 'image_digest'), np.arange(len(right))), **answers}
    identity = {'classifier': {'label': label}, 'data': described, 'study': study.recording}
    records.append(made(workdir / 'records' / label, answers, **identity, seed=0))
  composed = isinstance(study, si_score.SiScore)
  shape = (SHAPE[0], SHAPE[1], 3) if composed else SHAPE
  findings = study.reduce(records, shape)
  classifiers = [{'label': label, 'layers': []} for label in tables]
  counts = [len(section.get(axis, [0])) for axis in ('corruptions', 'severities')]
  picture = {'gallery_clean': np.zeros(SHAPE), 'gallery': np.zeros((*counts, *SHAPE))}
  Results(
    study.name,
    classifiers,
    {**described, 'image_shape': list(shape), 'class_names': ['0', '1']},
    study.describe(),
    tables=findings.tables,
    arrays={**findings.arrays, **({} if composed else picture)},
    table=assemble(findings.estimates),
    quantities=study.quantities,
    environment=code_version(),
  ).write(workdir)
  return _with_config(workdir, study={'name': study.name, **section})


def _with_config(workdir: pathlib.Path, **sections: Any) -> pathlib.Path:
  (workdir / 'config.json').write_text(json.dumps({**sections, 'seed': 0}))
  return workdir
