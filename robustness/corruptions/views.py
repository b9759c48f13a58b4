"""What studies of corruptions show: their settings, the clean view and the corrupted ones.

All draw from one stream, so that one seed gives one set of corrupted images, and record beside what
a classifier answers how much energy each corruption changed, and how much of it is of high
frequency (Yin et al. 2019, section 4.2).
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from robustness.core.errors import KEYS
from robustness.core.registry import part_name, word
from robustness.core.rows import Rows
from robustness.core.settings import choice, require
from robustness.core.typing import PlainValue
from robustness.corruptions import jpeg, laion_c
from robustness.corruptions.catalog import (
  CORRUPTIONS,
  apply,
  check_names,
  checked_table,
  refuse_stored,
  table_for,
)
from robustness.corruptions.names import (
  FINEST,
  NUMBERS,
  SETS,
  SEVERITIES,
  STORED,
  STORED_SETS,
  STREAM,
  spelt_out,
  view_id,
  whole_sets,
)
from robustness.corruptions.pixels import QUANTIZE, to_levels
from robustness.corruptions.released import (
  AS_RELEASED,
  BY_SOURCE,
  RELEASED,
  SOURCES,
  ReleasedSet,
  following,
  made_like,
)
from robustness.corruptions.textures import describe, load_photographs
from robustness.evaluation import one_view, provenance
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import Evaluation, ImageShape, Study
from robustness.evaluation.views import Views, ViewTable
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from robustness.present import images
from robustness.results import Table

EXACT = 'exact'
CLEAN = 0
"""Index of the clean view; corruptions follow it, severity by severity."""


@dataclasses.dataclass(frozen=True)
class CorruptionOptions:
  """Which variant of a corruption is meant; the defaults are the released generators'.

  Attributes:
    motion_blur: 'random' angles, or 'fixed' at -45° as TFDS has it.
    glass_blur: 'copy' one pixel over the other, or a true 'swap'.
    elastic_transform: 'released', or 'imagecorruptions': no affine map and other constants.
    fog: 'released' cloud maps, or of side 512 as 'tfds' has them: less contrast at 224 pixels.
  """

  motion_blur: str = 'random'
  glass_blur: str = 'copy'
  elastic_transform: str = 'released'
  fog: str = 'released'

  def __post_init__(self) -> None:
    for name, value in dataclasses.asdict(self).items():
      (values,) = CORRUPTIONS[name].options.values()
      choice(f'config.study.options.{name}', value, values)

  def chosen(self) -> dict[str, dict[str, str]]:
    """Returns {corruption: {option: value}} of those that are not the default."""
    default = dataclasses.asdict(CorruptionOptions())
    return {
      name: dict.fromkeys(CORRUPTIONS[name].options, value)
      for name, value in dataclasses.asdict(self).items()
      if value != default[name]
    }


@dataclasses.dataclass(frozen=True)
class CorruptionViews(Study):
  """Which corruptions are shown, and how they are made: what their studies share.

  Attributes:
    corruptions: names, `FILE.py:NAME` for one of yours, or one name of a set: 'official' (15),
      'extra' (4), 'all' (19), 'fourier_cifar' (the 15 of Yin et al.'s table 3),
      'fourier_imagenet' (the 12 of table 4), 'c_bar_cifar', 'c_bar_imagenet' (the ten of either
      set of Mintun et al.), 'laion_c' (the six of Li et al.); of stored images 'imagenet_3dcc' (the
      12 of Kar et al.) too.
    severities: of 1..5.
    protocol: 'exact' corrupts the floats of the rows at their own size; 'as_released' makes images
      as the released sets were made (`robustness.corruptions.released`): 8-bit images of 32, 64 or
      224 pixels, truncated, stored as JPEG of quality 85 from 64 pixels on, then resized to the
      network.
    quantize: '' keeps floats; 'floor' gives 8-bit images as the released sets were made, 'round' as
      TFDS makes them.
    constants: the table of constants: 32, 64, 224 or 299; 0 takes the nearest to the image size.
    photographs: '' draws procedural frost; a folder with the released photographs of frost, or the
      installed package 'imagecorruptions', gives the released frost. Of LAION-C a folder of
      pictures that mosaics and stickers are made of; '' takes procedural ones.
    bandwidth: of the high pass that tells high frequencies apart, on the shorter side; 0 takes the
      paper's 27 of 32 pixels in proportion.
    options: variants of single corruptions.
  """

  stream = STREAM

  corruptions: tuple[str, ...] = ('official',)
  severities: tuple[int, ...] = SEVERITIES
  protocol: str = word(EXACT, (EXACT, AS_RELEASED))
  quantize: str = word('', ('', *QUANTIZE))
  constants: int = 0
  photographs: str = ''
  bandwidth: int = 0
  options: CorruptionOptions = CorruptionOptions()

  def __post_init__(self) -> None:
    super().__post_init__()
    valid = *SETS, *STORED_SETS, *NUMBERS
    check_names(self.key('corruptions'), self.corruptions, valid)
    self.require(bool(self.corruptions), 'corruptions', 'not empty')
    made = self.is_stored or not {*self.names} & {*STORED}
    self.require(made, 'corruptions', f"of those made here without {KEYS.study.source}='stored'")
    severities = set(self.severities)
    known = bool(severities) and severities <= set(SEVERITIES)
    distinct = len(severities) == len(self.severities)
    self.require(known and distinct, 'severities', 'distinct numbers of 1..5')
    both = 'frost' in self.names and bool(set(self.names) & set(laion_c.PICTURES))
    alone = "'' for frost beside LAION-C's mosaic or stickers, which are made of other pictures"
    self.require(not (self.photographs and both), 'photographs', alone)
    if self.protocol == AS_RELEASED:
      truncates = "'' or 'floor' with protocol='as_released', which truncates"
      self.require(self.quantize in ('', 'floor'), 'quantize', truncates)
      chosen = self.variants
      fix = "left alone with protocol='as_released'"
      require(not chosen, 'config.study.options', ', '.join(chosen), fix)

  @property
  def rounding(self) -> str:
    """How corrupted values become 8-bit ones: 'floor', 'round', or '' where they stay floats."""
    return 'floor' if self.protocol == AS_RELEASED else self.quantize

  @property
  def is_stored(self) -> bool:
    """Whether corrupted images are read and not made."""
    return False

  @property
  def references(self) -> tuple[str, ...]:
    """The corruptions, sets spelt out, each once, in the order of `NUMBERS`."""
    return spelt_out(self.corruptions)

  @property
  def names(self) -> tuple[str, ...]:
    """What `references` are called."""
    return tuple(map(part_name, self.references))

  @property
  def variants(self) -> dict[str, dict[str, str]]:
    """The options that are not the default, of corruptions that are shown."""
    return {name: own for name, own in self.options.chosen().items() if name in self.names}

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
  def facts(self) -> dict[str, PlainValue]:
    """Plain values that results say beside the settings: what frost was drawn from, and what
    mosaics and stickers were made of."""
    facts: dict[str, PlainValue] = (
      {'frost': describe(self.photographs)} if 'frost' in self.names else {}
    )
    if set(self.names) & set(laion_c.PICTURES):
      facts['pictures'] = laion_c.describe(self.photographs)
    return facts

  @property
  def recording(self) -> dict[str, PlainValue]:
    """The settings of the views: what is reduced to errors and what to a trade-off is the same."""
    described = dataclasses.asdict(self)
    names = (field.name for field in dataclasses.fields(CorruptionViews))
    shared = {name: described[name] for name in names if name != 'confidence'}
    return {'views': STREAM, **shared, **self.files, **self.facts}

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view (id 0), then each corruption at each severity.

    Measured are `energy` ‖C(x) - x‖² and `high_energy` ‖H(C(x) - x)‖² over all channels, in the
    clean view those of x itself. Draws do not depend on which others a run holds (`names.view_id`).
    """
    as_released = self.protocol == AS_RELEASED
    released = following(image_shape, self.constants, self.names) if as_released else None
    checked_table(image_shape[:2], self.references, None, self.constants or None, {})
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
        spectrum.half_magnitude(change(shown, row['image'], view['severity']))
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
    return self.table_of_views(image_shape, clean=True)

  def table_of_views(self, image_shape: ImageShape, clean: bool) -> ViewTable:
    """Returns what `view_table` does, of views with the clean one first or without it."""
    facets: dict[str, Mapping[str, object]] = {
      f'{n} {s}': {'corruption': n, 'severity': s} for n in self.names for s in self.levels
    }
    first, count = int(clean), len(self.levels)
    views = {
      name: [first + n * count + self.levels.index(s) for s in self.severities]
      for n, name in enumerate(self.names)
    }
    by_severity = {
      f'severity {s}': [several[place] for several in views.values()]
      for place, s in enumerate(self.severities)
    }
    sets = {
      label: [view for name in members for view in views[name]]
      for label, members in whole_sets(self.names, min(image_shape[:2])).items()
    }
    names, alone = (['clean', *facets], {'clean': [CLEAN]}) if clean else ([*facets], {})
    made = ViewTable.of(names, {**alone, **views, **by_severity, **sets})
    facets |= {name: {'corruption': name} for name in views}
    facets |= {f'severity {s}': {'severity': s} for s in self.severities}
    facets |= {label: {'corruption_set': label} for label in sets}
    return dataclasses.replace(made, facets=facets)

  def provenance(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """See `Study`; says how the corrupted images were made."""
    return Provenance.of_made(self, evaluations[0].records, image_shape).table()

  def constants_of(self, image_shape: ImageShape) -> int:
    """Returns which table of constants images of a shape are corrupted by: its side."""
    return table_for(*image_shape[:2], self.constants or None).side

  def settings_differ(self, released: ReleasedSet, image_shape: ImageShape) -> dict[str, bool]:
    """Returns what images made here may differ in from a released set, and whether they do."""
    chosen, constants = self.variants, self.constants_of(image_shape)
    as_files = self.protocol == AS_RELEASED or not released.jpeg_quality
    return {
      'frost is drawn, not photographed': 'frost' in self.names and not self.photographs,
      "pictures of mosaics and stickers are not LAION's": 'pictures' in self.facts,
      'values are not rounded to 8 bits as released': self.rounding != 'floor',
      f'images are not stored as {released.storage}': not as_files,
      f'constants are those of {constants} pixels': constants != released.side,
      f'variants of {", ".join(chosen)} are not the released ones': bool(chosen),
    }

  def _shower(self, jpeg_quality: int) -> Callable[..., jax.Array]:
    """Returns the view function, which reads photographs once and stores images in JPEG files of a
    quality, or in none with 0."""
    as_released = self.protocol == AS_RELEASED
    options: dict[str, Mapping[str, object]] = {**self.variants}
    if self.photographs and 'frost' in self.names:
      options['frost'] = {'photographs': load_photographs(self.photographs)}
    if self.photographs:
      pictured = set(laion_c.PICTURES) & set(self.names)
      options |= {name: {'photographs': self.photographs} for name in pictured}

    shown = functools.partial(
      apply,
      names=self.references,
      quantize=self.rounding or None,
      side=self.constants or None,
      options=options,
      between=self.severities_between,
    )

    def show(
      key: jax.Array, row: Mapping[str, jax.Array], view: Mapping[str, jax.Array]
    ) -> jax.Array:
      refuse_stored(row)

      def corrupted(image: jax.Array, corruption: jax.Array, severity: jax.Array) -> jax.Array:
        image = shown(key, image, corruption, severity)
        return jpeg.round_trip(image, jpeg_quality) if jpeg_quality else image

      image = to_levels(row['image'], 'round') if as_released else row['image']
      given = image, view['corruption'], view['severity']
      return jax.lax.cond(view['severity'] == 0, lambda image, *_: image, corrupted, *given)

    return show

  def gallery(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns `gallery` [corruptions, severities, H, W, C], the first image under each view, and
    `gallery_clean` [H, W, C]."""
    row = one_view.read_row(rows, 0)
    count = len(self.views(row['image'].shape))
    images = np.stack([one_view.show(self, row, view, key) for view in range(CLEAN + 1, count)])
    return {'gallery': self.grid(images), 'gallery_clean': row['image']}

  def by_corruption(self, values: np.ndarray) -> np.ndarray:
    """Returns values of every image and view [N, V] without the clean view, as
    [N, corruptions, severities]."""
    return values[:, CLEAN + 1 :].reshape(len(values), len(self.names), len(self.levels))

  def grid(self, values: np.ndarray) -> np.ndarray:
    """Returns values by corrupted view [V, ...] as [corruptions, severities, ...]."""
    return values.reshape(len(self.names), len(self.levels), *values.shape[1:])


@dataclasses.dataclass(frozen=True)
class Provenance:
  """What errors under corruptions are errors of.

  Attributes:
    stored: whether corrupted images were read and not made.
    description: of the rows, as results have it.
    digest: of the images.
    num_images: clean images, or images that were corrupted.
    image_shape: of the images that are corrupted.
    denominator: whose errors mCE divides by; '' where there is none.
    clean: whether clean images are shown too.
  """

  settings: CorruptionViews
  stored: bool
  description: Mapping[str, object]
  digest: str
  num_images: int
  image_shape: tuple[int, int, int]
  denominator: str = ''
  clean: bool = True

  @classmethod
  def of_made(
    cls, settings: CorruptionViews, records: RecordsReader, image_shape: tuple[int, int, int]
  ) -> Self:
    """Returns that of records of images that were corrupted here."""
    data, count = records.identity.get('data', {}), records.layout.num_rows
    return cls(settings, False, data, provenance.data_digest(records), count, image_shape)

  @property
  def released(self) -> ReleasedSet:
    """The released set of the images' kind."""
    source = str(self.description.get('source', ''))
    side = min(table_for(*self.image_shape[:2]).side, max(RELEASED))
    if source in BY_SOURCE:
      return BY_SOURCE[source]
    return RELEASED[side] if self.stored else made_like(self.settings.names, side)

  @property
  def differences(self) -> list[str]:
    """What differs from the released set of the images' kind, beyond the random draws."""
    released, settings, source = self.released, self.settings, self.description.get('source', '')
    of_paper = released.side == 32 and set(SETS['fourier_cifar']) <= set(settings.names)
    missing = [n for n in released.corruptions if n not in settings.names and not of_paper]
    severities = [str(s) for s in SEVERITIES if s not in settings.severities]
    whole = released.num_images or self.num_images
    few = {f'{self.num_images} of {whole} images': self.num_images != whole}
    own = released.size_differs(self.image_shape)
    if not self.stored:
      own |= self._data_differs() | few | settings.settings_differ(released, self.image_shape)
    elif source not in SOURCES:
      own[f'the source {source} is no released set'] = True
    elif not self._of_robustbench:
      own |= few
    own[f'without {", ".join(missing)}'] = bool(missing)
    own[f'without severity {", ".join(severities)}'] = bool(severities)
    return [reason for reason, differs in own.items() if differs]

  def _data_differs(self) -> dict[str, bool]:
    """Returns what clean images may differ in from those that the set was made of."""
    released, description = self.released, self.description
    name, split = (str(description.get(key, '')) for key in ('name', 'split'))
    known = any(w in name.lower() and split.startswith(s) for w, s in released.clean.items())
    prepared = released.prepared.items()
    otherwise = [f'{KEYS.data}.{k}={value}' for k, value in prepared if description.get(k) != value]
    return {
      f'the data are not known to be those of {released.name}': bool(released.clean) and not known,
      f'the clean images of {released.name} were not released': not released.clean,
      f'images were prepared otherwise, without {", ".join(otherwise)}': bool(otherwise),
    }

  @property
  def _of_robustbench(self) -> bool:
    """Whether these are the images of ImageNet-C that RobustBench has chosen."""
    source, listed = (self.description.get(key) for key in ('source', 'image_list'))
    chosen = source in ('imagenet_c', 'imagenet_3dcc') and listed == provenance.ROBUSTBENCH
    return self.stored and chosen and self.num_images == provenance.ROBUSTBENCH_IMAGES

  def table(self) -> Table:
    """Returns the table ('what', 'value')."""
    settings, frost = self.settings, self.settings.facts.get('frost', {})
    lines = provenance.data_lines(self.description, self.digest, self.num_images, self.image_shape)
    if not self.clean:
      lines['clean images'] = 'none are stored, hence no clean error and nothing relative to it'
    lines['corrupted images'] = 'read as they are stored' if self.stored else 'made here'
    if not self.stored:
      storage = f'8 bits, {settings.rounding}' if settings.rounding else 'none: floats'
      as_released = settings.protocol == AS_RELEASED
      lines |= {
        'protocol': settings.protocol,
        'constants': f'{settings.constants_of(self.image_shape)} pixels',
        'storage': self.released.storage if as_released else storage,
      }
      if frost:
        lines['frost'] = provenance.named(frost, ('source', 'from'))
    if self.denominator:
      lines['mCE divides by'] = self.denominator
    otherwise = 'yes' if self.stored else 'yes, but for the random draws: images were made anew'
    if not set(self.released.corruptions) <= set(settings.names):
      otherwise += '; with tables 2 and 3 of Yin et al. (2019), as others are of the official 15'
    if self._of_robustbench:
      otherwise = "yes, with RobustBench's accuracies; other tables are of all 50000 images"
    comparable = provenance.comparable(self.differences, otherwise)
    return provenance.table({**lines, provenance.COMPARABLE: comparable})


def check_between(where: str, severities: Sequence[float]) -> None:
  """Raises InputError, with the key `where`, unless severities lie between the five: distinct and
  ascending, in [1, 5] and no whole numbers, multiples of 1 / `FINEST`."""
  for severity in severities:
    require(1 <= severity <= 5, where, severity, 'in [1, 5]')
    require(severity % 1 != 0, where, severity, 'no whole number: severities takes those')
    exact = round(FINEST * severity) == FINEST * severity
    require(exact, where, severity, f'a multiple of 1/{FINEST}')
  ascending = list(severities) == sorted(set(severities))
  require(ascending, where, tuple(severities), 'distinct and ascending')


def change(shown: jax.Array, clean: jax.Array, severity: jax.Array) -> jax.Array:
  """Returns what a corruption changed, C(x) - x, float32 [H, W, C]; of severity 0 x itself."""
  return shown - jnp.where(severity == 0, 0, clean)


def gallery_figure(
  names: Iterable[str], severities: Iterable[float], gallery: np.ndarray, caption: str
) -> tuple[Figure, str]:
  """Draws one image under every distinct corruption and severity; see `CorruptionViews.gallery`."""
  titles = [f'severity {severity:g}' for severity in dict.fromkeys(severities)]
  rows = zip(dict.fromkeys(names), gallery, strict=True)
  return images.grid({name: dict(zip(titles, s, strict=True)) for name, s in rows}), caption
