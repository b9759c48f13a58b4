"""Study: what every study of robustness is, and what it makes of its records.

A study shows each row in several views and reduces the records of what a classifier answered.
Each module of `robustness.studies` holds one frozen dataclass `Study`, whose fields are the keys of
`config.study`; the name in the config is the module's name.
"""

from __future__ import annotations

import abc
import dataclasses
import importlib
import pathlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import jax
import numpy as np
import pandas as pd

from robustness.core import settings
from robustness.core.errors import InputError, nearest
from robustness.core.rows import Rows
from robustness.estimates.quantity import Quantity
from robustness.evaluation import provenance
from robustness.evaluation.outcomes import Evaluation as Evaluation
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.outcomes import of_recorded as of_recorded
from robustness.evaluation.records import Records
from robustness.evaluation.rounds import Design
from robustness.evaluation.view_table import ViewTable
from robustness.evaluation.views import DRAWS, ONLY, Views, identity
from robustness.present import charts
from robustness.present.sentences import Finding, findings
from robustness.results import Findings as Findings
from robustness.results import Results, Table


@dataclasses.dataclass(frozen=True)
class Preview:
  """What a study says before the trainings: tables, which are logged, and figures by file name."""

  tables: Mapping[str, Table] = dataclasses.field(default_factory=dict)
  figures: Mapping[str, Any] = dataclasses.field(default_factory=dict)


IMAGES = 'images'
"""The label of the one evaluation of a study without a classifier."""

MOST_NAMED = 100
"""Views that are reported one by one."""


def prefixes(evaluations: Sequence[Evaluation]) -> list[str]:
  """Returns what the names of each evaluation's numbers begin with; nothing if it is alone."""
  return [''] if len(evaluations) == 1 else [f'{e.label}/' for e in evaluations]


def pairs(evaluations: Sequence[Evaluation]) -> list[tuple[Evaluation, Evaluation]]:
  """Returns the pairs that are compared: the first evaluation, the baseline, with every other."""
  return [(evaluations[0], other) for other in evaluations[1:]]


def require_single_labels(rows: Rows, use: str) -> None:
  """Refuses rows with several labels each.

  Args:
    rows: of a run.
    use: what takes the loss of one label, such as 'an attack'.

  Raises:
    InputError: the first row has several.
  """
  if next(rows.batches(1, [0]))['label'].ndim > 1:
    raise InputError(
      f'these rows have several labels each, and {use} takes the gradient of the loss of one: take '
      'a source of rows with single labels.'
    )


class PredictionScores(Protocol):
  """Predictions made elsewhere, which a study scores without a classifier."""

  @property
  def seed(self) -> int:
    """Recorded with the run."""

  def evaluations(self, directory: pathlib.Path) -> list[Evaluation]:
    """Returns the predictions as records, written in `directory` if they are not records yet."""

  def findings(self, evaluations: Sequence[Evaluation], directory: pathlib.Path) -> Findings:
    """Reduces the records."""

  def settings(self) -> dict[str, Any]:
    """Returns the study, what was scored and how, plain values for results."""


class Study(abc.ABC):
  """What a study of `robustness.studies` is: views, and what their records are reduced to.

  A subclass overrides `reduce` and what else it needs; the defaults are those of a study that shows
  each image as it is stored, records no layers and draws nothing.

  Attributes:
    name: the module's.
    title: what it measures in plain words, the title of its report; '' is the name.
    layers: whose output change is recorded; ('stages',) stands for all residual stages.
    outputs: layers whose output is recorded as it is, such as ('logits',).
    needs_classifier: False for one that measures images alone: its config has no classifier, and it
      reduces one evaluation with the label `IMAGES`.
    fewest_classifiers: 2 for one that compares classifiers with the first and has nothing to say
      of one.
    papers: what to cite beside this software: keys of `robustness.present.citations.PAPERS`.
    lists_failures: whether results have the most affected classes and the most damaged images.
    composes: whether a view makes its picture of several images, none of which is shown alone.
    sequential_design: shows each view to rows in rounds until the interval of its error is narrow
      enough, see `robustness.evaluation.sequential_study`; None shows every view to all rows.
  """

  name: ClassVar[str]
  title: ClassVar[str] = ''
  layers: tuple[str, ...] = ()
  outputs: ClassVar[tuple[str, ...]] = ()
  needs_classifier: ClassVar[bool] = True
  fewest_classifiers: ClassVar[int] = 1
  papers: ClassVar[tuple[str, ...]] = ()
  lists_failures: ClassVar[bool] = True
  composes: ClassVar[bool] = False

  def lost_in_bfloat16(self, image_shape: tuple[int, int, int] | None = None) -> str:
    """Returns what rounding to bfloat16 would hide, with what to change; '' if nothing.

    A config with that precision is refused, where the images decide it once they are opened.

    Args:
      image_shape: height, width and channels; None while they are not known.
    """
    del image_shape
    return ''

  @property
  def sequential_design(self) -> Design | None:
    """See the class."""
    return None

  @property
  def stream(self) -> str:
    """The random stream that views draw from; studies of one stream show the same images."""
    return self.name

  @property
  def described(self) -> dict[str, Any]:
    """The study's name, settings and facts as plain values, for results."""
    settings = dataclasses.asdict(self)  # type: ignore[call-overload]
    return {'name': self.name, **settings, **self.facts}

  @property
  def recording(self) -> dict[str, Any]:
    """Plain values that fix what is recorded of a row and a classifier.

    Studies of one run whose recordings are equal reduce the same records, made once. By default
    all that describes the study, so that it shares them with none.
    """
    return self.described

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """What the study's table of results is of, in the order in which a reader wants them."""
    return ()

  @property
  def facts(self) -> dict[str, Any]:
    """Plain values that records and results state beside the settings."""
    return {}

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns the views for images of this shape; refuses settings that do not fit it."""
    del image_shape
    return identity()

  def name_views(self, image_shape: tuple[int, int, int]) -> list[str]:
    """Returns a distinct name for each view, by default what its parameters are."""
    views = self.views(image_shape)
    return ['as stored'] if len(views) == 1 else [views.values(i) for i in range(len(views))]

  def group_views(self, image_shape: tuple[int, int, int]) -> dict[str, list[int]]:
    """Returns views that are averaged over, by what they are together, such as one corruption.

    By default each of up to `MOST_NAMED` views is alone, and all are together.
    """
    names = self.name_views(image_shape)
    each = {name: [view] for view, name in enumerate(names)} if len(names) <= MOST_NAMED else {}
    return each if len(names) == 1 else {**each, 'all views': list(range(len(names)))}

  def view_table(self, records: Records, image_shape: tuple[int, int, int]) -> ViewTable:
    """Returns what the views of records are, for the table by class and the gallery of failures."""
    del records
    clean = self.group_views(image_shape).get('clean')
    return ViewTable(self.name_views(image_shape), clean[0] if clean else None)

  def by_image(
    self, records: Records, image_shape: tuple[int, int, int]
  ) -> tuple[Records, ViewTable]:
    """Returns records that have one row for each image, and what their views are, with groups.

    A study of images whose versions are stored as rows of their own joins these.
    """
    table = self.view_table(records, image_shape)
    return records, dataclasses.replace(table, groups=self.group_views(image_shape))

  @property
  def shown_as(self) -> dict[str, str]:
    """What is done to the images, by what it is, for the table `which numbers these are`."""
    return {}

  def differences(self, records: Records, image_shape: tuple[int, int, int]) -> list[str]:
    """Returns what keeps the numbers from published ones; by default the images alone."""
    del image_shape
    return provenance.set_differences(records.identity.get('data', {}), records.layout.num_rows)

  def provenance(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int], findings: Findings
  ) -> Table:
    """Returns the table `which numbers these are`: images, what is done to them, comparability."""
    del findings
    records = evaluations[0].records
    differences = self.differences(records, image_shape)
    return provenance.of_records(records, image_shape, self.shown_as, differences)

  def check_rows(self, rows: Rows) -> None:
    """Refuses rows with which the study finds nothing, before anything is trained or evaluated.

    Raises:
      InputError: what the rows lack, and what to change.
    """
    del rows

  def check_classifiers(self, labels: Sequence[str]) -> None:
    """Refuses settings that name a classifier which the config does not have.

    Args:
      labels: of its classifiers, in order.
    """
    del labels

  def check_recipes(self, rows: Rows, recipes: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses trainings that do not fit the rows, before the first of them.

    Args:
      rows: to be evaluated.
      recipes: see `preview`.

    Raises:
      InputError: what does not fit, and what to change.
    """
    del rows, recipes

  def preview(self, rows: Rows, recipes: Mapping[str, Mapping[str, Any]]) -> Preview:
    """Returns what can be shown before anything is trained; by default nothing.

    Args:
      rows: to be evaluated.
      recipes: by classifier, what its training will show: `training_split`, `class_groups` if its
        rows have some, and the named parts of the training as plain values; empty of one that is
        not trained here.
    """
    del rows, recipes
    return Preview()

  def facets(self, image_shape: tuple[int, int, int]) -> pd.DataFrame:
    """Returns what estimates can be grouped by: a row a view, a column a facet.

    By default the views' parameters that are single numbers, of float32 the shortest decimal.
    """
    views = self.views(image_shape)
    single = {
      k: v.astype(str).astype(float) if v.dtype.kind == 'f' else v
      for k, v in views.parameters.items()
      if v.ndim == 1 and k not in (DRAWS, ONLY)
    }
    return pd.DataFrame(single, index=range(len(views)))

  def estimates(self, recorded: Recorded) -> Iterable[pd.DataFrame]:
    """Yields the table of results, part by part; see `robustness.estimates.means`.

    Args:
      recorded: what the classifiers answered, with the facets of the views.
    """
    del recorded
    return ()

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Reduces records, and nothing else, to the table of results; by default to `estimates`.

    Numbers, tables and arrays of studies that have them: with one classifier the names are bare,
    with several each is `<label>/<name>`.
    """
    recorded = Recorded(evaluations, self.facets(image_shape))
    return Findings(estimates=list(self.estimates(recorded)))

  def sample_arrays(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns arrays that figures need beside the records, such as sample images."""
    del rows, key
    return {}

  def finding_arrays(self, rows: Rows, findings: Findings) -> dict[str, np.ndarray]:
    """Returns arrays of rows that the findings choose, such as images predicted wrongly."""
    del rows, findings
    return {}

  def row_estimates(self, rows: Rows, evaluations: Sequence[Evaluation]) -> Iterable[pd.DataFrame]:
    """Yields parts of the table of results that need the images beside the records."""
    del rows, evaluations
    return ()

  @property
  def compares_training_rows(self) -> bool:
    """Whether `training_findings` is to be given the rows that classifiers are trained on here."""
    return False

  def training_findings(self, rows: Rows, training: Mapping[str, Rows]) -> Findings:
    """Returns what the evaluated rows have in common with those of the trainings.

    Args:
      rows: evaluated.
      training: by classifier, the rows it is trained on; where these are the same, one object.
    """
    del rows, training
    return Findings()

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """Returns {file name without suffix: (matplotlib figure, caption)} from results alone.

    By default those that the facets of its table choose (`robustness.present.charts.draw`).
    """
    return charts.draw(results)

  def findings(self, results: Results) -> list[Finding]:
    """Returns what was found in words, from the table (`robustness.present.sentences.findings`)."""
    return findings(results)

  def prediction_scores(self, config: Mapping[str, Any]) -> PredictionScores:
    """Returns predictions made elsewhere that this study scores.

    Args:
      config: all of the config but its section `study`.

    Raises:
      InputError: the study scores images only, or see the settings of its own.
    """
    del config
    raise InputError(
      f'config.study.name is {self.name!r}, which shows images to a classifier; '
      f'predictions in files are scored by {", ".join(scoring_predictions())}.'
    )


def names() -> list[str]:
  """Returns the names of all studies: the modules of `robustness.studies`."""
  package = importlib.import_module('robustness.studies')
  return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


def scoring_predictions() -> list[str]:
  """Returns the names of the studies that score predictions made elsewhere."""
  return [
    name for name in names() if module(name).Study.prediction_scores is not Study.prediction_scores
  ]


def module(name: str) -> Any:
  """Imports the module of a study."""
  return importlib.import_module(f'robustness.studies.{name}')


def from_config(section: Mapping[str, Any]) -> Study:
  """Builds the study that `config.study.name` names.

  Raises:
    InputError: no such study, or a key or type that its settings do not have.
  """
  settings.check_sections({'study': section}, ('study',), 'config')
  values = dict(section)
  name = values.pop('name', '')
  if name not in names():
    raise InputError(f'config.study.name is {name!r}; {nearest(str(name), names())}.')
  return settings.parse(module(name).Study, values, 'config.study')
