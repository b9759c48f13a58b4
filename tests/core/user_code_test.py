"""Tests code of users that is loaded by FILE.py:NAME or package.module:NAME, and its digest."""

import sys

import pytest

from robustness import core
from robustness.core import user_code
from tests.refusals import refused

WHERE = 'config.classifier.augment'


def test_a_file_is_run_again_when_it_changed_or_was_forgotten(tmp_path):
  file = tmp_path / 'mine.py'
  file.write_text('class Invert: ...')
  first = user_code.load(f'{file}:Invert', WHERE)
  assert user_code.load(f'{file}:Invert', WHERE).value is first.value
  user_code.forget()
  assert user_code.load(f'{file}:Invert', WHERE).value is not first.value
  file.write_text('class Invert: ...\n')
  assert user_code.load(f'{file}:Invert', WHERE).digest != first.digest


def test_the_digest_of_a_file_is_also_of_the_files_beside_it_that_it_imports(tmp_path):
  texts = {
    'mine.py': 'def part():\n  import beside, package',
    'beside.py': 'import beside_b',
    'package/__init__.py': 'from . import more',
  }
  (tmp_path / 'package').mkdir()
  for name in (*texts, 'beside_b.py', 'package/more.py', 'other.py'):
    (tmp_path / name).write_text(texts.get(name, ''))

  def digest_after_change_of(name):
    with (tmp_path / name).open('a') as file:
      file.write('\nX = 1')
    user_code._digest_when_imported.cache_clear()  # another process
    return user_code.load(f'{tmp_path}/mine.py:part', WHERE).digest

  first = digest_after_change_of('other.py')
  assert digest_after_change_of('other.py') == first  # it is not imported
  imported = 'beside.py', 'beside_b.py', 'package/__init__.py', 'package/more.py'
  assert len({first, *map(digest_after_change_of, imported)}) == 5


def test_the_digest_of_an_installed_module_is_also_of_its_imports(tmp_path, monkeypatch):
  monkeypatch.syspath_prepend(tmp_path)
  digests = []
  for name, value in (('pack_a', 1), ('pack_b', 2)):
    (tmp_path / name).mkdir()
    for file, text in (('helper', f'X = {value}'), ('parts', 'from .helper import X as part')):
      (tmp_path / name / f'{file}.py').write_text(text)
    digests.append(user_code.load(f'{name}.parts:part', WHERE).digest)
  assert digests[0] != digests[1]


@pytest.mark.parametrize('is_module', [False, True])
def test_the_digest_is_also_of_modules_of_the_outermost_package(tmp_path, monkeypatch, is_module):
  project = tmp_path / f'project_{is_module}'
  texts = {
    'parts/__init__.py': '',
    'parts/mine.py': f'from {project.name}.helper import part',
    '__init__.py': '',
    'helper.py': 'from . import more\npart = 1',
    'more.py': '',
    'other.py': '',
  }
  (project / 'parts').mkdir(parents=True)
  for name, text in texts.items():
    (project / name).write_text(text)
  monkeypatch.syspath_prepend(tmp_path)
  reference = f'{project.name}.parts.mine:part' if is_module else f'{project}/parts/mine.py:part'

  def digest_after_change_of(name):
    (project / name).write_text(texts[name] + '\nX = 1')
    user_code._digest_when_imported.cache_clear()  # another process
    return user_code.load(reference, WHERE).digest

  first = digest_after_change_of('other.py')
  assert first == user_code.load(reference, WHERE).digest
  assert len({first, *map(digest_after_change_of, ('helper.py', 'more.py'))}) == 3


def test_files_that_exit_and_files_named_by_data_are_refused(tmp_path):
  (tmp_path / 'own.py').write_text('import sys\nsys.exit(0)\n')
  refused('own.py:X raised SystemExit: 0', user_code.load, f'{tmp_path}/own.py:X', WHERE)
  (tmp_path / 'own.py').write_text('X = 1\n')
  with user_code.files_refused():
    refused('files of results are not run', user_code.load, f'{tmp_path}/own.py:X', WHERE)
  assert user_code.load(f'{tmp_path}/own.py:X', WHERE).value == 1


def test_a_file_may_import_modules_beside_it(tmp_path, monkeypatch):
  monkeypatch.setattr('sys.path', [*sys.path])
  (tmp_path / 'constants_beside.py').write_text('SIDE = 7\n')
  (tmp_path / 'importing.py').write_text('from constants_beside import SIDE\n')
  assert user_code.load(f'{tmp_path}/importing.py:SIDE', WHERE).value == 7


def test_a_module_beside_a_file_is_not_taken_from_another_folder(tmp_path, monkeypatch):
  monkeypatch.setattr(sys, 'path', [*sys.path])
  for folder in ('first', 'second'):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / 'beside_both.py').write_text(f'FOLDER = {folder!r}')
    (tmp_path / folder / 'net.py').write_text(
      'def net():\n  from beside_both import FOLDER\n  return FOLDER'
    )
  first, second = (f'{tmp_path}/{folder}/net.py:net' for folder in ('first', 'second'))
  assert user_code.load(first, WHERE).value() == 'first'
  refused('second/net.py imports beside_both, which is .*first', user_code.load, second, WHERE)
  sys.modules.pop('beside_both')


def test_a_file_in_a_clone_may_use_the_installed_packages(tmp_path, monkeypatch):
  monkeypatch.setattr(sys, 'path', [*sys.path])
  (tmp_path / 'robustness').mkdir()
  (tmp_path / 'robustness' / '__init__.py').touch()
  (tmp_path / 'net.py').write_text('import robustness.core\n\nnet = robustness.core')
  assert user_code.load(f'{tmp_path}/net.py:net', WHERE).value is core
