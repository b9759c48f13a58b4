"""The pictures of the documentation are linked, and the default runs draw them."""

import re

import pytest
from PIL import Image

from tests.commands import ROOT
from tests.end_to_end import runs
from tests.studies import configs_test

pictures = runs.pictures
LINKED = pictures.linked()


def test_the_stored_pictures_are_the_linked_ones():
  stored = {(path.parent.name, path.stem) for path in pictures.IMAGES.rglob('*.png')}
  assert stored == {(config, figure) for config, figures in LINKED.items() for figure in figures}


def test_every_picture_is_drawn_by_a_run_in_some_test():
  tests = '\n'.join(path.read_text() for path in (ROOT / 'tests').rglob('*_test.py'))
  drawn = {run[0].removesuffix(' digits') for run in configs_test.RUNS}
  assert {*LINKED} <= drawn | {*re.findall(r"assert_pictures\('(\w+)'", tests)}


@pytest.mark.slow
def test_a_picture_is_copied_from_a_run(finished, tmp_path):
  runs.assert_pictures('fourier_heatmap', finished)
  pictures.keep(finished, 'fourier_heatmap', LINKED['fourier_heatmap'], tmp_path)
  for figure in LINKED['fourier_heatmap']:
    with Image.open(tmp_path / f'fourier_heatmap/{figure}.png') as picture:
      assert min(picture.size) > 50


def test_the_printed_command_of_a_picture_is_found():
  words = pictures.command('fourier_heatmap')
  assert words[0] == '--config=configs/fourier_heatmap.py'
  assert {pictures.command(config)[0] for config in LINKED} == {
    f'--config=configs/{config}.py' for config in LINKED
  }
  with pytest.raises(ValueError, match='No page prints'):
    pictures.command('nothing')
