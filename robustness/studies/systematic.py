"""Systematic robustness: accuracy in every environment × class group, and ρ.

Each row is shown clean (E_0) and in every environment at every level: corruptions at their
severities, rotations by right angles (Omran and Schiele 2022). Which cells a classifier has seen is
read from its recipe (`robustness.augment.environment`); one from elsewhere has seen none, and gets
accuracies by cell without ρ. Rows that are stored in environments (rendition styles) are shown as
they are.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.settings import choice, require, require_fractions
from robustness.environments import grids, initial_weights, near_duplicates, transforms
from robustness.environments.grids import ENVIRONMENT, GRID, GRID_HIGH, GRID_LOW, GROUP
from robustness.environments.rows import COLUMN
from robustness.environments.transforms import CLEAN, view_base
from robustness.estimates.means import Row, arrays, of_number, part
from robustness.estimates.quantity import ACCURACY, CLEAN_ACCURACY, Quantity
from robustness.evaluation import study
from robustness.evaluation.records import Records
from robustness.evaluation.study import Evaluation, Findings, Preview
from robustness.evaluation.view_table import ViewTable
from robustness.evaluation.views import Views, identity
from robustness.figures import systematic as figures
from robustness.metrics.systematic import BALANCES, FORMULAS, B, Cells, S, Transfer, U, transfer
from robustness.results import Number, Results, Table
from robustness.wording import systematic as wording

GENERATED, STORED = 'generated', 'stored'
PAPER = 'omran2022towards'
RHO = Quantity(
  'rho',
  'share of robustness that carries over to unseen classes (ρ)',
  kind='ratio',
  better='higher',
  headline=True,
  paper=PAPER,
)
UNSEEN_GAIN = Quantity(
  'unseen_gain',
  'accuracy on unseen classes minus that of the baseline',
  better='higher',
  low=-1,
  headline=True,
)
SEEN_ACCURACY = Quantity(
  'seen', 'accuracy on classes seen in the environment', better='higher', paper=PAPER
)
UNSEEN_ACCURACY = Quantity(
  'unseen', 'accuracy on classes not seen in the environment', better='higher', paper=PAPER
)
BASELINE = Quantity('baseline', 'accuracy of the baseline', better='higher', paper=PAPER)
CLASS_GROUP = 'class_group'
STRATIFIED, JOINT_DRAWS = 'korn-graubard, stratified', 'joint draws'
SEEN, HELD_OUT = 'seen', 'held out'


@dataclasses.dataclass(frozen=True)
class Study(study.Study):
  """Settings of the study `systematic`.

  Attributes:
    source: 'generated' applies `environments` to the rows; 'stored' takes rows that are in an
      environment already, and their environments in place of these.
    environments: T_1, ..., T_M: names of corruptions or 'rotation'; T_k was seen by class group k.
    severities: of corruptions, averaged.
    angles: of a rotation, averaged; of 90, 180, 270.
    baseline: label of the classifier whose accuracy ρ compensates for; '' for none (b = 0).
    baseline_by_cell: whether that is its accuracy on the seen and unseen classes separately.
    formula: of ρ: 'clipped' or 'printed', see `robustness.metrics.systematic.rho`.
    balance: 'class' weighs all classes alike, 'image' all images.
    samples: draws that an interval of ρ takes.
    confidence: of all intervals.
    near_duplicates: bits of 64 that the perceptual hashes of a test and a training image may differ
      in to be counted and listed; -1 does not look for them.
  """

  name: ClassVar[str] = 'systematic'
  papers: ClassVar[tuple[str, ...]] = ('omran2022towards',)

  source: str = GENERATED
  environments: tuple[str, ...] = ('gaussian_noise', 'gaussian_blur', 'contrast', 'snow')
  severities: tuple[int, ...] = (1, 2, 3, 4, 5)
  angles: tuple[int, ...] = (90, 180, 270)
  baseline: str = ''
  baseline_by_cell: bool = False
  formula: str = 'clipped'
  balance: str = 'class'
  samples: int = 2000
  confidence: float = 0.95
  near_duplicates: int = near_duplicates.OFF

  def __post_init__(self) -> None:
    choice('config.study.source', self.source, (GENERATED, STORED))
    if self.source == GENERATED:
      transforms.check_names('config.study.environments', self.environments)
    transforms.check_levels('config.study', self.severities, self.angles)
    transforms.check_right_angles('config.study.angles', self.angles)
    choice('config.study.formula', self.formula, FORMULAS)
    choice('config.study.balance', self.balance, BALANCES)
    require(self.samples >= 100, 'config.study.samples', self.samples, 'at least 100')
    require_fractions(self, 'config.study', 'confidence')
    near_duplicates.check(self.near_duplicates)

  @property
  def recording(self) -> dict[str, Any]:
    """All settings but what is done with training rows, which no record depends on."""
    return {k: v for k, v in self.described.items() if k != 'near_duplicates'}

  def check_classifiers(self, labels: Sequence[str]) -> None:
    """Refuses a baseline that is none of the classifiers."""
    if self.baseline:
      choice('config.study.baseline', self.baseline, labels)

  def check_rows(self, rows: Rows) -> None:
    """Refuses rows without class groups, or with another number of them than environments."""
    groups = rows.description.get('class_groups')
    if groups is None:
      raise InputError(
        'config.study.name is systematic, which needs class groups: set config.data.class_groups '
        f'or config.data.random_class_groups={len(self.environments)}.'
      )
    names = self._names(rows.description)
    if len(groups) - 1 != len(names):
      raise InputError(
        f'there are {len(groups) - 1} class groups for {len(names)} environments '
        f'({", ".join(names)}); give one group for each.'
      )

  def check_recipes(self, rows: Rows, recipes: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses trainings on environments with other class groups than those that are scored."""
    for label, recipe in recipes.items():
      self._check_groups(label, recipe, rows.description)

  def _check_groups(
    self, label: str, classifier: Mapping[str, Any], data: Mapping[str, Any]
  ) -> None:
    if 'class_groups' not in classifier or not _is_trained_on(classifier, self, self._names(data)):
      return
    scored = {name: title for title, own in data['class_groups'].items() for name in own}
    for title, own in classifier['class_groups'].items():
      other = next((name for name in own if scored.get(name, title) != title), None)
      if other is not None:
        raise InputError(
          f'{label} is trained with the class {other!r} in the class group {title!r}, and scored '
          f'with it in {scored[other]!r}: give the rows that are trained on and those that are '
          'evaluated the same config.data.class_groups, or the same random_class_groups, '
          'classes_per_group and class_group_seed of the same classes.'
        )

  def preview(self, rows: Rows, recipes: Mapping[str, Mapping[str, Any]]) -> Preview:
    """Returns the grid of cells that are seen in training and held out from it.

    It is that of the classifiers that are trained on the environments; without any there is none.
    """
    names = self._names(rows.description)
    trained = [name for name, recipe in recipes.items() if _is_trained_on(recipe, self, names)]
    if not trained:
      return Preview()
    members = rows.description['class_groups']
    order = grids.in_order(members)
    seen = grids.seen(len(order), len(names) + 1)
    cells = [
      [figures.title(group, members[group]), *(SEEN if cell else HELD_OUT for cell in own)]
      for group, own in zip(order, seen, strict=True)
      if members[group]
    ]
    title = f'cells of the classes in training, of {", ".join(trained)}'
    shown = [cell[0] for cell in cells], np.array([[x == SEEN for x in cell[1:]] for cell in cells])
    columns = [self._clean(rows.description), *names]
    table = Table(('class group', *columns), cells)
    return Preview({title: table}, {'cells': figures.cells(columns, *shown)})

  def _names(self, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of E_1, ..., E_M."""
    if self.source == GENERATED:
      return self.environments
    if 'environments' not in data:
      raise InputError(
        "config.study.source is 'stored', but the rows have no column environment: set "
        "config.data.source='environments', or config.study.source='generated'."
      )
    return tuple(data['environments'][1:])

  def _clean(self, data: Mapping[str, Any]) -> str:
    """Returns what E_0 is called: of stored environments it says which of them it is."""
    return CLEAN if self.source == GENERATED else f'{CLEAN} ({data["environments"][0]})'

  @property
  def _levels(self) -> list[tuple[int, int]]:
    """(k, severity or angle) of every view but the clean one, in order."""
    return [
      (k, level)
      for k, name in enumerate(self.environments, 1)
      for level in transforms.levels(name, self.severities, self.angles)
    ]

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns the clean view (id 0), then each environment at each level.

    Ids of corruptions are those of the studies of corruptions, 5 n + severity; that of a rotation
    is 1000 + its angle.
    """
    if self.source == STORED:
      return identity()
    transforms.check_shape(image_shape, self.environments)

    def show(
      key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
    ) -> jax.Array:
      return transforms.transform(
        key, row['image'], view[ENVIRONMENT], view['level'], self.environments
      )

    table = [(0, 0), *self._levels]
    ids = [0, *(view_base(self.environments[k - 1]) + level for k, level in self._levels)]
    return Views(
      show,
      np.array(ids, np.int32),
      {
        ENVIRONMENT: np.array([k for k, _ in table], np.int32),
        'level': np.array([level for _, level in table], np.int32),
      },
      sequential=True,
    )

  def name_views(self, image_shape: tuple[int, int, int]) -> list[str]:
    """Returns 'clean', then '<environment> <level>'; rows that are stored have one view."""
    if self.source == STORED:
      return super().name_views(image_shape)
    return ['clean', *(f'{self.environments[k - 1]} {level}' for k, level in self._levels)]

  def view_table(self, records: Records, image_shape: tuple[int, int, int]) -> ViewTable:
    """See `robustness.evaluation.study.Study`; of stored images each row has its environment."""
    if self.source == GENERATED:
      return super().view_table(records, image_shape)
    data = records.identity['data']
    names = [self._clean(data), *self._names(data)]
    return ViewTable(('as stored',), rows=[names[k] for k in records.column(ENVIRONMENT)])

  @property
  def shown_as(self) -> dict[str, str]:
    """See `robustness.evaluation.study.Study`."""
    made = 'as stored' if self.source == STORED else ', '.join(self.environments)
    return {'environments': made, 'rho': f'{self.formula}, {self.balance} balance'}

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns accuracies by cell, and ρ with what it is made of where a classifier has seen cells.

    Numbers, for every environment e: `accuracy_e` on all classes, and of a classifier with seen
    cells `seen_e`, `unseen_e`, `baseline_e` and `rho_e`, with their means over environments `seen`,
    `unseen`, `baseline`, `rho`; with a baseline `unseen_gain_e` and `unseen_gain`, the accuracy on
    the unseen classes minus the baseline's on the same images; `clean_accuracy`.

    Arrays: `grid` [M + 1, M + 1] (class group, with those left over first, × environment, clean
    first) with `_low`, `_high` and `seen`; `by_class` [classes, M + 1]; `by_level` [levels, 2]
    accuracies on seen and unseen classes, and `rho_by_level` [levels].
    """
    del image_shape
    self.check_classifiers([evaluation.label for evaluation in evaluations])
    identity = evaluations[0].records.identity
    names = self._names(identity['data'])
    findings = Findings(arrays=self._axes(evaluations[0], names))
    right = {e.label: e.records.table('rank') == 0 for e in evaluations}
    cells = {e.label: self._cells(e, right[e.label], names) for e in evaluations}
    levels = {e.label: self._level_cells(e, right[e.label]) for e in evaluations}
    prefixes = dict(zip(cells, study.prefixes(evaluations), strict=True))
    for evaluation, prefix in zip(evaluations, prefixes.values(), strict=True):
      facts = evaluation.records.identity
      self._check_groups(evaluation.label, facts['classifier'], facts['data'])
      own, trained = cells[evaluation.label], self._has_seen(evaluation, names)
      self._accuracies(findings, prefix, own, names, trained)
      if trained:
        baseline = self.baseline if self.baseline != evaluation.label else ''
        self._transfer(findings, prefix, own, cells.get(baseline), names)
        if self.source == GENERATED:
          self._by_level(findings, prefix, levels[evaluation.label], levels.get(baseline))
    findings.tables[GRID] = grids.table(findings.arrays, prefixes)
    self._note_initial_weights(findings, evaluations, names)
    have_seen = {e.label: self._has_seen(e, names) for e in evaluations}
    findings.estimates = self._estimates(findings, prefixes, have_seen, cells)
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (RHO, UNSEEN_GAIN, SEEN_ACCURACY, UNSEEN_ACCURACY, BASELINE, ACCURACY, CLEAN_ACCURACY)

  def _estimates(
    self,
    findings: Findings,
    prefixes: Mapping[str, str],
    trained: Mapping[str, bool],
    cells: Mapping[str, Cells],
  ) -> list[pd.DataFrame]:
    """Returns the rows of the table of results, from numbers and arrays."""
    numbers, arrays_of = findings.numbers, findings.arrays
    environments = [str(name) for name in arrays_of[ENVIRONMENT]]
    grid = pd.DataFrame(
      list(itertools.product(arrays_of[GROUP], environments)), columns=[CLASS_GROUP, ENVIRONMENT]
    )
    by_class = pd.DataFrame(
      list(itertools.product(arrays_of['class'], environments)), columns=['class', ENVIRONMENT]
    )
    parts: list[pd.DataFrame] = []
    for label, prefix in prefixes.items():
      by_environment = [(f'_{e}', {ENVIRONMENT: e}) for e in environments[1:]]
      whole: list[tuple[str, dict[str, Any]]] = [('', {})]
      rows = [
        self._row_of(label, quantity, facets, numbers[f'{prefix}{quantity.name}{end}'])
        for quantity in self.quantities
        for end, facets in [*whole, *by_environment]
        if f'{prefix}{quantity.name}{end}' in numbers
      ]
      parts.append(part(rows))
      own = cells[label]
      n = np.array(
        [
          [own.rows(e, own.group == g).sum() for e in range(len(environments))]
          for g in range(len(arrays_of[GROUP]))
        ]
      )
      given: dict[str, Any] = {'confidence': self.confidence, 'method': STRATIFIED}
      ends = (arrays_of[f'{prefix}{name}'].ravel() for name in (GRID, GRID_LOW, GRID_HIGH))
      parts.append(arrays(ACCURACY, label, grid, *ends, n=n.ravel(), **given))
      of_class = arrays_of[f'{prefix}by_class'].ravel()
      parts.append(arrays(ACCURACY, label, by_class, of_class, n=len(own.label)))
      if trained[label] and self.source == GENERATED:
        parts += self._level_rows(arrays_of, label, prefix, len(own.label))
    return parts

  def _row_of(
    self, label: str, quantity: Quantity, facets: Mapping[str, Any], number: Number
  ) -> Row:
    method = number.interval.removesuffix(f' {self.confidence:g}')
    return of_number(label, '', quantity, facets, number, method, self.confidence)

  def _level_rows(
    self, found: Mapping[str, np.ndarray], label: str, prefix: str, n: int
  ) -> list[pd.DataFrame]:
    """Returns ρ, and the accuracies on seen and unseen classes, of each severity and angle."""
    environments = [str(found[ENVIRONMENT][k]) for k in found['level_environment']]
    levels = pd.DataFrame({ENVIRONMENT: environments, 'level': found['level']})
    rho = (found[f'{prefix}rho_by_level{end}'] for end in ('', '_low', '_high'))
    accuracies = found[f'{prefix}by_level'].T
    return [
      arrays(RHO, label, levels, *rho, n=n, method=JOINT_DRAWS, confidence=self.confidence),
      *(
        arrays(quantity, label, levels, values, n=n)
        for quantity, values in zip((SEEN_ACCURACY, UNSEEN_ACCURACY), accuracies, strict=True)
      ),
    ]

  def _has_seen(self, evaluation: Evaluation, names: Sequence[str]) -> bool:
    return _is_trained_on(evaluation.records.identity['classifier'], self, names)

  def _axes(self, evaluation: Evaluation, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns what the entries of the other arrays stand for."""
    identity = evaluation.records.identity
    groups = identity['data']['class_groups']
    order = grids.in_order(groups)
    number = {name: k for k, title in enumerate(order) for name in groups[title]}
    return {
      ENVIRONMENT: np.array([self._clean(identity['data']), *names]),
      GROUP: np.array(order),
      'class': np.array(identity['classes']),
      'class_group': np.array([number[name] for name in identity['classes']]),
      'level': np.array([level for _, level in self._levels]),
      'level_environment': np.array([k for k, _ in self._levels]),
    }

  def _cells(self, evaluation: Evaluation, right: np.ndarray, names: Sequence[str]) -> Cells:
    """Returns what was right, bool [N, V], by environment, levels averaged."""
    environments = len(names) + 1
    if self.source == STORED:
      share = np.full((len(right), environments), np.nan)
      own = evaluation.records.column(ENVIRONMENT)
      share[np.arange(len(right)), own] = right[:, 0]
      return self._of(evaluation, share, range(environments), [1] * environments)
    columns = [np.array([0]), *(self._views_of(k) for k in range(1, environments))]
    share = np.stack([right[:, views].mean(1) for views in columns], 1)
    return self._of(evaluation, share, range(environments), [len(views) for views in columns])

  def _views_of(self, k: int) -> np.ndarray:
    return 1 + np.flatnonzero([environment == k for environment, _ in self._levels])

  def _of(
    self, evaluation: Evaluation, share: np.ndarray, own: Sequence[int], trials: Sequence[int]
  ) -> Cells:
    records = evaluation.records
    return Cells(
      share,
      records.column('label'),
      records.column(COLUMN),
      tuple(own),
      tuple(trials),
      self.balance,
      self.confidence,
    )

  def _accuracies(
    self, findings: Findings, prefix: str, cells: Cells, names: Sequence[str], trained: bool
  ) -> None:
    findings.numbers[f'{prefix}clean_accuracy'] = cells.accuracy(0)
    for k, name in enumerate(names, 1):
      findings.numbers[f'{prefix}accuracy_{name}'] = cells.accuracy(k)
    grid = cells.by_group(len(names))
    seen = grids.seen(*grid.shape[:2]) & trained
    findings.arrays |= {
      f'{prefix}{GRID}': grid[..., 0],
      f'{prefix}{GRID_LOW}': grid[..., 1],
      f'{prefix}{GRID_HIGH}': grid[..., 2],
      f'{prefix}seen': seen,
      f'{prefix}by_class': cells.by_class(len(findings.arrays['class'])),
    }

  def _note_initial_weights(
    self, findings: Findings, evaluations: Sequence[Evaluation], names: Sequence[str]
  ) -> None:
    """Adds to each ρ what weights from elsewhere may have seen of its environment, and a table."""
    facts = {e.label: e.records.identity['classifier'] for e in evaluations}
    rows = []
    for label, prefix in zip(facts, study.prefixes(evaluations), strict=True):
      if 'initial_weights' not in facts[label]:
        continue
      baseline = self.baseline if self.baseline != label else ''
      seen = initial_weights.may_have_seen(facts[label], names, self.source == STORED)
      rows.append(initial_weights.row(label, facts[label], seen, baseline))
      for name in ('rho', *(f'rho_{environment}' for environment in seen)):
        number = findings.numbers.get(f'{prefix}{name}')
        if seen and number is not None:
          note = initial_weights.note(facts[label], facts.get(baseline), baseline)
          notes = '; '.join(filter(None, (number.note, note)))
          findings.numbers[f'{prefix}{name}'] = dataclasses.replace(number, note=notes)
    if rows:
      findings.tables['initial_weights'] = Table(initial_weights.COLUMNS, rows)

  def _resampled(
    self, cells: Cells, environments: Sequence[int], baseline: Cells | None
  ) -> Transfer:
    return transfer(
      cells, environments, baseline, self.formula, self.baseline_by_cell, self.samples
    )

  def _transfer(
    self,
    findings: Findings,
    prefix: str,
    cells: Cells,
    baseline: Cells | None,
    names: Sequence[str],
  ) -> None:
    """Adds ρ and the accuracies it is made of, by environment and in the mean."""
    accuracies = self._resampled(cells, range(1, len(names) + 1), baseline)
    numbers = findings.numbers
    for k, name in enumerate(names, 1):
      numbers[f'{prefix}rho_{name}'] = accuracies.rho([k - 1])
      numbers[f'{prefix}seen_{name}'] = cells.seen(k)
      numbers[f'{prefix}unseen_{name}'] = cells.unseen(k)
      if baseline is not None:
        numbers[f'{prefix}baseline_{name}'] = baseline.accuracy(k)
    numbers[f'{prefix}rho'] = accuracies.rho(range(len(names)))
    for name, column in (('seen', S), ('unseen', U), ('baseline', B))[: 2 + (baseline is not None)]:
      numbers[f'{prefix}{name}'] = accuracies.mean(column)
    if baseline is not None:
      numbers[f'{prefix}unseen_gain'] = accuracies.unseen_gain(range(len(names)))
      for k, name in enumerate(names):
        numbers[f'{prefix}unseen_gain_{name}'] = accuracies.unseen_gain([k])

  def _by_level(
    self, findings: Findings, prefix: str, cells: Cells, baseline: Cells | None
  ) -> None:
    """Adds ρ, s and u of every severity and angle by itself."""
    accuracies = self._resampled(cells, range(len(self._levels)), baseline)
    numbers = [accuracies.rho([v]) for v in range(len(self._levels))]
    findings.arrays |= {
      f'{prefix}by_level': accuracies.accuracies(),
      f'{prefix}rho_by_level': np.array([number.value for number in numbers]),
      f'{prefix}rho_by_level_low': np.array([number.low for number in numbers]),
      f'{prefix}rho_by_level_high': np.array([number.high for number in numbers]),
    }

  def _level_cells(self, evaluation: Evaluation, right: np.ndarray) -> Cells:
    """Returns what was right, bool [N, V], in every view but the clean one."""
    share = right[:, 1:].astype(float)
    return self._of(evaluation, share, [k for k, _ in self._levels], [1] * share.shape[1])

  @property
  def compares_training_rows(self) -> bool:
    """See `robustness.evaluation.study.Study`."""
    return self.near_duplicates != near_duplicates.OFF

  def training_findings(self, rows: Rows, training: Mapping[str, Rows]) -> Findings:
    """Returns `near_duplicates` of every classifier trained here, and a table of the pairs."""
    distinct = {id(own): own for own in training.values()}
    hashed = {key: near_duplicates.hashed(own) for key, own in distinct.items()}
    numbers, table = near_duplicates.between(
      near_duplicates.hashed(rows),
      {prefix: hashed[id(own)] for prefix, own in training.items()},
      self.near_duplicates,
      self.confidence,
    )
    named = {f'{prefix}near_duplicates': number for prefix, number in numbers.items()}
    return Findings(named, {'near_duplicates': table})

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.sentences(results)


def _is_trained_on(classifier: Mapping[str, Any], study: Study, names: Sequence[str]) -> bool:
  """Whether a classifier's training shows these environments to the groups of their number."""
  if study.source == STORED:
    return classifier.get('training_split') == 'train'
  recipe = classifier.get('augment') or ()
  return any(
    part['name'] == ENVIRONMENT and tuple(part['transforms']) == tuple(names) for part in recipe
  )
