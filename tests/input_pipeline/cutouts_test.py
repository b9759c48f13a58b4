"""Tests the command that makes cutouts, their list and contact sheets from Open Images."""

import csv
import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from input_pipeline import cutouts
from input_pipeline.cutouts import FLAGS
from robustness.cli.cutouts import main
from tests.refusals import refused

HEIGHT, WIDTH, BOX = 40, 60, (10, 30, 5, 25)  # pixels; the box is x0, x1, y0, y1
BAGEL, LEMON, TORTOISE = '/m/01fb_0', '/m/09k_b', '/m/011k07'
CLASS_LINES = (f'{BAGEL},Bagel', f'{LEMON},Lemon', f'{TORTOISE},Tortoise')
SEGMENTS = 'MaskPath ImageID LabelName BoxID BoxXMin BoxXMax BoxYMin BoxYMax PredictedIoU Clicks'
BOXES = 'ImageID Source LabelName Confidence XMin XMax YMin YMax'


def ellipse(box=BOX, scale=1):
  """Returns a filled ellipse that touches all sides of the box, bool [H·scale, W·scale]."""
  x0, x1, y0, y1 = (scale * value for value in box)
  y, x = np.indices((HEIGHT * scale, WIDTH * scale)) + 0.5
  across, down = (2 * x - x0 - x1) / (x1 - x0), (2 * y - y0 - y1) / (y1 - y0)
  return across**2 + down**2 <= 1


@dataclasses.dataclass(frozen=True)
class Collection:
  """Folders and tables in the format of Open Images, on which the command runs."""

  root: Path

  def __post_init__(self):
    for folder in ('images', 'masks'):
      (self.root / folder).mkdir(parents=True)
    (self.root / 'classes.csv').write_text('\n'.join(CLASS_LINES) + '\n')
    self._append('segments', SEGMENTS.split())
    self._append('boxes', [*BOXES.split(), *FLAGS])

  def _append(self, name, row):
    with (self.root / f'{name}.csv').open('a', newline='') as file:
      csv.writer(file).writerow(row)

  def add(self, image_id, label=BAGEL, flags='00000', scale=1, box=BOX, has_box=True):
    """Adds a photograph with an elliptic mask in the box, and returns it, uint8 [H, W, 3].

    `flags` are the values of `FLAGS`, '?' for unknown; `scale` is the mask's size over the image's.
    """
    generator = np.random.default_rng(len(image_id) + int(image_id[-1]))
    photograph = generator.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    Image.fromarray(photograph).save(self.root / f'images/{image_id}.png')
    mask = f'{image_id}_{label[3:].replace("/", "")}_b1.png'
    Image.fromarray(ellipse(box, scale)).save(self.root / 'masks' / mask)
    sides = np.array(box) / (WIDTH, WIDTH, HEIGHT, HEIGHT)
    self._append('segments', [mask, image_id, label, 'b1', *(f'{v:.6f}' for v in sides), 0.8, ''])
    # Another object of the class, far from this one, has all flags.
    self._append('boxes', [image_id, 'xclick', label, 1, 0.8, 0.9, 0.8, 0.9, 1, 1, 1, 1, 1])
    if has_box:
      box_line = [image_id, 'xclick', label, 1, *(f'{v:.8f}' for v in sides)]
      self._append('boxes', [*box_line, *(-1 if flag == '?' else int(flag) for flag in flags)])
    return photograph

  @property
  def out(self):
    return self.root / 'out'

  def extract(self, *arguments):
    """Runs the command and returns its exit status."""
    files = [f'--{name}={self.root}/{name}.csv' for name in ('segments', 'boxes', 'classes')]
    folders = [f'--{name}={self.root}/{name}' for name in ('images', 'masks', 'out')]
    return main(['extract', *folders, *files, *arguments])

  def table(self, name):
    """Returns the rows of a CSV file that the command wrote."""
    with (self.out / f'{name}.csv').open(newline='') as file:
      return list(csv.DictReader(file))

  def extracted(self, *arguments):
    """Runs the command and returns the images from which it made cutouts."""
    assert self.extract(*arguments) == 0
    return [row['image_id'] for row in self.table('cutouts')]


@pytest.fixture
def collection(tmp_path):
  return Collection(tmp_path / 'open_images')


def pixels(path):
  with Image.open(path) as image:
    return np.asarray(image)


def test_a_cutout_is_the_object_on_its_tight_rectangle(collection):
  photographs = {'a1': collection.add('a1'), 'b2': collection.add('b2', scale=2)}
  collection.add('c3', label=TORTOISE)  # no class of SI-Score
  assert collection.extracted() == ['a1', 'b2']
  for entry in collection.table('cutouts'):
    cutout = pixels(collection.out / entry['file'])
    alpha = ellipse()[5:25, 10:30]
    np.testing.assert_array_equal(cutout[..., :3], photographs[entry['image_id']][5:25, 10:30])
    if entry['image_id'] == 'a1':
      np.testing.assert_array_equal(cutout[..., 3] == 255, alpha)
    assert (cutout[..., 3] == 255).mean() == pytest.approx(alpha.mean(), abs=0.02)
    assert set(np.unique(cutout[..., 3])) == {0, 255}
    assert entry['file'].startswith('foregrounds/bagel/')
    assert (entry['class'], entry['imagenet_index']) == ('bagel', '931')
    assert float(entry['fill']) == pytest.approx(np.pi / 4, abs=0.02)


def test_occluded_and_truncated_objects_are_left_out_and_listed(collection):
  for number, flags in enumerate(('10000', '01000', '11000', '00100', '??000'), 1):
    collection.add(f'a{number}', flags=flags)
  collection.add('a6', has_box=False)
  assert collection.extracted() == ['a4', 'a5']
  assert {row['mask'][:2]: row['reason'] for row in collection.table('rejected')} == {
    'a1': 'IsOccluded',
    'a2': 'IsTruncated',
    'a3': 'IsOccluded, IsTruncated',
    'a6': 'no box in the table of boxes',
  }


def test_objects_are_filtered_by_flag_size_and_class(collection):
  collection.add('a1', flags='00100')
  collection.add('a2', box=(10, 18, 5, 25))
  collection.add('a3')
  collection.add('b4', label=LEMON)
  assert collection.extracted('--absent=IsGroupOf', '--min_side=10', '--only=bagel') == ['a3']
  reasons = {row['reason'] for row in collection.table('rejected')}
  assert reasons == {'IsGroupOf', '8×20 pixels, below 10'}


def test_missing_and_damaged_files_and_masks_that_do_not_fit_are_listed(collection):
  for number in range(1, 7):
    collection.add(f'a{number}')
  masks = sorted((collection.root / 'masks').iterdir())
  (collection.root / 'images/a1.png').unlink()
  masks[1].unlink()
  masks[2].write_bytes(masks[2].read_bytes()[:60])
  Image.new('1', (60, 60)).save(masks[3])
  Image.new('1', (60, 40)).save(masks[4])
  assert collection.extracted() == ['a6']
  reasons = ('no image', 'no mask', 'unreadable image', 'mask of 60×60 for an image of 60×40')
  for row, reason in zip(collection.table('rejected'), (*reasons, 'empty mask'), strict=True):
    assert row['reason'].startswith(reason)


def test_contact_sheets_show_every_cutout_by_class(collection):
  for number in range(50):
    collection.add(f'a{number:02d}')
  collection.add('b1', label=LEMON)
  assert len(collection.extracted()) == 51
  sheets = sorted((collection.out / 'sheets').iterdir())
  assert [sheet.name for sheet in sheets] == ['bagel_1.png', 'bagel_2.png', 'lemon_1.png']
  # A sheet has 6 rows of 8 cells, 144 pixels wide and 160 high with the text below.
  assert pixels(sheets[0]).shape == (6 * 160, 8 * 144, 3)
  assert pixels(sheets[1]).shape == (160, 8 * 144, 3)
  lemon = pixels(sheets[2])
  assert len(np.unique(lemon[:144, :144].reshape(-1, 3), axis=0)) > 50
  assert (lemon[:144, 144:] == 255).all()


def test_cutouts_deleted_from_the_list_are_moved_away_and_a_spoilt_list_moves_none(
  collection, capsys
):
  prune = ['prune', f'--out={collection.out}']
  for number in range(3):
    collection.add(f'a{number}')
  collection.add('b0', label=LEMON)
  assert len(collection.extracted()) == 4
  refused('cutouts.csv exists already', collection.extract)
  listed = collection.out / 'cutouts.csv'
  complete = listed.read_text()
  for spoilt, message in (
    (complete.replace('a1_', 'x_'), 'which is not there'),
    (complete.splitlines()[0] + '\n', 'lists no cutout'),
  ):
    listed.write_text(spoilt)
    refused(message, main, prune)
  refused('`extract` first', main, ['prune', f'--out={collection.root / "no"}'])
  lines = complete.splitlines(keepends=True)
  listed.write_text(''.join(line for line in lines if 'a1_' not in line and 'b0_' not in line))
  for count in (2, 0):
    assert not main(prune) and f'{count} cutouts moved' in capsys.readouterr().out
  for folder, names in (('foregrounds', ['a0', 'a2']), ('removed', ['a1'])):
    assert [f.name[:2] for f in sorted((collection.out / folder / 'bagel').iterdir())] == names
  assert not (collection.out / 'foregrounds' / 'lemon').exists()  # an empty class is refused


def test_cutouts_of_an_interrupted_run_are_not_added_to(collection, monkeypatch):
  for number in range(3):
    collection.add(f'a{number}')
  cut_segment, segments = cutouts._cut_segment, []

  def interrupted(segment, *arguments):
    segments.append(segment)
    if len(segments) == 3:
      raise KeyboardInterrupt
    return cut_segment(segment, *arguments)

  monkeypatch.setattr(cutouts, '_cut_segment', interrupted)
  with pytest.raises(KeyboardInterrupt):
    collection.extract()
  refused('foregrounds exists already, perhaps of an interrupted run', collection.extract)


def test_unknown_names_and_unreadable_tables_are_refused(collection):
  extract = collection.extract
  collection.add('a1', flags='10000')
  refused("did you mean 'bagel'", extract, '--only=bagle')
  refused("did you mean 'IsOccluded'", extract, '--absent=Occluded')
  refused(r'none of 1 segments became a cutout \(IsOccluded: 1\)', extract)
  boxes = collection.root / 'boxes.csv'
  complete = boxes.read_text()
  boxes.write_text(complete.replace('IsTruncated', 'Truncated'))
  refused("has no column 'IsTruncated'", extract)
  boxes.write_text(complete[: complete.rindex(',0.') + 1])
  refused('boxes.csv, line 3: ', extract)
  boxes.write_bytes(gzip.compress(complete.encode()))
  refused('cannot read the table .*boxes.csv.*Unpack it if', extract)
  boxes.unlink()
  refused('cannot read the table', extract)
  (collection.root / 'classes.csv').write_text(f'{TORTOISE},Tortoise\n')
  refused('names a class of SI-Score', extract)
