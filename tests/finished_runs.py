"""Finished workdirs of the study `accuracy`, made from outcomes without a run."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustness.evaluation.records import Layout, Records
from robustness.evaluation.study import Evaluation
from robustness.results import Results
from robustness.studies.accuracy import Study

SHAPE = (28, 28, 1)


def write(
  workdir: pathlib.Path,
  correct: Mapping[str, Sequence[bool]],
  example_ids: Sequence[int] = (),
  data: Mapping[str, Any] | None = None,
) -> pathlib.Path:
  """Writes config, records and results as a run does.

  Args:
    workdir: where.
    correct: by classifier, whether each of N images is right.
    example_ids: of the images; () counts them.
    data: what the records say of their data.
  """
  study = Study()
  described = {'source': 'digits', 'sha256': 'ab', **(data or {})}
  records = [
    _records(workdir / 'records' / label, label, right, example_ids, described, study)
    for label, right in correct.items()
  ]
  findings = study.reduce(records, SHAPE)
  classifiers = [{'label': label, 'layers': []} for label in correct]
  Results(
    study.name,
    classifiers[0] if len(classifiers) == 1 else classifiers,
    {**described, 'image_shape': list(SHAPE), 'class_names': ['0', '1']},
    study.described,
    findings.numbers,
    findings.tables,
    findings.arrays,
  ).write(workdir)
  (workdir / 'config.json').write_text(json.dumps({'study': {'name': study.name}, 'seed': 0}))
  return workdir


def _records(
  folder: pathlib.Path,
  label: str,
  correct: Sequence[bool],
  example_ids: Sequence[int],
  data: Mapping[str, Any],
  study: Study,
) -> Evaluation:
  count = len(correct)
  identity = {
    'classifier': {'label': label},
    'data': dict(data),
    'study': study.recording,
    'seed': 0,
  }
  records = Records(folder, Layout(count, 1, count, 1), identity)
  right = np.asarray(correct, bool)[:, None]
  ids = np.asarray(example_ids if len(example_ids) else np.arange(count), np.int32)
  arrays = {
    'example_id': ids,
    'label': np.zeros(count, np.int32),
    'prediction': (~right).astype(np.int32),
    'rank': (~right).astype(np.int32),
    'probability': np.where(right, 0.8, 0.2).astype(np.float32),
    'confidence': np.full((count, 1), 0.8, np.float32),
  }
  records.write(0, 0, arrays)
  return Evaluation(label, records)
