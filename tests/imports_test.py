"""Packages import only what their layer may use, read from the source of every module."""

import ast
import functools
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest

from tests.commands import ROOT

PACKAGES = ('robustness', 'input_pipeline')
TENSORFLOW = {'tensorflow', 'tensorflow_datasets', 'clu'}
JAX = {'jax', 'jaxlib', 'flax', 'optax', 'orbax', 'chex'}
NUMPY_ONLY = ('robustness.estimates', 'robustness.present')
NUMERICAL = {'matplotlib', 'mpl_toolkits', 'numpy', 'pandas', 'scipy'}
PLAIN = {
  'core': 'array_files atomic_files bounded_files errors host json_files lazy limits paths '
  'pictures registry rows sampler settings typing user_code',
  'corruptions': 'names',
  'environments': 'class_groups',
  'models': 'imagenet_names label_space',
  'scenes': 'classes designs',
  'video': 'class_index clips boxes columns metadata ytbb_robust',
}
"""Modules, by package, that sources of data use: tables, plain arithmetic and their files."""
FROM_ROBUSTNESS = {'robustness', *(f'robustness.{package}' for package in PLAIN)} | {
  f'robustness.{package}.{name}' for package, names in PLAIN.items() for name in names.split()
}
PURE_JAX = (
  *('robustness.corruptions', 'robustness.scenes', 'robustness.environments'),
  *(
    f'robustness.core.{name}'
    for name in ('arguments', 'random_images', 'random_keys', 'sequential')
  ),
)  # for builders of data sets
ABOVE_THE_LAUNCH = ('robustness.cli', 'robustness.api', 'robustness.maite')
EVENTS = 'robustness.training.writers'
"""Writes TensorBoard's events by clu, which it imports in a function."""


def module_name(path: pathlib.Path) -> str:
  parts = path.relative_to(ROOT).with_suffix('').parts
  return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


@functools.cache
def modules() -> dict[str, pathlib.Path]:
  files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob('*.py')))
  return {module_name(path): path for path in files}


def nodes(node: ast.AST, in_functions: bool) -> Iterator[ast.AST]:
  """Walks a module without TYPE_CHECKING blocks, and without functions unless `in_functions`."""
  for child in ast.iter_child_nodes(node):
    if not in_functions and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
      continue
    if isinstance(child, ast.If) and 'TYPE_CHECKING' in ast.unparse(child.test):
      continue
    yield child
    yield from nodes(child, in_functions)


def imported(node: ast.AST) -> list[str]:
  """Returns the modules that a statement imports."""
  if isinstance(node, ast.Import):
    return [alias.name for alias in node.names]
  if isinstance(node, ast.ImportFrom):
    assert node.level == 0, f'relative import of {node.module}: spell it out'
    assert node.module is not None
    within = [f'{node.module}.{alias.name}' for alias in node.names]
    return [node.module, *(name for name in within if name in modules())]
  return []


@functools.cache
def imports(module: str, in_functions: bool = True) -> frozenset[str]:
  """Returns the modules that a module imports itself, and their packages."""
  tree = ast.parse(modules()[module].read_text())
  names = {name for node in nodes(tree, in_functions) for name in imported(node)}
  ours = [name.split('.') for name in names if name in modules()]
  parents = {'.'.join(parts[:level]) for parts in ours for level in range(1, len(parts))}
  return frozenset(names | parents)


def reached(module: str, in_functions: bool = False) -> set[str]:
  """Returns all modules that the import of a module imports."""
  seen, waiting = set(), [module]
  while waiting:
    name = waiting.pop()
    if name not in seen:
      seen.add(name)
      waiting += imports(name, in_functions) if name in modules() else ()
  return seen


def outside(names: set[str] | frozenset[str]) -> set[str]:
  """Returns the packages of others among modules, without the standard library."""
  return {name.split('.')[0] for name in names} - set(PACKAGES) - set(sys.stdlib_module_names)


def inside(*packages: str) -> list[str]:
  """Returns the modules of some packages."""
  within = tuple(f'{package}.' for package in packages)
  return [name for name in modules() if name in packages or name.startswith(within)]


def test_the_walker_sees_lazy_and_nested_imports():
  assert 'clu' in outside(imports(EVENTS))
  assert 'clu' not in outside(imports(EVENTS, in_functions=False))
  runner = 'robustness.evaluation.runner'
  assert 'robustness.evaluation.records' in imports(runner, in_functions=False)
  assert 'jax' in reached(runner)


RESULTS = 'robustness.results', 'robustness.combined'
FILES = [f'robustness.core.{n}' for n in ('array_files', 'errors', 'json_files', 'paths', 'rows')]


@pytest.mark.parametrize(
  'module', inside(*NUMPY_ONLY, *RESULTS, 'robustness.evaluation.records', *FILES)
)
def test_estimates_and_figures_need_only_numpy_scipy_pandas_and_matplotlib(module):
  assert outside(reached(module, in_functions=True)) <= NUMERICAL


@pytest.mark.parametrize('module', inside('robustness'))
def test_only_the_run_reaches_tensorflow(module):
  names = reached(module) | (frozenset() if module == EVENTS else imports(module))
  if module != 'robustness.launch' and not module.startswith(ABOVE_THE_LAUNCH):
    assert not outside(names) & TENSORFLOW
    assert 'robustness.launch' not in names, 'the run stands above all but the command'


@pytest.mark.parametrize('module', inside('input_pipeline'))
def test_the_input_pipeline_knows_no_classifier_and_jax_only_to_make_data(module):
  names, makes = reached(module, in_functions=True), module.startswith('input_pipeline.builders')
  assert not outside(names) & (JAX - {'jax'} if makes else JAX)
  other = {name for name in names if name.split('.')[0] == 'robustness'} - FROM_ROBUSTNESS
  assert all(makes and name.startswith(PURE_JAX) for name in other), other


@pytest.mark.parametrize('module', inside('robustness.studies'))
def test_studies_import_no_classifier(module):
  layers = ('models.classifier', 'training', 'evaluation.runner', 'classifiers', 'building')
  refused = ('input_pipeline', *(f'robustness.{layer}' for layer in layers))
  assert not outside(reached(module)) & {'flax', 'orbax'}, 'no network'
  assert not [name for name in reached(module) if name.startswith(refused)]


def ours(names: Iterable[str]) -> set[str]:
  return {name for name in names if name.split('.')[0] in PACKAGES}


def test_studies_compute_values_only_by_the_statistic_of_a_quantity():
  for path in sorted((ROOT / 'robustness/studies').glob('*.py')):
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert 'Outcomes' not in {getattr(call.func, 'id', '') for call in calls}, path


def test_main_imports_only_the_command_and_its_settings():
  nodes_of_main = ast.walk(ast.parse((ROOT / 'main.py').read_text()))
  modules_of_main = ours(name for node in nodes_of_main for name in imported(node))
  refusals = {'robustness.core', 'robustness.core.environment_variables'}
  assert modules_of_main == {'robustness.cli', 'robustness.cli.running', *refusals}
  names = ours(imports('robustness.cli.running'))
  assert {'robustness.launch', 'robustness.cli.command_line'} <= names
  assert not {name for name in names if name.startswith(('input_pipeline', 'robustness.studies'))}


def folder(module: str) -> str:
  return module.split('.')[1] if '.' in module else ''


def folder_imports() -> dict[str, set[str]]:
  graph: dict[str, set[str]] = {}
  for module in inside('robustness'):
    folders = {folder(name) for name in imports(module) if name in inside('robustness')}
    graph.setdefault(folder(module), set()).update(folders - {folder(module), ''})
  return graph


def test_folders_import_each_other_in_no_circle():
  graph = folder_imports()
  assert graph['studies'] > {'evaluation', 'estimates'}, 'the walk sees imports'
  while graph:
    leaves = {name for name, named in graph.items() if not named & set(graph)}
    assert leaves, f'a circle among {sorted(graph)}'
    graph = {name: named for name, named in graph.items() if name not in leaves}


def test_the_run_and_the_core_name_no_study():
  names = [path.stem for path in (ROOT / 'robustness/studies').glob('[a-z]*.py')]
  layers = ('launch', 'measurement', 'core', 'evaluation', 'config', 'classifiers', 'building')
  for module in inside(*(f'robustness.{layer}' for layer in layers)):
    tree = ast.parse(modules()[module].read_text())
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not words & {name for name in names if name != 'accuracy'}, module  # also a metric
    assert not [name for name in imports(module) if name.startswith('robustness.studies.')], module


def test_few_modules_lie_directly_in_the_package_and_each_is_named_after_what_it_holds():
  assert len([path for path in (ROOT / 'robustness').glob('*.py') if path.stem[:2] != '__']) <= 6
  assert not {name.rsplit('.', 1)[-1] for name in modules()} & {'utils', 'helpers', 'misc'}


def loaded_by(*needed: str) -> set[str]:
  code = (
    f'import importlib, sys; [importlib.import_module(m) for m in {needed!r}]; print(*sys.modules)'
  )
  answer = subprocess.run(
    [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
  )
  return set(answer.stdout.split())


@pytest.mark.slow
def test_importing_any_module_starts_no_backend_and_prints_nothing():
  """TensorFlow, which prints at its import, is imported before."""
  importable = [name for name in modules() if not name.endswith('__main__')]
  code = f"""
import importlib, sys
import jax
import tensorflow, tensorflow_datasets
for stream in (sys.stdout, sys.stderr):
  print('HERE', file=stream, flush=True)
for name in {importable!r}:
  importlib.import_module(name)
jax.config.update('jax_num_cpu_devices', 3)
assert jax.device_count() == 3, 'a backend was started'
"""
  answer = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True)
  assert answer.returncode == 0, answer.stderr
  for printed in (answer.stdout, answer.stderr):
    assert printed.rpartition('HERE\n')[2] == ''


@pytest.mark.slow
def test_the_pipeline_and_figures_import_no_framework_and_computing_imports_no_tensorflow():
  numerical = inside(*NUMPY_ONLY, *RESULTS, 'robustness.evaluation.records')
  for needed in (['input_pipeline'], numerical):
    assert not loaded_by(*needed) & (TENSORFLOW | JAX)
  layers = ('studies', 'evaluation.runner', 'classifiers', 'building', 'training.loop')
  loaded = loaded_by(*inside(*(f'robustness.{layer}' for layer in layers)))
  assert not loaded & {*TENSORFLOW, 'scipy.stats'}, 'which takes as long as jax'
