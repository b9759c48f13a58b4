"""A folder of cutouts from annotations, and what of it is left after a look at the contact sheets.

OUT/foregrounds/<class>/<mask>.png are the cutouts, OUT/cutouts.csv lists them (a line each, to be
deleted by hand), OUT/sheets/<class>_<page>.png show them under their numbers, and OUT/rejected.csv
says why each other segment was left out.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from tqdm import tqdm

from input_pipeline.cutouts import contact_sheet
from input_pipeline.cutouts.annotations import FLAGS, Segment
from input_pipeline.cutouts.cutting import Filters, cut_segment
from robustness.core.errors import InputError
from robustness.scenes.classes import imagenet_index

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

  Raises:
    InputError: the folder was written before, or no segment passed; the reasons are counted.
  """
  if (out / LIST).exists():
    raise InputError(
      f'{out / LIST} exists already, perhaps with lines deleted by hand; choose '
      'another folder with --out=DIR, or remove it.'
    )
  kept: list[dict[str, Any]] = []
  rejected: list[dict[str, Any]] = []
  ordered = sorted(segments, key=lambda s: (s.class_name, s.image_id, s.mask))
  for segment in tqdm(ordered, desc='cutouts', disable=None):
    reason, entry = _extract_one(segment, images, masks, out, filters, len(kept) + 1)
    if reason:
      rejected.append({'mask': segment.mask, 'class': segment.class_name, 'reason': reason})
    else:
      kept.append(entry)
  _write(out / REJECTED, ('mask', 'class', 'reason'), rejected)
  reasons = Counter(_kind(entry['reason']) for entry in rejected)
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
) -> tuple[str, dict[str, Any]]:
  """Returns (why there is no cutout, {}) or ('', line of the list)."""
  reason = filters.why_not(segment)
  if reason:
    return reason, {}
  try:
    pixels = cut_segment(segment, images, masks)
  except InputError as error:
    return str(error), {}
  reason = filters.why_not_cutout(pixels)
  if reason:
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


def _kind(reason: str) -> str:
  """Returns a reason without what differs from file to file."""
  kinds = ('no mask', 'no image', 'unreadable image', 'mask of', 'mask fills')
  return next(
    (kind for kind in kinds if reason.startswith(kind)),
    'too small' if ', below' in reason else reason,
  )


def write_sheets(out: Path, entries: Sequence[dict[str, Any]]) -> None:
  """Writes the contact sheets of the listed cutouts, by class."""
  folder = out / SHEETS
  folder.mkdir(parents=True, exist_ok=True)
  for name in sorted({entry['class'] for entry in entries}):
    mine = [entry for entry in entries if entry['class'] == name]
    captions = [f'{entry["number"]}  {entry["width"]}x{entry["height"]}' for entry in mine]
    files = [out / entry['file'] for entry in mine]
    for page, picture in enumerate(contact_sheet.pages(files, captions), start=1):
      picture.save(folder / f'{name}_{page}.png')


def prune(out: Path) -> int:
  """Moves cutouts whose lines were deleted from the list to OUT/removed.

  Returns:
    How many were moved.

  Raises:
    InputError: no list, a list without lines, or a listed file that is not there.
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


def _write(path: Path, columns: Iterable[str], rows: Iterable[dict[str, Any]]) -> None:
  text = io.StringIO()
  writer = csv.DictWriter(text, list(columns), lineterminator='\n')
  writer.writeheader()
  writer.writerows(rows)
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text.getvalue(), encoding='utf-8')
