"""A config becomes a checked experiment, or an error that names the key."""

from input_pipeline.sources.folder import Folder
from input_pipeline.sources.made_clips import MadeClips
from input_pipeline.sources.npz import Npz
from robustness.config import experiment
from robustness.config.defaults import default_battery, default_config
from robustness.fourier.input_filters import LowPass
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.cases import cases
from tests.refusals import bad_setting, refused

TASKS = {'plain': 'accuracy', 'maps': 'fourier_heatmap', 'line': 'tradeoff'}
HEAT_MAP = {'name': 'fourier_heatmap'}


def config(**changes):
  """Returns a config of the study accuracy with other sections or keys."""
  return {**default_config('accuracy').to_dict(), **changes}


def battery(**changes):
  """Returns a config of three tasks and two classifiers; keys of changes have __ for dots."""
  values = default_battery(TASKS, ('natural', 'gaussian'), 'fourier_table')
  values.update_from_flattened_dict({k.replace('__', '.'): v for k, v in changes.items()})
  return values.to_dict()


def test_defaults_are_a_valid_config_and_keys_left_out_keep_them():
  checked = experiment.from_config(config())
  assert checked.studies[''].name == 'accuracy'
  assert list(checked.classifiers) == ['small_cnn']
  assert checked.execution == experiment.Execution()
  study, classifier = {'name': 'fourier_heatmap', 'norm': 2}, {'name': 'resnet20'}
  checked = experiment.from_config({'study': study, 'classifier': classifier})
  assert checked.studies[''] == FourierHeatmap(norm=2.0)
  assert checked.classifiers['resnet20'].augment.augmentations == ()
  values = default_config('fourier_heatmap', labels=('zebra', 'ant', 'moth'))
  checked = experiment.from_config(values.to_dict())
  assert list(checked.classifiers) == ['zebra', 'ant', 'moth']
  assert isinstance(checked.studies[''], FourierHeatmap)


@cases(
  'changes, message',
  ({'batchsize': 3}, r"unknown key config\.batchsize: did you mean 'batch_size'"),
  ({'seed': '0'}, bad_setting('config.seed', '0')),
  ({'seed': 2**32}, bad_setting('config.seed', 4294967296)),
  ({'seed': True}, bad_setting('config.seed', True)),
  ({'parallel': 'pmapp'}, bad_setting('config.parallel', 'pmapp', words="did you mean 'pmap'")),
  ({'precision': 'float16'}, bad_setting('config.precision', 'float16')),
  (
    {'precision': 'bfloat16', 'study': {'name': 'attack_error', 'epsilon': 0.001}},
    r'attack_error would measure their rounding: give config\.study\.epsilon .* not 0\.001',
  ),
  ({'views_per_step': -1}, bad_setting('config.views_per_step', -1)),
  ({'study': {'name': 'heatmap'}}, r"config\.study\.name names 'heatmap'; .*'fourier_heatmap'"),
  ({'study': {'name': 'systematic', 'baseline': 'b'}}, bad_setting('config.study.baseline', 'b')),
  ({'classifier': 5}, bad_setting('config.classifier', 5)),
  ({'classifier': {'attack': []}}, bad_setting('config.classifier.attack', [])),
  ({'classifier': {'seed': 'x'}}, bad_setting('config.classifier.seed', 'x')),
  (
    {'classifier': None, 'classifiers': {'a': {'training': {'validation': 2.0}}, 'b': {}}},
    bad_setting('config.classifiers.a.training.validation', 2.0),
  ),
  (
    {'classifier': None, 'classifiers': {'a': {}, 'b': {'data': {'crop': -1}}}},
    bad_setting('config.classifiers.b.data.crop', -1),
  ),
  (
    {
      'classifier': {'train': True, 'probe': {'name': 'knn'}},
      'training': {'measure': ('accuracy',)},
    },
    r'training\.measure is .*, and the probe .* Leave it or config\.classifier\.probe\.name empty',
  ),
  ({'classifier': {'name': 'net.py:a/b'}}, r"config\.classifier\.name names 'a/b'"),
  ({'batch_size': 10**12}, bad_setting('config.batch_size', 1000000000000)),
  ({'study': {}}, r"config\.study\.name names ''"),
  ({'data': {'sauce': 'npz'}}, r"unknown key config\.data\.sauce: did you mean 'source'"),
  ({'data': 'cifar10'}, bad_setting('config.data', 'cifar10')),
  ({'classifier': {'augment': {'flop': True}}}, r"augment\.flop: did you mean 'flip'"),
  ({'classifiers': {'a': {}}}, r'either config\.classifier or config\.classifiers'),
  ({'classifiers': {}, 'classifier': None}, r'config\.classifiers is empty'),
)
def test_mistakes_are_named(changes, message):
  refused(message, experiment.from_config, config(**changes))


@cases(
  'label', '/tmp/x', '..', '.', '', ' ', 'a/b', 'a\\b', 'a\0b', 'a\nb', 'a.b', 'x' * 300, '\udcff'
)
def test_a_label_that_names_no_folder_is_refused(label):
  values = config(classifiers={label: {}}, classifier=None)
  message = r'config\.classifiers names .*; a folder is named so'
  text = refused(message, experiment.from_config, values)
  assert '\n' not in text and len(text) < 400


def test_a_single_classifier_may_have_a_name_with_dots():
  checked = experiment.from_config(config(classifier={'name': 'timm:resnet18.a1_in1k'}))
  assert [*checked.classifiers] == ['resnet18.a1_in1k']


def test_tasks_run_in_the_order_of_the_config_and_inherit_the_data_of_the_run():
  tasks = {'tasks': ('line', 'maps', 'plain'), 'plain__data__source': 'made_clips'}
  task_keys = {f'battery__{key}': value for key, value in tasks.items()}
  data = {'data__source': 'folder', 'data__folder__path': 'D', 'data__num_images': 50}
  values = battery(**task_keys, **data, battery__maps__data__num_images=7)
  checked = experiment.from_config(values)
  assert list(checked.measurements) == ['line', 'maps', 'plain']
  names = [study.name for study in checked.studies.values()]
  assert names == ['tradeoff', 'fourier_heatmap', 'accuracy'] and not checked.is_single
  line, maps, clips = (task.data for task in checked.measurements.values())
  assert (maps.num_images, maps.source) == (7, Folder('D'))
  assert line == checked.data and checked.data.num_images == 50
  assert (clips.source, clips.num_images) == (MadeClips(), 0)
  assert checked.section_of(clips) == 'config.battery.plain.data'
  assert checked.section_of(line) == 'config.data'


@cases(
  'changes, section',
  ({}, 'config.classifier'),
  ({'classifiers': {'a': {'weights': 'W'}}, 'classifier': None}, 'config.classifiers.a'),
)
def test_rows_of_a_training_are_named_by_the_section_of_their_classifier(changes, section):
  checked = experiment.from_config(config(**changes))
  (recipe,) = checked.classifiers.values()
  assert checked.section_of(recipe.data) == f'{section}.data'
  assert checked.section_of(checked.data) == 'config.data'


@cases(
  'changes, message',
  ({'tasks': ('plian',)}, r"config\.battery\.tasks is 'plian'; did you mean 'plain'"),
  ({'tasks': ()}, r'config\.battery\.tasks is \(\); .* plain, maps, line'),
  ({'tasks': 'plain'}, r"config\.battery\.tasks is 'plain'; it must be a tuple"),
  (
    {'tasks': ('plain', 'plain')},
    bad_setting('config.battery.tasks', ('plain', 'plain'), 'different tasks'),
  ),
  ({'plain': {'study': {'name': 'acuracy'}}}, r"battery\.plain\.study\.name names 'acuracy'"),
  ({'maps': {'stduy': {}}}, r"config\.battery\.maps\.stduy: did you mean 'study'"),
  ({'../x': {}}, r"config\.battery names '\.\./x'; a folder is named so"),
  ({'seeds': {}}, r"config\.battery names a task 'seeds', as results name a setting"),
  ({'baseline': {}}, r"config\.battery names a task 'baseline'"),
  ({'confidence': {}}, r"config\.battery names a task 'confidence'"),
  ({'num_examples': {}}, r"config\.battery names a task 'num_examples'"),
  ({'maps': {'data': 3}}, bad_setting('config.battery.maps.data', 3)),
  ({'summary': []}, r'battery\.summary is \[\]; must be|battery\.summary is \[\]'),
  ({'maps': 3}, r'config\.battery\.maps must be a section with a study; got 3'),
  (
    {'maps': {'study': {**HEAT_MAP, 'norm': -1.0}}},
    bad_setting('config.battery.maps.study.norm', -1.0),
  ),
  (
    {'maps': {'study': HEAT_MAP, 'data': {'num_imags': 3}}},
    r"config\.battery\.maps\.data\.num_imags: did you mean 'num_images'",
  ),
  ({'summary': 'fourier_tabel'}, r"battery\.summary.* 'fourier_tabel'; did you mean"),
)
def test_mistakes_in_a_battery_are_named(changes, message):
  values = battery()
  values['battery'].update(changes)
  refused(message, experiment.from_config, values)


def test_a_battery_with_a_study_or_too_few_classifiers_is_refused():
  message = r'either config\.study or config\.battery'
  refused(message, experiment.from_config, {**battery(), 'study': {'name': 'accuracy'}})
  values = battery()
  del values['classifiers']['gaussian']
  refused('tradeoff compares classifiers .* at least 2, not 1', experiment.from_config, values)
  values['battery']['tasks'] = ('plain', 'maps')
  assert len(experiment.from_config(values).classifiers) == 1


def parsed(**changes):
  """Returns the experiment of two classifiers, a and b; keys of changes have __ for dots."""
  config = default_config('accuracy', labels=('a', 'b'))
  config.update_from_flattened_dict({key.replace('__', '.'): v for key, v in changes.items()})
  return experiment.from_config(config.to_dict())


def test_a_recipe_inherits_training_data_and_seed_of_the_run():
  checked = parsed(training__epochs=3.0, seed=5, data__source='npz', data__npz__path='x')
  for recipe in checked.classifiers.values():
    assert (recipe.training.epochs, recipe.seed) == (3.0, 5)
    assert (recipe.data.source, recipe.data.split) == (Npz('x'), 'train')
    assert recipe.attack is None and recipe.input_filter is None
    assert recipe.objective.name == 'cross_entropy' and not recipe.augment.augmentations
  checked = parsed(**BOTH, seeds=(3, 4))
  assert {recipe.seed for recipe in checked.with_seed(4).classifiers.values()} == {4}
  assert checked.with_seed(4).execution.seed == 0


def test_keys_of_a_training_are_named_by_the_section_that_sets_them():
  sections = {'a': {'train': True, 'training': {'epochs': 3.0}}, 'b': {'train': True}}
  shared = {'study': {'name': 'accuracy'}, 'training': {'measure': ('maps',), 'momentum': 0.5}}
  message = 'config.training.measure is .maps.'
  refused(message, experiment.from_config, {**shared, 'classifiers': sections})
  sections['b']['training'] = shared['training']
  del shared['training']
  message = 'config.classifiers.b.training.measure is .maps.'
  refused(message, experiment.from_config, {**shared, 'classifiers': sections})
  sections['b']['training'] = {'momentum': 0.5}
  checked = experiment.from_config({**shared, 'classifiers': sections})
  assert checked.training_key('a', 'epochs') == 'config.classifiers.a.training.epochs'
  assert checked.training_key('a', 'momentum') == 'config.training.momentum'
  assert checked.training_key('b', 'momentum') == 'config.classifiers.b.training.momentum'


def test_the_settings_of_a_recipe_change_no_other_recipe():
  changes = {'objective__name': 'group_dro', 'data__source': 'folder', 'seed': 9}
  changes |= {'training__epochs': 7.0, 'training__optimizer': 'adamw', 'training__step_epochs': ()}
  changes |= {'augment__policy': ('crop', 'flip'), 'augment__crop__padding': 2}
  changes |= {'attack__name': 'pgd', 'attack__pgd__steps': 3}
  changes |= {'input_filter__name': 'low_pass', 'input_filter__low_pass__bandwidth': 9}
  changes = {f'classifiers__b__{key}': value for key, value in changes.items()}
  checked = parsed(training__epochs=3.0, data__num_images=20, **changes)
  a, b = checked.classifiers.values()
  values = [(r.training.epochs, r.training.optimizer, r.seed, r.data.source.name) for r in (a, b)]
  assert values == [(3.0, 'sgd', 0, 'digits'), (7.0, 'adamw', 9, 'folder')]
  assert b.data.num_images == 0, 'all rows are trained on unless the recipe says otherwise'
  pgd = default_config('accuracy').classifier.attack.pgd.to_dict()
  crop = {'name': 'crop', 'padding': 2, 'border': 'black'}
  dro = {'column': 'label', 'groups': 0, 'step_size': 0.01, 'label_smoothing': 0.0}
  assert b.pipeline.describe() == {
    'augment': [crop, {'name': 'flip', 'probability': 0.5}],
    'attack': {**pgd, 'name': 'pgd', 'steps': 3},
    'objective': {'name': 'group_dro', **dro},
  }
  assert b.input_filter == LowPass(9)
  assert b.input_filter.describe() == {'name': 'low_pass', 'bandwidth': 9}


BOTH = {'classifiers__a__train': True, 'classifiers__b__train': True}
STYLES = {'data': {'source': 'environments', 'random_class_groups': 2}}


def test_stored_environments_are_mixed_if_leaks_are_allowed_or_impossible():
  mixed = {**STYLES, 'augment': {'policy': ('mixup',), 'environment': {'allow_leaks': True}}}
  clean = {'data': {**STYLES['data'], 'split': 'clean'}, 'augment': {'policy': ('mixup',)}}
  classifiers = {'meant': mixed, 'clean': clean}
  experiment.from_config({'study': {'name': 'accuracy'}, 'classifiers': classifiers})


@cases(
  'changes, message',
  ({'a': {'augmnt': {}}}, r"unknown key config\.classifiers\.a\.augmnt: did you mean 'augment'"),
  ({'a': {'training': {'epoch': 3}}}, r"config\.classifiers\.a\.training\.epoch: .*'epochs'"),
  ({'a': {'data': {'sauce': ''}}}, r"config\.classifiers\.a\.data\.sauce: did you mean 'source'"),
  ({'a': {'attack': {'name': 'pdg'}}}, r"classifiers\.a\.attack\.name names 'pdg'; .*'pgd'"),
  ({'a': {'objective': {'name': 'x'}}}, r"a\.objective\.name names 'x'; .*group_dro"),
  ({'a': {'seed': -1}}, bad_setting('config.classifiers.a.seed', -1)),
  ({'a': {**STYLES, 'augment': {'policy': ('mixup',)}}}, r"a trains with 'mixup' across env"),
)
def test_mistakes_in_a_recipe_are_named(changes, message):
  refused(message, experiment.from_config, {'study': {'name': 'accuracy'}, 'classifiers': changes})


@cases(
  'changes, message',
  ({'seeds': (1,)}, bad_setting('config.seeds', (1,))),
  ({'seeds': (1, 1)}, bad_setting('config.seeds', (1, 1))),
  ({'seeds': (0, -1)}, bad_setting('config.seeds', (0, -1))),
  ({'seeds': (0, 1)}, r'config\.classifiers\.a has given weights.*classifiers\.a\.train=True'),
  (
    {'seeds': (0, 1), 'classifiers__a__train': True, 'classifiers__b__weights': 'x.th'},
    r'config\.classifiers\.b has given weights',
  ),
  (
    {**BOTH, 'seeds': (0, 1), 'classifiers__b__seed': 4},
    r'config\.classifiers\.b\.seed is 4: leave one of them out',
  ),
)
def test_several_seeds_need_trainings_without_a_seed(changes, message):
  refused(message, parsed, **changes)
