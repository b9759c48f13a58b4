"""A made collection in the format of Open Images: four photographs, masks and tables."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

HEIGHT, WIDTH = 40, 60
BAGEL, LEMON, TORTOISE = '/m/01fb_0', '/m/09k_b', '/m/011k07'
CLASS_LINES = (f'{BAGEL},Bagel', f'{LEMON},Lemon', f'{TORTOISE},Tortoise')
SEGMENT_COLUMNS = (
  'MaskPath',
  'ImageID',
  'LabelName',
  'BoxID',
  'BoxXMin',
  'BoxXMax',
  'BoxYMin',
  'BoxYMax',
  'PredictedIoU',
  'Clicks',
)
BOX_COLUMNS = (
  'ImageID',
  'Source',
  'LabelName',
  'Confidence',
  'XMin',
  'XMax',
  'YMin',
  'YMax',
  'IsOccluded',
  'IsTruncated',
  'IsGroupOf',
  'IsDepiction',
  'IsInside',
)


@dataclasses.dataclass(frozen=True)
class Collection:
  """Folders and tables; `add` puts one segmented object with its photograph into them."""

  root: Path

  @property
  def images(self) -> Path:
    return self.root / 'images'

  @property
  def masks(self) -> Path:
    return self.root / 'masks'

  def file(self, name: str) -> Path:
    return self.root / f'{name}.csv'

  def arguments(self, out: Path) -> list[str]:
    files = [f'--{name}={self.file(name)}' for name in ('segments', 'boxes', 'classes')]
    return ['extract', f'--images={self.images}', f'--masks={self.masks}', *files, f'--out={out}']

  def add(
    self,
    image_id: str,
    label: str = BAGEL,
    flags: str = '00000',
    scale: int = 1,
    box: tuple[int, int, int, int] = (10, 30, 5, 25),
    box_seen: bool = True,
  ) -> np.ndarray:
    """Adds an ellipse in the box (x0, x1, y0, y1; pixels); returns the photograph."""
    generator = np.random.default_rng(len(image_id) + int(image_id[-1]))
    photograph = generator.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    Image.fromarray(photograph).save(self.images / f'{image_id}.png')
    mask_name = f'{image_id}_{label[3:].replace("/", "")}_b1.png'
    Image.fromarray(ellipse(box, scale)).save(self.masks / mask_name)
    x0, x1, y0, y1 = box[0] / WIDTH, box[1] / WIDTH, box[2] / HEIGHT, box[3] / HEIGHT
    self._append(
      'segments',
      [mask_name, image_id, label, 'b1', *[f'{v:.6f}' for v in (x0, x1, y0, y1)], 0.8, ''],
    )
    far = [image_id, 'xclick', label, 1, 0.8, 0.9, 0.8, 0.9, 1, 1, 1, 1, 1]
    self._append('boxes', far)  # another object of the class, which has all flags
    if box_seen:
      own = [image_id, 'xclick', label, 1, *[f'{v:.8f}' for v in (x0, x1, y0, y1)]]
      self._append('boxes', [*own, *(-1 if flag == '?' else int(flag) for flag in flags)])
    return photograph

  def _append(self, name: str, row: list) -> None:
    with self.file(name).open('a', newline='') as file:
      csv.writer(file).writerow(row)


def ellipse(box: tuple[int, int, int, int], scale: int = 1) -> np.ndarray:
  """A filled ellipse that touches the box's four sides, bool [H·scale, W·scale]."""
  x0, x1, y0, y1 = (scale * value for value in box)
  y, x = np.indices((HEIGHT * scale, WIDTH * scale)) + 0.5
  distance = ((x - (x0 + x1) / 2) / ((x1 - x0) / 2)) ** 2 + (
    (y - (y0 + y1) / 2) / ((y1 - y0) / 2)
  ) ** 2
  return distance <= 1


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
  made = Collection(tmp_path / 'open_images')
  made.images.mkdir(parents=True)
  made.masks.mkdir()
  made.file('classes').write_text('\n'.join(CLASS_LINES) + '\n')
  made._append('segments', list(SEGMENT_COLUMNS))
  made._append('boxes', list(BOX_COLUMNS))
  return made
