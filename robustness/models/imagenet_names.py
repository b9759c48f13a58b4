"""The 1000 classes of ImageNet (ILSVRC 2012): WordNet identifiers and names.

The index of a class is the rank of its identifier (wnid), as in PyTorch, Keras and TFDS. The name
is the first lemma of WordNet 3.0, except where two classes share it.

Reference: Russakovsky et al., ImageNet Large Scale Visual Recognition Challenge, 2015, section 3.
"""

import pathlib
from collections.abc import Sequence

_TABLE = pathlib.Path(__file__).with_name('imagenet_classes.txt').read_text(encoding='utf-8')
_ENTRIES = tuple(line.split(maxsplit=1) for line in _TABLE.splitlines())

WNIDS: tuple[str, ...] = tuple(wnid for wnid, _ in _ENTRIES)
"""WordNet identifiers, 'n' and eight digits, in the order of the classes."""

NAMES: tuple[str, ...] = tuple(name for _, name in _ENTRIES)
"""English names in the order of the classes; no two are equal."""


def in_words(names: Sequence[str]) -> list[str]:
  """Replaces WordNet identifiers of ImageNet's classes by English names.

  For example, 'n01440764' becomes 'tench'. Other names stay as they are.
  """
  words = dict(zip(WNIDS, NAMES, strict=True))
  return [words.get(name, name) for name in names]
