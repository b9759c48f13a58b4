"""What studies of bands of frequencies share: bandwidths as views, and shares by bandwidth."""

import abc
import dataclasses
from collections.abc import Iterable

import jax
import numpy as np
import pandas as pd

from robustness.core.registry import setting
from robustness.core.rows import Rows
from robustness.evaluation import one_view
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Figures, Findings, ImageShape, Study
from robustness.evaluation.views import Arrays, Views, ViewTable
from robustness.fourier.filters import KINDS, bandwidths, half
from robustness.present import charts, images
from robustness.results import Results

MOST = 16
"""Bandwidths of a kind, where none are given."""


@dataclasses.dataclass(frozen=True)
class BandStudy(Study):
  """A study whose views are low- and high-centred squares of frequencies.

  A subclass shows a row in a view of `kept`, bool [H, W // 2 + 1], the frequencies that are kept,
  and `bandwidth` B; the clean view keeps all and has B = 0. Its first two quantities are the error,
  or accuracy, in bands and in the clean view.

  Attributes:
    half_width: shows views in rounds, see `Study`.
    kinds: 'low_pass' keeps the B × B square of frequencies centred on zero, 'high_pass' the one
      centred on the Nyquist frequency (Yin et al. 2019, section 2).
    bandwidths: B on the shorter side, for each kind; () takes up to 16, evenly spread.
  """

  half_width: float = 0.0
  kinds: tuple[str, ...] = setting(tuple(KINDS), 'not empty', bool)
  bandwidths: tuple[int, ...] = setting((), 'at least 1', lambda bs: all(b >= 1 for b in bs))
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    super().__post_init__()
    self.choose('kinds', KINDS)
    self.require_no_repeats('kinds', 'bandwidths')

  def bands(self, image_shape: ImageShape) -> list[tuple[str, int]]:
    """Returns kind and bandwidth of every band, kind by kind, ascending."""
    side = min(image_shape[:2])
    return [
      (kind, b)
      for kind in self.kinds
      for b in sorted(self.bandwidths) or bandwidths(kind, side, MOST)
    ]

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view (id 0), then each kind at each bandwidth.

    The id is 2 B, plus 1 for a high pass: draws do not depend on which others a run holds.

    Raises:
      InputError: a bandwidth that is no symmetric square of frequencies for this size.
    """
    height, width, _ = image_shape
    table = self.bands(image_shape)
    kept = [half(KINDS[kind](height, width, b)) for kind, b in table]
    return Views(
      self._show,
      np.array([0, *(2 * b + (kind == 'high_pass') for kind, b in table)], np.int32),
      {
        'bandwidth': np.array([0, *(b for _, b in table)], np.int32),
        'kept': np.stack([np.ones((height, width // 2 + 1), bool), *kept]),
      },
    )

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns kind and bandwidth of each view, none of the clean one."""
    table = [(None, None), *self.bands(image_shape)]
    return pd.DataFrame(table, columns=['band', 'bandwidth'])

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Names views 'clean' and '<kind>_<bandwidth>'."""
    return ViewTable.of(['clean', *(f'{kind}_{b}' for kind, b in self.bands(image_shape))])

  @abc.abstractmethod
  def _show(self, key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
    """Shows one row in one view."""

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns the first image in up to five bands of each kind, and their bandwidths."""
    row = one_view.read_row(rows, 0)
    views, arrays = self.facets(row['image'].shape), {}
    for kind in self.kinds:
      own = np.flatnonzero(views.band == kind)
      chosen = own[np.unique(np.linspace(0, len(own) - 1, 5).round().astype(int))]
      shown = [one_view.show(self, row, view, key) for view in chosen]
      arrays[f'sample_images/{kind}'] = np.stack(shown)
      arrays[f'sample_bandwidths/{kind}'] = views.bandwidth[chosen].to_numpy(int)
    return arrays

  def estimates(self, recorded: Recorded) -> Iterable[pd.DataFrame]:
    """Yields the share of wrong, or right, rows in the clean view and by kind and bandwidth."""
    in_bands, when_clean = self.quantities[:2]
    clean = recorded.views.band.isna().to_numpy()
    yield self.means(when_clean, recorded, where=clean, test=True)
    yield self.means(in_bands, recorded, ('band', 'bandwidth'), test=True)

  def figures(self, results: Results) -> Figures:
    """Returns the default pictures and the samples, high-passed ones also normalised."""
    rows = {}
    for kind in self.kinds:
      titles = [f'B = {b}' for b in results.arrays[f'sample_bandwidths/{kind}']]
      samples = dict(zip(titles, results.arrays[f'sample_images/{kind}'], strict=True))
      rows[kind] = samples
      if kind == 'high_pass':
        rows[f'{kind}, normalised'] = {b: images.normalised(own) for b, own in samples.items()}
    caption = (
      'One image by bandwidth; "normalised" shows (x − mean)/standard deviation over all its '
      'pixels. Values outside [0, 1] are cut for display.'
    )
    return {**charts.draw(results), 'sample_images': (images.grid(rows), caption)}
