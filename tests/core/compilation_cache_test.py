"""Where compiled programs are kept, and what happens where they cannot be."""

from __future__ import annotations

import logging
import os
import pathlib
import warnings
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from robustness.core import compilation_cache
from robustness.core.errors import InputError

OPTIONS = ('jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs')


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[None]:
  """The session's cache is put aside, and the user's cache folder is a temporary one."""
  before = {name: getattr(jax.config, name) for name in OPTIONS}
  monkeypatch.delenv('JAX_COMPILATION_CACHE_DIR', raising=False)
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'user'))
  jax.config.update('jax_compilation_cache_dir', None)
  jax_cache.reset_cache()
  yield
  for name, value in before.items():
    jax.config.update(name, value)
  jax_cache.reset_cache()


def compiled(x: float) -> float:
  """Compiles a program anew and runs it."""
  jax.clear_caches()
  return float(jax.jit(lambda x: jnp.sin(x) + 2)(jnp.float32(x)))


@pytest.mark.slow
def test_programs_are_kept_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
  monkeypatch.setattr(compilation_cache, 'MIN_SECONDS', 0.0)
  compilation_cache.use(None)
  first = compiled(1.0)
  folder = compilation_cache.default_folder()
  entries = {path.name for path in folder.iterdir()}
  assert entries and folder.parts[-3:] == ('user', 'classifier-robustness', 'compiled')
  assert compiled(1.0) == first and {path.name for path in folder.iterdir()} == entries
  np.testing.assert_allclose(first, np.sin(1.0) + 2, rtol=1e-6)


def test_a_given_folder_and_none(tmp_path: pathlib.Path) -> None:
  compilation_cache.use(str(tmp_path / 'a/b'))
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'a/b')
  compilation_cache.use('')
  assert jax.config.jax_compilation_cache_dir is None


def test_the_setting_of_jax_is_left_unless_a_folder_is_given(
  monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
  monkeypatch.setenv('JAX_COMPILATION_CACHE_DIR', str(tmp_path / 'jax'))
  jax.config.update('jax_compilation_cache_dir', str(tmp_path / 'jax'))
  compilation_cache.use(None)
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'jax')
  assert not (tmp_path / 'user').exists()
  compilation_cache.use(str(tmp_path / 'given'))
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'given')


def test_a_folder_that_cannot_be_written_is_refused_and_the_default_left_out(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
  (tmp_path / 'file').write_text('')
  with pytest.raises(InputError, match=r"file/x \(Not a directory\): .*--compilation_cache=''"):
    compilation_cache.use(str(tmp_path / 'file/x'))
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
  caplog.set_level(logging.INFO)
  compilation_cache.use(None)
  assert jax.config.jax_compilation_cache_dir is None
  assert 'compiled programs are not kept' in caplog.text


@pytest.mark.slow
def test_entries_that_cannot_be_written_are_told_once_and_the_run_goes_on(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
  monkeypatch.setattr(compilation_cache, 'MIN_SECONDS', 0.0)
  with warnings.catch_warnings():
    warnings.simplefilter('always')
    others: list[str] = []
    monkeypatch.setattr(
      warnings, 'showwarning', lambda message, *_, **__: others.append(str(message))
    )
    compilation_cache.use(str(tmp_path / 'kept'))
    (tmp_path / 'kept').rmdir()
    (tmp_path / 'kept').touch()
    assert [compiled(x) for x in (0.0, 0.0)] == [2.0, 2.0]
    warnings.warn('of something else', stacklevel=1)
  told = [record.getMessage() for record in caplog.records if 'compiled' in record.getMessage()]
  assert len(told) == 1 and 'cannot all be' in told[0]
  assert others == ['of something else']


def test_the_oldest_programs_are_deleted_where_there_are_too_many(tmp_path: pathlib.Path) -> None:
  for age, name in enumerate(('new', 'middle', 'old')):
    (tmp_path / name).write_bytes(bytes(100))
    os.utime(tmp_path / name, (1000 - age, 1000 - age))
  compilation_cache.trim(tmp_path, 300)
  assert len(list(tmp_path.iterdir())) == 3
  compilation_cache.trim(tmp_path, 150)
  assert [path.name for path in tmp_path.iterdir()] == ['new']
