"""Makes small neighbor sets to review, their image files, and answers about them."""

import pathlib
from typing import Any

from PIL import Image

from robustness.video import metadata
from robustness.video.answers import Answer
from robustness.video.candidates import Candidates, Item
from robustness.video.metadata import NeighborSets

CLASS_NAMES = {0: 'cat', 1: 'dog', 2: 'bird'}


def sets(anchors: int = 2, neighbors: int = 3) -> NeighborSets:
  """Returns a set for each video: the anchor is frame 10, neighbors are 11, 9, 12, 8, and so on.

  The label is the number of the video modulo 3.
  """
  members, labels = {}, {}
  for video in range(anchors):
    frames = [10 + (1 - 2 * (n % 2)) * (n // 2 + 1) for n in range(neighbors)]
    members[path(video, 10)] = [path(video, frame) for frame in sorted(frames)]
    labels.update({path(video, frame): [video % 3] for frame in [10, *frames]})
  return metadata.from_mappings(members, labels)


def path(video: int, frame: int) -> str:
  """Returns the path of a frame in the folder of frames."""
  return f'val/clip_{video:05d}/{frame:06d}.png'


def candidates(anchors: int = 2, neighbors: int = 3) -> Candidates:
  return Candidates(sets(anchors, neighbors), CLASS_NAMES)


def save_frames(folder: pathlib.Path, review: Candidates, size: tuple[int, int] = (12, 8)):
  """Writes a grey image of this width and height for each frame; returns the folder."""
  for index, name in enumerate(review.sets.frames):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    Image.new('RGB', size, (index * 40 % 256,) * 3).save(folder / name)
  return folder


def verdict(kind: str, keep: bool) -> dict[str, Any]:
  """Returns the fields of an answer that keeps an anchor or a pair, or that objects to it."""
  if kind == 'anchor':
    return {'label': 'correct' if keep else 'incorrect'}
  moved = {'similar': 'dissimilar', 'reasons': ('motion',)}
  return {'label': 'correct', **({'similar': 'similar'} if keep else moved)}


def answer(
  review: Candidates, item: Item, annotator='ann', stage='individual', keep=True, **marks: Any
) -> Answer:
  """Returns the answer of an annotator about an item; `marks` are other fields of it."""
  return Answer(annotator, stage, *review.paths(item), **{**verdict(item.kind, keep), **marks})
