"""Tests how picture files are read: formats, large files, and files that are refused."""

import io
import json
import os
import pathlib
import re

import numpy as np
import pytest
from PIL import Image

from robustness.core import pictures
from robustness.core.limits import MAX_PIXELS_PER_IMAGE
from tests.cases import cases
from tests.commands import ROOT
from tests.refusals import refused

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
0 0 8 8 rectfill
showpage
%%EOF
"""
PROJECT = ('robustness', 'input_pipeline', 'benchmarks', 'docs', 'colabs', 'configs')


def open_whole(file):
  with pictures.opened(file) as picture:
    picture.load()


@pytest.fixture
def ghostscript(tmp_path, monkeypatch):
  """Puts a program `gs` first on the path; returns the path of the file that it writes."""
  ran = tmp_path / 'ran'
  program = tmp_path / 'bin/gs'
  program.parent.mkdir()
  program.write_text(f'#!/bin/sh\n[ "$1" = --version ] || touch {ran}\n')
  program.chmod(0o755)
  monkeypatch.setenv('PATH', f'{program.parent}{os.pathsep}{os.environ["PATH"]}')
  monkeypatch.setattr('PIL.EpsImagePlugin.gs_binary', None)
  return ran


def test_postscript_in_a_picture_starts_no_program(tmp_path, ghostscript):
  file = tmp_path / 'e.png'
  file.write_bytes(EPS)
  for picture in (file, str(file), EPS, io.BytesIO(EPS)):
    refused('its content is none of JPEG, PNG', open_whole, picture)
  assert not ghostscript.exists()
  with Image.open(file) as picture, pytest.raises(OSError, match='cannot identify'):
    picture.load()  # Pillow itself starts the program, whose output is no picture
  assert ghostscript.exists()


@pytest.mark.parametrize('name', pictures.FORMATS)
def test_every_format_is_read_by_content_and_suffix(tmp_path, name):
  suffixes = [suffix for suffix in pictures.FORMATS[name] if suffix in pictures.SUFFIXES]
  if not suffixes:
    pytest.skip(f'this Pillow reads no {name}')
  for suffix in suffixes:
    Image.new('RGB', (9, 6), (200, 100, 50)).save(tmp_path / f'a{suffix}', name)
    pixels = np.asarray(pictures.read_rgb(tmp_path / f'a{suffix}')).astype(int)
    assert pixels.shape == (6, 9, 3) and np.abs(pixels - [200, 100, 50]).max() < 20


def test_special_files_are_refused_immediately(tmp_path):
  os.mkfifo(tmp_path / 'pipe.png')
  (tmp_path / 'zero.png').symlink_to('/dev/zero')
  for name in ('pipe.png', 'zero.png'):
    refused(f'{name}: it is no regular file', open_whole, tmp_path / name)
  refused('No such file', open_whole, tmp_path / 'absent.png')


@pytest.mark.filterwarnings('ignore::PIL.Image.DecompressionBombWarning')
def test_the_size_is_read_in_the_header_before_pixels_are_decoded(tmp_path):
  side = 13_000
  Image.new('1', (side, side)).save(tmp_path / 'large.png')
  assert side**2 > MAX_PIXELS_PER_IMAGE and (tmp_path / 'large.png').stat().st_size < 10**5
  refused('it has 13000 × 13000 pixels, above the limit', pictures.read_rgb, tmp_path / 'large.png')


@cases(
  'fault, reason',
  (ZeroDivisionError('division by zero'), 'division by zero'),
  (MemoryError(), 'MemoryError'),
  (AttributeError('no tile'), 'no tile'),
)
def test_every_failure_of_a_decoder_is_one_error(tmp_path, monkeypatch, fault, reason):
  Image.new('L', (4, 4)).save(tmp_path / 'a.png')

  def fail(*unused, **options):
    raise fault

  monkeypatch.setattr('PIL.PngImagePlugin.PngImageFile.load', fail)
  refused(f'unreadable image .*a.png: {reason}', open_whole, tmp_path / 'a.png')
  assert pictures.damage(tmp_path / 'a.png') == reason


def code_of(path: pathlib.Path) -> str:
  """Returns the text of a file, or the cells of a notebook."""
  if path.suffix != '.ipynb':
    return path.read_text('utf-8')
  cells = json.loads(path.read_text('utf-8'))['cells']
  return '\n'.join(''.join(cell['source']) for cell in cells)


def test_no_other_module_of_the_project_opens_pictures():
  modules = set()
  for folder in PROJECT:
    for path in (ROOT / folder).rglob('*'):
      is_code = path.suffix in ('.py', '.ipynb', '.md')
      if is_code and re.search(r'\bImage\.open\(|\bimread\(', code_of(path)):
        modules.add(path.relative_to(ROOT).as_posix())
  assert modules == {'robustness/core/pictures.py'}
