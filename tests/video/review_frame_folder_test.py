"""Frames are read by index, and never from outside their folder."""

from __future__ import annotations

import pathlib

import pytest

from robustness.core.errors import InputError
from robustness.video.review_frame_folder import FrameFolder
from tests.video.review_frames import candidates, save_frames

PATHS = candidates().sets.frames


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
  return save_frames(tmp_path / 'frames', candidates())


def test_a_frame_is_the_file_of_its_index(folder: pathlib.Path) -> None:
  frames = FrameFolder(folder, PATHS)
  for index, path in enumerate(PATHS):
    frame = frames.read(index)
    assert (frame.content, frame.content_type) == ((folder / path).read_bytes(), 'image/png')


def test_the_tag_changes_with_the_file(folder: pathlib.Path) -> None:
  frames = FrameFolder(folder, PATHS)
  before = frames.read(0).tag
  assert frames.read(0).tag == before
  (folder / PATHS[0]).write_bytes(b'longer than before')
  assert frames.read(0).tag != before


@pytest.mark.parametrize('index', [-1, len(PATHS), 10**8])
def test_other_indices_are_refused(folder: pathlib.Path, index: int) -> None:
  with pytest.raises(InputError, match=f'0 to {len(PATHS) - 1} are under review'):
    FrameFolder(folder, PATHS).read(index)


def test_missing_frames_are_counted_and_the_first_named(folder: pathlib.Path) -> None:
  for path in PATHS[2:4]:
    (folder / path).unlink()
  with pytest.raises(InputError, match=f'2 of 8 frames are missing .* first is {PATHS[2]}'):
    FrameFolder(folder, PATHS)
  with pytest.raises(InputError, match='there is no folder'):
    FrameFolder(folder / 'nowhere', PATHS)


@pytest.mark.parametrize('path', ['../secret.png', 'val/../../secret.png', '/etc/secret.png'])
def test_paths_out_of_the_folder_are_refused(folder: pathlib.Path, path: str) -> None:
  (folder.parent / 'secret.png').write_bytes(b'secret')
  with pytest.raises(InputError, match='lies outside the folder'):
    FrameFolder(folder, [path])


def test_links_out_of_the_folder_are_refused(folder: pathlib.Path) -> None:
  secret = folder.parent / 'secret.png'
  secret.write_bytes(b'secret')
  frames = FrameFolder(folder, PATHS)
  (folder / PATHS[0]).unlink()
  (folder / PATHS[0]).symlink_to(secret)
  with pytest.raises(InputError, match='lies outside the folder'):
    frames.read(0)
  with pytest.raises(InputError, match='lies outside the folder'):
    FrameFolder(folder, PATHS)
  (folder / 'linked').symlink_to(folder.parent)
  with pytest.raises(InputError, match='lies outside the folder'):
    FrameFolder(folder, ['linked/secret.png'])


def test_links_within_the_folder_and_a_linked_folder_are_fine(folder: pathlib.Path) -> None:
  (folder / 'same.png').symlink_to(folder / PATHS[1])
  folder.with_name('link').symlink_to(folder)
  frames = FrameFolder(folder.with_name('link'), ['same.png'])
  assert frames.read(0).content == (folder / PATHS[1]).read_bytes()


def test_other_kinds_of_files_are_refused(folder: pathlib.Path) -> None:
  (folder / 'labels.json').write_text('{}')
  with pytest.raises(InputError, match='of no known kind'):
    FrameFolder(folder, ['labels.json'])
