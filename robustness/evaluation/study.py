"""Study: what every study of robustness is, and what it makes of its records.

Each module of `robustness.studies` holds one frozen dataclass that derives from `Study` and has the
fields of `config.study`; its name is the module's, or `FILE.py:NAME` for one of the user's.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from robustness.core import settings
from robustness.core.errors import KEYS, InputError, SettingError, key_name
from robustness.core.registry import Part, Registry, check_fields
from robustness.core.rows import Rows
from robustness.core.typing import Facts, PlainValue
from robustness.estimates.facets import Facet
from robustness.estimates.fixed_width import FixedWidth, fewest_trials, plan
from robustness.estimates.means import arrays, means
from robustness.estimates.of_means import of_means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.evaluation import provenance
from robustness.evaluation.outcomes import BASE, Recorded, num_images, versions
from robustness.evaluation.outcomes import Evaluation as Evaluation
from robustness.evaluation.outcomes import of_recorded as of_recorded
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.views import DRAWS, ONLY, Views, ViewTable, identity
from robustness.present import charts
from robustness.present.sentences import Finding, findings
from robustness.results import Findings as Findings
from robustness.results import Results, Table

ImageShape = tuple[int, int, int]
"""Height, width and channels."""
Figures = dict[str, tuple[Figure, str]]
"""Figures with captions, by file name without suffix."""
Recipes = Mapping[str, Facts]
"""Facts about the training of each classifier, empty for one that is not trained here:
`training_split`, `class_groups`, `training_environments` of rows stored in environments, and the
named parts of the training as plain values."""
IMAGES = 'images'
"""The label of the one evaluation of a study without a classifier."""


@dataclasses.dataclass(frozen=True)
class Study(Part):
  """A study: its views, and the estimates from their records.

  A subclass overrides `views`, `estimates` and what else it needs; by default a study shows each
  image as it is stored, records no layers and draws what its table says.

  Attributes:
    title: what it measures in plain words, the title of its report; '' is the name.
    papers: what to cite besides this software: keys of `robustness.present.page.PAPERS`.
    layers: layers with a recorded change of the output; ('stages',) is stem, stages and logits.
    outputs: layers with a recorded output, such as ('logits',); see `summarise_output`.
    moved_keys: keys of earlier versions, and what takes their place in `config.study`.
    set_by_study: settings of named parts that the study sets itself, which their sections lack.
    not_recorded: settings that choose among records and change none.
    needs_classifier: False for one that measures images alone: its config has no classifier, and it
      reduces one evaluation with the label `IMAGES`.
    needs_labels: False for one that does not ask what is right, and takes images of no known class.
    fewest_classifiers: 2 for one that has nothing to say of a single classifier.
    lists_failures: whether results have the most affected classes and the most damaged images.
    described_facets: facets of the estimates that `estimates.facets` lacks, or has in other words.
    allows_adaptation: whether answers may depend on the images that are shown together, as with a
      classifier that adapts.
    confidence: of all intervals, a setting of every study.
    false_discovery_rate: of the paired tests of two classifiers; a study of many has the field.
    half_width: shows rows in rounds, in a random order of the config's seed, and each view only
      until the interval of its share of wrong, or right, rows is at most ± half_width wide
      (docs/sequential.md); what is taken over several views rests on the rows that all have.
      0 shows every view to all rows. A study that allows it has the field.
    top_k: k of a second accuracy or error; a study that has one has the field.
  """

  section: ClassVar[str] = 'config.study'
  title: ClassVar[str] = ''
  papers: ClassVar[tuple[str, ...]] = ()
  moved_keys: ClassVar[Mapping[str, str]] = {}
  set_by_study: ClassVar[tuple[str, ...]] = ()
  not_recorded: ClassVar[tuple[str, ...]] = ()
  layers = tuple[str, ...]()
  outputs: ClassVar[tuple[str, ...]] = ()
  needs_classifier: ClassVar[bool] = True
  needs_labels: ClassVar[bool] = True
  fewest_classifiers: ClassVar[int] = 1
  lists_failures: ClassVar[bool] = True
  described_facets: ClassVar[tuple[Facet, ...]] = ()
  allows_adaptation: ClassVar[bool] = False
  false_discovery_rate = 0.05
  half_width = 0.0
  top_k = 1

  confidence: float = dataclasses.field(default=0.95, kw_only=True)

  def __post_init__(self) -> None:
    check_fields(self, self.section)
    for key in ('confidence', 'false_discovery_rate'):
      self.require(0 < getattr(self, key) < 1, key, 'in (0, 1)')
    valid = self.half_width == 0 or 0 < self.half_width < 0.5
    self.require(valid, 'half_width', 'in (0, .5), or 0 to show every view to all images')

  def key(self, key: str) -> str:
    """See `Part`; the section has the keys of one study, and none of its name."""
    return key_name(f'{self.section}.{key}')

  def require_no_repeats(self, *keys: str) -> None:
    """Raises InputError unless the values under each key differ from one another."""
    for key in keys:
      values = getattr(self, key)
      self.require(len({*values}) == len(values), key, 'distinct')

  @property
  def facts(self) -> dict[str, PlainValue]:
    """Plain values that records and results state in addition to the settings."""
    return {}

  @classmethod
  def chosen_parts(cls, study: Facts) -> dict[str, dict[str, type[Part]]]:
    """Returns the named parts that the settings `study` choose: {section: {label: part}}.

    A section is a key of `config.study` with a subsection for each label, such as 'attack'.
    """
    return {}

  @classmethod
  def sections_of_parts(cls, study: Facts) -> dict[str, dict[str, Facts]]:
    """Returns {section: {label: settings}} of `chosen_parts`, with defaults."""
    sections: dict[str, dict[str, Facts]] = {}
    for key, parts in cls.chosen_parts(study).items():
      labels = parts.items()
      sections[key] = {x: {**cls.settings_of(p), **study[key].get(x, {})} for x, p in labels}
    return sections

  @classmethod
  def settings_of(cls, part: type[Part]) -> Facts:
    """Returns the defaults of the settings of a part that are keys of its section."""
    fields = dataclasses.fields(part)
    return {field.name: field.default for field in fields if field.name not in cls.set_by_study}

  @classmethod
  def from_earlier(cls, study: Facts) -> Facts:
    """Returns the settings of `config.study` of today, from those of an earlier version."""
    return study

  def describe(self) -> dict[str, PlainValue]:
    """Returns the study's name, settings and facts as plain values, for results."""
    return {**super().describe(), **self.sections_of_parts(vars(self)), **self.facts}

  @property
  def recording(self) -> dict[str, PlainValue]:
    """Plain values that fix what is recorded of a row and a classifier.

    Studies of one run with equal recordings reduce the same records, made once. By default these
    are all values that describe the study, except settings of intervals and tests alone.
    """
    reduced = {'false_discovery_rate', *self.not_recorded}
    reduced |= set() if self.half_width else {'confidence'}
    return {key: value for key, value in self.describe().items() if key not in reduced}

  @property
  def stream(self) -> str:
    """The random stream that views draw from; studies of one stream show the same images."""
    return self.name

  @property
  def sequential_design(self) -> FixedWidth | None:
    """When a view has been shown enough; None shows every view to all rows."""
    return plan(self.half_width, self.confidence) if self.half_width else None

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The quantities in the table of results, in the order in which a reader wants them."""
    return ()

  @property
  def described_quantities(self) -> tuple[Quantity, ...]:
    """The quantities, with the facets that the study declares for their words."""
    return tuple(dataclasses.replace(q, facets=self.described_facets) for q in self.quantities)

  def means(
    self, quantity: Quantity, source: Recorded | Outcomes, by: Sequence[str] = (), **options: Any
  ) -> pd.DataFrame:
    """Returns estimates of a quantity by facets, with intervals of the study's confidence.

    Args:
      quantity: a mean of its statistic, or with a function of means.
      source: records to take the statistic from, or outcomes.
      by: facets of views; () is over all.
      **options: see `robustness.estimates.means.means`, or `of_means` with a function.
    """
    outcomes = source.outcomes(quantity) if isinstance(source, Recorded) else source
    estimate = of_means if quantity.function else means
    return estimate(quantity, outcomes, by, confidence=self.confidence, **options)

  @property
  def arrays(self) -> Callable[..., pd.DataFrame]:
    """The function `robustness.estimates.means.arrays`, with the study's confidence."""
    return functools.partial(arrays, confidence=self.confidence)

  def needed_rows(self, rows: Rows) -> Rows:
    """Returns the rows that the study counts: all, unless it is of a part of a stored set."""
    return rows

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Checks, before anything is trained, that the study can have results.

    Args:
      rows: the rows to be evaluated.
      recipes: facts about the trainings of all classifiers, in order.

    Raises:
      InputError: the study finds nothing with these rows or trainings.
    """
    if not self.half_width:
      return
    if BASE in next(rows.batches(1, [0], stored=True)):
      bases = rows.without_images()[BASE]
      valid = '0 where images are versions of one another (base_id), which are dependent trials'
      self.require(len(np.unique(bases)) == len(bases), 'half_width', valid)
    needed, fewest = '', fewest_trials(self.half_width, self.confidence)
    if fewest > rows.num_examples:  # checked first, because planning a large design takes hours
      needed = f'at least {fewest:,}' if fewest < 1e9 else f'{fewest:.1e}'
    elif (largest := plan(self.half_width, self.confidence).most_trials) > rows.num_examples:
      needed = f'up to {largest:,}'
    if needed:
      raise SettingError(
        KEYS.study.half_width,
        self.half_width,
        problem=f'for which a view that is wrong on half of its images needs {needed} of them',
        fix=f'There are {rows.num_examples:,}. Give more images ({KEYS.data.num_images}; 0 takes '
        'all), a larger half width, or 0 to show every view to all images.',
      )

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the views for images of this shape; refuses settings that do not fit it."""
    return identity()

  def summarise_output(self, layer: str, output: jax.Array) -> jax.Array:
    """Returns what is recorded of the output [B, ...] of one of the `outputs`, [B, ...]; pure."""
    return output

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns what the views are called, and which are averaged over, such as one corruption."""
    views = self.views(image_shape)
    names = [views.values(i) for i in range(len(views))]
    return ViewTable.of(names if len(views) > 1 else ['as stored'])

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """Returns what the views of records are: of rows that are stored as shown, what each shows."""
    return dataclasses.replace(self.view_table(image_shape), units=versions(records))

  def by_image(
    self, records: RecordsReader, image_shape: ImageShape
  ) -> tuple[RecordsReader, ViewTable]:
    """Returns records with one row an image, versions that are rows joined, and their views."""
    return records, self.by_row(records, image_shape)

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
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

  @property
  def shown_as(self) -> dict[str, str]:
    """Lines of the table `which numbers these are` on what is done to the images."""
    return {}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns what keeps the numbers from published ones; by default the images alone."""
    return provenance.set_differences(records.identity.get('data', {}), num_images(records))

  def provenance(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """Returns the table `which numbers these are`: images, what is done to them, comparability."""
    records = evaluations[0].records
    data, digest = records.identity.get('data', {}), provenance.data_digest(records)
    lines = provenance.data_lines(data, digest, num_images(records), image_shape)
    compared = provenance.comparable(self.differences(records, image_shape))
    return provenance.table({**lines, **self.shown_as, provenance.COMPARABLE: compared})

  def which_numbers(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """Returns `provenance`, with the reason where equal scores leave top-k out."""
    table = self.provenance(evaluations, image_shape)
    reason = Recorded(evaluations).decided_by_ties(self.top_k)
    return Table(table.columns, [*table.rows, ['equal scores', reason]]) if reason else table

  def estimates(self, recorded: Recorded) -> Iterable[pd.DataFrame]:
    """Yields the table of results, part by part; see `robustness.estimates.means`."""
    return ()

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Reduces records, and nothing else, to the table of results; by default to `estimates`."""
    recorded = Recorded(evaluations, self.facets(image_shape))
    return Findings(estimates=list(self.estimates(recorded)))

  def sample_arrays(
    self, rows: Rows, key: jax.Array, findings: Findings
  ) -> Mapping[str, np.ndarray]:
    """Returns arrays that figures need besides the records, such as sample images of the rows.

    `key` is the root of the study's random stream; the findings may choose the images.
    """
    return {}

  def figures(self, results: Results) -> Figures:
    """Returns figures and captions from results alone, by file name without suffix.

    By default those that the facets of its table choose (`robustness.present.charts.draw`).
    """
    return charts.draw(results)

  def findings(self, results: Results) -> list[Finding]:
    """Returns what was found in words, from the table (`robustness.present.sentences.findings`)."""
    return findings(results)


@dataclasses.dataclass(frozen=True)
class Preview:
  """Tables, which are logged, and figures by file name, from before the trainings."""

  tables: Mapping[str, Table] = dataclasses.field(default_factory=dict)
  figures: Mapping[str, Figure] = dataclasses.field(default_factory=dict)


@runtime_checkable
class StudiesTrainings(Protocol):
  """A study of what trainings show."""

  def preview(self, rows: Rows, recipes: Recipes) -> Preview:
    """Returns what can be shown before anything is trained; see `Study.check`."""

  @property
  def compares_training_rows(self) -> bool:
    """Whether `training_findings` is to be given the rows that classifiers are trained on here."""

  def training_findings(self, rows: Rows, training: Mapping[str, Rows]) -> Findings:
    """Returns what the evaluated rows have in common with those that each classifier trains on."""


@runtime_checkable
class EstimatesFromRows(Protocol):
  """A study with estimates that need the images in addition to the records."""

  def row_estimates(self, rows: Rows, evaluations: Sequence[Evaluation]) -> Iterable[pd.DataFrame]:
    """Yields parts of the table of results."""


@runtime_checkable
class HasSmallChanges(Protocol):
  """A study of changes that a precision may round away."""

  def lost_in_bfloat16(self, image_shape: ImageShape | None = None) -> str:
    """Returns what rounding to bfloat16 would hide, with what to change; '' if nothing.

    A config with that precision is refused; `image_shape` is None before the images are opened.
    """


class ScoresPredictions(Study):
  """A study that scores predictions made elsewhere too.

  Attributes:
    prediction_settings: the dataclass of the keys of such a config, except `study`.
  """

  prediction_settings: ClassVar[type]

  @abc.abstractmethod
  def score_predictions(self, settings: Any, folder: pathlib.Path) -> Scored:
    """Returns the scores of the predictions that settings of the class `prediction_settings` name.

    Predictions that are no records yet are written as records in a folder.
    """


class Scored(NamedTuple):
  """Predictions made elsewhere as records, and the findings from them.

  Attributes:
    evaluations: the records.
    findings: from the records.
    settings: plain values that state the study, what was scored and how.
    data: plain values that describe the images, by name where there are several data sets; empty
      where the records describe them.
  """

  evaluations: list[Evaluation]
  findings: Findings
  settings: Facts
  data: Facts = {}


STUDIES: Registry[Study] = Registry('robustness.studies', Study)


def from_config(section: Facts) -> Study:
  """Builds the study of `config.study`; raises InputError for an unknown name or key."""
  settings.check_sections({'study': section}, ('study',), 'config')
  values = dict(section)
  study = STUDIES.find(values.pop('name', ''), 'config.study.name')
  settings.refuse_moved(study.moved_keys, values, 'config.study')
  return settings.parse(study, values, 'config.study')


def scores_of(study: Study, config: Facts) -> Callable[[pathlib.Path], Scored]:
  """Returns the function from a folder for records to the scores of predictions in files.

  Args:
    study: the study.
    config: the config without its section `study`, which names the predictions.

  Raises:
    InputError: the study cannot score predictions, or a key is not in its `prediction_settings`.
  """
  if isinstance(study, ScoresPredictions):
    parsed: object = settings.parse(study.prediction_settings, config, 'config')
    return functools.partial(study.score_predictions, parsed)
  studies = STUDIES.classes().items()
  scoring = [name for name, study_class in studies if issubclass(study_class, ScoresPredictions)]
  raise SettingError(
    KEYS.study.name,
    study.name,
    problem='which shows images to a classifier',
    fix=f'Predictions in files are scored by {", ".join(scoring)}.',
  )


def default_section(name: str) -> Facts:
  """Returns `config.study` of a study with every key at its default."""
  study = STUDIES.find(name, 'config.study.name')
  try:
    section = dataclasses.asdict(study())
    return {'name': name, **section, **study.sections_of_parts(section)}
  except TypeError as error:
    raise SettingError(
      KEYS.study.name,
      name,
      problem=f'which is no dataclass with a default for each field ({error})',
    ) from error


def require_single_labels(rows: Rows, use: str) -> None:
  """Raises InputError for rows with several labels each, which `use` ('an attack') cannot take."""
  if next(rows.batches(1, [0]))['label'].ndim > 1:
    raise InputError(
      f'these rows have several labels each, and {use} takes the gradient of the loss of one: take '
      'a source of rows with single labels.'
    )
