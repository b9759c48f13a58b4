"""Base class of studies of frequency bands: each view has some frequencies of the images only."""

import abc
import dataclasses
from collections.abc import Iterable

import jax
import numpy as np
import pandas as pd

from robustness.core.registry import are_distinct, are_distinct_and_some, setting
from robustness.core.rows import Rows
from robustness.evaluation import one_view
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Figures, Findings, ImageShape, Study
from robustness.evaluation.views import Arrays, Views, ViewTable
from robustness.fourier.filters import KINDS, bandwidths, half_spectrum
from robustness.present import charts, images
from robustness.results import Results

MAX_BANDWIDTHS = 16
"""Largest number of bandwidths per kind if the setting `bandwidths` is empty."""


@dataclasses.dataclass(frozen=True)
class BandStudy(Study):
  """Base class of studies that filter images, or noise, by a band of frequencies in each view.

  A band is 'low_pass' or 'high_pass' with a bandwidth B. A subclass implements `_show` and declares
  its quantities. The first must be the error (or accuracy) in a band, and the second the error (or
  accuracy) on clean images.

  Attributes:
    half_width: half width of the error's interval at which a view needs no more images. Images are
      then shown in rounds, in each view until its interval is narrow enough (docs/sequential.md). 0
      shows all images in every view.
    kinds: 'low_pass' for the B × B square of frequencies centred on zero, and 'high_pass' for the
      square centred on the Nyquist frequency (Yin et al. 2019, section 2).
    bandwidths: B on the shorter side, for each kind; () takes up to 16, evenly spaced.
    false_discovery_rate: level of the paired tests between two classifiers, in (0, 1).
  """

  half_width: float = 0.0
  kinds: tuple[str, ...] = setting(tuple(KINDS), 'not empty, distinct', are_distinct_and_some)
  bandwidths: tuple[int, ...] = setting(
    (), 'distinct, at least 1', lambda x: min(x, default=1) >= 1 and are_distinct(x)
  )
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    """Raises InputError if a setting is not valid."""
    super().__post_init__()
    self.choose('kinds', KINDS)

  def bands(self, image_shape: ImageShape) -> list[tuple[str, int]]:
    """Returns (kind, bandwidth) of every band, such as ('low_pass', 15).

    Bands are ordered by kind, and by ascending bandwidth within a kind. If the setting `bandwidths`
    is empty, each kind has up to 16 bandwidths, evenly spaced.

    Raises:
      InputError: images have one pixel a side, where no high pass exists.
    """
    side, listed = min(image_shape[:2]), sorted(self.bandwidths)
    has_bands = side > 1 or 'high_pass' not in self.kinds
    self.require(has_bands, 'kinds', "('low_pass',) for images of one pixel a side")
    by_kind = [(kind, listed or bandwidths(kind, side, MAX_BANDWIDTHS)) for kind in self.kinds]
    return [(kind, bandwidth) for kind, values in by_kind for bandwidth in values]

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view and a view for each band.

    A view's parameters are `bandwidth`, int32, and `kept`, bool [H, W // 2 + 1], the mask of its
    frequencies in the order of `rfft2`. The clean view has all frequencies, bandwidth 0 and id 0.
    The id of a band is twice the bandwidth, plus 1 for a high pass. It decides the random numbers,
    which therefore do not depend on the other views of a run.

    Raises:
      InputError: a bandwidth is no symmetric square of frequencies for images of this size.
    """
    height, width, _ = image_shape
    bands = self.bands(image_shape)
    all_frequencies = np.ones((height, width // 2 + 1), bool)
    masks = [half_spectrum(KINDS[kind](height, width, bandwidth)) for kind, bandwidth in bands]
    ids = [2 * bandwidth + int(kind == 'high_pass') for kind, bandwidth in bands]
    return Views(
      self._show,
      ids=np.array([0, *ids], np.int32),
      parameters={
        'bandwidth': np.array([0, *(bandwidth for _, bandwidth in bands)], np.int32),
        'kept': np.stack([all_frequencies, *masks]),
      },
    )

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns a table with a row for each view and the columns `band` and `bandwidth`.

    `band` is 'low_pass' or 'high_pass'. The first row, the clean view, has None in both columns.
    """
    return pd.DataFrame([(None, None), *self.bands(image_shape)], columns=['band', 'bandwidth'])

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, 'clean' and, for example, 'low_pass_15'."""
    return ViewTable.of(['clean', *(f'{kind}_{b}' for kind, b in self.bands(image_shape))])

  @abc.abstractmethod
  def _show(self, key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
    """Returns an image as a view shows it, float32 [H, W, C].

    Args:
      key: random key of this image in this view.
      row: columns of the image; `image` is float32 [H, W, C] in [0, 1].
      view: `kept` and `bandwidth` of the view, see `views`.
    """

  def sample_arrays(self, rows: Rows, key: jax.Array, findings: Findings) -> dict[str, np.ndarray]:
    """Returns example pictures: the first image in up to five bands of each kind.

    Returns:
      {'sample_images/KIND': [bands, H, W, C], 'sample_bandwidths/KIND': [bands]} for each KIND,
      such as 'low_pass'.
    """
    row = one_view.read_row(rows, 0)
    views, arrays = self.facets(row['image'].shape), {}
    for kind in self.kinds:
      bands = np.flatnonzero(views.band == kind)  # indices of the views with bands of this kind
      # Five evenly spaced views, or all if there are fewer.
      sampled = bands[np.unique(np.linspace(0, len(bands) - 1, 5).round().astype(int))]
      samples = [one_view.show(self, row, view, key) for view in sampled]
      arrays[f'sample_images/{kind}'] = np.stack(samples)
      arrays[f'sample_bandwidths/{kind}'] = views.bandwidth[sampled].to_numpy(int)
    return arrays

  def estimates(self, recorded: Recorded) -> Iterable[pd.DataFrame]:
    """Yields the error (or accuracy) on clean images, and the error (or accuracy) in each band."""
    in_bands, when_clean = self.quantities[:2]  # as the class requires
    is_clean = recorded.views.band.isna().to_numpy()
    yield self.means(when_clean, recorded, where=is_clean, test=True)
    yield self.means(in_bands, recorded, ('band', 'bandwidth'), test=True)

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and example pictures by kind of band and bandwidth.

    A band is a low or high pass of width B. Pictures after a high pass, which have little contrast,
    are shown a second time, normalised.

    Args:
      results: the results, with arrays of the pictures of each kind, [bandwidths, H, W, C].
    """
    rows = {}
    for kind in self.kinds:
      titles = [f'B = {b}' for b in results.arrays[f'sample_bandwidths/{kind}']]
      samples = dict(zip(titles, results.arrays[f'sample_images/{kind}'], strict=True))
      rows[kind] = samples
      if kind == 'high_pass':
        rows[f'{kind}, normalised'] = {b: images.normalised(x) for b, x in samples.items()}
    caption = (
      'One image by bandwidth; "normalised" shows (x − mean)/standard deviation over all its '
      'pixels. Values outside [0, 1] are cut for display.'
    )
    return {**charts.draw(results), 'sample_images': (images.grid(rows), caption)}
