"""Systematic robustness: accuracy by environment and class group, and ρ.

Each image is shown clean (environment E_0) and in every environment E_1, ..., E_M at every level:
corruptions at their severities, and rotations by multiples of 90° (Omran and Schiele 2022). Classes
are divided into M class groups, and training may show E_k only on images of group k. A cell is a
pair of a class group and an environment. Which cells a classifier was trained on is read from its
recipe (`robustness.augment.environment`); a classifier that was trained elsewhere was trained on
none, and gets accuracies by cell without ρ. Images that are stored in environments, such as
paintings and sketches, are shown as they are stored.
"""

import dataclasses
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import jax
import numpy as np
import pandas as pd
from absl import logging
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting, word
from robustness.core.rows import Rows
from robustness.core.typing import Facts
from robustness.core.user_code import part_name
from robustness.corruptions.catalog import refuse_stored
from robustness.environments import near_duplicates, transforms
from robustness.environments.class_groups import COLUMN, TITLE_LEFT_OVER
from robustness.estimates import systematic
from robustness.estimates.means import Estimate, Measured
from robustness.estimates.quantity import ACCURACY, AMOUNT, CLEAN_ACCURACY, Quantity
from robustness.estimates.systematic import SAYS_LITTLE, SEEN, UNSEEN, EnvironmentShares
from robustness.evaluation.outcomes import Evaluation, Recorded
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import Figures, Findings, ImageShape, Preview, Recipes, Study
from robustness.evaluation.views import Arrays, Views, ViewTable, stored_view
from robustness.present import charts, style
from robustness.results import WHICH_NUMBERS, Results, Table

GENERATED, STORED = 'generated', 'stored'
"""Values of the setting `source`: environments are made from clean images, or stored."""
_higher = functools.partial(Quantity, better='higher')
"""Returns a quantity for which higher is better, given its name and words."""
RHO = _higher(
  'rho', 'robustness carried over to unseen classes (ρ)', 'ratio', high=1, headline=True
)
MEAN_RHO = _higher('mean_rho', 'mean of ρ over severities or angles', 'ratio', high=1)
UNSEEN_GAIN = _higher(
  'unseen_gain', 'gain in accuracy over the baseline on unseen classes', low=-1, headline=True
)
SEEN_ACCURACY = _higher('seen', 'accuracy on seen classes', drawn=True)
UNSEEN_ACCURACY = _higher('unseen', 'accuracy on unseen classes', drawn=True)
BASELINE = _higher('baseline', 'accuracy of the baseline')
GRID_ACCURACY = dataclasses.replace(ACCURACY, headline=False, drawn=True)
NEAR_DUPLICATES = Quantity(
  'near_duplicates', 'share of test images with a near-duplicate in training', better='lower'
)
ENVIRONMENT, CLASS_GROUP = 'environment', COLUMN
"""The facets of a cell, and the columns of rows and views that have them."""
SEEN_IN_TRAINING = 'seen in training'
"""The note of the accuracy in a cell that training showed."""
ABOUT_WEIGHTS = ('classifier', 'initial weights', 'trained with', 'may have seen', 'compensated by')
"""Columns of the table `initial_weights`."""
MAX_LETTERS_OF_CLASSES = 24
"""Most letters of a list of classes in the title of a class group; longer lists are counted
instead.
"""
Shares = Mapping[str, EnvironmentShares]
"""{classifier: whether it is right, by image and environment, or level}."""
Averages = Sequence[tuple[Mapping[str, object], Sequence[int]]]
"""Pairs: the facets of an estimate, and the columns of `Shares` that it is averaged over."""


@dataclasses.dataclass(frozen=True)
class Systematic(Study):
  """A study of systematic robustness (Omran and Schiele 2022).

  Classes are divided into groups, and training shows each environment, for instance snow, for one
  group only. The robustness ρ is the gain in accuracy over a baseline on unseen pairs of class and
  environment, divided by the gain on seen pairs.

  Attributes:
    source: 'generated' makes the environments from clean images. 'stored' reads images of several
      environments, such as paintings; `environments` is then not used.
    environments: names of corruptions, `FILE.py:NAME` or 'rotation', one per class group.
    severities: severities of corruptions, over which accuracy is averaged.
    angles: angles of a rotation (90, 180, 270), over which accuracy is averaged.
    baseline: name of the classifier with the accuracy b that ρ subtracts; '' subtracts nothing.
    baseline_by_cell: whether b is computed separately for the seen and for the unseen classes.
    formula: with gain d on seen and g ≥ 0 on unseen pairs, 'clipped' is ρ = min(1, g/d); for d ≤ 0
      it is 1 if g > 0, else NaN. 'printed' is g / min(1, d), at most 1, and negative for d < 0.
    degenerate: whether means of ρ leave out terms that are 1 by definition ('left_out'), or count
      them as the paper does ('one').
    balance: 'class' weights all classes equally, 'image' all images.
    samples: number of random draws for an interval of ρ, at least 100.
    near_duplicates: test images are compared with training images by 64-bit perceptual hashes.
      Those that differ in at most this number of bits count as near-duplicates; -1 compares none.
  """

  title = 'Robustness to environments that some classes were trained in'
  papers = ('omran2022towards',)
  not_recorded = ('near_duplicates',)

  source: str = word(GENERATED, (GENERATED, STORED))
  environments: tuple[str, ...] = ('gaussian_noise', 'gaussian_blur', 'contrast', 'snow')
  severities: tuple[int, ...] = (1, 2, 3, 4, 5)
  angles: tuple[int, ...] = (90, 180, 270)
  baseline: str = ''
  baseline_by_cell: bool = False
  formula: str = word('clipped', systematic.FORMULAS)
  degenerate: str = word('left_out', systematic.DEGENERATES)
  balance: str = word('class', systematic.BALANCES)
  samples: int = setting(2000, 'at least 100', lambda x: x >= 100)
  near_duplicates: int = near_duplicates.OFF

  def __post_init__(self) -> None:
    """Raises InputError for invalid settings of this study of environments.

    An environment is a transform of the images, such as snow or rotation, that the study generates,
    or the origin of stored images. `severities` are only for corruptions and `angles` only for
    rotation: a setting that no environment uses must keep its default. Rotations are by right
    angles, which move pixels without interpolation.
    """
    super().__post_init__()
    if self.source == GENERATED:
      transforms.check_names('config.study.environments', self.environments)
    transforms.check_levels(self.section, self.severities, self.angles)
    valid = f'of {transforms.RIGHT_ANGLES}: others would measure the interpolation of pixels too'
    self.require(set(self.angles) <= set(transforms.RIGHT_ANGLES), 'angles', valid)
    names = {*self.environments} if self.source == GENERATED else set[str]()
    rotation = names & {transforms.ROTATION}  # the name 'rotation', or nothing
    # {setting: the environments that use it}
    used_by = {'environments': names, 'severities': names - rotation, 'angles': rotation}
    for key, users in used_by.items():
      is_valid = bool(users) or getattr(self, key) == getattr(Systematic, key)
      self.require(is_valid, key, 'left out, as no environment here depends on it')
    near_duplicates.check(self.near_duplicates)
    valid = f'False where {KEYS.study.baseline} is empty'
    self.require(bool(self.baseline) or not self.baseline_by_cell, 'baseline_by_cell', valid)

  def check_labels(self, labels: Collection[str]) -> None:
    """Raises InputError if `baseline` is none of the classifiers, which have these labels."""
    self.choose('baseline', ('', *labels))

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if systematic robustness cannot be computed from data and trainings.

    Classes are divided into groups, and a training shows each environment, such as snow, for one
    group only. The data need one class group for each environment, and trainings the same
    environments and class groups as the evaluation.

    Args:
      rows: the images to evaluate on.
      recipes: {classifier: facts about its training}.
    """
    groups = rows.description.get('class_groups')  # {title: names of classes}
    if groups is None:
      raise InputError(
        f'{KEYS.study.name} is systematic, which needs class groups: set {KEYS.data.class_groups} '
        f'or {KEYS.data.random_class_groups}={len(self.environments)}.'
      )
    names = self._names(rows.description)
    num_groups = len(groups) - 1  # without the group of classes that are left over
    if num_groups != len(names):
      raise InputError(
        f'there are {num_groups} class groups for {len(names)} environments '
        f'({", ".join(names)}): set {KEYS.data.random_class_groups}={len(names)}, or one group for '
        f'each in {KEYS.data.class_groups}.'
      )
    for label, recipe in recipes.items():
      self._check_environments(label, recipe)
      self._check_groups(label, recipe, rows.description)

  def _check_environments(self, label: str, recipe: Facts) -> None:
    """Raises InputError if a classifier is trained on other environments than are evaluated.

    An environment is, for instance, a corruption such as snow.
    """
    trained_on = tuple(_environment_settings(recipe).get('transforms', ()))
    if trained_on and self.source == GENERATED and trained_on != self.environments:
      raise InputError(
        f'{label} is trained on the environments {", ".join(trained_on)}, and '
        f'{KEYS.study.environments} are {", ".join(self.environments)}: ρ is of the same ones in '
        f'the same order. Set both, this and config.classifiers.{label}.augment.environment.'
        f'transforms, or {KEYS.classifier.augment.environment.transforms}.'
      )

  def _check_groups(self, label: str, classifier: Facts, data: Facts) -> None:
    """Raises InputError if a class is in different class groups in training and evaluation.

    Classifiers that were not trained on the environments are not checked.

    Args:
      label: name of the classifier.
      classifier: facts about the classifier's training.
      data: description of the evaluated data.
    """
    if 'class_groups' not in classifier or not self._is_trained_on(classifier, data):
      return
    group_of = {name: title for title, names in data['class_groups'].items() for name in names}
    for title, names in classifier['class_groups'].items():
      for name in names:
        if group_of.get(name, title) != title:  # a class that is not evaluated may be in any group
          raise InputError(
            f'{label} is trained with the class {name!r} in the class group {title!r}, and scored '
            f'with it in {group_of[name]!r}: give the rows that are trained on and those that are '
            f'evaluated the same {KEYS.data.class_groups}, or the same random_class_groups, '
            'classes_per_group and class_group_seed of the same classes.'
          )

  def preview(self, rows: Rows, recipes: Recipes) -> Preview:
    """Returns a table and a figure of the environments that class groups are trained in.

    They are shown before training. Both are left out if no classifier is trained on the
    environments.
    """
    data = rows.description
    trained = [label for label, recipe in recipes.items() if self._is_trained_on(recipe, data)]
    if not trained:
      logging.warning('no classifier is trained here on the environments: there will be no ρ.')
      return Preview()
    environments, groups, is_seen = self._cells_seen(data)
    words = np.where(is_seen, 'seen', 'held out').tolist()
    lines = [[group, *line] for group, line in zip(groups, words, strict=True)]
    table = Table(('class group', *environments), lines)
    title = f'cells of the classes in training, of {", ".join(trained)}'
    return Preview({title: table}, {'cells': _draw_cells(environments, groups, is_seen)})

  def _is_trained_on(self, classifier: Facts, data: Facts) -> bool:
    """Returns whether a classifier was trained in exactly the environments of the study.

    Args:
      classifier: facts about the classifier's training.
      data: description of the data, which names stored environments.
    """
    if self.source == STORED:
      stored = classifier.get('training_environments', ())[1:]  # without E_0, the clean one
      return classifier.get('training_split') == 'train' and tuple(stored) == self._names(data)
    environment = _environment_settings(classifier)
    return bool(environment) and tuple(environment['transforms']) == self.environments

  @property
  def references(self) -> tuple[str, ...]:
    """Names of the environments; a user's environment has the form `FILE.py:NAME`."""
    return self.environments

  def _names(self, data: Facts) -> tuple[str, ...]:
    """Returns the names of the M environments without the clean one, for example 'snow'.

    Args:
      data: description of the data, which names stored environments.

    Raises:
      InputError: The data have no stored environments.
    """
    if self.source == GENERATED:
      return tuple(map(part_name, self.environments))
    if 'environments' not in data:
      raise InputError(
        f"{KEYS.study.source} is 'stored', but the rows have no column environment: set "
        f"{KEYS.data.source}='environments', or {KEYS.study.source}='generated'."
      )
    _, *names = data['environments']  # the first one is the clean environment
    return tuple(names)

  def _environments(self, data: Facts) -> list[str]:
    """Returns the names of the clean environment and of the study's M others: ['clean', 'snow'].

    For stored images the clean one has its stored name too, as in 'clean (photo)'.

    Args:
      data: description of the data, which names stored environments.
    """
    if self.source == GENERATED:
      return [transforms.CLEAN, *self._names(data)]
    return [f'{transforms.CLEAN} ({data["environments"][0]})', *self._names(data)]

  @property
  def _transforms(self) -> list[transforms.Transform]:
    """The M transforms that make the environments E_1, ..., E_M from clean images."""
    return [transforms.get(name) for name in self.environments]

  @property
  def _levels(self) -> list[tuple[int, int]]:
    """Pairs (number of the environment, severity or angle), one for each view.

    A view shows the images in one environment at one level, a severity or an angle. Environments
    are numbered 1..M; the clean view, number 0, is left out.
    """
    return [
      (k, level)
      for k, transform in enumerate(self._transforms, 1)
      for level in transform.levels(self.severities, self.angles)
    ]

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view, then each environment at each severity or angle.

    An environment is a transform, a corruption such as snow or a rotation. A view is one way to
    perturb each image; its id determines the random numbers. The id is 0 for the clean view,
    5 n + severity for corruption n of the package, as in other studies, and 1000 + angle for
    rotations: `view_base`, 5 n or 1000, plus the level. Stored images have a single view, which
    leaves them unchanged.
    """
    if self.source == STORED:
      return stored_view()
    for transform in self._transforms:
      transform.check_shape(image_shape)
    # The environment and the level of each view, [V]. For two levels of environment 1 and one of
    # environment 2, the pairs (0, 0), (1, 1), (1, 2), (2, 1) become the environments [0, 1, 1, 2]
    # and the levels [0, 1, 2, 1].
    environment, level = np.array([(0, 0), *self._levels], np.int32).T
    # `view_base` by number of the environment; 0 is the clean one.
    id_bases = np.array([0, *(transform.view_base for transform in self._transforms)], np.int32)
    ids = id_bases[environment] + level
    parameters = {ENVIRONMENT: environment, 'level': level}
    return Views(self._show, ids, parameters, sequential=True)

  def _show(self, key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
    """Shows an image in an environment, at one severity or angle; returns [H, W, C].

    Args:
      key: random key.
      row: the clean image, `row['image']`.
      view: index of the environment (0 is clean) and `level`, its severity or angle.
    """
    refuse_stored(row)
    environment, level = view[ENVIRONMENT], view['level']
    return transforms.transform(key, row['image'], environment, level, self.environments)

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views: 'clean' and, for example, 'snow 3' or 'rotation 90'."""
    if self.source == STORED:
      return super().view_table(image_shape)
    # `_levels` has the number k of each view's environment, from 1, and the level of the view.
    names = (f'{part_name(self.environments[k - 1])} {level}' for k, level in self._levels)
    return ViewTable.of(['clean', *names])

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, and the environment of each stored image."""
    if self.source == GENERATED:
      return super().by_row(records, image_shape)
    names = self._environments(records.identity['data'])
    rows = [names[k] for k in records.column(ENVIRONMENT)]
    return dataclasses.replace(super().by_row(records, image_shape), rows=rows)

  @property
  def shown_as(self) -> dict[str, str]:
    """Describes the environments and the settings of ρ for a report: {title: text}.

    The text of 'rho' is, for example, 'clipped, class balance'.
    """
    # Means of ρ leave out environments in which it is 1 by definition, or count them as 1.
    degenerate = ', degenerate terms as 1' if self.degenerate == 'one' else ''
    names = [*map(part_name, self.environments)]
    angles = self.angles if transforms.ROTATION in names else ['no rotation']
    severities = self.severities if {*names} - {transforms.ROTATION} else ['no corruption']
    values = {'environments': names, 'severities': severities, 'angles': angles}
    lines = {title: ', '.join(map(str, listed)) for title, listed in values.items()}
    if self.source == STORED:
      lines = dict.fromkeys(values, 'as stored')
    return {**lines, 'rho': f'{self.formula}, {self.balance} balance{degenerate}'}

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The reported quantities; their descriptions have the name of the baseline.

    With `formula` 'printed', ρ may be negative and is not declared as a ratio.
    """
    kind = RHO.kind if self.formula == 'clipped' else AMOUNT
    rhos = [dataclasses.replace(quantity, kind=kind) for quantity in (RHO, MEAN_RHO)]
    accuracies = SEEN_ACCURACY, UNSEEN_ACCURACY, BASELINE, GRID_ACCURACY, CLEAN_ACCURACY
    name = self.baseline or 'the baseline'
    named = []
    for quantity in (*rhos, UNSEEN_GAIN, *accuracies, NEAR_DUPLICATES):
      words = quantity.words.replace('the baseline', name)
      named.append(dataclasses.replace(quantity, words=words))
    return tuple(named)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the results, and a table of initial weights if classifiers started from some.

    The table `initial_weights` has a row for each such classifier: its initial weights, the
    augmentations in their training, the environments (transforms such as snow) that these may have
    shown, and the baseline, the classifier whose accuracies are subtracted.

    Args:
      evaluations: recorded predictions of each classifier.
      image_shape: height, width and channels of the images.
    """
    findings = super().reduce(evaluations, image_shape)
    rows = []
    for evaluation in evaluations:
      label, facts = evaluation.label, evaluation.records.identity['classifier']
      if 'initial_weights' not in facts:
        continue
      # Names of augmentations; () for flips and crops alone, None if not recorded.
      augmentations = facts.get('initial_weights_trained_with')
      trained_with = 'not known'
      if augmentations is not None:
        trained_with = ', '.join(augmentations) or 'flips and crops'
      environments = ', '.join(self._may_have_seen(evaluation)) or 'none'
      baseline = self._baseline_of(label) or 'nothing'
      rows.append([label, facts['initial_weights'], trained_with, environments, baseline])
    if rows:
      findings.tables['initial_weights'] = Table(ABOUT_WEIGHTS, rows)
    return findings

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields accuracies, and the robustness ρ of classifiers trained on the environments.

    * Accuracies are on clean images, by environment, by environment and class group, and by
      environment and class. A note says which pairs of environment and class group were seen in
      training.
    * ρ compares gains in accuracy: on classes that training has not shown in an environment,
      divided by the gain on classes that it has shown there. It is by environment, by severity or
      angle, and averaged over environments.
    * `rho` is computed from accuracy averaged over severities or angles. `mean_rho` is the mean of
      ρ over them, another reading of the paper.

    An environment is a transform of images, such as snow, at several levels (severities or angles).
    Classes are divided into groups, and training shows each environment for one group only.

    Args:
      recorded: the predictions of each classifier for all images, clean and in each environment at
        each level.
    """
    recorded.require_distinct()  # raises if two rows are versions of one image
    recorded.require_equal_columns((CLASS_GROUP,))
    evaluations = recorded.evaluations
    self.check_labels([evaluation.label for evaluation in evaluations])
    # {classifier: whether it is right, by image and environment}, and by image and level
    by_environment = {e.label: self._shares(e) for e in evaluations}
    by_level = {}
    if self.source == STORED:  # stored images have no levels
      recorded.require_equal_columns((ENVIRONMENT,))
    else:
      by_level = {e.label: self._shares(e, by_level=True) for e in evaluations}
    for evaluation in evaluations:
      label, facts = evaluation.label, evaluation.records.identity
      self._check_groups(label, facts['classifier'], facts['data'])
      is_trained = self._is_trained_on(facts['classifier'], facts['data'])
      measured = list(self._accuracies(by_environment[label], facts, is_trained))
      if is_trained:
        notes = self._notes(evaluation, evaluations)
        measured += self._rhos(label, facts, by_environment, by_level, notes)
      yield self.table_of(label, measured)

  def _rhos(
    self, label: str, facts: Facts, by_environment: Shares, by_level: Shares, notes: Facts
  ) -> Iterator[Measured]:
    """Yields the robustness ρ of a classifier by environment and by severity or angle, and means.

    ρ is the gain in accuracy over a baseline on classes that training has not shown in an
    environment (unseen), divided by the gain on classes that it has shown there (seen). The two
    accuracies are also yielded. A note says that ρ means little if accuracy on seen classes is not
    significantly above chance.

    Args:
      label: name of the classifier, which was trained on the environments.
      facts: facts about the data, classes and classifier.
      by_environment: {classifier: whether it is right, by image and environment}.
      by_level: {classifier: whether it is right, by image and severity or angle}; {} for stored
        images.
      notes: {environment: note on its ρ}; the key '' is for the mean over environments.
    """
    names, num_classes = self._names(facts['data']), len(facts['classes'])
    # For each mean, its columns in the results and the numbers of its environments: all together,
    # then each alone.
    averages: list[tuple[dict[str, object], Sequence[int]]] = [({}, range(1, len(names) + 1))]
    averages += [({ENVIRONMENT: name}, [k]) for k, name in enumerate(names, 1)]
    yield from self._rhos_and_accuracies(by_environment, label, averages, notes, num_classes)
    if not by_level:
      return
    levels = []  # such as ({'environment': 'fog', 'severity': 1}, [0]) for column 0
    for column, (k, level) in enumerate(self._levels):
      kind = self._transforms[k - 1].kind_of_level  # 'severity' or 'angle'
      levels.append(({ENVIRONMENT: names[k - 1], kind: level}, [column]))
    yield from self._rhos_and_accuracies(by_level, label, levels, notes, num_classes)
    # The mean of ρ over the levels of an environment, or of all of them.
    for facets, environments in averages:
      columns = [column for column, (k, _) in enumerate(self._levels) if k in environments]
      yield MEAN_RHO, facets, self._rho(by_level, label, columns)

  def _rhos_and_accuracies(
    self, shares: Shares, label: str, averages: Averages, notes: Facts, num_classes: int
  ) -> Iterator[Measured]:
    """Yields the robustness ρ of a classifier and the accuracies that it is made from.

    Args:
      shares: {classifier: whether it is right, by image and environment, or level}.
      label: name of the classifier.
      averages: the estimates to make: for each, its columns in the results, and the environments,
        or levels, that it is averaged over, as columns of `shares`.
      notes: {environment: note on its ρ}; the key '' is for the mean over environments.
      num_classes: number of classes, for chance accuracy.
    """
    of_classifier, baseline = shares[label], shares.get(self._baseline_of(label))
    for facets, columns in averages:
      rho, seen = self._rho(shares, label, columns), of_classifier.accuracy(columns, SEEN)
      if seen.low <= 1 / num_classes:
        rho = rho.with_notes(f'{SAYS_LITTLE}: seen classes are not above chance, 1/{num_classes}')
      environment = str(facets.get(ENVIRONMENT, ''))  # '' for the mean over environments
      yield RHO, facets, rho.with_notes(notes.get(environment, ''))
      yield SEEN_ACCURACY, facets, seen
      yield UNSEEN_ACCURACY, facets, of_classifier.accuracy(columns, UNSEEN)
      if baseline is not None:
        yield UNSEEN_GAIN, facets, of_classifier.gain(baseline, columns)
        yield BASELINE, facets, baseline.accuracy(columns)

  def _accuracies(
    self, shares: EnvironmentShares, facts: Facts, is_trained: bool
  ) -> Iterator[Measured]:
    """Yields clean accuracy, and accuracies by environment, class group and class.

    An environment is, for instance, snow; number 0 is the clean one. Classes are divided into
    groups, and training shows each environment for one group only.

    Args:
      shares: whether a classifier is right, by image and environment.
      facts: facts about the data, classes and classifier.
      is_trained: whether the classifier was trained on the environments. Notes then say which pairs
        of environment and class group were seen in training.
    """
    environments = self._environments(facts['data'])
    yield CLEAN_ACCURACY, {}, shares.accuracy([0])  # environment 0 is the clean one
    for k, name in enumerate(environments[1:], 1):
      yield GRID_ACCURACY, {ENVIRONMENT: name}, shares.accuracy([k])
    groups = _in_order(facts['data']['class_groups'])
    for group in np.unique(shares.group).tolist():
      in_group = shares.select(shares.group == group)
      for k, name in enumerate(environments):
        note = SEEN_IN_TRAINING if is_trained and _is_seen(group, k) else ''
        facets = {ENVIRONMENT: name, CLASS_GROUP: groups[group]}
        yield GRID_ACCURACY, facets, in_group.accuracy([k]).with_notes(note)
    for index in np.unique(shares.label).tolist():
      in_class = shares.select(shares.label == index)
      for k, name in enumerate(environments):
        facets = {ENVIRONMENT: name, 'class': facts['classes'][index]}
        yield GRID_ACCURACY, facets, in_class.accuracy([k])

  def _rho(self, shares: Shares, label: str, columns: Sequence[int]) -> Estimate:
    """Computes ρ, the systematic robustness to environments, with its interval.

    Args:
      shares: {classifier: whether it is right, by image and environment, or severity}.
      label: name of the classifier.
      columns: indices of the environments, or severities, to average over.
    """
    baseline = shares.get(self._baseline_of(label))  # None subtracts nothing
    return shares[label].rho(
      columns, baseline, self.formula, self.baseline_by_cell, self.degenerate, self.samples
    )

  def _baseline_of(self, label: str) -> str:
    """Returns the classifier with the accuracies that ρ subtracts from the ones of `label`.

    It is '' if the config names no baseline, and for the baseline itself.
    """
    return self.baseline if self.baseline != label else ''

  def _may_have_seen(self, evaluation: Evaluation) -> tuple[str, ...]:
    """Returns the environments that a classifier's initial weights may have been trained in.

    These are the environments that resemble an augmentation of this training. All are returned if
    the augmentations are not recorded or the environments are stored. The result is () if training
    started from random weights.
    """
    identity = evaluation.records.identity
    classifier, names = identity['classifier'], self._names(identity['data'])
    if 'initial_weights' not in classifier:
      return ()
    key = 'initial_weights_resemble'  # names or families of corruptions
    resembles = classifier.get(key)
    if self.source == STORED or resembles is None:
      return names
    seen = transforms.names_that_resemble(self.environments, resembles, key)
    return tuple(map(part_name, seen))

  def _notes(self, evaluation: Evaluation, evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Returns {environment: note} for environments that may have leaked into training.

    A leak means that training may have shown the environment on classes that count as unseen. This
    happens with `allow_leaks`, or if the initial weights were trained with similar augmentations.
    The note also says whether the baseline started from the same weights, which compensates. The
    key '' has the note for the mean over environments.
    """
    facts = {e.label: e.records.identity['classifier'] for e in evaluations}
    if _environment_settings(facts[evaluation.label]).get('allow_leaks'):
      names = '', *self._names(evaluation.records.identity['data'])
      return dict.fromkeys(names, 'leaks were allowed: training may show held-out cells')
    environments = self._may_have_seen(evaluation)
    if not environments:
      return {}
    weights = facts[evaluation.label]['initial_weights']
    baseline = self._baseline_of(evaluation.label)
    facts_of_baseline = facts.get(baseline)
    if facts_of_baseline is None:
      hint = f', which nothing compensates for: set {KEYS.study.baseline}'
    elif weights in (facts_of_baseline.get('initial_weights'), facts_of_baseline.get('weights')):
      hint = f'; {baseline} compensates'  # it began with these weights, or is these weights
    else:
      hint = f', and the baseline {baseline} began with others'
    note = f'the initial weights {weights} may have seen it{hint}'
    return dict.fromkeys(['', *environments], note)

  def _shares(self, evaluation: Evaluation, by_level: bool = False) -> EnvironmentShares:
    """Returns the share of right answers for each image in each environment, clean first.

    The study shows each image clean and in environments 1..M, such as snow, at several levels
    (severities or angles). The share is a mean over the levels of an environment. It is 0, 1 or NaN
    if images are stored, as each is of one environment.

    Args:
      evaluation: recorded predictions of a classifier.
      by_level: whether each level has a column, instead of each environment, without clean images.
    """
    records = evaluation.records
    right = records.table('rank') == 0  # the true class has rank 0 if it is predicted
    environment_of_view = np.array([0, *(k for k, _ in self._levels)])
    # Each branch sets `share` [N, columns], and two facts about its columns: the environment, and
    # the number of views that the share is a mean of.
    if by_level:
      environments = environment_of_view[1:]  # without the clean view
      num_views = np.ones_like(environments)
      share = right[:, 1:].astype(float)
    elif self.source == STORED:
      environments = np.arange(len(self._environments(records.identity['data'])))
      num_views = np.ones_like(environments)
      # Stored images are in one environment each; they have NaN in the columns of all others.
      is_shown = records.column(ENVIRONMENT)[:, None] == environments
      share = np.where(is_shown, right, np.nan)
    else:
      num_views = np.bincount(environment_of_view)
      environments = np.arange(len(num_views))
      share = np.stack([right[:, environment_of_view == k].mean(1) for k in environments], 1)
    label, group = records.column('label'), records.column(CLASS_GROUP)
    # Training showed environment k to class group k.
    trained_group, trials = environments.tolist(), num_views.tolist()
    noun = 'levels' if by_level else 'environments'  # what notes on results call the columns
    return EnvironmentShares(
      share, label, group, trained_group, trials, self.balance, self.confidence, noun
    )

  @property
  def compares_training_rows(self) -> bool:
    """Whether to look for near-duplicates of test images among the training images."""
    return self.near_duplicates != near_duplicates.OFF

  def training_findings(self, rows: Rows, training: Mapping[str, Rows]) -> Findings:
    """Returns the share of test images with a near-duplicate in training, and their table.

    Args:
      rows: the test data.
      training: {classifier: its training data}.
    """
    # Classifiers that are trained on the same object `Rows` share its hashes; `id` identifies it.
    distinct = {id(trained_on): trained_on for trained_on in training.values()}
    hashes_by_id = {key: near_duplicates.hash_rows(data) for key, data in distinct.items()}
    hashes = {label: hashes_by_id[id(trained_on)] for label, trained_on in training.items()}
    shares, table = near_duplicates.compare_hashes(
      near_duplicates.hash_rows(rows), hashes, self.near_duplicates, self.confidence
    )
    estimates = []
    for label, share in shares.items():
      estimates.append(self.table_of(label, [(NEAR_DUPLICATES, {}, share)]))
    return Findings(tables={'near_duplicates': table}, estimates=estimates)

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and a grid of what training showed.

    The grid has a cell for each pair of environment and class group. It is left out if no
    classifier was trained on the environments. Captions of figures by class group list the classes
    of each group.
    """
    default = super().figures(results)
    environments, titles, is_seen = self._cells_seen(results.data)
    # Titles of groups with many classes state their number alone, as in 'C1 (12 classes)'.
    is_counted = any(title.endswith(' classes)') for title in titles)
    listed = f"; the table '{WHICH_NUMBERS}' lists the classes" if is_counted else ''
    groups = f'Class groups: {"; ".join(titles)}{listed}.'
    by_cell = '_'.join((GRID_ACCURACY.name, ENVIRONMENT, CLASS_GROUP))  # name of a default figure
    # It comes first, if it was drawn.
    figures = {by_cell: default[by_cell]} if by_cell in default else {}
    figures |= default
    for name, (figure, caption) in figures.items():
      if CLASS_GROUP in name:
        figures[name] = figure, f'{caption} {groups}'
    figures |= charts.scatter(results, CLEAN_ACCURACY, GRID_ACCURACY, ENVIRONMENT)
    labels = results.table.classifier[results.table.note == SEEN_IN_TRAINING].unique()
    if len(labels):
      figures['cells'] = (
        _draw_cells(environments, titles, is_seen),
        f'What the training of {", ".join(labels)} shows: pairs of class group and environment, '
        f'seen or held out{listed}.',
      )
    return figures

  def _cells_seen(self, data: Facts) -> tuple[list[str], list[str], np.ndarray]:
    """Returns which class groups are trained in which environments.

    Args:
      data: description of the data, with its class groups.

    Returns:
      The names of E environments, the titles of G class groups, and an array bool [G, E]. A title
      is, for example, 'C1: cat, dog', or 'C1 (12 classes)' if it would be long. Empty groups are
      left out.
    """
    environments = self._environments(data)
    titles, is_seen = [], []
    for group, title in enumerate(_in_order(data['class_groups'])):
      classes = data['class_groups'][title]
      if classes:
        names = ', '.join(classes)
        is_short = len(names) <= MAX_LETTERS_OF_CLASSES
        titles.append(f'{title}: {names}' if is_short else f'{title} ({len(classes)} classes)')
        is_seen.append([_is_seen(group, k) for k in range(len(environments))])
    return environments, titles, np.array(is_seen)


def _in_order(titles: Iterable[str]) -> list[str]:
  """Sorts the titles of class groups by number.

  Group 0, of the classes left over, comes first. The others are in order already.
  """
  return [TITLE_LEFT_OVER, *(title for title in titles if title != TITLE_LEFT_OVER)]


def _is_seen(group: int, environment: int) -> bool:
  """Returns whether training shows an environment to a class group, both by number.

  Environment 0 (clean) is shown to all groups, environment k to group k.
  """
  return environment == 0 or group == environment


def _environment_settings(classifier: Facts) -> Facts:
  """Returns the settings of the augmentation `environment` of a training, or {}."""
  parts = classifier.get('augment') or ()
  return next((part for part in parts if part['name'] == ENVIRONMENT), {})


@style.in_style
def _draw_cells(environments: Sequence[str], groups: Sequence[str], seen: np.ndarray) -> Figure:
  """Draws a grid of class groups × environments; cells seen in training are filled.

  Args:
    environments: names of the E columns.
    groups: titles of the G lines.
    seen: bool [G, E], whether training shows a cell.
  """
  titles_width, cell_width, axis_height, cell_height = 1.6, 0.75, 0.9, 0.28  # inches
  width = min(style.PAGE_WIDTH, titles_width + cell_width * len(environments))
  is_narrow = (width - titles_width) / len(environments) < 0.5  # too narrow for 'held out'
  height = min(style.PAGE_HEIGHT, axis_height + cell_height * len(groups))
  figure = Figure(figsize=(width, height), layout='constrained')
  axes = figure.subplots()
  axes.imshow(seen, cmap=ListedColormap(['w', style.COLOURS[0]]), vmin=0, vmax=1, aspect='auto')
  font_size, text_if_unseen = (4.5, '') if is_narrow else (7.0, 'held out')
  for (line, column), is_seen in np.ndenumerate(seen):
    text, colour = ('seen', 'w') if is_seen else (text_if_unseen, '0.4')
    axes.text(column, line, text, color=colour, ha='center', va='center', fontsize=font_size)
  names = [name.replace('_', ' ') for name in environments]
  axes.set_xticks(range(len(names)), names, rotation=35, ha='right')
  axes.set_yticks(range(len(groups)), groups)
  axes.set_ylabel('class group')
  return figure
