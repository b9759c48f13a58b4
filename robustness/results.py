"""Results of a study, as objects and as the files `results.csv`, `results.json` and `results.npz`.

`results.csv` has the estimates, `results.json` descriptions and further tables, and `results.npz`
arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import itertools
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from robustness.core import json_files
from robustness.core.array_files import read_npz
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError, nearest
from robustness.core.json_files import Form
from robustness.core.limits import MAX_BYTES_OF_RESULTS, MAX_LABEL_LENGTH
from robustness.core.paths import expanded
from robustness.core.settings import Section, check_name
from robustness.core.typing import Facts
from robustness.estimates import table as estimates
from robustness.estimates.facets import Facet
from robustness.estimates.intervals import decimals
from robustness.estimates.quantity import Quantity
from robustness.estimates.simultaneous import RATE

if TYPE_CHECKING:
  from matplotlib.figure import Figure

JSON_NAME = 'results.json'
ARRAYS_NAME = 'results.npz'
WHICH_NUMBERS = 'which numbers these are'
"""Name of the table in which every study states what its numbers measure."""
DIGEST_OF_IMAGES = 'digest of the images'
"""The row of the table `WHICH_NUMBERS` that has the digest of the images."""
DAMAGED_IMAGES, FAILURE_IMAGES = 'most damaged images', 'failure_images'
"""Names of the table of the most damaged images and of the array of their pictures."""
TASK, SEED = 'task', 'seed'
"""Facets that say which task of a battery, or which of several seeds, an estimate is of."""
NO_SPREAD = 'no interval: all seeds are equal'
"""Note of a mean over seeds without an interval."""
NO_CLASSIFIER = 'no classifier is used'
MACHINE_SETTINGS = ('parallel', 'precision', 'batch_size', 'views_per_step', 'seed', 'seeds')
"""Settings that do not decide whether two runs can be compared."""
SINGLE = ''
"""Name of the only task of a run that is no battery."""
FOURIER_TABLE = 'fourier_table'
SUMMARIES = ('', FOURIER_TABLE)
"""Reports on all tasks of a battery together: '' for their headlines, or the tables of Yin et al.
(2019) with the measured values, see `robustness.present.fourier_table`.
"""
_PLAIN_KINDS = 'biufcU'
"""Kinds of NumPy dtypes (`dtype.kind`) that are stored without pickling: booleans, numbers, text.
"""
REBUILD = 'Run the same command again: results are rebuilt from the records.'
# The expected keys and types of `results.json`; keys with '?' may be missing.
_PART: Form = {'name': str}
_DESCRIBED: dict[str, Form] = {
  'augment?': [_PART],
  **dict.fromkeys(('input_filter?', 'adaptation?', 'attack?', 'objective?'), (_PART, type(None))),
  'step?': (int, type(None)),
  'balanced?': (str, type(None)),
  'preprocessing?': {'mean?': [float], 'std?': [float], 'input_size?': int},
}
_CLASSIFIER: Form = {'label': str, **_DESCRIBED, 'seeds?': {str: _DESCRIBED}}
_FACET: Form = {
  'name': str,
  'words': str,
  'unit?': str,
  'ordered?': bool,
  'place?': str,
  'words_of_many?': str,
  'places?': {str: str},
  'steps?': int,
}
_FORM: Form = {
  'study': str,
  'classifiers': [_CLASSIFIER],
  'data': {'num_examples?': int, 'image_shape?': [int]},
  'settings': {'seeds?': [int], 'confidence?': float},
  'tables': {str: {'columns': [str], 'rows': [list]}},
  'environment?': dict,
  'facets': {str: str},
  'quantities?': (list, dict),
  'facet_words?': {str: [_FACET]},
}
_BOUND = (float, type(None))
_QUANTITY: Form = {'name': str, 'words': str, 'low?': _BOUND, 'high?': _BOUND, 'by?': [str]}


@dataclasses.dataclass(frozen=True)
class Table:
  """A table of text, numbers, booleans and None.

  Attributes:
    columns: names of the columns.
    rows: a list of values for each row, one per column.
  """

  columns: Sequence[str]
  rows: Sequence[Sequence[Any]]

  @classmethod
  def from_lines(cls, lines: Sequence[Mapping[str, Any]], if_empty: Sequence[str] = ()) -> Table:
    """Returns a table from its lines, {column: value} with the same columns in each.

    Args:
      lines: the lines.
      if_empty: columns of a table without lines.
    """
    columns = tuple(lines[0]) if lines else if_empty
    return cls(columns, [list(line.values()) for line in lines])

  def __post_init__(self) -> None:
    """Checks that each row has a cell for each column.

    Raises:
      InputError: a row has another number of cells.
    """
    for index, row in enumerate(self.rows):
      if len(row) != len(self.columns):
        raise InputError(
          f'row {index} of a table has {len(row)} cells for {len(self.columns)} columns '
          f'({", ".join(self.columns)}): give one cell a column.'
        )


@dataclasses.dataclass
class Findings:
  """The estimates, further tables and arrays that a study computes.

  `Results` adds the quantities, classifiers and settings.

  Attributes:
    tables: {name: table} of further tables.
    arrays: {name: array} for figures.
    estimates: tables of estimates, which are joined to the table of results.
  """

  tables: dict[str, Table] = dataclasses.field(default_factory=dict)
  arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  estimates: list[pd.DataFrame] = dataclasses.field(default_factory=list)


class Value(NamedTuple):
  """The value of an estimate and the ends of its interval; the ends are NaN without an interval."""

  value: float
  low: float
  high: float

  def __repr__(self) -> str:
    """Returns 'Value(value=…, low=…, high=…)' with the decimals that tables show.

    Without an interval the value has six significant digits.
    """
    width = self.high - self.low
    form = f'.{decimals(width)}f' if width > 1e-12 else '.6g'
    return f'Value(value={self.value:{form}}, low={self.low:{form}}, high={self.high:{form}})'


class Presenter(Protocol):
  """The interface of objects that show results as figures, a report or tables.

  `robustness.present.publish.Presentation` implements it.
  """

  def displayed_figures(self, results: Results, /) -> Mapping[str, tuple[Figure, str]]:
    """Returns {name: (figure, caption)}, the main figure first."""

  def report(self, results: Results, /) -> bytes:
    """Returns the report as one HTML file."""

  def latex(self, results: Results, /) -> str:
    """Returns the headlines (main quantities) as a LaTeX table."""

  def text(self, results: Results, /) -> str:
    """Returns the headlines (main quantities) as lines of text, as a run prints them."""

  def html(self, results: Results, /) -> str:
    """Returns the title, the headlines (main quantities) and the main figure as HTML.

    Notebooks display it.
    """


@dataclasses.dataclass(repr=False)
class Results:
  """All results of a run: estimates, further tables, arrays, and a description of the run.

  Quantities between 0 and 1, such as errors, are fractions and never percent.

  Attributes:
    study: name of the study.
    classifiers: a dictionary of facts about each classifier, with its `label`; empty for a study
      without classifiers.
    data: a dictionary of facts about the images.
    settings: a dictionary of the study's settings.
    tables: {name: table} besides the estimates, such as 'which numbers these are' (how the images
      were made and shown).
    arrays: {name: array} of images and other data for figures.
    table: the estimates, one per row; see `robustness.estimates.table`.
    quantities: the quantities of the table. For a battery (several studies), the quantities of all
      tasks.
    tasks: for a battery, {task: its quantities}; empty for a single study.
    environment: a dictionary of facts about the code: its commit and the versions of packages.
    findings: the sentences of the report; empty before it is written.
    presentation: the object that draws the figures and writes the report; None for `Results.read`.
    studies: function that returns {task: FinishedStudy}, each task's study with its records, see
      `robustness.workdirs.finished_workdir`; None without records.
  """

  study: str
  classifiers: Sequence[Facts]
  data: Any
  settings: Any
  tables: dict[str, Table] = dataclasses.field(default_factory=dict)
  arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  table: pd.DataFrame = dataclasses.field(default_factory=lambda: estimates.assemble([]))
  quantities: tuple[Quantity, ...] = ()
  tasks: dict[str, tuple[Quantity, ...]] = dataclasses.field(default_factory=dict)
  environment: Section = dataclasses.field(default_factory=dict)
  findings: Sequence[str] = dataclasses.field(default=(), compare=False)
  presentation: Presenter | None = dataclasses.field(default=None, compare=False, repr=False)
  studies: Callable[[], Mapping[str, Any]] | None = dataclasses.field(
    default=None, compare=False, repr=False
  )

  def __repr__(self) -> str:
    """Returns the study, the number of estimates and the classifiers in one line."""
    return f'Results({self.study!r}, {len(self.table)} estimates of {", ".join(self.labels)})'

  def __str__(self) -> str:
    """Returns the line of `repr`, and below it the headlines, unless `Results.read` made these."""
    return f'{self!r}\n{self.presentation.text(self)}' if self.presentation else repr(self)

  @property
  def presented_by(self) -> Presenter:
    """The object that draws the figures and writes the report.

    Raises:
      InputError: the results were read without it, by `Results.read`.
    """
    if self.presentation is None:
      raise InputError(f'results of {self.study} have no figures: robustness.read(WORKDIR) has.')
    return self.presentation

  def value(self, quantity: str, classifier: str = '', **facets: Any) -> Value:
    """Returns one estimate, such as `results.value('error', band='low')`.

    Args:
      quantity: a name in the column `quantity` of `table`.
      classifier: label of the classifier; '' for the first one.
      **facets: values in the grouping columns, such as band='low'. The estimate must have no value
        in all other grouping columns.

    Raises:
      InputError: the table has no such estimate, or several.
    """
    rows = estimates.select(self.table, quantity, **facets)
    label = classifier or next(iter(self.labels), '')
    rows = rows[rows.classifier == label]
    if len(rows) == 1:
      row = rows.iloc[0]
      return Value(float(row.value), float(row.low), float(row.high))
    estimates_of_quantity = self.table[self.table.quantity == quantity]
    if estimates_of_quantity.empty:
      raise InputError(f'no quantity {quantity!r}; {nearest(quantity, set(self.table.quantity))}.')
    # the facets of one estimate for each set of facets that estimates of the quantity have
    examples = [
      ' and '.join(f'{name}={entries[name].tolist()[0]!r}' for name in names) or 'no facets'
      for names, entries in estimates.by_facets(estimates_of_quantity)
    ]
    raise InputError(
      f'{len(rows)} estimates are {quantity!r} of {label!r} with {facets}; its estimates have, '
      f'for example, {", or ".join(examples)}, and the classifiers {", ".join(self.labels)}.'
    )

  def figures(self) -> Mapping[str, tuple[Figure, str]]:
    """Returns {name: (figure, caption)}, the main figure first. A notebook displays the figures."""
    return self.presented_by.displayed_figures(self)

  def figure(self, name: str = '') -> Figure:
    """Returns the Matplotlib figure with a name.

    Args:
      name: the name, such as 'error', or its beginning; '' for the main figure.

    Raises:
      InputError: no figure has a name that begins with `name`.
    """
    figures = self.figures()
    titles = [title for title in figures if title.startswith(name)]
    if not titles:
      raise InputError(f'no figure {name!r}; {nearest(name, figures)}.')
    figure, _caption = figures[name if name in figures else titles[0]]
    return figure

  def report(self, path: str | os.PathLike[str]) -> pathlib.Path:
    """Writes the report, one HTML file that contains its figures, and returns its path."""
    file = expanded(path)
    write_atomically(file, self.presented_by.report(self))
    return file

  def to_latex(self) -> str:
    """Returns the headlines (main quantities) as a LaTeX table, as `robustness table` does."""
    return self.presented_by.latex(self)

  def _repr_html_(self) -> str:
    """Returns the title, the headlines (main quantities) and the main figure as HTML.

    Notebooks display it.
    """
    return self.presented_by.html(self)

  @functools.cached_property
  def by_task(self) -> dict[str, Results]:
    """The results of each task, as {task: results}.

    A task is one of several studies that a run measures together; the table of all of them has a
    column with the name of the task. A run of one study has {`SINGLE`: these results}.
    """
    if not self.tasks:
      return {SINGLE: self}
    return {
      name: Results(
        self.settings.get(name, {}).get('name', ''),  # the name of the task's study
        classifiers=self.classifiers,
        data=self.data.get(name, {}),
        settings=self.settings.get(name, {}),
        table=estimates.assemble([estimates.without_facet(self.table, TASK, name)]),
        quantities=quantities,
      )
      for name, quantities in self.tasks.items()
    }

  def image_digest(self, task: str = SINGLE) -> str:
    """Returns the digest of the images of a task; '' if the results do not state it."""
    table = self.tables.get(f'{task}: {WHICH_NUMBERS}' if task else WHICH_NUMBERS, Table((), ()))
    pairs = [row for row in table.rows if len(row) == 2]  # (fact, value), unless it is damaged
    return next((str(value) for fact, value in pairs if fact == DIGEST_OF_IMAGES), '')

  @property
  def protocol(self) -> dict[str, Any]:
    """The settings that must be equal so that numbers of two runs can be compared."""
    return {key: value for key, value in self.settings.items() if key not in MACHINE_SETTINGS}

  @property
  def over_seeds(self) -> Results:
    """The results without the estimates of single seeds, so with means over seeds only.

    A run with one seed is unchanged.
    """
    if SEED not in self.table.columns:
      return self
    return dataclasses.replace(self, table=estimates.without_facet(self.table, SEED))

  @property
  def false_discovery_rate(self) -> float:
    """The false-discovery rate of tests of differences."""
    return float(self.settings.get('false_discovery_rate', RATE))

  @property
  def prefixes(self) -> dict[str, str]:
    """The prefix of the names of each classifier's arrays, as {label: prefix}.

    A prefix is '<label>/', or '' if there is only one classifier.
    """
    labels = self.classifier_labels
    return {label: f'{label}/' if len(labels) > 1 else '' for label in labels}

  @property
  def presented(self) -> tuple[Quantity, ...]:
    """The quantities that reports show by default.

    It is () for a battery, which shows the quantities of each task separately.
    """
    return () if self.tasks else self.quantities

  def by_facets(self) -> Iterator[tuple[Quantity, tuple[str, ...], pd.DataFrame]]:
    """Yields the estimates of each quantity, grouped by the columns in which they have values.

    An example of such grouping columns is ('corruption', 'severity').

    Yields:
      (quantity, names of the columns, rows of the table).
    """
    for quantity in self.presented:
      for facets, rows in estimates.by_facets(self.table[self.table.quantity == quantity.name]):
        yield quantity, facets, rows

  @property
  def drawn(self) -> tuple[Quantity, ...]:
    """The quantities that reports draw: those with `headline` or `drawn` set, or else all."""
    with_figures = tuple(q for q in self.presented if q.headline or q.drawn)
    return with_figures or self.presented

  @property
  def classifier_labels(self) -> list[str]:
    """The labels of the classifiers.

    The property `labels` may have more: labels of estimates that belong to no single classifier.
    """
    return [classifier['label'] for classifier in self.classifiers]

  @property
  def labels(self) -> list[str]:
    """All labels in the column `classifier` of the table, in the order of the config.

    The first is the baseline.
    """
    return labels_of({SINGLE: self})

  def write(self, directory: str | os.PathLike[str]) -> None:
    """Writes `results.npz`, `results.csv` and then `results.json` to a folder, each atomically.

    Equal results have equal bytes. NaN is `null` in the JSON.

    Raises:
      InputError: a value has no JSON form or is infinite, or an array holds objects.
    """
    folder = pathlib.Path(directory)
    # {task: its quantities}, also for a single study
    by_task = self.tasks or {SINGLE: self.quantities}
    entries = {task: _quantities_as_json(quantities) for task, quantities in by_task.items()}
    document = {
      'study': self.study,
      'classifiers': self.classifiers,
      'data': self.data,
      'settings': self.settings,
      'environment': self.environment,
      'tables': {name: dataclasses.asdict(table) for name, table in self.tables.items()},
      'arrays': ARRAYS_NAME,
      'facets': estimates.facet_types(self.table),
      'facet_words': {task: self._facet_words(declared) for task, declared in by_task.items()},
      # {task: entries} for a battery, a list of entries for a single study.
      'quantities': entries if self.tasks else entries[SINGLE],
    }
    text = json.dumps(_as_json(document, 'results'), indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(folder / ARRAYS_NAME, _npz_bytes(self.arrays))
    write_atomically(folder / estimates.FILE_NAME, estimates.to_csv(self.table))
    write_atomically(folder / JSON_NAME, (text + '\n').encode())

  def _facet_words(self, declared: Sequence[Quantity]) -> list[dict[str, Any]]:
    """Returns the descriptions (`Facet`) of the table's grouping columns for `results.json`.

    Results can then be read without the study that declared the columns. The result is [] without
    quantities.

    Args:
      declared: the quantities of a task. All describe a column equally, so the first one is asked.
    """
    names = estimates.facets_of(self.table) if declared else []
    return [dataclasses.asdict(declared[0].facet(name)) for name in names]

  def with_facets(self, facets: tuple[Facet, ...]) -> Results:
    """Adds descriptions of grouping columns to quantities that lack them.

    They are missing in files of earlier versions.
    """
    quantities = (dataclasses.replace(q, facets=q.facets or facets) for q in self.quantities)
    return dataclasses.replace(self, quantities=tuple(quantities))

  @classmethod
  def read(cls, directory: str | os.PathLike[str]) -> Results:
    """Reads the results that `write` wrote to a folder.

    Raises:
      InputError: a file is missing or truncated, or lacks a required entry.
    """
    path = expanded(directory) / JSON_NAME
    if not path.is_file():
      raise InputError(
        f'no {path.name} in {path.parent}: give the working directory of a finished run.'
      )
    document = json_files.read(path, _FORM, REBUILD, MAX_BYTES_OF_RESULTS)
    entries = document.get('quantities', [])
    is_battery = isinstance(entries, dict)  # {task: entries}; a single study has a list of entries
    entries_by_task = entries if is_battery else {SINGLE: entries}
    try:
      tables = {name: Table(**entry) for name, entry in document['tables'].items()}
      json_files.check(entries_by_task, f'{path}: quantities', {str: [_QUANTITY]}, REBUILD)
      facets_by_task = document.get('facet_words', {})  # earlier versions have none
      tasks = {}
      for task, entries_of_task in entries_by_task.items():
        facets = tuple(Facet(**entry) for entry in facets_by_task.get(task, ()))
        tasks[task] = tuple(_quantity(entry, facets) for entry in entries_of_task)
      quantities = tuple(dict.fromkeys(itertools.chain(*tasks.values())))
    except (InputError, TypeError) as error:
      raise InputError(f'{path} is damaged ({error}). {REBUILD}') from error
    _check_names(path, document, entries_by_task)
    results = cls(
      **{key: document[key] for key in ('study', 'classifiers', 'data', 'settings')},
      tables=tables,
      arrays=read_npz(path.with_name(ARRAYS_NAME), REBUILD, MAX_BYTES_OF_RESULTS),
      table=estimates.from_csv(path.with_name(estimates.FILE_NAME), document['facets']),
      quantities=quantities,
      tasks=tasks if is_battery else {},
      environment=document.get('environment', {}),
    )
    _check_table(path.with_name(estimates.FILE_NAME), results)
    return results


def _check_names(path: pathlib.Path, document: Facts, quantities: Section) -> None:
  """Checks the names in `results.json`, since folders and figures are named after them.

  Args:
    path: path of `results.json`.
    document: its content.
    quantities: {task: entries of its quantities}, from `document`.

  Raises:
    InputError: a name cannot be the name of a file, or two classifiers have the same label.
  """
  labels = [entry['label'] for entry in document['classifiers']]
  names = {
    'study': [document['study']],
    'classifiers': labels,
    'quantities': [entry['name'] for entries in quantities.values() for entry in entries],
    'facets': document['facets'],
    'tasks': [name for name in quantities if name != SINGLE],
  }
  for key, listed in names.items():
    for name in listed:
      check_name(f'{path}, {key}', name, is_key=False, max_bytes=MAX_LABEL_LENGTH)
  repeated = [label for label in labels if labels.count(label) > 1]
  if repeated:
    raise InputError(f'{path}: {len(repeated)} classifiers have the label {repeated[0]!r}.')


def _check_table(path: pathlib.Path, results: Results) -> None:
  """Checks that the table of estimates agrees with the quantities.

  Args:
    path: path of the table, for messages.
    results: the results.

  Raises:
    InputError: the table is empty although there are quantities, or a value is outside the range of
      its quantity.
  """
  table = results.table
  if results.quantities and table.empty:
    raise InputError(f'{path} holds no estimate: it was altered. {REBUILD}')
  quantities_by_name: dict[str, list[Quantity]] = {}  # tasks may declare one name differently
  for quantity in results.quantities:
    quantities_by_name.setdefault(quantity.name, []).append(quantity)
  for name, declared in quantities_by_name.items():
    rows = table[table['quantity'] == name]
    is_difference = rows.versus != ''
    _check_values(path, name, rows[~is_difference].value, [q.range for q in declared])
    _check_values(path, name, rows[is_difference].value, [q.difference_range for q in declared])


def _check_values(
  path: pathlib.Path, name: str, values: pd.Series, ranges: Sequence[tuple[float, float]]
) -> None:
  """Checks that the values of a quantity are in its range, up to rounding.

  Args:
    path: path of the table, for messages.
    name: name of the quantity.
    values: the values.
    ranges: ranges (low, high) that the tasks (the studies of a run) of the results declare for the
      quantity. A value must be between the lowest and the highest end.

  Raises:
    InputError: a value is outside by more than 1e-9 · max(1, |low|, |high|). Infinite ends do not
      count in this maximum.
  """
  low = min(low for low, _ in ranges)
  high = max(high for _, high in ranges)
  finite_ends = [abs(end) for end in (low, high) if math.isfinite(end)]
  slack = 1e-9 * max([1.0, *finite_ends])
  outside = values[(values < low - slack) | (values > high + slack)]
  if len(outside):
    value = outside.iloc[0]
    raise InputError(
      f'{path}: {name} is {value:g}, outside [{low:g}, {high:g}]: damaged. {REBUILD}'
    )


def labels_of(tasks: Mapping[str, Results]) -> list[str]:
  """Returns all labels in the tables of several tasks, in the order of the config.

  A classifier is included if at least one task measured it.
  """
  measured = dict.fromkeys(label for task in tasks.values() for label in task.table['classifier'])
  listed = [entry.get('label') for task in tasks.values() for entry in task.classifiers]
  in_config_order = [label for label in listed if label in measured]
  return list(dict.fromkeys([*in_config_order, *measured]))


def summary_name(value: object) -> str:
  """Returns the kind of report on all tasks of a battery, one of `SUMMARIES`.

  Args:
    value: the key `config.battery.summary` of a workdir: the name, or in earlier versions a section
      with the name. Unknown names become ''.
  """
  name = value.get('name', '') if isinstance(value, Mapping) else value
  return name if isinstance(name, str) and name in SUMMARIES else ''


def read(workdir: str | os.PathLike[str]) -> Results:
  """Reads the results of a finished workdir; `read(WORKDIR).table` is the table of estimates.

  Raises:
    InputError: a file is missing or damaged, see `Results.read`.
  """
  return Results.read(workdir)


def _as_json(value: Any, key: str) -> Any:
  """Converts a value to JSON's types.

  Args:
    value: the value, possibly nested, with NumPy values and paths.
    key: name of the value in error messages.

  Raises:
    InputError: JSON cannot hold the value.
  """
  if isinstance(value, (np.generic, np.ndarray)):
    value = value.tolist()
  if isinstance(value, Mapping):
    return {str(k): _as_json(v, f'{key}.{k}') for k, v in value.items()}
  if isinstance(value, (list, tuple)):
    return [_as_json(v, f'{key}[{i}]') for i, v in enumerate(value)]
  if isinstance(value, os.PathLike):
    return os.fspath(value)
  if value is None or isinstance(value, (str, bool, int)):
    return value
  if isinstance(value, float) and not math.isinf(value):
    return None if math.isnan(value) else value
  description = value if isinstance(value, float) else f'a {type(value).__name__} ({value!r})'
  raise InputError(
    f'{key} is {description}, which JSON cannot hold: give a mapping, a list, a string, a finite '
    'number, a boolean or None, or NaN for a number that does not exist.'
  )


def _npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
  """Returns the bytes of an uncompressed .npz file.

  Equal arrays have equal bytes, since arrays are sorted by name and no time is stored.
  """
  ordered = {name: np.asarray(arrays[name], order='C') for name in sorted(arrays)}
  for name, array in ordered.items():
    if array.dtype.kind not in _PLAIN_KINDS:
      raise InputError(
        f'array {name!r} has dtype {array.dtype}, which a portable .npz cannot hold: '
        'convert it to a numeric, boolean or string dtype (for example float32).'
      )
  buffer = io.BytesIO()
  np.savez(buffer, allow_pickle=False, **ordered)
  return buffer.getvalue()


def _quantity(entry: Mapping[str, Any], facets: tuple[Facet, ...]) -> Quantity:
  """Returns a quantity of `results.json`; the key `paper` of earlier versions is ignored.

  Args:
    entry: the fields of the quantity.
    facets: the grouping columns of its task.
  """
  fields = {key: value for key, value in entry.items() if key != 'paper'}
  return Quantity(**{**fields, 'by': tuple(fields.get('by', ())), 'facets': facets})


def _quantities_as_json(quantities: Sequence[Quantity]) -> list[dict[str, Any]]:
  """Converts quantities to dictionaries for `results.json`.

  Functions and undeclared ranges are left out.
  """
  # The fields of a quantity that hold functions are excluded from comparison.
  fields = [field.name for field in dataclasses.fields(Quantity) if field.compare]
  entries = ({name: getattr(quantity, name) for name in fields} for quantity in quantities)
  return [{key: value for key, value in entry.items() if value is not None} for entry in entries]
