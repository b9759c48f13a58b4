"""`robustness neighbor_sets build`: builds neighbor sets from videos.

robustness neighbor_sets build --videos=DIR --labels=FILE --out=DIR

  Writes DIR/metadata/pmsets.json, DIR/metadata/labels.json and DIR/misc/*class_index.json, as
  ImageNet-Vid-Robust was released, and the chosen frames of video files to DIR/frames. Folders of
  frames stay as they are.
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import sys
from collections.abc import Sequence

from robustness.core.errors import InputError
from robustness.video import building, metadata

PROGRAM = 'robustness neighbor_sets'


def main(arguments: Sequence[str]) -> int:
  """Builds, prints the counts, and returns the exit status: 0, or 2 for bad input."""
  given = _parser().parse_args(arguments)
  try:
    if (given.out / 'metadata' / metadata.SETS).exists():
      raise InputError(f'{given.out} holds neighbor sets already: give another --out.')
    names, words = building.vocabulary(given.classes)
    built = building.build(
      given.videos,
      building.read_labels(given.labels, words),
      given.frames or given.out / 'frames',
      names,
      k=given.k,
      seed=given.seed,
      facts=given.facts,
    )
    metadata.write(built.sets, given.out)
  except InputError as error:
    print(error, file=sys.stderr)
    return 2
  print(f'{built.summary()}; written to {given.out}')
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog=PROGRAM)
  commands = parser.add_subparsers(dest='command', required=True)
  build = commands.add_parser(
    'build', help='choose an anchor in each video and the frames around it'
  )
  needed = functools.partial(build.add_argument, type=pathlib.Path, required=True)
  needed('--videos', help='folder of video files, or of folders of numbered frames')
  needed('--labels', help='the classes of each video: {video: class} in JSON, or CSV video,class')
  needed('--out', help='where the metadata go')
  build.add_argument(
    '--frames',
    type=pathlib.Path,
    help='where frames of video files go, as PNG (default: OUT/frames)',
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
