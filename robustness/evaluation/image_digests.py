"""Which images a run was shown: a digest of each, and one of all."""

from __future__ import annotations

import hashlib
import zlib

import numpy as np

from robustness.evaluation.records import Records

IMAGE_DIGEST = 'image_digest'
LEVELS = np.arange(256, dtype=np.float32) / np.float32(255)
"""Of 8-bit pixels, in [0, 1]."""


def image_digests(images: np.ndarray) -> np.ndarray:
  """Returns the CRC-32 of each image, uint32 [B]; runs on the same images have the same.

  It is that of the 8-bit pixels, also where these are stored as floats in [0, 1].
  """
  return np.array([zlib.crc32(_in_8_bits(image).tobytes()) for image in images], np.uint32)


def _in_8_bits(image: np.ndarray) -> np.ndarray:
  """Returns the uint8 levels of an image that has no values between them, else the image."""
  if image.dtype == np.uint8:
    return image
  levels = np.rint(image * 255).astype(np.uint8)
  return levels if np.array_equal(LEVELS[levels], image) else image


def data_digest(records: Records) -> str:
  """Returns 12 hexadecimal digits that tell the images of a run, whatever their order.

  Returns:
    '' for records of an earlier version, which have no digests of images.
  """
  if IMAGE_DIGEST not in records.read(0, 0).arrays:
    return ''
  ids, digests = records.column('example_id'), records.column(IMAGE_DIGEST)
  order = np.argsort(ids, kind='stable')
  table = np.stack([ids[order].astype('<i8'), digests[order].astype('<i8')])
  return hashlib.sha256(table.tobytes()).hexdigest()[:12]
