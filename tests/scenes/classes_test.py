"""Tests the classes of SI-Score and their positions among those of ImageNet."""

from robustness.models.imagenet_names import NAMES, WNIDS
from robustness.scenes import classes
from tests.refusals import refused

RELEASED = [*classes.IMAGENET_INDEX][:61]  # the table begins with the released classes


def test_112_different_classes_begin_with_the_61_released_ones():
  assert sorted(RELEASED) == RELEASED and len(classes.IMAGENET_INDEX) == 112
  assert len(set(classes.IMAGENET_INDEX.values())) == 112


WORDNET = {
  'pig': 'n02395406',
  'taxi': 'n02930766',
  'kite': 'n01608432',
  'mobile phone': 'n02992529',
}


def test_classes_are_found_by_name_and_by_wordnet_identifier():
  for name, wnid in WORDNET.items():
    assert WNIDS[classes.imagenet_index(name)] == wnid
    assert classes.imagenet_index(wnid) == classes.imagenet_index(name)
  shared = [name for name in RELEASED if name in NAMES]
  assert len(shared) > 45, 'most classes have the same name in both'
  for name in shared:
    assert classes.imagenet_index(name) == NAMES.index(name), 'equal names are the same class'
  assert classes.imagenet_index('Bell_pepper') == 945, 'case and underscores do not matter'
  refused("folder 'bagle' .* did you mean 'bagel'", classes.imagenet_index, 'bagle', 'folder')


def test_folders_of_the_released_cutouts_are_classes(shared_dir):
  folders = sorted((shared_dir / 'data' / 'si_score' / 'foregrounds').iterdir())
  indices = {folder.name: classes.imagenet_index(folder.name) for folder in folders}
  assert indices['starfish'] == 327
  assert set(indices) <= set(RELEASED)
