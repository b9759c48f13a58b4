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
  """An object in a photograph, with the file of its pixel mask.

  Attributes:
    image_id: file name of the photograph without suffix.
    mask: file name of the mask.
    class_name: a class of SI-Score.
    flags: properties of the object from the table of boxes, with the keys `FLAGS`, such as
      `{'IsOccluded': 1}`: 1 true, 0 false, −1 unknown. {} if no box matches the object.
  """

  image_id: str
  mask: str
  class_name: str
  flags: Mapping[str, int]


def read_class_names(path: Path, only: Collection[str] = ()) -> dict[str, str]:
  """Reads the identifiers of SI-Score's classes, such as `{'/m/01fb_0': 'bagel'}`.

  Args:
    path: CSV file without header and with lines 'identifier,English name'. Other classes are
      ignored.
    only: classes to return; () returns all.
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
  """Reads the segmented objects of some classes from two tables of Open Images.

  Args:
    segments: table of masks, such as train-annotations-object-segmentation.csv.
    boxes: table of boxes of the same split, such as oidv6-train-annotations-bbox.csv. It adds
      properties such as 'IsOccluded' to the objects.
    names: identifiers and names of the classes, such as {'/m/01fb_0': 'bagel'}.
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
  """A context manager that turns errors of reading a table into InputErrors.

  Args:
    path: path of the table, for the message.
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
  """Reads some columns and rows of a large CSV file.

  Args:
    path: the CSV file.
    text_columns: columns that are returned as strings.
    number_columns: columns that are returned as numbers.
    allowed: {column: allowed values}; rows with other values in these columns are left out.

  Raises:
    InputError: the file cannot be read, lacks a column, or has text in a numeric column.
  """
  columns = [*text_columns, *number_columns]
  options = {'dtype': str, 'na_filter': False, 'encoding': 'utf-8-sig'}
  with _refusals(path):
    header = [*pd.read_csv(path, nrows=0, **options)]
    if missing := [name for name in columns if name not in header]:
      problem = f'{path} has no column {missing[0]!r}; its columns: {", ".join(header)}'
      raise InputError(f'{problem}. Needed: {", ".join(columns)}.')
    parts = []
    for part in pd.read_csv(path, usecols=columns, chunksize=LINES_AT_ONCE, **options):
      is_allowed = part[[*allowed]].isin(allowed).all(axis=1)  # whether a line is returned
      parts.append(part[is_allowed])
    table = pd.concat(parts)
  for name in number_columns:
    column = pd.to_numeric(table[name], errors='coerce')
    if column.isna().any():
      row = column.index[column.isna()][0]
      raise InputError(  # the header is line 1, and row 0 is line 2
        f'{path}, line {row + 2}: {name} is {table[name][row]!r}; a number is expected. Is the '
        'table cut short? Fetch it again.'
      )
    table[name] = column
  return table


@dataclasses.dataclass(frozen=True)
class Filters:
  """Conditions on segmented objects; the others are not cut out.

  Attributes:
    absent: flags that must not be 1; IsOccluded and IsTruncated in the paper. Unknown flags (-1)
      are accepted.
    min_side: smallest length of the object's shorter side in pixels; the paper sets no minimum.
    min_fill: smallest fraction of the bounding rectangle that the mask fills; the paper sets no
      minimum.
  """

  absent: Sequence[str] = ('IsOccluded', 'IsTruncated')
  min_side: int = 1
  min_fill: float = 0.0


def cut(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
  """Cuts an object out of an image, with transparent surroundings.

  Args:
    image: uint8 [H, W, 3].
    mask: bool [h, w], True on the object. It may have another resolution than the image, but the
      aspect ratio must be the same.

  Returns:
    The bounding rectangle of the object, uint8 [h', w', 4], with alpha 255 on the object and 0
    elsewhere.
  """
  height, width = image.shape[:2]
  mask_height, mask_width = mask.shape
  # The ratios are equal if mask_height / mask_width = height / width. The sides of a scaled mask
  # are rounded to pixels, so that one of them may be wrong by one pixel.
  error = abs(mask_height * width - mask_width * height)
  if error > max(height, width):
    raise InputError(f'mask of {mask_width}×{mask_height} for an image of {width}×{height}')
  if mask.shape != (height, width):
    mask = np.asarray(Image.fromarray(mask).resize((width, height), Image.Resampling.NEAREST))
  if not mask.any():
    raise InputError('empty mask')
  rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))  # with the object
  rectangle = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
  return np.dstack([image[rectangle], mask[rectangle].astype(np.uint8) * 255])


def extract(
  segments: Sequence[Segment], images: Path, masks: Path, out: Path, filters: Filters
) -> Counter[str]:
  """Cuts segmented objects out of photographs and saves them as PNG files.

  The folder `out` receives the objects as foregrounds/<class>/<mask>.png, a list of them as
  cutouts.csv, contact sheets to inspect them, and a list of rejected objects as rejected.csv.

  Args:
    segments: the segmented objects.
    images: folder of photographs, named by image_id.
    masks: folder of masks.
    out: output folder, which must not contain cutouts.csv or foregrounds yet.
    filters: conditions that an object must meet.

  Returns:
    `{'kept': number of objects}`, with the number of rejected objects for each reason, such as 'too
    small'.
  """
  _refuse_earlier_output(out)
  entries: list[Line] = []
  rejected: list[Line] = []
  by_class = sorted(segments, key=lambda s: (s.class_name, s.image_id, s.mask))
  for segment in tqdm(by_class, desc='cutouts', disable=None):
    try:
      pixels, fill = _cut_segment(segment, images, masks, filters)
    except InputError as rejection:
      rejected.append({'mask': segment.mask, 'class': segment.class_name, 'reason': str(rejection)})
      continue
    file = Path(FOREGROUNDS) / segment.class_name / f'{Path(segment.mask).stem}.png'
    (out / file).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(out / file)
    entry: Line = {
      'number': len(entries) + 1,
      'file': str(file),
      'class': segment.class_name,
      'imagenet_index': imagenet_index(segment.class_name),
      'image_id': segment.image_id,
      'width': pixels.shape[1],
      'height': pixels.shape[0],
      'fill': round(fill, 4),  # fraction of the rectangle that the mask fills
      **segment.flags,
    }
    entries.append(entry)
  _write(out / REJECTED, ('mask', 'class', 'reason'), rejected)
  reasons = Counter(_category(str(entry['reason'])) for entry in rejected)
  if not entries:
    listed = ', '.join(f'{reason}: {count}' for reason, count in reasons.most_common())
    problem = f'none of {len(segments)} segments became a cutout ({listed})'
    raise InputError(f'{problem}; {out / REJECTED} has a line each.')
  _write_sheets(out, entries)
  _write(out / LIST, tuple(entries[0]), entries)
  return Counter({'kept': len(entries), **reasons})


def _refuse_earlier_output(out: Path) -> None:
  """Raises InputError if a folder has cutouts of an earlier run, which are not overwritten."""
  # {file or folder: what may be special about it}
  outputs = {LIST: 'with lines deleted by hand', FOREGROUNDS: 'of an interrupted run'}
  for name, state in outputs.items():
    if (out / name).exists():
      problem = f'{out / name} exists already, perhaps {state}'
      raise InputError(f'{problem}; choose another folder with --out=DIR, or remove it.')


def _cut_segment(
  segment: Segment, images: Path, masks: Path, filters: Filters
) -> tuple[np.ndarray, float]:
  """Cuts one object out of its photograph.

  Args:
    segment: the segmented object.
    images: folder of the photographs.
    masks: folder of the masks.
    filters: conditions that the object must meet.

  Returns:
    The object, uint8 [h, w, 4], and the fraction of its bounding rectangle that the mask fills.

  Raises:
    InputError: the object is rejected; the message is the reason.
  """
  if not segment.flags:  # no box matches the object
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


def _category(reason: str) -> str:
  """Shortens the reason for a rejected object to a category, so that reasons can be counted.

  For instance '20×9 pixels, below 10' becomes 'too small', and 'no mask masks/1.png' becomes 'no
  mask'.
  """
  kinds = ('no mask', 'no image', 'unreadable image', 'mask of', 'mask fills')
  default = 'too small' if ', below' in reason else reason
  return next((kind for kind in kinds if reason.startswith(kind)), default)


def _write_sheets(out: Path, entries: Sequence[Line]) -> None:
  """Writes contact sheets for each class: thumbnails of the objects with numbers and sizes."""
  (out / SHEETS).mkdir(parents=True, exist_ok=True)
  for name in sorted({str(entry['class']) for entry in entries}):
    of_class = [entry for entry in entries if entry['class'] == name]
    for page, first in enumerate(range(0, len(of_class), THUMBNAILS * ROWS), 1):
      sheet = _sheet(out, of_class[first : first + THUMBNAILS * ROWS])
      sheet.save(out / SHEETS / f'{name}_{page}.png')


def _sheet(out: Path, entries: Sequence[Line]) -> Image.Image:
  """Draws a contact sheet: thumbnails of cut-out objects with their numbers and sizes.

  Args:
    out: folder from which file names in `entries` are relative.
    entries: rows of cutouts.csv.
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
  """Removes cut-out objects that the user has deleted from cutouts.csv; returns their number.

  Files are moved to the folder `removed` in `out`, the folder that `extract` wrote.
  """
  if not (out / LIST).is_file():
    raise InputError(f'{out} holds no {LIST}; run the command `extract` first.')
  with (out / LIST).open(newline='', encoding='utf-8') as lines:
    listed = {row.get('file') for row in csv.DictReader(lines)}
  present = {str(f.relative_to(out)) for f in (out / FOREGROUNDS).rglob('*.png')}
  absent = sorted(str(file) for file in listed - present)
  if absent or not listed:
    problem = f'lists {absent[0]!r}, which is not there' if absent else 'lists no cutout'
    raise InputError(f'{out / LIST} {problem}; delete whole lines only, and keep the first.')
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
