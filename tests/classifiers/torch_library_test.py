"""Tests classifiers of timm and transformers by name: logits, records, classes and bad names."""

import json
import sys

import numpy as np
import pytest

from robustness.classifiers import ClassifierSettings, Images, resolve_section, torch_library
from robustness.fourier.input_filters import LowPass
from robustness.models.classifier import Classifier
from robustness.models.imagenet_names import NAMES, WNIDS
from robustness.models.probes import Linear
from tests.cases import cases
from tests.models.peers import peer
from tests.refusals import bad_setting, refused

torch = pytest.importorskip('torch', reason='runs networks in PyTorch')
safetensors = pytest.importorskip('safetensors.torch')
MEAN, STD = np.float32((0.485, 0.456, 0.406)), np.float32((0.229, 0.224, 0.225))
NAME = 'timm:resnet10t'
CLASSES = ('ant', 'bee', 'cat')
IMAGES = np.random.default_rng(0).random((2, 64, 64, 3), np.float32)


@pytest.fixture(autouse=True)
def no_cached_source():
  torch_library._read_source.cache_clear()


@pytest.fixture(scope='module')
def timm():
  return peer('timm')


def load(name: str, weights: str, class_names: tuple[str, ...], side=64, **settings) -> Classifier:
  """Returns the classifier of a section of the config, for square images of the classes."""
  kind = resolve_section(ClassifierSettings(name=name, weights=weights, **settings))
  return kind.load('mine', Images((side, side, 3), class_names, has_set_size=True), 'float32')


def record(name: str, weights: str):
  """Returns how the images of a section's classifier are prepared."""
  return resolve_section(ClassifierSettings(name=name, weights=weights)).record


def module_logits(module, mean=MEAN, std=STD):
  """Returns the logits of `IMAGES` in PyTorch, after a normalisation by channel."""
  normalised = (IMAGES - np.float32(mean)) / np.float32(std)
  with torch.no_grad():
    output = module.eval()(torch.from_numpy(normalised.transpose(0, 3, 1, 2).copy()))
  return getattr(output, 'logits', output).numpy()


def test_random_weights_follow_from_the_seed_and_have_the_classes_of_the_data(timm):
  first, again, other = (load(NAME, 'random', CLASSES, seed=seed) for seed in (3, 3, 4))
  assert first.class_names == CLASSES and first.provenance['weights'] == 'random, seed 3'
  assert first.provenance['library'].startswith('timm ')
  np.testing.assert_array_equal(first.predict(IMAGES), again.predict(IMAGES))
  assert first.provenance['sha256'] == again.provenance['sha256'] != other.provenance['sha256']
  assert {'layer1', 'layer2.0', 'features', 'logits'} < set(first.layers)


def test_the_config_may_state_the_normalisation_of_a_file_without_a_record(timm, tmp_path):
  module, file = timm.create_model('resnet10t', num_classes=3), tmp_path / 'model.safetensors'
  safetensors.save_file(module.state_dict(), file)
  stated = {'mean': (0.5,) * 3, 'std': (0.25,) * 3}
  section = ClassifierSettings(name=NAME, weights=str(file), **stated)
  resolve_section(section).check('mine', (64, 64, 3), 'float32')
  ours = load(NAME, str(file), CLASSES, **stated)
  expected = module_logits(module, **stated)
  np.testing.assert_allclose(ours.predict(IMAGES), expected, rtol=1e-4, atol=1e-5)
  assert ours.provenance['preprocessing']['mean'] == [0.5] * 3
  (tmp_path / 'config.json').write_text(json.dumps({'pretrained_cfg': {'crop_pct': 1.0}}))
  torch_library._read_source.cache_clear()
  with_record = resolve_section(section)
  refused(bad_setting('config.classifier.mean'), with_record.check, 'a', (64, 64, 3), 'float32')


@cases('in_a_folder', False, True)
def test_local_weights_match_timm_with_the_preprocessing_of_a_record(timm, in_a_folder, tmp_path):
  torch.manual_seed(1)
  module = timm.create_model('resnet10t', num_classes=1000)
  safetensors.save_file(module.state_dict(), tmp_path / 'model.safetensors')
  mean, std, size = MEAN, STD, 176
  if in_a_folder:
    facts = {'mean': [0.1, 0.2, 0.3], 'std': [0.4, 0.5, 0.6], 'input_size': [3, 96, 96]}
    config = {'architecture': 'resnet10t', 'pretrained_cfg': {'crop_pct': 1.0, **facts}}
    (tmp_path / 'config.json').write_text(json.dumps(config))
    mean, std, size = facts['mean'], facts['std'], 96
  weights = str(tmp_path if in_a_folder else tmp_path / 'model.safetensors')
  entry = record(NAME, weights)
  assert (entry.input_size, entry.record) == (size, 'config.json' if in_a_folder else '')
  ours = load(NAME, weights, WNIDS[:5])
  assert ours.class_names == NAMES
  expected = module_logits(module, mean, std)
  np.testing.assert_allclose(ours.predict(IMAGES), expected, rtol=1e-4, atol=1e-5)


def test_classes_have_the_order_of_the_record(timm, tmp_path):
  module = timm.create_model('resnet10t', num_classes=3)
  safetensors.save_file(module.state_dict(), tmp_path / 'model.safetensors')
  record = {'architecture': 'resnet10t', 'label_names': CLASSES[::-1], 'pretrained_cfg': {'x': 0}}
  (tmp_path / 'config.json').write_text(json.dumps(record))
  ours = load(NAME, str(tmp_path), CLASSES)
  assert ours.class_names == CLASSES[::-1]


def test_a_transformer_is_made_for_the_size_of_the_images(timm, tmp_path):
  small = load('timm:vit_tiny_patch16_224', 'random', CLASSES)
  assert small.predict(IMAGES).shape == (2, 3)
  assert 'blocks.0.attn' in small.layers
  torch.manual_seed(0)
  network = timm.create_model('vit_tiny_patch16_224', num_classes=3).eval()
  safetensors.save_file(network.state_dict(), tmp_path / 'model.safetensors')
  ours = load('timm:vit_tiny_patch16_224', str(tmp_path), CLASSES)
  network.set_input_size(img_size=(64, 64))
  expected = module_logits(network, 0.5, 0.5)
  np.testing.assert_allclose(ours.predict(IMAGES), expected, rtol=1e-4, atol=1e-5)


HF_MEAN, HF_STD = [0.5, 0.4, 0.3], [0.2, 0.2, 0.3]


def save_transformers(model, folder, **changes):
  """Writes a model of transformers and the record of its images, with changes of the record."""
  model.save_pretrained(folder)
  record = {'size': {'height': 64, 'width': 64}, 'do_resize': True, 'resample': 3}
  record |= {'image_mean': HF_MEAN, 'image_std': HF_STD, 'rescale_factor': 1 / 255}
  (folder / 'preprocessor_config.json').write_text(json.dumps({**record, **changes}))


def small_resnet(transformers, labels=None):
  """Returns a ResNet of transformers with three classes, which have the names `labels` if given."""
  sizes = {'hidden_sizes': [8, 16], 'depths': [1, 1], 'embedding_size': 8, 'num_labels': 3}
  config = transformers.ResNetConfig(layer_type='basic', **sizes)
  if labels:
    config.id2label = dict(enumerate(labels))
  torch.manual_seed(2)
  return transformers.ResNetForImageClassification(config).eval()


@cases('labels, names', (None, CLASSES), (('x', 'y', 'z'), ('x', 'y', 'z')))
def test_a_folder_of_transformers_has_its_logits_and_names(labels, names, tmp_path):
  transformers = pytest.importorskip('transformers', reason='needs transformers')
  peer('timm')  # lets torchvision, which transformers imports, be imported
  model = small_resnet(transformers, labels)
  save_transformers(model, tmp_path)
  name = f'hf:{tmp_path}'
  entry = record(name, '')
  assert (entry.input_size, entry.squash, entry.record) == (64, True, 'preprocessor_config.json')
  ours = load(name, '', CLASSES)
  assert ours.class_names == names
  expected = module_logits(model, HF_MEAN, HF_STD)
  np.testing.assert_allclose(ours.predict(IMAGES), expected, rtol=1e-4, atol=1e-5)
  model.bfloat16().save_pretrained(tmp_path / 'half')
  input_filter = LowPass(15)
  half = load(name, str(tmp_path / 'half'), CLASSES, input_filter=input_filter)
  assert half.provenance['input_filter'] == input_filter.describe()
  assert np.isfinite(half.predict(IMAGES)).all()


def test_names_of_arrays_before_transformers_5_are_supported(tmp_path):
  transformers = pytest.importorskip('transformers', reason='needs transformers')
  peer('timm')
  sizes = {'hidden_size': 8, 'num_hidden_layers': 1, 'num_attention_heads': 2, 'num_labels': 3}
  config = transformers.ViTConfig(intermediate_size=16, image_size=64, **sizes)
  torch.manual_seed(2)
  model = transformers.ViTForImageClassification(config).eval()
  save_transformers(model, tmp_path)
  assert any(
    'encoder.layer.0' in name for name in safetensors.load_file(next(tmp_path.glob('*.sa*')))
  )
  ours = load(f'hf:{tmp_path}', '', CLASSES)
  expected = module_logits(model, HF_MEAN, HF_STD)
  np.testing.assert_allclose(ours.predict(IMAGES), expected, rtol=1e-4, atol=1e-5)


def test_weights_without_a_last_linear_map_need_a_probe(timm, tmp_path):
  name, body = 'timm:vit_tiny_patch16_224', timm.create_model('vit_tiny_patch16_224', num_classes=0)
  safetensors.save_file(body.state_dict(), tmp_path / 'model.safetensors')
  arguments = (name, str(tmp_path), CLASSES, 224)
  refused('has no last linear map.*config.classifier.probe', load, *arguments)
  bare = load(*arguments, probe=Linear())
  assert 'features' in bare.layers
  wide = timm.create_model('mobilenetv3_small_050', num_classes=0)
  safetensors.save_file(wide.state_dict(), tmp_path / 'wide.safetensors')
  arguments = ('timm:mobilenetv3_small_050', str(tmp_path / 'wide.safetensors'), CLASSES, 224)
  assert load(*arguments, probe=Linear()).num_classes == 1024, 'its features'


@cases(
  'name, weights, message',
  ('timm:resnet18x', 'random', r"no model of timm: did you mean 'resnet18'"),
  ('timm:resnet18.a1_in2k', 'random', r"no tag of resnet18.*'resnet18.a1_in1k'"),
  ('timm:resnet18', '/nowhere/a.safetensors', 'there is no /nowhere/a.safetensors'),
  ('hf:./nowhere', '', 'neither a folder here nor a repository ACCOUNT/NAME'),
)
def test_unknown_names_are_refused_with_the_nearest(name, weights, message, timm):
  pytest.importorskip('transformers', reason='needs transformers')
  assert '\n' not in refused(message, record, name, weights)


def test_bad_folders_are_refused(timm, tmp_path):
  transformers = pytest.importorskip('transformers', reason='needs transformers')
  (tmp_path / 'empty').mkdir()
  refused('no config.json', record, f'hf:{tmp_path / "empty"}', '')
  save_transformers(small_resnet(transformers), tmp_path, do_normalize=False)
  refused('its do_normalize is False', record, f'hf:{tmp_path}', '')
  config = {'architecture': 'resnet18', 'pretrained_cfg': {'mean': [0.5] * 3}}
  (tmp_path / 'config.json').write_text(json.dumps(config))
  refused("is of 'resnet18'", record, NAME, str(tmp_path))
  other = timm.create_model('resnet18', num_classes=3)
  safetensors.save_file(other.state_dict(), tmp_path / 'other.safetensors')
  file = str(tmp_path / 'other.safetensors')
  torch_library._read_source.cache_clear()
  (tmp_path / 'config.json').unlink()
  arguments = (NAME, file, CLASSES)
  assert '\n' not in refused('cannot be built with other.safetensors', load, *arguments)


def test_a_missing_package_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, 'timm', None)
  refused(r"needs timm: pip install '\.\[timm\]'", record, NAME, 'random')
