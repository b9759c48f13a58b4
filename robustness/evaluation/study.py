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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from robustness.estimates.means import Measured, arrays, estimate_row, means, table_of_rows
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
  """Base class of studies, such as the error under corruptions.

  A study defines views, the ways in which every image is perturbed. It computes estimates from the
  records, the predictions for all images in all views. A subclass overrides `views`, `estimates`
  and whatever else it needs. By default a study shows each image as it is stored, records no
  layers, and draws figures by the columns of its results.

  Attributes:
    title: title of the report, in plain words; '' takes the name.
    papers: papers to cite besides this software, keys of `robustness.present.page.PAPERS`.
    layers: names of layers of the network. The records have the distance between their outputs for
      the perturbed and for the stored image. ('stages',) means the stem, the stages and the logits.
    outputs: layers with recorded outputs, such as ('logits',); see `summarise_output`.
    moved_keys: {key of an earlier version: what replaces it in `config.study`}.
    set_by_study: settings of parts, such as the radius of an attack, that the study sets. The
      sections of the parts do not have them.
    not_recorded: settings that do not change records. Studies that differ only in such settings
      share their records.
    needs_classifier: False for a study that measures images only. Its config has no classifier, and
      its single evaluation has the label `IMAGES`.
    needs_labels: False for a study that does not use labels, so that images may be of any class.
    fewest_classifiers: smallest number of classifiers; 2 for a study that only compares them.
    lists_failures: whether results list the most affected classes and the most damaged images.
    described_facets: descriptions of columns of the study's results. Columns without one are
      described by `robustness.estimates.facets`.
    allows_adaptation: whether the prediction of an image may depend on other images, as with
      test-time adaptation.
    confidence: confidence of all intervals, in (0, 1).
    false_discovery_rate: level of the paired tests between two classifiers, in (0, 1). Only studies
      with many tests have this field.
    half_width: half width of the error's interval at which a view needs no more images, in (0, .5).
      Images are then shown in rounds, in a random order by the seed of the config. A view is left
      out of later rounds once its interval is narrow enough (docs/sequential.md). Estimates over
      several views use the images that all of these have. 0 shows all images in every view. Only
      studies that allow rounds have this field.
    top_k: k of a second accuracy or error, in which a prediction is right if the true class is
      among the k best. Only studies with such a quantity have this field.
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
    """Raises InputError for invalid values of the settings that all studies have.

    Each field of the subclass has its own check; see `robustness.core.registry.setting`. The
    confidence level and the false-discovery rate are in (0, 1), and `half_width`, the precision
    that stops an evaluation, in (0, .5).
    """
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
    """Further facts for records and results besides the settings, as JSON values; {} by default."""
    return {}

  @classmethod
  def chosen_parts(cls, study: Facts) -> dict[str, dict[str, type[Part]]]:
    """Returns the classes of the parts that a study selects, such as attacks.

    Args:
      study: the values of `config.study`.

    Returns:
      {section: {label: class}}, such as {'attack': {'pgd': PGD}}. The settings of this attack are
      in `config.study.attack.pgd`.
    """
    return {}

  @classmethod
  def sections_of_parts(cls, study: Facts) -> dict[str, dict[str, Facts]]:
    """Returns the settings of the parts that a study selects, such as attacks.

    Settings that `study` does not have are at their defaults.

    Args:
      study: the values of `config.study`.

    Returns:
      {section: {label: settings}}, such as {'attack': {'pgd': {'steps': 10}}}.
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
    """Returns the settings of a part, such as an attack, and their defaults, {setting: default}.

    Settings that the study sets (`set_by_study`) are left out.
    """
    fields = dataclasses.fields(part)
    return {field.name: field.default for field in fields if field.name not in cls.set_by_study}

  @classmethod
  def from_earlier(cls, study: Facts) -> Facts:
    """Converts `config.study` of an earlier version to this version; unchanged by default."""
    return study

  def describe(self) -> dict[str, PlainValue]:
    """Returns the study's name, settings and `facts` for results, as JSON values."""
    return {**super().describe(), **self.sections_of_parts(vars(self)), **self.facts}

  @property
  def recording(self) -> dict[str, PlainValue]:
    """The settings and facts that the study's records depend on, {key: JSON value}.

    Studies of one run with equal values share their records. By default all values of `describe`
    are included, except settings that only concern intervals and tests.
    """
    excluded = {'false_discovery_rate', *self.not_recorded}
    if not self.half_width:  # else the confidence level determines which rows are recorded
      excluded.add('confidence')
    return {key: value for key, value in self.describe().items() if key not in excluded}

  @property
  def stream(self) -> str:
    """The name that the study's root random key is made from, by default the study's name.

    Studies with the same `stream` use the same random numbers.
    """
    return self.name

  @property
  def sequential_design(self) -> FixedWidth | None:
    """The rule that decides after each round of images which views need no more images.

    It is None if `half_width` is 0: all images are then shown in every view.
    """
    return plan(self.half_width, self.confidence) if self.half_width else None

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The quantities that the study estimates, such as the error, the most important one first."""
    return ()

  @property
  def described_quantities(self) -> tuple[Quantity, ...]:
    """The `quantities`, each with the study's descriptions of columns (`described_facets`)."""
    return tuple(dataclasses.replace(q, facets=self.described_facets) for q in self.quantities)

  def means(
    self, quantity: Quantity, source: Recorded | Outcomes, by: Sequence[str] = (), **options: Any
  ) -> pd.DataFrame:
    """Estimates a quantity for groups of views, with intervals, as a table of results.

    Args:
      quantity: a mean of a statistic, as the error is the mean of wrong predictions, or a function
        of such means.
      source: the records that the statistic is computed from, or its values.
      by: facets (columns of `facets`), such as 'corruption'. There is an estimate for each
        combination of their values. () is a single estimate over all views.
      **options: see `robustness.estimates.means.means`, or `function_of_means` if the quantity has
        a function.
    """
    outcomes = source.outcomes(quantity) if isinstance(source, Recorded) else source
    estimate = function_of_means if quantity.function else means
    return estimate(quantity, outcomes, by, confidence=self.confidence, **options)

  @property
  def arrays(self) -> Callable[..., pd.DataFrame]:
    """Function that makes a table of results from values without intervals, such as a map.

    It is `robustness.estimates.means.arrays`. The table's column of confidences has the study's.
    """
    return functools.partial(arrays, confidence=self.confidence)

  def table_of(self, label: str, measured: Iterable[Measured], versus: str = '') -> pd.DataFrame:
    """Returns estimates of a classifier as a table of results.

    Args:
      label: label of the classifier.
      measured: the estimates.
      versus: label of the classifier that is subtracted; '' if the estimates are no differences.
    """
    rows = []
    for quantity, facets, estimate in measured:
      rows.append(estimate_row(label, versus, quantity, facets, estimate, self.confidence))
    return table_of_rows(rows)

  def needed_rows(self, rows: Rows) -> Rows:
    """Returns the images that the study uses, by default all.

    For example, a study of one stored corruption selects its images here.
    """
    return rows

  def check_labels(self, labels: Collection[str]) -> None:
    """Raises InputError, before data are opened, if a setting names an unknown classifier.

    Args:
      labels: labels of the classifiers.
    """

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError, before anything is trained, if the data or trainings do not suit the
    study.

    Args:
      rows: the images that will be evaluated.
      recipes: {label of the classifier: description of its training, such as its augmentations}; {}
        in place of a description if the classifier is not trained in this run.

    Raises:
      InputError: by default only for a study with `half_width`. Either there are too few images for
        this precision, or some images are versions of the same image, which are not independent.
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
    """Raises InputError if a setting names a class without images; by default it never does.

    Args:
      rows: the images. Their labels are classes of the classifier that will be measured, which may
        be coarser than classes of the data, such as 'dog' for all breeds.
    """

  def _num_needed_in_words(self, num_images: int) -> str:
    """Returns a phrase with the number of images that `half_width` needs, such as 'up to 1,536'.

    A study with `self.half_width` shows images until the confidence interval of each error is at
    most that wide on either side of the value.

    Args:
      num_images: number of images that there are.

    Returns:
      The phrase, or '' if `num_images` are enough.
    """
    # A simple lower bound comes first, because the exact number needs a plan of all rounds, which
    # takes hours if the half width is very small.
    lower_bound = wald_lower_bound(self.half_width, self.confidence)
    if lower_bound > num_images:
      return f'at least {lower_bound:,}' if lower_bound < 1e9 else f'{lower_bound:.1e}'
    largest = plan(self.half_width, self.confidence).most_trials
    return f'up to {largest:,}' if largest > num_images else ''

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the views of the study, the ways in which each image is perturbed.

    Args:
      image_shape: height, width and channels of the stored images.

    Raises:
      InputError: a setting does not fit images of this shape.
    """
    return stored_view()

  def summarise_output(self, layer: str, output: jax.Array) -> jax.Array:
    """Reduces a layer's output [B, ...] to the values [B, ...] that are recorded.

    It is a pure function. By default the whole output is recorded.

    Args:
      layer: one of `outputs`.
      output: output of the layer for B images.
    """
    return output

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, and the groups of views that results are averaged over.

    By default a view has the name of its parameters, such as 'fy=-2, fx=5', and a single view is
    called 'as stored'. `ViewTable.of` has the default groups. A study may have other groups, such
    as all severities of a corruption.
    """
    views = self.views(image_shape)
    names = [views.values(i) for i in range(len(views))]
    return ViewTable.of(names if len(views) > 1 else ['as stored'])

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """Returns the names and groups of the views for records of all stored images.

    By default it is `view_table`, with `units` that state which stored images are versions of the
    same image. Intervals then do not treat these as independent. For images that are stored
    corrupted, such as ImageNet-C, it also names the corruption of each image.
    """
    return dataclasses.replace(self.view_table(image_shape), units=versions(records))

  def by_image(
    self, records: RecordsReader, image_shape: ImageShape
  ) -> tuple[RecordsReader, ViewTable]:
    """Returns the records with the stored versions of each original image joined.

    A set such as ImageNet-C stores every corrupted version of an image. Its study overrides this
    method: versions become views of one image, as if the study had corrupted it. By default every
    stored image is an original, and `records` and `self.by_row(...)` are returned.

    Returns:
      The records, and the names and groups of their views.
    """
    return records, self.by_row(records, image_shape)

  def with_common_views(self, studies: Sequence[Study]) -> Study:
    """Restricts this study to the views that several studies have in common, for a comparison.

    By default all studies have the same views, and this study is returned.

    Args:
      studies: studies of the same name, which may differ in settings such as severities.
    """
    return self

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns a table that describes the views (ways of perturbing images), with a row per view.

    Its columns, such as severity, are called facets and group the estimates. By default they are
    the parameters of the views that are single numbers, except parameters that only change random
    numbers. Float32 values become the decimal that they are printed as (0.1 instead of
    0.10000000149).
    """
    views = self.views(image_shape)
    scalars = {}
    for name, values in views.parameters.items():
      if values.ndim == 1 and name not in (DRAWS, ONLY):
        is_float = values.dtype.kind == 'f'
        scalars[name] = values.astype(str).astype(float) if is_float else values
    return pd.DataFrame(scalars, index=range(len(views)))

  @property
  def shown_as(self) -> dict[str, str]:
    """Descriptions of the perturbation, such as {'noise': 'norm 4 in each channel, not clipped'}.

    Reports have these lines in the table 'which numbers these are'. It is {} by default.
    """
    return {}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns the reasons why results are not comparable with published numbers; [] if they are.

    By default only the choice of images can be a reason, for example a subset of a data set.
    """
    return provenance.set_differences(records.identity.get('data', {}), num_images(records))

  def provenance(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """Returns the table 'which numbers these are' of a report, with the columns 'what' and 'value'.

    It states which images were used, how they were prepared and perturbed, and whether results are
    comparable with published numbers.

    Args:
      evaluations: the records of each classifier; the first one describes the data.
      image_shape: height, width and channels of the images.
    """
    records = evaluations[0].records
    data, digest = records.identity.get('data', {}), provenance.data_digest(records)
    lines = provenance.data_lines(data, digest, num_images(records), image_shape)
    compared = provenance.comparability_in_words(self.differences(records, image_shape))
    return provenance.table({**lines, **self.shown_as, provenance.COMPARABLE: compared})

  def which_numbers(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """Returns the table 'which numbers these are' of the results.

    It is `provenance`. If a top-k accuracy is left out because ties would decide it, a line 'equal
    scores' is added.
    """
    table = self.provenance(evaluations, image_shape)
    reason = Recorded(evaluations).decided_by_ties(self.top_k)
    return Table(table.columns, [*table.rows, ['equal scores', reason]]) if reason else table

  def estimates(self, recorded: Recorded) -> Iterable[pd.DataFrame]:
    """Yields tables of estimates that are computed from the records.

    Each has a row per estimate (`robustness.estimates.table`), and is made by `self.means`,
    `self.arrays`, `self.table_of` or functions of `robustness.estimates`. The tables are joined to
    the table of results.
    """
    return ()

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Computes everything in the results from the records: estimates, tables and arrays.

    By default these are only the tables of `estimates`.

    Args:
      evaluations: the records of each classifier.
      image_shape: height, width and channels of the stored images.
    """
    return Findings(estimates=list(self.estimates(Recorded(evaluations, self.facets(image_shape)))))

  def sample_arrays(
    self, rows: Rows, key: jax.Array, findings: Findings
  ) -> Mapping[str, np.ndarray]:
    """Returns example images for figures, {name: array}; none by default.

    Args:
      rows: the evaluated images.
      key: the root random key of the study.
      findings: the results, which may decide the examples, such as the most damaged images.
    """
    return {}

  def figures(self, results: Results) -> Figures:
    """Draws figures from the results, {file name without suffix: (figure, caption)}.

    By default the columns of the results decide what is drawn (`robustness.present.charts.draw`).
    """
    return charts.draw(results)

  def findings(self, results: Results) -> list[Finding]:
    """Returns the main results as sentences; see `robustness.present.sentences.findings`."""
    return findings(results)


@dataclasses.dataclass(frozen=True)
class Preview:
  """Tables and figures that a study shows before classifiers are trained.

  Attributes:
    tables: {title: table}, which are logged.
    figures: {file name without suffix: figure}.
  """

  tables: Mapping[str, Table] = dataclasses.field(default_factory=dict)
  figures: Mapping[str, Figure] = dataclasses.field(default_factory=dict)


@runtime_checkable
class StudiesTrainings(Protocol):
  """The interface of a study that also examines the images that classifiers are trained on."""

  def preview(self, rows: Rows, recipes: Recipes) -> Preview:
    """Returns tables and figures about the data, to be shown before anything is trained.

    Args:
      rows: the images that will be evaluated.
      recipes: {label of the classifier: description of its training}.
    """

  @property
  def compares_training_rows(self) -> bool:
    """Whether `training_findings` needs the training images of classifiers that this run trains."""

  def training_findings(self, rows: Rows, training: Mapping[str, Rows]) -> Findings:
    """Compares the evaluated images with training images, for instance to count duplicates.

    Args:
      rows: the evaluated images.
      training: {label of the classifier: its training images}.

    Returns:
      Estimates and tables.
    """


@runtime_checkable
class EstimatesFromRows(Protocol):
  """The interface of a study with estimates that need the images besides the records."""

  def row_estimates(self, rows: Rows, evaluations: Sequence[Evaluation]) -> Iterable[pd.DataFrame]:
    """Yields tables of estimates that need the evaluated images or their columns.

    They are joined to the tables of `Study.estimates`, which need the records only.

    Args:
      rows: the evaluated images.
      evaluations: the records of each classifier.
    """


@runtime_checkable
class HasSmallChanges(Protocol):
  """The interface of a study with perturbations so small that bfloat16 may round them away."""

  def lost_in_bfloat16(self, image_shape: ImageShape | None = None) -> str:
    """Returns a phrase that says which perturbations bfloat16 rounds away; '' if none.

    Used in an error message. The phrase may name a setting that avoids this.

    Args:
      image_shape: height, width and channels; None before the images are opened.
    """


class ScoresPredictions(Study):
  """Base class of studies that can also evaluate predictions of other software.

  Attributes:
    prediction_settings: dataclass of the keys, besides `study`, of a config for such predictions,
      such as the files.
  """

  prediction_settings: ClassVar[type]

  @abc.abstractmethod
  def score_predictions(self, settings: Any, folder: pathlib.Path) -> Scored:
    """Evaluates predictions in files, and returns the results.

    Args:
      settings: an instance of `prediction_settings`, which names the files.
      folder: folder for records of the predictions. Not used if the files are records already.
    """


class Scored(NamedTuple):
  """The results for predictions of other software.

  Attributes:
    evaluations: the predictions as records.
    findings: estimates and tables.
    settings: the study, and which predictions were evaluated and how, as JSON values.
    data: description of the images, as JSON values; by name if there are several data sets. {} if
      the records describe them.
  """

  evaluations: list[Evaluation]
  findings: Findings
  settings: Facts
  data: Facts = {}


STUDIES: Registry[Study] = Registry('robustness.studies', Study)


def from_config(section: Facts) -> Study:
  """Creates the study that `config.study` describes by a `name` and settings.

  Raises:
    InputError: the name or a key is unknown, or a value is not valid.
  """
  settings.check_sections({'study': section}, ('study',), 'config')
  values = dict(section)
  study = STUDIES.find(values.pop('name', ''), 'config.study.name')
  settings.refuse_moved(study.moved_keys, values, 'config.study')
  return settings.parse(study, values, 'config.study')


def scores_of(study: Study, config: Facts) -> Callable[[pathlib.Path], Scored]:
  """Returns a function that evaluates predictions of other software in files.

  Args:
    study: the study.
    config: the keys of the config that name the files; without the section `study`.

  Returns:
    A function that takes a folder for records and returns the results.

  Raises:
    InputError: the study cannot evaluate predictions, or a key is not in its `prediction_settings`.
  """
  if isinstance(study, ScoresPredictions):
    parsed: object = settings.parse(study.prediction_settings, config, 'config')
    return functools.partial(study.score_predictions, parsed)
  studies = STUDIES.classes().items()
  scoring = [name for name, study_class in studies if issubclass(study_class, ScoresPredictions)]
  problem = 'which shows images to a classifier'
  fix = f'Predictions in files are scored by {", ".join(scoring)}.'
  raise SettingError(KEYS.study.name, study.name, problem=problem, fix=fix)


def default_section(name: str) -> Facts:
  """Returns the config section of a study with every setting at its default.

  Args:
    name: name of the study, such as 'corruption_error', or FILE.py:NAME.

  Raises:
    SettingError: a field of the study has no default.
  """
  study = STUDIES.find(name, 'config.study.name')
  try:
    section = dataclasses.asdict(study())
    parts = study.sections_of_parts(section)  # settings of exchangeable parts, such as attacks
    return {'name': name, **section, **parts}
  except TypeError as error:
    problem = f'which is no dataclass with a default for each field ({error})'
    raise SettingError(KEYS.study.name, name, problem=problem) from error


def require_single_labels(rows: Rows, use: str) -> None:
  """Raises InputError if images have several labels each.

  Args:
    rows: the images.
    use: what needs single labels, such as 'an attack', for the message.
  """
  if next(rows.batches(1, [0]))['label'].ndim > 1:
    raise InputError(
      f'these rows have several labels each, and {use} takes the gradient of the loss of one: take '
      'a source of rows with single labels.'
    )
