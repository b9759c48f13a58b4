"""Accuracy on low- and high-passed images by bandwidth (Yin et al. 2019, section 3, figure 1).

Every classifier is shown filtered images; one that was trained with such a filter as its front end
is also drawn at its own bandwidth, as the paper's networks are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from robustness.bands.band_study import BandStudy
from robustness.core.rows import Rows
from robustness.figures import bands as band_figures
from robustness.fourier.filters import filtered_by_half
from robustness.results import Results
from robustness.wording import bands as wording


@dataclasses.dataclass(frozen=True)
class Study(BandStudy):
  """Settings of the study `filtered_accuracy`, those of `BandStudy`. Nothing is clipped."""

  name: ClassVar[str] = 'filtered_accuracy'
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier',)
  quantity: ClassVar[str] = 'accuracy'

  def _show(
    self, key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
  ) -> jax.Array:
    """Returns the filtered image; in the clean view the image."""
    del key
    image = row['image']
    return jnp.where(view['bandwidth'] > 0, filtered_by_half(image, view['kept']), image)

  @property
  def shown_as(self) -> dict[str, str]:
    """See `robustness.evaluation.study.Study`."""
    return {'filtered to': f'{" and ".join(self.kinds)} squares of frequencies, not clipped'}

  def sample_arrays(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns the first image in up to five bands of each kind, see `BandStudy.samples`."""
    return self.samples(rows, key)

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    figures = band_figures.draw(results, 'accuracy', 'Accuracy on filtered images by bandwidth')
    return {**figures, **band_figures.draw_trained(results)}

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.filter_sentences(results)
