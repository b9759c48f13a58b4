"""Whole runs on small versions of published sets of images, with values known by construction."""

import pathlib
from typing import Any

import numpy as np
import pytest

from robustness.corruptions.names import OFFICIAL, SETS, STORED_SETS
from robustness.estimates.published import ALEXNET_3DCC_ERRORS, ALEXNET_ERRORS
from robustness.estimates.table import select
from robustness.models import label_space
from robustness.models.imagenet_names import WNIDS
from robustness.results import WHICH_NUMBERS, Results
from tests.end_to_end import runs
from tests.refusals import refused
from tests.table_rows import estimate

pytestmark = pytest.mark.slow


def write_imagenet_c(
  folder: pathlib.Path, labels: list[int], red: str, corruptions: tuple[str, ...] = OFFICIAL
) -> list[str]:
  """Writes one image per class, corruption and severity, and returns the images' names.

  The grey level is 10 times the number of the class. Images of the corruption `red` have a red
  corner.
  """
  names = [f'{WNIDS[label]}/ILSVRC2012_val_{label:08d}.JPEG' for label in labels]
  for corruption in corruptions:
    for severity in range(1, 6):
      for label, name in zip(labels, names, strict=True):
        pixels = np.full((128, 128, 3), 10 * label, np.uint8)
        pixels[:8, :8, 0] = 255 if corruption == red else 10 * label
        runs.save_image(folder / corruption / str(severity) / name, pixels, quality=95)
  return names


WRONG_ON_RED = """
def scores(images):
  # the grey level is the class; images with a red corner are always wrong
  logits = np.zeros((len(images), 1000), np.float32)
  levels = np.rint(255 * images[..., 1].mean((1, 2)) / 10).astype(int)
  logits[np.arange(len(images)), np.where(images[:, 0, 0, 0] > 0.9, 999, levels)] = 2
  return logits
"""


def errors_of(folder: pathlib.Path, variant: str, source: str, side: int) -> Any:
  """Returns the config of a stored set in `folder / 'data'` for a network that `source` defines."""
  network = runs.write_network(folder / 'mine.py', source, (side, side, 3))
  config = runs.shrunk('corruption_error', variant, {'classifier.name': network})
  config.data[config.data.source].path, config.data.num_images = str(folder / 'data'), 0
  return config


def test_robustbench_measures_the_images_that_its_package_lists(tmp_path, monkeypatch):
  """The package lists three of four images and is read without being imported.

  Only the 3 × 5 images in fog are wrong, one of the 15 corruptions.
  """
  names = write_imagenet_c(tmp_path / 'data', [3, 7, 12, 20], red='fog')
  package = tmp_path / 'site' / 'robustbench'
  (package / 'helper_files').mkdir(parents=True)
  (package / '__init__.py').write_text('raise ImportError("its dependencies are missing")')
  listed = package / 'helper_files' / 'imagenet_test_image_ids.txt'
  listed.write_text(''.join(f'{name}\n' for name in (names[3], names[0], names[2])))
  config = errors_of(tmp_path, 'robustbench', WRONG_ON_RED, 128)
  monkeypatch.syspath_prepend(str(tmp_path / 'site'))
  results = runs.run(config, tmp_path / 'run', drawn=False)
  error, mce = (select(results.table, q, corruption_set='official') for q in ('error', 'mCE'))
  assert (error.n.item(), error.value.item()) == (3, pytest.approx(1 / 15))
  assert mce.value.item() == pytest.approx(1 / ALEXNET_ERRORS['fog'] / 15)
  stated = dict(results.tables[WHICH_NUMBERS].rows)
  assert stated['images'] == "3 of RobustBench's subset of 5000"
  assert stated['mCE divides by'] == 'AlexNet on ImageNet-C (published)'
  assert '3 of 50000 images' in stated['comparable with published tables']


def test_mce_on_imagenet_3dcc_divides_by_the_errors_of_alexnet_on_it(tmp_path):
  write_imagenet_c(tmp_path / 'data', [3, 7], 'fog_3d', STORED_SETS['imagenet_3dcc'])
  config = errors_of(tmp_path, 'imagenet_3dcc', WRONG_ON_RED, 128)
  results = runs.run(config, tmp_path / 'run', drawn=False)
  mce = select(results.table, 'mCE', corruption_set='imagenet_3dcc')
  assert mce.value.item() == pytest.approx(1 / ALEXNET_3DCC_ERRORS['fog_3d'] / 12)
  stated = dict(results.tables[WHICH_NUMBERS].rows)
  differs = 'no: images are 128 × 128, not 224 × 224; 2 of 50000 images'
  assert stated['comparable with published tables'] == differs
  config.study.source = 'generated'
  refused("those made here without config.study.source='stored'", runs.run, config, tmp_path / 'b')


ALL_CATS = """
def scores(images):
  # a dog is the most probable class, but the mean probability of cats is higher
  logits = np.zeros((len(images), 1000), np.float32)
  logits[:, 281:287], logits[:, 151] = 1.5, 2
  return logits
"""


DOGS_IN_THE_DARK = """
def scores(images):
  # 700 is in none of the nine classes
  logits = np.zeros((len(images), 1000), np.float32)
  logits[:, 151] = np.where(images.mean((1, 2, 3)) < 0.2, 3, 0)
  logits[:, 700] = 2  # without it the logits 0 and 1 would look like probabilities
  return logits
"""


def test_laion_c_is_scored_by_the_mean_probability_of_superclasses(tmp_path):
  for name in SETS['laion_c']:
    for severity in range(1, 6):
      for label in ('cat', 'dog', 'bird', 'fish'):
        folder = tmp_path / 'data' / name / f'intensity_level_{severity}' / label
        runs.save_image(folder / f'a_{name}_{severity}.JPEG', np.full((16, 16, 3), 90, np.uint8))
  config = errors_of(tmp_path, 'laion_c', ALL_CATS, 16)
  results = runs.run(config, tmp_path / 'run', drawn=False)
  error = select(results.table, 'error', corruption_set='laion_c')
  assert (error.n.item(), error.value.item()) == (4, 0.75)


def test_cue_conflict_is_scored_by_the_mean_probability_of_16_classes(tmp_path):
  for name in (
    'cat/cat1-dog1',
    'dog/dog1-cat2',
    'dog/dog2-car1',
    'bear/bear1-cat3',
    'cat/cat2-cat4',
  ):
    runs.save_image(tmp_path / 'data' / f'{name}.png', np.full((16, 16, 3), 90, np.uint8))
  network = runs.write_network(tmp_path / 'mine.py', ALL_CATS, (16, 16, 3))
  changes = {'path': str(tmp_path / 'data'), 'allow_missing': True}
  changes = {f'data.cue_conflict.{key}': value for key, value in changes.items()}
  changes |= {'classifier.name': network, 'data.num_images': 0}
  table = runs.run(runs.shrunk('shape_bias', '', changes), tmp_path / 'run').table
  bias, decided = (estimate(table, 'network', name) for name in ('shape_bias', 'decided'))
  # All four images with a conflict are called cat: one shape, two textures, one neither.
  assert (bias.value, bias.n, decided.value, decided.n) == (1 / 3, 3, 0.75, 4)
  edges = tmp_path / 'edge'
  runs.save_image(edges / 'cat/cat1.png', np.full((16, 16, 3), 90, np.uint8))
  changes['data.cue_conflict.path'] = str(edges)
  for variant in ('edge', 'silhouette'):
    config = runs.shrunk('shape_bias', variant, changes)
    table = runs.run(config, tmp_path / variant, drawn=False).table
    assert select(table, 'top1_accuracy').value.item() == 1


def test_answers_outside_the_nine_classes_of_imagenet_9_are_wrong(tmp_path):
  names = label_space.get('imagenet_9').class_names[:-1]
  for variant in ('original', 'mixed_same', 'mixed_rand'):
    for label, name in enumerate(names):
      for number in range(3):
        file = f'a{number}' if variant == 'original' else f'fg_a{number}_bg_b{label}'
        folder = tmp_path / 'data' / variant / 'val' / f'{label:02d}_{name}'
        level = 90 if variant == 'mixed_rand' and number == 2 else 10
        runs.save_image(folder / f'{file}.JPEG', np.full((16, 16, 3), level, np.uint8))
  network = runs.write_network(tmp_path / 'mine.py', DOGS_IN_THE_DARK, (16, 16, 3))
  changes = {'classifier.name': network, 'data.num_images': 0}
  changes['data.imagenet_9.path'] = str(tmp_path / 'data')
  table = runs.run(runs.shrunk('background_gap', '', changes), tmp_path / 'run').table
  original = estimate(table, 'network', 'accuracy', variant='original')
  assert (original.value, original.n) == (pytest.approx(1 / 9), 27), 'dogs, 3 of 27'
  gap = estimate(table, 'network', 'bg_gap')
  assert (gap.value, gap.clusters) == (pytest.approx(3 / 27 - 2 / 27), 27)
  masks = tmp_path / 'data/fg_mask/val/00_dog'
  masks.mkdir(parents=True)
  for number, side in enumerate((16, 0)):  # the foreground is all, and nothing
    np.save(masks / f'a{number}.npy', np.arange(256).reshape(16, 16) < side**2)
  for level in (10, 90):
    runs.save_image(tmp_path / f'backgrounds/{level}.png', np.full((16, 16, 3), level, np.uint8))
  changes['study.backgrounds'] = str(tmp_path / 'backgrounds')
  config = runs.shrunk('background_gap', 'challenge', changes)
  table = runs.run(config, tmp_path / 'challenge', drawn=False).table
  surviving = estimate(table, 'network', 'surviving_foregrounds')
  assert (surviving.value, surviving.n) == (0.5, 2)
  assert estimate(table, 'network', 'accuracy').value == 0.75


def test_accuracy_over_the_scale_of_each_shift_of_cns_bench(tmp_path):
  for shift, first_wrong in (('fog', 2000), ('snow', 1000)):  # the first scale that is wrong
    for scale in range(0, 3000, 500):
      for seed in range(2):
        file = tmp_path / f'data/{shift}/151_chihuahua/seed_{seed:04d}_scale_{scale:04d}.jpg'
        runs.save_image(file, np.full((16, 16, 3), 90 if scale >= first_wrong else 10, np.uint8))
  network = runs.write_network(tmp_path / 'mine.py', DOGS_IN_THE_DARK, (16, 16, 3))
  changes = {'classifier.name': network, 'data.num_images': 0, 'study.fewest': 2}
  changes['data.cns_bench.path'] = str(tmp_path / 'data')
  table = runs.run(runs.shrunk('accuracy_by_factor', 'cns_bench', changes), tmp_path / 'run').table
  curves = select(table, 'accuracy', shift=..., scale=...).set_index(['shift', 'scale']).value
  assert curves['fog'].to_dict() == {0: 1, 0.5: 1, 1: 1, 1.5: 1, 2: 0, 2.5: 0}
  assert curves['snow'].to_dict() == {0: 1, 0.5: 1, 1: 0, 1.5: 0, 2: 0, 2.5: 0}
  drops = select(table, 'accuracy_drop', shift=..., scale=...).set_index(['shift', 'scale']).value
  assert drops['fog'].to_dict() == {0.5: 0, 1: 0, 1.5: 0, 2: 1, 2.5: 1}
  for facets, value in (({'shift': 'fog'}, 2), ({'shift': 'snow'}, 1), ({}, 1.5)):
    assert estimate(table, 'network', 'failure_point', **facets).value == value
  assert (tmp_path / 'run/figures/accuracy_shift_scale.png').is_file()


STYLES, CLASSES = ('photo', 'cartoon', 'sketch'), ('cat', 'dog', 'pig')


def renditions_config(variant: str, path: str, groups: tuple[tuple[str], ...], data_dir: str = ''):
  environments = {'path': path, 'clean_environment': 'photo', 'data_dir': data_dir}
  data = {'resize': 8, 'crop': 8, 'num_images': 0, 'environments': environments}
  data |= {'class_groups': groups, 'random_class_groups': 0}
  changes = {'data': data, 'study.samples': 100, 'training.backbone_rate_multiplier': 1.0}
  config = runs.shrunk('systematic_renditions', variant, changes)
  for classifier in config.classifiers.values():
    classifier.name, classifier.initial_weights = 'small_cnn', ''
  config.precision = 'float32'
  return config


def test_a_folder_of_styles_has_environments_and_near_duplicates(tmp_path):
  """Each style and class has four random pictures; the sketched cats are four equal pictures."""
  draw = np.random.default_rng(0)
  for style in STYLES:
    for name in CLASSES:
      for k in range(4):
        fresh = np.random.default_rng(1) if (style, name) == ('sketch', 'cat') else draw
        pixels = fresh.integers(0, 256, (8, 8, 3), np.uint8)
        runs.save_image(tmp_path / 'styles' / style / name / f'{k}.png', pixels)
  config = renditions_config('folder', str(tmp_path / 'styles'), (('dog',), ('cat',)))
  results = runs.run(config, tmp_path / 'run')
  estimate(results.table, 'erm', 'rho')
  estimate(results.table, 'erm', 'seen', environment='cartoon')
  assert estimate(results.table, 'clean', 'clean_accuracy').n == 6
  grid = select(results.table, 'accuracy', environment=..., class_group=...)
  environments = grid[grid.classifier == 'erm'].environment
  assert environments.tolist() == ['clean (photo)', 'cartoon', 'sketch'] * 3
  assert 'clean (photo)' in (tmp_path / 'run/report.html').read_text()
  check_near_duplicates(results)


def check_near_duplicates(results: Results) -> None:
  """Checks that the two sketched cats in the test have copies in the training of `erm`."""
  table = results.tables['near_duplicates']
  copies = [row for row in table.rows if row[3] == 0]
  assert [row[0] for row in copies] == ['erm'] * 4
  assert [row[4:] for row in copies] == [['cat', 'cat', 'sketch', 'sketch']] * 4
  assert estimate(results.table, 'clean', 'near_duplicates').n == 18
  assert estimate(results.table, 'erm', 'near_duplicates').note.endswith('at most 4 of 64 bits')
