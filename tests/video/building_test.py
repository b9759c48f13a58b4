"""Tests that neighbor sets are built from folders and videos, by function and by command."""

import json
import pathlib
import unicodedata

import numpy as np
import pytest
from PIL import Image

from robustness.cli.neighbor_sets import main
from robustness.video import clips, metadata
from robustness.video.building import anchor_position, build, read_labels, vocabulary
from tests.refusals import bad_setting, refused
from tests.video import small_archive
from tests.video.small_videos import encode, number_of, save_frames


@pytest.fixture
def videos(tmp_path):
  """Folders of frames: 'val/a' with frames 5..44, 'b' with three, 'c' with one."""
  root = tmp_path / 'videos'
  save_frames(root / 'val/a', range(5, 45))
  save_frames(root / 'b', range(3), '.jpg')
  save_frames(root / 'c', [7])
  return root


def test_a_set_holds_all_frames_within_k(videos):
  built = build(videos, {'val/a': [1], 'b': [0, 2], 'c': [1]}, videos, k=4)
  sets, paths = built.sets, built.sets.frames
  assert [metadata.video_of(paths[anchor]) for anchor in sets.anchors] == ['b', 'c', 'val/a']
  for anchor, members, offsets in zip(sets.anchors, sets.neighbors, sets.offsets, strict=True):
    number = metadata.frame_number(paths[anchor])
    low, high = {'b': (0, 2), 'c': (7, 7), 'val/a': (5, 44)}[metadata.video_of(paths[anchor])]
    expected = [n for n in range(max(low, number - 4), min(high, number + 4) + 1) if n != number]
    assert sorted(metadata.frame_number(paths[m]) for m in members) == expected
    assert sorted(offsets.tolist()) == [n - number for n in expected]
  rows = zip(paths, sets.labels.tolist(), strict=True)
  labels = {metadata.video_of(path): row for path, row in rows}
  assert labels == {'b': [0, 2], 'c': [1, -1], 'val/a': [1, -1]}
  assert built.frames == videos and sets.fps is None


def test_distances_are_frame_numbers_not_positions(tmp_path):
  save_frames(tmp_path / 'gaps', [10, 11, 14, 15, 30])
  save_frames(tmp_path / 'gaps/.ipynb_checkpoints', [12])
  for seed in range(12):
    assert [*clips.find(tmp_path)] == ['gaps']
    sets = build(tmp_path, {'gaps': [0]}, tmp_path, k=3, seed=seed).sets
    assert all(abs(offset) <= 3 for offset in sets.offsets[0])
    number = metadata.frame_number(sets.frames[sets.anchors[0]])
    assert len(sets.offsets[0]) == {10: 1, 11: 2, 14: 2, 15: 1, 30: 0}[number]


def test_annotations_give_each_frame_its_own_classes(tmp_path, capsys):
  for name, numbers in {'a': range(6), 'b': [3]}.items():
    save_frames(tmp_path / 'videos' / name, numbers)
  for frame, word in {'a/1': 'n02084071', 'a/2': 'dog', 'a/4': 'car', 'b/3': 'car'}.items():
    small_archive.save_xml(tmp_path / 'xml', [frame], word, (32, 32), (1, 1, 9, 9))
  # The file of a/2 gets a second box, of a car, and that of b/3 loses its box.
  two_boxes, no_box = (tmp_path / f'xml/{frame}.xml' for frame in ('a/2', 'b/3'))
  head, sign, box = two_boxes.read_text().removesuffix('</annotation>').partition('<object>')
  two_boxes.write_text(f'{head}{sign}{box}{sign}{box.replace("dog", "car")}</annotation>')
  no_box.write_text(f'{head}</annotation>')
  assert main([*flags(tmp_path / 'videos', tmp_path / 'xml'), '--k=9']) == 0
  assert '1 anchors, 2 pairs' in capsys.readouterr().out
  labels = json.loads((tmp_path / 'out/metadata/labels.json').read_text())
  assert labels == {'a/000001.png': [8], 'a/000002.png': [6, 8], 'a/000004.png': [6]}
  refused('holds no ILSVRC annotations', main, flags(tmp_path, tmp_path / 'videos/a'))


def test_anchors_are_uniform_and_each_video_has_its_own(videos):
  drawn = np.array([anchor_position('clip', 5, seed) for seed in range(2000)])
  counts = np.bincount(drawn, minlength=5)
  standard_deviation = np.sqrt(2000 * 0.2 * 0.8)  # binomial
  assert (abs(counts - 400) < 5 * standard_deviation).all()
  assert len({anchor_position(f'clip{i}', 1000, 0) for i in range(20)}) > 15
  alone = build(videos, {'val/a': [1]}, videos).sets
  joint = build(videos, {'val/a': [1], 'b': [0]}, videos).sets
  assert alone.frames[alone.anchors[0]] == joint.frames[joint.anchors[1]]
  assert build(videos, {'val/a': [1]}, videos).sets.frames == alone.frames


def test_videos_become_frames_with_facts_when_asked(tmp_path):
  encode(tmp_path / 'videos/clip.mp4', 30, 'libx264', fps=30)
  arguments = (tmp_path / 'videos', {'clip': [3]}, tmp_path / 'frames')
  plain, built = build(*arguments, k=5), build(*arguments, k=5, facts=True)
  assert plain.sets.frame_types is None and plain.sets.fps is None
  assert built.frames == tmp_path / 'frames'
  assert built.sets.frame_types is not None and built.sets.fps is not None
  assert set(built.sets.fps.tolist()) == {30.0}
  for path, kind in zip(built.sets.frames, built.sets.frame_types, strict=True):
    with Image.open(tmp_path / 'frames' / path) as image:
      assert number_of(np.asarray(image)) == metadata.frame_number(path)
    assert (kind == 'i') == (metadata.frame_number(path) % 8 == 0), '`encode` has one every 8'
  assert len(list((tmp_path / 'frames').rglob('*.png'))) == len(built.sets.frames)


def flags(videos: pathlib.Path, labels: pathlib.Path) -> list[str]:
  """Returns the command line that builds sets into 'out' next to the labels."""
  return ['build', f'--videos={videos}', f'--labels={labels}', f'--out={labels.parent / "out"}']


@pytest.mark.parametrize(
  'content',
  ['video,class\nval/a,dog\nb,n02958343\nb,bird\n', '{"val/a": "dog", "b": [6, "bird"]}'],
  ids=['csv', 'json'],
)
def test_the_command_writes_the_released_format_and_nothing_else(videos, tmp_path, content, capsys):
  path = tmp_path / ('l.json' if content[0] == '{' else 'l.csv')
  path.write_text(content)
  out, command = tmp_path / 'out', flags(videos, path)
  assert main([*command, '--k=2']) == 0
  output = capsys.readouterr().out
  counts = f'2 anchors, 6 pairs, median 3 a set, 8 distinct frames under {videos}'
  assert output == f'{counts}; 1 videos without a label left out; written to {out}\n'
  written = {str(path.relative_to(out)) for path in out.rglob('*') if path.is_file()}
  released = {'metadata/pmsets.json', 'metadata/labels.json'}
  assert written == {*released, 'misc/imagenet_vid_class_index.json'}
  labels = json.loads((out / 'metadata/labels.json').read_text())
  labels_of_videos = {(metadata.video_of(path), *row) for path, row in labels.items()}
  assert labels_of_videos == {('b', 4, 6), ('val/a', 8)}
  sets = metadata.read(out)
  assert len(sets.class_names) == 30 and sets.class_names[8] == 'dog'
  refused('holds neighbor sets already', main, command)


@pytest.mark.parametrize('name', ['l.csv', 'l.json'])
@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig'])
def test_a_users_vocabulary_with_or_without_a_byte_order_mark(videos, tmp_path, name, encoding):
  content = '{"b": "vehicle"}' if name == 'l.json' else 'video,class\r\nb,vehicle\r\n'
  (tmp_path / name).write_text(content, encoding=encoding)
  (tmp_path / 'classes.txt').write_text('animal\nvehicle\n', encoding=encoding)
  assert main([*flags(videos, tmp_path / name), f'--classes={tmp_path / "classes.txt"}']) == 0
  assert [path.name for path in (tmp_path / 'out/misc').iterdir()] == ['class_index.json']
  sets = metadata.read(tmp_path / 'out')
  assert sets.class_names == ('animal', 'vehicle') and sets.labels.tolist() == [[1]] * 3


@pytest.mark.parametrize('form', ['NFC', 'NFD'])
def test_accents_of_classes_match_in_either_unicode_form(videos, tmp_path, form):
  (tmp_path / 'l.csv').write_text(unicodedata.normalize(form, 'video,class\nb,caf\u00e9\n'))
  for written in ('NFC', 'NFD'):
    (tmp_path / 'classes.txt').write_text(unicodedata.normalize(written, 'bar\ncaf\u00e9\n'))
    _, classes = vocabulary(str(tmp_path / 'classes.txt'))
    assert read_labels(tmp_path / 'l.csv', classes) == {'b': [1]}


def test_bad_labels_are_named_with_the_nearest_classes(videos, tmp_path):
  (tmp_path / 'l.csv').write_text('video,class\nb,giant pandda\n')
  message = r"the class 'giant pandda'.*did you mean 'giant_panda'\?"
  error = refused(message, main, flags(videos, tmp_path / 'l.csv'))
  is_short = len(error) < 300 + len(str(tmp_path)) and error.count("'") == 6
  assert is_short, 'it names one class, and not the 30 there are'
  for name, content, message in (
    ('l.csv', b'video,class\nb,caf\xe9\n', 'l.csv is no text in UTF-8'),
    ('l.json', b'{"val/a": "dgo"}', "class 'dgo', which is no class: did you mean 'dog'"),
    ('l.json', b'{"val/a": 30}', r'class 30, which is no class.*0\.\.29'),
    ('l.json', b'{"val/a": []}', "gives video 'val/a' no class"),
    ('l.json', b'{"val/b": "dog"}', "1 of 1 labelled videos.*first 'val/b': did you mean 'val/a'"),
    ('l.json', b'{}', 'names no videos'),
    ('l.csv', b'val/a,dog\n', "begin with .* 'video,class"),
  ):
    (tmp_path / name).write_bytes(content)
    refused(message, main, flags(videos, tmp_path / name))
    assert not (tmp_path / 'out').exists()
  refused('none.json is missing', main, flags(videos, tmp_path / 'none.json'))


def test_bad_videos_are_named(tmp_path, videos):
  file = videos / 'b/000002.jpg'
  file.write_bytes(file.read_bytes()[:200])
  refused(r'frame 2 cannot be decoded: .*b/000002\.jpg', build, videos, {'b': [0]}, videos)
  refused('none is no folder', build, tmp_path / 'none', {'a': [0]}, tmp_path)
  folder = tmp_path / 'clips'
  folder.mkdir()
  refused('holds no videos', build, folder, {'a': [0]}, folder)
  save_frames(folder / 'a', [1])
  (folder / 'a/000001.png').rename(folder / 'a/first.png')
  refused("'a/first.png' has no number", build, folder, {'a': [0]}, folder)
  (folder / 'a/first.png').rename(folder / 'a/1.png')
  save_frames(folder / 'a', [1])
  refused('holds frame 1 twice: 000001.png and 1.png', build, folder, {'a': [0]}, folder)
  (folder / 'a/1.png').unlink()
  save_frames(folder / 'b', [1]).joinpath('000001.png').rename(folder / 'b/cover.png')
  assert build(folder, {'a': [0]}, folder).left_out == ('b',), 'its pictures need no numbers'
  refused(bad_setting('k', -1), build, folder, {'a': [0]}, folder, k=-1)


def test_video_files_beside_folders_of_frames_are_built_apart(videos):
  message, frames = 'leave --facts out, or write .*frames.json', videos.parent / 'frames'
  refused(message, build, videos, {'b': [0]}, frames, facts=True)
  encode(videos / 'clip.mp4', 5)
  refused('build them apart', build, videos, {'b': [0], 'clip': [1]}, videos.parent / 'frames')
  encode(videos / 'b.mp4', 5)
  refused("two videos called 'b'", build, videos, {'b': [0]}, videos.parent / 'frames')
