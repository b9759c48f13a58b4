"""SI-Score: accuracy by size, location and rotation of an object pasted on a background.

Each row is a pair of object and background, and each view a level: an area, an angle and a location
of the object. Scenes are composed on the device and not stored. A scene counts if enough of the
object's bounding rectangle is inside the image. At levels at which many scenes do not count, the
objects that remain differ from those at other levels. Accuracies are therefore estimated twice: on
all scenes that count, as published, and on a balanced mix of the same pairs at every level.

Reference: Djolonga et al., On robustness and transferability of convolutional neural networks
(2021); Yung et al., SI-Score (2021).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError, or_column
from robustness.core.registry import are_distinct, are_distinct_and_some, setting, word
from robustness.core.rows import Rows
from robustness.core.settings import require
from robustness.estimates.facets import ordered_facet
from robustness.estimates.means import Estimate, known_mean
from robustness.estimates.of_means import bootstrap, units_of_classifier, unless_equal
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity, declare_accuracy
from robustness.evaluation import one_view
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.records import RecordsReader, SelectedRows
from robustness.evaluation.study import Evaluation, Figures, Findings, ImageShape, Recipes, Study
from robustness.evaluation.views import Views, ViewTable, stored_view
from robustness.models.imagenet_names import NAMES
from robustness.present import images
from robustness.results import Results
from robustness.scenes import designs
from robustness.scenes import views as scene_views
from robustness.scenes.classes import IMAGENET_INDEX
from robustness.scenes.composition import MEASURES

GRID, CROSS = 'grid', 'cross'
"""Values of the setting `factor` that are not in the paper."""
GALLERY_LEVELS, GALLERY_SIDE = 6, 160
"""Most levels in the figure of scenes, and the side of its images in pixels."""
CLASS_NAMES = {index: name for name, index in IMAGENET_INDEX.items()}
"""SI-Score's names of its classes, by their index in ImageNet."""
MIN_SHARE_OF_PAIRS = 0.9
"""Smallest share of pairs that count at a location for the location to be on the balanced and
normalised maps. In the corners of an image few objects are inside.
"""
_drawn = functools.partial(declare_accuracy, drawn=True)
"""Returns an accuracy that figures show, given its name and words."""
_normalised = functools.partial(_drawn, function=lambda means, _: designs.divided_by_largest(means))
"""Returns an accuracy that is divided by its largest value, given its name and words."""
SCENE_ACCURACY = declare_accuracy('accuracy', 'accuracy on scenes', headline=True)
BALANCED_ACCURACY = _drawn(
  'balanced_accuracy', 'accuracy on scenes of the same objects at every level'
)
GAP = Quantity('gap', 'accuracy on scenes minus that on the same objects, mean over levels', low=-1)
NORMALISED_ACCURACY = _normalised(
  'normalised_accuracy', 'accuracy as a share of its largest', headline=True
)
ANY_SHARE = ' (however little of the object is inside)'
ACCURACY_OF_ALL = _drawn('accuracy_of_all_scenes', f'accuracy on all scenes{ANY_SHARE}')
NORMALISED_OF_ALL = _normalised(
  'normalised_accuracy_of_all_scenes',
  f'accuracy on all scenes as a share of its largest{ANY_SHARE}',
)
AREA = ordered_facet('area', 'area of the object', 'share of the image', words_of_many='areas')
X = ordered_facet('x', 'horizontal place', 'share of the width')
Y = ordered_facet('y', 'vertical place', 'share of the height from the top')


def _levels(default: tuple[float, ...], *factors: str) -> tuple[float, ...]:
  """Returns a field for levels of scenes, which 'cross' and `factors` use."""
  return setting(default, 'distinct', are_distinct_and_some, only_with=('factor', CROSS, *factors))


@dataclasses.dataclass(frozen=True)
class SiScore(Study):
  """A study of accuracy by size, location and rotation of an object on a background (SI-Score).

  Scenes are composed from cutouts and backgrounds, or read from a stored set.

  Attributes:
    factor: what varies between scenes. 'size', 'location' and 'rotation' are as published. 'grid'
      places the object at the centres of cells × cells squares. 'cross' has all combinations of the
      values below.
    areas: areas of the object as fractions of the image. For 'cross', and a single one for 'grid'.
    angles: angles of the object in degrees, counter-clockwise. For 'cross'.
    xs: horizontal centres of the object, from 0 (left edge) to 1 (right edge). For 'cross'.
    ys: vertical centres of the object, from 0 (top edge) to 1 (bottom edge). For 'cross'.
    cells: number of locations along a side. For 'grid'.
    measure: what counts as the object's area: its 'rectangle', as published, or its 'mask'.
    min_inside: scenes with a smaller fraction of the object's rectangle in the image are left out.
      -1 takes .95 for objects in the centre, as published, and otherwise .5, which selects the
      published number of scenes. Stored scenes in the centre all count.
    stored: whether the data are finished scenes (`config.data.source='si_score'`).
  """

  title = 'Accuracy by the size, place and angle of an object'
  papers = ('yung2021si', 'djolonga2021robustness')
  described_facets = (AREA, X, Y)
  quantities = (
    *(SCENE_ACCURACY, BALANCED_ACCURACY, GAP, NORMALISED_ACCURACY),
    *(ACCURACY_OF_ALL, NORMALISED_OF_ALL),
  )

  factor: str = word('size', (*designs.FACTORS, GRID, CROSS))
  areas: tuple[float, ...] = _levels((0.2,), GRID)
  angles: tuple[float, ...] = _levels((0.0,))
  xs: tuple[float, ...] = _levels((0.5,))
  ys: tuple[float, ...] = _levels((0.5,))
  cells: int = setting(56, 'at least 1', lambda x: x >= 1, only_with=('factor', GRID))
  measure: str = word('rectangle', MEASURES, only_with=('stored', False))
  min_inside: float = setting(
    -1.0, 'in [0, 1], or -1 for the published value', lambda x: x == -1 or 0 <= x <= 1
  )
  stored: bool = False
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    """Raises InputError for invalid areas, angles or positions of the object in scenes.

    Scenes vary in one `factor`, such as its size. A grid varies the position and has one area. Some
    position must bring a part of the object into the image.
    """
    super().__post_init__()  # refuses settings that `factor` does not use
    is_single = self.factor != GRID or len(self.areas) == 1
    self.require(is_single, 'areas', 'a single area for a grid')
    # angles a whole turn apart have the same scenes, which would count twice
    has_distinct_turns = are_distinct([angle % 360 for angle in self.angles])
    self.require(has_distinct_turns, 'angles', 'different, and no whole turns apart')
    _check_reach(self.design)

  @property
  def design(self) -> designs.Design:
    """The areas, angles and positions of the object, and the minimum visible fraction.

    Scenes with less of the object's rectangle inside the image are left out of the results.
    """
    if self.factor == GRID:
      design = designs.grid(self.cells, self.areas[0])
    elif self.factor == CROSS:
      design = designs.cross(CROSS, self.areas, self.angles, self.xs, self.ys)
    else:
      design = designs.published(self.factor)
    if self.min_inside >= 0:
      return dataclasses.replace(design, min_inside=self.min_inside)
    if self.stored and designs.is_centred(design):  # published sets have only scenes that count
      return dataclasses.replace(design, min_inside=0.0)
    return design

  @property
  def canvas(self) -> int:
    """Side in pixels of the composed square scenes; 0 for stored scenes.

    The data source uses it if its config does not set the side.
    """
    return 0 if self.stored else self.design.side

  def views(self, image_shape: ImageShape) -> Views:
    """Returns a view for each combination of area, angle and position, in order.

    A view is one way to show each pair of object and background.
    """
    if self.stored:
      return dataclasses.replace(stored_view(), image_shape=image_shape)
    design = self.design
    if image_shape[0] != image_shape[1] or image_shape[2] != 3:
      raise InputError(
        f'backgrounds of shape {image_shape} cannot hold scenes: they must be '
        f"square and in colour, as those of {KEYS.data.source}='scenes' are."
      )
    show, prepare = scene_views.scene_functions(design, image_shape[0], self.measure)
    return Views(
      show,
      ids=np.arange(len(design), dtype=np.int32),
      parameters=scene_views.level_parameters(design),
      image_shape=image_shape,
      prepare=prepare,
      composes=True,  # a scene has pixels of an object and a background
      sequential=True,  # large images and branches are faster one by one on a CPU
    )

  @property
  def shown_as(self) -> dict[str, str]:
    """Describes the origin of the scenes and their areas, angles and positions, for a report.

    The entry 'scenes' is, for instance, 'composed here, by size; scenes with 0.95 of the object
    inside count', and the entry 'areas' is '0.1, 0.2'.
    """
    origin = 'as stored' if self.stored else 'composed here'
    criterion = 'all count'
    if self.design.min_inside:
      criterion = f'scenes with {self.design.min_inside:g} of the object inside count'
    # The settings of the factors are named in the plural: `areas`, `angles`, `xs` and `ys`.
    levels = {f'{factor}s': _span_words(x) for factor, x in self.design.factors.items()}
    levels['cells'] = f'{self.cells} × {self.cells}' if self.factor == GRID else 'none'
    if self.stored:  # the setting `measure` is not used either
      levels = dict.fromkeys((*levels, 'measure'), 'as stored')
    return {'scenes': f'{origin}, by {self.factor}; {criterion}', **levels}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns deviations of the scenes from the published ones.

    Composed scenes always have other objects and backgrounds. Stored scenes are compared only by
    how many there are.
    """
    if not self.stored:
      return ['scenes are composed here of other objects and backgrounds']
    count, published = records.layout.num_rows, designs.PUBLISHED_SCENES.get(self.factor, ())
    if not published:
      return [f'scenes by {self.factor}']
    expected = ' or '.join(map(str, published))
    return [] if count in published else [f'{count} of {expected} scenes']

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, one per combination of area, angle and position.

    Stored scenes have a single view.
    """
    if self.stored:
      return super().view_table(image_shape)
    return ViewTable.of(_level_names(self.design))

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, which scenes count, and the object of each row.

    A row is a pair of object and background, or a stored scene. Scenes with the same object are
    resampled together.
    """
    if not self.stored:
      return self._pairs(records, image_shape[0]).table
    is_counted = self._are_counted(records.column('fraction_inside'))
    return ViewTable(('as stored',), counted=is_counted[:, None], units=records.column('object'))

  def by_image(
    self, records: RecordsReader, image_shape: ImageShape
  ) -> tuple[RecordsReader, ViewTable]:
    """Returns predictions with a row per pair and a view per level, and a table of the levels.

    A pair is an object and a background. A level is a combination of area, angle and position of
    the object; the study shows each pair at each level. Stored scenes have a row for each scene and
    are rearranged. The table also has groups of levels for means, such as all levels of one area.

    Args:
      records: predictions, for stored scenes with a row for each.
      image_shape: height, width and channels of the images.
    """
    pairs = self._pairs(records, image_shape[0])
    as_stored = {'as stored': list(range(len(pairs.design)))}
    groups = as_stored if self.stored else self.view_table(image_shape).groups
    return pairs.arrange(records), dataclasses.replace(pairs.table, groups=groups)

  def _pairs(self, records: RecordsReader, side: int) -> Pairs:
    """Returns the pairs of a run, which arrange predictions by pair and level.

    A pair is an object and a background. A level is a combination of area, angle and position.

    Args:
      records: the recorded predictions.
      side: side of composed scenes in pixels.
    """
    if self.stored:
      columns = {name: records.column(name) for name in designs.COLUMNS}
      scenes = designs.tabulate(columns, self.design.name, self.design.side)
      design, objects = scenes.design, scenes.objects
      # A pair that is not stored at a level has the row −1. Its share inside the image is −1, which
      # is below every limit.
      fraction = scenes.spread(columns['fraction_inside'], absent=-1.0)
      rows = scenes.spread(np.arange(len(scenes.pair)), absent=-1)  # [pairs, levels]
    else:
      rows = None
      design, objects = self.design, records.column('object')
      fraction = self._visible_fractions(records.column, side)
    table = ViewTable(_level_names(design), counted=self._are_counted(fraction), units=objects)
    return Pairs(rows, design, table, is_visible=fraction > 0)

  def _are_counted(self, fraction: np.ndarray) -> np.ndarray:
    """Returns whether scenes count, bool [...], because enough of the object is visible.

    The limit is `design.min_inside`. The comparison is in float32, as fractions are stored.

    Args:
      fraction: fraction of the object's rectangle inside the image, [...].
    """
    return np.asarray(fraction, np.float32) >= np.float32(self.design.min_inside)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if no scene counts, or if stored scenes lack their description.

    A scene is an object on a background. It counts if at least `min_inside` of the object is in the
    image. Scenes that are stored as images need columns such as the area, and must vary in the
    study's factor. Batches are read until a scene counts.
    """
    if self.stored:
      self._check_stored(rows)
    for batch in rows.batches(min(8, rows.num_examples)):
      if self.stored:
        fraction = batch['fraction_inside']
      elif 'foreground_size' in batch:
        fraction = self._visible_fractions(batch.__getitem__, rows.image_shape[0])
      else:
        return  # the check of the views names the missing columns
      is_row = np.asarray(batch['mask'])  # False for rows that fill up the last batch
      if self._are_counted(fraction[is_row]).any():
        return  # one scene that counts is enough
    raise self._no_scene()

  def _check_stored(self, rows: Rows) -> None:
    """Raises InputError unless the data are stored scenes in which the factor varies.

    500 scenes are read. An error is raised if one of size, location and rotation varies among them,
    but not the setting `factor`.
    """
    sample = np.unique(np.linspace(0, rows.num_examples - 1, 500).astype(int))
    columns = rows.at(sample).without_images()
    if missing := [name for name in designs.COLUMNS if name not in columns]:
      raise InputError(
        f'the rows have no column {missing[0]!r}, so they are no stored scenes; read them with '
        f'{KEYS.data.source:--}=si_score' + or_column(missing[0])  # `:--` writes a key as a flag
      )
    designs.tabulate(columns, self.design.name, self.design.side)  # refuses invalid numbers
    levels = pd.DataFrame({name: columns[name] for name in designs.LEVEL})
    varying = designs.varying_factors(levels)  # those with several values in the sample
    is_one_factor = self.factor in designs.FACTOR_COLUMNS  # not a grid or a cross
    if is_one_factor and varying and self.factor not in varying:
      raise InputError(
        f'{KEYS.study.factor} is {self.factor!r}, of which all scenes have one: they look like the '
        f'set of {" and ".join(sorted(varying))}.'
      )

  def _no_scene(self) -> InputError:
    """Returns the InputError that says that no scene counts."""
    return InputError(
      f'no scene has {self.design.min_inside:g} of its object inside: lower '
      f'{KEYS.study.min_inside}, or change the levels.'
    )

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns example scenes for a figure: objects pasted on backgrounds at several levels.

    A row is a pair of an object and a background. A level is a combination of the object's area,
    angle and position; each level is one view of the study. The figure shows the first three pairs
    at up to six levels. Scenes that were stored as images have no figure.

    Args:
      rows: the pairs.
      key: random key.
      findings: not used.

    Returns:
      `gallery`, scenes in [0, 1], [pairs, levels, 160, 160, 3], and `gallery_level`, the names of
      the levels; {} if the scenes are stored.
    """
    if self.stored:
      return {}
    views = self.views(rows.image_shape)
    # The indices of six evenly spaced levels, or of all if there are fewer.
    levels = np.unique(np.linspace(0, len(views) - 1, GALLERY_LEVELS).round().astype(int)).tolist()
    scenes = []
    for position in range(min(3, rows.num_examples)):
      pair = one_view.read_row(rows, position)
      scenes.append(np.stack([one_view.show(self, pair, level, key) for level in levels]))
    shape = (len(scenes), len(levels), GALLERY_SIDE, GALLERY_SIDE, 3)
    gallery = np.asarray(jax.image.resize(np.stack(scenes), shape, 'linear')).clip(0, 1)
    names = [_level_names(self.design)[level] for level in levels]
    return {'gallery': gallery, 'gallery_level': np.array(names)}

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns accuracy over all scenes, by class, by level and by factor.

    A level is a combination of area, angle and position. Accuracy by one factor averages over the
    others. It is estimated twice: on all scenes with enough of the object visible, and on a
    balanced mix with the same pairs of object and background at all levels. Accuracy by location is
    also estimated from all scenes with any part of the object. Objects are resampled for intervals,
    and classifiers are compared by paired differences.

    Args:
      evaluations: for each classifier, its predictions for all scenes: a row for each pair and a
        view for each level, or a row for each scene if scenes are
        stored as images.
      image_shape: height, width and channels of the scenes.
    """
    # Columns that scenes are arranged, counted and grouped by must be equal for all classifiers.
    columns = designs.COLUMNS if self.stored else ('object', 'imagenet_class', 'foreground_size')
    Recorded(evaluations).require_equal_columns(columns)
    records = {evaluation.label: evaluation.records for evaluation in evaluations}
    first_records = evaluations[0].records
    pairs = self._pairs(first_records, image_shape[0])
    counted = pairs.table.counted  # bool [pairs, levels]: enough of the object is inside
    assert counted is not None
    if not counted.any():
      raise self._no_scene()
    # The rank of the true class, from which the statistic says whether predictions are right.
    fields = {label: {'rank': pairs.arrange(r).table('rank')} for label, r in records.items()}
    levels, objects = designs.levels_of(pairs.design), pairs.table.units
    right = Outcomes.from_fields(SCENE_ACCURACY, fields, levels, clusters=objects)
    right = right.counting(counted)
    estimates = list(self._estimates(right))
    estimates += self._estimates_by_class(right, pairs.arrange(first_records))
    x_and_y = designs.FACTOR_COLUMNS[designs.LOCATION]
    is_partly_visible = pairs.is_visible & ~counted  # too little of the object to count
    if designs.LOCATION in designs.varying_factors(right.views) and is_partly_visible.any():
      visible = right.counting(pairs.is_visible)
      estimates.append(self.means(ACCURACY_OF_ALL, visible, x_and_y))
      estimates.append(self.means(NORMALISED_OF_ALL, visible, x_and_y, by_group=True))
    return Findings(estimates=estimates)

  def _estimates_by_class(self, right: Outcomes, records: RecordsReader) -> Iterator[pd.DataFrame]:
    """Yields accuracy on the scenes of each class of objects.

    Args:
      right: whether each classifier is right, for P pairs of object and background at L
        combinations of area, angle and position.
      records: recorded predictions with a row for each pair.
    """
    # {index of a class: its name}: ImageNet's names, but SI-Score's for the classes that it has
    names = {**dict(enumerate(NAMES)), **CLASS_NAMES}
    stored_names = records.identity.get('classes', ()) if self.stored else ()
    if len(stored_names) not in (0, len(NAMES)):  # the classes are not ImageNet's
      names = dict(enumerate(stored_names))
    classes = records.column('label' if self.stored else 'imagenet_class')
    for index in np.unique(classes).tolist():
      facets = {'class': names[index]}
      yield self.means(SCENE_ACCURACY, right.of_rows(classes == index), facets=facets)

  def _estimates(self, right: Outcomes) -> Iterator[pd.DataFrame]:
    """Yields accuracy over all scenes, by level and by factor, and on a balanced mix.

    A level is a combination of area, angle and position of the object. A scene counts if enough of
    its object is inside the image. The balanced mix has the same pairs of object and background at
    all levels. A factor is size, location or rotation. Normalised accuracies are divided by the
    largest accuracy of the factor.

    Args:
      right: whether each classifier is right, for P pairs at L levels, and which scenes count.
    """
    # {factor that varies: its columns in the results}, such as location: (y, x)
    factors = designs.varying_factors(right.views)
    yield self.means(SCENE_ACCURACY, right)
    balanced = self._balanced_outcomes(right)
    if _counted_scenes(balanced).any():
      yield self.means(BALANCED_ACCURACY, balanced)
      for label in right.labels:
        yield self.table_of(label, [(GAP, {}, _gap(right, balanced, label, self.confidence))])
    by_level = tuple(key for keys in factors.values() for key in keys)  # the facets of all factors
    if by_level:
      yield self.means(SCENE_ACCURACY, right, by_level, test=True)
      yield self.means(BALANCED_ACCURACY, balanced, by_level, paired=False)
    for factor, keys in factors.items():
      if len(factors) > 1:  # with a single factor, these are the estimates by level
        yield self.means(SCENE_ACCURACY, right, keys, test=True)
        by_factor = self._balanced_outcomes(right, factor)
        yield self.means(BALANCED_ACCURACY, by_factor, keys, paired=False)
      is_normalised = np.ones(len(right.views), bool)  # the levels with a normalised accuracy
      if factor == designs.LOCATION:
        is_normalised = _has_enough_scenes(right, keys)
      if is_normalised.any():
        yield self.means(NORMALISED_ACCURACY, right, keys, where=is_normalised, by_group=True)

  def _balanced_outcomes(self, right: Outcomes, factor: str = '') -> Outcomes:
    """Restricts outcomes to a balanced mix: the same pairs at every value of a factor.

    A pair is an object and a background. Pairs are selected separately for each combination of the
    other factors. Thus a pair that is too large to be rotated at one size can still count at other
    sizes.

    Args:
      right: outcomes of P pairs at L levels (combinations of area, angle and position).
      factor: 'size', 'location' or 'rotation'. '' takes 'rotation' if angles vary, otherwise all
        factors.
    """
    levels, counted = right.views, _counted_scenes(right)
    factors = designs.varying_factors(levels)
    if not factor and designs.ROTATION in factors:
      factor = designs.ROTATION
    compared_keys = designs.FACTOR_COLUMNS.get(factor, designs.LEVEL)  # '' compares all facets
    pooled_keys = [key for key in designs.LEVEL if key not in compared_keys]
    # In the corners of an image few objects are inside: such places would leave few pairs.
    min_share = MIN_SHARE_OF_PAIRS if designs.LOCATION in factors else 0.0
    groups = designs.group_levels(levels, compared_keys)
    strata = designs.group_levels(levels, pooled_keys)
    is_balanced = designs.select_balanced(counted, groups, strata, share=min_share)
    return right.counting(is_balanced)

  def _visible_fractions(self, column: Callable[[str], np.ndarray], side: int) -> np.ndarray:
    """Returns the fraction of each object inside the image at each level, float32 [P, L].

    A level is a combination of area, angle and position.

    Args:
      column: function from the name of a column to its values, [P, ...].
      side: side of composed scenes in pixels.
    """
    size = np.asarray(column('foreground_size'))
    pixels = column('foreground_pixels') if self.measure == 'mask' else size.prod(1)
    return scene_views.fractions_inside(self.design, size, np.asarray(pixels), side)

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and a gallery of scenes: a row per pair, a column per level.

    A pair is an object and a background, and a level a combination of area, angle and position.
    """
    figures = super().figures(results)
    if 'gallery' in results.arrays:
      levels = results.arrays['gallery_level'].tolist()
      rows = {
        f'pair {number}': dict(zip(levels, pictures, strict=True))
        for number, pictures in enumerate(results.arrays['gallery'], 1)
      }
      figures['gallery'] = images.grid(rows), 'Some pairs at some levels, as composed.'
    return figures


class Pairs(NamedTuple):
  """P pairs of object and background at L levels, the same for all classifiers.

  A level is a combination of area, angle and position of the object.

  Attributes:
    rows: index of the stored scene of each pair at each level, int [P, L]; −1 where there is none.
      None for composed scenes, whose predictions have a row for each pair already.
    design: the levels.
    table: names of the views, and `counted`, bool [P, L], which says which scenes count.
    is_visible: bool [P, L], whether any part of the object is inside the image.
  """

  rows: np.ndarray | None
  design: designs.Design
  table: ViewTable
  is_visible: np.ndarray

  def arrange(self, records: RecordsReader) -> RecordsReader:
    """Returns a classifier's predictions with a row for each pair and a view for each level."""
    return records if self.rows is None else SelectedRows(records, self.rows)


def _counted_scenes(outcomes: Outcomes) -> np.ndarray:
  """Returns which scenes count, bool [P, L], the same for all classifiers.

  A scene shows a pair of an object and a background at a level, such as a size of the object. There
  are P pairs and L levels.
  """
  assert outcomes.counted is not None
  return outcomes.counted[outcomes.labels[0]]


def _has_enough_scenes(outcomes: Outcomes, keys: Sequence[str]) -> np.ndarray:
  """Returns the levels at which at least 90 % of the scenes count, bool [L].

  Levels (combinations of area, angle and position) with equal values of `keys`, such as x and y,
  are taken together. Without this limit, a corner that few objects reach could have the largest
  accuracy by chance.

  Args:
    outcomes: outcomes of P pairs of object and background at L levels.
    keys: names of factors.
  """
  group = designs.group_levels(outcomes.views, keys)  # number of the group of each level
  counted = _counted_scenes(outcomes)
  num_counted = np.bincount(group, counted.sum(0))  # the scenes of each group that count
  num_scenes = np.bincount(group) * len(counted)
  has_enough = num_counted / num_scenes >= MIN_SHARE_OF_PAIRS
  return has_enough[group]


def _gap(right: Outcomes, balanced: Outcomes, label: str, confidence: float) -> Estimate:
  """Returns a classifier's accuracy on all scenes minus its accuracy on a balanced mix.

  The difference is averaged over levels (combinations of area, angle and position). Its interval is
  a bootstrap over objects.

  Args:
    right: whether classifiers are right, with all scenes that count.
    balanced: whether classifiers are right, with only the pairs of object and background that count
      at every level; see `_balanced_outcomes`.
    label: name of the classifier.
    confidence: confidence level of the interval, in (0, 1).
  """
  levels = list(right.groups(designs.LEVEL))  # each level is a group of one view
  units = units_of_classifier(right, label, levels)
  balanced_units = units_of_classifier(balanced, label, levels)

  def gap(weights: np.ndarray) -> np.ndarray:
    """Returns accuracy on all scenes minus accuracy on the balanced mix, [B].

    The difference is averaged over the levels at which both are defined.

    Args:
      weights: [B, K], how often each of B bootstrap samples has each of K objects.
    """
    return known_mean(units.means(weights) - balanced_units.means(weights))

  (estimate,) = bootstrap(gap, units, confidence)
  # If the same scenes count in both, the gap is 0 by definition, with the interval [0, 0]. If not,
  # `unless_equal` removes an interval without width.
  if np.array_equal(_counted_scenes(right), _counted_scenes(balanced)):
    return estimate
  return unless_equal(estimate)


def _level_names(design: designs.Design) -> list[str]:
  """Names the levels, such as 'area 0.2, 90°, at 0.5, 0.5'."""
  return [
    f'area {area:.4g}, {angle:g}°, at {x:.4g}, {y:.4g}'
    for area, angle, x, y in zip(design.area, design.angle, design.x, design.y, strict=True)
  ]


def _span_words(values: np.ndarray) -> str:
  """Lists distinct numbers as text: '0, 90', or '0.01 to 1, 100 values' for ten or more."""
  texts = [f'{value:.3g}' for value in np.unique(values)]
  many = f'{texts[0]} to {texts[-1]}, {len(texts)} values'
  return many if len(texts) >= 10 else ', '.join(texts)


def _check_reach(design: designs.Design) -> None:
  """Raises InputError if no part of the object is visible in any scene of a design.

  An upper bound of the object's extent is used: twice the extent of a square with its area and
  angle, since elongated objects extend further.

  Args:
    design: the scenes, arrays with the centre (x, y), area and angle of the object in each. Lengths
      are fractions of the canvas's side, angles are in degrees.
  """
  angle = np.radians(design.angle)
  # From its centre, a square with the side s = √area, rotated by the angle a, reaches as far as
  # s/2 (|cos a| + |sin a|). This is twice as far.
  reach = np.sqrt(design.area) * (np.abs(np.cos(angle)) + np.abs(np.sin(angle)))
  is_visible = np.ones(len(design), bool)
  for centre in (design.x, design.y):
    is_visible &= (centre + reach > 0) & (centre - reach < 1)
  centres = design.x.tolist()[:3], design.y.tolist()[:3]  # three are enough for the message
  valid = 'places from which an object reaches into the image, about 0 to 1'
  require(bool(is_visible.any()), f'{KEYS.study.xs} and ys', centres, valid)
