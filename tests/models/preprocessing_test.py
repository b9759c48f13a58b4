"""Tests that the records next to weights of timm, open_clip and transformers prepare images."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from robustness.config import experiment
from robustness.models import catalog, hub, preprocessing, weights
from robustness.models.imagenet_names import NAMES
from tests.cases import cases
from tests.refusals import refused

MEAN, STD = [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]
TIMM = {
  'architecture': 'deit3_small_patch16_224',
  'pretrained_cfg': {
    'input_size': [3, 224, 224],
    'crop_pct': 0.9,
    'crop_mode': 'center',
    'interpolation': 'bicubic',
    'mean': MEAN,
    'std': STD,
    'license': 'mit',
  },
}
OPEN_CLIP = {
  'model_cfg': {'quick_gelu': False, 'vision_cfg': {'image_size': 224}},
  'preprocess_cfg': {'mean': MEAN, 'std': STD, 'interpolation': 'bicubic', 'resize_mode': 'squash'},
}
HUB = {'size': {'shortest_edge': 256}, 'do_center_crop': True, 'resample': 3}
HUB |= {'crop_size': {'height': 224, 'width': 224}, 'image_mean': MEAN, 'image_std': STD}
HUB |= {'rescale_factor': 0.00392156862745098}
CONVNEXT = {**HUB, 'size': {'shortest_edge': 224}, 'crop_pct': 0.875, 'do_center_crop': False}
TIMM_FILE, OPEN_CLIP_FILE = preprocessing.CONFIG_FILE, preprocessing.OPEN_CLIP_FILE
HUB_FILE = preprocessing.TRANSFORMERS_FILE
"""Records in the form of each library, of transformers in `HUB`, and the names of their files."""


def folder_with(tmp_path, records, weights=('model.safetensors',)):
  """Writes records by file name and weights to the folder, and returns it."""
  for name, record in records.items():
    (tmp_path / name).write_text(json.dumps(record))
  for name in weights:
    save_file({'head.bias': np.zeros(3, np.float32)}, tmp_path / name)
  return tmp_path


@cases(
  'name, record, expected',
  (TIMM_FILE, TIMM, (224, 248, 'bicubic', False)),
  (OPEN_CLIP_FILE, OPEN_CLIP, (224, 224, 'bicubic', True)),
  (HUB_FILE, HUB, (224, 256, 'bicubic', False)),
  (HUB_FILE, {**HUB, 'size': 256}, (224, 256, 'bicubic', False)),
  (
    HUB_FILE,
    {**HUB, 'size': 256, 'feature_extractor_type': 'DeiTFeatureExtractor'},
    (224, 256, 'bicubic', True),
  ),
  (
    HUB_FILE,
    {**HUB, 'size': 224, 'crop_pct': 0.9, 'feature_extractor_type': 'PoolFormerImageProcessor'},
    (224, 248, 'bicubic', False),
  ),
  (
    HUB_FILE,
    {**HUB, 'size': 224, 'feature_extractor_type': 'LevitFeatureExtractor'},
    (224, 256, 'bicubic', False),
  ),
  (HUB_FILE, CONVNEXT, (224, 256, 'bicubic', False)),
  (HUB_FILE, {**CONVNEXT, 'size': {'shortest_edge': 384}}, (384, 384, 'bicubic', True)),
  (
    HUB_FILE,
    {**HUB, 'size': {'height': 224, 'width': 224}, 'do_center_crop': False, 'resample': 2},
    (224, 224, 'bilinear', True),
  ),
)
@pytest.mark.parametrize('is_folder', [False, True])
def test_a_file_or_folder_is_prepared_by_its_record(tmp_path, name, record, expected, is_folder):
  folder = folder_with(tmp_path, {name: record})
  path = str(folder if is_folder else folder / 'model.safetensors')
  entry = hub.resolve(path, catalog.get('deit3_s16'))
  assert (entry.input_size, entry.resize, entry.interpolation, entry.squash) == expected
  assert (entry.mean, entry.std) == (tuple(MEAN), tuple(STD))
  assert entry.preprocessing['record'] == name
  assert hub.fetch(entry).path == folder / 'model.safetensors'
  sections = {'mine': {'name': 'deit3_s16', 'weights': path}}
  config = {'study': {'name': 'accuracy'}, 'classifiers': sections}
  preparation = experiment.from_config(config).preparation()
  assert preparation.name == f'model.safetensors ({name})' and preparation.squash == expected[3]


def test_a_config_of_a_run_is_no_record(tmp_path):
  folder = folder_with(tmp_path, {TIMM_FILE: {'classifier': {'name': 'resnet20'}}})
  assert hub.resolve(str(folder / 'model.safetensors'), catalog.get('resnet20')) is None
  assert hub.resolve(str(folder), catalog.get('resnet20')) is None


def test_a_file_saved_here_holds_its_record_and_its_architecture(tmp_path):
  path = tmp_path / 'mine.safetensors'
  preparation = {'mean': MEAN, 'std': STD, 'interpolation': 'bicubic'}
  preparation |= {'input_size': 384, 'crop_fraction': 1.0, 'squash': True}

  def resolved(architecture, **change):
    facts = {'architecture': 'deit3_s16', 'preprocessing': {**preparation, **change}}
    weights.save_variables(path, {'params': {'a': np.zeros(1, np.float32)}}, facts)
    return hub.resolve(str(path), catalog.get(architecture))

  entry = resolved('deit3_s16')
  assert entry.preprocessing == {**preparation, 'record': 'its metadata'}
  assert entry.licence == 'not stated'
  assert hub.fetch(entry).path == path
  refused("of 'deit3_s16'.*name=deit3_s16", resolved, 'deit3_b16')
  refused('mine.safetensors: mean and std', resolved, 'deit3_s16', std=[0, 1, 1])
  refused('mine.safetensors: it does not say', resolved, 'deit3_s16', size=7)


@cases(
  'record, names',
  ({'label_names': ['b', 'a']}, ('b', 'a')),
  ({'id2label': {'1': 'a', '10': 'z', '2': 'c', '0': 'b'}}, ('b', 'a', 'c', 'z')),
  ({'id2label': {str(k): f'{name}, x' for k, name in enumerate(NAMES)}}, NAMES),
  ({'id2label': {'0': 'LABEL_0'}}, ()),
  ({}, ()),
)
def test_classes_have_the_order_of_the_record(record, names):
  assert preprocessing.class_names(record) == names


def timm(**change):
  """Returns the file of `TIMM` with changes of its preparation."""
  return {TIMM_FILE: {**TIMM, 'pretrained_cfg': {**TIMM['pretrained_cfg'], **change}}}


@cases(
  'architecture, records, message',
  ('deit3_b16', timm(), "of 'deit3_s16'.*'deit3_b16'.*name=deit3_s16"),
  (
    'efficientnet_lite0',
    {TIMM_FILE: {**TIMM, 'architecture': 'efficientnet_lite0'}},
    "timm's 'efficientnet_lite0', and efficientnet_lite0 is timm's 'tf_.*classifier.name=timm:eff",
  ),
  ('deit3_s16', timm(crop_mode='border'), "config.json: its crop is 'border'"),
  ('deit3_s16', timm(input_size=[3, 224, 320]), '224x320, not square'),
  ('deit3_s16', timm(interpolation='lanczos'), "'lanczos', neither bilinear nor bicubic"),
  ('deit3_s16', timm(mean=None), 'does not say how images are prepared'),
  ('deit3_s16', {HUB_FILE: {**HUB, 'rescale_factor': 1}}, 'rescale_factor is 1, not 1/255'),
  ('deit3_s16', {HUB_FILE: {**HUB, 'do_center_crop': False}}, 'crops nothing: not square'),
  ('deit3_s16', {HUB_FILE: {**HUB, 'include_top': True}}, 'include_top is True, which is not done'),
  ('deit3_s16', {HUB_FILE: {**HUB, 'resample': 1}}, "interpolation is 'resample 1'"),
  ('deit3_s16', {HUB_FILE: {**HUB, 'do_normalize': False}}, 'do_normalize is False'),
  ('deit3_s16', {HUB_FILE: {**HUB, 'do_rescale': False}}, 'do_rescale is False: .* all three'),
  ('deit3_s16', timm(std=[0, 0.5, 0.5]), r'std are .*\(0, 0.5, 0.5\): they are finite'),
  ('deit3_s16', timm(mean=['a', 0, 0]), 'config.json: it does not say how images are prepared'),
  ('deit3_s16', timm(input_size=[3, 22.5, 22.5]), '22.5 pixels a side, which is no whole number'),
  ('deit3_s16', {HUB_FILE: {**HUB, 'size': 224, 'crop_pct': 0}}, 'prepared.*ZeroDivisionError'),
  ('deit3_s16', {HUB_FILE: HUB, TIMM_FILE: {'id2label': {'cat': 'cat'}}}, "named .*'cat'"),
  ('deit3_s16', {HUB_FILE: HUB, TIMM_FILE: {'label_names': 3}}, 'named .*not iterable'),
  ('clip_vit_b32', {HUB_FILE: HUB, TIMM_FILE: {'vision_config': None}}, 'named .*NoneType'),
  (
    'clip_vit_b32_quickgelu',
    {OPEN_CLIP_FILE: OPEN_CLIP},
    "for 'gelu' and clip_vit_b32_quickgelu has 'quick_gelu'",
  ),
  (
    'clip_vit_b32',
    {HUB_FILE: HUB, TIMM_FILE: {'vision_config': {'hidden_act': 'quick_gelu'}}},
    "for 'quick_gelu' and clip_vit_b32 has 'gelu'",
  ),
)
def test_unsupported_records_are_refused(tmp_path, architecture, records, message):
  folder = folder_with(tmp_path, records)
  refused(message, hub.resolve, str(folder / 'model.safetensors'), catalog.get(architecture))


def test_a_folder_of_several_weights_files_is_refused(tmp_path):
  folder = folder_with(tmp_path, {HUB_FILE: HUB}, ('a.safetensors', 'b.safetensors'))
  message = r'holds 2 weights files \(a.safetensors, b.safetensors\): name one'
  architecture = catalog.get('deit3_s16')
  refused(message, preprocessing.record_of, folder, architecture)
