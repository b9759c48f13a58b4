"""Tests reading ImageNet-9 in the released layout: variants, foregrounds and masks."""

import shutil

import numpy as np
import pytest

from robustness.models import label_space
from tests.cases import cases
from tests.input_pipeline.domains import full_batch, levels, read, save_grey
from tests.refusals import bad_setting, refused

NAMES = label_space.get('imagenet_9').class_names[:-1]
VARIANTS = ('original', 'mixed_same', 'mixed_rand')


@pytest.fixture
def folder(tmp_path):
  """Returns a folder of two foregrounds a class in three variants.

  Images are grey; the level is 10 times the class plus the position of the variant.
  """
  for position, variant in enumerate(VARIANTS):
    for label, name in enumerate(NAMES):
      for foreground in ('n1_5', 'n2_6'):
        file = foreground if variant == 'original' else f'fg_{foreground}_bg_n{label}_9'
        path = tmp_path / variant / 'val' / f'{label:02d}_{name}' / f'{file}.JPEG'
        save_grey(path, 10 * label + position)
  return tmp_path


def test_variants_of_a_foreground_share_its_base_id(folder):
  rows = read('imagenet_9', folder)
  batch = full_batch(rows)
  assert rows.class_names == NAMES and rows.num_examples == 54
  variants = batch['variant'].astype(str)
  assert variants.tolist() == np.repeat(VARIANTS, 18).tolist()
  expected = 10 * batch['label'] + np.repeat([0, 1, 2], 18)
  np.testing.assert_allclose(levels(batch['image']), expected, atol=2)
  base_ids = batch['base_id'].reshape(3, 18)
  assert len({*base_ids[0].tolist()}) == 18 and (base_ids == base_ids[0]).all()


def test_a_subset_takes_all_variants_of_a_foreground(folder):
  bases = full_batch(read('imagenet_9', folder, num_images=5))['base_id']
  assert len(bases) == 15 and (np.bincount(bases)[np.unique(bases)] == 3).all()


@cases(
  'settings, message',
  ({'variants': ('only_fg',)}, 'only_fg/val has the folders none; expected 00_dog to 08_fish'),
  ({'variants': ('mixed',)}, bad_setting('config.data.imagenet_9.variants', 'mixed')),
  ({'variants': ()}, bad_setting('config.data.imagenet_9.variants', ())),
  (
    {'variants': ('original', 'original')},
    bad_setting('config.data.imagenet_9.variants', words='distinct'),
  ),
  ({'variants': ('only_fg',), 'masks': True}, bad_setting('config.data.imagenet_9.variants')),
)
def test_unusable_variants_are_refused(folder, settings, message):
  refused(message, read, 'imagenet_9', folder, **settings)


def test_other_class_folders_and_no_images_are_refused(folder):
  (folder / 'original/val/09_cat').mkdir()
  refused('09_cat; expected 00_dog to 08_fish', read, 'imagenet_9', folder)
  for label, name in enumerate(NAMES):
    (folder / f'only_fg/val/{label:02d}_{name}').mkdir(parents=True)
  refused('holds no images of only_fg', read, 'imagenet_9', folder, variants=('only_fg',))


def test_a_copied_class_folder_and_missing_pictures_are_refused(folder):
  copy, of_rand = folder / 'original/val/09_dog', folder / 'mixed_rand/val/08_fish'
  shutil.copytree(folder / 'original/val/00_dog', copy)
  refused('08_fish, 09_dog; expected 00_dog to 08_fish', read, 'imagenet_9', folder)
  shutil.rmtree(copy)
  next(of_rand.iterdir()).unlink()
  refused(f'{of_rand} has 1 pictures, and .*same/val/08_fish has 2', read, 'imagenet_9', folder)
  assert read('imagenet_9', folder, variants=('original', 'mixed_rand')).num_examples == 35


def test_a_folder_without_masks_is_refused(folder):
  message = 'holds no images of original with masks in fg_mask/val'
  refused(message, read, 'imagenet_9', folder, masks=True)


def test_masks_are_read_with_the_originals_that_have_one(folder):
  path = folder / 'fg_mask/val/01_bird/n1_5.npy'
  path.parent.mkdir(parents=True)
  np.save(path, np.eye(8))
  rows = read('imagenet_9', folder, masks=True)
  assert rows.description['left_out'] == {'pictures without a mask': 17}
  assert rows.description['variants'] == ['original']
  batch = full_batch(rows)
  np.testing.assert_array_equal(batch['foreground'], np.eye(8, dtype=bool)[None])
  assert batch['label'].tolist() == [1] and batch['variant'].astype(str).tolist() == ['original']
  np.save(path, np.eye(7))
  with pytest.raises(Exception, match=r'n1_5\.npy has the shape \(7, 7\)'):
    full_batch(read('imagenet_9', folder, masks=True))
