"""Makes cutouts for scenes from segmented photographs in the format of Open Images.

A segment is the mask of one object. A table of segments states its image, class and box; a table of
boxes states whether an object is occluded, truncated, and so on. The two are joined by image, class
and coordinates. Of the tables of the training split, which hold millions of boxes, only the lines
of the selected classes are kept.

OUT/foregrounds/<class>/<mask>.png are the cutouts. OUT/cutouts.csv has a line for each, which can
be deleted by hand to remove the cutout. OUT/sheets/<class>_<page>.png show the cutouts with their
numbers, and OUT/rejected.csv states why each other segment was left out.

Reference: Yung et al., SI-Score, 2021, section 2; Kuznetsova et al., The Open Images Dataset V4.
"""

import contextlib
import csv
import dataclasses
import math
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFont
from tqdm import tqdm

from input_pipeline.image_files import folders_in, opened, read_image
from robustness.core.errors import InputError
from robustness.core.settings import choice
from robustness.scenes.classes import IMAGENET_INDEX, imagenet_index

FLAGS = ('IsOccluded', 'IsTruncated', 'IsGroupOf', 'IsDepiction', 'IsInside')
"""Columns of the table of boxes that describe an object."""
MAX_BOX_DISTANCE = 1e-3  # the tables round coordinates to different numbers of digits
_SEGMENT_BOX = ('BoxXMin', 'BoxXMax', 'BoxYMin', 'BoxYMax')
"""Columns with the box in the table of segments, and in the table of boxes."""
_BOX = ('XMin', 'XMax', 'YMin', 'YMax')
_OBJECT = ('ImageID', 'LabelName')
"""Columns with image and class in both tables."""
LINES_AT_ONCE = 2**19
"""Lines of a table that are read at once."""

SUFFIXES = ('.jpg', '.jpeg', '.png')
"""Suffixes of the photographs."""
LIST, REJECTED = 'cutouts.csv', 'rejected.csv'
"""Files with the cutouts, and with the segments that are left out."""
FOREGROUNDS, SHEETS, REMOVED = 'foregrounds', 'sheets', 'removed'
"""Folders of the cutouts, of the contact sheets, and of removed cutouts."""
THUMBNAILS, ROWS = 8, 6
"""Thumbnails in a row of a contact sheet, and rows of a sheet."""
SIDE, CAPTION = 144, 16
"""Side of a thumbnail and height of the caption below it, in pixels."""
_LIGHT, _DARK, _SQUARE = 225, 190, 8
"""Levels and side in pixels of the squares of the checkerboard that shows transparent pixels."""
Line = dict[str, object]
"""A line of a table, {column: value}."""


@dataclasses.dataclass(frozen=True)
class Segment:
  """An object in a photograph, with a mask of its pixels.

  Attributes:
    image_id: file name of the photograph without suffix.
    mask: file name of the mask.
    class_name: a class of SI-Score.
    flags: {name in `FLAGS`, such as 'IsOccluded': 1 true, 0 false, −1 unknown}; {} if no box
      matches the object.
  """

  image_id: str
  mask: str
  class_name: str
  flags: Mapping[str, int]


def read_class_names(path: Path, only: Collection[str] = ()) -> dict[str, str]:
  """Returns {identifier: class of SI-Score}, such as {'/m/01fb_0': 'bagel'}, from a CSV file.

  The file has lines 'identifier,English name' and no header. Only classes of SI-Score are
  returned, and of these only the classes in `only`, unless it is empty.
  """
  with _refusals(path), path.open(newline='', encoding='utf-8-sig') as file:
    lines = [line for line in csv.reader(file) if len(line) == 2]
  class_of = {key: name.lower() for key, name in lines if name.lower() in IMAGENET_INDEX}
  if not class_of:
    raise InputError(
      f'{path}: none of its {len(lines)} lines names a class of SI-Score; expected '
      "lines such as '/m/01fb_0,Bagel' (class-descriptions-boxable.csv)."
    )
  for name in only:
    choice('class', name, class_of.values())
  return {key: name for key, name in class_of.items() if not only or name in only}


def read_segments(segments: Path, boxes: Path, names: Mapping[str, str]) -> list[Segment]:
  """Returns the segments of the classes in `names`, with the flags of their boxes.

  Args:
    segments: table of masks (train-annotations-object-segmentation.csv or like it).
    boxes: table of boxes of the same split (oidv6-train-annotations-bbox.csv or like it).
    names: {value of the column LabelName: class}, such as {'/m/01fb_0': 'bagel'}.
  """
  table = _read(segments, (*_OBJECT, 'MaskPath'), _SEGMENT_BOX, {'LabelName': [*names]})
  filters = {'LabelName': [*names], 'ImageID': [*table.ImageID]}
  boxes_table = _read(boxes, _OBJECT, (*_BOX, *FLAGS), filters)
  # every segment with every box of its image and class; `index` is the number of the segment
  pairs = table.reset_index().merge(boxes_table, on=[*_OBJECT])
  differences = np.abs(pairs[[*_SEGMENT_BOX]].to_numpy() - pairs[[*_BOX]].to_numpy())  # [pairs, 4]
  pairs['distance'] = differences.max(1)
  matches = pairs[pairs['distance'] <= MAX_BOX_DISTANCE].sort_values('distance', kind='stable')
  matches = matches.drop_duplicates('index')  # the nearest box of each segment
  flags = matches.set_index('index')[[*FLAGS]].astype(int).to_dict('index')
  return [
    Segment(row.ImageID, row.MaskPath, names[row.LabelName], flags=flags.get(row.Index, {}))
    for row in table.itertuples()
  ]


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
  """A context for reading a table, which converts errors of an unreadable file to InputError.

  `path` is the path of the table, for the message.
  """
  if path.exists() and not path.is_file():  # reading a pipe would wait for its other end
    raise InputError(f'cannot read the table {path}: it is no regular file.')
  try:
    yield
  except OSError as error:
    raise InputError(f'cannot read the table {path}: {error.strerror}.') from error
  except (UnicodeDecodeError, csv.Error, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
    problem = f'cannot read the table {path}: {error}'
    raise InputError(f'{problem}. Unpack it if it is compressed.') from error


def _read(
  path: Path,
  text_columns: Sequence[str],
  number_columns: Sequence[str],
  allowed: Mapping[str, Collection[str]],
) -> pd.DataFrame:
  """Returns the named columns of the lines of a table that have allowed values.

  Args:
    path: a CSV file.
    text_columns: columns that are returned as strings.
    number_columns: columns that are returned as numbers.
    allowed: {column: allowed values}; a line is returned if each of these columns has one of its
      allowed values.

  Raises:
    InputError: the table cannot be read, lacks a column, or has a field that is no number in one of
      `number_columns`.
  """
  columns = [*text_columns, *number_columns]
  options = {'dtype': str, 'na_filter': False, 'encoding': 'utf-8-sig'}
  with _refusals(path):
    header = [*pd.read_csv(path, nrows=0, **options)]
    if missing := [name for name in columns if name not in header]:
      raise InputError(
        f'{path} has no column {missing[0]!r}; its columns: {", ".join(header)}. '
        f'Needed: {", ".join(columns)}.'
      )
    parts = []
    for part in pd.read_csv(path, usecols=columns, chunksize=LINES_AT_ONCE, **options):
      is_allowed = part[[*allowed]].isin(allowed).all(axis=1)  # whether a line is returned
      parts.append(part[is_allowed])
    table = pd.concat(parts)
  for name in number_columns:
    column = pd.to_numeric(table[name], errors='coerce')
    if column.isna().any():
      row = column.index[column.isna()][0]
      line = row + 2  # the header is line 1
      raise InputError(
        f'{path}, line {line}: {name} is {table[name][row]!r}; a number is expected. Is the '
        'table cut short? Fetch it again.'
      )
    table[name] = column
  return table


@dataclasses.dataclass(frozen=True)
class Filters:
  """The conditions that a segment must meet.

  Attributes:
    absent: flags that must not be present; the paper's are IsOccluded and IsTruncated. An unknown
      flag (-1) counts as absent.
    min_side: pixels that the shorter side of the cutout must have; the paper names no minimum.
    min_fill: fraction of the rectangle that the mask must fill; the paper names no minimum.
  """

  absent: Sequence[str] = ('IsOccluded', 'IsTruncated')
  min_side: int = 1
  min_fill: float = 0.0


def cut(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """Cuts an object out: returns its bounding rectangle, uint8 [h', w', 4], with alpha 255 or 0.

  Args:
    image: uint8 [H, W, 3].
    mask: bool [h, w], True on the object. It may have another resolution than the image, as in Open
      Images, but must have the same aspect ratio.
  """
  height, width = image.shape[:2]
  mask_height, mask_width = mask.shape
  # The ratios are equal if mask_height / mask_width = height / width. The sides of a scaled mask
  # are rounded to pixels, so that one of them may be wrong by one pixel.
  error = abs(mask_height * width - mask_width * height)
  if error > max(height, width):
    raise InputError(f'mask of {mask_width}×{mask_height} for an image of {width}×{height}')
  if mask.shape != (height, width):
    resized = Image.fromarray(mask).resize((width, height), Image.Resampling.NEAREST)
    mask = np.asarray(resized)
  if not mask.any():
    raise InputError('empty mask')
  y, x = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))  # rows and columns of the object
  inside = np.s_[y[0] : y[-1] + 1, x[0] : x[-1] + 1]
  return np.dstack([image[inside], mask[inside].astype(np.uint8) * 255])


def extract(
  segments: Sequence[Segment], images: Path, masks: Path, out: Path, filters: Filters
) -> Counter[str]:
  """Cuts segmented objects out of photographs, and writes the cutouts with a list to `out`.

  Files are foregrounds/<class>/<mask>.png, their list cutouts.csv, sheets of thumbnails to look
  through, and rejected.csv, the segments that do not pass the filters.

  Args:
    segments: the segmented objects; cutouts are numbered in the order of class, image and mask.
    images: folder of photographs named by image_id.
    masks: folder of masks.
    out: a folder that holds no cutouts.csv and no foregrounds yet.
    filters: the conditions that a segment must meet.

  Returns:
    {'kept': number of cutouts, reason such as 'too small': number of segments left out for it}.
  """
  # {file or folder of an earlier run, which is not overwritten: what is special about it}
  outputs = {LIST: 'with lines deleted by hand', FOREGROUNDS: 'of an interrupted run'}
  for name, state in outputs.items():
    if (out / name).exists():
      raise InputError(
        f'{out / name} exists already, perhaps {state}; choose another folder with --out=DIR, or '
        'remove it.'
      )
  entries: list[Line] = []
  rejected: list[Line] = []
  ordered = sorted(segments, key=lambda s: (s.class_name, s.image_id, s.mask))
  for segment in tqdm(ordered, desc='cutouts', disable=None):
    try:
      pixels, fill = _cut_segment(segment, images, masks, filters)
    except InputError as left_out:
      reason = str(left_out)
      rejected.append({'mask': segment.mask, 'class': segment.class_name, 'reason': reason})
      continue
    file = Path(FOREGROUNDS) / segment.class_name / f'{Path(segment.mask).stem}.png'
    (out / file).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(out / file)
    entry = {
      'number': len(entries) + 1,
      'file': str(file),
      'class': segment.class_name,
      'imagenet_index': imagenet_index(segment.class_name),
      'image_id': segment.image_id,
      'width': pixels.shape[1],
      'height': pixels.shape[0],
      'fill': round(fill, 4),  # fraction of the rectangle that the mask fills
    }
    entries.append({**entry, **segment.flags})
  _write(out / REJECTED, ('mask', 'class', 'reason'), rejected)
  reasons = Counter(_kind(str(entry['reason'])) for entry in rejected)
  if not entries:
    listed = ', '.join(f'{reason}: {count}' for reason, count in reasons.most_common())
    raise InputError(
      f'none of {len(segments)} segments became a cutout ({listed}); '
      f'{out / REJECTED} has a line each.'
    )
  _write_sheets(out, entries)
  _write(out / LIST, tuple(entries[0]), entries)
  return Counter({'kept': len(entries), **reasons})


def _cut_segment(
  segment: Segment, images: Path, masks: Path, filters: Filters
) -> tuple[np.ndarray, float]:
  """Returns a cutout, uint8 [h, w, 4], and the fraction of its rectangle that the mask fills.

  Args:
    segment: the object and the flags of its box.
    images: folder of the photographs.
    masks: folder of the masks.
    filters: the conditions that the segment must meet.

  Raises:
    InputError: the object is left out; the message is the reason.
  """
  if not segment.flags:
    raise InputError('no box in the table of boxes')
  if tagged := [flag for flag in filters.absent if segment.flags[flag] == 1]:
    raise InputError(', '.join(tagged))
  files = [images / f'{segment.image_id}{suffix}' for suffix in SUFFIXES]
  photos = [file for file in files if os.path.isfile(file)]
  if not photos:
    raise InputError(f'no image {images / segment.image_id} ({", ".join(SUFFIXES)})')
  if not os.path.isfile(masks / segment.mask):
    raise InputError(f'no mask {masks / segment.mask}')
  image = read_image(str(photos[0]), channels=3)
  mask = read_image(str(masks / segment.mask), channels=3)
  pixels = cut(image, mask.max(-1) > 0)
  height, width = pixels.shape[:2]
  fill = float((pixels[..., 3] > 0).mean())
  if min(height, width) < filters.min_side:
    raise InputError(f'{width}×{height} pixels, below {filters.min_side}')
  if fill < filters.min_fill:
    raise InputError(f'mask fills {fill:.2f}, below {filters.min_fill:g}')
  return pixels, fill


def _kind(reason: str) -> str:
  """Returns the reason for leaving out a segment without file names and numbers, for counting.

  'too small' stands for '20×9 pixels, below 10', and 'no mask' for 'no mask masks/1.png'.
  """
  kinds = ('no mask', 'no image', 'unreadable image', 'mask of', 'mask fills')
  default = 'too small' if ', below' in reason else reason
  return next((kind for kind in kinds if reason.startswith(kind)), default)


def _write_sheets(out: Path, entries: Sequence[Line]) -> None:
  """Writes a contact sheet per class: thumbnails of the listed cutouts with numbers and sizes."""
  (out / SHEETS).mkdir(parents=True, exist_ok=True)
  for name in sorted({str(entry['class']) for entry in entries}):
    of_class = [entry for entry in entries if entry['class'] == name]
    for page, first in enumerate(range(0, len(of_class), THUMBNAILS * ROWS), 1):
      sheet = _sheet(out, of_class[first : first + THUMBNAILS * ROWS])
      sheet.save(out / SHEETS / f'{name}_{page}.png')


def _sheet(out: Path, entries: Sequence[Line]) -> Image.Image:
  """Returns a contact sheet: thumbnails of the listed cutouts with their numbers and sizes.

  `entries` are lines of cutouts.csv, and `out` is the folder that their files are relative to.
  """
  rows = math.ceil(len(entries) / THUMBNAILS)
  page = Image.new('RGB', (THUMBNAILS * SIDE, rows * (SIDE + CAPTION)), 'white')
  draw, font = ImageDraw.Draw(page), ImageFont.load_default()
  squares = (np.indices((SIDE, SIDE)) // _SQUARE).sum(0) % 2  # 0 and 1 as on a checkerboard
  ground = Image.fromarray(np.where(squares, _LIGHT, _DARK).astype(np.uint8)).convert('RGB')
  for number, entry in enumerate(entries):
    row, column = divmod(number, THUMBNAILS)
    x, y = column * SIDE, row * (SIDE + CAPTION)
    with opened(str(out / str(entry['file']))) as image:
      small = image.convert('RGBA')
    small.thumbnail((SIDE - 4, SIDE - 4))  # a margin of two pixels
    page.paste(ground, (x, y))
    page.paste(small, (x + (SIDE - small.width) // 2, y + (SIDE - small.height) // 2), small)
    caption = f'{entry["number"]}  {entry["width"]}x{entry["height"]}'
    draw.text((x + 2, y + SIDE + 1), caption, fill='black', font=font)
  return page


def prune(out: Path) -> int:
  """Moves cutouts that cutouts.csv no longer lists to OUT/removed; returns their number."""
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
  for folder in folders_in(out / FOREGROUNDS).values():
    if not any(folder.iterdir()):
      folder.rmdir()  # all cutouts of the class were deleted
  return len(present - listed)


def _write(path: Path, columns: Sequence[str], rows: Sequence[Line]) -> None:
  """Writes rows as a CSV file."""
  path.parent.mkdir(parents=True, exist_ok=True)
  pd.DataFrame(rows, columns=columns).to_csv(path, index=False, lineterminator='\n')
