"""Label spaces, and rows matched to a classifier by the names of classes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.models import label_space
from robustness.models.imagenet_names import NAMES, WNIDS

IMAGENET = label_space.get('imagenet')


def rows(labels, class_names) -> ArrayRows:
  images = np.zeros((len(labels), 2, 2, 1), np.float32)
  return ArrayRows(images, np.array(labels), tuple(class_names))


def labels_of(aligned, batch_size=2) -> np.ndarray:
  batches = list(aligned.batches(batch_size))
  return np.concatenate([batch['label'][batch['mask']] for batch in batches])


def align(own):
  return label_space.align(own, IMAGENET.class_names, IMAGENET.aliases, 'network')


def test_wnids_in_any_order_become_positions_of_the_classifier():
  aligned = align(rows([0, 1, 2, 1], (WNIDS[7], WNIDS[900], WNIDS[3])))
  assert labels_of(aligned).tolist() == [7, 900, 3, 900]
  assert aligned.class_names == NAMES
  assert aligned.description['classes_present'] == 3
  assert aligned.num_examples == 4 and aligned.image_shape == (2, 2, 1)


def test_english_names_match_too():
  assert labels_of(align(rows([0, 1], ('tabby', 'tench')))).tolist() == [281, 0]


def test_several_labels_keep_their_filling():
  aligned = align(rows([[0, 1], [1, -1], [0, -1]], (WNIDS[5], WNIDS[6])))
  assert labels_of(aligned).tolist() == [[5, 6], [6, -1], [5, -1]]


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


@pytest.mark.parametrize(
  ('name', 'classes', 'members'), [('imagenet_vid', 30, 288), ('youtube_bb', 24, 231)]
)
def test_coarse_spaces_have_the_released_sizes(name, classes, members):
  space = label_space.get(name)
  assert len(space.class_names) == classes
  assert sum(map(len, space.members)) == members
  assert len(set(sum(space.members, ()))) == members


def test_coarse_spaces_are_the_released_tables(shared_dir):
  released = json.loads((shared_dir / 'reference' / 'video_class_map.json').read_text())
  for name in ('imagenet_vid', 'youtube_bb'):
    space = label_space.get(name)
    for own, members, entry in zip(space.class_names, space.members, released[name], strict=True):
      assert own == entry['name']
      assert sorted(members) == sorted(entry['ilsvrc_indices'])


def test_fine_and_coarse_words_lead_to_the_coarse_class():
  space = label_space.get('imagenet_vid')
  assert space.class_names[space.aliases[WNIDS[404]]] == 'airplane'
  assert space.class_names[space.aliases['n02691156']] == 'airplane'
