"""Stored corrupted sets: how their examples are numbered, their columns, and checks of their names.

A part is one corruption at one severity, applied to all n base images in one order. Part p holds
the examples p n, ..., (p + 1) n - 1. Clean images, if the set has them, are the first part.
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
"""Names of corruptions in TFDS's configs that differ from the names here."""
_CONFIG = re.compile(rf'({"|".join([*NAMES, *_ALIASES])})_([1-5])')
"""Pattern of names of TFDS configs: a corruption and a severity, such as 'fog_3'."""


def of_parts(
  parts: Sequence[StoredPart], num_base: int, title: str, description: Facts, **fields: Any
) -> Images:
  """Describes a stored set of corrupted images, with one part per corruption and severity.

  Each part holds the same clean images in the same order, corrupted in one way. Random subsets use
  the same clean images in every part, so that comparisons are paired. Stored images are not cropped
  again. The result has the int32 columns `corruption`, `severity` and `base_id` (index of the clean
  image).

  Args:
    parts: corruption and severity of each part, in the order of the stored images.
    num_base: number of clean images, the same in each part.
    title: name of the data set in messages.
    description: JSON values for results.json; properties of the parts are added.
    fields: further fields of `Images`, such as `store`; `where` is optional.
  """
  # a pair (corruption, severity) for each image of each part, split into two columns
  corruptions, severities = np.array(parts, np.int32).repeat(num_base, axis=0).T
  base = np.tile(np.arange(num_base, dtype=np.int32), len(parts))
  names = [NAMED[part.corruption] for part in parts if part.corruption != CLEAN]
  facts = {
    'stored': True,
    'corruptions': list(dict.fromkeys(names)),  # distinct, in the order of the parts
    'base_images': num_base,
    'parts': len(parts),
    'severities': sorted({part.severity for part in parts} - {0}),  # clean images have 0
    'clean_images': CLEAN_PART in parts,
  }

  def describe(index: int) -> str:
    """Returns an image in words, such as 'CIFAR-10-C in DIR, fog 3, image 7 (example 307)'."""
    part, base_id = divmod(index, num_base)
    return f'{title}, {parts[part]}, image {base_id} (example {index})'

  fields.setdefault('where', describe)  # unless the caller can name the file of an image
  return Images(
    title=title,
    description={**description, **facts},
    num_examples=len(parts) * num_base,
    parts=len(parts),
    cropped=True,
    columns={'corruption': corruptions, 'severity': severities, 'base_id': base},
    **fields,
  )


def part_of_config(config: str) -> StoredPart | None:
  """Parses the name of a TFDS config, such as 'frosted_glass_blur_5'.

  Returns:
    The corruption and severity, or None for a name of another form.
  """
  match = _CONFIG.fullmatch(config)
  return match and StoredPart(NUMBERS[_ALIASES.get(match[1], match[1])], int(match[2]))


def check_names(
  names: Collection[str], folder: Path, valid: Sequence[str] = NAMES, kind: str = 'corruption'
) -> None:
  """Raises InputError unless all names in a folder are corruptions, and there is at least one.

  Args:
    names: names of the files or subfolders, without suffixes.
    folder: the folder, for messages.
    valid: the valid names, by default all corruptions.
    kind: what the valid names are, for messages.
  """
  for name in names:
    if name not in valid:
      advice = f'{nearest(name, valid)}. Rename it or move it elsewhere{looks_like(folder)}'
      raise InputError(f'{folder} holds {name!r}, which is no {kind}: {advice}.')
  if not names:
    expected = f'expected some of: {", ".join(valid)}.'
    raise InputError(f'{folder} holds no {kind}{looks_like(folder)}; {expected}')
