"""Every notebook installs, makes a run in any folder, and draws a finished one."""

import json
import os
import re
import shutil
from html import escape

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from colabs import address, outputs
from configs import video_pm_k
from robustness.present import headlines
from robustness.results import Results
from tests import installation
from tests.end_to_end import runs
from tests.video.rescoring_test import save_scores

ROOT = installation.ROOT


def read(name):
  """Returns the notebook `colabs/<name>.ipynb`."""
  return nbformat.read(ROOT / 'colabs' / f'{name}.ipynb', as_version=4)


def tagged(notebook, tag):
  """Returns the only cell with a tag."""
  (cell,) = (c for c in notebook.cells if tag in c.metadata.get('tags', []))
  return cell


def executed(name, installed, folder, workdir=None):
  """Runs a notebook in a folder as it stands, but for the cell that installs, and on fewer images.

  It draws the finished run in `workdir`, or makes one. Returns the outputs of each cell with code.
  """
  notebook = read(name)
  tagged(notebook, 'install').source = outputs.QUICK
  for cell in notebook.cells:
    sizes = r'^(NUM_IMAGES, EPOCHS) = \d+, \d+'
    cell.source = re.sub(sizes, r'\1 = 40, 0.5', cell.source, flags=re.M)
  if workdir:
    tagged(notebook, 'parameters').source = f'WORKDIR = {str(workdir)!r}'
  client = NotebookClient(notebook, timeout=300, kernel_name='python3')
  client.execute(cwd=str(folder), env=installation.environment(installed))
  cells = [cell.outputs for cell in notebook.cells if cell.cell_type == 'code']
  assert printed(cells[:1]).strip() == str(installed / 'site/robustness/__init__.py')
  return cells


def drawn_run(name, installed, workdir, folder):
  """Runs a notebook in a folder on a finished run, which stays as it is."""
  before = (workdir / 'results.json').stat()
  folder.mkdir()
  cells = executed(name, installed, folder, workdir)
  assert (workdir / 'results.json').stat().st_mtime_ns == before.st_mtime_ns
  assert not [*folder.iterdir()]
  return cells


def printed(cells):
  """Returns all that was printed."""
  return ''.join(o.text for outputs in cells for o in outputs if o.output_type == 'stream')


def pages(cells):
  """Returns the HTML of all results and tables that were shown."""
  return ''.join(o['data'].get('text/html', '') for cell in cells for o in cell if 'data' in o)


def pictures(cells):
  """Returns the outputs that are pictures."""
  return [o for outputs in cells for o in outputs if 'image/png' in o.get('data', {})]


def workdir_of(name):
  """Returns the folder in which a notebook makes its run."""
  text = '\n'.join(cell.source for cell in read(name).cells)
  (folder,) = re.findall(r"(?:'workdir': |workdir=|run\('battery', )'(\w+)'", text)
  return folder


CONFIGS = {
  **{n: n for n in ('attack_error', 'battery', 'corruption_error', 'fourier_heatmap', 'si_score')},
  'systematic': 'systematic_corruptions',
  'tradeoff': 'tradeoff',
  'video_pm_k': 'video_pm_k',
}
"""The config that each notebook runs."""


MAX_LINES, MAX_BYTES = 60, 300_000  # of source: two screens; of a file with its outputs


def test_every_notebook_is_here():
  stored = (ROOT / 'colabs').glob('*.ipynb')
  assert sorted(CONFIGS) == sorted(path.stem for path in stored)


@pytest.mark.parametrize('name', CONFIGS)
def test_it_has_the_install_cell_and_the_command_and_small_outputs(name):
  path = ROOT / 'colabs' / f'{name}.ipynb'
  stored = json.loads(path.read_text(encoding='utf-8'))
  assert stored == address.with_address(stored, name, address.repository())
  opened = address.with_address(stored, name, 'someone/project')['cells'][0]['source']
  assert f'/github/someone/project/blob/main/colabs/{name}.ipynb)' in opened[0]
  assert opened[2:] == stored['cells'][0]['source'][2 * bool(address.repository()) :]
  cells = read(name).cells
  assert cells[1] == tagged(read(name), 'install')
  text = '\n'.join(cell.source for cell in cells)
  assert f'robustness {CONFIGS[name]} --workdir={workdir_of(name)}' in text
  call = 'run(' if name == 'battery' else 'measure('
  assert f"robustness.{call}'{name}', " in text
  assert text.count('\n') < MAX_LINES and '%%writefile' not in text
  stored_outputs = [cell.outputs for cell in cells if cell.cell_type == 'code']
  assert pictures(stored_outputs[-1:]) and '<h3>' in pages(stored_outputs)
  assert not stored_outputs[0]
  assert path.stat().st_size < MAX_BYTES and 'images/s' not in printed(stored_outputs)
  (measuring,) = (cell.source for cell in cells if 'robustness.read(WORKDIR)' in cell.source)
  before, made = measuring.split('if WORKDIR:\n  results = robustness.read(WORKDIR)\nelse:\n')
  assert not re.search(r'robustness\.\w+\(', before)
  *made, last = made.splitlines()
  assert last == 'results' and {line[:2] for line in made} <= {'', '  '}


SHOWN = {
  'attack_error': ('attack_error', 'fgsm', 'mine clean_error Value('),
  'battery': ('clean: accuracy on 40 images', 'corruptions: corruption_error'),
  'corruption_error': ('mCE', 'frost: ', 'gaussian clean_error Value('),
  'fourier_heatmap': ('top-1 error under waves', 'natural error at low frequencies Value('),
  'si_score': ('balanced_accuracy', 'gap', 'centre accuracy Value('),
  'systematic': ('unseen_gain', 'erm rho Value('),
  'tradeoff': ('slope_over_corruptions', 'gaussian slope Value('),
  'video_pm_k': ('mine pm-10 Value(', 'drop_pm_k'),
}
"""What notebooks show of the runs that they make."""


@pytest.mark.slow
@pytest.mark.parametrize('name', CONFIGS)
def test_in_an_empty_folder_it_makes_a_run_and_draws_it(name, installed, tmp_path):
  cells = executed(name, installed, tmp_path)
  assert pictures(cells[-1:]), 'it ends with a picture'
  workdir = tmp_path / workdir_of(name)
  assert [path.name for path in tmp_path.iterdir()] == [workdir.name]
  labels = {entry['label'] for entry in Results.read(workdir).classifiers}
  complete = {'si_score': {'whole', 'centre'}, 'battery': {'natural', 'gaussian'}}
  assert labels == complete[name] if name in complete else 'mine' in labels
  text, page = printed(cells), pages(cells)
  assert 'images/s' in text, 'the progress of the run'
  assert 'warning' not in text.lower()
  assert [phrase for phrase in SHOWN[name] if phrase not in text + page] == []
  assert (workdir / 'report.html').is_file() and [*(workdir / 'figures').glob('*.png')]
  assert '<h3>' in page and '<img' in page
  if name == 'battery':
    for row in headlines.table(Results.read(workdir).by_task).rows:
      assert [text for text in row if f'<td>{escape(str(text))}</td>' not in page] == []


@pytest.mark.slow
def test_the_cell_that_installs_takes_the_wheel_beside_the_notebook(installed, tmp_path):
  (wheel,) = (installed / 'wheel').glob('*.whl')
  shutil.copy(wheel, tmp_path)
  notebook = nbformat.v4.new_notebook(cells=[tagged(read('battery'), 'install')])
  pip = {'PIP_TARGET': str(tmp_path / 'site'), 'PIP_NO_DEPS': '1'}
  NotebookClient(notebook, kernel_name='python3').execute(
    cwd=str(tmp_path), env={**os.environ, **pip}
  )
  assert (tmp_path / 'site/robustness/launch.py').exists()


def test_without_a_wheel_and_the_package_the_cell_says_how_to_make_one(tmp_path):
  hide = 'import importlib.util\nimportlib.util.find_spec = lambda name: None'
  cells = [nbformat.v4.new_code_cell(hide), tagged(read('battery'), 'install')]
  notebook = nbformat.v4.new_notebook(cells=cells)
  with pytest.raises(CellExecutionError, match='Run `pip wheel . --no-deps` in a clone'):
    NotebookClient(notebook, kernel_name='python3').execute(cwd=str(tmp_path))


@pytest.mark.slow
def test_a_folder_without_a_run_is_told(installed, tmp_path):
  with pytest.raises(CellExecutionError, match='nothing is no folder; give the workdir of a run'):
    executed('tradeoff', installed, tmp_path, tmp_path / 'nothing')


def of_digits(folder):
  """The config of untrained networks under two corruptions of digits."""
  changes = {'study.corruptions': ('gaussian_noise', 'brightness'), 'study.severities': (1, 5)}
  return runs.shrunk('corruption_error', 'digits', {**runs.save_networks(folder), **changes})


def of_predictions(folder):
  config = video_pm_k.get_config('predictions')
  config.predictions, config.metadata = str(save_scores(folder)), str(folder / 'sets')
  return config


DRAWN = {
  'corruption_error': (of_digits, ('frost: not shown', 'gaussian clean_error Value(')),
  'fourier_heatmap': (None, ('gaussian clean_error Value(',)),
  'video_pm_k': (of_predictions, ()),
}
"""By notebook, what it draws beside runs of its own (None: the default experiment) and says."""


@pytest.mark.slow
@pytest.mark.parametrize('name', DRAWN)
def test_it_draws_a_finished_run(name, installed, tmp_path, request):
  config, phrases = DRAWN[name]
  workdir = tmp_path / 'run' if config else request.getfixturevalue('finished')
  results = runs.run(config(tmp_path), workdir) if config else None
  if name == 'video_pm_k':
    phrases = [f'one pm-2 {results.value("accuracy_pm_k", "one", k=2)}']
  cells = drawn_run(name, installed, workdir, tmp_path / 'drawn')
  assert len(pictures(cells)) == 1 and '<img' in pages(cells)
  text = printed(cells)
  assert [phrase for phrase in phrases if phrase not in text] == []
  assert 'pm-5' not in text, 'the sets reach two frames'
