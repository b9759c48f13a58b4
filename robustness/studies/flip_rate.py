"""Flip rate: how often the prediction changes along a sequence of increasing corruption.

Each image is shown as a sequence of frames for every corruption, with evenly increasing severity.
Random numbers are the same in all frames, so that consecutive frames differ little. Two details
follow: counts of shot noise are drawn by inversion, and snow is enlarged by another factor in each
frame. ImageNet-P has other sequences, so that rates are comparable only with each other.

Reference:
  Hendrycks & Dietterich (2019), Benchmarking Neural Network Robustness to Common Corruptions and
  Perturbations, section 4.2 (flip probability and flip rate).
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator

import jax
import numpy as np
import pandas as pd

from robustness.core.registry import setting
from robustness.core.user_code import part_name
from robustness.corruptions import catalog
from robustness.corruptions.names import FINEST, KNOWN, SETS, STREAM, spelt_out, view_id
from robustness.estimates.of_means import MeanRatio
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import RATIO, Quantity
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import ImageShape, Study
from robustness.evaluation.views import DRAWS, Arrays, Views, ViewTable

_flips = functools.partial(Quantity, better='lower', statistic=np.not_equal)
"""Returns a quantity that is a share of changed predictions, given its name and words."""
FLIP_RATE = _flips('flip_rate', 'share of frames that change the prediction', headline=True)
FLIP_RATIO = _flips(
  'flip_ratio',
  'flip rate relative to the first classifier, mean over corruptions',
  kind=RATIO,
  function=MeanRatio('corruption'),
)
SMOOTH_OPTIONS = {'shot_noise': {'draws': 'inverse'}}
"""Options with which a corruption changes little between similar severities."""


@dataclasses.dataclass(frozen=True)
class FlipRate(Study):
  """A study of how often predictions flip as a corruption grows.

  Each image and corruption makes a sequence of frames with increasing severity. Predictions of
  consecutive frames are compared.

  Attributes:
    corruptions: names of corruptions such as 'fog', of sets such as 'official', or `FILE.py:NAME`.
    frames: number of frames of a sequence.
    lowest: severity of the first frame.
    highest: severity of the last frame.
    constants: image size (32, 64, 224 or 299 pixels) with the published constants to use. 0 takes
      the nearest to the size of the data.
    confidence: confidence level of intervals, in (0, 1).
  """

  title = 'How often predictions flip as a corruption grows'
  needs_labels = False
  papers = ('hendrycks2019benchmarking',)
  quantities = (FLIP_RATE, FLIP_RATIO)
  stream = STREAM

  corruptions: tuple[str, ...] = setting(('official',), 'not empty', bool)
  frames: int = 9
  lowest: float = setting(1.0, 'in [1, 5]', lambda x: 1 <= x <= 5)
  highest: float = setting(5.0, 'in [1, 5]', lambda x: 1 <= x <= 5)
  constants: int = 0

  def __post_init__(self) -> None:
    """Raises InputError for a setting that is not valid."""
    super().__post_init__()
    catalog.check_names(self.key('corruptions'), self.corruptions, (*SETS, *KNOWN))
    self.require(self.lowest < self.highest, 'lowest', f'below {self.highest}')
    # Severities are multiples of 1/FINEST, which limits the number of frames. 1e-6 is for rounding
    # of the difference.
    largest = int((self.highest - self.lowest) * FINEST + 1e-6) + 1
    self.require(2 <= self.frames <= largest, 'frames', f'in 2..{largest}')

  @property
  def references(self) -> tuple[str, ...]:
    """The corruptions without repetition; a set such as 'official' is replaced by its members."""
    return spelt_out(self.corruptions)

  @property
  def names(self) -> tuple[str, ...]:
    """Names of the corruptions; for `FILE.py:NAME` only NAME."""
    return tuple(map(part_name, self.references))

  @property
  def severities(self) -> np.ndarray:
    """Severities of the frames, evenly spaced and ascending, rounded to 1/1000."""
    return np.round(np.linspace(self.lowest, self.highest, self.frames) * FINEST) / FINEST

  def views(self, image_shape: ImageShape) -> Views:
    """Returns one view per frame, corruption by corruption.

    A view is one way to perturb each image. All frames of a corruption use the same random numbers.
    """
    # Severities as integers: 1..5 if whole, and 6, 7, … for the fractional ones, which `between`
    # lists.
    numbers, between = catalog.number_severities(self.severities)
    side = self.constants or None  # None takes the constants of the nearest size
    # Options of a corruption that is not shown would be an error.
    options = {name: SMOOTH_OPTIONS[name] for name in SMOOTH_OPTIONS if name in self.names}
    # Only checks: raises InputError for invalid settings and for images that are too small.
    catalog.checked_table(image_shape[:2], self.references, None, side, options, between)
    corrupt = functools.partial(
      catalog.apply, names=self.references, side=side, options=options, between=between
    )

    def show(key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
      """Returns a frame: the image under a corruption at one of the rising severities, [H, W, C].

      Args:
        key: random key, the same for all severities of a corruption.
        row: the image, `row['image']`.
        view: index of the `corruption`, and number of the `severity`.
      """
      catalog.refuse_stored(row)
      return corrupt(key, row['image'], view['corruption'], view['severity'])

    ids_of_first = [view_id(name, min(self.severities)) for name in self.names]
    return Views(
      show,
      ids=np.array([view_id(name, s) for name in self.names for s in self.severities], np.int32),
      parameters={
        'corruption': np.repeat(np.arange(len(self.names), dtype=np.int32), self.frames),
        'severity': np.tile(np.asarray(numbers, np.int32), len(self.names)),
        # Random keys depend on this id in place of the view's own one.
        DRAWS: np.repeat(np.array(ids_of_first, np.int32), self.frames),
      },
      sequential=True,
    )

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views (frames), for example 'fog 1.5'."""
    return ViewTable.of([f'{name} {s:.4g}' for name in self.names for s in self.severities])

  @property
  def shown_as(self) -> dict[str, str]:
    """{'sequences': their frames, severities and the size of the published constants in use}."""
    side = f'{self.constants} pixels' if self.constants else 'the nearest size'
    levels = f'severity {self.lowest:g} to {self.highest:g}'
    return {'sequences': f'{self.frames} frames of {levels}, constants of {side}'}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns deviations from the published experiment, a sentence for each.

    The list is never empty, since the sequences of the published experiment (ImageNet-P) have other
    frames.
    """
    return [*super().differences(records, image_shape), 'sequences are not those of ImageNet-P']

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields tables of results: how often predictions change between frames, and the flip rate mFR.

    The study shows each image as C sequences of F frames, one for each corruption, with severity
    that grows from frame to frame. A pair is a frame and the next one; its outcome is whether the
    predictions on the two differ. mFR is the share of changes divided by the first classifier's,
    averaged over corruptions.

    Args:
      recorded: the predictions of each classifier for N images in C · F views (frames).

    Yields:
      The share of changes over all pairs, by corruption, and by corruption and pair; then mFR.
    """
    predictions = {}  # {classifier: predictions on the later and on the earlier frame of each pair}
    for evaluation in recorded.evaluations:
      predicted = evaluation.records.table('prediction').reshape(-1, len(self.names), self.frames)
      predictions[evaluation.label] = predicted[..., 1:], predicted[..., :-1]  # [N, C, F − 1] each
    # Pair number f of a corruption has the frames f and f + 1, counted from 1.
    pairs = list(itertools.product(self.names, range(1, self.frames)))
    pair_table = pd.DataFrame(pairs, columns=['corruption', 'frame'])
    outcomes = Outcomes.from_fields(FLIP_RATE, predictions, pair_table, clusters=recorded.clusters)
    yield self.means(FLIP_RATE, outcomes)
    yield self.means(FLIP_RATE, outcomes, ('corruption',))
    # without the differences between classifiers
    yield self.means(FLIP_RATE, outcomes, ('corruption', 'frame'), paired=False)
    yield self.means(FLIP_RATIO, outcomes)
