"""Reading weights files, the damaged and the hostile ones included."""

from __future__ import annotations

import collections
import pickle
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from robustness.core.errors import InputError
from robustness.models import catalog, weights
from robustness.models.state_dict import read_arrays, read_state_dict

ARRAYS = {
  'conv.weight': np.arange(6, dtype=np.float32).reshape(2, 3),
  'bn.num_batches_tracked': np.array(3, np.int64),
}


class Attack:
  """Writes a file when it is unpickled, if anything runs it."""

  def __init__(self, path):
    self.path = path

  def __reduce__(self):
    return open, (str(self.path), 'w')


@pytest.fixture
def torch():
  return pytest.importorskip('torch', reason='.th and .pt files need torch')


def tensors(torch, prefix=''):
  return {prefix + name: torch.from_numpy(value.copy()) for name, value in ARRAYS.items()}


def assert_arrays(read):
  assert read.keys() == ARRAYS.keys()
  for name, value in ARRAYS.items():
    np.testing.assert_array_equal(read[name], value)
    assert read[name].dtype == value.dtype


@pytest.mark.parametrize('suffix', ['.th', '.pt', '.pth'])
@pytest.mark.parametrize('prefix', ['', 'module.', '_orig_mod.module.'])
@pytest.mark.parametrize('wrappers', [(), ('state_dict',), ('model',), ('net', 'state_dict')])
def test_torch_files_in_their_usual_wrappings(torch, tmp_path, suffix, prefix, wrappers):
  content = collections.OrderedDict(tensors(torch, prefix))
  for name in wrappers:
    content = {name: content, 'epoch': 3}
  path = tmp_path / f'weights{suffix}'
  torch.save(content, path)
  assert_arrays(read_state_dict(path))


def test_the_legacy_format_is_read(torch, tmp_path):
  path = tmp_path / 'weights.th'
  torch.save(tensors(torch), path, _use_new_zipfile_serialization=False)
  assert_arrays(read_state_dict(path))


def test_a_prefix_that_only_some_names_carry_stays(torch, tmp_path):
  torch.save({'module.a': torch.ones(1), 'b': torch.ones(1)}, tmp_path / 'w.pt')
  assert set(read_state_dict(tmp_path / 'w.pt')) == {'module.a', 'b'}


def test_bfloat16_keeps_its_bits(torch, tmp_path):
  torch.save({'a': torch.tensor([1.5, -2.25], dtype=torch.bfloat16)}, tmp_path / 'w.pt')
  read = read_state_dict(tmp_path / 'w.pt')['a']
  assert read.dtype == ml_dtypes.bfloat16
  np.testing.assert_array_equal(read.astype(np.float32), [1.5, -2.25])


def test_safetensors_need_no_torch(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'torch', None)
  path = tmp_path / 'weights.safetensors'
  half = {'half': np.ones(2, ml_dtypes.bfloat16)}
  safetensors.numpy.save_file({f'module.{k}': v for k, v in {**ARRAYS, **half}.items()}, path)
  read = read_state_dict(path)
  assert read.pop('half').dtype == ml_dtypes.bfloat16
  assert_arrays(read)


def test_without_torch_the_mend_is_told(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'torch', None)
  (tmp_path / 'w.pt').write_bytes(b'any')
  with pytest.raises(InputError, match=r"w\.pt.*pip install '\.\[torch\]'"):
    read_state_dict(tmp_path / 'w.pt')


@pytest.mark.parametrize('legacy', [False, True])
def test_code_in_a_file_is_never_run(torch, tmp_path, legacy):
  path, mark = tmp_path / 'w.pt', tmp_path / 'attacked'
  content = {'a': torch.ones(1), 'b': Attack(mark)}
  torch.save(content, path, _use_new_zipfile_serialization=not legacy)
  with pytest.raises(InputError, match=r'w\.pt holds Python objects.*state_dict\(\)'):
    read_state_dict(path)
  assert not mark.exists()


def test_a_bare_pickle_with_code_is_never_run(torch, tmp_path):
  path, mark = tmp_path / 'w.pt', tmp_path / 'attacked'
  path.write_bytes(pickle.dumps(Attack(mark)))
  with pytest.raises(InputError, match=r'w\.pt'):
    read_state_dict(path)
  assert not mark.exists()


def test_the_message_does_not_advise_to_trust_a_damaged_file(torch, tmp_path):
  (tmp_path / 'w.pt').write_bytes(b'no weights')
  with pytest.raises(InputError) as caught:
    read_state_dict(tmp_path / 'w.pt')
  assert 'weights_only' not in str(caught.value)


def test_a_whole_pickled_module_is_refused(torch, tmp_path):
  torch.save(torch.nn.Linear(2, 2), tmp_path / 'w.pt')
  with pytest.raises(InputError, match=r'w\.pt holds Python objects'):
    read_state_dict(tmp_path / 'w.pt')


@pytest.mark.parametrize('name', ['w.th', 'w.pt', 'w.safetensors'])
def test_a_missing_file_is_named(tmp_path, name):
  with pytest.raises(InputError, match=rf'{name} does not exist'):
    read_state_dict(tmp_path / name)


def test_a_folder_and_another_suffix_are_named(tmp_path):
  (tmp_path / 'w.ckpt').write_bytes(b'x')
  with pytest.raises(InputError, match=r"'\.ckpt'; valid: \.th, \.pt, \.pth, \.safetensors"):
    read_state_dict(tmp_path / 'w.ckpt')
  with pytest.raises(InputError, match='is a folder'):
    read_state_dict(tmp_path)


@pytest.mark.parametrize('legacy', [False, True])
@pytest.mark.parametrize('share', [0.0, 0.05, 0.5, 0.9, 0.999])
def test_truncated_torch_files_are_named(torch, tmp_path, legacy, share):
  path = tmp_path / 'w.th'
  torch.save({'a': torch.ones(1000)}, path, _use_new_zipfile_serialization=not legacy)
  content = path.read_bytes()
  path.write_bytes(content[: int(share * len(content))])
  with pytest.raises(InputError, match=r'w\.th .*is truncated'):
    read_state_dict(path)


@pytest.mark.parametrize('share', [0.0, 0.05, 0.5, 0.999])
def test_truncated_safetensors_are_named(tmp_path, share):
  path = tmp_path / 'w.safetensors'
  content = safetensors.numpy.save({'a': np.ones(1000, np.float32)})
  path.write_bytes(content[: int(share * len(content))])
  for read in (read_state_dict, weights.load_variables):
    with pytest.raises(InputError, match=r'w\.safetensors is truncated or is no safetensors'):
      read(path)


@pytest.mark.parametrize('name', ['w.th', 'w.pt', 'w.safetensors'])
def test_files_of_another_kind_are_named(torch, tmp_path, name):
  rng = np.random.default_rng(0)
  for content in (b'hello world, this is text\n' * 50, rng.bytes(5000), b'\x89PNG\r\n' * 100):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf'{name} is truncated or is no'):
      read_state_dict(tmp_path / name)


def test_what_is_no_mapping_of_tensors_is_refused(torch, tmp_path):
  path = tmp_path / 'w.pt'
  for content, message in (
    ([torch.ones(1)], r'w\.pt holds a list'),
    ({'epoch': 3, 'a': torch.ones(1)}, r'w\.pt: 1 entries are no tensors, first epoch'),
    ({}, r'w\.pt holds no tensors'),
  ):
    torch.save(content, path)
    with pytest.raises(InputError, match=message):
      read_state_dict(path)


def test_sparse_tensors_are_refused_by_name(torch, tmp_path):
  torch.save({'a': torch.eye(3).to_sparse()}, tmp_path / 'w.pt')
  with pytest.raises(InputError, match='a is quantised or sparse'):
    read_state_dict(tmp_path / 'w.pt')


def test_quantised_tensors_are_refused_by_name(torch, tmp_path):
  with warnings.catch_warnings():  # torch is about to drop them
    warnings.simplefilter('ignore')
    quantised = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    torch.save({'a': quantised}, tmp_path / 'w.pt')
    with pytest.raises(InputError, match='a is quantised or sparse: save the float weights'):
      read_state_dict(tmp_path / 'w.pt')


def test_load_names_the_file_in_every_message(torch, tmp_path):
  torch.save({'a': torch.ones(3)}, tmp_path / 'w.pt')
  with pytest.raises(InputError, match=r'w\.pt: the weights do not fit resnet20: \d+ missing'):
    weights.load(tmp_path / 'w.pt', catalog.get('resnet20'))


def test_a_state_dict_is_not_taken_for_saved_variables(tmp_path):
  path = tmp_path / 'w.safetensors'
  safetensors.numpy.save_file({'a': np.ones(3, np.float32)}, path)
  with pytest.raises(InputError, match='not hold variables that were saved here'):
    weights.load_variables(path)


def test_archives_of_plain_arrays_are_read(tmp_path):
  np.savez(tmp_path / 'w.npz', **ARRAYS)
  assert_arrays(read_arrays(tmp_path / 'w.npz'))


def test_code_in_an_archive_is_never_run(tmp_path):
  path, mark = tmp_path / 'w.npz', tmp_path / 'attacked'
  np.savez(path, a=np.array([Attack(mark)], dtype=object))
  with pytest.raises(InputError, match=r'w\.npz is truncated or is no archive of plain arrays'):
    read_arrays(path)
  assert not mark.exists()


def test_empty_archives_are_named(tmp_path):
  np.savez(tmp_path / 'w.npz')
  with pytest.raises(InputError, match=r'w\.npz holds no arrays'):
    read_arrays(tmp_path / 'w.npz')


@pytest.mark.parametrize('content', [b'', b'hello world, this is text\n' * 50, b'\x89PNG\r\n' * 99])
def test_what_is_no_archive_is_named(tmp_path, content):
  (tmp_path / 'w.npz').write_bytes(content)
  with pytest.raises(InputError, match=r'w\.npz is truncated or is no archive of plain arrays'):
    read_arrays(tmp_path / 'w.npz')


@pytest.mark.parametrize('share', [0.05, 0.5, 0.9, 0.999])
@pytest.mark.parametrize('save', [np.savez, np.savez_compressed])
def test_truncated_archives_are_named(tmp_path, share, save):
  path = tmp_path / 'w.npz'
  save(path, a=np.random.default_rng(0).normal(size=1000), b=np.ones(3))
  content = path.read_bytes()
  path.write_bytes(content[: int(share * len(content))])
  with pytest.raises(InputError, match=r'w\.npz is truncated or is no archive of plain arrays'):
    read_arrays(path)


def test_a_single_array_is_no_archive(tmp_path):
  with open(tmp_path / 'w.npz', 'wb') as file:
    np.save(file, np.ones(3))
  with pytest.raises(InputError, match=r'w\.npz is truncated or is no archive of plain arrays'):
    read_arrays(tmp_path / 'w.npz')
