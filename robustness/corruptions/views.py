"""Views and settings shared by the studies of corruptions: the clean view and the corrupted ones.

All these studies use the same random numbers, so that a seed determines one set of corrupted
images. They record predictions, the energy ‖C(x) - x‖² of the change by a corruption C, and its
energy at high frequencies (Yin et al. 2019, section 4.2).
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from robustness.core.errors import KEYS
from robustness.core.registry import are_distinct_and_some, word
from robustness.core.rows import Rows
from robustness.core.settings import choice, require
from robustness.core.typing import PlainValue
from robustness.core.user_code import part_name
from robustness.corruptions import catalog, jpeg, laion_c
from robustness.corruptions.names import (
  ALL_SETS,
  FINEST,
  NUMBERS,
  SEVERITIES,
  STORED,
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
  matching_set,
  set_to_follow,
)
from robustness.corruptions.textures import describe, load_photographs
from robustness.evaluation import one_view, provenance
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import Evaluation, ImageShape, Recipes, Study
from robustness.evaluation.views import Arrays, Views, ViewTable
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from robustness.present import images
from robustness.results import Table

EXACT = 'exact'
"""The protocol that corrupts float images at their stored size; see `CorruptionViews.protocol`."""
CLEAN = 0
"""Index of the clean view. The corruptions follow, each with its severities."""


@dataclasses.dataclass(frozen=True)
class CorruptionOptions:
  """Variants of single corruptions. The defaults follow the released generators.

  Attributes:
    motion_blur: 'random' angles, or 'fixed' at -45° as in TFDS.
    glass_blur: 'copy' one pixel over the other, or 'swap' both.
    elastic_transform: 'released', or 'imagecorruptions', which has no affine map and other
      constants.
    fog: 'released', or 'tfds', which uses cloud maps of side 512 and has less contrast at 224
      pixels.
    resample_nearest: kernel that enlarges the shrunk image to its size again: 'nearest',
      'bilinear', 'bicubic' or 'lanczos'.
    resample_box: kernel that enlarges, as in `resample_nearest`.
    resample_bilinear_aliased: kernel that enlarges, as in `resample_nearest`.
    watermark: a font file, such as the font of ImageNet-W; '' uses built-in strokes.
  """

  motion_blur: str = 'random'
  glass_blur: str = 'copy'
  elastic_transform: str = 'released'
  fog: str = 'released'
  resample_nearest: str = 'nearest'
  resample_box: str = 'nearest'
  resample_bilinear_aliased: str = 'bilinear'
  watermark: str = ''

  def __post_init__(self) -> None:
    """Raises InputError if an option has an invalid value.

    The fields are the options of corruptions; each of these corruptions has one.
    """
    for name, value in dataclasses.asdict(self).items():
      (valid,) = catalog.CORRUPTIONS[name].options.values()  # each has a single option
      if valid:  # () accepts any value
        choice(f'config.study.options.{name}', value, valid)

  def non_default(self) -> dict[str, dict[str, str]]:
    """Returns {corruption: {option: value}} for the options that differ from the default."""
    default = dataclasses.asdict(CorruptionOptions())
    changed = {}
    for name, value in dataclasses.asdict(self).items():
      if value != default[name]:
        (option,) = catalog.CORRUPTIONS[name].options  # each has a single option
        changed[name] = {option: value}
    return changed


@dataclasses.dataclass(frozen=True)
class CorruptionViews(Study):
  """Base class of studies that show images with corruptions; it has their common settings.

  Attributes:
    corruptions: names, `FILE.py:NAME` for your own, or sets: 'official' (15), 'extra' (4), 'all'
      (19), 'fourier_cifar' (the 15 of Yin et al.'s table 3), 'fourier_imagenet' (the 12 of table
      4), 'c_bar_cifar' and 'c_bar_imagenet' (ten each, Mintun et al.), 'laion_c' (the six of Li et
      al.), 'resampling' (eight kernels), and for stored images 'imagenet_3dcc' (the 12 of Kar et
      al.).
    severities: integers in 1..5.
    protocol: 'exact' corrupts float images at their size. 'as_released' follows the released
      generators: 8-bit images of 32, 64 or 224 pixels are corrupted, truncated to 8 bits,
      compressed to JPEG of quality 85 (64 and 224 pixels), and then resized for the network.
    quantize: '' keeps floats; 'floor' truncates to 8 bits like the released sets, and 'round'
      rounds to 8 bits like TFDS.
    constants: image size, 32, 64, 224 or 299, with the published constants to use; 0 selects the
      size nearest to the images.
    photographs: for frost, a folder with the released photographs, or the installed package
      'imagecorruptions'. For LAION-C, a folder of pictures for mosaics and stickers. '' makes
      procedural pictures.
    bandwidth: number of frequencies along the shorter side that count as high in the energy of a
      change; 0 uses 27/32 of the side in pixels, as Yin et al. do.
    options: variants of single corruptions, see `CorruptionOptions`.
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
    """Raises InputError for settings of corruptions that are invalid or contradict each other.

    Some corruptions are only read from stored images, and cannot be generated. `photographs` names
    the pictures that frost, or LAION-C's mosaic and stickers, are made of. The protocol
    'as_released' follows the authors' code, without other options.
    """
    super().__post_init__()
    catalog.check_names(self.key('corruptions'), self.corruptions, (*ALL_SETS, *NUMBERS))
    self.require(bool(self.corruptions), 'corruptions', 'not empty')
    can_be_shown = self.is_stored or not {*self.names} & {*STORED}  # `STORED` are only read
    valid = f"of those made here without {KEYS.study.source}='stored'"
    self.require(can_be_shown, 'corruptions', valid)
    is_valid = are_distinct_and_some(self.severities) and {*self.severities} <= {*SEVERITIES}
    self.require(is_valid, 'severities', 'distinct numbers of 1..5')
    # the one setting `photographs` would name pictures of frost and other pictures
    is_ambiguous = self.photographs and 'frost' in self.names and self._shows_pictures
    valid = "'' for frost beside LAION-C's mosaic or stickers, which are made of other pictures"
    self.require(not is_ambiguous, 'photographs', valid)
    if self.protocol == AS_RELEASED:
      valid = "'' or 'floor' with protocol='as_released', which truncates"
      self.require(self.quantize in ('', 'floor'), 'quantize', valid)
      valid = "left alone with protocol='as_released'"
      require(not self.variants, 'config.study.options', ', '.join(self.variants), valid)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError for photographs or options of corruptions that are not shown.

    Args:
      rows: the images.
      recipes: the classifiers, for the general checks of a study.
    """
    super().check(rows, recipes)
    uses_pictures = 'frost' in self.names or self._shows_pictures
    valid = "'' without frost, mosaic and stickers"
    self.require(uses_pictures or not self.photographs, 'photographs', valid)
    unused = sorted({*self.options.non_default()} - {*self.names})
    require(not unused, 'config.study.options', ', '.join(unused), 'of corruptions that are shown')

  @property
  def rounding(self) -> str:
    """The rounding of corrupted values to 8 bits: 'floor', 'round', or '' for floats."""
    return 'floor' if self.protocol == AS_RELEASED else self.quantize

  @property
  def is_stored(self) -> bool:
    """Whether corrupted images are read from a data set instead of computed; False here."""
    return False

  @property
  def has_drawn_frost(self) -> bool:
    """Whether the study computes frost from procedural pictures, not the released photographs."""
    return 'frost' in self.names and not self.photographs and not self.is_stored

  @property
  def references(self) -> tuple[str, ...]:
    """The corruptions without repeats, as names such as 'fog' or references FILE.py:NAME.

    Sets such as 'official' are replaced by their members. The order is that in `NUMBERS`.
    """
    return spelt_out(self.corruptions)

  @property
  def names(self) -> tuple[str, ...]:
    """The names of the corruptions; a reference FILE.py:NAME is shortened to NAME."""
    return tuple(map(part_name, self.references))

  @property
  def _shows_pictures(self) -> bool:
    """Whether a corruption is made of other pictures (mosaic, stickers)."""
    return bool({*self.names} & {*laion_c.PICTURES})

  @property
  def variants(self) -> dict[str, dict[str, str]]:
    """{corruption: {option: value}} for options that differ from the released generators."""
    non_default = self.options.non_default()
    return {name: options for name, options in non_default.items() if name in self.names}

  @property
  def severities_between(self) -> tuple[float, ...]:
    """The fractional severities to show, ascending; () unless a subclass overrides this."""
    return ()

  @property
  def levels(self) -> tuple[float, ...]:
    """All severities at which corruptions are shown: `severities` and `severities_between`.

    They are ascending if there are fractional severities, and otherwise in the order of the
    setting.
    """
    between = self.severities_between
    return tuple(sorted((*self.severities, *between))) if between else self.severities

  @property
  def facts(self) -> dict[str, PlainValue]:
    """Facts for results on the pictures that frost, mosaics and stickers are made of.

    They are {'frost': facts, 'pictures': facts}, without corruptions that the study does not show.
    Facts are the source, 'procedural' or 'photographs', and where and which photographs these are.
    """
    frost = {'frost': describe(self.photographs)} if 'frost' in self.names else {}
    pictures = {'pictures': laion_c.describe(self.photographs)} if self._shows_pictures else {}
    return {**frost, **pictures}

  @property
  def recording(self) -> dict[str, PlainValue]:
    """The settings that determine the saved predictions, as {name: value}.

    Studies of corruptions are subclasses of `CorruptionViews`. Two of them reuse each other's saved
    predictions if these values are equal: the settings of `CorruptionViews` except `confidence`,
    the confidence level of intervals, digests of the user's files (`files`) and facts about
    pictures of frost (`facts`), and the version of the random numbers (`STREAM`). Settings that a
    subclass adds do not matter.
    """
    values = dataclasses.asdict(self)
    names = (field.name for field in dataclasses.fields(CorruptionViews))
    shared = {name: values[name] for name in names if name != 'confidence'}
    return {'views': STREAM, **shared, **self.files, **self.facts}

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the views, which show an image clean and with each corruption at each severity.

    The clean view is first. For a corruption C of the image x, two energies are measured: `energy`
    ‖C(x) - x‖² and `high_energy` ‖H(C(x) - x)‖², where H is a high-pass filter. For the clean image
    they are ‖x‖² and ‖H(x)‖². The random numbers of a view do not depend on the other views
    (`names.view_id`).

    Args:
      image_shape: (H, W, C) of the images.
    """
    is_released = self.protocol == AS_RELEASED
    released = set_to_follow(image_shape, self.constants, self.names) if is_released else None
    side = self.constants or None
    # raises InputError now, before anything is compiled, if images are too small for a corruption
    catalog.checked_table(image_shape[:2], self.references, quantize=None, side=side, options={})
    measures = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth))
    ids, corruptions, severities = self._numbered_views().T

    def energies(row: Arrays, image: jax.Array, view: Arrays) -> Arrays:
      """Returns the energies of a corruption's change of an image, or of the image if it is clean.

      Args:
        row: the clean image and its columns.
        image: the corrupted image, [H, W, C].
        view: the corruption and severity that were applied.

      Returns:
        {'energy': squared norm of the change, 'high_energy': squared norm of its high frequencies}.
      """
      difference = change(image, row['image'], view['severity'])
      return measures.energies(spectrum.half_magnitude(difference))

    return Views(
      show=self._view_function(released.jpeg_quality if released else 0),
      ids=ids,
      parameters={'corruption': corruptions, 'severity': severities},
      measure=energies,
      image_shape=image_shape if released else None,
      sequential=True,  # XLA's sums over a batch depend on its size; sums over one image do not
    )

  def _numbered_views(self) -> np.ndarray:
    """Returns an id, the index of the corruption and the severity for each view, int32 [V, 3].

    The first view is clean. Fractional severities are numbered 6, 7, ..., as in `catalog.apply`.
    """
    between = {s: len(SEVERITIES) + 1 + k for k, s in enumerate(self.severities_between)}
    views = [(0, -1, 0)]
    for index, name in enumerate(self.names):
      for severity in self.levels:
        views.append((view_id(name, severity), index, between.get(severity, int(severity))))
    return np.array(views, np.int32)

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns a table with the corruption and severity of each view, which results are grouped by.

    Its columns are `corruption` and `severity`. The first view is clean and has None in both.
    """
    levels = [(name, severity) for name in self.names for severity in self.levels]
    return pd.DataFrame([(None, None), *levels], columns=['corruption', 'severity'])

  @property
  def _file_by_name(self) -> dict[str, PlainValue]:
    """The user's file that defines each corruption, as {corruption: facts}.

    The facts are the name and the digest of the file, or None for a corruption of this package.
    """
    files: Any = self.files.get('files', {})
    return {name: files.get(name) for name in self.names}

  def with_common_views(self, studies: Sequence[Study]) -> Study:
    """Returns this study with only the corruptions that all given studies share.

    A corruption in a user's file is shared only if the files are identical. If images are stored or
    no corruption is shared, the study is returned unchanged.

    Args:
      studies: the studies; studies without corruptions are ignored.
    """
    own_files = self._file_by_name
    other_files = [study._file_by_name for study in studies if isinstance(study, CorruptionViews)]
    common = []
    for reference in self.references:
      name = part_name(reference)
      if all(name in files and files[name] == own_files[name] for files in other_files):
        common.append(reference)
    if self.is_stored or not common or len(common) == len(self.names):
      return self
    return dataclasses.replace(self, corruptions=tuple(common))

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, such as 'fog 3', and groups of views to average over.

    The first view is 'clean'. There is a group for each corruption, each severity, and each
    published set of corruptions that the study contains, such as 'official'. Fractional severities
    are in no group.
    """
    return self.table_of_views(image_shape, has_clean=True)

  def table_of_views(self, image_shape: ImageShape, has_clean: bool) -> ViewTable:
    """Returns the names of the views, and of groups of views such as all severities of fog.

    A view shows all images corrupted in one way, or clean.

    Args:
      image_shape: (H, W, C) of the images.
      has_clean: whether the first view is 'clean'.

    Returns:
      The table. Its `facets` are {name of a view or group: its values in results}, such as {'fog
      3': {'corruption': 'fog', 'severity': 3}}.
    """
    # {name of a corrupted view: its facets}
    views: dict[str, Mapping[str, object]] = {
      f'{corruption} {severity}': {'corruption': corruption, 'severity': severity}
      for corruption in self.names
      for severity in self.levels
    }
    clean = ['clean'] if has_clean else []
    all_indices = self.grid(len(clean) + np.arange(len(views)))  # [corruptions, levels]
    # without fractional severities, which are in no group: [corruptions, severities]
    indices = all_indices[:, [self.levels.index(severity) for severity in self.severities]]
    groups = {name: [CLEAN] for name in clean}  # {name of a group: indices of its views}
    facets = dict(views)
    for name, members in zip(self.names, indices.tolist(), strict=True):
      groups[name] = members
      facets[name] = {'corruption': name}
    for severity, members in zip(self.severities, indices.T.tolist(), strict=True):
      groups[f'severity {severity}'] = members
      facets[f'severity {severity}'] = {'severity': severity}
    for label, names in whole_sets(self.names, side=min(image_shape[:2])).items():
      groups[label] = [index for name in names for index in groups[name]]
      facets[label] = {'corruption_set': label}
    return dataclasses.replace(ViewTable.of([*clean, *views], groups), facets=facets)

  def provenance(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Table:
    """Returns a table that states how the corrupted images were made and from what images."""
    return Provenance.of(self, evaluations[0].records, image_shape).table()

  def constants_of(self, image_shape: ImageShape) -> int:
    """Returns the image size in pixels for which the constants in use were published."""
    return catalog.table_for(*image_shape[:2], self.constants or None).side

  def settings_differ(self, released: ReleasedSet, image_shape: ImageShape) -> dict[str, bool]:
    """Compares how corrupted images are made here and in a released set, such as ImageNet-C.

    Args:
      released: how the authors made their set.
      image_shape: height, width and channels of the images.

    Returns:
      {phrase for a difference: whether it is present}, such as {'images are not stored as JPEG,
      quality 85': True}.
    """
    constants = self.constants_of(image_shape)
    # 'as_released' compresses as the released set does; other protocols do not compress
    has_equal_format = self.protocol == AS_RELEASED or not released.jpeg_quality
    return {
      'frost is drawn, not photographed': self.has_drawn_frost,
      "pictures of mosaics and stickers are not LAION's": 'pictures' in self.facts,
      'values are not rounded to 8 bits as released': self.rounding != 'floor',
      f'images are not stored as {released.storage}': not has_equal_format,
      f'constants are those of {constants} pixels': constants != released.side,
      f'variants of {", ".join(self.variants)} are not the released ones': bool(self.variants),
    }

  def _view_function(self, jpeg_quality: int) -> Callable[..., jax.Array]:
    """Returns a function `(key, row, view) -> image` that corrupts an image, for `Views.show`.

    Photographs of frost are loaded once, in this call.

    Args:
      jpeg_quality: JPEG quality to which corrupted images are compressed; 0 does not compress.
    """
    options: dict[str, Mapping[str, object]] = {**self.variants}
    if self.photographs:
      if 'frost' in self.names:
        options['frost'] = {'photographs': load_photographs(self.photographs)}
      for name in set(laion_c.PICTURES) & set(self.names):
        options[name] = {'photographs': self.photographs}
    corrupt = functools.partial(
      catalog.apply,
      names=self.references,
      quantize=self.rounding or None,
      side=self.constants or None,
      options=options,
      between=self.severities_between,
    )

    def corrupt_and_compress(key: jax.Array, image: jax.Array, *view: jax.Array) -> jax.Array:
      """Returns the image under `view`, compressed to JPEG if the quality is not 0."""
      corrupted = corrupt(key, image, *view)
      return jpeg.round_trip(corrupted, jpeg_quality) if jpeg_quality else corrupted

    def show(key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
      """Returns the corrupted image of a row, [H, W, C], for `Views.show`.

      Args:
        key: random key.
        row: the stored image, `row['image']`.
        view: index of the `corruption` and number of the `severity`; 0 leaves the image clean.
      """
      catalog.refuse_stored(row)
      is_8_bit = self.protocol == AS_RELEASED  # the released generators read 8-bit images
      image = to_levels(row['image'], 'round') if is_8_bit else row['image']
      arguments = key, image, view['corruption'], view['severity']
      is_clean = view['severity'] == 0
      return jax.lax.cond(is_clean, lambda key, image, *_: image, corrupt_and_compress, *arguments)

    return show

  def gallery(self, rows: Rows, key: jax.Array) -> dict[str, np.ndarray]:
    """Returns the first image under every corruption and severity, for a figure.

    Returns:
      {'gallery': [corruptions, severities, H, W, C], 'gallery_clean': [H, W, C]}.
    """
    row = one_view.read_row(rows, 0)
    corrupted_views = range(CLEAN + 1, len(self.views(row['image'].shape)))
    pictures = np.stack([one_view.show(self, row, view, key) for view in corrupted_views])
    return {'gallery': self.grid(pictures), 'gallery_clean': row['image']}

  def by_corruption(self, values: np.ndarray) -> np.ndarray:
    """Reshapes values [N, V] of N images in V views to [N, corruptions, severities].

    The first view, which is clean, is dropped.
    """
    return values[:, CLEAN + 1 :].reshape(len(values), len(self.names), len(self.levels))

  def grid(self, values: np.ndarray) -> np.ndarray:
    """Reshapes values [V, ...] of the corrupted views to [corruptions, severities, ...]."""
    return values.reshape(len(self.names), len(self.levels), *values.shape[1:])


@dataclasses.dataclass(frozen=True)
class Provenance:
  """The provenance of corrupted images, and how they differ from a released set such as ImageNet-C.

  Attributes:
    settings: the study, with the corruptions and severities that were measured.
    description: description of the data in results, with the keys 'source', 'name' and 'split'
      among others.
    digest: digest of the images.
    num_images: number of images before corruption.
    image_shape: shape of the corrupted images, (H, W, C).
    denominator: phrase for the errors that the mean corruption error (mCE) is relative to; '' if
      there is no mCE.
    clean: whether clean images were measured too.
  """

  settings: CorruptionViews
  description: Mapping[str, object]
  digest: str
  num_images: int
  image_shape: tuple[int, int, int]
  denominator: str = ''
  clean: bool = True

  @classmethod
  def of(
    cls, settings: CorruptionViews, records: RecordsReader, image_shape: ImageShape, **fields: Any
  ) -> Self:
    """Returns the provenance of the images in the saved predictions of a run.

    Args:
      settings: the study, with the corruptions and severities that were measured.
      records: the saved predictions.
      image_shape: shape of the corrupted images, (H, W, C).
      **fields: other fields of `Provenance`. `num_images` is by default the number of saved rows.
    """
    fields = {'num_images': records.layout.num_rows, **fields}
    data, digest = records.identity.get('data', {}), provenance.data_digest(records)
    return cls(settings, data, digest, image_shape=image_shape, **fields)

  @property
  def released(self) -> ReleasedSet:
    """The released set to compare the images with.

    This is the set that the data source reads, such as LAION-C. For other sources it is the set
    with the nearest image size, and, if corruptions are computed, with the same corruptions.
    """
    source = str(self.description.get('source', ''))
    if source in BY_SOURCE:
      return BY_SOURCE[source]
    side = side_of_nearest_set(self.image_shape)
    return RELEASED[side] if self.settings.is_stored else matching_set(self.settings.names, side)

  @property
  def differences(self) -> list[str]:
    """Phrases for how the images differ from the released set, apart from their random numbers.

    For example, ['images are 256 × 256, not 224 × 224', 'without snow, frost'].
    """
    released, settings = self.released, self.settings
    source = self.description.get('source', '')
    total = released.num_images or self.num_images  # an unknown number counts as equal
    number_differs = {f'{self.num_images} of {total} images': self.num_images != total}
    # {phrase for a difference: whether it is present}, also from the functions called below
    differences = released.size_differs(self.image_shape)
    if not settings.is_stored:
      differences |= self._data_differs() | number_differs
      differences |= settings.settings_differ(released, self.image_shape)
    elif source not in SOURCES:
      differences[f'the source {source} is no released set'] = True
    elif not self._is_robustbench:  # RobustBench's part of a set is complete
      differences |= number_differs
    # Table 3 of Yin et al. has published errors under 15 other corruptions than CIFAR-10-C's. A
    # study of these lacks none of the released ones.
    is_table_3 = released.side == 32 and {*ALL_SETS['fourier_cifar']} <= {*settings.names}
    needed = () if is_table_3 else released.corruptions
    missing = [name for name in needed if name not in settings.names]
    differences[f'without {", ".join(missing)}'] = bool(missing)
    severities = [str(s) for s in SEVERITIES if s not in settings.severities]
    differences[f'without severity {", ".join(severities)}'] = bool(severities)
    return [words for words, is_present in differences.items() if is_present]

  def _data_differs(self) -> dict[str, bool]:
    """Compares the images before corruption with the clean images of the released set.

    Returns:
      {phrase for a difference: whether it is present}.
    """
    released, description = self.released, self.description
    name, split = str(description.get('name', '')).lower(), str(description.get('split', ''))
    is_same_data = any(
      data_set in name and split.startswith(clean_split)
      for data_set, clean_split in released.clean.items()
    )
    if released.clean:
      phrase = f'the data are not known to be those of {released.name}'
    else:
      phrase = f'the clean images of {released.name} were not released'
    # settings of the data with which the released set was prepared, and these images were not
    needed = released.prepared.items()
    missing = [f'{KEYS.data}.{k}={value}' for k, value in needed if description.get(k) != value]
    preparation = f'images were prepared otherwise, without {", ".join(missing)}'
    return {phrase: not is_same_data, preparation: bool(missing)}

  @property
  def _is_robustbench(self) -> bool:
    """Whether these are the images of ImageNet-C or ImageNet-3DCC that RobustBench uses."""
    has_list = self.description.get('image_list') == provenance.ROBUSTBENCH
    has_all_images = has_list and self.num_images == provenance.ROBUSTBENCH_IMAGES
    has_source = self.description.get('source') in ('imagenet_c', 'imagenet_3dcc')
    return self.settings.is_stored and has_source and has_all_images

  def table(self) -> Table:
    """Returns a table with the columns 'what' and 'value' that states where the images come from.

    The last row says whether errors are comparable with published errors.
    """
    settings, frost = self.settings, self.settings.facts.get('frost', {})
    lines = provenance.data_lines(self.description, self.digest, self.num_images, self.image_shape)
    if not self.clean:
      lines['clean images'] = 'none are stored, hence no clean error and nothing relative to it'
    lines['corruptions'] = ', '.join(settings.names)
    lines['severities'] = ', '.join(f'{severity:g}' for severity in settings.levels)
    lines['corrupted images'] = 'read as they are stored' if settings.is_stored else 'made here'
    if not settings.is_stored:
      storage = f'8 bits, {settings.rounding}' if settings.rounding else 'none: floats'
      lines |= {
        'protocol': settings.protocol,
        'constants': f'{settings.constants_of(self.image_shape)} pixels',
        'storage': self.released.storage if settings.protocol == AS_RELEASED else storage,
      }
      if frost:
        lines['frost'] = provenance.values_in_words(frost, ('source', 'from'))
    if self.denominator:
      lines['mCE divides by'] = self.denominator
    comparability = provenance.comparability_in_words(self.differences, self._comparable)
    lines[provenance.COMPARABLE] = comparability
    return provenance.table(lines)

  @property
  def _comparable(self) -> str:
    """A phrase that says which published errors these errors can be compared with.

    It holds if there are no `differences` from the released set of images, and begins with 'yes'.
    """
    if self._is_robustbench:
      return "yes, with RobustBench's accuracies; other tables are of all 50000 images"
    is_made = not self.settings.is_stored
    answer = 'yes, but for the random draws: images were made anew' if is_made else 'yes'
    # a lack of released corruptions is no difference only for the corruptions of Yin et al.
    if not set(self.released.corruptions) <= set(self.settings.names):
      answer += '; with tables 2 and 3 of Yin et al. (2019), as other papers have the official 15'
    return answer


def side_of_nearest_set(image_shape: ImageShape) -> int:
  """Returns the side in pixels of the released set with the nearest image size: 32, 64 or 224."""
  # images of 299 pixels, for which there are constants but no set, belong to the set of 224
  return min(catalog.table_for(*image_shape[:2]).side, max(RELEASED))


def check_between(key: str, severities: Sequence[float]) -> None:
  """Raises InputError for invalid fractional severities.

  Args:
    key: name of the setting in the message.
    severities: severities, which must be distinct, ascending, in [1, 5], multiples of 1 / `FINEST`,
      and not integers.
  """
  for severity in severities:
    require(1 <= severity <= 5, key, severity, 'in [1, 5]')
    require(severity % 1 != 0, key, severity, 'no whole number: severities takes those')
    # divided again, because products such as 1000 · 1.001 are not whole after rounding
    is_multiple = round(FINEST * severity) / FINEST == severity
    require(is_multiple, key, severity, f'a multiple of 1/{FINEST}')
  is_ascending = list(severities) == sorted(set(severities))
  require(is_ascending, key, tuple(severities), 'distinct and ascending')


def change(image: jax.Array, clean: jax.Array, severity: jax.Array) -> jax.Array:
  """Returns the change of an image by a corruption, `image` − `clean`, float32 [H, W, C].

  At severity 0 the result is the clean image itself. Its energy is the reference for the energies
  of changes.

  Args:
    image: the corrupted image.
    clean: the clean image.
    severity: integer, which may be traced; 0 for the clean image.
  """
  return image - jnp.where(severity == 0, 0, clean)


def gallery_figure(
  names: Iterable[str], severities: Iterable[float], gallery: np.ndarray, caption: str
) -> tuple[Figure, str]:
  """Returns a figure of one image under every corruption and severity, with its caption.

  Args:
    names: the corruption of each view; repeated names count once.
    severities: the severity of each view; repeated severities count once.
    gallery: pictures [corruptions, severities, H, W, C], in the order of the distinct names and
      severities.
    caption: the caption.
  """
  titles = [f'severity {severity:g}' for severity in dict.fromkeys(severities)]
  rows = zip(dict.fromkeys(names), gallery, strict=True)
  grid = {name: dict(zip(titles, pictures, strict=True)) for name, pictures in rows}
  return images.grid(grid), caption
