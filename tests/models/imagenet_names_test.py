"""The table of ImageNet's classes."""

from __future__ import annotations

import re

from robustness.models.imagenet_names import NAMES, WNIDS


def test_a_thousand_wnids_are_sorted_and_names_are_unique():
  assert len(WNIDS) == len(NAMES) == len(set(NAMES)) == 1000
  assert list(WNIDS) == sorted(set(WNIDS))
  assert all(re.fullmatch(r'n\d{8}', wnid) for wnid in WNIDS)
  assert all(name == name.strip() and name for name in NAMES)


def test_known_classes_have_their_known_positions():
  for index, wnid, name in (
    (0, 'n01440764', 'tench'),
    (207, 'n02099601', 'golden retriever'),
    (281, 'n02123045', 'tabby'),
    (404, 'n02690373', 'airliner'),
    (999, 'n15075141', 'toilet tissue'),
  ):
    assert (WNIDS[index], NAMES[index]) == (wnid, name)


def test_folders_of_real_pictures_have_these_names(shared_dir):
  folders = sorted(p.name for p in (shared_dir / 'data' / 'imagenet_samples').iterdir())
  assert tuple(f for f in folders if f.startswith('n')) == WNIDS
