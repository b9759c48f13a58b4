"""`robustness neighbor_sets`: builds neighbor sets from videos, or converts YTBB-Robust.

robustness neighbor_sets build --videos=DIR --labels=FILE --out=DIR

  Writes DIR/metadata/pmsets.json, DIR/metadata/labels.json and DIR/misc/*class_index.json, as
  ImageNet-Vid-Robust was released, and the chosen frames of video files to DIR/frames. Folders of
  frames stay as they are.

robustness neighbor_sets import --metadata=DIR --out=DIR

  Writes the same files from the annotations that YTBB-Robust was released as: good anchors and the
  pairs that passed the review, or with --unreviewed all of both.
"""

import argparse
import functools
from collections.abc import Sequence

from robustness.cli import new_parser
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.video import building, metadata

PROGRAM = 'robustness neighbor_sets'


def main(arguments: Sequence[str]) -> int:
  """Builds or imports sets of neighboring video frames and prints the counts; returns 0.

  Args:
    arguments: the command line after `robustness neighbor_sets`: 'build' or 'import', and flags.

  Raises:
    InputError: a flag is wrong, or the folder --out has neighbor sets already.
  """
  options = _parser().parse_args(arguments)
  if metadata.find(options.out):
    raise InputError(f'{options.out} holds neighbor sets already: give another --out.')
  if options.command == 'import':
    sets = metadata.read(options.metadata, reviewed=not options.unreviewed)
    metadata.write(sets, options.out)
    print(f'{sets.title}; in {options.out}')
    return 0
  names, label_of_word = building.vocabulary(options.classes)
  labels = building.read_labels(options.labels, label_of_word)
  frames = options.frames or options.out / 'frames'
  settings = {'k': options.k, 'seed': options.seed, 'facts': options.facts}
  built = building.build(options.videos, labels, frames, names, **settings)
  metadata.write(built.sets, options.out)
  print(f'{built.summary()}; written to {options.out}')
  return 0


def _parser() -> argparse.ArgumentParser:
  """Returns the parser of the command line."""
  parser = new_parser(PROGRAM, __doc__)
  commands = parser.add_subparsers(dest='command', required=True)
  build = commands.add_parser('build', help='choose an anchor in each video and frames around it')
  add = build.add_argument
  needed = functools.partial(add, type=expanded, required=True)
  needed('--videos', help='folder of video files, or of folders of numbered frames')
  formats = '{video: class} in JSON, CSV video,class, or a folder of ILSVRC annotations of frames'
  needed('--labels', help=f'the classes of each video: {formats}')
  needed('--out', help='where the metadata go')
  add('--frames', type=expanded, help='where frames of videos go, as PNG (default: OUT/frames)')
  names = 'imagenet_vid, youtube_bb, imagenet, or a text file, one class a line'
  add('--classes', default='imagenet_vid', help=names)
  add('--k', type=int, default=10, help='frames on each side of an anchor (default: 10)')
  add('--seed', type=int, default=0, help='seed of the choice of anchors (default: 0)')
  add('--facts', action='store_true', help='store types and rates of frames of video files')
  importing = commands.add_parser('import', help='read the sets of YTBB-Robust as released')
  for name, text in (('--metadata', 'the released folder'), ('--out', 'where the metadata go')):
    importing.add_argument(name, type=expanded, required=True, help=text)
  importing.add_argument('--unreviewed', action='store_true', help='keep rejected pairs too')
  return parser
