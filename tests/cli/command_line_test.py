"""`command_line.read` returns the config that the flags choose and change, or names the bad flag.

`end_to_end/bad_input_test.py` runs main.py itself.
"""

import json

from flax import traverse_util

from robustness.cli import command_line
from robustness.config import experiment
from robustness.core.settings import without_inherited
from robustness.evaluation.study import default_section
from tests.cases import cases
from tests.refusals import bad_setting, refused

HEAT_MAP = '--config=configs/fourier_heatmap.py'


def read(*arguments):
  """Returns the config; all flags for it must have been used."""
  config, unread = command_line.read(['main.py', *arguments])
  assert not [word for word in unread if 'config.' in word.partition('=')[0]]
  return config


@cases(
  'arguments, key, value',
  ([HEAT_MAP, '--config.study.norm=4'], 'study.norm', 4.0),
  (['--config', 'configs/accuracy.py', '--config.seed=1'], 'seed', 1),
  (['--config.seed=1', '--config=configs/accuracy.py'], 'seed', 1),
  ([HEAT_MAP, '--noconfig.study.clip'], 'study.clip', False),
  ([HEAT_MAP, '--config.study.clip'], 'study.clip', True),
  ([HEAT_MAP, '--config.study.clip=false'], 'study.clip', False),
  ([f'{HEAT_MAP}:cifar10', '--config.classifier.name=a=b'], 'classifier.name', 'a=b'),
  ([HEAT_MAP, "--config.study.layers=('stages','logits')"], 'study.layers', ('stages', 'logits')),
  ([HEAT_MAP, '--config.study.layers=["stages"]'], 'study.layers', ('stages',)),
  ([HEAT_MAP, '--config.study.layers=stages'], 'study.layers', ('stages',)),
  ([HEAT_MAP, '--config.study.layers=a/b, c.py:d'], 'study.layers', ('a/b', 'c.py:d')),
  ([HEAT_MAP, '--config.study.layers='], 'study.layers', ()),
  ([HEAT_MAP, '--config.seeds='], 'seeds', ()),
  ([HEAT_MAP, '--config.seeds=0,1'], 'seeds', (0, 1)),
  ([HEAT_MAP, '--config.seeds=()'], 'seeds', ()),
  ([HEAT_MAP, '--config.classifiers.natural.seed=3'], 'classifiers.natural.seed', 3),
  ([HEAT_MAP, '--config.seed=1', '--config.seed=2'], 'seed', 2),
)
def test_values_are_set_with_the_type_that_the_key_has(arguments, key, value):
  config = read(*arguments)
  for name in key.split('.'):
    config = config[name]
  assert config == value and type(config) is type(value)


def test_a_packaged_config_is_found_by_its_name_and_other_arguments_are_returned():
  assert read('--config=fourier_heatmap:cifar10') == read(f'{HEAT_MAP}:cifar10')
  arguments = ['main.py', '--workdir=/tmp/x']
  assert command_line.read(arguments) == (None, arguments)
  config, unread = command_line.read(['main.py', HEAT_MAP, '--config.seed=5', '--workdir', 'x'])
  assert config is not None and config.seed == 5
  assert unread == ['main.py', HEAT_MAP, '--workdir', 'x']


MINE = ('--config.classifiers.mine.name=mine.py:network',)
"""Adds a classifier with the label mine."""


@cases(
  'file, changes, labels',
  (HEAT_MAP, MINE, ('natural', 'gaussian', 'mine')),
  (HEAT_MAP, (*MINE, '--config.classifiers=mine,natural'), ('mine', 'natural')),
  (HEAT_MAP, ("--config.classifiers=('gaussian',)",), ('gaussian',)),
  (f'{HEAT_MAP}:cifar10', MINE, ('resnet20', 'mine')),
  (f'{HEAT_MAP}:cifar10', ('--config.classifiers=mine', *MINE), ('mine',)),
)
def test_classifiers_are_added_and_left_out(file, changes, labels):
  config = read(file, *changes, '--config.seed=5')
  assert tuple(config.classifiers) == labels and 'classifier' not in config and config.seed == 5
  for label, section in config.classifiers.items():
    name = {'mine': 'mine.py:network', 'resnet20': 'resnet20'}.get(label, 'small_cnn')
    assert section.name == name and list(section) == list(config.classifiers[labels[0]])


def test_a_classifier_of_a_library_has_a_valid_label_when_another_is_added(tmp_path):
  file = tmp_path / 'timm.json'
  for name, label in (('timm:net.a1', 'net_a1'), ('hf:google/vit-base', 'vit-base')):
    file.write_text(json.dumps({'study': {'name': 'accuracy'}, 'classifier': {'name': name}}))
    config = read(f'--config={file}', '--config.classifiers.mine.name=small_cnn')
    assert config.classifiers[label].name == name and list(config.classifiers) == [label, 'mine']


@cases('label', 'res-net', 'res net', '18_layers', 'class')
def test_labels_need_not_be_words_of_python(label):
  section = f'--config.classifiers.{label}'
  config = read(HEAT_MAP, f'{section}.name=resnet20', f'{section}.seed=3', f'{section}.seed=4')
  assert (config.classifiers[label].name, config.classifiers[label].seed) == ('resnet20', 4)
  expected = bad_setting(f'config.classifiers.{label}.seed', 'x', 'an int')
  refused(expected, read, HEAT_MAP, f'{section}.name=resnet20', f'{section}.seed=x')


SPECTRUM = '--config=configs/corruption_spectrum.py'


@cases(
  'file, changes, settings',
  (HEAT_MAP, ('name=accuracy',), {'name': 'accuracy', 'top_k': 5, 'confidence': 0.95}),
  (HEAT_MAP, ('top_k=1', 'name=accuracy'), {'name': 'accuracy', 'top_k': 1, 'confidence': 0.95}),
  (HEAT_MAP, ('name=accuracy', 'name=tradeoff'), {'name': 'tradeoff'}),
  (SPECTRUM, ('name=accuracy',), {'name': 'accuracy', 'top_k': 5, 'confidence': 0.95}),
  (f'{HEAT_MAP}:cifar10', ('name=fourier_heatmap', 'norm=5'), {'norm': 5.0}),
  ('--config=video_pm_k:predictions', ('name=calibration',), {'bins': 15}),
)
def test_another_study_has_its_settings_at_their_defaults(file, changes, settings):
  before, config = read(file), read(file, *(f'--config.study.{change}' for change in changes))
  assert settings.items() <= config.study.to_dict().items()
  if config.study.name != before.study.name:
    assert list(config.study) == list(default_section(config.study.name))
  for key in {*before} & {*config} - {'study'}:
    assert config[key] == before[key]
  if 'predictions' not in config:
    experiment.from_config(config.to_dict())


ATTACKS = '--config=configs/attack_error.py'


@cases(
  'changes, attacks, settings',
  ((), 'pgd fgsm', {'pgd.steps': 10}),
  (('attack.fab.targets=3', 'attacks=pgd,fab'), 'pgd fab', {'fab.targets': 3, 'fab.steps': 10}),
  (
    ('attacks=pgd,long=pgd', 'attack.long.steps=50'),
    'pgd long',
    {'pgd.steps': 10, 'long.steps': 50},
  ),
)
def test_a_study_has_the_sections_of_the_attacks_that_it_shows(changes, attacks, settings):
  config = read(ATTACKS, *(f'--config.study.{change}' for change in changes))
  assert ' '.join(config.study.attack) == attacks
  flat = traverse_util.flatten_dict(config.study.attack.to_dict(), sep='.')
  assert settings.items() <= flat.items()
  experiment.from_config(config.to_dict())


def test_a_key_of_an_earlier_version_is_refused_with_its_new_name(tmp_path):
  file = tmp_path / 'config.json'
  file.write_text(json.dumps({'study': {'name': 'attack_error', 'steps': 3}}))
  message = bad_setting('config.study.steps', words='now config.study.attack.ATTACK.steps')
  refused(message, read, ATTACKS, '--config.study.steps=3')
  refused(message, read, f'--config={file}')
  task = 'config.battery.attack.study'
  message = bad_setting(f'{task}.steps', '3', f'now {task}.attack.ATTACK.steps')
  refused(message, read, '--config=configs/battery.py', f'--{task}.steps=3')


def test_the_study_of_one_task_of_a_battery_is_replaced():
  change = '--config.battery.clean.study.'
  battery = read('--config=battery', f'{change}norm=3', f'{change}name=fourier_heatmap').battery
  assert battery.clean.study.to_dict() == {**default_section('fourier_heatmap'), 'norm': 3.0}
  assert battery.heat_map == read('--config=battery').battery.heat_map
  message = r"battery\.clean\.study\.name names 'acuracy'; did you mean 'accuracy'"
  refused(message, read, '--config=battery', f'{change}name=acuracy')


@cases(
  'arguments, message',
  (
    [HEAT_MAP, '--config.study.norm=4', '--config.study.name=accuracy'],
    r"valid: 'confidence', 'na",
  ),
  ([HEAT_MAP, '--config.study.name='], r"config\.study\.name names ''; valid: 'accuracy'"),
  (['--config=battery', '--config.study.name=accuracy'], r'unknown key config\.study: '),
  ([HEAT_MAP, '--config.study.nrm=4'], r"unknown key config\.study\.nrm: did you mean 'norm'"),
  ([HEAT_MAP, '--noconfig.study.clop'], r"config\.study\.clop: did you mean 'clip'"),
  (
    [HEAT_MAP, '--config.classifier.name=x'],
    'has the classifiers natural, gaussian, and no .* theirs by --config.classifiers.natural.name=',
  ),
  ([HEAT_MAP, '--config.classifiers.mine.seed=1'], r'unknown key config\.classifiers\.mine: .*nat'),
  ([HEAT_MAP, '--config.classifiers=natral'], r"classifiers is 'natral'; did you mean 'natural'"),
  ([HEAT_MAP, '--config.classifiers='], "--config.classifiers is ''; it must be labels"),
  (['--config=configs/corruption_spectrum.py', '--config.classifiers.a.name=x'], 'unknown key'),
  (['--config=configs/accuracy.py', '--config.study.top_k.x=1'], 'single value'),
  (['--config=configs/none.py'], r'config file configs/none\.py does not exist'),
  ([HEAT_MAP, '--config.study.norm=much'], bad_setting('config.study.norm', 'much')),
  ([HEAT_MAP, '--config.seed=1.5'], bad_setting('config.seed', '1.5')),
  ([HEAT_MAP, '--config.study.clip=maybe'], bad_setting('config.study.clip', 'maybe')),
  ([HEAT_MAP, '--config.study.layers=a b'], bad_setting('config.study.layers', 'a b')),
  ([HEAT_MAP, '--config.seed'], r'--config\.seed has no value: give --config\.seed=VALUE'),
  ([HEAT_MAP, '--config.study.norm', '5'], r'give --config\.study\.norm=VALUE'),
  ([HEAT_MAP, '--noconfig.seed'], r'--noconfig\.seed has no value: give --config\.seed=VALUE'),
  ([HEAT_MAP, "--config.study.layers=('a','')"], bad_setting('config.study.layers', ('a', ''))),
  ([HEAT_MAP, '--config.study=x'], r'config\.study=x: that is a section; its keys: name, '),
  (
    [ATTACKS, '--config.study.attack.fab.steps=3'],
    "unknown key config.study.attack.fab: .*valid: 'fgsm', 'pgd'",
  ),
)
def test_a_setting_that_cannot_be_set_is_refused_by_name(arguments, message):
  refused(message, read, *arguments)


def test_a_setting_of_a_users_part_without_a_type_is_refused(tmp_path):
  text = """
import dataclasses
from robustness.studies.accuracy import Accuracy

@dataclasses.dataclass(frozen=True)
class Own(Accuracy):
  share: float | None = None
"""
  (tmp_path / 'own.py').write_text(text)
  name = f'--config.study.name={tmp_path}/own.py:Own'
  refused('config.study.share is None', read, HEAT_MAP, name, '--config.study.share=.5')


PAIR = f'{HEAT_MAP}:cifar10_pair'


@cases('file', HEAT_MAP, PAIR, '--config=configs/corruption_spectrum.py', '--config=fourier_table')
def test_a_config_printed_as_json_is_the_same_config(file, tmp_path):
  printed = tmp_path / 'config.json'
  config = read(file, '--config.seed=7')
  printed.write_text(json.dumps(config.to_dict()))
  assert read(f'--config={printed}').to_dict() == config.to_dict()
  printed.write_text(json.dumps(without_inherited(config.to_dict())))  # as a workdir has it
  again = read(f'--config={printed}', '--config.seed=8').to_dict()
  assert again == {**config.to_dict(), 'seed': 8} and list(again) == list(config.to_dict())


@cases(
  'text, message',
  ('{"study": {"name": "accuracy"', 'truncated or no JSON'),
  ('[1]', 'holds a list; expected an object'),
  ('{"battery": {"plain": {}}}', r'has no config\.battery\.plain\.study\.name'),
  ('{"study": 5}', r'has no config\.study\.name'),
  ('{"study": {"name": "accuracy"}, "classifiers": [5]}', bad_setting('config.classifiers', [5])),
  ('{"study": {"name": "accuracy"}, "classifiers": {"a.b": {}}}', "names 'a.b'.*no dot"),
  ('{"study": {"name": "accuracy"}, "study": {"name": "accuracy"}}', "'study' 2 times"),
  ('{"battery": []}', bad_setting('config.battery', [])),
  ('{"study": {"name": "acuracy"}}', "did you mean 'accuracy'"),
  ('{"study": {"name": "accuracy", "topk": 1}}', r'unknown key config\.study\.topk'),
  ('{"study": {"name": "accuracy"}, "seed": "one"}', r"config\.seed is 'one'"),
  ('{"study": {"name": "accuracy"}, "data": 3}', r'config\.data is 3'),
  ('{"study": {"name": "accuracy"}, "classifiers": {}}', r"fiers: did you mean 'classifier'"),
)
def test_json_that_cannot_be_used_is_named(text, message, tmp_path):
  (tmp_path / 'own.json').write_text(text)
  refused(message, read, f'--config={tmp_path / "own.json"}')


@cases(
  'source, variant, message',
  ('x = 1', '', r'own\.py has no function get_config that returns the config'),
  ('def get_config():\n  return {}["gone"]', '', r"own\.py, line 2 raised KeyError: 'gone'"),
  ('def get_config():\n  return int("a")', '', r'invalid literal.*own\.py, line 2\)'),
  ('import gone', '', r"own\.py, line 1 raised ModuleNotFoundError: No module named 'gone'"),
  ('def get_config(:', '', r'raised SyntaxError: invalid syntax \(own\.py, line 1\)'),
  ('def get_config():\n  pass', '', r'get_config returned None; it must return'),
  ('def get_config():\n  pass', ':x', r'has no variants: give --config=\S*own\.py alone'),
  ('def get_config(x):\n  pass', '', r'needs a variant: give --config=\S*own\.py:VARIANT'),
)
def test_a_config_file_that_cannot_be_used_is_named(source, variant, message, tmp_path):
  (tmp_path / 'own.py').write_text(source)
  refused(message, read, f'--config={tmp_path / "own.py"}{variant}')


def test_a_config_file_may_hold_dataclasses(tmp_path):
  source = """
from __future__ import annotations
import dataclasses, ml_collections

@dataclasses.dataclass
class Size:
  side: int = 3

def get_config():
  return ml_collections.ConfigDict(dataclasses.asdict(Size()))
"""
  (tmp_path / 'own.py').write_text(source)
  assert command_line.load_config(str(tmp_path / 'own.py')).side == 3


def test_the_summary_of_a_battery_is_read_from_the_section_of_an_earlier_version(tmp_path):
  file = tmp_path / 'config.json'
  battery = {'tasks': ['plain'], 'plain': {'study': {'name': 'accuracy'}}}
  for name, summary in (('fourier_table', 'fourier_table'), ('overview', ''), ('', '')):
    section = {'name': name, 'fourier_table': {'data': 'cifar'}}
    file.write_text(json.dumps({'battery': {**battery, 'summary': section}}))
    assert command_line.from_json(file).battery.summary == summary


@cases(
  'arguments, has_hint',
  (('--config=accuracy:own', '--config.classifier.name=resnet20'), True),
  (('--config=accuracy:own', '--config.classifier.weights=mine.pth'), True),
  (('--config=accuracy:own', '--config.classifier.name=a', '--config.data.source=npz'), False),
  (('--config=accuracy:own', '--config.classifier.name=a', '--config.data.split=train'), True),
  (('--config=accuracy:own', '--config.seed=1'), False),
)
def test_an_error_of_a_network_on_the_default_data_says_which_flags_name_data(arguments, has_hint):
  config, _ = command_line.read(arguments)
  hint = command_line.data_hint(config, arguments)
  assert hint.startswith('note: no flag names a data source') == has_hint
  assert ('--config.data.source=folder --config.data.folder.path=DIR' in hint) == has_hint


@cases(
  'arguments, has_hint',
  (('--config=accuracy', '--config.classifier.name=efficientnet_lite0'), True),
  (('--config=accuracy', '--config.data.source=folder'), True),
  (('--config=accuracy', '--config.classifier.name=resnet20', '--config.classifier.train'), False),
  (('--config=accuracy:own', '--config.classifier.name=efficientnet_lite0'), False),
  (('--config=accuracy', '--config.seed=1'), False),
  (('--config=attack_error', '--config.data.source=folder'), False),
)
def test_an_error_where_a_config_trains_names_the_variant_that_does_not(arguments, has_hint):
  config, _ = command_line.read(arguments)
  hint = command_line.training_hint(config, arguments)
  assert hint.startswith('note: train=True comes from the config accuracy') == has_hint
  assert ('The variant accuracy:own' in hint) == has_hint


def test_tasks_that_the_command_line_leaves_out_are_named():
  flags = '--config=configs/battery.py:cifar10_paper', '--config.battery.tasks=clean,attack'
  for arguments, expected in (
    (flags, 'note: not run here: corruptions, heat_map'),
    (flags[:1], ''),
  ):
    config, _ = command_line.read(arguments)
    assert command_line.tasks_hint(config, arguments) == expected
