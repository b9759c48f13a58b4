"""Tests reading CNS-Bench in the released layout: columns, subsets and names of files."""

import shutil

import numpy as np
import pytest

from robustness.models.imagenet_names import WNIDS
from tests.cases import cases
from tests.input_pipeline.domains import full_batch, levels, read, save_grey
from tests.refusals import bad_setting, refused

CLASSES = {7: '007_cock', 985: '985_daisy'}
SHIFTS, SCALES = ('fog', 'snow'), (0, 500, 2500)


@pytest.fixture
def folder(tmp_path):
  """Returns a folder of two seeds of two classes at three scales of two shifts.

  Images are grey; the level is a hundredth of the scale in the name.
  """
  for shift in SHIFTS:
    for name in CLASSES.values():
      for seed in (3, 12):
        for scale in SCALES:
          file = f'seed_{seed:04d}_scale_{scale:04d}.jpg'
          save_grey(tmp_path / shift / name / file, scale // 100)
  return tmp_path


def test_shift_scale_and_class_are_read_from_names(folder):
  rows = read('cns_bench', folder)
  batch = full_batch(rows)
  assert rows.class_names == (WNIDS[7], WNIDS[985])
  assert batch['label'].tolist() == [*[0] * 6, *[1] * 6] * 2
  assert batch['shift'].astype(str).tolist() == [*['fog'] * 12, *['snow'] * 12]
  assert batch['scale'].tolist() == [0, 0.5, 2.5] * 8
  np.testing.assert_allclose(levels(batch['image']), 10 * batch['scale'], atol=1)
  assert batch['base_id'].tolist() == np.repeat([0, 1, 2, 3], 3).tolist() * 2


def test_a_subset_takes_all_images_of_a_base_or_of_some_shifts(folder):
  base_ids = full_batch(read('cns_bench', folder, num_images=3))['base_id']
  # three bases with three scales of two shifts each
  assert len(base_ids) == 18 and (np.bincount(base_ids)[np.unique(base_ids)] == 6).all()
  subset = full_batch(read('cns_bench', folder, shifts=('snow',)))
  assert {*subset['shift'].astype(str)} == {'snow'} and len(subset['label']) == 12


@cases(
  'settings, message',
  ({'shifts': ('snwo',)}, "shifts.*'snwo'; did you mean 'snow'"),
  ({'shifts': ('fog', 'fog')}, bad_setting('config.data.cns_bench.shifts', words='distinct')),
  ({'path': 'missing'}, 'cns_bench.path.*not a folder.*<shift>/<index>_<class>'),
)
def test_unusable_shifts_and_paths_are_refused(folder, settings, message):
  refused(message, read, 'cns_bench', **{'path': folder, **settings})


@cases(
  'name, message',
  ('fog/007_cock/seed_0003_scale_1.5.jpg', r'scale_1\.5\.jpg has no scale'),
  ('fog/cock/seed_0003_scale_1500.jpg', 'fog/cock is no class folder'),
  ('fog/1000_cock/seed_0003_scale_1500.jpg', '1000_cock is no class folder'),
)
def test_names_of_another_layout_are_refused(folder, name, message):
  (folder / name).parent.mkdir(exist_ok=True)
  (folder / name).write_bytes(b'')
  refused(message, read, 'cns_bench', folder)


@cases('copy', '007_cock copy', '007_cock/007_cock')
def test_a_copy_of_a_class_folder_is_refused(folder, copy):
  shutil.copytree(folder / 'fog/007_cock', folder / 'fog' / copy)
  refused('remove the copy', read, 'cns_bench', folder)


def test_a_folder_without_images_is_refused(tmp_path):
  refused('holds no pictures', read, 'cns_bench', tmp_path)
