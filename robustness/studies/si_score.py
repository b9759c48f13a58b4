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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.rows import Rows, numeric_columns
from robustness.core.sequential import map_rows
from robustness.core.settings import choice, require, require_fractions
from robustness.estimates.means import means
from robustness.estimates.of_means import of_means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.evaluation import study
from robustness.evaluation.records import Records
from robustness.evaluation.row_selection import RowSelection
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.view_table import ViewTable
from robustness.evaluation.views import Views, identity
from robustness.figures import si_score as scene_figures
from robustness.metrics import scene_predictions
from robustness.metrics import si_score as metrics
from robustness.results import Results, Table
from robustness.scenes import designs
from robustness.scenes import views as scene_views
from robustness.scenes.compose import MEASURES
from robustness.scenes.designs import FACTORS, Design
from robustness.wording import scenes as wording

GRID, CROSS = 'grid', 'cross'
SAMPLES, SAMPLE_SIDE = 6, 160
AMONG_PLACES = 0.9
"""Share of the pairs that a place must have to be on the balanced map."""


SCENE_ACCURACY = Quantity(
  'accuracy', 'accuracy over all scenes', better='higher', headline=True, paper='yung2021si'
)
BALANCED_ACCURACY = Quantity(
  'balanced_accuracy', 'accuracy over scenes of the same objects at every level', better='higher'
)
GAP = Quantity('gap', 'accuracy as published minus balanced, mean over levels', low=-1)
NORMALISED_ACCURACY = Quantity(
  'normalised_accuracy', 'accuracy as a share of its largest', better='higher', paper='yung2021si'
)


@dataclasses.dataclass(frozen=True)
class Study(study.Study):
  """Settings of the study `si_score`.

  Attributes:
    factor: 'size', 'location' or 'rotation' as published; 'grid' for cells × cells places; 'cross'
      for the cross product of the values below.
    areas, angles, xs, ys: for 'cross': fractions of the canvas, degrees counter-clockwise, and
      fractions of the side from the left and from the top. `areas` holds for 'grid' too.
    cells: for 'grid': places along a side.
    ends: for 'grid': whether the places run from edge to edge, in place of the cells' centres.
    measure: whether an area is that of the object's 'rectangle', as published, or of its 'mask'.
    min_inside: a scene counts if at least this share of the object's rectangle is inside; -1 takes
      the published value: .95, and .5 where the place varies.
    stored: whether rows are scenes already (`config.data.source='si_score'`).
    confidence: of all intervals.
    false_discovery_rate: of the paired tests over levels.
    balanced_share: levels that a smaller share of the pairs has are no balanced levels; -1 takes
      `AMONG_PLACES` where places vary, for near the corners few pairs count, and 0 elsewhere.
  """

  name: ClassVar[str] = 'si_score'
  papers: ClassVar[tuple[str, ...]] = ('yung2021si', 'djolonga2021robustness')
  composes: ClassVar[bool] = True

  factor: str = 'size'
  areas: tuple[float, ...] = (0.2,)
  angles: tuple[float, ...] = (0.0,)
  xs: tuple[float, ...] = (0.5,)
  ys: tuple[float, ...] = (0.5,)
  cells: int = 56
  ends: bool = False
  measure: str = 'rectangle'
  min_inside: float = -1.0
  stored: bool = False
  confidence: float = 0.95
  false_discovery_rate: float = 0.05
  balanced_share: float = -1.0

  def __post_init__(self) -> None:
    choice('config.study.factor', self.factor, (*FACTORS, GRID, CROSS))
    choice('config.study.measure', self.measure, MEASURES)
    require(
      self.min_inside == -1 or 0 <= self.min_inside <= 1,
      'config.study.min_inside',
      self.min_inside,
      'in [0, 1], or -1 for the published value',
    )
    require(
      self.balanced_share == -1 or 0 <= self.balanced_share <= 1,
      'config.study.balanced_share',
      self.balanced_share,
      f'in [0, 1], or -1 for {AMONG_PLACES:g} where places vary and 0 elsewhere',
    )
    require_fractions(self, 'config.study', 'confidence', 'false_discovery_rate')
    for key in ('areas', 'angles', 'xs', 'ys'):
      levels = getattr(self, key)
      require(
        bool(levels) and len(set(levels)) == len(levels), f'config.study.{key}', levels, 'distinct'
      )
    _check_reach(self.design)

  @property
  def design(self) -> Design:
    """The levels, with the share that must be inside."""
    if self.factor == GRID:
      design = designs.grid(self.cells, self.ends, self.areas[0])
    elif self.factor == CROSS:
      moved = {*self.xs, *self.ys} != {0.5}
      design = designs.cross(
        CROSS, self.areas, self.angles, self.xs, self.ys, min_inside=0.5 if moved else 0.95
      )
    else:
      design = designs.published(self.factor)
    given = self.min_inside >= 0
    return dataclasses.replace(design, min_inside=self.min_inside) if given else design

  @property
  def canvas(self) -> int:
    """Side of the canvas where `config.data.canvas` gives none, pixels; 0 for stored scenes."""
    return 0 if self.stored else self.design.side

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns a view for each level, in the design's order; no view is random."""
    if self.stored:
      return dataclasses.replace(identity(), image_shape=image_shape)
    design = self.design
    if image_shape[0] != image_shape[1] or image_shape[2] != 3:
      raise InputError(
        f'backgrounds of shape {image_shape} cannot hold scenes: they must be '
        "square and in colour, as those of config.data.source='scenes' are."
      )
    shown = scene_views.shown(design, image_shape[0], self.measure)
    return Views(
      shown.show,
      np.arange(len(design), dtype=np.int32),
      scene_views.parameters(design),
      image_shape=image_shape,
      prepare=shown.prepare,
      sequential=True,
    )

  @property
  def shown_as(self) -> dict[str, str]:
    """See `robustness.evaluation.study.Study`."""
    least = f'scenes with {self.design.min_inside:g} of the object inside count'
    return {
      'scenes': f'{"as stored" if self.stored else "composed here"}, by {self.factor}; {least}'
    }

  def differences(self, records: Records, image_shape: tuple[int, int, int]) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return [] if self.stored else ['scenes are composed here of other objects and backgrounds']

  def view_table(self, records: Records, image_shape: tuple[int, int, int]) -> ViewTable:
    """See `robustness.evaluation.study.Study`; scenes that do not count are left out."""
    design, objects = self.design, records.column('object')
    if self.stored:
      counted = scene_predictions.enough(records.column('fraction_inside'), design.min_inside)
      return ViewTable(('as stored',), None, counted[:, None], units=objects)
    fractions = self._fractions(records.column, image_shape[0])
    counted = scene_predictions.enough(fractions, design.min_inside)
    return ViewTable(_level_names(design), None, counted, units=objects)

  def by_image(
    self, records: Records, image_shape: tuple[int, int, int]
  ) -> tuple[Records, ViewTable]:
    """See `robustness.evaluation.study.Study`; a row is a pair of object and background."""
    if not self.stored:
      return super().by_image(records, image_shape)
    table, counted = scene_predictions.tabulated(records, self.design)
    rows = table.spread(np.arange(len(table.pair)), -1)
    levels = list(range(len(table.design)))
    names, groups = _level_names(table.design), {'as stored': levels}
    views = ViewTable(names, None, counted, groups=groups, units=table.objects)
    return RowSelection(records, rows), views

  def check_rows(self, rows: Rows) -> None:
    """Refuses levels at which no scene of the rows counts; reads until one does."""
    least = self.design.min_inside
    for batch in rows.batches(min(8, rows.num_examples)):
      if self.stored:
        fraction = batch.get('fraction_inside', np.ones(len(batch['mask'])))
      elif 'foreground_size' in batch:
        fraction = self._fractions(batch.__getitem__, rows.image_shape[0])
      else:
        return  # the views name what the rows lack
      if scene_predictions.enough(fraction[np.asarray(batch['mask'])], least).any():
        return
    raise self._no_scene()

  def _no_scene(self) -> InputError:
    return InputError(
      f'no scene has {self.design.min_inside:g} of its object inside: lower '
      'config.study.min_inside, or change the levels.'
    )

  def sample_arrays(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns `gallery` [rows, levels, 160, 160, 3]: three pairs at some levels."""
    if self.stored:
      return {}
    views = self.views(rows.image_shape)
    chosen = np.unique(np.linspace(0, len(views) - 1, SAMPLES).round().astype(int))
    batch = next(rows.batches(min(3, rows.num_examples), [0]))
    prepare = views.prepare
    assert prepare is not None
    columns = jax.jit(lambda rows: map_rows(lambda row, _: prepare(row), rows, None))(
      numeric_columns(batch)
    )

    @jax.jit
    def sample(view: Any) -> jax.Array:
      images = map_rows(lambda row, level: views.show(key, row, level), columns, view)
      shape = (len(images), SAMPLE_SIDE, SAMPLE_SIDE, 3)
      return jnp.clip(jax.image.resize(images, shape, 'linear'), 0, 1)

    images = jax.lax.map(sample, {k: jnp.asarray(v[chosen]) for k, v in views.parameters.items()})
    return {'gallery': np.asarray(images).swapaxes(0, 1), 'gallery_level': chosen}

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns accuracy by level and by factor, as published and balanced, and the differences.

    Arrays by level [L]: `area`, `angle`, `x`, `y`, `n`, `accuracy` with `_low` and `_high`,
    `balanced_accuracy`, `balanced_n`; by factor f of those that vary (size, rotation, location):
    `f/value` [G] (for location `location/x` and `location/y`, and [Y, X] for all others), `f/n`,
    `f/objects`, `f/accuracy` with `_low` and `_high`, `f/normalised`, `f/balanced`,
    `f/balanced_n`; for a second classifier `<label>/difference` [L] and `<label>/f/difference` with
    `_low`, `_high`, `_p` and `_significant`, and `<label>/f/normalised_difference` with `_low` and
    `_high`.
    """
    fraction = (
      None if self.stored else self._fractions(evaluations[0].records.column, image_shape[0])
    )
    tables = [scene_predictions.answers(e.records, self.design, fraction) for e in evaluations]
    levels = tables[0].levels
    kept = self._balanced(tables[0].scenes.shown, levels)
    if not tables[0].scenes.shown.any():
      raise self._no_scene()
    findings = Findings(
      arrays={**levels, 'n': tables[0].scenes.shown.sum(0), 'balanced_n': kept.sum(0)}
    )
    for prefix, table in zip(study.prefixes(evaluations), tables, strict=True):
      self._by_level(findings, prefix, table.scenes, kept)
      for factor in scene_predictions.varying(levels):
        self._by_factor(findings, prefix, factor, table.scenes)
      findings.tables[f'{prefix}classes'] = self._classes(table)
    scenes = {e.label: table.scenes for e, table in zip(evaluations, tables, strict=True)}
    findings.estimates = self._estimates(scenes, levels, kept, tables[0].classes)
    for evaluation, table in zip(evaluations[1:], tables[1:], strict=True):
      self._compare(findings, evaluation.label, tables[0].scenes, table.scenes)
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (SCENE_ACCURACY, BALANCED_ACCURACY, GAP, NORMALISED_ACCURACY)

  def _estimates(
    self,
    scenes: Mapping[str, metrics.Scenes],
    levels: Mapping[str, np.ndarray],
    kept: np.ndarray,
    classes: np.ndarray,
  ) -> list[pd.DataFrame]:
    """Returns the rows of the table of results: by level, by factor with the others pooled, by
    class, and over all; objects are the units."""
    right = {label: own.right for label, own in scenes.items()}
    first = next(iter(scenes.values()))
    views = pd.DataFrame({key: levels[key] for key in scene_predictions.LEVEL})
    views['angle'] = metrics.wrapped(views.angle)
    varying = scene_predictions.varying(levels)
    factors = {f: scene_predictions.KEYS[f] for f in varying}
    given: dict[str, Any] = {'confidence': self.confidence}

    def counted(shown: np.ndarray) -> Outcomes:
      return Outcomes(right, views, dict.fromkeys(right, shown), first.objects)

    published, balanced = counted(first.shown), counted(first.shown & kept)
    by_level = tuple(key for keys in factors.values() for key in keys)
    parts = [means(SCENE_ACCURACY, published, **given)]
    if kept.any():
      parts.append(means(BALANCED_ACCURACY, balanced, **given))
      both = {label: np.concatenate([values, values], 1) for label, values in right.items()}
      shown = np.concatenate([first.shown, first.shown & kept], 1)
      pooled = pd.DataFrame({'level': np.tile(np.arange(len(views)), 2)})
      pooled['mix'] = np.repeat(['published', 'balanced'], len(views))
      outcomes = Outcomes(both, pooled, dict.fromkeys(both, shown), first.objects)
      gap = of_means(GAP, outcomes, _gap, ('mix', 'level'), paired=False, **given)
      parts.append(gap.assign(n=int(first.shown.sum())))  # balanced scenes are among these
    for index in np.unique(classes).tolist():
      of_class = {'class': scene_predictions.class_name(index)}
      parts.append(
        means(SCENE_ACCURACY, published.of_rows(classes == index), facets=of_class, **given)
      )
    if by_level:
      parts.append(means(SCENE_ACCURACY, published, by_level, test=True, **given))
      parts.append(means(BALANCED_ACCURACY, balanced, by_level, paired=False, **given))
    for factor, keys in factors.items():
      if len(factors) > 1:
        own = counted(first.shown & self._balanced(first.shown, levels, factor))
        parts.append(means(SCENE_ACCURACY, published, keys, test=True, **given))
        parts.append(means(BALANCED_ACCURACY, own, keys, paired=False, **given))
      parts.append(
        of_means(
          NORMALISED_ACCURACY,
          published,
          lambda own, base: metrics.normalised(own),
          keys,
          each=True,
          **given,
        )
      )
    return parts

  def _balanced(
    self, shown: np.ndarray, levels: Mapping[str, np.ndarray], factor: str = ''
  ) -> np.ndarray:
    """Returns the scenes [P, L] of the same pairs at every value of a factor, the others pooled.

    Without a factor the levels themselves are compared, or the angles where they vary, so that a
    pair too large to be turned at one size still counts at the others.
    """
    varying = scene_predictions.varying(levels)
    among = AMONG_PLACES if scene_predictions.LOCATION in (factor, *varying[-1:]) else 0.0
    share = among if self.balanced_share < 0 else self.balanced_share
    factor = factor or next((f for f in varying if f == scene_predictions.ROTATION), '')
    if not factor:
      return metrics.balanced(shown, share=share)
    _, groups, _ = scene_predictions.grouped(levels, factor)
    return metrics.balanced(shown, groups, scene_predictions.strata(levels, factor), share)

  def _fractions(self, column: Callable[[str], np.ndarray], side: int) -> np.ndarray:
    """Returns the share inside of every pair at every level, float32 [P, L], from its columns."""
    size = np.asarray(column('foreground_size'))
    pixels = column('foreground_pixels') if self.measure == 'mask' else size.prod(1)
    return scene_views.fractions_inside(self.design, size, np.asarray(pixels), side)

  def _by_level(
    self, findings: Findings, prefix: str, scenes: metrics.Scenes, kept: np.ndarray
  ) -> None:
    rates = metrics.rates(scenes, None, self.confidence)
    some = metrics.rates(scenes.only(kept), None, self.confidence)
    findings.arrays.update(
      {
        f'{prefix}accuracy': rates.value,
        f'{prefix}accuracy_low': rates.low,
        f'{prefix}accuracy_high': rates.high,
        f'{prefix}balanced_accuracy': some.value,
      }
    )
    findings.numbers[f'{prefix}accuracy'] = metrics.overall(scenes, self.confidence)
    if kept.any():
      findings.numbers[f'{prefix}balanced_accuracy'] = metrics.overall(
        scenes.only(kept), self.confidence
      )
      findings.numbers[f'{prefix}gap'] = metrics.gap(scenes, kept, 0, self.confidence)

  def _by_factor(
    self, findings: Findings, prefix: str, factor: str, scenes: metrics.Scenes
  ) -> None:
    """Adds accuracy by one factor, the others pooled."""
    values, groups, shape = scene_predictions.grouped(findings.arrays, factor)
    kept = self._balanced(scenes.shown, findings.arrays, factor)
    rates = metrics.rates(scenes, groups, self.confidence)
    some = metrics.rates(scenes.only(kept), groups, self.confidence)
    arrays = {
      'accuracy': rates.value,
      'accuracy_low': rates.low,
      'accuracy_high': rates.high,
      'normalised': metrics.normalised(rates.value),
      'balanced': some.value,
    }
    findings.arrays.update({f'{factor}/{name}': value for name, value in values.items()})
    findings.arrays.update(
      {
        f'{factor}/n': rates.n.reshape(shape),
        f'{factor}/balanced_n': some.n.reshape(shape),
        f'{factor}/objects': (scenes.sums(groups)[1] > 0).sum(0).reshape(shape),
      }
    )
    findings.arrays.update(
      {f'{prefix}{factor}/{name}': value.reshape(shape) for name, value in arrays.items()}
    )

  def _classes(self, table: scene_predictions.Answers) -> Table:
    """Returns accuracy by class over all levels, with objects and scenes that count."""
    rows = []
    for index in np.unique(table.classes):
      scenes = table.scenes.of(table.classes == index)
      number = metrics.overall(scenes, self.confidence)
      rows.append(
        [
          scene_predictions.class_name(int(index)),
          len(np.unique(scenes.objects)),
          number.n,
          number.value,
          number.low,
          number.high,
        ]
      )
    return Table(('class', 'objects', 'scenes', 'accuracy', 'low', 'high'), rows)

  def _compare(
    self, findings: Findings, label: str, first: metrics.Scenes, second: metrics.Scenes
  ) -> None:
    """Adds the differences level by level, and by factor, the others pooled."""
    levels = np.arange(len(findings.arrays['n']))
    ways: dict[str, tuple[str, np.ndarray, tuple[int, ...]]] = {'level': ('', levels, levels.shape)}
    for factor in scene_predictions.varying(findings.arrays):
      _, groups, shape = scene_predictions.grouped(findings.arrays, factor)
      ways[factor] = (f'{factor}/', groups, shape)
    rows = []
    for way, (prefix, groups, shape) in ways.items():
      tests = metrics.compare(first, second, groups, self.false_discovery_rate, self.confidence)
      arrays = {
        '': tests.value,
        '_low': tests.low,
        '_high': tests.high,
        '_p': tests.p_value,
        '_significant': tests.significant,
      }
      findings.arrays.update(
        {f'{label}/{prefix}difference{end}': value.reshape(shape) for end, value in arrays.items()}
      )
      if prefix:
        normalised = metrics.compare_normalised(first, second, groups, 0, self.confidence)
        findings.arrays.update(
          {
            f'{label}/{prefix}normalised_difference{end}': value.reshape(shape)
            for end, value in zip(('', '_low', '_high'), normalised, strict=True)
          }
        )
      signs = [int((tests.significant & (sign * tests.value > 0)).sum()) for sign in (1, -1)]
      rows.append([way, int(np.isfinite(tests.p_value).sum()), *signs, self.false_discovery_rate])
    findings.tables[f'{label}/comparison'] = Table(
      (
        'by',
        'compared',
        'significantly more accurate',
        'significantly less accurate',
        'false-discovery rate',
      ),
      rows,
    )

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return scene_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.sentences(results)


def _gap(own: np.ndarray, base: np.ndarray) -> np.ndarray:
  """Returns the mean over levels of accuracy as published minus balanced, where both are known."""
  del base
  published, balanced = np.split(own, 2, -1)
  return metrics.mean_of_finite(published - balanced)


def _level_names(design: Design) -> list[str]:
  return [
    f'area {area:.2g}, {angle:g}°, at {x:.2g}, {y:.2g}'
    for area, angle, x, y in zip(design.area, design.angle, design.x, design.y, strict=True)
  ]


def _check_reach(design: Design) -> None:
  """Refuses levels none of which can show any part of an object."""
  turn = np.radians(design.angle)
  half = np.sqrt(design.area) * (np.abs(np.cos(turn)) + np.abs(np.sin(turn)))
  reached = np.ones(len(design), bool)
  for centre in (design.x, design.y):
    reached &= (centre + half > 0) & (centre - half < 1)
  require(
    bool(reached.any()),
    'config.study.xs and ys',
    (design.x.tolist()[:3], design.y.tolist()[:3]),
    'places from which an object reaches into the image, about 0 to 1',
  )
