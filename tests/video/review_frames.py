"""Small sets of made frames to review."""

from __future__ import annotations

import pathlib

import numpy as np
from PIL import Image

from robustness.video import metadata
from robustness.video.answers import Answer
from robustness.video.candidates import Candidates, Item
from robustness.video.metadata import NeighborSets

CLASS_NAMES = {0: 'cat', 1: 'dog', 2: 'bird'}


def sets(anchors: int = 2, neighbors: int = 3) -> NeighborSets:
  """Sets of one video each; anchor 10, neighbors 9, 8, ... or 11, 12, ... by turns."""
  members, labels = {}, {}
  for video in range(anchors):
    others = [10 + (1 - 2 * (n % 2)) * (n // 2 + 1) for n in range(neighbors)]
    members[path(video, 10)] = [path(video, frame) for frame in sorted(others)]
    labels.update({path(video, frame): [video % 3] for frame in [10, *others]})
  return metadata.from_mappings(members, labels)


def path(video: int, frame: int) -> str:
  return f'val/clip_{video:05d}/{frame:06d}.png'


def candidates(anchors: int = 2, neighbors: int = 3) -> Candidates:
  return Candidates(sets(anchors, neighbors), CLASS_NAMES)


def save_frames(
  folder: pathlib.Path, of: Candidates, size: tuple[int, int] = (12, 8)
) -> pathlib.Path:
  for index, name in enumerate(of.sets.frames):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    picture = np.full((*size[::-1], 3), index * 40 % 256, np.uint8)
    Image.fromarray(picture).save(file)
  return folder


def answer(
  of: Candidates,
  item: Item,
  annotator: str = 'ann',
  stage: str = 'individual',
  keep: bool = True,
  **said: object,
) -> Answer:
  """An answer that keeps the item, or finds its pair moved (its anchor bad)."""
  anchor, neighbor = of.paths(item)
  usual = {'label': 'correct' if keep or neighbor else 'incorrect'}
  if neighbor:
    usual['similar'] = 'similar' if keep else 'dissimilar'
    said = {'reasons': () if keep else ('motion',), **said}
  about = {'annotator': annotator, 'round': stage, 'anchor': anchor, 'neighbor': neighbor}
  return Answer(**{**about, **usual, **said})
