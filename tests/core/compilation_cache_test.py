"""Tests the folder of compiled programs, and folders that cannot be written."""

import logging
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from robustness.core import compilation_cache
from tests.refusals import refused

OPTIONS = ('jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs')


@pytest.fixture(autouse=True)
def temporary_cache(monkeypatch, tmp_path):
  """Replaces the cache of the test session and the user's cache folder by empty ones."""
  before = {name: getattr(jax.config, name) for name in OPTIONS}
  monkeypatch.delenv('JAX_COMPILATION_CACHE_DIR', raising=False)
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'user'))
  jax.config.update('jax_compilation_cache_dir', None)
  jax_cache.reset_cache()
  yield
  for name, value in before.items():
    jax.config.update(name, value)
  jax_cache.reset_cache()


def compiled(x):
  """Compiles a program, without those in memory, and returns its result."""
  jax.clear_caches()
  return float(jax.jit(lambda x: jnp.sin(x) + 2)(jnp.float32(x)))


@pytest.mark.slow
def test_programs_are_saved_in_the_users_cache_folder(monkeypatch):
  monkeypatch.setattr(compilation_cache, 'MIN_SECONDS', 0.0)
  compilation_cache.use(None)
  first = compiled(1.0)
  folder = compilation_cache.default_folder()
  entries = {path.name for path in folder.iterdir()}
  assert entries and folder.parts[-3:] == ('user', 'classifier-robustness', 'compiled')
  assert compiled(1.0) == first and {path.name for path in folder.iterdir()} == entries
  np.testing.assert_allclose(first, np.sin(1.0) + 2, rtol=1e-6)


def test_the_cache_folder_of_jax_is_used_unless_the_user_names_another(monkeypatch, tmp_path):
  monkeypatch.setenv('JAX_COMPILATION_CACHE_DIR', str(tmp_path / 'jax'))
  jax.config.update('jax_compilation_cache_dir', str(tmp_path / 'jax'))
  compilation_cache.use(None)
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'jax')
  assert not (tmp_path / 'user').exists()
  compilation_cache.use(str(tmp_path / 'a/b'))
  assert jax.config.jax_compilation_cache_dir == str(tmp_path / 'a/b')
  compilation_cache.use('')
  assert jax.config.jax_compilation_cache_dir is None


def test_a_folder_that_cannot_be_written_is_refused_or_left_out(tmp_path, monkeypatch, caplog):
  (tmp_path / 'file').write_text('')
  message = r"file/x \(Not a directory\): .*--compilation_cache=''"
  refused(message, compilation_cache.use, str(tmp_path / 'file/x'))
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
  caplog.set_level(logging.INFO)
  compilation_cache.use(None)
  assert jax.config.jax_compilation_cache_dir is None
  assert 'compiled programs are not kept' in caplog.text


def test_the_oldest_programs_are_deleted_beyond_the_limit(tmp_path):
  for age, name in enumerate(('new-cache', 'middle-cache', 'old-cache', "a user's own.txt")):
    (tmp_path / name).write_bytes(bytes(100))
    os.utime(tmp_path / name, (1000 - age, 1000 - age))
  compilation_cache.trim(tmp_path, 300)
  assert len(list(tmp_path.iterdir())) == 4
  compilation_cache.trim(tmp_path, 150)
  assert {path.name for path in tmp_path.iterdir()} == {'new-cache', "a user's own.txt"}
