"""The base class of all studies of robustness, and interfaces that some of them have in addition.

A study defines views, that is, ways of showing every image, such as fog at severity 3. The
predictions of a classifier for all rows (stored images) in all views are its records. A study
computes its estimates from the records alone.

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
from robustness.estimates.fixed_width import FixedWidth, plan, wald_lower_bound
from robustness.estimates.means import arrays, means
from robustness.estimates.of_means import function_of_means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.evaluation import provenance
from robustness.evaluation.outcomes import BASE, Recorded, num_images, versions
from robustness.evaluation.outcomes import Evaluation as Evaluation
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.views import DRAWS, ONLY, Views, ViewTable, stored_view
from robustness.present import charts
from robustness.present.sentences import Finding, findings
from robustness.results import Findings as Findings
from robustness.results import Results, Table

ImageShape = tuple[int, int, int]
"""Height, width and channels."""
Figures = dict[str, tuple[Figure, str]]
"""{file name without suffix: (figure, caption)}."""
Recipes = Mapping[str, Facts]
"""{label of the classifier: description of its training, {} if it is not trained in this run}. A
description has `training_split`, `class_groups` and `training_environments` (for rows stored in
environments), and augmentations, attack and objective, as JSON values."""
IMAGES = 'images'
"""The label of the one evaluation of a study without a classifier."""


@dataclasses.dataclass(frozen=True)
class Study(Part):
  """Base class of studies: the views of a study, and the estimates from its records.

  A subclass overrides `views`, `estimates` and whatever else it needs. By default a study shows
  each image as it is stored, records no layers, and draws figures by the columns of its results.

  Attributes:
    title: the title of the report, which says what is measured in plain words; '' takes the name.
    papers: the papers to cite in addition to this software, keys of
      `robustness.present.page.PAPERS`.
    layers: names of layers of the network; recorded is how far their outputs for the shown image
      are from those for the stored one. ('stages',) means the stem, the stages and the logits.
    outputs: layers with recorded outputs, such as ('logits',); see `summarise_output`.
    moved_keys: {key of an earlier version: what replaces it in `config.study`}.
    set_by_study: settings of parts, such as the radius of an attack, that the study itself sets, so
      that the sections of the parts do not have them.
    not_recorded: settings that do not change records, because they only select among them. Studies
      that differ in such settings alone share their records.
    needs_classifier: False for a study that measures images only. Its config has no classifier, and
      its single evaluation has the label `IMAGES`.
    needs_labels: False for a study that does not use labels, so that images may be of any class.
    fewest_classifiers: least number of classifiers; 2 for a study that only compares them.
    lists_failures: whether results list the most affected classes and the most damaged images.
    described_facets: descriptions of columns of the study's results, for columns that
      `robustness.estimates.facets` does not describe, or describes in another meaning.
    allows_adaptation: whether the prediction of an image may depend on other images, as with
      test-time adaptation.
    confidence: confidence level of all intervals, in (0, 1).
    false_discovery_rate: level of the paired tests between two classifiers, in (0, 1); only studies
      with many tests have this field.
    half_width: precision at which a view needs no more rows, in (0, .5); 0 shows all rows in every
      view. Otherwise rows are shown in rounds, in a random order by the seed of the config. A view
      is left out of later rounds once the confidence interval of its share of wrong rows is at most
      ± half_width wide (docs/sequential.md). Estimates over several views use the rows that all of
      them have. Only studies that allow it have this field.
    top_k: k of a second accuracy or error, which counts a prediction as right if the true class is
      among the k best; only studies with one have this field.
  """

  section = 'config.study'
  title: ClassVar[str] = ''
  papers: ClassVar[tuple[str, ...]] = ()
  moved_keys: ClassVar[Mapping[str, str]] = {}
  set_by_study: ClassVar[tuple[str, ...]] = ()
  not_recorded: ClassVar[tuple[str, ...]] = ()
  # attributes without annotation, such as `layers`, become settings in a subclass that annotates
  # them
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
    """Raises InputError for a setting with a value that is not valid."""
    check_fields(self, self.section)
    for key in ('confidence', 'false_discovery_rate'):
      self.require(0 < getattr(self, key) < 1, key, 'in (0, 1)')
    is_valid = self.half_width == 0 or 0 < self.half_width < 0.5
    self.require(is_valid, 'half_width', 'in (0, .5), or 0 to show every view to all images')

  def key(self, key: str) -> str:
    """Returns the name of the setting `key` for messages, such as 'config.study.norm'."""
    return key_name(f'{self.section}.{key}')

  @property
  def facts(self) -> dict[str, PlainValue]:
    """JSON values about the study besides its settings, for records and results; {} by default."""
    return {}

  @classmethod
  def chosen_parts(cls, study: Facts) -> dict[str, dict[str, type[Part]]]:
    """Returns the classes of the parts that a study selects, {section: {label: class}}.

    For attacks it is {'attack': {'pgd': PGD}}: `config.study.attack` has a subsection `pgd` with
    the settings of this attack. `study` has the values of `config.study`.
    """
    return {}

  @classmethod
  def sections_of_parts(cls, study: Facts) -> dict[str, dict[str, Facts]]:
    """Returns the settings of the parts of `chosen_parts`, {section: {label: settings}}.

    An example is {'attack': {'pgd': {'steps': 10}}}. Settings that `study` does not have are at
    their defaults.
    """
    sections: dict[str, dict[str, Facts]] = {}
    for section, parts in cls.chosen_parts(study).items():
      sections[section] = {
        label: {**cls.settings_of(part), **study[section].get(label, {})}
        for label, part in parts.items()
      }
    return sections

  @classmethod
  def settings_of(cls, part: type[Part]) -> Facts:
    """Returns {setting: default} of a part, such as an attack.

    Settings that the study itself sets, those in `set_by_study`, are left out.
    """
    fields = dataclasses.fields(part)
    return {field.name: field.default for field in fields if field.name not in cls.set_by_study}

  @classmethod
  def from_earlier(cls, study: Facts) -> Facts:
    """Returns `config.study` of an earlier version in the form of this version, here unchanged."""
    return study

  def describe(self) -> dict[str, PlainValue]:
    """Returns the study's name, settings and `facts` as JSON values, for results."""
    return {**super().describe(), **self.sections_of_parts(vars(self)), **self.facts}

  @property
  def recording(self) -> dict[str, PlainValue]:
    """The settings and facts on which the study's records depend, {key: JSON value}.

    Studies of one run with equal values share their records. By default they are all values of
    `describe`, except settings that only concern intervals and tests.
    """
    excluded = {'false_discovery_rate', *self.not_recorded}
    if not self.half_width:  # else the confidence level determines which rows are recorded
      excluded.add('confidence')
    return {key: value for key, value in self.describe().items() if key not in excluded}

  @property
  def stream(self) -> str:
    """The name from which the study's root random key is made, by default the study's name.

    Studies with the same `stream` use the same random numbers.
    """
    return self.name

  @property
  def sequential_design(self) -> FixedWidth | None:
    """The rule that decides after each round of rows which views need no more rows.

    It is None if `half_width` is 0: all rows are shown in every view.
    """
    return plan(self.half_width, self.confidence) if self.half_width else None

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The quantities that the study estimates, such as the error, the most important one first."""
    return ()

  @property
  def described_quantities(self) -> tuple[Quantity, ...]:
    """The `quantities`, each with the study's own descriptions of columns, `described_facets`."""
    return tuple(dataclasses.replace(q, facets=self.described_facets) for q in self.quantities)

  def means(
    self, quantity: Quantity, source: Recorded | Outcomes, by: Sequence[str] = (), **options: Any
  ) -> pd.DataFrame:
    """Returns estimates of a quantity for groups of views, with intervals of `confidence`.

    Args:
      quantity: a quantity that is the mean of its statistic, as the error is the mean of wrong
        predictions, or a function of such means.
      source: the records that the statistic is computed from, or its values.
      by: facets of the views, such as 'corruption'. There is an estimate for each combination of
        their values, and a single one over all views for ().
      **options: see `robustness.estimates.means.means`, or `function_of_means` if the quantity
        has a function.
    """
    outcomes = source.outcomes(quantity) if isinstance(source, Recorded) else source
    estimate = function_of_means if quantity.function else means
    return estimate(quantity, outcomes, by, confidence=self.confidence, **options)

  @property
  def arrays(self) -> Callable[..., pd.DataFrame]:
    """The function that makes estimates of arrays of values that have no intervals.

    It is `robustness.estimates.means.arrays` with the confidence level of the study, and returns
    rows of the table of results.
    """
    return functools.partial(arrays, confidence=self.confidence)

  def needed_rows(self, rows: Rows) -> Rows:
    """Returns the rows that the study uses, by default all.

    A study of some images of a stored set, such as of one corruption, selects them here.
    """
    return rows

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError, before anything is trained, if rows or trainings do not suit the study.

    Args:
      rows: the rows that will be evaluated.
      recipes: {label of the classifier: description of its training, such as its augmentations},
        {} for a classifier that is not trained in this run.

    Raises:
      InputError: by default only for a study with `half_width`, the precision of its estimates, if
        the rows are too few for it, or if some are versions of one image, so that they are no
        independent trials.
    """
    if not self.half_width:
      return
    first_row = next(rows.batches(1, [0], stored=True))
    if BASE in first_row:  # the column with the number of the original image
      base_ids = rows.without_images()[BASE]
      valid = (
        '0 where images are versions of one image (column base_id), which are dependent trials'
      )
      self.require(len(np.unique(base_ids)) == len(base_ids), 'half_width', valid)
    num_needed = self._num_needed_in_words(rows.num_examples)
    if num_needed:
      raise self.refused(
        'half_width',
        f'for which a view with an error of 50 % needs {num_needed} images',
        f'There are {rows.num_examples:,}. Give more images ({KEYS.data.num_images}; 0 takes '
        'all), a larger half width, or 0 to show every view to all images.',
      )

  def check_classes(self, rows: Rows) -> None:
    """Raises InputError if the settings name a class of which no image is measured.

    It is called before anything is measured. The labels of `rows` are classes of the classifier
    that will be measured, which may be coarser than the data's, such as 'dog' for all breeds.
    """

  def _num_needed_in_words(self, num_images: int) -> str:
    """Returns how many images `half_width` needs, in words; '' if `num_images` are enough."""
    # A simple lower bound comes first, because the exact number needs the plan of the design, which
    # takes hours if the half width is very small.
    lower_bound = wald_lower_bound(self.half_width, self.confidence)
    if lower_bound > num_images:
      return f'at least {lower_bound:,}' if lower_bound < 1e9 else f'{lower_bound:.1e}'
    largest = plan(self.half_width, self.confidence).most_trials
    return f'up to {largest:,}' if largest > num_images else ''

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the views for images of this shape; InputError is raised if settings do not fit."""
    return stored_view()

  def summarise_output(self, layer: str, output: jax.Array) -> jax.Array:
    """Returns the values [B, ...] to record of a layer's output [B, ...]; a pure function.

    `layer` is one of `outputs`. By default the output itself is recorded.
    """
    return output

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, and the groups of views that results are averaged over.

    By default a view is named by its parameters, such as 'fy=-2, fx=5', and a single view 'as
    stored'; for the groups see `ViewTable.of`. A study may have others, such as all severities of a
    corruption.
    """
    views = self.views(image_shape)
    names = [views.values(i) for i in range(len(views))]
    return ViewTable.of(names if len(views) > 1 else ['as stored'])

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """Returns the table of the views of records, in which every stored image is a row.

    By default it is `view_table`, in which `units` states the rows that are versions of the same
    image, so that intervals do not treat them as independent. For images that are stored corrupted,
    such as ImageNet-C, the table also names the corruption of each row.
    """
    return dataclasses.replace(self.view_table(image_shape), units=versions(records))

  def by_image(
    self, records: RecordsReader, image_shape: ImageShape
  ) -> tuple[RecordsReader, ViewTable]:
    """Returns the records with one row for each original image, and the table of their views.

    By default every row is an image, and (`records`, `self.by_row(...)`) is returned. A set such as
    ImageNet-C has a row for each corrupted version of an image. Its study overrides this method, so
    that the versions of an image become the views of one row, as if the study had corrupted it.
    """
    return records, self.by_row(records, image_shape)

  def with_common_views(self, studies: Sequence[Study]) -> Study:
    """Returns this study restricted to the views that all of `studies` show, for a comparison.

    `studies` have the same name and may differ in settings, such as severities. By default settings
    do not change which views there are, and the result is this study.
    """
    del studies
    return self

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns the facets of the views, such as severity, for grouping estimates.

    The table has a row per view and a column per facet. By default the facets are the views'
    parameters that are single numbers, except those that only concern random numbers. Float32
    numbers become the decimal that they are printed as (0.1 instead of 0.10000000149), by way of
    text.
    """
    views = self.views(image_shape)
    scalars = {
      name: values.astype(str).astype(float) if values.dtype.kind == 'f' else values
      for name, values in views.parameters.items()
      if values.ndim == 1 and name not in (DRAWS, ONLY)
    }
    return pd.DataFrame(scalars, index=range(len(views)))

  @property
  def shown_as(self) -> dict[str, str]:
    """How the study changes images, in words: {'noise': 'norm 4 in each channel, not clipped'}.

    Reports have these lines in the table `which numbers these are`; {} by default.
    """
    return {}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns the reasons why results are not comparable with published numbers, [] if they are.

    By default only the choice of images can be a reason, for example a subset of a data set.
    """
    return provenance.set_differences(records.identity.get('data', {}), num_images(records))

  def provenance(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """Returns the table `which numbers these are`, a line of (what, value) for each fact.

    It states the images, how they are prepared and shown, and whether results are comparable with
    published ones.
    """
    records = evaluations[0].records
    data, digest = records.identity.get('data', {}), provenance.data_digest(records)
    lines = provenance.data_lines(data, digest, num_images(records), image_shape)
    compared = provenance.comparability_in_words(self.differences(records, image_shape))
    return provenance.table({**lines, **self.shown_as, provenance.COMPARABLE: compared})

  def which_numbers(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """Returns the table `which numbers these are` of the results, from `provenance`.

    A line 'equal scores' is added if a top-k accuracy is left out because it would depend on the
    order of classes with equal logits.
    """
    table = self.provenance(evaluations, image_shape)
    reason = Recorded(evaluations).decided_by_ties(self.top_k)
    return Table(table.columns, [*table.rows, ['equal scores', reason]]) if reason else table

  def estimates(self, recorded: Recorded) -> Iterable[pd.DataFrame]:
    """Yields tables of estimates from the records, to be joined to the table of results.

    Each has a row per estimate (`robustness.estimates.table`) and is made by `self.means`,
    `self.arrays` or functions of `robustness.estimates`. A study that overrides `reduce` needs
    none.
    """
    return ()

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns estimates, tables and arrays computed from the records, by default `estimates`.

    Args:
      evaluations: the records of each classifier.
      image_shape: height, width and channels of the stored images.
    """
    return Findings(estimates=list(self.estimates(Recorded(evaluations, self.facets(image_shape)))))

  def sample_arrays(
    self, rows: Rows, key: jax.Array, findings: Findings
  ) -> Mapping[str, np.ndarray]:
    """Returns arrays that figures need in addition to results, {name: array}: example images.

    Args:
      rows: the evaluated rows.
      key: the root random key of the study.
      findings: the results, which may determine the images, such as the most damaged ones.
    """
    return {}

  def figures(self, results: Results) -> Figures:
    """Returns {file name without suffix: (figure, caption)}, drawn from the results alone.

    By default the columns of the results decide what is drawn (`robustness.present.charts.draw`).
    """
    return charts.draw(results)

  def findings(self, results: Results) -> list[Finding]:
    """Returns the main results as sentences; see `robustness.present.sentences.findings`."""
    return findings(results)


@dataclasses.dataclass(frozen=True)
class Preview:
  """Tables, which are logged, and figures that a study shows before classifiers are trained.

  Attributes:
    tables: {title: table}.
    figures: {file name without suffix: figure}.
  """

  tables: Mapping[str, Table] = dataclasses.field(default_factory=dict)
  figures: Mapping[str, Figure] = dataclasses.field(default_factory=dict)


@runtime_checkable
class StudiesTrainings(Protocol):
  """The interface of a study that also examines the images that classifiers are trained on."""

  def preview(self, rows: Rows, recipes: Recipes) -> Preview:
    """Returns tables and figures about rows and trainings, to be shown before anything is trained.

    Args:
      rows: the rows that will be evaluated.
      recipes: {label of the classifier: description of its training}.
    """

  @property
  def compares_training_rows(self) -> bool:
    """Whether `training_findings` needs the training rows of classifiers that this run trains."""

  def training_findings(self, rows: Rows, training: Mapping[str, Rows]) -> Findings:
    """Returns estimates and tables that compare the evaluated rows with training rows.

    They may count the images that are in both, for example. `training` is {label of the classifier:
    its training rows}.
    """


@runtime_checkable
class EstimatesFromRows(Protocol):
  """The interface of a study with estimates that need the rows in addition to the records."""

  def row_estimates(self, rows: Rows, evaluations: Sequence[Evaluation]) -> Iterable[pd.DataFrame]:
    """Yields tables of estimates that need the images or columns of the evaluated rows.

    They are added to the tables of `Study.estimates`, which are made from the records alone.
    """


@runtime_checkable
class HasSmallChanges(Protocol):
  """The interface of a study with perturbations so small that bfloat16 may round them away."""

  def lost_in_bfloat16(self, image_shape: ImageShape | None = None) -> str:
    """Returns words for an error message if rounding to bfloat16 would remove changes of images.

    They say which changes these are, or which setting avoids this; '' if all changes remain.
    `image_shape` is None before the images are opened.
    """


class ScoresPredictions(Study):
  """Base class of studies that can also evaluate predictions made by other software.

  Attributes:
    prediction_settings: dataclass of the keys that a config for such predictions has besides
      `study`, such as the files.
  """

  prediction_settings: ClassVar[type]

  @abc.abstractmethod
  def score_predictions(self, settings: Any, folder: pathlib.Path) -> Scored:
    """Returns the results for predictions in files.

    Args:
      settings: an instance of `prediction_settings`, which names the files.
      folder: the folder in which records of the predictions are written, unless the files are
        records already.
    """


class Scored(NamedTuple):
  """The results for predictions made by other software.

  Attributes:
    evaluations: the predictions as records.
    findings: the results.
    settings: JSON values that state the study, and which predictions were evaluated and how.
    data: JSON values that describe the images, by name if there are several data sets; {} if the
      records describe them.
  """

  evaluations: list[Evaluation]
  findings: Findings
  settings: Facts
  data: Facts = {}


STUDIES: Registry[Study] = Registry('robustness.studies', Study)


def from_config(section: Facts) -> Study:
  """Returns the study of `config.study`, a section with the study's `name` and its settings.

  Raises:
    InputError: the name or a key is unknown, or a value is not valid.
  """
  settings.check_sections({'study': section}, ('study',), 'config')
  values = dict(section)
  study = STUDIES.find(values.pop('name', ''), 'config.study.name')
  settings.refuse_moved(study.moved_keys, values, 'config.study')
  return settings.parse(study, values, 'config.study')


def scores_of(study: Study, config: Facts) -> Callable[[pathlib.Path], Scored]:
  """Returns the function that evaluates predictions in files, which other software has made.

  The function takes the folder to write records to, and returns the results of the study.

  Args:
    study: the study.
    config: the keys of the config that name the files with predictions; the section `study` must
      have been removed.

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
