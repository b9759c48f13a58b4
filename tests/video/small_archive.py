"""Makes small copies of the released archives of ImageNet-Vid-Robust and YTBB-Robust."""

import json
import pathlib
from collections.abc import Iterable, Sequence

from robustness.models import label_space
from robustness.models.imagenet_names import NAMES, WNIDS
from robustness.video import metadata
from tests.video.small_videos import save_frames

ARCHIVE, VID_ROBUST = 'imagenet_vid_ytbb_robust', 'imagenet-vid-robust'
VIDEOS = tuple(f'val/ILSVRC2015_val_0000000{i}' for i in range(2))
SETS = {
  f'{VIDEOS[0]}/000021.JPEG': [f'{VIDEOS[0]}/{n:06d}.JPEG' for n in (20, 22)],
  f'{VIDEOS[0]}/000023.JPEG': [f'{VIDEOS[0]}/000022.JPEG'],
  f'{VIDEOS[1]}/000020.JPEG': [],
}
LABELS = {
  **{path: [8] for path in (*SETS, *(p for members in SETS.values() for p in members))},
  f'{VIDEOS[1]}/000020.JPEG': [4, 6],
}


def unpacked(root: pathlib.Path) -> pathlib.Path:
  """Makes `root`/imagenet-vid-robust and returns it."""
  home = root / VID_ROBUST
  for video in VIDEOS:
    for file in save_frames(home / video, range(20, 24)).iterdir():
      file.rename(file.with_suffix('.JPEG'))
  metadata.write(metadata.from_mappings(SETS, LABELS), home)
  save_misc(home / 'misc')
  return home


def save_misc(misc: pathlib.Path) -> None:
  """Writes the archive's files about classes: two class indices, and the maps between them.

  Some classes of ImageNet's index share a name, as in the released file.
  """
  space = label_space.get('imagenet_vid')
  coarse = [wnid for _, wnid, _ in label_space.coarse_entries('imagenet_vid')]
  short = [name.rpartition(' ')[2] for name in NAMES]
  groups = list(zip(coarse, space.members, strict=True))
  documents = {
    'imagenet_class_index': dict(enumerate(zip(WNIDS, short, strict=True))),
    'imagenet_vid_class_index': dict(enumerate(zip(coarse, space.class_names, strict=True))),
    'wnid_map': {WNIDS[m]: wnid for wnid, group in groups for m in group},
    'rev_wnid_map': {wnid: [WNIDS[m] for m in group] for wnid, group in groups},
  }
  misc.mkdir(parents=True)
  for name, document in documents.items():
    (misc / f'{name}.json').write_text(json.dumps(document))


def ytbb_robust(root: pathlib.Path) -> pathlib.Path:
  """Makes `root`/ytbb-robust and returns it: three anchors, the last dropped by its pair."""
  home = root / 'ytbb-robust'
  home.mkdir(parents=True)
  names = label_space.get('youtube_bb').class_names
  marks, pair_marks = ['good', 'unsure', 'bad', *names], ['similar', 'dissimilar', 'bad-anchor']
  videos = [f'{video}_3000' for video in 'abc']
  marked = {f'/data/{video}/frame-45.jpg': [0, 3 + i] for i, video in enumerate(videos)}
  near = dict(zip(videos, ((44, [0]), (46, [1]), (46, [0, 2])), strict=True))
  pairs = {f'/data/{v}/frame-45.jpg,/data/{v}/frame-{n}.jpg': m for v, (n, m) in near.items()}
  for name, names_of, marked_keys in (('anchor', marks, marked), ('pmk', pair_marks, pairs)):
    entries = [{'key': key, 'notes': '', 'labels': labels} for key, labels in marked_keys.items()]
    document = {'labels': names_of, 'annotations': entries}
    (home / f'{name}_labels.json').write_text(json.dumps(document))
  rows = ''.join(f'{video[0]},3000,22\n' for video in videos)
  (home / 'ytbb_robustness_test_anchors_full.csv').write_text(f'ytid,time_ms,label\n{rows}')
  (home / 'ytbb_class_index.json').write_text(json.dumps(dict(enumerate(names))))
  for video in videos:
    for file in save_frames(home / 'ytbb_videos' / video, range(44, 47), '.jpg').iterdir():
      file.rename(file.with_name(f'frame-{int(file.stem)}.jpg'))
  return home


def save_xml(
  folder: pathlib.Path, frames: Iterable[str], name: str, size: Sequence[int], box: Sequence[int]
) -> pathlib.Path:
  """Writes ILSVRC's annotations of frames of one size (width, height), each with the same box."""
  edges = zip(('xmin', 'ymin', 'xmax', 'ymax'), box, strict=True)
  bounds = ''.join(f'<{edge}>{value}</{edge}>' for edge, value in edges)
  for frame in frames:
    file = (folder / frame).with_suffix('.xml')
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
      f'<annotation><size><width>{size[0]}</width><height>{size[1]}</height></size>'
      f'<object><name>{name}</name><bndbox>{bounds}</bndbox></object></annotation>'
    )
  return folder


def with_annotations(root: pathlib.Path) -> pathlib.Path:
  """Makes `root`/imagenet_vid_ytbb_robust with both data sets, and returns it."""
  (root / ARCHIVE / 'ytbb-robust/metadata').mkdir(parents=True)
  (root / ARCHIVE / 'ytbb-robust/metadata/anchor_labels.json').write_text('{}')
  return unpacked(root / ARCHIVE).parent
