"""A text file that names the images which are read, such as RobustBench's 5,000 of ImageNet.

One path a line, `<class>/<file>` below the data's folder, as in RobustBench's
`imagenet_test_image_ids.txt`: n01440764/ILSVRC2012_val_00000293.JPEG. That list comes with the
package robustbench; 'robustbench' stands for it, and needs the package's files and nothing that it
imports.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded

ROBUSTBENCH = 'robustbench'
ROBUSTBENCH_FILES = ('helper_files', 'data')
"""Folders of the package: of version 1.1.1, and of its repository before."""


def robustbench_file() -> Path:
  """Returns the list of ImageNet images in the installed package robustbench; imports nothing."""
  spec = importlib.util.find_spec(ROBUSTBENCH)
  folders = list(spec.submodule_search_locations or ()) if spec else []
  files = [
    Path(folder) / part / 'imagenet_test_image_ids.txt'
    for folder in folders
    for part in ROBUSTBENCH_FILES
  ]
  existing = [file for file in files if file.is_file()]
  if not existing:
    reason = f'of {folders[0]} has no such list' if folders else 'is not installed'
    raise InputError(
      f"config.data.listed is 'robustbench', but the package robustbench {reason}: "
      'pip install --no-deps robustbench, or give the path of its imagenet_test_image_ids.txt.'
    )
  return existing[0]


def read_names(path: str) -> list[str]:
  """Returns the names that a file lists, in its order; empty lines are left out.

  Args:
    path: of the file, or `ROBUSTBENCH`.
  """
  file = robustbench_file() if path == ROBUSTBENCH else expanded(path)
  try:
    lines = file.read_text(encoding='utf-8').splitlines()
  except (OSError, UnicodeDecodeError) as error:
    raise InputError(f'config.data.listed is {path!r}, which cannot be read ({error}).') from error
  names = [line.strip() for line in lines if line.strip()]
  if not names:
    raise InputError(f'{path} lists no images; expected one <class>/<file> a line.')
  if len(set(names)) < len(names):
    twice = next(name for name in names if names.count(name) > 1)
    raise InputError(f'{path} lists {twice!r} twice; each image counts once.')
  return names


def places(listed: Sequence[str], names: Sequence[str], path: str, title: str) -> np.ndarray:
  """Returns where listed images stand among those of a source, int64, ascending.

  Args:
    listed: see `read_names`.
    names: of the source's images, `<class>/<file>`.
    path: of the list, for messages.
    title: of the source.
  """
  known = {name: place for place, name in enumerate(names)}
  missing = [name for name in listed if name not in known]
  if missing:
    raise InputError(
      f'{path} lists {len(missing)} of {len(listed)} images that {title} lacks, first '
      f'{missing[0]!r}: {nearest(missing[0], known)}.'
    )
  return np.sort(np.array([known[name] for name in listed], np.int64))
