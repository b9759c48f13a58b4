"""`robustness neighbor_sets build`: builds neighbor sets from videos.

robustness neighbor_sets build --videos=DIR --labels=FILE --out=DIR

  Writes DIR/metadata/pmsets.json, DIR/metadata/labels.json and DIR/misc/*class_index.json, as
  ImageNet-Vid-Robust was released, and the chosen frames of video files to DIR/frames. Folders of
  frames are left as they are.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from robustness.core.errors import InputError
from robustness.video import building, metadata, video_labels

PROGRAM = 'robustness neighbor_sets'


def main(arguments: Sequence[str]) -> int:
  """Builds, prints the counts, and returns the exit status: 0, or 2 for bad input."""
  try:
    print(_build(_parser().parse_args(arguments)))
  except InputError as error:
    print(error, file=sys.stderr)
    return 2
  return 0


def _build(given: argparse.Namespace) -> str:
  if (given.out / 'metadata' / metadata.SETS).exists():
    raise InputError(f'{given.out} holds neighbor sets already: give another --out.')
  names, words = video_labels.vocabulary(given.classes)
  built = building.build(
    given.videos,
    video_labels.read(given.labels, words),
    given.frames or given.out / 'frames',
    names,
    k=given.k,
    seed=given.seed,
    facts=given.facts,
  )
  metadata.write(built.sets, given.out)
  return f'{built.summary()}; written to {given.out}'


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog=PROGRAM)
  commands = parser.add_subparsers(dest='command', required=True)
  build = commands.add_parser(
    'build', help='choose an anchor in each video and the frames around it'
  )
  folder = pathlib.Path
  build.add_argument(
    '--videos',
    type=folder,
    required=True,
    help='folder of video files, or of folders of numbered frames',
  )
  build.add_argument(
    '--labels',
    type=folder,
    required=True,
    help='the classes of each video: {video: class} in JSON, or CSV video,class',
  )
  build.add_argument('--out', type=folder, required=True, help='where the metadata go')
  build.add_argument(
    '--frames', type=folder, help='where frames of video files go, as PNG (default: OUT/frames)'
  )
  build.add_argument(
    '--classes',
    default='imagenet_vid',
    help='imagenet_vid, youtube_bb, imagenet, or a text file, one class a line',
  )
  build.add_argument('--k', type=int, default=10, help='frames on each side (default: 10)')
  build.add_argument('--seed', type=int, default=0, help='of the anchors (default: 0)')
  build.add_argument(
    '--facts',
    action='store_true',
    help='write frame types and frames a second to metadata/frames.json',
  )
  return parser
