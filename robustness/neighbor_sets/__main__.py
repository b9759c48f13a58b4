"""`python -m robustness.neighbor_sets`: builds neighbor sets, scores detectors on them.

python -m robustness.neighbor_sets build --videos=DIR --labels=FILE --out=DIR

  Writes DIR/metadata/pmsets.json, DIR/metadata/labels.json and DIR/misc/*class_index.json, as
  ImageNet-Vid-Robust was released, and the chosen frames of video files to DIR/frames. Folders of
  frames are left as they are.

python -m robustness.neighbor_sets detect --metadata=DIR --truth=FILE --detections=FILE --out=DIR

  mAP of detection and of localisation on the anchors and on the worst frame of each set. FILEs are
  COCO annotations (or a folder of ILSVRC's) and COCO results. Writes DIR/results.json, DIR/figures
  and DIR/report.html; with --frames=DIR also pictures of anchors and of the worst frames.
"""

from __future__ import annotations

import argparse
import pathlib
import shlex
import sys
from collections.abc import Sequence

from robustness import workdir
from robustness.errors import InputError
from robustness.figures import detections
from robustness.neighbor_sets import building, detecting, metadata, video_labels
from robustness.report.publish import publish

PROGRAM = 'python -m robustness.neighbor_sets'


def main(arguments: Sequence[str]) -> int:
  """Builds, prints the counts, and returns the exit status: 0, or 2 for bad input."""
  given = _parser().parse_args(arguments)
  try:
    print(_build(given) if given.command == 'build' else _detect(given, arguments))
  except InputError as error:
    print(error, file=sys.stderr)
    return 2
  return 0


def _build(given: argparse.Namespace) -> str:
  if (given.out / 'metadata' / metadata.SETS).exists():
    raise InputError(f'{given.out} holds neighbor sets already: give another --out.')
  names, words = video_labels.vocabulary(given.classes)
  built = building.build(given.videos, video_labels.read(given.labels, words),
                         given.frames or given.out / 'frames', names, k=given.k, seed=given.seed,
                         facts=given.facts)
  metadata.write(built.sets, given.out)
  return f'{built.summary()}; written to {given.out}'


def _detect(given: argparse.Namespace, arguments: Sequence[str]) -> str:
  settings = detecting.Settings(given.k, given.threshold, given.recall_points,
                                not given.neighbors_only)
  results = detecting.score(given.metadata, given.truth, given.detections, settings, given.frames,
                            given.shown)
  environment = workdir.environment(0, f'{PROGRAM} {shlex.join(arguments)}')
  workdir.write_json(given.out / workdir.ENVIRONMENT, environment)
  publish(given.out, results, detections.draw, environment,
          {name: str(value) for name, value in vars(given).items()})
  lines = [f'{name} = {n.value:.4f} [{n.low:.4f}, {n.high:.4f}] (n = {n.n})'
           for name, n in results.numbers.items()]
  return '\n'.join([*lines, f'written to {given.out}'])


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog=PROGRAM)
  commands = parser.add_subparsers(dest='command', required=True)
  _add_detect(commands.add_parser('detect', help='score a detector on anchors and worst frames'))
  build = commands.add_parser(
      'build', help='choose an anchor in each video and the frames around it')
  folder = pathlib.Path
  build.add_argument('--videos', type=folder, required=True,
                     help='folder of video files, or of folders of numbered frames')
  build.add_argument('--labels', type=folder, required=True,
                     help='the classes of each video: {video: class} in JSON, or CSV video,class')
  build.add_argument('--out', type=folder, required=True, help='where the metadata go')
  build.add_argument('--frames', type=folder,
                     help='where frames of video files go, as PNG (default: OUT/frames)')
  build.add_argument('--classes', default='imagenet_vid',
                     help='imagenet_vid, youtube_bb, imagenet, or a text file, one class a line')
  build.add_argument('--k', type=int, default=10, help='frames on each side (default: 10)')
  build.add_argument('--seed', type=int, default=0, help='of the anchors (default: 0)')
  build.add_argument('--facts', action='store_true',
                     help='write frame types and frames a second to metadata/frames.json')
  return parser


def _add_detect(detect: argparse.ArgumentParser) -> None:
  folder = pathlib.Path
  detect.add_argument('--metadata', type=folder, required=True, help='folder of the neighbor sets')
  detect.add_argument('--truth', type=folder, required=True,
                      help='boxes: COCO annotations, or a folder of ILSVRC .xml files')
  detect.add_argument('--detections', type=folder, required=True, help='boxes, as COCO results')
  detect.add_argument('--out', type=folder, required=True, help='where the report goes')
  detect.add_argument('--frames', default='',
                      help='folder that the paths of the metadata begin in, for pictures')
  detect.add_argument('--shown', type=int, default=4, help='sets that are pictured (default: 4)')
  detect.add_argument('--k', type=int, default=10, help='frames on each side (default: 10)')
  detect.add_argument('--threshold', type=float, default=0.5, help='least IoU (default: 0.5)')
  detect.add_argument('--recall_points', type=int, default=0,
                      help='0 for the area under the curve (default), 11 or 101')
  detect.add_argument('--neighbors_only', action='store_true',
                      help='the anchor is no candidate for the worst frame')


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
