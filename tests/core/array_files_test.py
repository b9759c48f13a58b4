"""Tests archives of arrays, one-line errors about damaged ones, and digests of arrays."""

import io
import zipfile

import numpy as np
import pytest

from robustness.core.array_files import digest_of, read_npz
from robustness.core.errors import InputError
from tests.refusals import refused

ARRAYS = {'a': np.arange(100, dtype=np.float32), 'b': np.array('text')}


@pytest.mark.parametrize('flag', range(8))
@pytest.mark.parametrize('method', [8, 12, 14, 99])
def test_invalid_flags_and_methods_of_an_archive_are_one_line(tmp_path, flag, method):
  """Flag 0 is for encrypted, 5 for patched and 6 for strongly encrypted files; 99 is no method."""
  path = tmp_path / 'a.npz'
  np.savez(path, **ARRAYS)
  content = bytearray(path.read_bytes())
  for signature, offset in ((b'PK\3\4', 6), (b'PK\1\2', 8)):
    place = content.index(signature) + offset
    content[place] |= 1 << flag
    content[place + 2] = method
  path.write_bytes(content)
  message = r'a\.npz is truncated or is no .*Make it anew\.'
  assert '\n' not in refused(message, read_npz, path, 'Make it anew.')


def test_a_flipped_bit_of_an_archive_is_refused_or_changes_no_value(tmp_path):
  path = tmp_path / 'a.npz'
  np.savez(path, **ARRAYS)
  for name, value in read_npz(path).items():
    np.testing.assert_array_equal(value, ARRAYS[name])
  content = path.read_bytes()
  digest, random = digest_of(ARRAYS), np.random.default_rng(0)
  for place in random.integers(len(content), size=200):
    damaged = bytearray(content)
    damaged[place] ^= 1 << int(random.integers(8))
    path.write_bytes(damaged)
    try:
      arrays = read_npz(path)
    except InputError:
      continue
    assert digest_of(arrays) == digest or arrays.keys() != ARRAYS.keys()


def test_a_digest_depends_on_names_types_shapes_and_values():
  first = digest_of({'a': np.zeros(4), 'b': np.ones(2)})
  assert first == digest_of({'b': np.ones(2), 'a': np.zeros(4)})
  for changed in (
    {'a': np.zeros(4), 'c': np.ones(2)},
    {'a': np.zeros(4, np.float32), 'b': np.ones(2)},
    {'a': np.zeros((2, 2)), 'b': np.ones(2)},
    {'a': np.zeros(4), 'b': np.array([1.0, np.nextafter(1, 2)])},
  ):
    assert digest_of(changed) != first


def test_an_archive_that_inflates_beyond_the_limit_is_refused_before_it_is_inflated(tmp_path):
  path = tmp_path / 'a.npz'
  np.savez_compressed(path, a=np.zeros(2**24, np.uint8))
  assert path.stat().st_size < 2**16
  refused(r'it inflates to 16 MiB, above 1 MiB', read_npz, path, max_bytes=2**20)
  assert len(read_npz(path, max_bytes=2**25)['a']) == 2**24


def test_a_shape_larger_than_the_file_is_refused(tmp_path):
  path = tmp_path / 'a.npz'
  header = io.BytesIO()
  np.lib.format.write_array_header_1_0(
    header, {'descr': '<f8', 'fortran_order': False, 'shape': (10**12,)}
  )
  with zipfile.ZipFile(path, 'w') as archive:
    archive.writestr('a.npy', header.getvalue() + b'0' * 8)
  refused('a.npy states 8,000,000,000,000 bytes and holds 8', read_npz, path)
