"""Tests how the sets under review become numbered pairs, and how their frames are read."""

import pytest

from robustness.video import metadata
from robustness.video.candidates import Candidates, Item, Pair, ReviewFrames
from tests.refusals import refused
from tests.video.review_frames import CLASS_NAMES, candidates, path, save_frames, sets


def test_pairs_go_from_the_first_neighbor_to_the_last():
  frames, pairs = sets().frames, candidates().pairs
  first = [(frames[pair.frame], pair.offset) for pair in pairs[:3]]
  assert first == [(path(0, 9), -1), (path(0, 11), 1), (path(0, 12), 2)]
  assert pairs[3] == Pair(1, frames.index(path(1, 9)), -1)
  assert candidates().pairs_of == ((0, 1, 2), (3, 4, 5))


def test_items_by_name_and_by_paths():
  review = candidates()
  for name in ('anchor:0', 'anchor:1', 'pair:0', 'pair:5'):
    assert str(review.item(name)) == name
    assert review.items[review.paths(review.item(name))] == review.item(name)
  assert review.paths(Item('pair', 3)) == (path(1, 10), path(1, 9))
  unknown = ('pair:6', 'anchor:2', 'pair:-1', 'pair:', 'frame:0', '', 'pair:1.0', 'pair:\u0663')
  for name in (*unknown, 'pair:' + '9' * 10):
    refused(r'anchor:0 to anchor:1 and pair:0 to pair:5 are', review.item, name)


def test_the_digest_depends_on_sets_and_labels_only():
  built = sets()
  table = {
    built.frames[anchor]: [built.frames[n] for n in members][::-1]
    for anchor, members in zip(built.anchors, built.neighbors, strict=True)
  }
  labels = dict(zip(built.frames, built.labels.tolist(), strict=True))
  again = Candidates(metadata.from_mappings(dict(reversed(table.items())), labels), CLASS_NAMES)
  assert again.digest == candidates().digest
  labels[built.frames[0]] = [2]
  assert Candidates(metadata.from_mappings(table, labels), CLASS_NAMES).digest != again.digest
  refused('class id 1, which is none of the 1 classes', Candidates, built, {0: 'cat'})


PATHS = candidates().sets.frames


@pytest.fixture
def folder(tmp_path):
  """A folder with an image of every frame of `PATHS`."""
  return save_frames(tmp_path / 'frames', candidates())


def test_frames_are_read_by_index_with_a_tag_of_their_content(folder):
  frames = ReviewFrames(folder, PATHS)
  for index, name in enumerate(PATHS):
    frame = frames.read(index)
    assert (frame.content, frame.content_type) == ((folder / name).read_bytes(), 'image/png')
  before = frames.read(0).tag
  assert frames.read(0).tag == before
  (folder / PATHS[0]).write_bytes(b'longer than before')
  assert frames.read(0).tag != before
  for index in (-1, len(PATHS), 10**8):
    refused(f'0 to {len(PATHS) - 1} are under review', frames.read, index)


def test_frames_that_are_missing_or_of_another_kind_are_named(folder):
  for name in PATHS[2:4]:
    (folder / name).unlink()
  refused(f'2 of 8 frames are missing .* first is {PATHS[2]}', ReviewFrames, folder, PATHS)
  refused('8 of 8 frames are missing in .*nowhere', ReviewFrames, folder / 'nowhere', PATHS)
  (folder / 'labels.json').write_text('{}')
  refused('of no known kind', ReviewFrames, folder, ['labels.json'])


def test_paths_and_links_out_of_the_folder_are_refused(folder):
  secret, frames = folder.parent / 'secret.png', ReviewFrames(folder, PATHS)
  secret.write_bytes(b'secret')
  (folder / PATHS[0]).unlink()
  (folder / PATHS[0]).symlink_to(secret)
  (folder / 'linked').symlink_to(folder.parent)
  refused('is outside the folder', frames.read, 0)
  out = ('../secret.png', 'val/../../secret.png', '/etc/secret.png', 'linked/secret.png')
  for paths in (PATHS, *([file] for file in out)):
    refused('is outside the folder', ReviewFrames, folder, paths)
  # A link to a file within the folder and a link to the folder are followed.
  (folder / 'same.png').symlink_to(folder / PATHS[1])
  folder.with_name('link').symlink_to(folder)
  frames = ReviewFrames(folder.with_name('link'), ['same.png'])
  assert frames.read(0).content == (folder / PATHS[1]).read_bytes()
