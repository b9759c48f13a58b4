"""What studies of corruptions show: their settings, the clean view and the corrupted ones.

All draw from one stream, so that one seed gives one set of corrupted images, and record beside what
a classifier answers how much energy each corruption changed, and how much of it is of high
frequency (Yin et al. 2019, section 4.2).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.corruptions import jpeg
from robustness.corruptions.catalog import apply, checked_table
from robustness.corruptions.names import SEVERITIES, STREAM, view_id, whole_sets
from robustness.corruptions.pixels import to_levels
from robustness.corruptions.released import Provenance, following
from robustness.corruptions.settings import AS_RELEASED, EXACT, CorruptionSettings
from robustness.corruptions.textures import load_photographs
from robustness.evaluation import one_view
from robustness.evaluation.study import Evaluation, ImageShape
from robustness.evaluation.views import Views, ViewTable
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from robustness.present import images
from robustness.results import Table

CLEAN = 0
"""Index of the clean view; corruptions follow it, severity by severity."""


class CorruptionViews(CorruptionSettings):
  """What studies of corruptions share: see `CorruptionSettings` for the settings."""

  @property
  def recording(self) -> dict[str, Any]:
    """The settings of the views: what is reduced to errors and what to a trade-off is the same."""
    shared = (field.name for field in dataclasses.fields(CorruptionSettings))
    described = dataclasses.asdict(self)
    recording = {'views': STREAM, **{name: described[name] for name in shared}, **self.facts}
    if self.protocol == EXACT:  # as records were before there was another
      del recording['protocol']
    return recording

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view (id 0), then each corruption at each severity.

    Measured are `energy` ‖C(x) - x‖² and `high_energy` ‖H(C(x) - x)‖² over all channels, in the
    clean view those of x itself.

    The id follows from corruption and severity (`names.view_id`): draws do not depend on which
    others a run holds. On a CPU images follow one another, so that the batch size and the
    devices change no bit of an image.
    """
    released = following(image_shape, self.constants) if self.protocol == AS_RELEASED else None
    checked_table(image_shape[:2], self.names, None, self._side, {})
    table = [(n, s) for n in range(len(self.names)) for s in self.levels]
    measures = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth))
    ids = [view_id(self.names[n], s) for n, s in table]
    number = {s: len(SEVERITIES) + 1 + k for k, s in enumerate(self.severities_between)}
    return Views(
      self._shower(released.jpeg_quality if released else 0),
      np.array([0, *ids], np.int32),
      {
        'corruption': np.array([-1, *(n for n, _ in table)], np.int32),
        'severity': np.array([0, *(number.get(s, s) for _, s in table)], np.int32),
      },
      measure=lambda row, shown, view: measures.energies(
        spectrum.half_magnitude(change(row, shown, view))
      ),
      image_shape=image_shape if released else None,
      sequential=True,  # XLA's sums over a batch round by its size, those of one image do not
    )

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns the corruption and severity of each view; the clean one has neither."""
    del image_shape
    levels = [(name, severity) for name in self.names for severity in self.levels]
    return pd.DataFrame([(None, None), *levels], columns=['corruption', 'severity'])

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Names views 'clean' and '<corruption> <severity>'; averages over those of each corruption, of
    each severity, and of each whole set. Severities between the five are in no group.
    """
    del image_shape
    names = ['clean', *(f'{name} {s}' for name in self.names for s in self.levels)]
    count = len(self.levels)
    views = {
      name: [CLEAN + 1 + n * count + self.levels.index(s) for s in self.severities]
      for n, name in enumerate(self.names)
    }
    by_severity = {
      f'severity {s}': [several[place] for several in views.values()]
      for place, s in enumerate(self.severities)
    }
    sets = {
      label: [view for name in members for view in views[name]]
      for label, members in whole_sets(self.names).items()
    }
    return ViewTable.of(names, {'clean': [CLEAN], **views, **by_severity, **sets})

  @property
  def view_facets(self) -> dict[str, dict[str, object]]:
    """The facets of corrupted views and their groups in the table of results, by name."""
    views = {f'{n} {s}': {'corruption': n, 'severity': s} for n in self.names for s in self.levels}
    return {
      **views,
      **{name: {'corruption': name} for name in self.names},
      **{f'severity {s}': {'severity': s} for s in self.severities},
      **{label: {'corruption_set': label} for label in whole_sets(self.names)},
    }

  def provenance(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """See `Study`; says how the corrupted images were made."""
    return Provenance.of_made(self, evaluations[0].records, image_shape).table()

  @property
  def _side(self) -> int | None:
    return self.constants or None

  def _shower(self, jpeg_quality: int) -> Callable[..., jax.Array]:
    """Returns the view function; photographs are read once.

    Args:
      jpeg_quality: of the files that corrupted images are stored in; 0 for none.
    """
    as_released = self.protocol == AS_RELEASED
    options: dict[str, Mapping[str, object]] = {**self.options.chosen()}
    if self.photographs and 'frost' in self.names:
      options['frost'] = {'photographs': load_photographs(self.photographs)}
    options = {name: options[name] for name in options if name in self.names}

    shown = functools.partial(
      apply,
      names=self.names,
      quantize=self.rounding or None,
      side=self._side,
      options=options,
      between=self.severities_between,
    )

    def show(
      key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
    ) -> jax.Array:
      if 'corruption' in row:
        raise InputError(
          'these images are stored corrupted ones, which would be corrupted again: '
          "set config.study.source='stored' in the study corruption_error."
        )

      def corrupted(image: jax.Array, corruption: jax.Array, severity: jax.Array) -> jax.Array:
        image = shown(key, image, corruption, severity)
        return jpeg.round_trip(image, jpeg_quality) if jpeg_quality else image

      return jax.lax.cond(
        view['severity'] == 0,
        lambda image, corruption, severity: image,
        corrupted,
        to_levels(row['image'], 'round') if as_released else row['image'],
        view['corruption'],
        view['severity'],
      )

    return show

  def gallery(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns `gallery` [corruptions, severities, H, W, C], the first image under each view, and
    `gallery_clean` [H, W, C]."""
    row = one_view.read_row(rows, 0)
    count = len(self.views(row['image'].shape))
    images = np.stack([one_view.show(self, row, view, key) for view in range(CLEAN + 1, count)])
    return {'gallery': self.grid(images, clean=False), 'gallery_clean': row['image']}

  def by_corruption(self, values: np.ndarray) -> np.ndarray:
    """Returns values of every image and view [N, V] without the clean view, as
    [N, corruptions, severities]."""
    return values[:, CLEAN + 1 :].reshape(len(values), len(self.names), len(self.levels))

  def grid(self, values: np.ndarray, clean: bool = True) -> np.ndarray:
    """Returns values by view [V, ...] without the clean one, [corruptions, severities, ...].

    Args:
      values: one entry a view.
      clean: whether the first is that of the clean view.
    """
    shown = values[CLEAN + 1 :] if clean else values
    return shown.reshape(len(self.names), len(self.levels), *values.shape[1:])


def change(
  row: Mapping[str, jax.Array], shown: jax.Array, view: Mapping[str, jax.Array]
) -> jax.Array:
  """Returns what a view changed, C(x) - x, float32 [H, W, C]; in the clean view x itself."""
  return shown - jnp.where(view['severity'] == 0, 0, row['image'])


def gallery_figure(
  names: Iterable[str], severities: Iterable[float], gallery: np.ndarray, caption: str
) -> tuple[Figure, str]:
  """Draws one image under every distinct corruption and severity; see `CorruptionViews.gallery`."""
  titles = [f'severity {severity:g}' for severity in dict.fromkeys(severities)]
  rows = zip(dict.fromkeys(names), gallery, strict=True)
  return images.grid({name: dict(zip(titles, s, strict=True)) for name, s in rows}), caption
