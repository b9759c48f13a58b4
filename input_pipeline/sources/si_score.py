"""Stored scenes of SI-Score with their factors: the released sets, or sets made here.

The TFDS set `siscore` (size, location, rotation) holds images, labels and numbers of images; the
factors stand in the archive's metadata.csv and are joined by number. Sets of the builder
`si_score_scenes` hold their factors themselves. `dataset_label` of `siscore` is not read: its names
are not those of its numbers.

A subset of k takes all scenes of k pairs of object and background, since levels are compared on
the same pairs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from input_pipeline import scene_metadata
from input_pipeline.images import Images
from input_pipeline.selection import choose_subset
from input_pipeline.settings import DataSettings, Source
from input_pipeline.sources.tfds import Tfds
from robustness.core.errors import InputError
from robustness.models.imagenet_names import WNIDS

if TYPE_CHECKING:
  from input_pipeline.tfds_sets import Split

COLUMNS = ('image_id', 'area', 'angle', 'x', 'y', 'object', 'background', 'fraction_inside')


class SiScore(Source):
  """Stored scenes of SI-Score with their factors: the released sets, or sets made here."""

  resized_on_device = True

  def open(self, settings: DataSettings) -> Images:
    """See `Source`; `settings.path` is the set's metadata.csv, for sets that hold no factors."""
    from input_pipeline import tfds_sets

    images = Tfds().open(settings)
    builder = tfds_sets.find_builder(settings.name, settings.data_dir)
    columns = _columns(tfds_sets.Split(builder, settings.split), settings.path)
    pairs = np.unique(
      np.stack([columns['object'], columns['background']]), axis=1, return_inverse=True
    )[1].ravel()
    facts = {'stored': True, 'pairs': int(pairs.max()) + 1, 'metadata': settings.path}
    return dataclasses.replace(
      images,
      class_names=WNIDS,
      columns=columns,
      as_stored=True,
      choose=functools.partial(choose_pairs, pairs),
      description={**images.description, **facts},
    )


def choose_pairs(pairs: np.ndarray, num_pairs: int, seed: int) -> np.ndarray:
  """Returns the positions of all scenes of some pairs, ascending.

  Args:
    pairs: int [N], the pair of every scene, 0 .. P - 1.
    num_pairs: how many pairs to choose; 0 takes all.
    seed: fixes the choice.
  """
  chosen = choose_subset(int(pairs.max()) + 1, num_pairs, seed)
  return np.flatnonzero(np.isin(pairs, chosen))


def _columns(split: Split, path: str) -> dict[str, np.ndarray]:
  """Returns the factors that a set holds itself, or those of its metadata.csv."""
  features, name = split.builder.info.features, split.builder.info.full_name
  if set(COLUMNS) <= set(features):
    return _narrow(split.numbers(COLUMNS))
  if 'image_id' not in features:
    raise InputError(
      f"data set {name!r} has no feature 'image_id': it is neither TFDS 'siscore' "
      "nor of the builder 'si_score_scenes'."
    )
  if not path:
    raise InputError(
      f'config.data.path is empty; {name!r} holds no factors. Give the metadata.csv of its archive.'
    )
  stored = split.numbers(('image_id', 'label'))
  factors = scene_metadata.join(path, stored['image_id'])
  _check_classes(path, factors['foreground_class'], stored['label'])
  classes = np.stack([factors['foreground_class'], factors['foreground_instance']])
  objects = np.unique(classes, axis=1, return_inverse=True)[1].ravel()
  return _narrow(
    {
      'image_id': stored['image_id'],
      'area': factors['area'],
      'angle': factors['rotation'],
      'x': factors['x_coord'],
      'y': factors['y_coord'],
      'object': objects,
      'background': factors['background'],
      'fraction_inside': factors['pct_inside_image'],
    }
  )


def _check_classes(path: str, classes: np.ndarray, labels: np.ndarray) -> None:
  """Refuses a table in which one class has images of several labels."""
  met = np.unique(np.stack([classes, labels]), axis=1)
  several = met[0, 1:][met[0, 1:] == met[0, :-1]]
  if len(several):
    labels_met = met[1, met[0] == several[0]].tolist()
    raise InputError(
      f'{path}: images of foreground_class {int(several[0])} have the labels '
      f'{labels_met}. Is it the table of another factor?'
    )


def _narrow(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Returns the columns as rows carry them: int32 and float32."""
  return {
    name: values.astype(np.float32 if values.dtype.kind == 'f' else np.int32)
    for name, values in columns.items()
  }
