"""ImageNet's names, label spaces, rows matched by the names of classes, and projected scores."""

from __future__ import annotations

import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.models import label_space, projection
from robustness.models.imagenet_names import NAMES, WNIDS
from robustness.models.label_space import LabelSpace, project_scores

IMAGENET = label_space.get('imagenet')
COARSE = LabelSpace('coarse', ('a', 'b', 'c'), {}, ((0, 2), (), (3,)), 'fine')


def test_a_thousand_wnids_are_sorted_and_names_are_unique():
  assert len(WNIDS) == len(NAMES) == len(set(NAMES)) == 1000
  assert list(WNIDS) == sorted(set(WNIDS))
  assert all(re.fullmatch(r'n\d{8}', wnid) for wnid in WNIDS)
  assert all(name == name.strip() and name for name in NAMES)
  known = [(WNIDS[index], NAMES[index]) for index in (0, 207, 281, 404, 999)]
  assert known == [
    ('n01440764', 'tench'),
    ('n02099601', 'golden retriever'),
    ('n02123045', 'tabby'),
    ('n02690373', 'airliner'),
    ('n15075141', 'toilet tissue'),
  ]


def test_folders_of_real_pictures_have_these_names(shared_dir):
  folders = sorted(p.name for p in (shared_dir / 'data' / 'imagenet_samples').iterdir())
  assert tuple(f for f in folders if f.startswith('n')) == WNIDS


def rows(labels, class_names) -> ArrayRows:
  images = np.zeros((len(labels), 2, 2, 1), np.float32)
  return ArrayRows(images, np.array(labels), tuple(class_names))


def labels_of(aligned, batch_size=2) -> list:
  batches = list(aligned.batches(batch_size))
  return np.concatenate([batch['label'][batch['mask']] for batch in batches]).tolist()


def align(own):
  return label_space.align(own, IMAGENET.class_names, IMAGENET.aliases, 'network')


@pytest.mark.parametrize(
  ('labels', 'names', 'expected'),
  [
    ([0, 1, 2, 1], (WNIDS[7], WNIDS[900], WNIDS[3]), [7, 900, 3, 900]),
    ([0, 1], ('tabby', 'tench'), [281, 0]),
    ([[0, 1], [1, -1], [0, -1]], (WNIDS[5], WNIDS[6]), [[5, 6], [6, -1], [5, -1]]),
  ],
)
def test_wnids_and_names_in_any_order_become_positions_of_the_classifier(labels, names, expected):
  aligned = align(rows(labels, names))
  assert labels_of(aligned) == expected
  assert aligned.class_names == NAMES
  assert aligned.description['classes_present'] == len(names)
  assert aligned.num_examples == len(labels) and aligned.image_shape == (2, 2, 1)


@pytest.mark.parametrize('names', [(), NAMES])
def test_rows_without_names_or_with_the_same_stay_as_they_are(names):
  own = rows([0, 1], names)
  assert align(own) is own


def test_classes_are_never_matched_by_position():
  with pytest.raises(InputError, match="1 of 2 classes.*network.*'fish'.*'tench'.*'n01440764'"):
    align(rows([0, 1], ('tabby', 'fish')))


def test_a_label_beyond_the_named_classes_is_an_error():
  with pytest.raises(InputError, match='example 1 has label 2; the data name 2 classes'):
    labels_of(align(rows([0, 2], (WNIDS[5], WNIDS[6]))))


def test_only_wnids_are_taken_for_imagenet():
  assert label_space.is_imagenet(WNIDS[:3])
  assert not label_space.is_imagenet((WNIDS[0], 'cat'))
  assert not label_space.is_imagenet(())


def test_unknown_space_names_the_valid_ones():
  with pytest.raises(InputError, match="'vid'.*'imagenet_vid'"):
    label_space.get('vid')


def test_ranges():
  assert label_space.parse_ranges('7-9 12') == (7, 8, 9, 12)
  assert label_space.parse_ranges('') == ()


def test_coarse_spaces_are_the_released_tables(shared_dir: pathlib.Path):
  released = json.loads((shared_dir / 'reference' / 'video_class_map.json').read_text())
  for name in ('imagenet_vid', 'youtube_bb'):
    space = label_space.get(name)
    for own, members, entry in zip(space.class_names, space.members, released[name], strict=True):
      assert own == entry['name']
      assert sorted(members) == sorted(entry['ilsvrc_indices'])
  file = shared_dir / 'data/imagenet_vid_robust/rev_class_idx_map.json'
  other = {int(c): tuple(m) for c, m in json.loads(file.read_text()).items()}
  assert other == dict(enumerate(label_space.get('imagenet_vid').members))


def test_fine_and_coarse_words_lead_to_the_coarse_class():
  space = label_space.get('imagenet_vid')
  assert space.class_names[space.aliases[WNIDS[404]]] == 'airplane'
  assert space.class_names[space.aliases['n02691156']] == 'airplane'


@pytest.mark.parametrize('merge', label_space.MERGES)
@pytest.mark.parametrize(
  ('name', 'classes', 'members'), [('imagenet_vid', 30, 288), ('youtube_bb', 24, 231)]
)
def test_scores_are_projected_as_on_the_device_logits_and_probabilities_alike(
  name: str, classes: int, members: int, merge: str
) -> None:
  space = label_space.get(name)
  assert len(space.class_names) == classes
  assert len(set(sum(space.members, ()))) == sum(map(len, space.members)) == members
  logits = np.random.default_rng(0).normal(size=(20, 1000)).astype(np.float32) * 3
  ours = project_scores(logits, space, merge)
  device = projection.project_logits(jnp.asarray(logits), space, merge)
  np.testing.assert_allclose(ours, device, rtol=1e-5)
  shares = project_scores(np.asarray(jax.nn.softmax(logits)), space, merge, 'probabilities')
  normaliser = jax.nn.logsumexp(logits, axis=1, keepdims=True)
  with np.errstate(divide='ignore', invalid='ignore'):
    expected = np.exp(device - normaliser)
  possible = [bool(members) for members in space.members]
  np.testing.assert_allclose(shares[:, possible], expected[:, possible], rtol=1e-4)
  assert (shares[:, ~np.array(possible)] == -np.inf).all()


def test_by_hand() -> None:
  shares = np.array([[0.1, 0.2, 0.3, 0.4]])
  for merge, first in (('max', 0.3), ('sum', 0.4), ('mean', 0.2)):
    np.testing.assert_allclose(
      project_scores(shares, COARSE, merge, 'probabilities'), [[first, -np.inf, 0.4]]
    )
  np.testing.assert_allclose(
    project_scores(np.log(shares), COARSE, 'sum'), [[np.log(0.4), -np.inf, np.log(0.4)]]
  )
  shares = np.array([[0.3, 0.0, 0.3, 0.4]])
  assert project_scores(shares, COARSE, 'max', 'probabilities').argmax() == 2
  assert project_scores(shares, COARSE, 'sum', 'probabilities').argmax() == 0
  assert project_scores(np.full((1, 4), -50.0), COARSE).argmax() != 1, 'it has no members'


SCORES = np.zeros((1, 4))


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ((SCORES, COARSE, 'maximum'), "merge is 'maximum'; did you mean 'max'"),
    ((SCORES, COARSE, 'max', 'logit'), "scores is 'logit'"),
    ((SCORES[:, :3], COARSE), '3 scores a frame cannot be projected'),
    ((SCORES, IMAGENET), 'no other space'),
    ((SCORES - 1, COARSE, 'max', 'probabilities'), "set scores to 'logits'"),
  ],
)
def test_scores_that_cannot_be_projected_are_refused(arguments, message) -> None:
  with pytest.raises(InputError, match=message):
    project_scores(*arguments)
