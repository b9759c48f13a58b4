"""The documentation is right: its code runs, and the configs, keys and files it names exist."""

import ast
import functools
import inspect
import os
import pathlib
import re
import shlex
import shutil
import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import input_pipeline
from input_pipeline import DataSettings
from input_pipeline.sources.npz import Npz
from input_pipeline.sources.tfds import Tfds
from robustness.__main__ import main
from robustness.attacks import ATTACKS
from robustness.augment import AUGMENTATIONS
from robustness.augment.policy import from_section
from robustness.cli import command_line, trackers
from robustness.config import experiment, packaged
from robustness.config.defaults import ConfigDict
from robustness.corruptions.names import NUMBERS
from robustness.estimates.table import select
from robustness.evaluation import study
from robustness.fourier.input_filters import INPUT_FILTERS
from robustness.objectives import OBJECTIVES
from robustness.results import Results
from tests import faults
from tests.commands import ROOT, output_of, python
from tests.emitters import USUAL
from tests.end_to_end import machine

DOCUMENTS = (
  'README.md',
  'CONTRIBUTING.md',
  *sorted(str(path.relative_to(ROOT)) for path in (ROOT / 'docs').rglob('*.md')),
)
FIRST = 'pip install . && python main.py --config=configs/fourier_heatmap.py --workdir=/tmp/heatmap'
"""The first command of the README."""
SECOND = "pip install '.[test]' && python -m pytest -n auto"
RUN_FLAGS = {
  *('config', 'workdir', 'print_config', 'dry_run', 'compilation_cache', 'join_timeout'),
  *('coordinator', 'num_processes', 'process_id', 'distributed'),
}


def text(name: str) -> str:
  return (ROOT / name).read_text(encoding='utf-8')


def blocks(name: str, language: str) -> list[str]:
  """Returns the texts of a document's fenced blocks in a language."""
  return re.findall(rf'^```{language}\n(.*?)^```', text(name), re.DOTALL | re.MULTILINE)


def commands(name: str) -> list[str]:
  """Returns the `python main.py` commands of a document, each as one line.

  Variables of a shell's loops get their first value. The configs in the tables of docs/papers.md
  and docs/backbones.md are commands too.
  """
  lines = []
  for block in blocks(name, 'bash'):
    for variable, first in re.findall(r'^for (\w+) in (\w+)', block, re.MULTILINE):
      block = block.replace(f'${variable}', first)
    lines += block.replace('\\\n', ' ').splitlines()
  if name in ('docs/papers.md', 'docs/backbones.md'):
    lines += [f'main.py --config={cell}' for cell in re.findall(r'`(configs/[^`]+)`', text(name))]
  return [line for line in lines if 'main.py' in line]


def run_blocks(name: str, workdir: str = '/tmp/heatmap') -> dict[str, Any]:
  """Runs a document's Python blocks one after another and returns their variables by name."""
  variables: dict[str, Any] = {}
  for number, block in enumerate(blocks(name, 'python')):
    source = block.replace('/tmp/heatmap', workdir)
    exec(compile(source, f'{name}, block {number + 1}', 'exec'), variables)
  return variables


def page_of(name: str) -> pathlib.Path | None:
  """Returns the page about a study, if it has one."""
  pages = (ROOT / folder / f'{name}.md' for folder in ('docs/studies', 'docs'))
  return next((path for path in pages if path.exists()), None)


def load_config(file_and_variant: str) -> ConfigDict:
  return command_line.load_config(str(ROOT / file_and_variant))


def has_key(config: Any, path: str) -> bool:
  for key in path.split('.'):
    if not isinstance(config, ConfigDict) or key not in config:
      return False
    config = config[key]
  return True


def test_the_readme_opens_with_the_picture_and_the_two_commands():
  assert text('README.md').startswith('![')
  assert blocks('README.md', 'bash')[:2] == [f'{FIRST}\n', f'{SECOND}\n']
  ci = text('.ci/run')
  installed = ('pip install --quiet .\n', "pip install --quiet '.[test]'")
  commands_run = (FIRST.split('&& ')[1].split(' --workdir')[0], SECOND.split('&& ')[1])
  for part in (*installed, *commands_run):
    assert part in ci, part


@pytest.mark.parametrize('name', [name for name in DOCUMENTS if name.startswith('docs/studies/')])
def test_the_page_of_a_study_ends_with_the_command_that_prints_its_keys(name):
  study_name = pathlib.Path(name).stem
  assert text(name).splitlines()[-1].startswith(f'All keys: `robustness {study_name} --help`')
  assert study_name in packaged.files()


@pytest.mark.parametrize('name', DOCUMENTS)
def test_links_and_paths_lead_to_files(name):
  for target in re.findall(r'\]\(([^)]+)\)', text(name)):
    if '://' not in target:
      file, _, anchor = target.partition('#')
      path = (ROOT / name).parent.joinpath(file) if file else ROOT / name
      assert path.exists(), target
      headings = re.findall(r'^#+ (.*)$', path.read_text(), re.MULTILINE) if anchor else []
      anchors = [re.sub(r'[^\w\- ]', '', h.lower()).replace(' ', '-') for h in headings]
      assert not anchor or anchor in anchors, target
  pattern = r'`((?:robustness|input_pipeline|configs|tests|colabs|docs)/[\w/]+\.(?:py|md|ipynb))'
  for path in set(re.findall(pattern, text(name))) - {*recipes()}:
    assert (ROOT / path).exists(), path


COMMANDS = [c for name in DOCUMENTS for c in commands(name) if '--config=...' not in c]


@functools.cache
def checked(file: str, *changes: str) -> ConfigDict:
  """Returns a config with changes from the command line, after the checks of a run."""
  config, _ = command_line.read([f'--config={ROOT / file}', *changes])
  if 'predictions' in config:
    sections = {**config.to_dict(), 'predictions': 'FILE'}
    study.scores_of(study.from_config(sections.pop('study')), sections)
  else:
    experiment.from_config(config.to_dict())
  return config


@pytest.mark.parametrize('command', COMMANDS)
def test_commands_have_a_config_with_their_keys(command, tmp_path, monkeypatch):
  (tmp_path / 'mine.py').write_text('network = None')  # the user's file of some commands
  monkeypatch.chdir(tmp_path)
  file = re.findall(r'--config=(\S+)', command)[0]
  if file.endswith('.json'):  # printed by the command before it
    assert f'--print_config > {file}' in ' '.join(commands('docs/training.md'))
    return
  pattern = r'--config\.(classifiers|battery\.tasks|study\.attacks)\b'
  changes = [argument for argument in shlex.split(command) if re.match(pattern, argument)]
  config = checked(file, *changes)
  for key in re.findall(r'--config\.([\w.]+)=', command):
    assert has_key(config, key), key


def test_the_battery_of_the_page_is_valid():
  battery = run_blocks('docs/batteries.md')['get_config']()
  checked = experiment.from_config(battery.to_dict())
  names = {name: task.study.name for name, task in checked.measurements.items()}
  assert names == {'plain': 'accuracy', 'errors': 'corruption_error'}
  assert checked.measurements['errors'].data.num_images == 200


DOCUMENTED = [name for name in study.STUDIES.classes() if page_of(name)]


@pytest.mark.parametrize('name', DOCUMENTED)
def test_the_page_of_a_study_has_keys_and_figures_that_exist(name):
  path = page_of(name)
  assert path is not None
  page = str(path.relative_to(ROOT))
  table = text('README.md').split('## Studies')[1].split('\n\n')[1]
  assert f'configs/{name}' in text(page) and f'`configs/{name}' in table
  assert re.search(rf'^## {name}$', text('docs/api/studies.md'), re.MULTILINE)
  if path.parent.name != 'studies':
    return  # this page is about more than the study
  assert f'`configs/{name}.py`' in table
  config = load_config(f'configs/{name}.py')
  mentioned = set(re.findall(r'--config\.([\w.]+)=', text(page)))
  variants = [command_line.read(shlex.split(command))[0] for command in commands(page)]
  assert not {k for k in mentioned if not any(has_key(c, k) for c in (config, *variants))}
  row = re.findall(r'^\| figures \| (.*) \|$', text(page), re.MULTILINE)[0]
  bases = study.STUDIES.classes()[name].__mro__[:-2]
  files = [*ROOT.glob('robustness/present/*.py'), *map(pathlib.Path, map(inspect.getfile, bases))]
  templates = set().union(*(string_templates(file) for file in files))
  quantities = study.from_config(config.study.to_dict()).quantities
  templates |= {rf'{quantity.name}_\w+' for quantity in quantities}  # and its facets
  for figure in re.findall(r'`(\w+)`', row):
    assert any(re.fullmatch(template, figure) for template in templates), figure


@functools.cache
def string_templates(file: pathlib.Path) -> set[str]:
  """Returns patterns of the strings in a module's code, such as `\\w+_by_bandwidth`."""
  patterns = set()
  for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    constant = [isinstance(part, ast.Constant) for part in parts]
    words = [re.escape(str(p.value)) if c else r'\w+' for p, c in zip(parts, constant, strict=True)]
    if isinstance(node, (ast.JoinedStr, ast.Constant)) and set(words) != {r'\w+'}:
      patterns.add(''.join(words))
  return patterns


def test_keys_and_flags_of_the_page_about_running_exist():
  defined = set(re.findall(r"DEFINE_\w+\(\s*'(\w+)'", text('robustness/cli/running.py')))
  assert defined == RUN_FLAGS
  printed = ' '.join(c for name in ('README.md', 'docs/running.md') for c in commands(name))
  assert set(re.findall(r'--(\w+)=', printed)) <= RUN_FLAGS
  keys = set(re.findall(r'--config\.([\w.]+)=', text('docs/running.md'))) - {'KEY'}
  variants = ('digits', 'cifar10', 'cifar10_pair', 'imagenet', 'imagenet_pair')
  configs = [load_config(f'configs/fourier_heatmap.py:{variant}') for variant in variants]
  command_line.choose_classifiers(configs[0], ['--config.classifiers.mine.name=mine.py:network'])
  assert keys and not {key for key in keys if not any(has_key(c, key) for c in configs)}


@pytest.mark.slow
def test_the_printed_tables_and_exports_are_of_finished_runs(
  finished, tmp_path, monkeypatch, capsys
):
  """Runs the commands of docs/table.md on the default experiment."""
  monkeypatch.chdir(tmp_path)
  printed = '\n'.join(blocks('docs/table.md', 'bash')).replace('\\\n', ' ')
  for place in ('/tmp/heatmap', '/tmp/a', '/tmp/b'):
    printed = printed.replace(f'{place} ', f'{finished} ').replace(f'{place}\n', f'{finished}\n')
  lines = [*filter(None, printed.replace('/tmp/hub', 'hub').split('\n'))]
  assert len(lines) == 8
  sent = []
  monkeypatch.setattr(
    trackers, 'TRACKERS', dict.fromkeys(trackers.TRACKERS, lambda *entry: sent.append(entry))
  )
  for line in lines:
    if '/tmp/errors' not in line and '/tmp/battery' not in line:  # of other studies
      assert main(shlex.split(line)[1:]) == 0, line
  assert [(entry.name.split()[-1], project) for entry, project, *_ in sent] == [
    *2 * [('natural', 'robust'), ('gaussian', 'robust')]
  ]
  output = capsys.readouterr().out
  assert '| natural | ' in output and '\\textbf{' in output and 'We measure natural' in output
  assert (tmp_path / 'hub/.eval_results/NAME.yaml').is_file()


@pytest.mark.slow
def test_the_study_from_python_runs(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  space = run_blocks('docs/from_python.md')
  measured = space['video'].value('accuracy_pm_k', k=2)
  assert (space['pm_k'].value, space['pm_k'].low) == pytest.approx(measured[:2])
  assert 'opposite' in capsys.readouterr().out


@pytest.mark.slow
def test_the_blocks_about_the_table_run_one_after_another(finished, capsys):
  space = run_blocks('docs/table.md', str(finished))
  assert 'korn-graubard' in capsys.readouterr().out
  assert len(space['cells']) > 20 and set(space['low'].versus) >= {''}


@pytest.mark.slow
def test_the_blocks_about_corruptions_run_one_after_another():
  torch = pytest.importorskip('torch', reason='needs torch')
  space = run_blocks('docs/corruptions.md')
  images = space['images']
  for name in ('foggy', 'mixed', 'angled', 'levels', 'batch'):
    assert np.isfinite(np.asarray(space[name])).all(), name
  assert np.abs(np.asarray(space['mixed']) - images).max((1, 2, 3)).min() > 0.01
  augmented = np.asarray(space['augmented'](space['step_key'], images))  # every second image
  np.testing.assert_array_equal(augmented[::2], images[::2])
  assert np.abs(augmented[1::2] - images[1::2]).max((1, 2, 3)).min() > 0.01
  assert isinstance(space['batch'], torch.Tensor) and space['batch'].shape == (8, 3, 64, 64)


def test_the_loops_about_the_fourier_basis_run_and_agree_with_its_definition():
  torch = pytest.importorskip('torch', reason='needs torch')
  space = run_blocks('docs/heat_maps.md')
  f, images, network = (space[name] for name in ('f', 'images', 'network'))
  for name in ('heat_map', 'torch_map'):
    errors = np.asarray(space[name])
    assert errors.shape == (5, 5) and set((8 * errors).ravel()) <= set(range(9))
    np.testing.assert_array_equal(errors, errors[::-1, ::-1])
  cell = f.cell[2, 4]
  wave = np.cos(np.pi / 4 + 2 * np.pi * (f.fy[cell] * 0 + f.fx[cell] * np.arange(32) / 32))
  image = np.asarray(space['basis_image'](f.fy[cell], f.fx[cell], 32, 32))
  np.testing.assert_allclose(image, np.tile(wave * np.sqrt(2) / 32, (32, 1)), atol=1e-6)
  perturbed = np.asarray(space['fourier'].perturb(space['key'], images, (0, 0), 4.0))
  np.testing.assert_allclose(np.abs(perturbed - images), 4 / 32, atol=1e-5)
  wrong = np.asarray(network(perturbed)).argmax(1) != space['labels']
  assert np.asarray(space['heat_map'])[2, 2] == wrong.mean()
  added = space['x'] + 4.0 * space['signs'] / 32
  with torch.no_grad():
    wrong = space['model'](added).argmax(1) != space['y']
  assert float(space['torch_map'][2, 2]) == float(wrong.float().mean())


def recipes() -> dict[str, str]:
  """Returns the contents of the files that the page of recipes prints, by path."""
  pattern = r'^`([\w/]+\.py)`(?:;(?:(?!```).)*|\n\n)```python\n(.*?)^```'
  return dict(re.findall(pattern, text('docs/recipes.md'), re.DOTALL | re.MULTILINE))


@pytest.fixture(scope='module')
def copy_with_recipe(tmp_path_factory):
  """A copy of the project to which all files that documents print were added."""
  folder = tmp_path_factory.mktemp('copy') / ROOT.name
  left_out = shutil.ignore_patterns('.*cache', '__pycache__', '.git', 'build', '*.egg-info')
  shutil.copytree(ROOT, folder, ignore=left_out)
  for name, content in recipes().items():
    assert not (folder / name).exists(), f'{name} is there already'
    (folder / name).write_text(content, encoding='utf-8')
  lines = re.findall(r"`('[^`]*,)`", text('docs/recipes.md'))
  tables = (('corruptions/names.py', '\n}\n'), ('models/catalog.py', '\n)\n'))
  for line, (name, closing) in zip(lines, tables, strict=True):
    table = folder / 'robustness' / name
    head, end, tail = table.read_text(encoding='utf-8').partition(closing)
    table.write_text(f'{head}\n  {line}{end}{tail}', encoding='utf-8')
  return folder


def test_every_file_of_a_recipe_has_a_test():
  files = list(recipes())
  assert len(files) == len(blocks('docs/recipes.md', 'python')) == 16
  (number,) = re.findall(r"'darken': \((\d+),", text('docs/recipes.md'))
  assert int(number) not in NUMBERS.values(), 'another corruption has the number of the recipe'
  tests = {pathlib.Path(name).name for name in files if name.startswith('tests/')}
  added = [pathlib.Path(name).stem for name in files if not name.startswith('tests/')]
  assert tests == {f'{name}_test.py' for name in added}


@pytest.mark.slow
def test_the_study_of_the_recipe_runs_by_the_command_below_it(copy_with_recipe, tmp_path):
  (command,) = commands('docs/recipes.md')
  assert command.endswith(' --config.study.name=shift --workdir=/tmp/shift')
  arguments = command.removeprefix('python main.py ').replace('/tmp/shift', str(tmp_path / 'run'))
  few = ('training.steps=5', 'training.batch_size=32', 'data.num_images=60')
  flags = (*arguments.split(), *(f'--config.{value}' for value in few))
  output = python('tests/end_to_end/machine.py', 'own', *flags, cwd=copy_with_recipe, PYTHONPATH='')
  assert re.search(r'^\* Lowest top-1 accuracy of 5 shifts: .* shifted by \d', output, re.M)
  results = Results.read(tmp_path / 'run')
  assert results.study == 'shift' and results.settings['largest'] == 4
  by_shift = select(results.table, 'accuracy', pixels=...)
  assert by_shift.pixels.tolist() == list(range(5)) and set(by_shift.n) == {60}
  assert (by_shift.low < by_shift.value).all()
  assert (tmp_path / 'run/figures/accuracy_pixels.png').exists()
  report = (tmp_path / 'run/report.html').read_text()
  headings = {'Findings', 'Figures', 'Tables', 'Settings', 'How to repeat', 'How to cite'}
  assert headings <= {*re.findall(r'>([^<]+)</h2>', report)}
  assert not faults.in_results(results)
  assert 'top-1 accuracy (%) by shift' in report and 'Top-1 accuracy by shift, n = 60' in report


@pytest.mark.slow
def test_the_suite_passes_with_what_the_documents_print_added(copy_with_recipe, monkeypatch):
  """Runs the tests that name an added file or look at all modules.

  Then runs the tests marked `shared_bits` with the compiler's flags of a user.
  """
  shared = os.environ.get('ROBUSTNESS_SHARED', str(ROOT.parent / 'shared'))
  monkeypatch.setenv('ROBUSTNESS_SHARED', shared)
  for name in [name for name in os.environ if name.startswith('PYTEST_XDIST')]:
    monkeypatch.delenv(name)
  (page,) = re.findall(r'`python -m ([\w.]+)`', text('docs/recipes.md'))
  python('-m', page, cwd=copy_with_recipe, PYTHONPATH='')

  def passed(*options: str, **variables: str) -> str:
    suite = ('-m', 'pytest', '-q', '-n', 'auto', *options)
    output = python(*suite, cwd=copy_with_recipe, timeout=2400, PYTHONPATH='', **variables)
    assert re.search(r'^\d+ passed', output, re.MULTILINE), output
    return output

  added = {pathlib.Path(name).stem for name in recipes()}
  added = {name for name in added if not name.endswith('_test')}
  output = passed('-rpf', '-k', ' or '.join(sorted({*added, 'imports_test'})))
  for name in added:
    assert re.search(rf'^PASSED .*\b{name}(_test\.py|\W)', output, re.MULTILINE), name
  tests = (ROOT / 'tests').rglob('*_test.py')
  bit_tests = [path for path in tests if 'mark.shared_bits' in path.read_text(encoding='utf-8')]
  files = (str(path.relative_to(ROOT)) for path in bit_tests if path != pathlib.Path(__file__))
  passed('-m', 'shared_bits', *files, **USUAL)


@pytest.mark.slow
def test_the_transformer_of_the_page_of_feature_spectra_trains_and_is_measured(
  cifar10_dir, tmp_path
):
  page = 'docs/studies/feature_spectrum.md'
  (network,) = blocks(page, 'python')
  assert 'depth=6' in network
  (tmp_path / 'small_vit.py').write_text(network.replace('depth=6', 'depth=2'), encoding='utf-8')
  training, measuring = (command for command in commands(page) if 'small_vit' in command)
  few = '--config.training.steps=2 --config.training.epochs=0. --config.training.warmup_epochs=0.'
  for command, changes in ((training, few), (measuring, '')):
    small = f'{command} {changes} --config.data.num_images=8'.replace('/tmp/', f'{tmp_path}/')
    small = small.replace(',block2,block3,block4,block5', '')
    python(*shlex.split(small.removeprefix('python ')), cwd=ROOT, TFDS_DATA_DIR=str(cifar10_dir))
  table = Results.read(tmp_path / 'spectrum_vit').table
  layers = table[table['quantity'] == 'high_frequency_log_amplitude'].layer
  assert sorted(layers) == [*(f'block{number}' for number in range(2)), 'embedding']


def test_the_augmentation_of_the_training_page_runs(tmp_path):
  (tmp_path / 'mine.py').write_text(recipes()['robustness/augment/invert.py'])
  policy = from_section({'policy': (f'{tmp_path}/mine.py:Invert',)}, 'augment')
  images = np.linspace(0, 1, 32 * 12, dtype=np.float32).reshape(32, 2, 2, 3)
  batch = {'image': images, 'example_id': np.arange(32)}
  changed = np.asarray(policy(batch, 0, jnp.int32(0))['image'])
  inverted = (changed != images).any((1, 2, 3))
  assert 4 < inverted.sum() < 28, 'each of 32 images is inverted with probability 1/2'
  np.testing.assert_allclose(changed[inverted], 1 - images[inverted], atol=1e-6)


@pytest.mark.slow
def test_the_archive_of_the_training_page_has_the_rows_of_tfds(cifar10_dir, tmp_path):
  source = next(b for b in blocks('docs/training.md', 'python') if 'np.savez' in b)
  part = ('split=split', "split=f'{split}[:300]'")
  for old, new in (('/tmp', str(tmp_path)), ("('train', 'test')", "('test',)"), part):
    assert old in source
    source = source.replace(old, new)
  exec(source, {})
  archive, tfds = Npz(str(tmp_path / 'cifar10.npz')), Tfds('cifar10', str(cifar10_dir))
  ours = input_pipeline.load(DataSettings(archive, num_images=64))
  theirs = input_pipeline.load(DataSettings(tfds, 'test[:300]', num_images=64))
  assert ours.class_names == theirs.class_names
  for mine, other in zip(ours.batches(64), theirs.batches(64), strict=True):
    for name in ('image', 'label', 'example_id'):
      np.testing.assert_array_equal(mine[name], other[name])


@pytest.mark.slow
def test_the_battery_in_parts_of_the_page_about_scaling_computes_nothing_again(tmp_path):
  (block,) = (b for b in blocks('docs/scaling.md', 'bash') if 'part_' in b)
  few = ('training.steps=3', 'training.batch_size=16', 'battery.heat_maps.study.window=3')
  few += ('data.num_images=24', 'battery.heat_maps.data.num_images=8')
  names = 'shot_noise,contrast,brightness'
  few += tuple(f'battery.{task}.study.corruptions={names}' for task in ('errors', 'tradeoff'))
  flags = ' '.join(f'--config.{change}' for change in few)
  lines = re.sub(r'--config=\S+', rf'\g<0> {flags}', block.replace('/tmp/', f'{tmp_path}/'))
  lines = lines.replace('python main.py', f'{sys.executable} tests/end_to_end/machine.py own')
  last_run = output_of('bash', '-ec', lines).rpartition('natural, gaussian on')[2]
  assert last_run.count('done before') == 6
  assert 'training' not in last_run.partition('table 3')[0]
  assert (tmp_path / 'whole/report.html').is_file()


def test_the_training_page_installs_what_the_bare_machine_of_the_tests_has():
  (line,) = re.findall('pip install (.*) && pip install --no-deps', text('docs/training.md'))
  assert {*line.split(), 'jaxlib'} == {*machine.INSTALLED}


def test_the_training_page_names_parts_that_exist():
  table = text('docs/training.md').split('\n\n| part |')[1].split('\n\n')[0]
  lines = table.splitlines()[2:]
  registries = AUGMENTATIONS, ATTACKS, INPUT_FILTERS, OBJECTIVES
  for line, registry in zip(lines, registries, strict=True):
    names = set(re.findall(r'`(\w+)`', line.split('|')[3]))
    assert names and names <= set(registry.classes())
