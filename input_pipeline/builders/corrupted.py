"""TFDS data set `corrupted`: any base data set under one corruption at one severity, stored
lossless.

`tfds.load('corrupted/cifar10_fog_3')` works after `import input_pipeline.builders`. The config's
name is <base>_<corruption>_<severity>, or <base>_clean for the unchanged images. All other choices
are fields of `CorruptedConfig`. Examples have `image` (PNG), `label` and `example_id`, the index in
the base split, and are in this order.

Image i equals what the study `corruption_error` shows for example i with the same seed, constants
and quantisation: its random key is fold_in(fold_in(stream(seed, 'corruption_error'), i), view id).
On a CPU the two are equal to the bit. On an accelerator, sums depend on the batch, so that a value
close to a threshold may differ by one level.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow_datasets as tfds

from input_pipeline.builders import made_of
from input_pipeline.tfds_sets import prepared_builder
from robustness import corruptions
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.registry import are_distinct
from robustness.core.rows import num_blocks
from robustness.core.settings import choice, require
from robustness.corruptions import textures
from robustness.corruptions.catalog import TABLES, checked_table, table_for
from robustness.corruptions.names import CLEAN, NAMES, NUMBERS, SEVERITIES, STREAM, view_id
from robustness.corruptions.pixels import QUANTIZE
from robustness.corruptions.released import RELEASED

DESCRIPTION = """\
A data set under one of the 19 common corruptions (Hendrycks and Dietterich 2019) at a severity of
1..5, to measure how much of a classifier's accuracy is left. An example is an image of the base's
split with its label, and `example_id`, its position in what is read of that split (of 'test[6:]' 0
is image 6); the order is the base's. The config's name is <base>_<corruption>_<severity>, or
<base>_clean for the images as they are. The metadata say what fixes the images: base, corruption,
severity, table of constants, quantisation, frost and seed.
"""
Example = tuple[int, dict[str, np.ndarray | int]]
"""Key and features of an example."""
CLEAN_NAME = 'clean'
"""Name in place of a corruption for unchanged images."""
PLAIN_NAME = rf'(\w+?)_(?:({"|".join(NAMES)})_([1-5])|{CLEAN_NAME})'
"""Names of configs with default settings: <base>_<corruption>_<severity> or <base>_clean."""
LISTED_BASES = ('cifar10', 'imagenet2012')
"""Bases with configs that TFDS lists; configs of other bases are found by name only."""
PREPARATION: dict[str, Any] = {'imagenet2012': RELEASED[224].prepared}
"""{base: its preparation if the config is given by name only}.

ImageNet-C was made from such crops.
"""


@dataclasses.dataclass(eq=False)
class CorruptedConfig(made_of.BaseConfig):
  """Config of a TFDS data set of corrupted images: base data set, corruption and severity.

  Attributes:
    name: name of the config. '' uses <base>_<corruption>_<severity> or <base>_clean; all other
      fields must then have their default values.
    base: TFDS name of the uncorrupted data set, which must have `image` and `label`.
    base_dir: TFDS folder of the base data set; '' is the folder of this data set.
    seed: seed of the random numbers in corruptions.
    resize, crop, interpolation, resized_by: how images are resized and cropped before they are
      corrupted; see `DataSettings`.
    corruption: one of `robustness.corruptions.names.NAMES`, or 'clean'.
    severity: 1 to 5; 0 for clean images.
    splits: splits of the base data set, with optional slices, such as 'test[:1000]'; a split is
      stored without the slice in its name. () uses 'test', or 'validation' if there is no labelled
      test split.
    constants: image side, 32, 64, 224 or 299, that selects the table of corruption strengths; 0
      uses the table closest to the image size.
    quantize: how pixel values are rounded to 8 bits, 'floor' as in the released data sets, or
      'round' as in TFDS.
    photographs: folder of the released frost photographs, or 'imagecorruptions' for the photographs
      in that package; '' generates frost procedurally.
    beam: whether to prepare the data set with Apache Beam.
  """

  corruption: str = ''
  severity: int = 0
  splits: tuple[str, ...] = ()
  constants: int = 0
  quantize: str = 'floor'
  photographs: str = ''
  beam: bool = False

  def __post_init__(self) -> None:
    """Raises InputError for invalid fields, and fills in an empty `name` or `description`."""
    super().__post_init__()
    choice('corruption', self.corruption, (*NAMES, CLEAN_NAME))
    choice('quantize', self.quantize, QUANTIZE)
    severities = (0,) if self.is_clean else SEVERITIES
    for key, valid_numbers in (('severity', severities), ('constants', (0, *TABLES))):
      value = getattr(self, key)
      is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
      valid = f'one of {", ".join(map(str, valid_numbers))}'
      require(is_whole and value in valid_numbers, key, value, valid)
    # A text in place of a tuple would be read letter by letter; '' is refused below.
    splits = self.splits if isinstance(self.splits, tuple | list) else ['']
    split_names = [split.partition('[')[0] for split in splits]  # without slices
    are_names = all(re.fullmatch(r'\w+', name) for name in split_names)
    valid = "a tuple of different splits, each with at most one slice: ('test[:1000]',)"
    require(are_names and are_distinct(split_names), 'splits', self.splits, valid)
    # a name of the form 'cifar10_fog_3' must state the base, corruption and severity of this config
    if not self.name or re.fullmatch(PLAIN_NAME, self.name):
      plain_name = self._plain_name()
      valid = f'{plain_name!r}, what this is, or a name of another form'
      require(self.name in ('', plain_name), 'name', self.name, valid)
      self.name = plain_name
    corrupted = f'under {self.corruption}, severity {self.severity}'
    change = 'as they are' if self.is_clean else corrupted
    self.description = self.description or f'Images of {self.base} {change}'

  def _plain_name(self) -> str:
    """Returns the name of a config with default settings, such as 'cifar10_fog_3'.

    The form is <base>_<corruption>_<severity> or <base>_clean.

    Raises:
      InputError: a setting differs from its default, so that such a name would be ambiguous.
    """
    defaults = {f.name: f.default for f in dataclasses.fields(CorruptedConfig)}
    defaults.update(PREPARATION.get(self.base, {}))
    # settings that such a name does not state, so that they must have their default values
    unstated = ['splits', 'constants', 'quantize', 'photographs', 'seed', 'resize', 'crop']
    if self.resize:  # otherwise these two have no effect
      unstated += ['interpolation', 'resized_by']
    changed = [key for key in unstated if vars(self)[key] != defaults[key]]
    if '/' in self.base and not changed:  # no name is valid for such a base, 'set/config'
      changed = ['a base with a config']
    if changed:
      raise InputError(
        f'a config that chooses {", ".join(changed)} needs a name of its own, by '
        "which it is loaded: name='...'."
      )
    severity = [] if self.is_clean else [str(self.severity)]
    return '_'.join([self.base, self.corruption, *severity])

  @property
  def is_clean(self) -> bool:
    """Whether images are not corrupted."""
    return self.corruption == CLEAN_NAME


def parse_name(name: str) -> CorruptedConfig:
  """Returns the config with default settings for a name such as 'cifar10_fog_3'.

  Args:
    name: <base>_<corruption>_<severity> or <base>_clean.

  Raises:
    InputError: the name has another form.
  """
  match = re.fullmatch(PLAIN_NAME, name)
  if match:
    base, corruption, severity = match.groups()
    return CorruptedConfig(
      base=base,
      corruption=corruption or CLEAN_NAME,
      severity=int(severity or 0),
      **PREPARATION.get(base, {}),
    )
  parts = re.fullmatch(r'([^_]+)_(.+)_([^_]+)', name)
  if parts:  # if the middle part is no corruption, the error names the nearest one
    choice('corruption', parts[2], (*NAMES, CLEAN_NAME))
  raise InputError(
    f'{name!r} is no config of corrupted: <base>_<corruption>_<severity>, for '
    "example 'cifar10_fog_3', with a severity of 1..5; <base>_clean; or "
    'config=CorruptedConfig(...) for any other choice.'
  )


def default_split(base: tfds.core.DatasetBuilder) -> str:
  """Returns the split to corrupt: 'test', or 'validation' if there is no labelled test split.

  Args:
    base: builder of the uncorrupted data set, which is prepared.
  """
  splits = base.info.splits
  if 'test' in splits and 'validation' in splits:
    example = next(iter(base.as_dataset(split='test').take(1)))
    is_unlabelled = np.asarray(example['label']) < 0  # TFDS stores −1 in place of unknown labels
    return 'validation' if is_unlabelled else 'test'
  for name in ('test', 'validation'):
    if name in splits:
      return name
  raise InputError(
    f'{base.info.full_name} has neither test nor validation, but '
    f"{', '.join(sorted(splits))}: choose CorruptedConfig(splits=('...',))."
  )


class Corrupted(made_of.MadeOfBase, tfds.core.GeneratorBasedBuilder):
  """TFDS data set of images under one common corruption (Hendrycks and Dietterich 2019)."""

  CONFIG = CorruptedConfig
  PARSE_NAME = staticmethod(parse_name)
  BUILDER_CONFIGS = [
    # the configs that TFDS lists; configs of other bases are found by names of the same form
    parse_name(f'{base}_{name}')
    for base in LISTED_BASES
    for name in (CLEAN_NAME, *(f'{name}_{s}' for name in NAMES for s in SEVERITIES))
  ]
  DESCRIPTION, PAPER = DESCRIPTION, 'hendrycks2019benchmarking'
  HOMEPAGE = 'https://arxiv.org/abs/1903.12261'
  IN_ORDER = True  # examples are stored in the order of the base
  # fields that are not compared as settings: `beam`, and paths, because their files are compared
  PATHS = ('base_dir', 'photographs', 'beam')

  def __init__(self, **kwargs: object):
    super().__init__(**kwargs)
    self._has_chosen_config = kwargs.get('config') is not None

  def download_and_prepare(self, **kwargs: Any) -> None:
    """Prepares the corrupted images, unless this is done already.

    The uncorrupted data set is downloaded if necessary.

    Raises:
      InputError: no config is chosen. TFDS would then use the first config, which has clean images.
    """
    if not self._has_chosen_config:
      raise InputError(
        f'corrupted has no default: TFDS would take {self.builder_config.name!r}. Give base, '
        "corruption and severity, as in 'corrupted/cifar10_fog_3'."
      )
    super().download_and_prepare(**kwargs)

  def features(self) -> dict[str, made_of.Feature]:
    """Returns the features of an example: `image`, `label` and `example_id`."""
    return {**self.base_features(), 'example_id': tfds.features.Scalar(dtype=np.int64)}

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, object]:
    """Returns the examples of each split, and stores the settings in the TFDS metadata.

    Stored settings are resolved: for instance, the default `constants=0` is replaced by the table
    of corruption strengths that is used. The base data set is downloaded if it is not prepared.
    """
    config = self.builder_config
    base = prepared_builder(config.base, self.base_dir)
    self.note_inputs()
    generators = {}
    for split in config.splits or (default_split(base),):
      rows = made_of.open_base(config, self.base_dir, split, key='splits')
      table = table_for(*rows.image_shape[:2], config.constants or None)  # by height and width
      facts = {
        **self.info.metadata[made_of.SETTINGS],
        'base': base.info.full_name,
        'corruption_number': CLEAN if config.is_clean else NUMBERS[config.corruption],
        'constants': table.side,
        'frost': (config.photographs or 'procedural') if config.corruption == 'frost' else '',
        'interpolation': config.interpolation if config.resize else '',
        'resized_by': config.resized_by if config.resize else '',
      }
      self.info.metadata.update(facts)  # the same for all splits, which have images of one size
      blocks = range(num_blocks(rows.num_examples, made_of.BLOCK))
      examples = functools.partial(block_examples, config, self.base_dir, split)
      generators[split.partition('[')[0]] = self._generate_examples(blocks, examples)
    return generators

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """Returns the SHA-256 of all input files, to detect that they have changed.

    Returns:
      `{'base': digest of the base data set, 'photographs': digest of the frost photographs}`, with
      '' if no photographs are used.
    """
    photographs = self.builder_config.photographs
    digest = textures.describe(photographs)['sha256'] if photographs else ''
    return {**super().input_digests(manual_dir), 'photographs': digest}


def block_examples(
  config: CorruptedConfig, base_dir: str, split: str, block: int
) -> Iterator[Example]:
  """Yields `(example id, example)` for each corrupted image of one block.

  Args:
    config: config of the data set.
    base_dir: TFDS folder of the uncorrupted data set.
    split: split of the uncorrupted data set.
    block: index of the block; blocks have `BLOCK` images.
  """
  rows = made_of.open_base(config, base_dir, split, key='splits')
  [batch] = rows.batches(made_of.BLOCK, [block])
  images = corruptor(config, rows.image_shape)(batch['image'], batch['example_id'])
  for index in np.flatnonzero(batch['mask']):  # without the padding of the last block
    key = int(batch['example_id'][index])
    yield key, {'image': images[index], 'label': int(batch['label'][index]), 'example_id': key}


@functools.lru_cache(maxsize=4)
def corruptor(
  config: CorruptedConfig, image_shape: tuple[int, int, int]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
  """Returns a compiled function that corrupts a batch of images.

  Args:
    config: corruption, severity and further settings.
    image_shape: (H, W, C) of the images.

  Returns:
    A function of images, float32 [B, H, W, C] in [0, 1], and example ids, int32 [B], that returns
    corrupted images, uint8 [B, H, W, C].
  """
  if config.is_clean:
    return lambda images, ids: np.rint(images * 255).astype(np.uint8)
  names = (config.corruption,)
  # raises InputError if the images are too small for the corruption
  table = checked_table(image_shape[:2], names, None, side=config.constants or None, options={})
  options = {}
  if config.corruption == 'frost' and config.photographs:
    options = {'frost': {'photographs': textures.load_photographs(config.photographs)}}
  apply = functools.partial(
    corruptions.apply, names=names, quantize=config.quantize, side=table.side, options=options
  )
  # the random numbers of an image depend on the seed, its id and the view, as in the study
  root = random_keys.stream(config.seed, STREAM)
  view = jnp.int32(view_id(config.corruption, config.severity))

  def show(
    image: jax.Array, example_id: jax.Array, index: jax.Array, severity: jax.Array
  ) -> jax.Array:
    """Returns an image under `names[index]` at a severity; its id sets the random numbers."""
    return apply(random_keys.for_example(root, example_id, view), image, index, severity)

  only_index, severity = np.int32(0), np.int32(config.severity)  # `names` has one corruption
  return functools.partial(made_of.compiled(show), index=only_index, severity=severity)
