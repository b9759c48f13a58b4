"""Cutouts with alpha from segmentation masks in the format of Open Images.

robustness cutouts extract --images=DIR --masks=DIR \
    --segments=train-annotations-object-segmentation.csv \
    --boxes=oidv6-train-annotations-bbox.csv --classes=class-descriptions-boxable.csv --out=OUT

  Writes OUT/foregrounds/<class>/*.png and contact sheets. Look at OUT/sheets/*.png and delete the
  lines of highly incomplete or wrongly labelled objects from OUT/cutouts.csv, then

robustness cutouts prune --out=OUT

  moves their files to OUT/removed. OUT/foregrounds serves --config.data.scenes.foregrounds.
"""

import argparse
from collections.abc import Iterator

from input_pipeline import cutouts
from input_pipeline.cutouts import FLAGS, read_class_names, read_segments
from robustness.cli import new_parser
from robustness.core.paths import expanded
from robustness.core.settings import choice


def main(arguments: list[str]) -> int:
  """Extracts or prunes cutouts of objects from images; returns 0.

  `extract` cuts objects out of images and writes them to a folder. `prune` moves the cutouts that
  are not listed in the folder's `cutouts.csv` to the folder `removed`.

  Args:
    arguments: the command line after `robustness cutouts`.
  """
  options = _parser().parse_args(arguments)
  if options.command == 'extract':
    print(*_extract(options), sep='\n')
  else:
    print(f'{cutouts.prune(options.out)} cutouts moved to {options.out / cutouts.REMOVED}')
  return 0


def _extract(options: argparse.Namespace) -> Iterator[str]:
  """Extracts cutouts and yields lines with counts, such as '    340  kept'.

  Objects that are left out are counted by their reason, such as '     12  too small'.
  """
  absent = _words(options.absent)
  for flag in absent:
    choice('--absent', flag, FLAGS)  # refuses other flags
  names = read_class_names(options.classes, _words(options.only))
  segments = read_segments(options.segments, options.boxes, names)
  filters = cutouts.Filters(absent, options.min_side, options.min_fill)
  counts = cutouts.extract(segments, options.images, options.masks, options.out, filters)
  yield from (f'{count:7d}  {reason}' for reason, count in counts.most_common())
  sheets, lines = options.out / cutouts.SHEETS, options.out / cutouts.LIST
  yield f'Now look at {sheets}, delete lines from {lines}, and prune.'


def _words(text: str) -> tuple[str, ...]:
  """Splits text at commas, for instance 'Dog, Cat' into ('Dog', 'Cat')."""
  return tuple(word.strip() for word in text.split(',') if word.strip())


def _parser() -> argparse.ArgumentParser:
  """Returns the parser of the command line."""
  parser = new_parser('robustness cutouts', __doc__)
  commands = parser.add_subparsers(dest='command', required=True)
  extract = commands.add_parser('extract')
  for name in ('images', 'masks', 'segments', 'boxes', 'classes', 'out'):
    extract.add_argument(f'--{name}', type=expanded, required=True)
  extract.add_argument('--only', default='', help='classes, separated by commas; all by default')
  flags = 'flags that must not be present: ' + ', '.join(FLAGS)
  extract.add_argument('--absent', default='IsOccluded,IsTruncated', help=flags)
  extract.add_argument('--min_side', type=int, default=1, help='pixels of the shorter side')
  fill = "fraction of the cutout's rectangle that the mask fills"
  extract.add_argument('--min_fill', type=float, default=0.0, help=fill)
  commands.add_parser('prune').add_argument('--out', type=expanded, required=True)
  return parser
