"""Tests the study `systematic`: its views, the cells seen in training, and numbers by hand."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from robustness.building.builder import ClassifierBuilder
from robustness.config import experiment as experiments
from robustness.core import random_keys
from robustness.core.rows import ArrayRows, Rows
from robustness.corruptions import corrupt
from robustness.environments.class_groups import groups_by_name, with_groups
from robustness.estimates.table import assemble, select
from robustness.evaluation.study import Evaluation
from robustness.present import methods, selection
from robustness.results import Results
from robustness.studies.systematic import Systematic
from tests.cases import cases
from tests.end_to_end import runs
from tests.made_records import made
from tests.refusals import bad_setting, refused
from tests.studies import conftest
from tests.table_rows import estimate

NAMES = ('a', 'b', 'c')
STUDY = Systematic(
  environments=('rotation', 'contrast'), severities=(2, 5), angles=(90, 180), samples=100
)
"""Five views: clean, two of rotation and two of contrast."""
GROUPS = groups_by_name((('a',), ('b',)), NAMES)
"""Class groups C1 (a) and C2 (b); c is left over."""


def rows(count: int = 12, grouped: bool = True) -> Rows:
  """Returns images of noise [count, 8, 8, 3] with the labels 0, 1, 2, 0, …."""
  images = np.random.default_rng(0).random((count, 8, 8, 3), np.float32)
  array_rows = ArrayRows(images, np.arange(count) % 3, NAMES)
  return with_groups(array_rows, GROUPS) if grouped else array_rows


def test_views_are_the_environments_at_every_level():
  ids, image = STUDY.views((8, 8, 3)).ids, rows().rows.images[0]
  stream = random_keys.stream(0, 'systematic')
  corrupted = [
    corrupt(random_keys.for_example(stream, 3, ids[view]), image, 'contrast', severity)
    for view, severity in ((3, 2), (4, 5))
  ]
  for view, expected in enumerate([image, np.rot90(image), np.rot90(image, 2), *corrupted]):
    np.testing.assert_allclose(conftest.show_image(STUDY, image, view), expected, atol=1e-6)
  assert len(set(ids.tolist())) == 5


def test_stored_images_that_are_corrupted_already_are_refused():
  views = STUDY.views((8, 8, 3))
  row = {'image': rows().rows.images[0], 'corruption': 1}
  refused('stored corrupted ones', views.show, None, row, {'environment': 0, 'level': 0})


def records(directory, rank, augment, data=None, environment=None, **classifier) -> Evaluation:
  """Writes records of ranks [images, views] of a classifier trained with the recipe `augment`."""
  label = np.arange(len(rank)) % 3
  ids, groups = np.arange(len(rank)), GROUPS.of_label[label]
  columns = {'label': label, 'example_id': ids, 'class_group': groups}
  if environment is not None:
    columns['environment'] = environment
  facts = {'augment': augment, **classifier}
  data, columns = dict(data or rows().description), {'rank': rank, **columns}
  return made(directory, columns, classifier=facts, data=data, classes=[*NAMES, 'none'])


def table_of(study: Systematic, *evaluations: Evaluation) -> pd.DataFrame:
  return conftest.table_of(study, evaluations, (8, 8, 3))


PARTS = ('rho', 'seen', 'unseen')
RIGHT = np.zeros((12, 5), int)
"""Ranks of a classifier that is right in every view of every image."""
RECIPE = [{'name': 'environment', 'transforms': ['rotation', 'contrast']}]


def test_numbers_by_hand(tmp_path):
  """All answers are right when clean. Of the 4 images of class a, all are right when rotated and 2
  with contrast; class b is right with contrast of severity 2, class c in no other view."""
  wrong = np.ones((12, 5), int)
  wrong[:, 0] = 0
  wrong[0::3, 1:3] = 0
  wrong[1::3, 3] = 0
  wrong[0:6:3, 3:5] = 0
  table = table_of(STUDY, records(tmp_path / 'net', wrong, RECIPE))

  def value(quantity: str, **facets: object) -> float:
    return estimate(table, 'net', quantity, **facets).value

  assert value('clean_accuracy') == 1 and 'unseen_gain' not in set(table['quantity'])
  assert [value(name, environment='rotation') for name in PARTS] == [0, 1, 0]
  assert [value(name, environment='contrast') for name in PARTS] == pytest.approx([0.5, 0.5, 0.25])
  assert (value('rho'), value('seen')) == pytest.approx((0.25, 0.75))
  grid = select(table, 'accuracy', class_group=..., environment=...)
  np.testing.assert_allclose(grid.value, [1, 0, 0, 1, 1, 0.5, 1, 0, 0.5])
  assert grid.class_group.tolist() == [name for name in ('left over', 'C1', 'C2') for _ in range(3)]
  assert grid.environment.tolist() == ['clean', 'rotation', 'contrast'] * 3
  seen = [True, False, False, True, True, False, True, False, True]
  assert (grid.note == 'seen in training').tolist() == seen
  by_class = select(table, 'accuracy', environment=..., **{'class': ...})
  np.testing.assert_allclose(by_class.value, [1, 1, 0.5, 1, 0, 0.5, 1, 0, 0])
  assert set(by_class.n) == {4}
  for severity, expected in ((2, [1, 0.25]), (5, [0, 0.25])):
    parts = [value(name, environment='contrast', severity=severity) for name in PARTS[1:]]
    assert parts == pytest.approx(expected)
  means = [value('mean_rho', environment=name) for name in ('rotation', 'contrast')]
  assert means == pytest.approx([0, 0.25]), 'at severity 5 none of the seen are right'
  assert value('mean_rho') == pytest.approx((0 + 0 + 0.25) / 3)
  note = estimate(table, 'net', 'mean_rho').note
  assert note.startswith('degenerate in 1 of 4 levels; mean over 3 of them')
  paper = Systematic(**{**vars(STUDY), 'degenerate': 'one'})
  table = table_of(paper, records(tmp_path / 'paper' / 'net', wrong, RECIPE))
  assert value('mean_rho') == pytest.approx((0 + 0 + 0.25 + 1) / 4)


def test_settings_are_shown_in_words():
  assert Systematic(degenerate='one').shown_as['rho'].endswith('degenerate terms as 1')
  assert Systematic(environments=('snow', 'fog')).shown_as['angles'] == 'no rotation'
  assert Systematic(environments=('rotation',)).shown_as['severities'] == 'no corruption'
  assert Systematic(source='stored').shown_as['environments'] == 'as stored'


def test_rho_of_networks_at_chance_has_a_note_and_is_no_headline(tmp_path):
  at_chance = np.tile(np.arange(12)[:, None] // 3 % 3, 5)  # 2 of 4 images of a class are wrong
  able = np.zeros((12, 5), int)
  able[2::3] = 1  # class c is wrong, which no environment was trained on
  table = table_of(
    STUDY, records(tmp_path / 'chance', at_chance, RECIPE), records(tmp_path / 'able', able, RECIPE)
  )
  notes = {label: estimate(table, label, 'rho').note for label in ('chance', 'able')}
  assert 'says little: seen classes are not above chance, 1/4' in notes['chance']
  assert 'says little' not in notes['able']
  headlines = selection.without_uninformative(table)
  assert [*headlines[headlines['quantity'] == 'rho'].classifier.unique()] == ['able']
  assert {*headlines[headlines['quantity'] == 'seen'].classifier} == {'chance', 'able'}


def test_a_baseline_is_subtracted(tmp_path):
  wrong, wrong_baseline = np.zeros((12, 5), int), np.zeros((12, 5), int)
  wrong[2::3, 1:] = 1
  wrong_baseline[1:, 1:] = 1  # right on the first image only, of class a
  study = Systematic(**{**vars(STUDY), 'baseline': 'clean'})
  network = records(tmp_path / 'net', wrong, RECIPE)
  table = table_of(study, records(tmp_path / 'clean', wrong_baseline, []), network)

  def row_of(quantity: str, **facets: object) -> Any:
    return estimate(table, 'net', quantity, **facets)

  assert row_of('baseline', environment='rotation').value == pytest.approx(1 / 12)
  assert row_of('rho', environment='rotation').value == pytest.approx((0.5 - 1 / 12) / (1 - 1 / 12))
  assert set(table[table['quantity'] == 'rho'].classifier) == {'net'}
  # Rotation does not hold out class a: the baseline is right on none of its 8 unseen images.
  gains = [row_of('unseen_gain', environment=name) for name in ('rotation', 'contrast')]
  assert [gain.value for gain in gains] == pytest.approx([0.5, 0.5 - 1 / 8])
  assert row_of('unseen_gain').value == pytest.approx(0.5 - 1 / 16)
  assert gains[0].low <= gains[0].value <= gains[0].high
  assert gains[0].n == 8, 'images of the two unseen classes'
  assert set(table.method) <= {*methods.METHODS, ''}, 'the paragraph of methods has words for them'
  absent = Systematic(**{**vars(STUDY), 'baseline': 'other'})
  refused(bad_setting('config.study.baseline', 'other', "'', 'net'"), table_of, absent, network)


def test_each_level_has_an_interval_that_contains_its_value(tmp_path):
  rank = np.random.default_rng(0).integers(0, 2, (12, 5))
  table = table_of(STUDY, records(tmp_path / 'net', rank, RECIPE))
  for quantity in PARTS:
    for facet, expected in (('angle', [90, 180]), ('severity', [2, 5])):
      levels = select(table, quantity, environment=..., **{facet: ...})
      assert levels[facet].tolist() == expected
      defined = levels.dropna(subset=['value'])
      assert ((defined.low <= defined.value) & (defined.value <= defined.high)).all()


def test_the_configs_subtract_the_network_trained_without_environments():
  for variant in ('digits', 'methods', 'cifar10', 'cifar10_finetuned', 'imagenet'):
    assert runs.shrunk('systematic_corruptions', variant).study.baseline == 'clean'
  assert runs.shrunk('systematic_rotation', 'digits').study.baseline == 'upright'


@cases('variant', 'corruptions:cifar10', 'rotation:imagenet', 'renditions:folder')
def test_every_variant_can_add_the_methods(variant):
  name, base_variant = variant.split(':')
  config = runs.shrunk(f'systematic_{name}', f'{base_variant}+methods')
  without = runs.shrunk(f'systematic_{name}', base_variant)
  methods = ['balanced', 'group_dro', 'irm', 'coral', 'mixup']
  assert [*config.classifiers] == [*without.classifiers, *methods]
  parsed = experiments.from_config(config.to_dict()).classifiers
  group_dro, irm, coral = (parsed[name].objective for name in ('group_dro', 'irm', 'coral'))
  num_environments = 1 + config.data.random_class_groups  # clean, and one for each class group
  assert group_dro.groups == irm.environments == coral.environments == num_environments
  assert config.classifiers.erm.to_dict() == without.classifiers.erm.to_dict()
  with pytest.raises(ValueError, match="no variant 'method'"):
    runs.shrunk(f'systematic_{name}', f'{base_variant}+method')


OTHER_GROUPS = {'C1': ['a'], 'C2': ['c'], 'left over': ['b']}
"""Groups that differ from `GROUPS` in C2."""
SAME_GROUPS = {'C1': ['a'], 'C2': ['b'], 'left over': ['c', 'class without images']}


def test_class_groups_and_environments_of_another_training_are_refused(tmp_path):
  refused('class_groups', STUDY.check, rows(grouped=False), {})
  single = Systematic(environments=('contrast',))
  refused('2 class groups for 1 environments', single.check, rows(), {})
  trained = {'augment': RECIPE, 'class_groups': OTHER_GROUPS}
  message = r"net .* class 'c' in the class group 'C2'.* 'left over'"
  refused(message, STUDY.check, rows(), {'net': trained})
  STUDY.check(rows(), {'net': {**trained, 'class_groups': SAME_GROUPS}})
  STUDY.check(rows(), {'clean': {**trained, 'augment': []}, 'weights': {}})
  network = records(tmp_path / 'net', RIGHT, RECIPE, class_groups=OTHER_GROUPS)
  refused("'C2'", STUDY.reduce, [network], (8, 8, 3))
  reordered = {'augment': [{'name': 'environment', 'transforms': ['contrast', 'rotation']}]}
  message = 'net is trained on the environments contrast, rotation, .* in the same order. Set both'
  refused(message, STUDY.check, rows(), {'net': reordered})


def test_leaks_and_other_class_groups_are_refused_before_a_training_begins(tmp_path):
  config = runs.shrunk('systematic_corruptions', 'digits', {'study.samples': 100})
  config.classifiers.erm.data.class_group_seed = 1
  refused('erm is trained with the class .* class_group_seed', runs.run, config, tmp_path / 'other')
  assert not (tmp_path / 'other' / 'checkpoints').exists()
  assert not (tmp_path / 'other' / 'figures').exists()
  config = runs.shrunk('systematic_corruptions', 'digits')
  config.classifiers.erm.augment.policy = ('gaussian', 'environment')
  refused("'gaussian'.*'gaussian_noise'.*allow_leaks", runs.run, config, tmp_path)
  config.classifiers.erm.augment.policy = ('crop', 'environment')
  config.classifiers.erm.input_filter.name = 'low_pass'
  refused("'low_pass'.*'gaussian_blur'", runs.run, config, tmp_path)


PRETRAINED = {
  'initial_weights': 'timm:some',
  'initial_weights_trained_with': ['rand_augment'],
  'initial_weights_resemble': ['contrast', 'brightness'],
}
"""Facts on a training that began from weights whose augmentation resembles two corruptions."""


def notes_on_weights(study: Systematic, *evaluations: Evaluation) -> dict[str, Any]:
  """Returns the notes of rho by environment, '' for all, and under 'rows' the table of weights."""
  findings = study.reduce(evaluations, (8, 8, 3))
  table = assemble(findings.estimates)
  rho = select(table, 'rho', environment=...)
  notes = dict(zip(rho.environment, rho.note, strict=True))
  rows = findings.tables['initial_weights'].rows
  return {'': estimate(table, 'net', 'rho').note, **notes, 'rows': rows}


def test_weights_that_may_have_seen_an_environment_are_noted_with_the_compensation(tmp_path):
  network = records(tmp_path / 'net', RIGHT, RECIPE, **PRETRAINED)
  notes = notes_on_weights(STUDY, network)
  assert notes['rotation'] == ''
  for name in ('', 'contrast'):
    assert 'timm:some may have seen it, which nothing compensates' in notes[name]
  assert notes['rows'] == [['net', 'timm:some', 'rand_augment', 'contrast', 'nothing']]
  undescribed = {'initial_weights': 'start.npz'}
  network_of_file = records(tmp_path / 'file' / 'net', RIGHT, RECIPE, **undescribed)
  notes = notes_on_weights(STUDY, network_of_file)
  assert 'start.npz' in notes['rotation']
  assert notes['rows'][0][2:4] == ['not known', 'rotation, contrast']
  cropped = {**PRETRAINED, 'initial_weights_trained_with': [], 'initial_weights_resemble': []}
  notes = notes_on_weights(STUDY, records(tmp_path / 'plain' / 'net', RIGHT, RECIPE, **cropped))
  assert notes[''] == '' and notes['rows'][0][2:4] == ['flips and crops', 'none']
  study = Systematic(**{**vars(STUDY), 'baseline': 'clean'})
  wrong = np.ones((12, 5), int)
  notes = notes_on_weights(study, records(tmp_path / 'clean', wrong, [], **PRETRAINED), network)
  assert notes['contrast'].endswith('timm:some may have seen it; clean compensates')
  assert notes['rows'][1][-1] == 'clean' and notes['rows'][0][-1] == 'nothing'
  pretrained = records(tmp_path / 'pretrained' / 'clean', wrong, [], weights='timm:some')
  assert notes_on_weights(study, pretrained, network)[''].endswith('clean compensates')
  from_scratch = records(tmp_path / 'scratch' / 'clean', wrong, [])
  assert notes_on_weights(study, from_scratch, network)[''].endswith(
    'the baseline clean began with others'
  )


def test_leaks_that_were_allowed_are_noted(tmp_path):
  leaking = [{**RECIPE[0], 'allow_leaks': True}]
  rho = select(table_of(STUDY, records(tmp_path / 'net', RIGHT, leaking)), 'rho', environment=...)
  assert len(rho) == 2 and rho.note.str.contains('leaks were allowed').all()


@pytest.mark.parametrize('recipe', [[], [{'name': 'environment', 'transforms': ['contrast']}]])
def test_a_classifier_that_saw_none_of_the_cells_has_no_rho(tmp_path, recipe):
  table = table_of(STUDY, records(tmp_path / 'net', np.zeros((12, 5), int), recipe))
  assert set(table['quantity']) == {'clean_accuracy', 'accuracy'}
  assert (table.note == '').all()


def test_the_grid_of_cells_is_drawn_before_a_training_begins(caplog):
  recipe = {'training_split': 'train', 'augment': RECIPE}
  preview = STUDY.preview(rows(), {'plain': {'augment': []}, 'net': recipe, 'weights': {}})
  [(title, table)] = preview.tables.items()
  assert title == 'cells of the classes in training, of net'
  assert list(table.columns) == ['class group', 'clean', 'rotation', 'contrast']
  assert [list(row) for row in table.rows] == [
    ['left over: c', 'seen', 'held out', 'held out'],
    ['C1: a', 'seen', 'seen', 'held out'],
    ['C2: b', 'seen', 'held out', 'seen'],
  ]
  [figure] = preview.figures.values()
  assert sum(text.get_text() == 'held out' for text in figure.axes[0].texts) == 4
  styles = ['photo', 'cartoon', 'sketch']
  stored = SimpleNamespace(description={**rows().description, 'environments': styles})
  plan = {'training_split': 'train', 'training_environments': styles}
  reordered = {**plan, 'training_environments': ['photo', 'sketch', 'cartoon']}
  without_environments = {'training_split': 'train'}
  recipes = {'net': plan, 'other': reordered, 'elsewhere': without_environments}
  [(title, table)] = Systematic(source='stored').preview(stored, recipes).tables.items()
  assert title.endswith('of net') and table.columns[1] == 'clean (photo)'
  message = "source is 'stored', but the rows have no column environment"
  refused(message, Systematic(source='stored').preview, rows(), {'net': recipe})
  empty = STUDY.preview(rows(), {'plain': {'augment': []}})
  assert not empty.tables and not empty.figures
  assert 'no ρ' in caplog.text


PICTURES = {
  *('cells', 'accuracy_environment_class_group', 'accuracy_against_clean_accuracy'),
  *('rho_environment', 'unseen_gain_environment', 'seen_environment', 'unseen_environment'),
}


@pytest.mark.slow
def test_the_config_of_digits_runs_end_to_end_with_all_methods(tmp_path, monkeypatch):
  config, train = runs.two_environments('methods'), ClassifierBuilder.train
  figures_before = []
  del config.classifiers.group_dro  # tested with its objective
  for name in ('irm', 'coral'):
    config.classifiers[name].objective[name].environments = 3

  def train_after_listing_figures(*arguments):
    figures_before.append({path.stem for path in (tmp_path / 'figures').glob('*.png')})
    return train(*arguments)

  monkeypatch.setattr(ClassifierBuilder, 'train', train_after_listing_figures)
  results = runs.run(config, tmp_path)
  assert figures_before == [{'cells'}] * 7
  runs.assert_pictures('systematic_corruptions', tmp_path)
  assert {path.stem for path in (tmp_path / 'figures').glob('*.png')} > PICTURES
  estimate(results.table, 'clean', 'clean_accuracy')
  estimate(results.table, 'erm', 'unseen', environment='contrast')
  read = Results.read(tmp_path)
  grid = select(read.table, 'accuracy', environment=..., class_group=...)
  erm_cells = grid[grid.classifier == 'erm']
  groups = {title for title, names in read.data['class_groups'].items() if names}
  assert set(erm_cells.class_group) == groups and len(erm_cells) == 3 * len(groups)
  assert (erm_cells.n > 0).all()
  assert read.classifiers[1]['class_groups'] == read.data['class_groups']
  labels = ('erm', 'balanced', 'irm', 'coral', 'mixup', 'augmix')
  assert {*labels} <= {*select(results.table, 'rho').classifier}
  lines = [json.loads(line) for line in (tmp_path / 'log.jsonl').read_text().splitlines()]
  last = {line['classifier']: line for line in lines if 'train/loss' in line}
  names = ('clean', 'gaussian_noise', 'contrast')
  assert sum(last['irm'][f'train/share_{name}'] for name in names) == pytest.approx(1)
  assert last['irm']['train/penalty_weight'] == 1
  assert last['coral']['train/feature_distance'] > 0
  for name in names:
    # A batch of 16 has four whole blocks of the 3 environments, and parts of two more.
    assert 4 <= 16 * last['balanced'][f'train/share_{name}'] <= 6
  assert 'train/share_clean' not in last['clean']


def test_figures_from_results_take_environments_and_groups_of_any_name(tmp_path):
  styles, groups = ['photo', 'my_own style', 'x'], {'$g_{': ['a'], 'C2': ['b'], 'left over': ['c']}
  data = {**rows().description, 'class_groups': groups, 'environments': styles}
  environment = np.arange(36, dtype=np.int32) // 12
  evaluations = []
  for seed, (label, split) in enumerate({'clean': 'clean', 'net': 'train'}.items()):
    rank = np.random.default_rng(seed).integers(0, 2, (36, 1))
    training = {'training_split': split, 'training_environments': styles}
    evaluations.append(records(tmp_path / label, rank, [], data, environment, **training))
  study = Systematic(source='stored', baseline='clean', samples=100)
  view_table = study.by_image(evaluations[0].records, (8, 8, 3))[1]
  expected = [styles[k] if k else 'clean (photo)' for k in environment]
  assert view_table.groups == {'as stored': [0]} and view_table.rows == expected
  described = [{'label': 'clean'}, {'label': 'net'}]
  findings = study.reduce(evaluations, (8, 8, 3))
  table = assemble(findings.estimates)
  assert estimate(table, 'net', 'accuracy', environment='my_own style').n == 12
  results = Results('systematic', described, data, {}, table=table, quantities=study.quantities)
  results.write(tmp_path)
  figures = study.figures(Results.read(tmp_path))
  assert figures.keys() >= PICTURES
  for figure, caption in figures.values():
    figure.canvas.draw()
    assert caption.endswith('.')
  caption = figures['accuracy_environment_class_group'][1]
  assert caption.endswith(' Class groups: left over: c; $g_{: a; C2: b.')
  results.data = {**data, 'class_groups': {**groups, 'C2': [f'class {k}' for k in range(9)]}}
  caption = study.figures(results)['cells'][1]
  assert caption.endswith("or held out; the table 'which numbers these are' lists the classes.")
  axes = figures['cells'][0].axes[0]
  expected = 'seen, held out, held out, seen, seen, held out, seen, held out, seen'
  assert ', '.join(text.get_text() for text in axes.texts) == expected
  labels = [label.get_text() for label in axes.get_yticklabels()]
  assert labels == ['left over: c', '$g_{: a', 'C2: b']


def test_the_words_of_a_gain_name_the_baseline():
  for study, baseline in ((Systematic(baseline='clean'), 'clean'), (Systematic(), 'the baseline')):
    words = {quantity.name: quantity.words for quantity in study.quantities}
    assert words['unseen_gain'] == f'gain in accuracy over {baseline} on unseen classes'
    assert words['baseline'] == f'accuracy of {baseline}'
