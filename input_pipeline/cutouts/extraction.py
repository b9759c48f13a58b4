"""A folder of cutouts from annotations, and what of it is left after a look at the contact sheets.

OUT/foregrounds/<class>/<mask>.png are the cutouts, OUT/cutouts.csv lists them (a line each, to be
deleted by hand), OUT/sheets/<class>_<page>.png show them under their numbers, and OUT/rejected.csv
says why each other segment was left out.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from tqdm import tqdm

from input_pipeline.cutouts.annotations import FLAGS, Segment
from input_pipeline.image_files import opened, read_image
from robustness.core.errors import InputError
from robustness.scenes.classes import imagenet_index

SUFFIXES = ('.jpg', '.jpeg', '.png')
LIST, REJECTED, FOREGROUNDS, SHEETS, REMOVED = (
  'cutouts.csv',
  'rejected.csv',
  'foregrounds',
  'sheets',
  'removed',
)
COLUMNS = (
  'number',
  'file',
  'class',
  'imagenet_index',
  'image_id',
  'width',
  'height',
  'fill',
  *FLAGS,
)
THUMBNAILS, ROWS, SIDE, CAPTION = 8, 6, 144, 16  # a row and rows a sheet, and their pixels
_LIGHT, _DARK, _SQUARE = 225, 190, 8  # the checkerboard behind what is transparent
Line = dict[str, object]


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


def extract(
  segments: Sequence[Segment], images: Path, masks: Path, out: Path, filters: Filters
) -> Counter[str]:
  """Writes the cutouts of the segments that pass the filters, the list and the contact sheets.

  Args:
    segments: in any order; cutouts are numbered by class, image and mask.
    images: folder of photographs named by image_id.
    masks: folder of masks.
    out: a folder that holds no list yet.
    filters: what a segment must fulfil.

  Returns:
    How many segments were kept ('kept') and left out, by reason.
  """
  if (out / LIST).exists():
    raise InputError(
      f'{out / LIST} exists already, perhaps with lines deleted by hand; choose '
      'another folder with --out=DIR, or remove it.'
    )
  kept: list[Line] = []
  rejected: list[Line] = []
  ordered = sorted(segments, key=lambda s: (s.class_name, s.image_id, s.mask))
  for segment in tqdm(ordered, desc='cutouts', disable=None):
    reason, entry = _extract_one(segment, images, masks, out, filters, len(kept) + 1)
    if reason:
      rejected.append({'mask': segment.mask, 'class': segment.class_name, 'reason': reason})
    else:
      kept.append(entry)
  _write(out / REJECTED, ('mask', 'class', 'reason'), rejected)
  reasons = Counter(_kind(str(entry['reason'])) for entry in rejected)
  if not kept:
    listed = ', '.join(f'{reason}: {count}' for reason, count in reasons.most_common())
    raise InputError(
      f'none of {len(segments)} segments became a cutout ({listed}); '
      f'{out / REJECTED} has a line each.'
    )
  write_sheets(out, kept)
  _write(out / LIST, COLUMNS, kept)
  return Counter({'kept': len(kept), **reasons})


def _extract_one(
  segment: Segment, images: Path, masks: Path, out: Path, filters: Filters, number: int
) -> tuple[str, Line]:
  """Returns (why there is no cutout, {}) or ('', line of the list)."""
  if reason := filters.why_not(segment):
    return reason, {}
  try:
    pixels = _cut_segment(segment, images, masks)
  except InputError as error:
    return str(error), {}
  if reason := filters.why_not_cutout(pixels):
    return reason, {}
  file = Path(FOREGROUNDS) / segment.class_name / f'{Path(segment.mask).stem}.png'
  (out / file).parent.mkdir(parents=True, exist_ok=True)
  Image.fromarray(pixels).save(out / file)
  return '', {
    'number': number,
    'file': str(file),
    'class': segment.class_name,
    'imagenet_index': imagenet_index(segment.class_name),
    'image_id': segment.image_id,
    'width': pixels.shape[1],
    'height': pixels.shape[0],
    'fill': round(float((pixels[..., 3] > 0).mean()), 4),
    **segment.flags,
  }


def _cut_segment(segment: Segment, images: Path, masks: Path) -> np.ndarray:
  """Reads a segment's files and cuts it out; see `cut`."""
  files = [images / f'{segment.image_id}{suffix}' for suffix in SUFFIXES]
  there = [file for file in files if file.is_file()]
  if not there:
    raise InputError(f'no image {images / segment.image_id} ({", ".join(SUFFIXES)})')
  if not (masks / segment.mask).is_file():
    raise InputError(f'no mask {masks / segment.mask}')
  image, mask = (read_image(str(file), channels=3) for file in (there[0], masks / segment.mask))
  return cut(image, mask.max(-1) > 0)


def _kind(reason: str) -> str:
  """Returns a reason without what differs from file to file."""
  kinds = ('no mask', 'no image', 'unreadable image', 'mask of', 'mask fills')
  return next(
    (kind for kind in kinds if reason.startswith(kind)),
    'too small' if ', below' in reason else reason,
  )


def write_sheets(out: Path, entries: Sequence[Line]) -> None:
  """Writes the contact sheets of the listed cutouts, by class, under their numbers and sizes."""
  folder = out / SHEETS
  folder.mkdir(parents=True, exist_ok=True)
  for name in sorted({str(entry['class']) for entry in entries}):
    mine = [entry for entry in entries if entry['class'] == name]
    for first in range(0, len(mine), THUMBNAILS * ROWS):
      page = _sheet(out, mine[first : first + THUMBNAILS * ROWS])
      page.save(folder / f'{name}_{first // (THUMBNAILS * ROWS) + 1}.png')


def _sheet(out: Path, entries: Sequence[Line]) -> Image.Image:
  rows = math.ceil(len(entries) / THUMBNAILS)
  page = Image.new('RGB', (THUMBNAILS * SIDE, rows * (SIDE + CAPTION)), 'white')
  draw = ImageDraw.Draw(page)
  font = ImageFont.load_default()
  for place, entry in enumerate(entries):
    row, column = divmod(place, THUMBNAILS)
    left, top = column * SIDE, row * (SIDE + CAPTION)
    page.paste(_thumbnail(out / str(entry['file'])), (left, top))
    caption = f'{entry["number"]}  {entry["width"]}x{entry["height"]}'
    draw.text((left + 2, top + SIDE + 1), caption, fill='black', font=font)
  return page


def _thumbnail(file: Path) -> Image.Image:
  with opened(str(file)) as image:
    small = image.convert('RGBA')
  small.thumbnail((SIDE - 4, SIDE - 4))
  squares = (np.indices((SIDE, SIDE)) // _SQUARE).sum(0) % 2
  ground = Image.fromarray(np.where(squares, _LIGHT, _DARK).astype(np.uint8)).convert('RGB')
  ground.paste(small, ((SIDE - small.width) // 2, (SIDE - small.height) // 2), small)
  return ground


def prune(out: Path) -> int:
  """Moves cutouts whose lines were deleted from the list to OUT/removed.

  Returns:
    How many were moved.
  """
  if not (out / LIST).is_file():
    raise InputError(f'{out} holds no {LIST}; run the command `extract` first.')
  with (out / LIST).open(newline='', encoding='utf-8') as lines:
    listed = {row.get('file') for row in csv.DictReader(lines)}
  present = {str(f.relative_to(out)) for f in (out / FOREGROUNDS).rglob('*.png')}
  absent = sorted(str(file) for file in listed - present)
  if not listed or absent:
    wrong = f'lists {absent[0]!r}, which is not there' if absent else 'lists no cutout'
    raise InputError(f'{out / LIST} {wrong}; delete whole lines only, and keep the first.')
  for file in sorted(present - listed):
    target = out / REMOVED / Path(file).relative_to(FOREGROUNDS)
    target.parent.mkdir(parents=True, exist_ok=True)
    (out / file).rename(target)
  return len(present - listed)


def _write(path: Path, columns: Iterable[str], rows: Iterable[Line]) -> None:
  text = io.StringIO()
  writer = csv.DictWriter(text, list(columns), lineterminator='\n')
  writer.writeheader()
  writer.writerows(rows)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text.getvalue(), encoding='utf-8')
