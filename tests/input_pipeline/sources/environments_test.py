"""Images in environments: folders and JSON, splits, permitted cells, and what is refused."""

import json
import logging
import pathlib

import numpy as np
import pytest
from PIL import Image

import input_pipeline
from input_pipeline.settings import DataSettings
from input_pipeline.sources import environments
from robustness.core.errors import InputError

STYLES, CLASSES = ('cartoon', 'photo', 'sketch'), ('cat', 'dog', 'pig')
PER_CELL = 4


@pytest.fixture(autouse=True)
def nothing_logged_yet() -> None:
  environments._log_choice.cache_clear()


@pytest.fixture(scope='module')
def styles(tmp_path_factory) -> pathlib.Path:
  """STYLE/CLASS/k.png, whose grey level tells the cell: 60 · style + 10 · class + k."""
  root = tmp_path_factory.mktemp('styles')
  for s, style in enumerate(STYLES):
    for c, name in enumerate(CLASSES):
      (root / style / name).mkdir(parents=True)
      for k in range(PER_CELL):
        level = 60 * s + 10 * c + k
        Image.fromarray(np.full((6, 6, 3), level, np.uint8)).save(root / style / name / f'{k}.png')
  return root


def settings(path: pathlib.Path, **changes: object) -> DataSettings:
  given = {'name': 'photo', 'class_groups': (('cat',), ('dog',)), 'split': 'test', **changes}
  return DataSettings(source='environments', path=str(path), **given)


def cells(data: DataSettings) -> list[tuple[str, str]]:
  """(environment, class) of every row, from the pixels themselves."""
  (batch,) = input_pipeline.load(data).batches(100)
  levels = np.rint(batch['image'][batch['mask'], 0, 0, 0] * 255).astype(int)
  shown = [(STYLES[level // 60], CLASSES[level % 60 // 10]) for level in levels]
  order = ('photo', *(style for style in STYLES if style != 'photo'))
  stated = [
    (order[e], CLASSES[label])
    for e, label in zip(batch['environment'], batch['label'], strict=True)
  ][: len(shown)]
  assert shown == stated
  return shown


def test_the_test_has_every_cell(styles):
  shown = cells(settings(styles))
  assert set(shown) == {(style, name) for style in STYLES for name in CLASSES}
  assert len(shown) == 9  # a quarter of four images in each cell


def test_training_has_the_permitted_cells_alone(styles):
  shown = cells(settings(styles, split='train'))
  permitted = {('photo', name) for name in CLASSES} | {('cartoon', 'cat'), ('sketch', 'dog')}
  assert set(shown) == permitted
  assert len(shown) == 3 * len(permitted)
  assert set(cells(settings(styles, split='clean'))) == {('photo', name) for name in CLASSES}


def test_training_and_test_share_no_image(styles):
  def levels(split: str) -> set[int]:
    data = settings(styles, split=split)
    (batch,) = input_pipeline.load(data).batches(100)
    return set(np.rint(batch['image'][batch['mask'], 0, 0, 0] * 255).astype(int).tolist())

  assert not levels('clean') & levels('test')


def test_json_gives_the_same_rows_as_folders(styles, tmp_path):
  document = {
    style: {name: [str(p) for p in sorted((styles / style / name).iterdir())] for name in CLASSES}
    for style in STYLES
  }
  listed = tmp_path / 'styles.json'
  listed.write_text(json.dumps(document))
  assert cells(settings(listed, split='train')) == cells(settings(styles, split='train'))
  first = {
    style: {name: files[:2] for name, files in own.items()} for style, own in document.items()
  }
  last = {
    style: {name: files[2:] for name, files in own.items()} for style, own in document.items()
  }
  listed.write_text(json.dumps({'train': first, 'test': last}))
  assert len(cells(settings(listed))) == 18


def test_what_is_wrong_is_named(styles, tmp_path):
  with pytest.raises(InputError, match="config.data.name is 'foto'.*photo"):
    input_pipeline.load(settings(styles, name='foto'))
  with pytest.raises(InputError, match='config.data.path'):
    input_pipeline.load(settings(tmp_path / 'none'))
  with pytest.raises(InputError, match='holds no images'):
    input_pipeline.load(settings(tmp_path))
  with pytest.raises(InputError, match="names 'cow'"):
    input_pipeline.load(settings(styles, class_groups=(('cow',),)))
  with pytest.raises(InputError, match='config.data.split'):
    input_pipeline.load(settings(styles, split='validation'))
  listed = tmp_path / 'styles.json'
  for text, message in (
    ('{', 'no JSON'),
    ('{"photo": ["a.png"]}', 'must map classes'),
    ('{"photo": {"cat": "a.png"}}', 'list of paths'),
    ('{"photo": {"cat": ["a.png"]}}', 'do not exist: .*a.png'),
  ):
    listed.write_text(text)
    with pytest.raises(InputError, match=message):
      input_pipeline.load(settings(listed))


def test_an_empty_cell_is_refused_unless_it_is_allowed(styles, tmp_path):
  listed = tmp_path / 'styles.json'
  listed.write_text(
    json.dumps(
      {
        style: {
          name: [str(styles / style / name / f'{k}.png') for k in range(4)] for name in classes
        }
        for style, classes in (('photo', ('cat', 'dog')), ('sketch', ('cat',)))
      }
    )
  )
  with pytest.raises(InputError, match='1 of 4 cells have no images: sketch/dog'):
    input_pipeline.load(settings(listed, class_groups=(('cat',),)))
  rows = input_pipeline.load(settings(listed, class_groups=(('cat',),), allow_missing=True))
  assert rows.num_examples == 3


def test_a_file_that_is_listed_twice_is_refused(styles, tmp_path):
  (tmp_path / 'link.png').symlink_to(styles / 'photo/cat/0.png')
  first, other = (str(styles / 'photo' / 'cat' / f'{k}.png') for k in range(2))
  near = str(styles / 'photo' / '..' / 'photo' / 'cat' / '0.png')
  listed = tmp_path / 'styles.json'
  for document, places in (
    ({'photo': {'cat': [first]}, 'sketch': {'cat': [other, first]}}, 'photo/cat and sketch/cat'),
    ({'photo': {'cat': [first], 'dog': [near]}}, 'photo/cat and photo/dog'),
    ({'photo': {'cat': [first, 'link.png']}}, 'photo/cat and photo/cat'),
    (
      {'train': {'photo': {'cat': [other, first]}}, 'test': {'photo': {'cat': [first]}}},
      'train/photo/cat and test/photo/cat',
    ),
  ):
    listed.write_text(json.dumps(document))
    with pytest.raises(InputError, match=f'lists {first} in {places}: an image'):
      input_pipeline.load(settings(listed))


def test_which_environment_is_clean_is_logged_once(styles, caplog):
  for split in ('test', 'train'):
    with caplog.at_level(logging.INFO):
      rows = input_pipeline.load(settings(styles, name='', split=split))
    assert rows.description['environments'][0] == 'cartoon'
  said = [r.getMessage() for r in caplog.records if 'config.data.name' in r.getMessage()]
  assert said == [
    "clean images, of the environment that all classes are trained in, are those of 'cartoon': "
    "config.data.name chooses another of 'cartoon', 'photo', 'sketch'"
  ]
