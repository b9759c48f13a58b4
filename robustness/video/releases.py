"""The two published data sets of neighbor sets: what they count, and their files by content.

References: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, table 1, and the
folders as they unpack.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.models import label_space

VID, YTBB = 'ImageNet-Vid-Robust', 'YTBB-Robust'
RELEASES = {'imagenet_vid': VID, 'youtube_bb': YTBB}
"""Data sets by the label space of their classes."""
COUNTS = {
  VID: {(1109, 21_070): 'reviewed', (1314, 26_029): 'unreviewed'},
  YTBB: {(2030, 36_827): 'reviewed', (2467, 45_631): 'unreviewed'},
}
"""Whether sets are before their review, by the numbers of anchors and pairs."""
FILES = {
  VID: ('pmsets.json', 'labels.json', 'imagenet_vid_class_index.json', 'imagenet_class_index.json'),
  YTBB: ('anchor_labels.json', 'pmk_labels.json', 'ytbb_class_index.json'),
}


def title(class_names: Sequence[str], anchors: int, pairs: int) -> str:
  """Returns which data set sets of these classes are, or which they differ from, and counts."""
  space, counted = label_space.coarse_space(class_names), f'{anchors} anchors, {pairs} pairs'
  if space is None:
    return f'neighbor sets: {counted}'
  name = RELEASES[space.name]
  known = COUNTS[name].get((anchors, pairs))
  if known:
    return f'{name}, {known}: {counted}'
  published = ' or '.join(f'{a} and {p}' for a, p in COUNTS[name])
  return f'neighbor sets of {space.name}: {counted} ({name} has {published})'


def remark(root: pathlib.Path) -> str:
  """Returns what the files of a folder that cannot be read look like, for a message's end."""
  folders = [root, root / 'metadata', root / 'misc', root.parent / 'misc']
  files = [file for folder in folders for file in sorted(folder.glob('*.json'))]
  for file in files:
    name, release = identified(file)
    if name and name != file.name:
      return f'{file} looks like {name} of {release}.'
  names = {file.name for file in files}
  release = max(FILES, key=lambda release: len(names & set(FILES[release])))
  if not names & set(FILES[release]):
    return ''
  missing = [name for name in FILES[release] if name not in names]
  return f'{root} looks like {release}{f" without {missing[0]}" if missing else ""}.'


def identified(file: pathlib.Path) -> tuple[str, str]:
  """Returns what a file is called in which release, by its content; ('', '') if in none."""
  try:
    document = json_files.read(file)
  except InputError:
    return '', ''
  first = next((value for value in document.values() if value), None)
  kind = type(first[0]) if isinstance(first, list) else type(first)
  name, release = '', VID
  if 'annotations' in document and isinstance(document.get('labels'), list):
    marks = {'good': 'anchor_labels.json', 'similar': 'pmk_labels.json'}
    name = next((marks[mark] for mark in document['labels'] if mark in marks), '')
    release = YTBB
  elif all('/' in key for key in document):
    name = {str: 'pmsets.json', int: 'labels.json'}.get(kind, '') if first else ''
  elif kind is str and all(key.isdecimal() for key in document):
    of_size = {1000: FILES[VID][3], 30: FILES[VID][2], 24: FILES[YTBB][2]}
    name = of_size.get(len(document), '')
    release = YTBB if len(document) == 24 else VID
  return (name, release) if name else ('', '')
