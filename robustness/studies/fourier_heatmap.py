r"""Fourier heat maps: error, and change of each layer's output, under every basis perturbation.

Row x is shown as x + r v U_ij (Yin et al. 2019, section 2, figures 3, 4, 8 and 9), for every
distinct frequency and once clean. Conventions are those of `robustness.fourier.basis`.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import pandas as pd

from robustness.core.rows import Rows
from robustness.core.settings import choice, require, require_fractions
from robustness.estimates.comparison import benjamini_hochberg, mcnemar, paired_difference
from robustness.estimates.intervals import student_interval
from robustness.estimates.means import means
from robustness.estimates.quantity import Quantity, errors_at
from robustness.estimates.table import assemble, select
from robustness.evaluation import one_view, study
from robustness.evaluation import outcomes as recorded
from robustness.evaluation.records import Records, Shard
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.views import Views
from robustness.figures import fourier_heatmap as heatmap_figures
from robustness.fourier.basis import PHASES, Frequencies, basis_image, distinct_frequencies, perturb
from robustness.fourier.cell_shares import (
  CLEAN,
  cell_counts,
  discordant_counts,
  discordant_shares,
  image_shares,
)
from robustness.metrics.fourier import band_cells, bands
from robustness.metrics.shares import independent_trials, mean_difference, mean_share
from robustness.metrics.view_shares import view_shares
from robustness.results import Number, Results, Table
from robustness.sequential.study import SequentialStudy
from robustness.wording import fourier_heatmap as wording

PUBLISHED_NORMS = {32: 4.0, 224: 15.7}
"""Of the heat maps of Yin et al. (2019), by the side of the images: CIFAR-10 and ImageNet."""

LAYER_CHANGE = Quantity(
  'layer_change', "change of a layer's output", kind='amount', low=0, paper='yin2019fourier'
)

COMPARISON = (
  'first',
  'second',
  'clean error, second - first',
  'low',
  'high',
  'McNemar p',
  'frequencies',
  'second significantly better',
  'second significantly worse',
)


@dataclasses.dataclass(frozen=True)
class Study(SequentialStudy):
  """Settings of the study `fourier_heatmap`, beside `half_width` of `SequentialStudy`.

  Attributes:
    norm: v > 0, L2 norm of one channel's perturbation (paper: 4 for CIFAR-10, 15.7 for ImageNet).
    phase: 'reference' (the authors' release) or 'cosine'.
    clip: whether perturbed images are clipped to [0, 1] (paper: no).
    window: side of the centred square of frequencies; 0 for all (paper: 63 for ImageNet).
    layers: layers whose output change is measured, or ('stages',) for all residual stages.
    top_k: k of the second error map, if there are more classes than that.
    confidence: of all intervals.
    false_discovery_rate: rate of Benjamini and Hochberg's procedure in difference maps.
  """

  name: ClassVar[str] = 'fourier_heatmap'
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier',)

  norm: float = 4.0
  phase: str = 'reference'
  clip: bool = False
  window: int = 0
  layers: tuple[str, ...] = ()
  top_k: int = 5
  confidence: float = 0.95
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    super().__post_init__()
    require(0 < self.norm < float('inf'), 'config.study.norm', self.norm, 'a finite number above 0')
    choice('config.study.phase', self.phase, PHASES)
    require(self.top_k >= 1, 'config.study.top_k', self.top_k, 'at least 1')
    require_fractions(self, 'config.study', 'confidence', 'false_discovery_rate')

  def frequencies(self, image_shape: tuple[int, int, int]) -> Frequencies:
    """Returns the distinct frequencies of the settings' window."""
    return distinct_frequencies(image_shape[0], image_shape[1], self.window)

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns the clean view (norm 0, id 0), then one view for each distinct frequency.

    The id of a frequency is 1 + (fy mod H) W + (fx mod W), whatever the window.
    """
    height, width, _ = image_shape
    frequencies = self.frequencies(image_shape)
    ids = 1 + frequencies.fy % height * width + frequencies.fx % width
    return Views(
      self._show,
      np.append(0, ids).astype(np.int32),
      {
        'fy': np.append(0, frequencies.fy).astype(np.int32),
        'fx': np.append(0, frequencies.fx).astype(np.int32),
        'norm': np.append(0, np.full(len(frequencies), self.norm)).astype(np.float32),
      },
    )

  def name_views(self, image_shape: tuple[int, int, int]) -> list[str]:
    """Returns 'clean', then 'fy=<fy>, fx=<fx>'."""
    f = self.frequencies(image_shape)
    return ['clean', *(f'fy={fy}, fx={fx}' for fy, fx in zip(f.fy, f.fx, strict=True))]

  @property
  def shown_as(self) -> dict[str, str]:
    """See `robustness.evaluation.study.Study`."""
    clipped = 'clipped to [0, 1]' if self.clip else 'not clipped'
    shown = f'the {self.window} × {self.window} lowest' if self.window else 'all'
    return {
      'perturbation': f'norm {self.norm:g} in each channel, phase {self.phase}, {clipped}',
      'frequencies': shown,
    }

  def differences(self, records: Records, image_shape: tuple[int, int, int]) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    published = PUBLISHED_NORMS.get(image_shape[0])
    facts = {
      f'norm {self.norm:g}, published {published or "for 32 and 224 pixels only"}': self.norm
      != published,
      f'phase {self.phase}': self.phase != 'reference',
      'clipped': self.clip,
    }
    return [
      *super().differences(records, image_shape),
      *(reason for reason, differs in facts.items() if differs),
    ]

  def group_views(self, image_shape: tuple[int, int, int]) -> dict[str, list[int]]:
    """Returns the clean view, and of the whole map and of each band a view for every cell."""
    f = self.frequencies(image_shape)
    masks = {'all': np.ones(f.cell.shape, bool), **bands(f.axis_y, f.axis_x, image_shape[:2])}
    views = {name: (1 + f.cell[mask]).tolist() for name, mask in masks.items() if mask.any()}
    return {'clean': [CLEAN], **{f'{name} frequencies': v for name, v in views.items()}}

  def _show(
    self, key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
  ) -> jax.Array:
    return perturb(key, row['image'], view['fy'], view['fx'], view['norm'], self.phase, self.clip)

  def sample_arrays(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns the first image under a few frequencies and the basis images around zero.

    Returns:
      `sample_images` [S, H, W, C] (the first one clean), `sample_frequencies` [S, 2] as (fy, fx),
      `basis_images` [2 r + 1, 2 r + 1, H, W] for |fy|, |fx| ≤ r.
    """
    row = one_view.read_row(rows, 0)
    height, width, _ = row['image'].shape
    frequencies = self.frequencies(row['image'].shape)
    sampled = sample_frequencies(frequencies)
    index = [CLEAN] + [1 + frequencies.cell[y, x] for y, x in sampled]

    reach = min(3, (min(frequencies.cell.shape) - 1) // 2)
    around = np.arange(-reach, reach + 1)
    cells = [
      [
        frequencies.cell[y + len(frequencies.axis_y) // 2, x + len(frequencies.axis_x) // 2]
        for x in around
      ]
      for y in around
    ]
    basis = [
      [basis_image(frequencies.fy[c], frequencies.fx[c], height, width, self.phase) for c in line]
      for line in cells
    ]
    centred = [(0, 0)] + [(frequencies.axis_y[y], frequencies.axis_x[x]) for y, x in sampled]
    return {
      'sample_images': np.stack([one_view.show(self, row, view, key) for view in index]),
      'sample_frequencies': np.asarray(centred, np.int32),
      'basis_images': np.asarray(basis),
    }

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns error maps with intervals, layer maps, band means and difference maps.

    Arrays (each [window height, window width], zero frequency centred): `error`, `error_low`,
    `error_high`, `top<k>_error`, `layer_change/<layer>` (mean of ‖z_h(x) - z_h(x̃)‖₂), of a
    sequential design `images` (n of each cell; means over cells and differences are of the images
    that all views have), and for a second classifier `<label>/difference` (its error minus the
    first one's), with `_low`, `_high`, `_p` and `_significant`; `frequency_y`, `frequency_x` are
    the axes. By ring |f| = `radius` [R], each cell counting once: `radial_error`, with `_low`
    and `_high`.
    """
    frequencies = self.frequencies(image_shape)
    findings = Findings(
      arrays={'frequency_y': frequencies.axis_y, 'frequency_x': frequencies.axis_x}
    )
    for evaluation, prefix in zip(evaluations, study.prefixes(evaluations), strict=True):
      self._error_maps(findings, evaluation, prefix, frequencies)
      self._layer_maps(findings, evaluation, prefix, frequencies)
    self._by_band(findings, evaluations, frequencies, image_shape)
    findings.estimates = self._estimates(evaluations, image_shape)
    self._by_radius(findings, evaluations)
    if len(evaluations) > 1:
      rows = [self._compare(findings, *pair, frequencies) for pair in study.pairs(evaluations)]
      findings.tables['comparison'] = Table(COMPARISON, rows)
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    further = errors_at(self.top_k) if self.top_k > 1 else ()
    return (*errors_at(1), LAYER_CHANGE, *further)

  def _view_facets(self, image_shape: tuple[int, int, int]) -> tuple[pd.DataFrame, np.ndarray]:
    """Returns what each view is by, and how many cells of the window it fills, [V]."""
    f = self.frequencies(image_shape)
    distance = np.hypot(f.fy, f.fx)
    nyquist = min(image_shape[:2]) / 2
    band = np.select([distance < nyquist / 4, distance >= nyquist / 2], ['low', 'high'], 'mid')
    views = pd.DataFrame(
      {'frequency_y': f.fy, 'frequency_x': f.fx, 'band': band, 'radius': np.floor(distance + 0.5)}
    )
    clean = pd.DataFrame([dict.fromkeys(views)])
    cells = np.bincount(f.cell.ravel(), minlength=len(f))
    return pd.concat([clean, views.astype(object)], ignore_index=True), np.append(1, cells)

  def _estimates(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> list[pd.DataFrame]:
    """Returns the rows of the table of results: a frequency and its mirror are one row."""
    views, cells = self._view_facets(image_shape)
    perturbed = np.arange(len(views)) != CLEAN
    frequency = ('frequency_y', 'frequency_x')
    f, parts = self.frequencies(image_shape), []
    notes = self._band_notes(band_cells(f.axis_y, f.axis_x, image_shape[:2]))
    for k in evaluations[0].top_k(self.top_k):
      error, of_clean = errors_at(k)
      wrong = recorded.outcomes(
        evaluations, functools.partial(recorded.wrong, k=k), views, weight=cells
      )
      given: dict[str, Any] = {'confidence': self.confidence, 'test': k == 1, 'decides': k == 1}
      parts.append(means(of_clean, wrong, where=~perturbed, **given))
      parts.append(means(error, wrong, frequency, **given))
      if k == 1:
        for by in ((), ('band',), ('radius',)):
          parts.append(means(error, wrong, by, confidence=self.confidence, where=perturbed))
          if by != ('radius',):
            names = parts[-1]['band'] if by else ['all'] * len(parts[-1])
            parts[-1]['note'] = [notes[name] for name in names]
    for evaluation in evaluations:
      layers = evaluation.records.read(0, 0).arrays
      for name in (name for name in layers if name.startswith('layer_change/')):
        changed = recorded.outcomes([evaluation], operator.itemgetter(name), views)
        facets = {'layer': name.removeprefix('layer_change/')}
        parts.append(
          means(LAYER_CHANGE, changed, frequency, confidence=self.confidence, facets=facets)
        )
    return parts

  def _error_maps(
    self, findings: Findings, evaluation: Evaluation, prefix: str, frequencies: Frequencies
  ) -> None:
    for k in evaluation.top_k(self.top_k):
      name = 'error' if k == 1 else f'top{k}_error'
      wrong = functools.partial(_wrong, k=k)
      shares = view_shares(evaluation.counted, wrong, self.confidence, decides=k == 1)
      maps = {key: values[CLEAN + 1 :] for key, values in shares.arrays(name).items()}
      findings.arrays.update({prefix + key: value[frequencies.cell] for key, value in maps.items()})
      findings.numbers[f'{prefix}clean_{name}'] = shares.number(CLEAN)
    if evaluation.rounds:
      findings.arrays[f'{prefix}images'] = evaluation.shown[CLEAN + 1 :][frequencies.cell]

  def _layer_maps(
    self, findings: Findings, evaluation: Evaluation, prefix: str, frequencies: Frequencies
  ) -> None:
    n = evaluation.shown
    names = [k for k in evaluation.records.read(0, 0).arrays if k.startswith('layer_change/')]
    for name in names:
      total, squares = (
        evaluation.counted.sum_over_rows(functools.partial(_power, name=name, exponent=e))
        for e in (1, 2)
      )
      variance = np.maximum(squares - total**2 / n, 0) / np.maximum(n - 1, 1)
      low, high = student_interval(total / n, np.sqrt(variance), n, self.confidence)
      maps = {name: total / n, f'{name}_low': np.maximum(low, 0), f'{name}_high': high}
      findings.arrays.update(
        {prefix + key: value[CLEAN + 1 :][frequencies.cell] for key, value in maps.items()}
      )

  def _by_radius(self, findings: Findings, evaluations: Sequence[Evaluation]) -> None:
    """Adds errors over rings of |f|, as the table of results has them."""
    table = select(assemble(findings.estimates), 'error', radius=...).sort_values('radius')
    for evaluation, prefix in zip(evaluations, study.prefixes(evaluations), strict=True):
      own = table[table.classifier == evaluation.label]
      findings.arrays['radius'] = own.radius.to_numpy(int)
      for field, end in (('value', ''), ('low', '_low'), ('high', '_high')):
        findings.arrays[f'{prefix}radial_error{end}'] = own[field].to_numpy()

  def _by_band(
    self,
    findings: Findings,
    evaluations: Sequence[Evaluation],
    frequencies: Frequencies,
    image_shape: tuple[int, int, int],
  ) -> None:
    """Adds errors over bands: numbers and tables."""
    bands_and_all = {
      'all': np.ones(frequencies.cell.shape, bool),
      **bands(frequencies.axis_y, frequencies.axis_x, image_shape[:2]),
    }
    masks = {name: mask for name, mask in bands_and_all.items() if mask.any()}
    cells = cell_counts(frequencies, list(masks.values()))
    trials = [independent_trials(column[column > 0]) for column in cells.T]
    in_bands = band_cells(frequencies.axis_y, frequencies.axis_x, image_shape[:2])
    notes = self._band_notes(in_bands)
    findings.tables['bands'] = Table(
      ('frequencies', 'cells shown', 'cells of the image', 'share'),
      [[name, shown, whole, shown / whole] for name, (shown, whole) in in_bands.items()],
    )
    for evaluation, prefix in zip(evaluations, study.prefixes(evaluations), strict=True):
      share = image_shares(evaluation, cells)
      means = [
        mean_share(column, size, self.confidence)
        for column, size in zip(share.T, trials, strict=True)
      ]
      for name, mean in zip(masks, means, strict=True):
        findings.numbers[f'{prefix}error_{name}_frequencies'] = dataclasses.replace(
          mean, note=notes[name]
        )
    rows = []
    for evaluation in evaluations[1:]:
      only_first, only_second = discordant_shares(evaluations[0], evaluation, cells)
      for index, name in enumerate(masks):
        mean = mean_difference(
          only_first[:, index], only_second[:, index], trials[index], self.confidence
        )
        mean = dataclasses.replace(mean, note=notes[name])
        findings.numbers[f'{evaluation.label}/difference_{name}_frequencies'] = mean
        rows.append(
          [
            name,
            f'{evaluation.label} - {evaluations[0].label}',
            mean.value,
            mean.low,
            mean.high,
            verdict(mean),
          ]
        )
    if rows:
      findings.tables['difference by frequency'] = Table(
        ('frequencies', 'error of', 'difference', 'low', 'high', 'finding'), rows
      )

  def _band_notes(self, cells: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Returns what a reader must know of bands that a window cuts, from cells shown and in all."""
    return {
      name: ''
      if shown == whole
      else f'the window of {self.window} × {self.window} shows {shown} of {whole} cells'
      for name, (shown, whole) in cells.items()
    }

  def _compare(
    self, findings: Findings, first: Evaluation, second: Evaluation, frequencies: Frequencies
  ) -> list[Any]:
    """Adds the difference maps of a pair and returns its row of the table `comparison`."""
    n = first.records.layout.num_rows
    b, c = discordant_counts(first, second)
    difference, low, high = paired_difference(b, c, n, self.confidence)
    p_value = mcnemar(b, c)
    tests = benjamini_hochberg(p_value[CLEAN + 1 :], self.false_discovery_rate)
    maps = {
      'difference': difference,
      'difference_low': low,
      'difference_high': high,
      'difference_p': p_value,
    }
    maps = {name: value[CLEAN + 1 :] for name, value in maps.items()}
    maps['difference_significant'] = tests.significant
    findings.arrays.update(
      {f'{second.label}/{name}': value[frequencies.cell] for name, value in maps.items()}
    )
    better, worse = (
      int((tests.significant & (sign * maps['difference'] > 0)).sum()) for sign in (-1, 1)
    )
    return [
      first.label,
      second.label,
      float(difference[CLEAN]),
      float(low[CLEAN]),
      float(high[CLEAN]),
      float(p_value[CLEAN]),
      len(frequencies),
      better,
      worse,
    ]

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return heatmap_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.sentences(results)


def _wrong(shard: Shard, k: int) -> np.ndarray:
  return shard['rank'] >= k


def _power(shard: Shard, name: str, exponent: int) -> np.ndarray:
  return shard[name].astype(np.float64) ** exponent


def sample_frequencies(frequencies: Frequencies) -> list[tuple[int, int]]:
  """Returns the cells (row, column) of up to five frequencies from low to high, as in figure 3."""
  rows, columns = frequencies.cell.shape
  y, x = rows // 2, columns // 2
  reach = min(y, x)
  steps = sorted({max(1, round(reach * share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)})
  return [(y - step, x - step) for step in steps if step <= reach]


def verdict(difference: Number) -> str:
  """Says what an interval of an error's difference shows, relative to the first classifier."""
  if difference.high < 0:
    return 'better'
  return 'worse' if difference.low > 0 else 'no significant difference'
