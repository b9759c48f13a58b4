"""The documents hold what they say: snippets run, configs, keys and linked files exist."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import input_pipeline
from input_pipeline import DataSettings
from robustness.attacks import ATTACKS
from robustness.augment import AUGMENTATIONS
from robustness.augment.policy import from_section
from robustness.config import experiment
from robustness.config.defaults import ConfigDict
from robustness.estimates.table import select
from robustness.evaluation import study
from robustness.fourier.input_filters import INPUT_FILTERS
from robustness.models import catalog
from robustness.objectives import OBJECTIVES
from robustness.results import Results
from tests import documented, said
from tests.documented import documented_studies

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = (
  'README.md',
  'CONTRIBUTING.md',
  *sorted(str(path.relative_to(ROOT)) for path in (ROOT / 'docs').rglob('*.md')),
)
FIRST = 'pip install . && python main.py --config=configs/fourier_heatmap.py --workdir=/tmp/heatmap'
SECOND = "pip install '.[test]' && python -m pytest -n auto"
RECIPE_FILES = ('robustness/studies/shift.py', 'configs/shift.py', 'tests/studies/shift_test.py')
PART_FILE = 'robustness/augment/invert.py'
OWN_FLAGS = {
  'config',
  'workdir',
  'print_config',
  'dry_run',
  'coordinator',
  'num_processes',
  'process_id',
  'distributed',
  'join_timeout',
  'compilation_cache',
}


def text(name: str) -> str:
  return (ROOT / name).read_text(encoding='utf-8')


def blocks(name: str, language: str) -> list[str]:
  return re.findall(rf'^```{language}\n(.*?)^```', text(name), re.DOTALL | re.MULTILINE)


def commands(name: str) -> list[str]:
  """Returns the `python main.py` commands of a document, a line each."""
  lines = '\n'.join(blocks(name, 'bash')).replace('\\\n', ' ').splitlines()
  return [line for line in lines if 'main.py' in line]


def load_config(file_and_variant: str) -> ConfigDict:
  file, _, variant = file_and_variant.partition(':')
  spec = importlib.util.spec_from_file_location('a_config', ROOT / file)
  assert spec is not None and spec.loader is not None, file
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.get_config(variant) if variant else module.get_config()


def has_key(config: Any, path: str) -> bool:
  for key in path.split('.'):
    if not isinstance(config, ConfigDict) or key not in config:
      return False
    config = config[key]
  return True


def test_the_readme_opens_with_the_picture_and_the_two_commands() -> None:
  assert text('README.md').startswith('![')
  assert blocks('README.md', 'bash')[:2] == [f'{FIRST}\n', f'{SECOND}\n']
  ci = text('.ci/run')
  for part in (
    'pip install --quiet .\n',
    'python main.py --config=configs/fourier_heatmap.py',
    "pip install --quiet '.[test]'",
    'python -m pytest -n auto',
  ):
    assert part in ci


@pytest.mark.parametrize('name', DOCUMENTS)
def test_links_lead_to_files(name: str) -> None:
  for target in re.findall(r'\]\(([^)]+)\)', text(name)):
    if '://' not in target:
      file, _, anchor = target.partition('#')
      path = (ROOT / name).parent.joinpath(file) if file else ROOT / name
      assert path.exists(), target
      headings = re.findall(r'^#+ (.*)$', path.read_text(), re.MULTILINE) if anchor else []
      anchors = [re.sub(r'[^\w\- ]', '', h.lower()).replace(' ', '-') for h in headings]
      assert not anchor or anchor in anchors, target


@pytest.mark.parametrize('name', DOCUMENTS)
def test_paths_in_backquotes_exist(name: str) -> None:
  pattern = r'`((?:robustness|input_pipeline|configs|tests|colabs|docs)/[\w/]+\.(?:py|md|ipynb))'
  for path in set(re.findall(pattern, text(name))) - {*RECIPE_FILES, *recipes(), PART_FILE}:
    assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
  'command',
  [command for name in DOCUMENTS for command in commands(name) if '--config=...' not in command],
)
def test_commands_have_a_config_with_their_keys(command: str) -> None:
  file = re.findall(r'--config=(\S+)', command)[0]
  if file.endswith('.json'):  # printed by the command before it
    assert f'--print_config > {file}' in ' '.join(commands('docs/training.md'))
    return
  config = load_config(file)
  if 'predictions' in config:
    sections = {**config.to_dict(), 'predictions': 'FILE'}
    study.scores_of(study.from_config(sections.pop('study')), sections)
  else:
    experiment.from_config(config.to_dict())
  for key in re.findall(r'--config\.([\w.]+)=', command):
    assert has_key(config, key), key


def test_the_battery_of_the_page_is_valid() -> None:
  (source,) = blocks('docs/batteries.md', 'python')
  space: dict[str, Any] = {}
  exec(compile(source, 'docs/batteries.md', 'exec'), space)
  checked = experiment.from_config(space['get_config']().to_dict())
  assert {name: part.study.name for name, part in checked.measurements.items()} == {
    'plain': 'accuracy',
    'errors': 'corruption_error',
  }
  assert checked.measurements['errors'].data.num_images == 200


def test_flags_of_the_page_about_running_are_those_of_the_command() -> None:
  defined = set(re.findall(r"DEFINE_\w+\(\s*'(\w+)'", text('robustness/cli/running.py')))
  assert defined == OWN_FLAGS
  printed = ' '.join(c for name in ('README.md', 'docs/running.md') for c in commands(name))
  assert set(re.findall(r'--(\w+)=', printed)) <= OWN_FLAGS


@pytest.mark.parametrize('name', documented_studies())
def test_the_page_of_a_study_has_keys_and_figures_that_exist(name: str) -> None:
  path = documented.page(name)
  assert path is not None
  page = str(path.relative_to(ROOT))
  assert f'configs/{name}' in text(page) and f'`configs/{name}' in text('README.md')
  assert re.search(rf'^## {name}$', text('docs/api/studies.md'), re.MULTILINE)
  if path.parent.name != 'studies':
    return  # a page that says more than what the study is
  config = load_config(f'configs/{name}.py')
  mentioned = set(re.findall(r'--config\.([\w.]+)=', text(page)))
  variants = [load_config(re.findall(r'--config=(\S+)', c)[0]) for c in commands(page)]
  assert not {k for k in mentioned if not any(has_key(c, k) for c in (config, *variants))}
  row = re.findall(r'^\| figures \| (.*) \|$', text(page), re.MULTILINE)[0]
  bases = study.STUDIES.classes()[name].__mro__[:-2]
  files = [*ROOT.glob('robustness/present/*.py'), *map(pathlib.Path, map(inspect.getfile, bases))]
  templates = set().union(*(string_templates(file) for file in files))
  quantities = study.from_config(config.study.to_dict()).quantities
  templates |= {rf'{quantity.name}_\w+' for quantity in quantities}  # and its facets
  for figure in re.findall(r'`(\w+)`', row):
    assert any(re.fullmatch(template, figure) for template in templates), figure


def string_templates(file: pathlib.Path) -> set[str]:
  """Returns patterns of the strings in a module's code, such as `\\w+_by_bandwidth`."""
  patterns = set()
  for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    words = [
      re.escape(str(part.value)) if isinstance(part, ast.Constant) else r'\w+' for part in parts
    ]
    if isinstance(node, (ast.JoinedStr, ast.Constant)) and set(words) != {r'\w+'}:
      patterns.add(''.join(words))
  return patterns


def test_keys_of_the_page_about_running_exist() -> None:
  keys = set(re.findall(r'--config\.([\w.]+)=', text('docs/running.md'))) - {'KEY'}
  variants = ('digits', 'cifar10', 'cifar10_pair', 'imagenet')
  configs = [load_config(f'configs/fourier_heatmap.py:{variant}') for variant in variants]
  assert keys and not {key for key in keys if not any(has_key(c, key) for c in configs)}


def test_the_readme_names_every_documented_study_and_configs_that_exist() -> None:
  table = text('README.md').split('## Studies')[1].split('\n\n')[1]
  named = set(re.findall(r'`configs/(\w+)\.py`', table))
  assert named <= {path.stem for path in (ROOT / 'configs').glob('*.py')}
  studied = {load_config(f'configs/{name}.py').get('study', {}).get('name') for name in named}
  assert set(documented_studies()) <= studied


def test_the_study_from_python_runs(
  tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
  monkeypatch.chdir(tmp_path)
  (snippet,) = blocks('docs/from_python.md', 'python')
  exec(compile(snippet, 'docs/from_python.md', 'exec'), {})
  assert 'korn-graubard' in capsys.readouterr().out
  assert 'input_pipeline' not in snippet and 'launch' not in snippet


def test_the_blocks_about_the_table_run_one_after_another(
  finished: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
  space: dict[str, Any] = {}
  for block in blocks('docs/table.md', 'python'):
    exec(compile(block.replace('/tmp/heatmap', str(finished)), 'docs/table.md', 'exec'), space)
  assert 'korn-graubard' in capsys.readouterr().out
  assert len(space['cells']) > 20 and set(space['low'].versus) >= {''}


def test_the_blocks_about_corruptions_run_one_after_another() -> None:
  torch = pytest.importorskip('torch', reason='needs torch')
  space: dict[str, Any] = {}
  for number, block in enumerate(blocks('docs/corruptions.md', 'python')):
    exec(compile(block, f'docs/corruptions.md, block {number + 1}', 'exec'), space)
  images = space['images']
  for name in ('foggy', 'mixed', 'angled', 'levels', 'batch'):
    assert np.isfinite(np.asarray(space[name])).all(), name
  assert np.abs(np.asarray(space['mixed']) - images).max((1, 2, 3)).min() > 0.01
  even = np.asarray(space['augmented'](space['step_key'], images))
  np.testing.assert_array_equal(even[::2], images[::2])
  assert np.abs(even[1::2] - images[1::2]).max((1, 2, 3)).min() > 0.01
  assert isinstance(space['batch'], torch.Tensor) and space['batch'].shape == (8, 3, 64, 64)


def recipe() -> dict[str, str]:
  """Returns {path: content} of the files that CONTRIBUTING tells to add, as printed."""
  pattern = r'^`([\w/]+\.py)`;(?:(?!```).)*```python\n(.*?)^```'
  return dict(re.findall(pattern, text('CONTRIBUTING.md'), re.DOTALL | re.MULTILINE))


def recipes() -> dict[str, str]:
  """Returns {path: content} of the files that docs/recipes.md tells to add, as printed."""
  pattern = r'^`([\w/]+\.py)`\n\n```python\n(.*?)^```'
  return dict(re.findall(pattern, text('docs/recipes.md'), re.DOTALL | re.MULTILINE))


def augmentation() -> str:
  """Returns the file that docs/training.md tells to add, as printed."""
  return next(b for b in blocks('docs/training.md', 'python') if '(Augmentation)' in b)


@pytest.fixture(scope='module')
def copy_with_recipe(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
  """A copy of the project to which all files that documents print were added."""
  folder = tmp_path_factory.mktemp('copy') / ROOT.name
  left_out = shutil.ignore_patterns('.*cache', '__pycache__', '.git', 'build', '*.egg-info')
  shutil.copytree(ROOT, folder, ignore=left_out)
  for name, content in {**recipe(), **recipes(), PART_FILE: augmentation()}.items():
    assert not (folder / name).exists(), f'{name} is there already'
    (folder / name).write_text(content, encoding='utf-8')
  (line,) = re.findall(r"`('\w+': \(\d+, '\w+'\),)`", text('docs/recipes.md'))
  table = folder / 'robustness/corruptions/names.py'
  head, end, rest = table.read_text(encoding='utf-8').partition('\n}\n')
  table.write_text(f'{head}\n  {line}{end}{rest}', encoding='utf-8')
  return folder


def run_in(folder: pathlib.Path, *arguments: str, timeout: int = 240) -> str:
  """Runs Python in a copy and returns what it printed; fails with it unless the status is 0."""
  kept = {k: v for k, v in os.environ.items() if k not in ('JAX_NUM_CPU_DEVICES', 'PYTHONPATH')}
  answer = subprocess.run(
    [sys.executable, *arguments],
    cwd=folder,
    env={**kept, 'JAX_PLATFORMS': 'cpu'},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    timeout=timeout,
    check=False,
  )
  assert answer.returncode == 0, answer.stdout
  return answer.stdout


def test_the_recipe_of_a_study_has_three_files() -> None:
  assert tuple(recipe()) == RECIPE_FILES
  assert len(recipe()) == len(blocks('CONTRIBUTING.md', 'python'))


def test_every_file_of_the_page_of_recipes_has_a_test() -> None:
  files = list(recipes())
  assert len(files) == len(blocks('docs/recipes.md', 'python')) == 6
  tests = {pathlib.Path(name).name for name in files if name.startswith('tests/')}
  added = [pathlib.Path(name).stem for name in files if not name.startswith('tests/')]
  assert tests == {f'{name}_test.py' for name in added}


@pytest.mark.slow
def test_the_study_of_the_recipe_runs_by_the_command_of_its_config(
  copy_with_recipe: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  (command,) = re.findall(r'^python (main\.py .*)$', recipe()['configs/shift.py'], re.MULTILINE)
  assert command.endswith('--workdir=/tmp/shift')
  arguments = command.replace('/tmp/shift', str(tmp_path / 'run')).split()
  few = ('training.steps=5', 'training.batch_size=32', 'data.num_images=60')
  output = run_in(copy_with_recipe, *arguments, *(f'--config.{value}' for value in few))
  assert re.search(
    r'^\* The smallest top-1 accuracy by pixels: .* for all 5 together', output, re.M
  )
  results = Results.read(tmp_path / 'run')
  assert results.study == 'shift' and results.settings['largest'] == 4
  by_shift = select(results.table, 'accuracy', pixels=...)
  assert by_shift.pixels.tolist() == list(range(5)) and set(by_shift.n) == {60}
  assert (by_shift.low < by_shift.value).all()
  assert (tmp_path / 'run/figures/accuracy_pixels.png').exists()
  report = (tmp_path / 'run/report.html').read_text()
  for heading in ('Findings', 'Figures', 'Tables', 'Settings', 'How to repeat', 'How to cite'):
    assert f'>{heading}</h2>' in report
  assert not said.complaints(results)
  assert 'top-1 accuracy (%) by pixels' in report and 'Top-1 accuracy by pixels, n = 60' in report


@pytest.mark.slow
def test_the_whole_suite_passes_with_what_the_documents_print_added(
  copy_with_recipe: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
  shared = os.environ.get('ROBUSTNESS_SHARED', str(ROOT.parent / 'shared'))
  monkeypatch.setenv('ROBUSTNESS_SHARED', shared)
  for name in [name for name in os.environ if name.startswith('PYTEST_XDIST')]:
    monkeypatch.delenv(name)
  output = run_in(copy_with_recipe, '-m', 'pytest', '-q', '-n', 'auto', timeout=2400)
  assert re.search(r'^\d+ passed', output, re.MULTILINE), output
  assert 'tests/studies/shift_test.py' not in output  # neither failed nor skipped


def test_the_augmentation_of_the_training_page_runs(tmp_path: pathlib.Path) -> None:
  own = augmentation().replace('class invert(', 'class printed(')  # the copy has `invert` itself
  (tmp_path / 'mine.py').write_text(own)
  policy = from_section({'policy': (f'{tmp_path}/mine.py:printed',)}, 'augment')
  images = np.linspace(0, 1, 32 * 12, dtype=np.float32).reshape(32, 2, 2, 3)
  batch = {'image': images, 'example_id': np.arange(32)}
  changed = np.asarray(policy(batch, 0, jnp.int32(0))['image'])
  inverted = (changed != images).any((1, 2, 3))
  assert 4 < inverted.sum() < 28
  np.testing.assert_allclose(changed[inverted], 1 - images[inverted], atol=1e-6)


@pytest.mark.slow
def test_the_archive_of_the_training_page_has_the_rows_of_tfds(
  cifar10_dir: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  source = next(b for b in blocks('docs/training.md', 'python') if 'np.savez' in b)
  part = ('split=split', "split=f'{split}[:300]'")
  for old, new in (('/tmp', str(tmp_path)), ("('train', 'test')", "('test',)"), part):
    assert old in source
    source = source.replace(old, new)
  exec(source, {})
  settings = DataSettings(data_dir=str(cifar10_dir), name='cifar10', num_images=64)
  ours, theirs = (
    input_pipeline.load(dataclasses.replace(settings, source=source, path=path, split=split))
    for source, path, split in (
      ('npz', str(tmp_path / 'cifar10.npz'), 'test'),
      ('tfds', '', 'test[:300]'),
    )
  )
  assert ours.class_names == theirs.class_names
  for mine, other in zip(ours.batches(64), theirs.batches(64), strict=True):
    for name in ('image', 'label', 'example_id'):
      np.testing.assert_array_equal(mine[name], other[name])


def test_the_training_page_names_parts_that_exist() -> None:
  table = text('docs/training.md').split('\n\n| part |')[1].split('\n\n')[0]
  lines = table.splitlines()[2:]
  registries = AUGMENTATIONS, ATTACKS, INPUT_FILTERS, OBJECTIVES
  for line, registry in zip(lines, registries, strict=True):
    named = set(re.findall(r'`(\w+)`', line.split('|')[3]))
    assert named and named <= set(registry.classes())


def test_the_table_of_networks_names_every_family() -> None:
  table = text('docs/networks.md').split('\n\n')[1]
  lines = [line.split('|')[1] for line in table.splitlines()[2:]]
  named = {re.sub(r'\d.*$', '', name) for line in lines for name in re.findall(r'`(\w+)`', line)}
  assert {re.sub(r'\d.*$', '', name) for name in catalog.ARCHITECTURES} <= named
