"""One segment to a tight cutout, or the reason why it is none."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from input_pipeline.cutouts.annotations import Segment
from input_pipeline.image_files import read_image
from robustness.core.errors import InputError

SUFFIXES = ('.jpg', '.jpeg', '.png')


@dataclasses.dataclass(frozen=True)
class Filters:
  """What a segment must fulfil.

  Attributes:
    absent: flags that must not be present; the paper's are IsOccluded and IsTruncated. An unknown
      flag (-1) counts as absent, as only what is tagged is left out.
    min_side: pixels that the shorter side of the cutout must have; the paper names no minimum.
    min_fill: fraction of the cutout's rectangle that the mask must fill; likewise.
  """

  absent: Sequence[str] = ('IsOccluded', 'IsTruncated')
  min_side: int = 1
  min_fill: float = 0.0

  def why_not(self, segment: Segment) -> str:
    """Returns why a segment is left out by its flags alone, or ''."""
    if not segment.flags:
      return 'no box in the table of boxes'
    return ', '.join(flag for flag in self.absent if segment.flags[flag] == 1)

  def why_not_cutout(self, pixels: np.ndarray) -> str:
    """Returns why a cutout [h, w, 4] is left out by its size, or ''."""
    height, width = pixels.shape[:2]
    fill = float((pixels[..., 3] > 0).mean())
    if min(height, width) < self.min_side:
      return f'{width}×{height} pixels, below {self.min_side}'
    return f'mask fills {fill:.2f}, below {self.min_fill:g}' if fill < self.min_fill else ''


def cut(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """Returns the object on its tight rectangle.

  Args:
    image: uint8 [H, W, 3].
    mask: bool [h, w] of the same aspect; another resolution is brought to that of the image by
      the nearest neighbor, since the masks of Open Images are not always as large as the images.

  Returns:
    uint8 [h', w', 4]: the image inside the mask's bounding box; alpha is 255 on the mask, else 0.

  Raises:
    InputError: an empty mask, or one of another aspect.
  """
  height, width = image.shape[:2]
  rows, columns = mask.shape
  if abs(rows * width - columns * height) > max(height, width):  # more than a pixel of rounding
    raise InputError(f'mask of {columns}×{rows} for an image of {width}×{height}')
  if mask.shape != (height, width):
    resized = Image.fromarray(mask).resize((width, height), Image.Resampling.NEAREST)
    mask = np.asarray(resized)
  if not mask.any():
    raise InputError('empty mask')
  y, x = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
  inside = np.s_[y[0] : y[-1] + 1, x[0] : x[-1] + 1]
  return np.dstack([image[inside], mask[inside].astype(np.uint8) * 255])


def cut_segment(segment: Segment, images: Path, masks: Path) -> np.ndarray:
  """Reads a segment's files and cuts it out; see `cut`.

  Raises:
    InputError: a missing or unreadable file, or what `cut` refuses.
  """
  image = read_image(str(_image_file(images, segment.image_id)), channels=3)
  mask_file = masks / segment.mask
  if not mask_file.is_file():
    raise InputError(f'no mask {mask_file}')
  mask = read_image(str(mask_file), channels=3).max(-1) > 0
  return cut(image, mask)


def _image_file(folder: Path, image_id: str) -> Path:
  for suffix in SUFFIXES:
    if (folder / f'{image_id}{suffix}').is_file():
      return folder / f'{image_id}{suffix}'
  raise InputError(f'no image {folder / image_id} ({", ".join(SUFFIXES)})')
