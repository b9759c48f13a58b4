"""What can be wrong with neighbor sets, frames, scores and boxes: one clear line, status 2."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

from configs import video_pm_k
from robustness.cli import detection as command
from tests.end_to_end import runs

SETS = {f'clip{c}/5.png': [f'clip{c}/{n}.png' for n in (3, 4, 6)] for c in range(3)}
FRAMES = sorted({frame for anchor, members in SETS.items() for frame in (anchor, *members)})
LABELS = {frame: [int(frame[4])] for frame in FRAMES}
SIDE = 32


def write(folder: pathlib.Path, sets: Any = None, labels: Any = None, scores: Any = None) -> None:
  """Writes metadata and predictions, good ones unless others are given."""
  folder.mkdir(parents=True, exist_ok=True)
  good = {frame: [0.1, 0.2, 0.3] for frame in FRAMES}
  for name, given, default in (
    ('pmsets', sets, SETS),
    ('labels', labels, LABELS),
    ('model', scores, good),
  ):
    (folder / f'{name}.json').write_text(json.dumps(default if given is None else given))
  (folder / 'class_index.json').write_text(json.dumps({'0': 'ant', '1': 'bee', '2': 'cat'}))


@pytest.fixture
def refused(
  tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
  """Returns the one message of a refused run, by default on predictions."""

  def one(config: Any = None) -> str:
    if config is None:
      config = video_pm_k.get_config('predictions')
      config.predictions, config.metadata = str(tmp_path / 'model.json'), str(tmp_path)
    return runs.refused(config, tmp_path / 'run', capsys, monkeypatch)

  return one


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    (
      {'sets': {**SETS, 'clip1/5.png': ['clip2/4.png']}},
      "'clip2/4.png' is no neighbor of anchor 'clip1/5.png': it is a frame of another video",
    ),
    ({'labels': {**LABELS, 'clip1/4.png': [3]}}, "frame 'clip1/4.png' has labels [3]"),
    (
      {'scores': {f: [0.1, 0.2, 0.3] for f in FRAMES[2:]}},
      "predictions are missing for 2 of 12 frames, first 'clip0/3.png'",
    ),
  ],
)
def test_sets_and_scores(
  tmp_path: pathlib.Path, refused: Callable[..., str], change: dict[str, Any], message: str
) -> None:
  write(tmp_path, **change)
  assert message in refused()


@pytest.mark.parametrize('frame', ['clip1/5.png', 'clip1/4.png'], ids=['anchor', 'neighbor'])
@pytest.mark.parametrize('variant', ['predictions', 'frames'])
def test_labels_outside_of_the_vocabulary(
  tmp_path: pathlib.Path, refused: Callable[..., str], variant: str, frame: str
) -> None:
  config = frames_config(tmp_path) if variant == 'frames' else None
  folder = tmp_path / 'sets' if variant == 'frames' else tmp_path
  write(folder, None, {**LABELS, frame: [30]}, {f: [0.5] * 29 + [2] for f in FRAMES})
  (folder / 'class_index.json').unlink()
  message = refused(config)
  assert f'frame {frame!r} has label 30, and imagenet_vid has 30 classes (0..29)' in message
  assert ('config.data.name' if variant == 'frames' else 'config.label_space') in message


def frames_config(folder: pathlib.Path) -> Any:
  """A run of a small network on frames that are there, one red picture each."""
  write(folder / 'sets')
  for frame in FRAMES:
    (folder / 'frames' / frame).parent.mkdir(parents=True, exist_ok=True)
    Image.new('RGB', (SIDE, SIDE), (20 * int(frame[6]), 0, 0)).save(folder / 'frames' / frame)
  weights = runs.save_weights(folder / 'resnet20.safetensors', 'resnet20', num_classes=3)
  return runs.shrunk(
    'video_pm_k',
    'frames',
    {
      'data.metadata': str(folder / 'sets'),
      'data.path': str(folder / 'frames'),
      'data.num_images': 0,
      'classifier.name': 'resnet20',
      'classifier.weights': weights,
      'classifier.label_space': '',
    },
  )


def test_a_frame_that_cannot_be_decoded(
  tmp_path: pathlib.Path, refused: Callable[..., str]
) -> None:
  config = frames_config(tmp_path)
  file = tmp_path / 'frames/clip1/4.png'
  file.write_bytes(file.read_bytes()[:-30])
  message = refused(config)
  assert str(file) in message and 'example 5' in message and 'cannot be decoded' in message


def test_frames_that_are_missing(tmp_path: pathlib.Path, refused: Callable[..., str]) -> None:
  config = frames_config(tmp_path)
  for name in ('clip1/4.png', 'clip2/5.png'):
    (tmp_path / 'frames' / name).unlink()
  message = refused(config)
  assert message.startswith('2 of 12 frames are not in')
  assert '(1 of 3 anchors): clip1/4.png, clip2/5.png.' in message


@pytest.mark.parametrize('which', ['truth', 'detections'])
def test_boxes(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], which: str) -> None:
  write(tmp_path)
  good = {'image_id': 4, 'category_id': 1, 'bbox': [5, 5, 4, 4], 'score': 0.5}
  truth, found = [{**good, 'image_id': FRAMES.index('clip1/5.png')}], [good]
  (truth if which == 'truth' else found).append({**good, 'bbox': [5, 5, -3, 4]})
  size = {'width': SIDE, 'height': SIDE}
  images = [{'id': index, 'file_name': frame, **size} for index, frame in enumerate(FRAMES)]
  for name, content in (('truth', {'images': images, 'annotations': truth}), ('found', found)):
    (tmp_path / f'{name}.json').write_text(json.dumps(content))
  flags = [f'--metadata={tmp_path}', f'--truth={tmp_path / "truth.json"}']
  flags += [f'--detections={tmp_path / "found.json"}', f'--out={tmp_path / "scored"}']
  assert command.main(flags) == 2
  error = capsys.readouterr().err
  assert 'are inverted' in error and 'entry 1 of' in error and "'clip1/3.png'" in error
