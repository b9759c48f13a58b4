"""What studies of corruptions show: their settings, the clean view and the corrupted ones.

All draw from one stream, so that one seed gives one set of corrupted images, and record beside what
a classifier answers how much energy each corruption changed, and how much of it is of high
frequency (Yin et al. 2019, section 4.2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.core.rows import Rows
from robustness.core.settings import require
from robustness.corruptions import jpeg
from robustness.corruptions.catalog import apply
from robustness.corruptions.checks import check_side
from robustness.corruptions.levels import QUANTIZE, to_levels
from robustness.corruptions.names import (
  KNOWN,
  SETS,
  SEVERITIES,
  STREAM,
  spelt_out,
  view_id,
  whole_sets,
)
from robustness.corruptions.options import CorruptionOptions
from robustness.corruptions.provenance import Provenance
from robustness.corruptions.released import AS_RELEASED, EXACT, PROTOCOLS, following
from robustness.corruptions.severities import table_for
from robustness.corruptions.textures import describe, load_photographs
from robustness.evaluation import one_view
from robustness.evaluation.provenance import data_digest
from robustness.evaluation.study import Evaluation, ImageShape, Study
from robustness.evaluation.views import Views, ViewTable
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from robustness.present import images
from robustness.results import Table

CLEAN = 0
"""Index of the clean view; corruptions follow it, severity by severity."""


@dataclasses.dataclass(frozen=True)
class CorruptionViews(Study):
  """Settings that studies of corruptions share.

  Attributes:
    corruptions: names, or one name of a set: 'official' (15), 'extra' (4), 'all' (19),
      'fourier_cifar' (the 15 of Yin et al.'s table 3), 'fourier_imagenet' (the 12 of table 4),
      'c_bar_cifar', 'c_bar_imagenet' (the ten of either set of Mintun et al.).
    severities: of 1..5.
    protocol: 'exact' corrupts the floats of the rows at their own size; 'as_released' makes images
      as the released sets were made (`robustness.corruptions.released`): 8-bit images of 32, 64 or
      224 pixels, truncated, stored as JPEG of quality 85 from 64 pixels on, then resized to the
      network.
    quantize: '' keeps floats; 'floor' gives 8-bit images as the released sets were made, 'round' as
      TFDS makes them.
    constants: the table of constants: 32, 64, 224 or 299; 0 takes the nearest to the image size.
    photographs: '' draws procedural frost; a folder with the released photographs of frost, or the
      installed package 'imagecorruptions', gives the released frost.
    bandwidth: of the high pass that tells high frequencies apart, on the shorter side; 0 takes the
      paper's 27 of 32 pixels in proportion.
    options: variants of single corruptions.
  """

  stream = STREAM

  corruptions: tuple[str, ...] = ('official',)
  severities: tuple[int, ...] = SEVERITIES
  protocol: str = EXACT
  quantize: str = ''
  constants: int = 0
  photographs: str = ''
  bandwidth: int = 0
  options: CorruptionOptions = CorruptionOptions()

  def __post_init__(self) -> None:
    super().__post_init__()
    self.choose('corruptions', (*SETS, *KNOWN))
    self.require(bool(self.corruptions), 'corruptions', 'not empty')
    severities = set(self.severities)
    known = bool(severities) and severities <= set(SEVERITIES)
    distinct = len(severities) == len(self.severities)
    self.require(known and distinct, 'severities', 'distinct numbers of 1..5')
    self.choose('quantize', ('', *QUANTIZE))
    self.choose('protocol', PROTOCOLS)
    if self.protocol == AS_RELEASED:
      self._check_protocol()

  def _check_protocol(self) -> None:
    """Refuses settings that the released sets were not made with."""
    self.require(
      self.quantize in ('', 'floor'),
      'quantize',
      "'' or 'floor' with protocol='as_released', which truncates",
    )
    require(
      not self.options.chosen(),
      'config.study.options',
      ', '.join(self.options.chosen()),
      "left alone with protocol='as_released'",
    )

  @property
  def rounding(self) -> str:
    """How corrupted values become 8-bit ones: 'floor', 'round', or '' where they stay floats."""
    return 'floor' if self.protocol == AS_RELEASED else self.quantize

  @property
  def names(self) -> tuple[str, ...]:
    """The corruptions, sets spelt out, each once, in the order of `KNOWN`."""
    return spelt_out(self.corruptions)

  @property
  def severities_between(self) -> tuple[float, ...]:
    """Severities between the five that are shown too, ascending."""
    return ()

  @property
  def levels(self) -> tuple[float, ...]:
    """All severities that are shown, ascending where some lie between the five."""
    further = self.severities_between
    return tuple(sorted((*self.severities, *further))) if further else self.severities

  @property
  def facts(self) -> dict[str, Any]:
    """Plain values that results say beside the settings: what frost was drawn from."""
    return {'frost': describe(self.photographs)} if 'frost' in self.names else {}

  @property
  def recording(self) -> dict[str, Any]:
    """The settings of the views: what is reduced to errors and what to a trade-off is the same."""
    shared = (field.name for field in dataclasses.fields(CorruptionViews))
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
    constants = table_for(image_shape[0], image_shape[1], self._side)
    for name in self.names:
      check_side(name, image_shape, constants[name])
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
  def view_facets(self) -> dict[str, dict[str, Any]]:
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
    records = evaluations[0].records
    stated = Provenance(
      self,
      False,
      records.identity.get('data', {}),
      data_digest(records),
      records.layout.num_rows,
      image_shape,
    )
    return stated.table()

  @property
  def _side(self) -> int | None:
    return self.constants or None

  def _shower(self, jpeg_quality: int) -> Callable[..., jax.Array]:
    """Returns the view function; photographs are read once.

    Args:
      jpeg_quality: of the files that corrupted images are stored in; 0 for none.
    """
    as_released = self.protocol == AS_RELEASED
    options = self.options.chosen()
    if self.photographs and 'frost' in self.names:
      options['frost'] = {'photographs': load_photographs(self.photographs)}
    options = {name: options[name] for name in options if name in self.names}

    def show(
      key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
    ) -> jax.Array:
      if 'corruption' in row:
        raise InputError(
          'these images are stored corrupted ones, which would be corrupted again: '
          "set config.study.source='stored' in the study corruption_error."
        )

      def corrupted(image: jax.Array, corruption: jax.Array, severity: jax.Array) -> jax.Array:
        shown = apply(
          key,
          image,
          corruption,
          severity,
          names=self.names,
          quantize=self.rounding or None,
          side=self._side,
          options=options,
          between=self.severities_between,
        )
        return jpeg.round_trip(shown, jpeg_quality) if jpeg_quality else shown

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
