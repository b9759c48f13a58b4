"""Predictions files: what is read, and each kind of bad file by its message."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.video import metadata, predictions
from robustness.video.neighbor_estimates import outcomes, right_within

FRAMES = ('v/1.jpg', 'v/2.jpg', 'v/3.jpg')


def saved(folder: pathlib.Path, content: Any) -> pathlib.Path:
  path = folder / 'predictions.json'
  path.write_text(content if isinstance(content, str) else json.dumps(content))
  return path


def test_scores_in_the_order_of_the_frames(tmp_path: pathlib.Path) -> None:
  path = saved(tmp_path, {'w/1.jpg': [9], **{f: [i, 0.5] for i, f in enumerate(FRAMES[::-1])}})
  assert predictions.read(path, FRAMES, (2, 1000)).tolist() == [[2, 0.5], [1, 0.5], [0, 0.5]]


def test_scores_that_differ_in_the_last_digit_keep_their_order(tmp_path: pathlib.Path) -> None:
  close = [0.1, float(np.nextafter(0.1, 1))]
  path = saved(tmp_path, dict.fromkeys(FRAMES, close))
  assert (predictions.read(path, FRAMES).argmax(1) == 1).all()


def test_a_class_that_is_never_predicted_may_have_minus_infinity(tmp_path: pathlib.Path) -> None:
  path = saved(tmp_path, '{"v/1.jpg": [-Infinity, 0], "v/2.jpg": [1, 0], "v/3.jpg": [0, 2]}')
  assert predictions.read(path, FRAMES).argmax(1).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
  'content, message',
  [
    ({'v/1.jpg': [0, 1]}, "missing for 2 of 3 frames, first 'v/2.jpg'"),
    ({**dict.fromkeys(FRAMES, [0, 1]), 'v/2.jpg': [1]}, 'has 1 scores; expected 2 or 4'),
    ({**dict.fromkeys(FRAMES, [0, 1]), 'v/2.jpg': [0] * 4}, "has 4 scores, 'v/1.jpg' has 2"),
    (
      {**dict.fromkeys(FRAMES, [0, 1]), 'v/3.jpg': [0, float('nan')]},
      "1 of 3 frames .* first 'v/3.jpg', class 1: nan",
    ),
    ({**dict.fromkeys(FRAMES, [0, 1]), 'v/3.jpg': [float('inf'), 0]}, 'class 0: inf'),
    ({**dict.fromkeys(FRAMES, [0, 1]), 'v/3.jpg': [-float('inf')] * 2}, "first 'v/3.jpg'"),
    ({**dict.fromkeys(FRAMES, [0, 1]), 'v/3.jpg': [None, 0]}, "'v/3.jpg'"),
    ({**dict.fromkeys(FRAMES, [0, 1]), 'v/3.jpg': ['x', 0]}, "'v/3.jpg' has a score that is no"),
    ({**dict.fromkeys(FRAMES, [0, 1]), 'v/3.jpg': 4}, 'give a list of scores'),
    ([1], 'holds a list'),
    ('{"v/1.jpg": [', 'truncated or no JSON'),
  ],
)
def test_bad_files(tmp_path: pathlib.Path, content: Any, message: str) -> None:
  with pytest.raises(InputError, match=message):
    predictions.read(saved(tmp_path, content), FRAMES, (2, 4))


def test_no_file(tmp_path: pathlib.Path) -> None:
  for path in (tmp_path / 'none.json', tmp_path):
    with pytest.raises(InputError, match='is no file'):
      predictions.read(path, FRAMES)


def test_a_file_scores_as_the_released_scorer_scores_it(
  shared_dir: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  folder = shared_dir / 'data/imagenet_vid_robust'
  sets, labels = (json.loads((folder / f'{n}.json').read_text()) for n in ('pmsets', 'labels'))
  generator = np.random.default_rng(0)
  table = generator.normal(size=(len(labels), 30)).round(3)
  for row, own in zip(table, labels.values(), strict=True):
    row[own[-1]] += 4
  path = saved(tmp_path, dict(zip(labels, table.tolist(), strict=True)))
  scores = json.loads(path.read_text())
  correct = {f: np.argmax(scores[f]) in labels[f] for f in labels}
  expected = (
    sum(correct[a] for a in sets) / len(sets),
    sum(correct[a] and all(correct[f] for f in sets[a]) for a in sets) / len(sets),
  )
  ours = metadata.read(folder)
  outcome = outcomes(ours, predictions.read(path, ours.frames, (30, 1000)).argmax(1))
  n = len(ours.anchors)
  assert (outcome.anchor.sum() / n, right_within(outcome, 10)[:, 10].sum() / n) == expected
  assert 0.3 < expected[1] < expected[0] < 1
