"""Projection in NumPy: against the device's, the released map, and by hand."""

from __future__ import annotations

import json
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from robustness.core.errors import InputError
from robustness.models import label_space, projection
from robustness.models.label_space import LabelSpace
from robustness.models.score_projection import project_scores

COARSE = LabelSpace('coarse', ('a', 'b', 'c'), {}, ((0, 2), (), (3,)), 'fine')


@pytest.mark.parametrize('merge', label_space.MERGES)
@pytest.mark.parametrize('name', ['imagenet_vid', 'youtube_bb'])
def test_equals_the_projection_on_the_device(name: str, merge: str) -> None:
  logits = np.random.default_rng(0).normal(size=(20, 1000)).astype(np.float32) * 3
  space = label_space.get(name)
  np.testing.assert_allclose(
    project_scores(logits, space, merge),
    projection.project_logits(jnp.asarray(logits), space, merge),
    rtol=1e-5,
  )
  shares = special.softmax(logits, axis=1)
  np.testing.assert_allclose(
    project_scores(shares, space, merge, 'probabilities'),
    projection.project_probabilities(jnp.asarray(shares), space, merge),
    rtol=1e-5,
  )


def test_by_hand() -> None:
  shares = np.array([[0.1, 0.2, 0.3, 0.4]])
  for merge, first in (('max', 0.3), ('sum', 0.4), ('mean', 0.2)):
    np.testing.assert_allclose(
      project_scores(shares, COARSE, merge, 'probabilities'), [[first, -np.inf, 0.4]]
    )
  np.testing.assert_allclose(
    project_scores(np.log(shares), COARSE, 'sum'), [[np.log(0.4), -np.inf, np.log(0.4)]]
  )


def test_the_merge_rule_can_decide() -> None:
  shares = np.array([[0.3, 0.0, 0.3, 0.4]])
  assert project_scores(shares, COARSE, 'max', 'probabilities').argmax() == 2
  assert project_scores(shares, COARSE, 'sum', 'probabilities').argmax() == 0


def test_a_class_without_members_is_never_predicted() -> None:
  assert project_scores(np.full((1, 4), -50.0), COARSE).argmax() != 1


def test_the_table_is_the_released_one(shared_dir: pathlib.Path) -> None:
  folder = shared_dir / 'data/imagenet_vid_robust'
  released = json.loads((folder / 'rev_class_idx_map.json').read_text())
  space = label_space.get('imagenet_vid')
  assert {int(c): tuple(m) for c, m in released.items()} == dict(enumerate(space.members))


def test_bad_input() -> None:
  scores = np.zeros((1, 4))
  with pytest.raises(InputError, match="merge is 'maximum'; did you mean 'max'"):
    project_scores(scores, COARSE, 'maximum')
  with pytest.raises(InputError, match="scores is 'logit'"):
    project_scores(scores, COARSE, 'max', 'logit')
  with pytest.raises(InputError, match='3 scores a frame cannot be projected'):
    project_scores(scores[:, :3], COARSE)
  with pytest.raises(InputError, match='no other space'):
    project_scores(scores, label_space.get('imagenet'))
  with pytest.raises(InputError, match="set scores to 'logits'"):
    project_scores(scores - 1, COARSE, 'max', 'probabilities')
