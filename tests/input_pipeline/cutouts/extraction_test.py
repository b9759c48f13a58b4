"""From masks in the format of Open Images to cutouts, the list, and the contact sheets."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from robustness.cli.cutouts import main
from tests.input_pipeline.cutouts.conftest import BAGEL, LEMON, TORTOISE, ellipse


def read(path: Path) -> list[dict[str, str]]:
  with path.open(newline='') as file:
    return list(csv.DictReader(file))


def pixels(path: Path) -> np.ndarray:
  with Image.open(path) as image:
    return np.asarray(image)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
  assert main(arguments) == 1
  return capsys.readouterr().err


def test_a_cutout_is_the_object_on_its_tight_rectangle(collection, tmp_path) -> None:
  photograph = collection.add('a1', box=(10, 30, 5, 25))
  assert main(collection.arguments(tmp_path / 'out')) == 0
  [entry] = read(tmp_path / 'out/cutouts.csv')
  cutout = pixels(tmp_path / 'out' / entry['file'])
  assert entry['file'].startswith('foregrounds/bagel/')
  assert (entry['class'], entry['imagenet_index'], entry['image_id']) == ('bagel', '931', 'a1')
  np.testing.assert_array_equal(cutout[..., :3], photograph[5:25, 10:30])
  np.testing.assert_array_equal(cutout[..., 3] == 255, ellipse((10, 30, 5, 25))[5:25, 10:30])
  assert set(np.unique(cutout[..., 3])) == {0, 255}
  assert float(entry['fill']) == pytest.approx(np.pi / 4, abs=0.02)


def test_what_is_tagged_is_left_out_and_said(collection, tmp_path) -> None:
  for name, flags in (
    ('a1', '10000'),
    ('a2', '01000'),
    ('a3', '11000'),
    ('a4', '00100'),
    ('a5', '??000'),
  ):
    collection.add(name, flags=flags)
  collection.add('a6', box_seen=False)
  assert main(collection.arguments(tmp_path / 'out')) == 0
  assert [row['image_id'] for row in read(tmp_path / 'out/cutouts.csv')] == ['a4', 'a5']
  reasons = {row['mask'][:2]: row['reason'] for row in read(tmp_path / 'out/rejected.csv')}
  assert reasons == {
    'a1': 'IsOccluded',
    'a2': 'IsTruncated',
    'a3': 'IsOccluded, IsTruncated',
    'a6': 'no box in the table of boxes',
  }


def test_further_filters(collection, tmp_path) -> None:
  collection.add('a1', flags='00100')
  collection.add('a2', box=(10, 18, 5, 25))
  collection.add('a3')
  collection.add('b4', label=LEMON)
  arguments = [
    *collection.arguments(tmp_path / 'out'),
    '--absent=IsGroupOf',
    '--min_side=10',
    '--only=bagel',
  ]
  assert main(arguments) == 0
  assert [row['image_id'] for row in read(tmp_path / 'out/cutouts.csv')] == ['a3']
  assert {row['reason'] for row in read(tmp_path / 'out/rejected.csv')} == {
    'IsGroupOf',
    '8×20 pixels, below 10',
  }


def test_a_mask_of_another_resolution_cuts_the_same_object(collection, tmp_path) -> None:
  photograph = collection.add('a1', scale=2)
  assert main(collection.arguments(tmp_path / 'out')) == 0
  [entry] = read(tmp_path / 'out/cutouts.csv')
  cutout = pixels(tmp_path / 'out' / entry['file'])
  np.testing.assert_array_equal(cutout[..., :3], photograph[5:25, 10:30])
  expected = ellipse((10, 30, 5, 25))[5:25, 10:30]
  assert (cutout[..., 3] == 255).mean() == pytest.approx(expected.mean(), abs=0.02)


def test_files_that_are_missing_cut_short_or_do_not_fit_are_listed(collection, tmp_path) -> None:
  for number in range(1, 7):
    collection.add(f'a{number}')
  masks = sorted(collection.masks.iterdir())
  (collection.images / 'a1.png').unlink()
  masks[1].unlink()
  masks[2].write_bytes(masks[2].read_bytes()[:60])
  Image.new('1', (60, 60)).save(masks[3])
  Image.new('1', (60, 40)).save(masks[4])
  assert main(collection.arguments(tmp_path / 'out')) == 0
  assert [row['image_id'] for row in read(tmp_path / 'out/cutouts.csv')] == ['a6']
  reasons = [row['reason'] for row in read(tmp_path / 'out/rejected.csv')]
  starts = (
    'no image',
    'no mask',
    'unreadable image',
    'mask of 60×60 for an image of 60×40',
    'empty mask',
  )
  assert len(reasons) == 5
  assert all(reason.startswith(start) for reason, start in zip(reasons, starts, strict=True))


def test_contact_sheets_show_every_cutout_by_class(collection, tmp_path) -> None:
  for number in range(50):
    collection.add(f'a{number:02d}')
  collection.add('b1', label=LEMON)
  assert main(collection.arguments(tmp_path / 'out')) == 0
  sheets = sorted((tmp_path / 'out/sheets').iterdir())
  assert [sheet.name for sheet in sheets] == ['bagel_1.png', 'bagel_2.png', 'lemon_1.png']
  assert pixels(sheets[0]).shape == (6 * 160, 8 * 144, 3)
  assert pixels(sheets[1]).shape == (160, 8 * 144, 3)
  lemon = pixels(sheets[2])
  assert len(np.unique(lemon[:144, :144].reshape(-1, 3), axis=0)) > 50
  assert (lemon[:144, 144:] == 255).all()


def test_deleted_lines_are_moved_away(collection, tmp_path, capsys) -> None:
  for number in range(3):
    collection.add(f'a{number}')
  out = tmp_path / 'out'
  assert main(collection.arguments(out)) == 0
  lines = (out / 'cutouts.csv').read_text().splitlines(keepends=True)
  (out / 'cutouts.csv').write_text(''.join(lines[:2] + lines[3:]))
  assert main(['prune', f'--out={out}']) == 0
  assert '1 cutouts moved' in capsys.readouterr().out
  assert [f.name[:2] for f in sorted((out / 'foregrounds/bagel').iterdir())] == ['a0', 'a2']
  assert [f.name[:2] for f in (out / 'removed/bagel').iterdir()] == ['a1']
  assert main(['prune', f'--out={out}']) == 0
  assert '0 cutouts moved' in capsys.readouterr().out


def test_a_spoilt_list_moves_nothing(collection, tmp_path, capsys) -> None:
  collection.add('a1')
  out = tmp_path / 'out'
  assert main(collection.arguments(out)) == 0
  listed = (out / 'cutouts.csv').read_text()
  for spoilt, message in (
    (listed.replace('a1_', 'x_'), 'which is not there'),
    (listed.splitlines()[0] + '\n', 'lists no cutout'),
  ):
    (out / 'cutouts.csv').write_text(spoilt)
    assert message in refused(['prune', f'--out={out}'], capsys)
  assert len(list((out / 'foregrounds').rglob('*.png'))) == 1
  assert '`extract` first' in refused(['prune', f'--out={tmp_path / "no"}'], capsys)


def test_work_by_hand_is_not_overwritten(collection, tmp_path, capsys) -> None:
  collection.add('a1')
  assert main(collection.arguments(tmp_path / 'out')) == 0
  assert 'exists already' in refused(collection.arguments(tmp_path / 'out'), capsys)


def test_bad_tables_and_words_are_named(collection, tmp_path, capsys) -> None:
  collection.add('a1', flags='10000')
  arguments = collection.arguments(tmp_path / 'out')
  assert "did you mean 'bagel'" in refused([*arguments, '--only=bagle'], capsys)
  assert "did you mean 'IsOccluded'" in refused([*arguments, '--absent=Occluded'], capsys)
  assert 'none of 1 segments became a cutout (IsOccluded: 1)' in refused(arguments, capsys)
  boxes = collection.file('boxes')
  whole = boxes.read_text()
  boxes.write_text(whole.replace('IsTruncated', 'Truncated'))
  assert "has no column 'IsTruncated'" in refused(arguments, capsys)
  boxes.write_text(whole[: whole.rindex(',0.') + 1])
  assert 'boxes.csv, line 3: ' in refused(arguments, capsys)
  boxes.unlink()
  assert 'cannot read the table' in refused(arguments, capsys)
  collection.file('classes').write_text(f'{TORTOISE},Tortoise\n')
  assert 'names a class of SI-Score' in refused(arguments, capsys)


def test_classes_that_imagenet_lacks_are_passed_over(collection, tmp_path) -> None:
  collection.add('a1', label=TORTOISE)
  collection.add('a2', label=BAGEL)
  assert main(collection.arguments(tmp_path / 'out')) == 0
  assert [row['image_id'] for row in read(tmp_path / 'out/cutouts.csv')] == ['a2']
