"""TFDS data set `corrupted`: any base data set under a common corruption at a severity, lossless.

`tfds.load('corrupted/cifar10_fog_3')` after `import input_pipeline.builders`: the config's name is
<base>_<corruption>_<severity>, or <base>_clean for the images as they are. All other choices are
fields of `CorruptedConfig`. Examples are `image` (PNG), `label` and `example_id`, the position in
the base split, in that order.

Image i is what the study `corruption_error` shows for example i with the same seed, constants and
quantisation: key fold_in(fold_in(stream(seed, 'corruption_error'), i), view id). On a CPU that is
so bit for bit; an accelerator sums in an order that depends on the batch, so that there a level may
differ by one where a value lies on a threshold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow_datasets as tfds

import input_pipeline
from input_pipeline.builders.corrupted_config import (
  CorruptedConfig,
  default_split,
  named_configs,
  parse_name,
)
from input_pipeline.builders.made_of import MadeOfBase
from input_pipeline.settings import DataSettings
from input_pipeline.sources.tfds_source import check_features, find_builder, prepared_builder
from robustness import corruptions
from robustness.core import random_keys
from robustness.core.rows import Rows, num_blocks
from robustness.core.sequential import map_entries
from robustness.corruptions import textures
from robustness.corruptions.catalog import checked_table
from robustness.corruptions.names import STREAM, view_id

BLOCK = 256  # images that are corrupted at once, and that a Beam worker takes
DESCRIPTION = """\
A data set under one of the 19 common corruptions (Hendrycks and Dietterich 2019) at a severity of
1..5, to measure how much of a classifier's accuracy is left. An example is an image of the base's
split with its label, and `example_id`, its position in that split; the order is the base's. The
config's name is <base>_<corruption>_<severity>, or <base>_clean for the images as they are. The
metadata say what fixes the images: base, corruption, severity, table of constants, quantisation,
frost and seed.
"""
CITATION = """\
@inproceedings{hendrycks2019benchmarking,
  title={Benchmarking Neural Network Robustness to Common Corruptions and Perturbations},
  author={Hendrycks, Dan and Dietterich, Thomas},
  booktitle={International Conference on Learning Representations},
  year={2019}
}"""
Example = tuple[int, dict[str, Any]]


class Corrupted(MadeOfBase, tfds.core.GeneratorBasedBuilder):
  """Images of a base data set under one common corruption (Hendrycks and Dietterich 2019)."""

  CONFIG = CorruptedConfig
  PARSE_NAME = staticmethod(parse_name)
  VERSION = tfds.core.Version('1.0.0')
  RELEASE_NOTES = {'1.0.0': 'First release.'}
  BUILDER_CONFIGS = named_configs()

  def _info(self) -> tfds.core.DatasetInfo:
    base = find_builder(self._config.base, self._base_dir)
    image, names = check_features(base)
    return tfds.core.DatasetInfo(
      builder=self,
      description=DESCRIPTION,
      features=tfds.features.FeaturesDict(
        {
          'image': tfds.features.Image(
            shape=self._config.image_shape(image.shape), dtype=np.uint8, encoding_format='png'
          ),
          'label': tfds.features.ClassLabel(names=list(names)),
          'example_id': tfds.features.Scalar(dtype=np.int64),
        }
      ),
      supervised_keys=('image', 'label'),
      metadata=tfds.core.MetadataDict(),
      disable_shuffling=True,
      homepage='https://arxiv.org/abs/1903.12261',
      citation=CITATION,
    )

  def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
    """Opens the base splits, downloaded if need be, and notes how they are corrupted."""
    del dl_manager
    base = prepared_builder(self._config.base, self._base_dir)
    splits = self._config.splits or (default_split(base),)
    generators = {}
    for split in splits:
      rows = open_rows(self._config, self._base_dir, split)
      self.info.metadata.update(self._config.metadata(base.info.full_name, rows.image_shape))
      generators[split.partition('[')[0]] = self._generate_examples(split, rows)
    self.note_inputs('')
    return generators

  def settings(self) -> dict[str, Any]:
    """See `MadeOf`."""
    return self.settings_without('base_dir', 'photographs', 'beam')

  def input_digests(self, manual_dir: str) -> dict[str, str]:
    """See `MadeOf`: of the base's files, and of the photographs of frost."""
    del manual_dir
    photographs = self._config.photographs
    return {
      'base': self.base_digest(),
      'photographs': textures.describe(photographs)['sha256'] if photographs else '',
    }

  def _generate_examples(self, split: str, rows: Rows) -> Any:
    """Returns the examples of a split: an iterator, or with `beam` a transform over blocks."""
    blocks = range(num_blocks(rows.num_examples, BLOCK))
    examples = functools.partial(block_examples, self._config, self._base_dir, split)
    if not self._config.beam:
      return (example for block in blocks for example in examples(block))
    beam = tfds.core.lazy_imports.apache_beam
    return beam.Create(blocks) | beam.Reshuffle() | beam.FlatMap(examples)


@functools.lru_cache(maxsize=4)
def open_rows(config: CorruptedConfig, base_dir: str, split: str) -> Rows:
  """Opens a split of the base data set, as a study opens it."""
  return input_pipeline.load(
    DataSettings(
      source='tfds',
      name=config.base,
      split=split,
      data_dir=base_dir,
      resize=config.resize,
      crop=config.crop,
      interpolation=config.interpolation,
    )
  )


def block_examples(
  config: CorruptedConfig, base_dir: str, split: str, block: int
) -> Iterator[Example]:
  """Yields (position in the split, example) of one block of `BLOCK` images."""
  rows = open_rows(config, base_dir, split)
  (batch,) = rows.batches(BLOCK, [block])
  levels = corruptor(config, rows.image_shape)(batch['image'], batch['example_id'])
  for index in np.flatnonzero(batch['mask']):
    key = int(batch['example_id'][index])
    yield key, {'image': levels[index], 'label': int(batch['label'][index]), 'example_id': key}


@functools.lru_cache(maxsize=4)
def corruptor(
  config: CorruptedConfig, image_shape: tuple[int, int, int]
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
  """Returns the compiled function from images and ids to 8-bit corrupted images.

  Args:
    config: names the corruption.
    image_shape: of the images.

  Returns:
    `(images float32 [B, H, W, C] in [0, 1], example ids int32 [B]) -> uint8 [B, H, W, C]`.

  Raises:
    InputError: images too small for this corruption, or missing photographs.
  """
  if config.is_clean:
    return lambda images, ids: np.rint(images * 255).astype(np.uint8)
  names = (config.corruption,)
  table = checked_table(image_shape[:2], names, None, config.constants or None, {})
  root = random_keys.stream(config.seed, STREAM)
  number = jnp.int32(view_id(config.corruption, config.severity))
  show = functools.partial(
    corruptions.apply,
    names=names,
    quantize=config.quantize,
    side=table.side,
    options=_options(config),
  )

  @jax.jit
  def corrupt(
    images: jax.Array, ids: jax.Array, index: jax.Array, severity: jax.Array
  ) -> jax.Array:
    keys = jax.vmap(lambda i: random_keys.for_example(root, i, number))(ids)
    made = map_entries(lambda key, image: show(key, image, index, severity), keys, images)
    return jnp.round(made * 255).astype(jnp.uint8)

  return lambda images, ids: np.asarray(
    corrupt(images, ids, jnp.int32(0), jnp.int32(config.severity))
  )


def _options(config: CorruptedConfig) -> dict[str, dict[str, Any]]:
  if config.corruption != 'frost' or not config.photographs:
    return {}
  return {'frost': {'photographs': textures.load_photographs(config.photographs)}}
