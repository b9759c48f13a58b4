"""Tests that files of weights are read, and damaged and hostile files refused."""

import collections
import itertools
import pickle
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from robustness.core.errors import InputError
from robustness.models import catalog, weights
from robustness.models.state_dict import read_arrays, read_with_key
from tests.cases import cases
from tests.refusals import refused

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
  """Returns `ARRAYS` as tensors, with a prefix before their names."""
  return {prefix + name: torch.from_numpy(value.copy()) for name, value in ARRAYS.items()}


def assert_arrays(read):
  assert read.keys() == ARRAYS.keys()
  for name, value in ARRAYS.items():
    np.testing.assert_array_equal(read[name], value)
    assert read[name].dtype == value.dtype


PREFIXES = '', 'module.', '_orig_mod.module.', 'model.'
WRAPPERS = (), ('model_state_dict',), ('model',), ('net', 'state_dict')


@cases(
  'suffix, prefix, wrappers',
  *((suffix, '', ()) for suffix in ('.th', '.pth', '.pth.tar', '.ckpt', '.bin')),
  *(('.pt', *case) for case in itertools.product(PREFIXES, WRAPPERS)),
)
def test_torch_files_are_read_from_their_usual_wrappings(torch, tmp_path, suffix, prefix, wrappers):
  content = collections.OrderedDict(tensors(torch, prefix))
  if prefix == 'module.':
    content['n_averaged'] = torch.tensor(3)
  for name in wrappers:
    content = {name: content, 'epoch': 3}
  path = tmp_path / f'weights{suffix}'
  torch.save(content, path)
  assert_arrays(read_arrays(path))


def test_averaged_weights_are_read_and_logged_if_a_file_has_both(torch, tmp_path, caplog):
  content = {'state_dict': {'a': torch.zeros(2)}, 'state_dict_ema': {'a': torch.ones(2)}}
  torch.save(content, tmp_path / 'both.pth.tar')
  arrays, key = read_with_key(tmp_path / 'both.pth.tar')
  np.testing.assert_array_equal(arrays['a'], [1, 1])
  assert key == 'state_dict_ema'
  assert 'those of state_dict_ema are taken' in caplog.text


def test_torch_files_may_be_old_partly_prefixed_or_bfloat16(torch, tmp_path):
  path = tmp_path / 'weights.th'
  torch.save(tensors(torch), path, _use_new_zipfile_serialization=False)
  assert_arrays(read_arrays(path))
  torch.save({'module.a': torch.ones(1), 'b': torch.ones(1)}, path)
  assert set(read_arrays(path)) == {'module.a', 'b'}, 'only some names carry the prefix'
  torch.save({'a': torch.tensor([1.5, -2.25], dtype=torch.bfloat16)}, path)
  array = read_arrays(path)['a']
  assert array.dtype == ml_dtypes.bfloat16
  np.testing.assert_array_equal(array.astype(np.float32), [1.5, -2.25])


def test_safetensors_need_no_torch(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'torch', None)
  path = tmp_path / 'weights.safetensors'
  half = {'half': np.ones(2, ml_dtypes.bfloat16)}
  safetensors.numpy.save_file({f'module.{k}': v for k, v in {**ARRAYS, **half}.items()}, path)
  arrays = read_arrays(path)
  assert arrays.pop('half').dtype == ml_dtypes.bfloat16
  assert_arrays(arrays)
  (tmp_path / 'w.pt').write_bytes(b'any')
  refused(r"w\.pt.*pip install '\.\[torch\]'", read_arrays, tmp_path / 'w.pt')


def saved(path, content, legacy=False):
  """Writes bytes unchanged and a mapping in the format of the suffix; returns the path."""
  if isinstance(content, bytes):
    path.write_bytes(content)
  elif path.suffix == '.npz':
    np.savez(path, **content)
  elif path.suffix == '.safetensors':
    safetensors.numpy.save_file(content, path)
  else:
    pytest.importorskip('torch').save(content, path, _use_new_zipfile_serialization=not legacy)
  return path


@pytest.mark.parametrize('kind', ['zip', 'legacy', 'pickle', 'archive'])
def test_code_in_a_file_is_never_run(torch, tmp_path, kind):
  written = tmp_path / 'attacked'
  attack, path = Attack(written), tmp_path / ('w.npz' if kind == 'archive' else 'w.pt')
  message = r'w\.pt holds Python objects.*state_dict\(\)'
  if kind == 'pickle':
    saved(path, pickle.dumps(attack))
    message = r'w\.pt'
  elif kind == 'archive':
    saved(path, {'a': np.array([attack], dtype=object)})
    message = r'w\.npz is truncated or is no archive of plain arrays'
  else:
    saved(path, {'a': torch.ones(1), 'b': attack}, kind == 'legacy')
  refused(message, read_arrays, path)
  assert not written.exists()


@cases(
  'name, message',
  *((name, f'{name} does not exist') for name in ('w.th', 'w.pt', 'w.safetensors')),
  ('', 'is a folder'),
  ('there.onnx', r"'\.onnx'; valid: \.th, \.pt, \.pth, \.tar, \.ckpt, \.bin, \.safetensors"),
  ('there.safetensors', 'not hold variables that were saved here'),
)
def test_paths_without_weights_are_refused(tmp_path, name, message):
  saved(tmp_path / 'there.safetensors', {'a': np.ones(3, np.float32)})
  (tmp_path / 'there.onnx').write_bytes(b'x')
  refused(message, weights.load_variables, tmp_path / name)


@pytest.mark.parametrize('share', [0.0, 0.05, 0.5, 0.9, 0.999])
@pytest.mark.parametrize('name', ['zip.th', 'legacy.th', 'w.safetensors', 'w.npz'])
def test_truncated_files_are_refused(torch, tmp_path, name, share):
  arrays = {'a': np.random.default_rng(0).normal(size=1000), 'b': np.ones(3)}
  if name.endswith('.th'):
    arrays = {key: torch.from_numpy(value) for key, value in arrays.items()}
  path = saved(tmp_path / name, arrays, name == 'legacy.th')
  content = path.read_bytes()
  path.write_bytes(content[: int(share * len(content))])
  for read in (read_arrays, *([weights.load_variables] if path.suffix == '.safetensors' else [])):
    refused(rf'{name} .*is truncated or is no|{name} is truncated', read, path)


@pytest.mark.parametrize('name', ['w.th', 'w.pt', 'w.safetensors', 'w.npz'])
def test_files_of_another_kind_are_refused(torch, tmp_path, name):
  rng = np.random.default_rng(0)
  for content in (b'hello world, this is text\n' * 50, rng.bytes(5000), b'\x89PNG\r\n' * 100):
    message = refused(f'{name} is truncated or is no', read_arrays, saved(tmp_path / name, content))
    assert 'weights_only' not in message, 'no advice to trust a damaged file'
  arrays = {'a': torch.ones(3) if name.endswith(('th', 'pt')) else np.ones(3, np.float32)}
  message = rf'{name}: the weights do not fit resnet20: \d+ missing'
  refused(message, weights.load, saved(tmp_path / name, arrays), catalog.get('resnet20'))


@cases(
  'content, message',
  (lambda torch: [torch.ones(1)], r'w\.pt holds a list'),
  (lambda torch: {'epoch': 3, 'a': torch.ones(1)}, r'w\.pt: 1 entries are no tensors, first epoch'),
  (lambda torch: {}, r'w\.pt holds no tensors'),
  (lambda torch: {'a': torch.eye(3).to_sparse()}, 'a is quantised or sparse'),
  (
    lambda torch: {'a': torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)},
    'a is quantised or sparse: save the float weights',
  ),
  (lambda torch: torch.nn.Linear(2, 2), r'w\.pt holds Python objects'),
)
def test_contents_other_than_tensors_are_refused(torch, tmp_path, content, message):
  with warnings.catch_warnings(), pytest.raises(InputError, match=message):
    warnings.simplefilter('ignore')  # torch is about to drop quantised tensors
    read_arrays(saved(tmp_path / 'w.pt', content(torch)))


def test_eight_bit_floats_are_refused(torch, tmp_path):
  safetensors = pytest.importorskip('safetensors.torch', reason='writes eight-bit floats')
  small = {'a': torch.ones(3).to(torch.float8_e4m3fn)}
  safetensors.save_file(small, tmp_path / 'w.safetensors')
  refused(r'w\.safetensors holds a dtype that NumPy', read_arrays, tmp_path / 'w.safetensors')


def test_archives_of_plain_arrays_are_read(tmp_path):
  assert_arrays(read_arrays(saved(tmp_path / 'w.npz', ARRAYS)))
  np.savez_compressed(tmp_path / 'packed.npz', **ARRAYS)
  assert_arrays(read_arrays(tmp_path / 'packed.npz'))
  refused(r'w\.npz holds no arrays', read_arrays, saved(tmp_path / 'w.npz', {}))
  with open(tmp_path / 'w.npz', 'wb') as file:
    np.save(file, np.ones(3))
  refused(r'w\.npz is truncated or is no archive of plain arrays', read_arrays, tmp_path / 'w.npz')
