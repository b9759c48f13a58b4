"""Images of stored corrupted sets: their parts, their columns, and hints for other releases.

A part is one corruption at one severity of all base images, in one order; part p of n base images
holds the examples [p * n, (p + 1) * n). Clean images, where there are any, are the first part.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from input_pipeline.image_files import looks_like
from input_pipeline.images import Images
from robustness.core.errors import InputError, nearest
from robustness.core.typing import Facts
from robustness.corruptions.names import CLEAN, CLEAN_PART, NAMED, NAMES, NUMBERS, StoredPart

_ALIASES = {'elastic': 'elastic_transform', 'frosted_glass_blur': 'glass_blur'}
_CONFIG = re.compile(rf'({"|".join([*NAMES, *_ALIASES])})_([1-5])')


def of_parts(
  parts: Sequence[StoredPart], num_base: int, title: str, description: Facts, **fields: Any
) -> Images:
  """Returns stored corrupted images in complete parts.

  `columns` are `corruption`, `severity` and `base_id`, int32 [parts * num_base]. A subset takes the
  same base images from every part, so that comparisons stay paired. Images were cropped before they
  were corrupted, and are not cropped again.

  Args:
    parts: in the order of the examples.
    num_base: images a part.
    title: names the images in messages.
    description: plain values for results.json, to which facts about the parts are added.
    fields: other fields of `Images`.
  """
  numbers = np.array(parts, np.int32).repeat(num_base, axis=0)
  base = np.tile(np.arange(num_base, dtype=np.int32), len(parts))
  named = {NAMED[part.corruption]: None for part in parts if part.corruption != CLEAN}
  facts = {
    'stored': True,
    'corruptions': list(named),
    'base_images': num_base,
    'parts': len(parts),
    'severities': sorted({part.severity for part in parts} - {0}),
    'clean_images': CLEAN_PART in parts,
  }

  def describe(index: int) -> str:
    return f'{title}, {parts[index // num_base]}, image {index % num_base} (example {index})'

  return Images(
    title=title,
    description={**description, **facts},
    num_examples=len(parts) * num_base,
    parts=len(parts),
    cropped=True,
    columns={'corruption': numbers[:, 0], 'severity': numbers[:, 1], 'base_id': base},
    **{'where': describe, **fields},
  )


def part_of_config(config: str) -> StoredPart | None:
  """Returns the part that a config's name says, such as 'frosted_glass_blur_5'; None if none."""
  named = _CONFIG.fullmatch(config)
  return named and StoredPart(NUMBERS[_ALIASES.get(named[1], named[1])], int(named[2]))


def check_names(
  named: Collection[str], folder: Path, names: Sequence[str] = NAMES, kind: str = 'corruption'
) -> None:
  """Refuses names of files or folders in a folder that are no corruption, or none of `names`."""
  for name in named:
    if name not in names:
      release = looks_like(folder)
      fix = f': {nearest(name, names)}. Rename it or move it elsewhere'
      advice = '' if f"with '{name}" in release else fix
      raise InputError(f'{folder} holds {name!r}, which is no {kind}{advice}{release}.')
  if not named:
    expected = f'expected some of: {", ".join(names)}.'
    raise InputError(f'{folder} holds no {kind}{looks_like(folder)}; {expected}')
