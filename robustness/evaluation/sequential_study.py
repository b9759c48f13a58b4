"""Studies whose views are shown to more images only as long as their interval is too wide."""

from __future__ import annotations

import dataclasses
from typing import Any

from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.settings import require
from robustness.estimates.fixed_width import fewest_trials, plan
from robustness.evaluation import study
from robustness.evaluation.rounds import Design

WHERE = 'config.study.half_width'


@dataclasses.dataclass(frozen=True)
class SequentialStudy(study.Study):
  """A study that estimates a share of wrong, or right, predictions in every view.

  Attributes:
    half_width: shows rows in rounds, in a random order of the config's seed, and each view only
      until the interval of its share is at most ± half_width wide (docs/sequential.md); what is
      taken over several views rests on the rows that all have. 0 shows every view to all rows.
    confidence: of the intervals, a field of the subclass.
  """

  half_width: float = 0.0

  def __post_init__(self) -> None:
    valid = self.half_width == 0 or 0 < self.half_width < 0.5
    require(valid, WHERE, self.half_width, 'in (0, .5), or 0 to show every view to all images')

  @property
  def sequential_design(self) -> Design | None:
    """See `robustness.evaluation.study.Study`."""
    confidence: float = self.confidence  # type: ignore[attr-defined]
    return plan(self.half_width, confidence) if self.half_width else None

  @property
  def recording(self) -> dict[str, Any]:
    """See `robustness.evaluation.study.Study`; without rounds as records were before there were."""
    return without_fixed(super().recording)

  def check_rows(self, rows: Rows) -> None:
    """Refuses fewer rows than a view may need.

    Raises:
      InputError: how many are needed.
    """
    super().check_rows(rows)
    if not self.half_width:
      return
    confidence: float = self.confidence  # type: ignore[attr-defined]
    least = fewest_trials(self.half_width, confidence)
    if least > rows.num_examples:  # a design that takes more is not planned first, for hours
      self._refuse(f'at least {least:,}' if least < 1e9 else f'{least:.1e}', rows)
    design = plan(self.half_width, confidence)
    if design.most_trials > rows.num_examples:
      self._refuse(f'up to {design.most_trials:,}', rows)

  def _refuse(self, needed: str, rows: Rows) -> None:
    raise InputError(
      f'{WHERE} is {self.half_width:g}, for which a view that is wrong on half of its images '
      f'needs {needed} of them; there are {rows.num_examples:,}. Give more images '
      '(config.data.num_images; 0 takes all), a larger half width, or 0 to show every view to all '
      'images.'
    )


def without_fixed(recording: dict[str, Any]) -> dict[str, Any]:
  """Returns a recording without a half width of 0, which earlier versions did not have."""
  return {k: v for k, v in recording.items() if k != 'half_width' or v}
