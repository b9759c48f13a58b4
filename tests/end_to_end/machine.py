"""Runs main.py, with coarse PNG figures, on a machine: `machine.py own|bare|tf.data FLAGS...`.

`machine.py bare -m MODULE FLAGS... -m MODULE FLAGS...` runs modules instead, one after another.

`own` is this machine without clu, because clu imports TensorFlow, which takes longer than a small
training. `bare` can import only JAX, Flax, Optax, Matplotlib, ml_collections, pandas, tqdm and the
packages that these require. `tf.data` has all packages and reads all rows by tf.data.
"""

import importlib
import importlib.metadata
import itertools
import pathlib
import re
import runpy
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTALLED = ('jax', 'jaxlib', 'flax', 'optax', 'matplotlib', 'ml_collections', 'pandas', 'tqdm')


def required(names: tuple[str, ...]) -> set[str]:
  """Returns the names of distributions and of all that they require, without extras."""
  installed = {
    re.sub(r'[-_.]+', '-', distribution.name).lower(): distribution
    for distribution in importlib.metadata.distributions()
  }
  seen: set[str] = set()
  waiting = list(names)
  while waiting:
    name = re.sub(r'[-_.]+', '-', waiting.pop()).lower()
    if name in installed and name not in seen:
      seen.add(name)
      requirements = installed[name].requires or []
      waiting += [re.split(r'[^\w.-]', r)[0] for r in requirements if 'extra ==' not in r]
  return seen


def missing() -> set[str]:
  """Returns the packages that the bare machine lacks."""
  needed = required(INSTALLED)
  return {
    package
    for package, distributions in importlib.metadata.packages_distributions().items()
    if not needed & {re.sub(r'[-_.]+', '-', name).lower() for name in distributions}
  } - {'robustness', 'input_pipeline'}


def hide(packages: set[str]) -> None:
  """Makes the import of packages fail."""
  find_spec = PathFinder.find_spec

  def find(name: str, *options: Any) -> ModuleSpec | None:
    return None if name.partition('.')[0] in packages else find_spec(name, *options)

  PathFinder.find_spec = find  # type: ignore[method-assign, assignment]


def read_by_tf_data() -> None:
  import input_pipeline
  from input_pipeline.rows import TfRows
  from input_pipeline.selection import select
  from input_pipeline.settings import open_images

  input_pipeline.load = lambda settings, *options: TfRows(
    select(open_images(settings), settings, *options)
  )


if __name__ == '__main__':
  sys.path.insert(0, str(ROOT))
  machine = sys.argv.pop(1)
  if machine == 'bare':
    hidden = missing()
    assert hidden >= {'tensorflow', 'tensorflow_datasets', 'tensorboard', 'clu'}
    hide(hidden)
  elif machine == 'own':
    hide({'clu'})
  elif machine == 'tf.data':
    read_by_tf_data()
  if sys.argv[1:2] == ['-m']:
    groups = itertools.groupby(sys.argv[1:], '-m'.__eq__)
    for module, *flags in [list(words) for is_separator, words in groups if not is_separator]:
      print(f'== {module}', flush=True)
      sys.argv[1:] = flags
      runpy.run_module(module, run_name='__main__', alter_sys=True)
  else:
    style = importlib.import_module('robustness.present.style')
    style.VECTOR_FORMATS, style.DPI = (), 50.0  # a third of a small run's time
    sys.argv[0] = str(ROOT / 'main.py')
    runpy.run_path(sys.argv[0], run_name='__main__')
