"""Strict JAX on eight host devices for every test, and the fixtures that several files share."""

import contextlib
import fcntl
import gc
import os
import pathlib
from collections.abc import Iterator

import jax
import pytest
from jax._src.interpreters import mlir

from robustness.present import style
from tests.commands import ROOT

LEVEL = '--xla_backend_optimization_level'
QUICK_COMPILER = (
  f'{LEVEL}=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_parallel_codegen_split_count=1'
)
"""Flags that reduce the time of XLA, which is most of the time of a test, to a third."""
if jax.__version_info__ < (0, 11):  # later versions have only the usual emitters
  QUICK_COMPILER += ' --xla_cpu_use_fusion_emitters=false'
if LEVEL not in os.environ.get('XLA_FLAGS', ''):  # workers of xdist inherit what is set here
  os.environ['XLA_FLAGS'] = f'{QUICK_COMPILER} {os.environ.get("XLA_FLAGS", "")}'
os.environ.setdefault('OMP_NUM_THREADS', '1')  # waiting threads of NumPy would occupy cores

jax.config.update('jax_platforms', 'cpu')
jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_traceback_in_locations_limit', 0)  # makes lowering quicker


def pytest_configure(config: pytest.Config) -> None:
  """Shares compiled programs among workers, the processes they start and later sessions.

  They are in the folder JAX_COMPILATION_CACHE_DIR, by default in pytest's cache folder, which
  `pytest --cache-clear` empties.
  """
  gc.set_threshold(200_000, 50, 50)  # the collector took a tenth of the time
  cache = getattr(config, 'cache', None)  # none with -p no:cacheprovider
  if cache is not None:
    os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(cache.mkdir('compiled')))
  os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0')
  seconds = float(os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'])
  jax.config.update('jax_compilation_cache_dir', os.environ.get('JAX_COMPILATION_CACHE_DIR'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', seconds)


def pytest_collection_finish() -> None:
  """Spares the garbage collector what the imports left, which lasts as long as the process."""
  gc.collect()
  gc.freeze()


def pytest_sessionfinish() -> None:
  """Collects garbage once; pytest would do so five times, to report errors of finalisers."""
  gc.collect()
  gc.freeze()


@pytest.fixture(scope='session')
def shared_dir():
  """The folder of real data and weights next to the checkout; tests are skipped without it."""
  path = pathlib.Path(os.environ.get('ROBUSTNESS_SHARED', ROOT.parent / 'shared'))
  if not (path / 'data').is_dir():
    pytest.skip('needs the folder of real data and weights (set ROBUSTNESS_SHARED)')
  return path


@pytest.fixture(scope='session')
def cifar10_dir():
  """The folder of TFDS with CIFAR-10; tests are skipped without it."""
  path = pathlib.Path(os.environ.get('TFDS_DATA_DIR', '~/tensorflow_datasets')).expanduser()
  if not list(path.glob('cifar10/*/dataset_info.json')):
    pytest.skip('needs CIFAR-10 prepared by TFDS')
  return path


@pytest.fixture(scope='session', autouse=True)
def without_flushing():
  """Does not wait until files are on the disk, which only a power cut could show."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(os, 'fsync', lambda descriptor: None)
    yield


@pytest.fixture(scope='session', autouse=True)
def one_mlir_context():
  """Lowers all programs of a process in one context of MLIR.

  JAX makes a context for each program, which takes longer than to lower most programs of the tests.
  """
  with pytest.MonkeyPatch.context() as patch:
    context = mlir.make_ir_context()
    patch.setattr(mlir, 'make_ir_context', lambda: context)
    yield


SAVED_AS = {name: getattr(style, name) for name in ('VECTOR_FORMATS', 'DPI')}


@pytest.fixture(scope='session', autouse=True)
def quick_figures():
  """Saves figures as coarse PNG alone, except in tests that are marked `figures_as_saved`."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(style, 'VECTOR_FORMATS', ())
    patch.setattr(style, 'DPI', 50.0)
    yield


@pytest.fixture(autouse=True)
def figures_as_saved(request, monkeypatch):
  if request.node.get_closest_marker('figures_as_saved'):
    for name, value in SAVED_AS.items():
      monkeypatch.setattr(style, name, value)


@pytest.fixture
def undrawn(monkeypatch):
  """Publishes results without figures and reports, which take most of a small comparison's time."""
  monkeypatch.setattr('robustness.present.publish.illustrate', lambda *_, **__: [])


@pytest.fixture
def shallow_resnet(monkeypatch):
  """Gives `resnet20` one block per stage, for tests in which the network does not matter."""
  from tests.networks import shallow_catalog

  monkeypatch.setattr('robustness.models.catalog.ARCHITECTURES', shallow_catalog(resnet20=8))


@pytest.fixture(scope='session')
def finished(tmp_path_factory):
  """A workdir in which main.py ran the default experiment, made small, once for all workers."""
  from tests.end_to_end import runs  # what a run imports, most tests do not need

  with shared_folder(tmp_path_factory, 'finished') as workdir:
    if not (workdir / 'report.html').exists():
      process = runs.start(workdir, runs.DEFAULT, runs.DEFAULT_CHANGES)
      try:
        runs.finish(process)
      finally:
        process.kill()
  return workdir


@pytest.fixture(scope='session')
def installed(tmp_path_factory):
  """A folder with the wheel in `wheel` and the installed package in `site`, for all workers."""
  from tests import installation

  with shared_folder(tmp_path_factory, 'installed') as folder:
    if not (folder / 'site/bin/robustness').exists():
      folder.mkdir()
      installation.install(folder)
  return folder


@contextlib.contextmanager
def shared_folder(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[pathlib.Path]:
  """Yields the path of a folder that all workers share, to one worker at a time."""
  folder = tmp_path_factory.getbasetemp()
  folder = folder.parent if 'PYTEST_XDIST_WORKER' in os.environ else folder
  with (folder / f'{name}.lock').open('w') as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield folder / name
