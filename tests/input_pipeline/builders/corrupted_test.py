"""The TFDS data set `corrupted`: equal to what the study shows, and loadable elsewhere."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow_datasets as tfds

import input_pipeline
from input_pipeline import DataSettings
from input_pipeline.builders import corrupted
from input_pipeline.builders.corrupted import CorruptedConfig
from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.studies.corruption_error import CorruptionError
from tests.input_pipeline.builders.pictures import LABELS, SIDE, pictures

ROOT = pathlib.Path(__file__).resolve().parents[3]
COUNT = len(LABELS)
Build = Callable[..., tfds.core.DatasetBuilder]


def shown_by_the_study(name: str, severity: int, seed: int = 0, **settings: Any) -> np.ndarray:
  """What `corruption_error` shows of all pictures, float32 [COUNT, SIDE, SIDE, 3]."""
  study = CorruptionError(corruptions=(name,), severities=(severity,), **settings)
  views = study.views((SIDE, SIDE, 3))
  key = random_keys.stream(seed, study.name)
  view = {k: v[1] for k, v in views.parameters.items()}

  def show(example_id: jax.Array, image: jax.Array) -> jax.Array:
    return views.show(
      random_keys.for_example(key, example_id, views.ids[1]), {'image': image}, view
    )

  images = pictures().astype(np.float32) / np.float32(255)
  one_after_another = jax.jit(lambda *rows: jax.lax.map(lambda row: show(*row), rows))
  return np.asarray(one_after_another(np.arange(COUNT), images))


def images_of(builder: tfds.core.DatasetBuilder, split: str = 'test') -> np.ndarray:
  return np.stack([e['image'] for e in tfds.as_numpy(builder.as_dataset(split=split))])


@pytest.mark.parametrize('quantize', ['floor', 'round'])
@pytest.mark.parametrize(('name', 'severity'), [('fog', 3), ('gaussian_noise', 5), ('frost', 2)])
def test_images_are_those_of_the_study_bit_for_bit(name: str, severity: int, quantize: str) -> None:
  config = CorruptedConfig(
    name='any',
    base='pictures',
    corruption=name,
    severity=severity,
    quantize=quantize,
    seed=4,
    constants=32,
  )
  made = corrupted.corruptor(config, (SIDE, SIDE, 3))(
    pictures().astype(np.float32) / np.float32(255), np.arange(COUNT)
  )
  expected = shown_by_the_study(name, severity, 4, quantize=quantize, constants=32)
  np.testing.assert_array_equal(made.astype(np.float32) / np.float32(255), expected)
  assert made.dtype == np.uint8 and (made != pictures()).mean() > 0.3


def test_a_flag_of_jax_changes_no_image() -> None:
  config = CorruptedConfig(
    name='any', base='pictures', corruption='elastic_transform', severity=4, constants=32
  )
  images = pictures().astype(np.float32) / np.float32(255)
  expected = corrupted.corruptor(config, (SIDE, SIDE, 3))(images, np.arange(COUNT))
  corrupted.corruptor.cache_clear()
  jax.config.update('jax_threefry_partitionable', False)
  try:
    made = corrupted.corruptor(config, (SIDE, SIDE, 3))(images, np.arange(COUNT))
  finally:
    jax.config.update('jax_threefry_partitionable', True)
  np.testing.assert_array_equal(made, expected)


def test_built_and_read_again_in_order(build: Build) -> None:
  builder = build()
  examples = list(tfds.as_numpy(builder.as_dataset(split='test')))
  assert [int(e['example_id']) for e in examples] == list(range(COUNT))
  assert [int(e['label']) for e in examples] == LABELS.tolist()
  stored = np.stack([e['image'] for e in examples])
  expected = shown_by_the_study('fog', 3, quantize='floor')
  np.testing.assert_array_equal(stored.astype(np.float32) / np.float32(255), expected)
  assert builder.info.features['label'].names == ['a', 'b', 'c']
  assert set(builder.info.splits) == {'test'}


def test_metadata_say_what_fixes_the_images(build: Build, tmp_path: pathlib.Path) -> None:
  build('frost', 5, quantize='round', seed=3, name='mine', splits=('test[:2]',))
  noted = tfds.builder('corrupted/mine', data_dir=str(tmp_path)).info.metadata
  assert noted['base'] == 'pictures/1.0.0' and noted['splits'] == ['test[:2]']
  assert noted['corruption'] == 'frost' and noted['severity'] == 5
  assert noted['constants'] == 32, 'the table nearest to 16 pixels'
  assert noted['quantize'] == 'round' and noted['seed'] == 3 and noted['frost'] == 'procedural'


def test_several_splits_and_slices(build: Build) -> None:
  builder = build('brightness', 1, name='two', splits=('test[3:]', 'train'))
  assert {s: i.num_examples for s, i in builder.info.splits.items()} == {
    'test': COUNT - 3,
    'train': 2,
  }
  clean = build('clean', 0, name='clean_too', splits=('test[3:]',))
  np.testing.assert_array_equal(images_of(clean), pictures()[3:])


def test_resized_and_cropped_as_a_study_reads_them(build: Build, base_dir: pathlib.Path) -> None:
  builder = build('clean', 0, name='small', resize=12, crop=8)
  assert builder.info.features['image'].shape == (8, 8, 3)
  rows = input_pipeline.load(
    DataSettings(source='tfds', name='pictures', data_dir=str(base_dir), resize=12, crop=8)
  )
  expected = next(rows.batches(COUNT))['image']
  np.testing.assert_array_equal(images_of(builder), np.rint(expected * 255))


@pytest.mark.slow
def test_another_project_loads_it_after_one_import(base_dir: pathlib.Path) -> None:
  """By name, in a fresh process."""
  code = (
    'import input_pipeline.builders; import tensorflow_datasets as tfds; '
    f'data = tfds.load("corrupted/pictures_contrast_2", data_dir={str(base_dir)!r}); '
    'print(len(data["test"]))'
  )
  answer = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True)
  assert answer.returncode == 0, answer.stderr
  assert answer.stdout.split()[-1] == str(COUNT)


def test_beam_writes_the_same_images(build: Build) -> None:
  pytest.importorskip('apache_beam', reason='the extra `beam` is optional')
  plain, beam = build('snow', 4), build('snow', 4, name='by_beam', beam=True)
  np.testing.assert_array_equal(images_of(beam), images_of(plain))


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    ('pictures_fogg_3', "corruption is 'fogg'; did you mean 'fog'"),
    ('pictures_fog_6', r"<base>_<corruption>_<severity>, .* 'cifar10_fog_3'"),
    ('pictures', '<base>_<corruption>_<severity>'),
  ],
)
def test_names_of_another_form_are_refused(name: str, message: str, base_dir: pathlib.Path) -> None:
  with pytest.raises(InputError, match=message):
    tfds.builder(f'corrupted/{name}', data_dir=str(base_dir))


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'corruption': 'frogs'}, "did you mean 'frost'|'fog'"),
    ({'severity': 0}, 'severity .* one of 1, 2, 3, 4, 5'),
    ({'corruption': 'clean'}, 'severity .* one of 0'),
    ({'quantize': 'ceil'}, "'floor'"),
    ({'constants': 48}, 'one of 0, 32, 64, 224, 299'),
    ({'base': ''}, 'a TFDS name'),
    ({'splits': ('test[:3]', 'test[5:]')}, 'different splits'),
    ({'seed': 1}, 'chooses seed needs a name of its own'),
  ],
)
def test_configs_that_make_no_sense_are_refused(fields: dict[str, Any], message: str) -> None:
  with pytest.raises(InputError, match=message):
    CorruptedConfig(**{'base': 'pictures', 'corruption': 'fog', 'severity': 1, **fields})


def test_another_name_and_too_small_images_are_refused(
  build: Build, base_dir: pathlib.Path
) -> None:
  first = tfds.builder('corrupted', data_dir=str(base_dir))
  assert first.builder_config.name == first.BUILDER_CONFIGS[0].name, "TFDS's own default"
  with pytest.raises(InputError, match='cifar10_fog_3'):
    tfds.builder('corrupted/fog', data_dir=str(base_dir))
  with pytest.raises(InputError, match='too small for glass_blur'):
    build('glass_blur', 1, name='tiny', resize=2)


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'severity': 5}, 'settings.severity: 3 → 5'),
    ({'corruption': 'contrast'}, "settings.corruption: 'fog' → 'contrast'"),
    ({'seed': 1}, 'settings.seed: 0 → 1'),
    ({'splits': ('train',)}, r"settings.splits: \[\] → \['train'\]"),
  ],
)
def test_another_config_under_the_same_name_is_refused(
  build: Build, fields: dict[str, Any], message: str
) -> None:
  images = images_of(build(name='c10fog'))
  with pytest.raises(InputError, match=message):
    build(**{'corruption': 'fog', 'severity': 3, **fields}, name='c10fog')
  np.testing.assert_array_equal(images_of(build(name='c10fog', beam=True)), images)


def test_another_base_of_the_same_name_is_refused(
  build: Build, base_dir: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  build(name='mine')
  other = tmp_path / 'other'
  shutil.copytree(base_dir / 'pictures', other / 'pictures')
  build(name='mine', base_dir=str(other))
  (file,) = other.glob('pictures/*/*-test.tfrecord*')
  file.write_bytes(file.read_bytes()[:-1] + b'x')
  with pytest.raises(InputError, match='inputs_sha256.base'):
    build(name='mine', base_dir=str(other))
