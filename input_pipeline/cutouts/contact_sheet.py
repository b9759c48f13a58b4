"""Pages of numbered thumbnails, to look through many cutouts at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from input_pipeline.image_files import opened

COLUMNS, ROWS, SIDE, CAPTION = 8, 6, 144, 16  # thumbnails a page, and their pixels
_LIGHT, _DARK, _SQUARE = 225, 190, 8  # the checkerboard behind what is transparent


def pages(files: Sequence[Path], captions: Sequence[str]) -> Iterator[Image.Image]:
  """Yields RGB pages of thumbnails, row by row in the order of the files.

  Args:
    files: images with alpha.
    captions: a short text below each.

  Raises:
    InputError: a file that is no image.
  """
  per_page = COLUMNS * ROWS
  for first in range(0, len(files), per_page):
    shown = files[first : first + per_page]
    yield _page(shown, captions[first : first + per_page])


def _page(files: Sequence[Path], captions: Sequence[str]) -> Image.Image:
  rows = math.ceil(len(files) / COLUMNS)
  page = Image.new('RGB', (COLUMNS * SIDE, rows * (SIDE + CAPTION)), 'white')
  draw = ImageDraw.Draw(page)
  font = ImageFont.load_default()
  for place, (file, caption) in enumerate(zip(files, captions, strict=True)):
    row, column = divmod(place, COLUMNS)
    left, top = column * SIDE, row * (SIDE + CAPTION)
    page.paste(_thumbnail(file), (left, top))
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
