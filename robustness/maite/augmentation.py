"""A corruption with MAITE's protocol `Augmentation`."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from robustness.core import random_keys, user_data
from robustness.core.rows import as_float32
from robustness.core.user_code import part_name
from robustness.corruptions import catalog
from robustness.corruptions.names import STREAM, view_id

Batch = tuple[Sequence[Any], Sequence[Any], Sequence[Mapping[str, Any]]]
"""Images (C, H, W), one-hot targets (classes,), and metadata with the key `id`."""


@dataclasses.dataclass(frozen=True)
class MaiteAugmentation:
  """A corruption that MAITE accepts as an augmentation (its protocol `Augmentation`).

  Attributes:
    metadata: {'id': name and severity}, such as 'fog 3'.
    name: name of the corruption.
    severity: severity in [1, 5].
    seed: seed of the random numbers.
    options: keywords of `robustness.corrupt`.
  """

  metadata: Mapping[str, Any]
  name: str
  severity: float
  seed: int
  options: Mapping[str, Any]

  def __call__(self, batch: Batch, /) -> Batch:
    """Corrupts a batch, and returns the images in their type with targets and metadata unchanged.

    Args:
      batch: images (C, H, W), one-hot targets (classes,), and metadata with the key 'id'.

    Raises:
      InputError: images are not (C, H, W) or not in [0, 1], or an option is not valid.
    """
    images, targets, metadata = batch
    corrupted = [self._corrupt(x, datum['id']) for x, datum in zip(images, metadata, strict=True)]
    return corrupted, targets, metadata

  def _corrupt(self, image: Any, datum_id: int | str) -> np.ndarray:
    """Corrupts an image (C, H, W) with random numbers that its id decides.

    They are those of this package's studies for the same seed, example and corruption. Images of
    uint8 stay uint8, and others are floats in [0, 1].

    Args:
      image: array (C, H, W).
      datum_id: id of the image; a text is hashed to a number.
    """
    [array] = user_data.stacked_images([image])  # (H, W, C)
    is_8_bit = array.dtype == np.uint8
    number = zlib.crc32(datum_id.encode()) if isinstance(datum_id, str) else int(datum_id)
    # the key of the studies of corruptions for this example and view
    view = jnp.uint32(view_id(part_name(self.name), self.severity))
    root = random_keys.stream(self.seed, STREAM)
    key = random_keys.for_example(root, jnp.uint32(number % 2**32), view)
    options = {'quantize': 'floor' if is_8_bit else None, **self.options}
    corrupted = catalog.corrupt(key, as_float32(array), self.name, self.severity, **options)
    channels_first = np.asarray(corrupted).transpose(2, 0, 1)
    return np.rint(255 * channels_first).astype(np.uint8) if is_8_bit else channels_first


def as_maite_augmentation(
  name: str, severity: float, seed: int = 0, **options: Any
) -> MaiteAugmentation:
  """Returns a corruption as an augmentation for MAITE (its protocol `Augmentation`).

  The id of an image decides its random numbers, in batches of any size. Studies of corruptions with
  the same seed and ids use the same random numbers. A string as id is replaced by its CRC-32.

  Args:
    name: a corruption, or `FILE.py:NAME`; see `robustness.corrupt`.
    severity: in [1, 5].
    seed: seed of the random numbers.
    **options: keywords of `robustness.corrupt`. Images of 8 bits have quantize='floor' by default.

  Raises:
    InputError: the name is unknown, or the severity outside [1, 5].
  """
  # raise InputError for a name and a severity that are not valid
  catalog.find(name)
  catalog.number_severities(float(severity))
  return MaiteAugmentation({'id': f'{name} {severity:g}'}, name, severity, seed, options)
