"""Studies that are measured along a training (`config.training.measure`)."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence

import jax
from absl import logging

from robustness.config.experiment import Execution
from robustness.core.errors import KEYS, WORKDIR, InputError
from robustness.core.rows import Rows
from robustness.core.typing import Variables
from robustness.estimates.facets import STEP
from robustness.estimates.table import assemble, facets_of, with_facet
from robustness.evaluation.study import Study
from robustness.measurement import measure
from robustness.models.classifier import Classifier
from robustness.results import JSON_NAME, Results
from robustness.workdirs.workdir import RECORDS

FOLDER = 'along_training'
"""The folder of a workdir with the results of each step in TASK/CLASSIFIER/step<n>/, where TASK is
the name of a study, and the results of all steps in TASK/."""


@dataclasses.dataclass(frozen=True)
class AlongTraining:
  """Function that measures studies during a training, with the weights after a step.

  Called with the number of the step and the variables. It writes the results into `folder`. It does
  nothing for a step that was already measured with the same weights. (The weights differ if the
  training had to start again before its first checkpoint.)

  Attributes:
    classifier_at: function from (variables, step) to the classifier with these weights.
    tasks: {name: (study, images to measure it on)}.
    execution: settings of the run, such as precision and seed.
    folder: the folder `along_training` of the workdir.
  """

  classifier_at: Callable[[Variables, int], Classifier]
  tasks: Mapping[str, tuple[Study, Rows]]
  execution: Execution
  folder: pathlib.Path

  def __call__(self, step: int, variables: Variables) -> None:
    """Measures all studies with the weights after a step of training, and writes the results.

    It is called during the training. After a resume, results that exist for the same weights are
    kept.

    Args:
      step: number of steps taken.
      variables: the variables of the network.
    """
    classifier = self.classifier_at(variables, step)
    digest = classifier.provenance['sha256']
    for name, (study, rows) in self.tasks.items():
      folder = self.folder / name / classifier.name / f'step{step}'
      is_measured = (folder / JSON_NAME).is_file()
      if is_measured and Results.read(folder).classifiers[0].get('sha256') == digest:
        continue  # results for other weights, from a training that began again, are replaced
      logging.info('%s: %s after step %d', classifier.name, study.name, step)
      records_folder = folder / RECORDS / digest[:8]  # other weights have other records
      results = measure(study, self.execution, [classifier], rows, records_folder)
      if jax.process_index() == 0:
        results.write(folder)


def join_steps(folder: pathlib.Path, steps_by_label: Mapping[str, Sequence[int]]) -> Results:
  """Returns the results of one study at all measured steps, with the column `step`.

  Estimates that are grouped by two or more columns are left out, as there would be too many curves.
  They remain in the results of each step.

  Args:
    folder: the folder with the results of each step, in CLASSIFIER/step<n>/.
    steps_by_label: {name of a classifier: the steps at which its training measures}. Other steps in
      the folder are left from an earlier training and are not read.

  Raises:
    InputError: No step was measured.
  """
  results_by_step = []
  for label, steps in steps_by_label.items():
    for step in steps:
      step_folder = folder / label / f'step{step}'
      if (step_folder / JSON_NAME).is_file():
        results_by_step.append((step, Results.read(step_folder)))
  if not results_by_step:
    raise InputError(
      f'no step of {", ".join(steps_by_label)} was measured: the training had ended before '
      f'{KEYS.training.measure} was set. Give another {WORKDIR:--}.'
    )
  tables = []
  for step, results in results_by_step:
    table = results.table
    num_facets = table[facets_of(table)].notna().sum(axis=1)
    tables.append(with_facet(table[num_facets <= 1], STEP.name, step))
  _, first = results_by_step[0]  # all steps have the same study, settings and data
  # a classifier's description at a later step replaces its description at an earlier step
  descriptions = {c['label']: c for _, results in results_by_step for c in results.classifiers}
  return dataclasses.replace(
    first,
    classifiers=list(descriptions.values()),
    arrays={},
    table=assemble(tables),
    quantities=tuple(dataclasses.replace(q, facets=(*q.facets, STEP)) for q in first.quantities),
  )
