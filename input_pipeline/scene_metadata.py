"""metadata.csv of SI-Score: a line a scene, with its factors, in the released generator's columns.

`x_coord` and `y_coord` are the object's centre as fractions from the left and the top, `rotation`
is in degrees counter-clockwise, `pct_inside_image` is a fraction. `foreground_class` is the place
of a class among the sorted names of the classes at hand, `foreground_instance` the place of an
object in its class, `background` the place of a file in backgrounds.csv.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from robustness.core.errors import InputError

WHOLE = (
  'image_id',
  'foreground_class',
  'foreground_instance',
  'background',
  'bg_resolution_width',
  'bg_resolution_height',
)
COLUMNS = ('image_id', *('x_coord', 'y_coord', 'area', 'rotation'), *WHOLE[1:], 'pct_inside_image')


def read(path: str | Path) -> dict[str, np.ndarray]:
  """Returns the columns, [N] each: int64 where numbers are whole, else float64; by image_id."""
  header, table = _numbers(Path(path))
  missing = [name for name in COLUMNS if name not in header]
  if missing:
    raise InputError(
      f'{path} has no column {missing[0]!r}; its columns: {", ".join(header)}. '
      f'Expected: {", ".join(COLUMNS)}.'
    )
  table = table[np.argsort(table[:, header.index('image_id')], kind='stable')]
  columns = {name: table[:, header.index(name)] for name in COLUMNS}
  ids = columns['image_id']
  twice = ids[1:][ids[1:] == ids[:-1]]
  if len(twice):
    raise InputError(
      f'{path} names image {int(twice[0])} more than once; are several tables '
      'joined? Each set has its own.'
    )
  inside = columns['pct_inside_image']
  if not ((inside >= 0) & (inside <= 1)).all():
    worst = int(np.argmax(np.abs(inside - 0.5)))
    raise InputError(
      f'{path}: pct_inside_image of image {int(ids[worst])} is {inside[worst]:g}; '
      'it is a fraction in [0, 1].'
    )
  return {
    name: values.astype(np.int64) if name in WHOLE else values for name, values in columns.items()
  }


def _numbers(path: Path) -> tuple[list[str], np.ndarray]:
  """Returns the header and the numbers below it, float64 [N, columns]."""
  try:
    with path.open(encoding='utf-8') as file:
      header, body = file.readline().strip().split(','), file.read()
  except OSError as error:
    raise InputError(
      f'cannot read {path}: {error.strerror}. metadata.csv lies in the archive of the released set.'
    ) from error
  if not body.strip():
    raise InputError(f'{path} holds no lines below its header.')
  try:
    table = np.loadtxt(io.StringIO(body), delimiter=',', ndmin=2)
  except ValueError as error:
    raise InputError(f'{path} cannot be read: {error}. Is it cut short? Fetch it again.') from error
  return header, table


def join(path: str | Path, image_ids: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the columns of `read` for some images, in their order."""
  table = read(path)
  known = table['image_id']
  places = np.minimum(np.searchsorted(known, image_ids), len(known) - 1)
  unknown = known[places] != image_ids
  if unknown.any():
    raise InputError(
      f'{path} does not name {int(unknown.sum())} of {len(image_ids)} images, first '
      f'image_id {int(image_ids[unknown][0])}. Is it the table of another factor?'
    )
  return {name: values[places] for name, values in table.items()}


def text(columns: Mapping[str, np.ndarray]) -> str:
  """Returns metadata.csv of columns [N] with the names of `COLUMNS`; fractions to 4 digits."""
  out = io.StringIO()
  writer = csv.writer(out, lineterminator='\n')
  writer.writerow(COLUMNS)
  writer.writerows(zip(*(_written(name, columns[name]) for name in COLUMNS), strict=True))
  return out.getvalue()


def _written(name: str, values: np.ndarray) -> list[str]:
  if name in WHOLE:
    return [str(int(value)) for value in values]
  digits = 4 if name == 'pct_inside_image' else 7
  return [repr(round(float(value), digits)) for value in values]
