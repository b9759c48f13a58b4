"""Every command of docs/papers.md, and one of docs/backbones.md, passes `--dry_run` on small data.

The tests write data in the layouts that the commands name. Published weights are replaced by their
shapes, and the measurements of a dry run are left out. The rest is as in `main.py --dry_run`: data
sets are opened, and studies, trainings and networks are checked on them.
"""

import dataclasses
import functools
import itertools
import json
import pathlib
import re

import jax
import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.image_classification.domainnet import domainnet

import input_pipeline
from input_pipeline.sources import si_score
from robustness import __main__
from robustness.building import builder
from robustness.classifiers import network, weights_file
from robustness.classifiers.network import NetworkWeights
from robustness.classifiers.trained_here import TrainedHere
from robustness.classifiers.weights_file import WeightsFile
from robustness.cli import command_line, process, running
from robustness.corruptions.names import OFFICIAL, SETS
from robustness.models import catalog, label_space
from robustness.models.imagenet_names import WNIDS
from robustness.training.training import Training
from robustness.video import metadata
from tests.docs_test import commands, text
from tests.end_to_end import runs
from tests.input_pipeline import domains
from tests.input_pipeline.sources import si_score_test
from tests.networks import shallow_catalog
from tests.video import small_archive

pytestmark = pytest.mark.slow

ROW = [c for c in commands('docs/backbones.md') if 'timm:resnet50' in c]
COMMANDS = sorted({*commands('docs/papers.md'), *ROW})
SHALLOW = {'resnet20': 8, 'wide_resnet_28_10': 10, **dict.fromkeys(('resnet50', 'resnet152'), 18)}
STYLES = ('real', 'clipart', 'quickdraw', 'infograph', 'sketch', 'painting')


@pytest.fixture(scope='module')
def data(tmp_path_factory):
  """A folder with one subfolder for each word in capitals of the page, and the TFDS folder."""
  home = tmp_path_factory.mktemp('papers')
  generator = np.random.default_rng(0)
  pictures = [(generator.integers(0, 256, (8, 8, 3), np.uint8), k % 1000) for k in range(1200)]
  splits = {'train': pictures, 'validation': pictures}
  domains.store_labelled(home / 'tfds', 'imagenet2012', splits, WNIDS, version='5.1.0', named=True)
  corrupted = [(np.full((224, 224, 3), k, np.uint8), k) for k in range(2)]
  for name, severity in itertools.product(SETS['fourier_imagenet'], range(1, 6)):
    kind = {'config': f'{name}_{severity}', 'version': '3.1.0'}
    contents = home / 'tfds', 'imagenet2012_corrupted', {'validation': corrupted}, WNIDS
    domains.store_labelled(*contents, (224, 224, 3), named=True, **kind)
  features = {**tfds.builder('cifar10').info.features}
  small = [
    {'id': f'{k:05}', 'image': generator.integers(0, 256, (32, 32, 3), np.uint8), 'label': k % 10}
    for k in range(2000)
  ]
  splits = {'train': small, 'test': small}
  domains.store(home / 'tfds', 'cifar10', features, splits, version='3.0.2')
  names = domainnet._CLASS_NAMES
  for style in STYLES:
    splits = {
      split: [(generator.integers(0, 256, (4, 4, 3), np.uint8), n) for n in range(len(names))]
      for split in ('train', 'test')
    }
    domains.store_labelled(home / 'domainnet', 'domainnet', splits, names, config=style)
    for split, name in itertools.product(splits, names[:60]):
      file = f'{style}/{name}/{split}.png'
      runs.save_image(home / 'lists' / file, np.full((8, 8, 3), 99, np.uint8))
      with open(home / f'lists/{style}_{split}.txt', 'a') as listed:
        listed.write(f'{file} {names.index(name)}\n')
  stored = home / 'CIFAR-10-C'
  stored.mkdir()
  np.save(stored / 'labels.npy', np.tile([row['label'] for row in small], 5))
  for name in ('brightness', 'contrast', 'fog'):
    np.save(stored / f'{name}.npy', np.zeros((10_000, 32, 32, 3), np.uint8))
  for k, name in enumerate(('koala', 'lemon', 'vase')):
    cutout = np.full((20 + 7 * k, 30, 4), 255, np.uint8)
    runs.save_image(home / f'foregrounds/{name}/one.png', cutout)
    runs.save_image(home / f'backgrounds/{k}.jpg', np.full((512, 512, 3), 60 * k, np.uint8))
  scenes = si_score_test.metadata()
  write_scenes(home / 'siscore/size', scenes)
  placed = {'x_coord': scenes['area'], 'area': scenes['area'] * 0 + 0.2}
  write_scenes(home / 'siscore/location', {**scenes, **placed})
  for k in range(12):
    picture = np.full((256, 256, 3), 99, np.uint8)
    runs.save_image(home / f'ilsvrc/train/n02085620/{k}.png', picture)
  for name in ('v2', 'renditions', 'adversarial', 'sketches', 'objectnet/images'):
    for k in (0, 7):
      folder = ('analog_clock', 'pen')[k // 7] if 'objectnet' in name else WNIDS[k]
      runs.save_image(home / name / folder / 'one.png', np.full((256, 256, 3), 99, np.uint8))
  (home / 'objectnet/mappings').mkdir()
  mappings = {
    'folder_to_objectnet_label': {'analog_clock': 'Clock', 'pen': 'Pen'},
    'objectnet_to_imagenet_1k': {'Clock': 'analog clock', 'Pen': 'fountain pen'},
  }
  for name, mapping in mappings.items():
    (home / f'objectnet/mappings/{name}.json').write_text(json.dumps(mapping))
  for severity in range(1, 6):
    for name in OFFICIAL:
      picture = home / f'corrupted/{name}/{severity}/{WNIDS[7]}/one.png'
      runs.save_image(picture, np.full((224, 224, 3), 99, np.uint8))
  small_archive.ytbb_robust(home)
  small_archive.unpacked(home)
  paths = [*small_archive.LABELS][::-1]  # the first of LABELS has two classes
  for split, members in (('train', paths[:2]), ('test', paths[2:])):
    labels = {path: small_archive.LABELS[path] for path in members}
    sets = metadata.from_mappings({path: [] for path in members}, labels)
    metadata.write(sets, home / 'built' / split)
  return home


def write_scenes(folder: pathlib.Path, scenes: dict[str, np.ndarray]) -> None:
  """Writes scenes as they are released, and their table next to the folder."""
  table = folder.with_name(f'{folder.name}.csv')
  for number, index in zip(scenes['image_id'], scenes['foreground_class'], strict=True):
    image = np.full((32, 32, 3), int(number) * 10, np.uint8)
    runs.save_image(folder / si_score_test.CLASSES[int(index)] / f'{int(number)}.jpg', image)
  table.write_text(si_score.metadata_text(scenes))


def with_data(command: str, home: pathlib.Path) -> str:
  """Returns the command with made data for the words in capitals."""
  sets = home / ('ytbb-robust' if ':ytbb' in command else small_archive.VID_ROBUST)
  places = {
    r'foregrounds=DIR': f'foregrounds={home}/foregrounds',
    r'backgrounds=DIR': f'backgrounds={home}/backgrounds',
    r'data_dir=DIR': f'data_dir={home}/domainnet',
    r'path=DIR': f'path={home}/CIFAR-10-C',
    r'=DOMAINS': f'={home}/lists',
    r'=SETS': f'={sets}',
    r'=FRAMES': f'={sets}',
    r'=BUILT': f'={home}/built',
    r'=IMAGENET': f'={home}/ilsvrc',
    r'=TRAINING': f'={sets}',
    r'metadata=OTHER': f'metadata={sets}',
    r'=location20_area02_min0pc': f'={home}/siscore/location',
    r'=area\b': f'={home}/siscore/size',
    r'path=(V2|RENDITIONS|ADVERSARIAL|SKETCHES|OBJECTNET|CORRUPTED)\b': f'path={home}/\\1',
    r'=object_(size|location|rotation)/metadata': f'={home}/siscore/\\1',
  }
  for word, place in places.items():
    command = re.sub(word, place, command)
  folders = r'(?<=/)(V2|RENDITIONS|ADVERSARIAL|SKETCHES|OBJECTNET|CORRUPTED)\b'
  return re.sub(folders, lambda match: match[0].lower(), command)


@pytest.fixture(scope='module')
def unmeasured():
  """Leaves out the measurements of a dry run, and uses shapes of weights instead of downloads.

  Data, networks and trainings of rows with the same shapes are opened and traced once.
  """
  checked, check, wrap = set(), builder.check, network.from_linen
  shapes_by_key, shapes_of = {}, Training._shapes.func
  wrapped = {}

  def shapes(kind, label, images, precision):
    architecture, entry = kind.architecture, kind.record
    side = entry.input_size if entry else architecture.input_shape[0]
    shape = images.shape if images.has_set_size else (side, side, 3)
    names = label_space.get(label_space.IMAGENET).class_names
    is_published = entry or (side > 32 and kind.weights != 'CHECKPOINT')
    names = names if is_published else images.class_names
    variables, scaling = architecture.abstract_variables(len(names), shape), entry or architecture
    weights = NetworkWeights('', variables, names, scaling.mean, scaling.std, shape)
    return kind.traced_classifier(label, weights, precision)

  def wrap_once(module, variables, *, name, **options):
    key = repr((module, jax.tree.leaves(variables), options))
    if key not in wrapped:
      wrapped[key] = wrap(module, variables, name=name, **options)
    return dataclasses.replace(wrapped[key], name=name)

  def check_once(training, row):
    columns = [(name, np.shape(value)[1:], np.asarray(value).dtype) for name, value in row.items()]
    setup = training.model, training.rows.image_shape, training.inputs, training.settings
    key = repr((*setup, training.pipeline, columns))
    if key not in checked:
      check(training, row)
      checked.add(key)

  def cached_shapes(training):
    key = training.model, training.rows.image_shape
    if key not in shapes_by_key:
      shapes_by_key[key] = shapes_of(training)
    return shapes_by_key[key]

  shallow = shallow_catalog(**SHALLOW)
  with pytest.MonkeyPatch.context() as patched:
    patched.setattr(catalog, 'ARCHITECTURES', shallow)
    patched.setattr(weights_file, 'check_weights_path', lambda path: path)  # such as FILE
    patched.setattr(WeightsFile, 'load', shapes)
    patched.setattr(TrainedHere, 'read_initial_weights', lambda kind, image_shape: None)
    patched.setattr(network, 'from_linen', wrap_once)
    patched.setattr(builder, 'check', check_once)
    patched.setattr(Training, '_shapes', property(cached_shapes))
    patched.setattr(input_pipeline, 'load', functools.cache(input_pipeline.load))
    patched.setattr(process, 'set_devices', lambda processes: None)
    yield


@pytest.mark.parametrize('command', re.findall('`robustness ([^`]+)`', text('docs/papers.md')))
def test_a_program_has_the_flags_that_the_page_gives_it(command, capsys):
  words = command.split()
  names = [word for word in words if not word.startswith('--')]
  with pytest.raises(SystemExit, match='0'):
    __main__.main([*names, '--help'])
  flags = re.findall(r'--\w+', capsys.readouterr().out)
  assert {word.partition('=')[0] for word in words} - {*names} <= {*flags}


@pytest.mark.parametrize('command', COMMANDS)
def test_a_command_passes_a_dry_run(command, data, cifar10_dir, unmeasured, capsys):
  words = with_data(command, data).split()
  config, _ = command_line.read(words)
  if 'predictions' in config:
    pytest.skip('scores predictions, for which --dry_run has nothing to do')
  if 'siscore/' in command.partition('=METADATA')[0] and 'METADATA' in command:
    pytest.skip('TFDS makes this data set of a download')
  if 'imagenet2012' in str(config) or 'CIFAR-10-C' in ' '.join(words):
    tasks = (config.battery[name] for name in ('errors', 'tradeoff') if 'battery' in config)
    for holder in (config, *tasks):
      for source in ('tfds', 'tfds_corrupted', 'cifar10_c', 'natural_shifts'):
        holder.data[source].data_dir = str(data / 'tfds')
  if 'natural_shifts' in command:
    config.data.natural_shifts.allow_missing = True  # of a few classes
  for label in [*config.get('classifiers', ())][4:]:
    with config.unlocked():
      del config.classifiers[label]  # of up to 65
  status, output = running.dry_run(config.to_dict()), capsys.readouterr().err
  lacking = r'needs (?:huggingface_hub|timm):|is not installed: pip install|could not be fetched'
  if needs := re.search(lacking, output):
    pytest.skip(f'weights of a hub, or an optional package: {needs[0]}')
  assert status == 0, output
