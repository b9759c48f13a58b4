"""What scores are taken for by their values, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from robustness.core.errors import InputError
from robustness.video.score_kind import score_kind

LOGITS = np.random.default_rng(0).normal(size=(3, 50))
SHARES = special.softmax(LOGITS, axis=1)
FRAMES = ('v/1.jpg', 'v/2.jpg', 'v/3.jpg')


def told(scores: Any, stated: str = 'auto') -> str:
  return score_kind(np.asarray(scores, float), FRAMES, stated, 'model.json')


def test_values_tell() -> None:
  assert told(LOGITS) == told(LOGITS + 10) == told(SHARES - 1) == 'logits'
  assert told(SHARES) == told(SHARES.round(4)) == told(np.eye(3)) == 'probabilities'
  assert told(SHARES.astype(np.float16)) == 'probabilities'


def test_what_is_stated_is_taken_where_it_can_be() -> None:
  assert told(LOGITS, 'logits') == told(SHARES / 2, 'logits') == 'logits'
  assert told(SHARES, 'probabilities') == told(SHARES / 2, 'probabilities') == 'probabilities'


@pytest.mark.parametrize(
  'scores, stated, message',
  [
    (
      np.where(np.eye(3, 50), -0.25, SHARES),
      'probabilities',
      r"3 of 3 frames .* outside of \[0, 1\], first 'v/1.jpg', class 0: -0.25",
    ),
    (np.full((3, 2), 1.5), 'probabilities', "first 'v/1.jpg', class 0: 1.5"),
    (np.full((3, 2), -np.inf), 'probabilities', 'class 0: -inf'),
    (SHARES, 'logits', 'these are probabilities'),
    (SHARES * [[1], [0.5], [1]], 'auto', "1 of 3 frames do not sum to 1, first 'v/2.jpg' with 0.5"),
    (SHARES * 100, 'auto', 'percentages'),
    (SHARES * 100, 'logits', 'percentages'),
  ],
)
def test_what_contradicts_itself_is_refused(scores: Any, stated: str, message: str) -> None:
  with pytest.raises(InputError, match=f'model.json: .*{message}'):
    told(scores, stated)
