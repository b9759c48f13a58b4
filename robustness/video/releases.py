"""The two published data sets of neighbor sets: what they count, and their files by content.

References: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, table 1, and the
folders as they unpack.
"""

from __future__ import annotations

import pathlib

from robustness.core import json_files
from robustness.core.errors import InputError

VID, YTBB = 'ImageNet-Vid-Robust', 'YTBB-Robust'
RELEASES = {'imagenet_vid': VID, 'youtube_bb': YTBB}
"""Data sets by the label space of their classes."""
COUNTS = {
  VID: {(1109, 21_070): 'reviewed', (1314, 26_029): 'unreviewed'},
  YTBB: {(2030, 36_827): 'reviewed', (2467, 45_631): 'unreviewed'},
}
"""Whether sets are before their review, by the numbers of anchors and pairs."""
FILES = {
  'pmsets.json': VID,
  'labels.json': VID,
  'imagenet_vid_class_index.json': VID,
  'imagenet_class_index.json': VID,
  'anchor_labels.json': YTBB,
  'pmk_labels.json': YTBB,
  'ytbb_class_index.json': YTBB,
}


def title(space: str, anchors: int, pairs: int) -> str:
  """Returns which data set the sets of a label space are, or which they differ from, and counts;
  '' stands for other classes."""
  counted = f'{anchors} anchors, {pairs} pairs'
  if space not in RELEASES:
    return f'neighbor sets: {counted}'
  name = RELEASES[space]
  known = COUNTS[name].get((anchors, pairs))
  if known:
    return f'{name}, {known}: {counted}'
  published = ' or '.join(f'{a} and {p}' for a, p in COUNTS[name])
  return f'neighbor sets of {space}: {counted} ({name} has {published})'


def remark(root: pathlib.Path) -> str:
  """Returns what the files of a folder that cannot be read look like, for a message's end."""
  folders = [root, root / 'metadata', root / 'misc', root.parent / 'misc']
  files = [file for folder in folders for file in sorted(folder.glob('*.json'))]
  for file in files:
    name = identified(file)
    if name not in ('', file.name):
      return f'{file} looks like {name} of {FILES[name]}.'
  found = [FILES[file.name] for file in files if file.name in FILES]
  if not found:
    return ''
  release, there = max(found, key=found.count), {file.name for file in files}
  missing = [name for name in FILES if FILES[name] == release and name not in there]
  return f'{root} looks like {release}{f" without {missing[0]}" if missing else ""}.'


def identified(file: pathlib.Path) -> str:
  """Returns which of `FILES` a file is by its content, '' if none."""
  try:
    document = json_files.read(file)
  except InputError:
    return ''
  if 'annotations' in document:
    marks = {'good': 'anchor_labels.json', 'similar': 'pmk_labels.json'}
    return next((name for mark, name in marks.items() if mark in document.get('labels', ())), '')
  first = next(filter(None, document.values()), '')
  kind = type(first[0]) if isinstance(first, list) else type(first)
  if document and all('/' in key for key in document):
    return {str: 'pmsets.json', int: 'labels.json'}.get(kind, '') if first else ''
  spaces = {1000: 'imagenet', 30: 'imagenet_vid', 24: 'ytbb'}
  space = spaces.get(len(document), '') if all(map(str.isdecimal, document)) else ''
  return f'{space}_class_index.json' if space and kind is str else ''
