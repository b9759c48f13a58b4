"""Single-query Fourier attack: the worst frequencies of a heat map, added with a large norm.

Adding a Fourier basis image needs no gradient and no query but the one that counts (Yin et al.
2019, section 4.4, figure 7 c and d). Frequencies are never chosen on the images that they are
measured on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.settings import choice, require, require_fractions
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import CLEAN_ERROR, ERROR, Quantity
from robustness.evaluation import study
from robustness.evaluation.records import Records
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.views import Views
from robustness.figures import fourier_attack as attack_figures
from robustness.fourier.basis import PHASES, Frequencies, basis_image, distinct_frequencies, perturb
from robustness.fourier.finished_map import BeginsWithMap
from robustness.metrics.accuracy import proportion
from robustness.metrics.view_shares import compare_with_first, share_arrays
from robustness.results import Results
from robustness.wording import fourier as wording

CLEAN = 0
"""Index of the clean view; frequencies follow it."""

SHOWN = 4
"""Perturbed pictures of the figure."""


@dataclasses.dataclass(frozen=True)
class Study(BeginsWithMap, study.Study):
  """Settings of the study `fourier_attack`.

  Attributes:
    heat_map: workdir of a finished heat map that names the frequencies, for the classifier of the
      same label or for all if it has one; '' shows every frequency at `norm` to all images, chooses
      on every second one and measures on the others.
    norm: v > 0, L2 norm of one channel's perturbation (paper: 24 for ImageNet).
    queries: n, how many of the worst frequencies are tried on an image.
    phase: 'reference' (the authors' release) or 'cosine'.
    clip: whether perturbed images are clipped to [0, 1] (paper: no).
    window: side of the centred square of frequencies to choose from; 0 for all. A finished heat map
      has its own.
    confidence: of all intervals.
    false_discovery_rate: of the paired tests of two classifiers.
  """

  name: ClassVar[str] = 'fourier_attack'
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier',)

  heat_map: str = ''
  norm: float = 24.0
  queries: int = 10
  phase: str = 'reference'
  clip: bool = False
  window: int = 0
  confidence: float = 0.95
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    require(0 < self.norm < float('inf'), 'config.study.norm', self.norm, 'a finite number above 0')
    require(self.queries >= 1, 'config.study.queries', self.queries, 'at least 1')
    choice('config.study.phase', self.phase, PHASES)
    require_fractions(self, 'config.study', 'confidence', 'false_discovery_rate')

  def _frequencies(self, image_shape: tuple[int, int, int]) -> Frequencies:
    """Returns the distinct frequencies to choose from."""
    window = len(self._map.axes[0]) if self._map else self.window
    height, width = image_shape[:2]
    whole = self._map is not None and window == height and len(self._map.axes[1]) == width
    return distinct_frequencies(height, width, 0 if whole else window)

  def _candidates(self, image_shape: tuple[int, int, int]) -> np.ndarray:
    """Returns the distinct frequencies that are shown, ascending: all, or what the map names."""
    frequencies = self._frequencies(image_shape)
    if self._map is None:
      return np.arange(len(frequencies))
    self._map.check_shape(image_shape)
    worst = [self._worst_of_map(label, frequencies) for label in self._map.results.prefixes]
    return np.unique(np.concatenate(worst))

  def _worst_of_map(self, label: str, frequencies: Frequencies) -> np.ndarray:
    """Returns the distinct frequencies with the largest errors of the finished map, worst first."""
    assert self._map is not None
    error = np.zeros(len(frequencies))
    error[frequencies.cell] = self._map.error(label)
    return _worst(error, self.queries)

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns the clean view (norm 0, id 0), then a view for each frequency, ids as heat maps."""
    height, width, _ = image_shape
    frequencies, shown = self._frequencies(image_shape), self._candidates(image_shape)
    require(
      self.queries <= len(frequencies),
      'config.study.queries',
      self.queries,
      f'at most {len(frequencies)}, the distinct frequencies that there are',
    )
    fy, fx = frequencies.fy[shown], frequencies.fx[shown]
    return Views(
      self._show,
      np.append(0, 1 + fy % height * width + fx % width).astype(np.int32),
      {
        'fy': np.append(0, fy).astype(np.int32),
        'fx': np.append(0, fx).astype(np.int32),
        'norm': np.append(0, np.full(len(shown), self.norm)).astype(np.float32),
      },
    )

  def name_views(self, image_shape: tuple[int, int, int]) -> list[str]:
    """Returns 'clean', then the frequency of each view."""
    shown, frequencies = self._candidates(image_shape), self._frequencies(image_shape)
    fy, fx = frequencies.fy[shown].tolist(), frequencies.fx[shown].tolist()
    return ['clean', *(f'fy={y}, fx={x}' for y, x in zip(fy, fx, strict=True))]

  def group_views(self, image_shape: tuple[int, int, int]) -> dict[str, list[int]]:
    """Returns the clean view, and all frequencies that are shown."""
    count = len(self._candidates(image_shape))
    return {'clean': [CLEAN], 'all frequencies': list(range(CLEAN + 1, CLEAN + 1 + count))}

  def _show(
    self, key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
  ) -> jax.Array:
    return perturb(key, row['image'], view['fy'], view['fx'], view['norm'], self.phase, self.clip)

  def check_rows(self, rows: Rows) -> None:
    """Refuses rows all of which the finished heat map was measured on, or too few to be split."""
    if self._map is None:
      require(rows.num_examples >= 2, 'config.data.num_images', rows.num_examples, 'at least 2')
    elif self._map.shares_images(rows.description):
      own, other = rows.description, self._map.results.data
      keys = ('num_examples', 'subset_seed')
      if all(own.get(key) == other.get(key) for key in keys):
        raise InputError(
          f'config.study.heat_map {self.heat_map!r} was measured on the very images of this run, '
          'and frequencies must not be chosen on the images that they are measured on: set another '
          "config.data.split or config.seed with config.data.num_images, or heat_map=''."
        )

  def _measured(self, records: Records) -> np.ndarray:
    """Returns which rows are measured, bool [N]: those that did not choose the frequencies."""
    ids = records.column('example_id')
    if self._map is None:
      return np.arange(len(ids)) % 2 == 1
    if not self._map.shares_images(records.identity.get('data') or {}):
      return np.ones(len(ids), bool)
    unseen = ~np.isin(ids, self._map.example_ids())
    if not unseen.any():
      raise InputError(
        f'all {len(ids)} images of this run are among those of config.study.heat_map '
        f'{self.heat_map!r}, which chose the frequencies: take other images.'
      )
    return unseen

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns the error with one query and with the best of n, on images that chose nothing.

    Numbers: `clean_error`, `error_1_query` and `error_<n>_queries`, where an image is wrong if it
    is under any of the n worst frequencies. Arrays of n queries, worst frequency first:
    `error_by_queries` [n] with `_low` and `_high`, `chosen_frequencies` [n, 2] as (fy, fx), and
    `frequency_error` [n], each frequency's own; for a second classifier `<label>/difference` [n] of
    `error_by_queries`, and its like.
    """
    findings, tables = Findings(), {}
    frequencies, shown = self._frequencies(image_shape), self._candidates(image_shape)
    for evaluation, prefix in zip(evaluations, study.prefixes(evaluations), strict=True):
      wrong = evaluation.records.table('rank') > 0
      measured = self._measured(evaluation.records)
      if self._map is None:
        chosen = _worst(wrong[~measured, CLEAN + 1 :].mean(0), self.queries)
      else:
        chosen = np.searchsorted(shown, self._worst_of_map(evaluation.label, frequencies))
      single = wrong[measured][:, CLEAN + 1 + chosen]
      table = np.logical_or.accumulate(single, 1)
      tables[evaluation.label] = np.concatenate([wrong[measured, CLEAN, None], table], 1)
      self._numbers(findings, tables[evaluation.label], prefix)
      place = shown[chosen]
      findings.arrays.update(
        {
          f'{prefix}chosen_frequencies': np.stack(
            [frequencies.fy[place], frequencies.fx[place]], 1
          ),
          f'{prefix}frequency_error': single.mean(0),
        }
      )
    findings.estimates = self._estimates(tables)
    if len(evaluations) > 1:
      self._compare(findings, tables)
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    return (ERROR, CLEAN_ERROR)

  def _estimates(self, tables: Mapping[str, np.ndarray]) -> list[pd.DataFrame]:
    """Returns the rows of the table of results, from what is wrong clean and by query."""
    views = pd.DataFrame({'queries': [None, *range(1, self.queries + 1)]})
    wrong = Outcomes(tables, views)
    only = np.arange(len(views)) == CLEAN
    return [
      means(CLEAN_ERROR, wrong, confidence=self.confidence, where=only, test=True),
      means(ERROR, wrong, ('queries',), confidence=self.confidence, test=True),
    ]

  def _numbers(self, findings: Findings, table: np.ndarray, prefix: str) -> None:
    """Adds errors; the table is [images, 1 + n], clean and after each query."""
    for name, column in (
      ('clean_error', 0),
      ('error_1_query', 1),
      (f'error_{self.queries}_queries', self.queries),
    ):
      if name != 'error_1_queries':
        count = int(table[:, column].sum())
        findings.numbers[prefix + name] = proportion(count, len(table), self.confidence)
    arrays = share_arrays(table[:, 1:], 'error_by_queries', self.confidence)
    findings.arrays.update({prefix + name: values for name, values in arrays.items()})

  def _compare(self, findings: Findings, tables: Mapping[str, np.ndarray]) -> None:
    views = ['clean', *(f'{n} quer{"y" if n == 1 else "ies"}' for n in range(1, self.queries + 1))]
    differences, findings.tables['comparison'] = compare_with_first(
      'error', tables, views, self.confidence, self.false_discovery_rate
    )
    for label, arrays in differences.items():
      findings.arrays.update({f'{label}/{name}': value[1:] for name, value in arrays.items()})

  def finding_arrays(self, rows: Rows, findings: Findings) -> dict[str, np.ndarray]:
    """Returns `sample_images` [S, H, W, C]: the first image clean, then with the worst frequencies
    of the first classifier, with positive sign."""
    image = next(rows.batches(1, [0]))['image'][0]
    name = next(key for key in findings.arrays if key.endswith('chosen_frequencies'))
    height, width, _ = image.shape
    waves = [
      np.asarray(basis_image(fy, fx, height, width, self.phase))[..., None]
      for fy, fx in findings.arrays[name][:SHOWN]
    ]
    return {'sample_images': np.stack([image, *(image + self.norm * wave for wave in waves)])}

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return attack_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.attack_sentences(results)


def _worst(error: np.ndarray, count: int) -> np.ndarray:
  """Returns the indices of the largest errors, largest first, ties in order."""
  return np.argsort(-error, kind='stable')[:count]
