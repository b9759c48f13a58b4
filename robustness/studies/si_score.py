"""SI-Score: accuracy by the size, the place and the angle of an object pasted on a background.

Each row is a pair of object and background, each view a level: an area, an angle and a place. The
scenes are composed on the device, none is stored. A scene counts if enough of the object's
rectangle is inside; levels where many are not show another mix of objects, so everything is given
for the published mix and for a balanced one.

Reference: Djolonga et al., On robustness and transferability of convolutional neural networks
(2021); Yung et al., SI-Score (2021).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting, word
from robustness.core.rows import Rows, numeric_columns
from robustness.core.sequential import map_rows
from robustness.core.settings import require
from robustness.estimates.facets import Facet
from robustness.estimates.means import Row, known_mean, part, row
from robustness.estimates.of_means import bootstrap, units
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity, declare_accuracy
from robustness.evaluation.records import RecordsReader, SelectedRows
from robustness.evaluation.study import Evaluation, Figures, Findings, ImageShape, Recipes, Study
from robustness.evaluation.views import Arrays, Views, ViewTable, identity
from robustness.models.imagenet_names import NAMES
from robustness.present import images
from robustness.results import Results
from robustness.scenes import designs
from robustness.scenes import views as scene_views
from robustness.scenes.classes import IMAGENET_INDEX
from robustness.scenes.composition import MEASURES
from robustness.scenes.designs import COLUMNS, FACTORS, Design, tabulate

GRID, CROSS = 'grid', 'cross'
SAMPLES, SAMPLE_SIDE = 6, 160
CLASS_NAMES = {index: name for name, index in IMAGENET_INDEX.items()}
AMONG_PLACES = 0.9
"""Share of the pairs that a place must have to be on the balanced and the normalised map; few have
corners."""
_drawn = functools.partial(declare_accuracy, drawn=True)
_normalised = functools.partial(_drawn, function=lambda means, _: designs.normalised(means))
SCENE_ACCURACY = declare_accuracy('accuracy', 'accuracy on scenes', headline=True)
BALANCED_ACCURACY = _drawn(
  'balanced_accuracy', 'accuracy on scenes of the same objects at every level'
)
GAP = Quantity('gap', 'accuracy on scenes minus that on the same objects, mean over levels', low=-1)
NORMALISED_ACCURACY = _normalised('normalised_accuracy', 'accuracy as a share of its largest')
ANY_SHARE = ', however little of the object is inside'
ACCURACY_OF_ALL = _drawn('accuracy_of_all_scenes', f'accuracy on all scenes{ANY_SHARE}')
NORMALISED_OF_ALL = _normalised(
  'normalised_accuracy_of_all_scenes',
  f'accuracy on all scenes as a share of its largest{ANY_SHARE}',
)
AREA = Facet('area', 'area of the object', 'share of the image', True, '', 'areas')
X = Facet('x', 'horizontal place', 'share of the width', ordered=True)
Y = Facet('y', 'vertical place', 'share of the height from the top', ordered=True)


@dataclasses.dataclass(frozen=True)
class SiScore(Study):
  """Settings.

  Attributes:
    factor: 'size', 'location' or 'rotation' as published; 'grid' for cells × cells places; 'cross'
      for the cross product of the values below.
    areas, angles, xs, ys: for 'cross': fractions of the canvas, degrees counter-clockwise, and
      fractions of the side from the left and from the top. 'grid' takes one of `areas`.
    cells: for 'grid': places along a side.
    measure: whether an area is that of the object's 'rectangle', as published, or of its 'mask'.
    min_inside: a scene counts if at least this share of the object's rectangle is inside; -1 takes
      the published value: .5 if a place is not the centre, which the published number of scenes
      fits, else .95. Stored scenes in the centre all count. Accuracy by place is given for all
      scenes too.
    stored: whether rows are scenes already (`config.data.source='si_score'`).
  """

  title: ClassVar[str] = 'Accuracy by the size, place and angle of an object'
  papers: ClassVar[tuple[str, ...]] = ('yung2021si', 'djolonga2021robustness')
  described_facets = (AREA, X, Y)
  quantities = (
    *(SCENE_ACCURACY, BALANCED_ACCURACY, GAP, NORMALISED_ACCURACY),
    *(ACCURACY_OF_ALL, NORMALISED_OF_ALL),
  )

  factor: str = word('size', (*FACTORS, GRID, CROSS))
  areas: tuple[float, ...] = (0.2,)
  angles: tuple[float, ...] = (0.0,)
  xs: tuple[float, ...] = (0.5,)
  ys: tuple[float, ...] = (0.5,)
  cells: int = 56
  measure: str = word('rectangle', MEASURES)
  min_inside: float = setting(
    -1.0, 'in [0, 1], or -1 for the published value', lambda x: x == -1 or 0 <= x <= 1
  )
  stored: bool = False
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    super().__post_init__()
    for key in ('areas', 'angles', 'xs', 'ys'):
      levels = getattr(self, key)
      self.require(bool(levels) and len(set(levels)) == len(levels), key, 'distinct')
      of_grid = self.factor == GRID and key == 'areas' and len(levels) == 1
      is_used = self.factor == CROSS or of_grid or levels == getattr(SiScore, key)
      self.require(is_used, key, f'left out where {KEYS.study.factor} is {self.factor!r}')
    of_cells = self.factor == GRID or self.cells == SiScore.cells
    self.require(of_cells, 'cells', f'left out where {KEYS.study.factor} is {self.factor!r}')
    composed = not self.stored or self.measure == SiScore.measure
    self.require(composed, 'measure', 'left out for stored scenes, whose areas are what they are')
    _check_reach(self.design)

  @property
  def design(self) -> Design:
    """The levels, with the share that must be inside."""
    if self.factor == GRID:
      design = designs.grid(self.cells, self.areas[0])
    elif self.factor == CROSS:
      design = designs.cross(CROSS, self.areas, self.angles, self.xs, self.ys)
    else:
      design = designs.published(self.factor)
    if self.min_inside >= 0:
      return dataclasses.replace(design, min_inside=self.min_inside)
    if self.stored and designs.is_centred(design):
      return dataclasses.replace(design, min_inside=0.0)
    return design

  @property
  def canvas(self) -> int:
    """Side of the canvas where the source sets none, pixels; 0 for stored scenes."""
    return 0 if self.stored else self.design.side

  def views(self, image_shape: ImageShape) -> Views:
    """Returns a view for each level, in the design's order; no view is random."""
    if self.stored:
      return dataclasses.replace(identity(), image_shape=image_shape)
    design = self.design
    if image_shape[0] != image_shape[1] or image_shape[2] != 3:
      raise InputError(
        f'backgrounds of shape {image_shape} cannot hold scenes: they must be '
        f"square and in colour, as those of {KEYS.data.source}='scenes' are."
      )
    show, prepare = scene_views.shown(design, image_shape[0], self.measure)
    return Views(
      show,
      np.arange(len(design), dtype=np.int32),
      scene_views.parameters(design),
      image_shape=image_shape,
      prepare=prepare,
      composes=True,
      sequential=True,
    )

  @property
  def shown_as(self) -> dict[str, str]:
    made = 'as stored' if self.stored else 'composed here'
    least = self.design.min_inside
    counted = f'scenes with {least:g} of the object inside count' if least else 'all count'
    return {'scenes': f'{made}, by {self.factor}; {counted}'}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    return [] if self.stored else ['scenes are composed here of other objects and backgrounds']

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Names the levels."""
    if self.stored:
      return super().view_table(image_shape)
    return ViewTable.of(_level_names(self.design))

  def by_row(self, records: RecordsReader, image_shape: ImageShape) -> ViewTable:
    """See `Study`; scenes that do not count are left out."""
    if not self.stored:
      return self._pairs(records, image_shape[0]).table
    counted = self._enough(records.column('fraction_inside'))
    return ViewTable(('as stored',), None, counted[:, None], units=records.column('object'))

  def by_image(
    self, records: RecordsReader, image_shape: ImageShape
  ) -> tuple[RecordsReader, ViewTable]:
    """See `Study`; a row is a pair of object and background."""
    pairs = self._pairs(records, image_shape[0])
    as_stored = {'as stored': list(range(len(pairs.design)))}
    groups = as_stored if self.stored else self.view_table(image_shape).groups
    return pairs.records, dataclasses.replace(pairs.table, groups=groups)

  def _pairs(self, records: RecordsReader, side: int) -> Pairs:
    """Returns records with a row a pair and a view a level, in which stored scenes have places."""
    joined: RecordsReader = records
    if self.stored:
      columns = {name: records.column(name) for name in COLUMNS}
      scenes = tabulate(columns, self.design.name, self.design.side)
      design, objects = scenes.design, scenes.objects
      fraction = scenes.spread(columns['fraction_inside'], -1.0)
      joined = SelectedRows(records, scenes.spread(np.arange(len(scenes.pair)), -1))
    else:
      design, objects = self.design, records.column('object')
      fraction = self._fractions(records.column, side)
    counted = self._enough(fraction)
    table = ViewTable(_level_names(design), None, counted, units=objects)
    return Pairs(joined, design, table, fraction > 0)

  def _enough(self, fraction: np.ndarray) -> np.ndarray:
    """Returns whether shares inside suffice; .95 counts as .95 in single precision."""
    return np.asarray(fraction, np.float32) >= np.float32(self.design.min_inside)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Refuses levels at which no scene of the rows counts; reads until one does. Stored scenes must
    have columns that say so, and be of the factor."""
    if self.stored:
      sample = np.unique(np.linspace(0, rows.num_examples - 1, 500).astype(int))
      columns = rows.at(sample).without_images()
      if missing := [name for name in COLUMNS if name not in columns]:
        raise InputError(
          f'the rows have no column {missing[0]!r}, so they are no stored scenes; read them with '
          f'--{KEYS.data.source}=si_score.'
        )
      varied = {f for f, keys in designs.KEYS.items() if any(np.ptp(columns[k]) for k in keys)}
      if varied and self.factor in designs.KEYS and self.factor not in varied:
        equal = f'{KEYS.study.factor} is {self.factor!r}, of which all scenes have one'
        raise InputError(f'{equal}: they look like the set of {" and ".join(sorted(varied))}.')
    for batch in rows.batches(min(8, rows.num_examples)):
      if self.stored:
        fraction = batch['fraction_inside']
      elif 'foreground_size' in batch:
        fraction = self._fractions(batch.__getitem__, rows.image_shape[0])
      else:
        return  # the views name what the rows lack
      if self._enough(fraction[np.asarray(batch['mask'])]).any():
        return
    raise self._no_scene()

  def _no_scene(self) -> InputError:
    return InputError(
      f'no scene has {self.design.min_inside:g} of its object inside: lower '
      f'{KEYS.study.min_inside}, or change the levels.'
    )

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns `gallery` [rows, levels, 160, 160, 3]: three pairs at some levels."""
    if self.stored:
      return {}
    views, design = self.views(rows.image_shape), self.design
    sampled = np.unique(np.linspace(0, len(views) - 1, SAMPLES).round().astype(int))
    batch = next(rows.batches(min(3, rows.num_examples), [0]))
    prepare = views.prepare
    assert prepare is not None
    prepared = jax.jit(lambda rows: map_rows(lambda row, _: prepare(row), rows, None))
    columns = prepared(numeric_columns(batch))

    @jax.jit
    def sample(view: Arrays) -> jax.Array:
      images = map_rows(lambda row, level: views.show(key, row, level), columns, view)
      shape = (len(images), SAMPLE_SIDE, SAMPLE_SIDE, 3)
      return jnp.clip(jax.image.resize(images, shape, 'linear'), 0, 1)

    images = jax.lax.map(sample, {k: jnp.asarray(v[sampled]) for k, v in views.parameters.items()})
    names = [_level_names(design)[level] for level in sampled]
    return {'gallery': np.asarray(images).swapaxes(0, 1), 'gallery_level': np.array(names)}

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns accuracy over all, by class, level and factor, the others pooled, with differences.

    Objects are the units. Each factor has another balanced mix, see `designs.balanced`.
    """
    pairs = {e.label: self._pairs(e.records, image_shape[0]) for e in evaluations}
    first = next(iter(pairs.values()))
    assert first.table.counted is not None
    ranks = {label: {'rank': joined.records.table('rank')} for label, joined in pairs.items()}
    counted = dict.fromkeys(ranks, first.table.counted)
    views = designs.levels_of(first.design)
    outcomes = Outcomes.from_fields(
      SCENE_ACCURACY, ranks, views, shown=counted, clusters=first.table.units
    )
    if not first.table.counted.any():
      raise self._no_scene()
    of_all = dataclasses.replace(outcomes, shown=dict.fromkeys(ranks, first.is_visible))
    classes = first.records.column('label' if self.stored else 'imagenet_class')
    stored = first.records.identity.get('classes', ()) if self.stored else ()
    of_imagenet = len(stored) in (0, len(NAMES))
    named = {**dict(enumerate(NAMES)), **CLASS_NAMES} if of_imagenet else dict(enumerate(stored))
    estimates = [*self._estimates(outcomes, classes, named), *self._of_all(outcomes, of_all)]
    return Findings(estimates=estimates)

  def _of_all(self, published: Outcomes, of_all: Outcomes) -> Iterator[pd.DataFrame]:
    """Yields accuracies by place of all scenes in which any of the object is inside, if not all of
    these count."""
    keys = designs.KEYS[designs.LOCATION]
    varies = designs.LOCATION in designs.varying(of_all.views)
    if varies and (_counted(of_all) & ~_counted(published)).any():
      yield self.means(ACCURACY_OF_ALL, of_all, keys)
      yield self.means(NORMALISED_OF_ALL, of_all, keys, by_group=True)

  def _estimates(
    self, published: Outcomes, classes: np.ndarray, named: Mapping[int, str]
  ) -> Iterator[pd.DataFrame]:
    """Yields the rows of scenes that count; `classes` of the pairs are int [P]."""
    factors = designs.varying(published.views)
    yield self.means(SCENE_ACCURACY, published)
    balanced = self._balanced(published)
    if _counted(balanced).any():
      yield self.means(BALANCED_ACCURACY, balanced)
      yield part([_gap(published, balanced, label, self.confidence) for label in published.labels])
    by_level = tuple(key for keys in factors.values() for key in keys)
    if by_level:
      yield self.means(SCENE_ACCURACY, published, by_level, test=True)
      yield self.means(BALANCED_ACCURACY, balanced, by_level, paired=False)
    for factor, keys in factors.items():
      if len(factors) > 1:
        yield self.means(SCENE_ACCURACY, published, keys, test=True)
        by_factor = self._balanced(published, factor)
        yield self.means(BALANCED_ACCURACY, by_factor, keys, paired=False)
      is_common = _common(published, keys) if factor == designs.LOCATION else None
      yield self.means(NORMALISED_ACCURACY, published, keys, where=is_common, by_group=True)
    for index in np.unique(classes).tolist():
      facets = {'class': named[index]}
      yield self.means(SCENE_ACCURACY, published.of_rows(classes == index), facets=facets)

  def _balanced(self, published: Outcomes, factor: str = '') -> Outcomes:
    """Returns the scenes of the same pairs at every value of a factor, the others pooled.

    Without a factor the levels themselves are compared, or the angles where they vary, so that a
    pair too large to be turned at one size still counts at the others.
    """
    levels, counted = published.views, _counted(published)
    factors = designs.varying(levels)
    share = AMONG_PLACES if designs.LOCATION in factors else 0.0
    by = factor or (designs.ROTATION if designs.ROTATION in factors else '')
    compared = designs.KEYS.get(by, designs.LEVEL)
    pooled = [key for key in designs.LEVEL if key not in compared]
    groups, strata = (designs.places(levels, keys) for keys in (compared, pooled))
    is_balanced = designs.balanced(counted, groups, strata, share)
    return dataclasses.replace(
      published, shown=dict.fromkeys(published.labels, counted & is_balanced)
    )

  def _fractions(self, column: Callable[[str], np.ndarray], side: int) -> np.ndarray:
    """Returns the share inside of every pair at every level, float32 [P, L], from its columns."""
    size = np.asarray(column('foreground_size'))
    pixels = column('foreground_pixels') if self.measure == 'mask' else size.prod(1)
    return scene_views.fractions_inside(self.design, size, np.asarray(pixels), side)

  def figures(self, results: Results) -> Figures:
    """See `Study`; with some scenes."""
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
  """Records with a row a pair of object and background, and a view a level.

  `is_visible`, bool [P, L], is true of the scenes in which any of the object is inside.
  """

  records: RecordsReader
  design: Design
  table: ViewTable
  is_visible: np.ndarray


def _counted(outcomes: Outcomes) -> np.ndarray:
  """Returns which scenes count, bool [P, L]: the same for all classifiers."""
  assert outcomes.shown is not None
  return outcomes.shown[outcomes.labels[0]]


def _common(outcomes: Outcomes, keys: Sequence[str]) -> np.ndarray:
  """Returns the levels, bool [L], with values of some keys at which `AMONG_PLACES` of the scenes
  count: a corner that few objects reach into may have the largest accuracy by chance."""
  group, counts = designs.places(outcomes.views, keys), _counted(outcomes).mean(0)
  return (np.bincount(group, counts) >= AMONG_PLACES * np.bincount(group))[group]


def _gap(published: Outcomes, balanced: Outcomes, label: str, confidence: float) -> Row:
  """Returns the mean over levels of a classifier's accuracy as published minus balanced."""
  levels = list(published.groups(designs.LEVEL))
  of_all, of_balanced = (units(outcomes, label, levels) for outcomes in (published, balanced))

  def gap(weights: np.ndarray) -> np.ndarray:
    return known_mean(of_all.means(weights) - of_balanced.means(weights))

  return row(label, '', GAP, {}, bootstrap(gap, of_all, confidence)[0], confidence)


def _level_names(design: Design) -> list[str]:
  return [
    f'area {area:.4g}, {angle:g}°, at {x:.4g}, {y:.4g}'
    for area, angle, x, y in zip(design.area, design.angle, design.x, design.y, strict=True)
  ]


def _check_reach(design: Design) -> None:
  """Refuses levels that cannot show any part of an object."""
  turn = np.radians(design.angle)
  half = np.sqrt(design.area) * (np.abs(np.cos(turn)) + np.abs(np.sin(turn)))
  reached = np.ones(len(design), bool)
  for centre in (design.x, design.y):
    reached &= (centre + half > 0) & (centre - half < 1)
  centres = design.x.tolist()[:3], design.y.tolist()[:3]
  valid = 'places from which an object reaches into the image, about 0 to 1'
  require(bool(reached.any()), f'{KEYS.study.xs} and ys', centres, valid)
