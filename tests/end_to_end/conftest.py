"""A compilation cache for this folder's tests, finished runs they share, and no process left."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from tests.end_to_end import runs

CACHE = {'jax_compilation_cache_dir': '', 'jax_persistent_cache_min_compile_time_secs': 0.0}
DEFAULT = 'fourier_heatmap.py'
DEFAULT_CHANGES: dict[str, Any] = {
  'study.window': 5,
  'views_per_step': 2,
  'training.steps': 40,
  'training.checkpoint_every_steps': 4,
  'training.learning_rate': 0.02,
}


@pytest.fixture(scope='session')
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
  return str(tmp_path_factory.mktemp('compilation_cache'))


@pytest.fixture(autouse=True)
def compiled_once(cache_dir: str) -> Iterator[None]:
  """The same programs are compiled once, in this process and in those it starts."""
  before = {name: getattr(jax.config, name) for name in CACHE}
  for name, value in {**CACHE, 'jax_compilation_cache_dir': cache_dir}.items():
    jax.config.update(name, value)
  compilation_cache.reset_cache()
  yield
  for name, value in before.items():
    jax.config.update(name, value)
  compilation_cache.reset_cache()


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
  """`runs.start`, with every process ended when the test is over."""
  processes: list[subprocess.Popen[str]] = []

  def begin(*arguments: Any, **more: Any) -> subprocess.Popen[str]:
    processes.append(runs.start(*arguments, **more))
    return processes[-1]

  yield begin
  for process in processes:
    if process.poll() is None:
      process.kill()
      process.wait()
    if process.stdout is not None:
      process.stdout.close()


@pytest.fixture(scope='session')
def finished_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  return tmp_path_factory.mktemp('finished') / 'workdir'


@pytest.fixture
def finished(finished_dir: pathlib.Path, start: Start) -> pathlib.Path:
  """A workdir in which main.py ran the default experiment, made small, without interruption."""
  if not (finished_dir / 'report.html').exists():
    runs.finish(start(finished_dir, DEFAULT, DEFAULT_CHANGES))
  return finished_dir
