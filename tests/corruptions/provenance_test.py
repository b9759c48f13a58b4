"""The box of errors under corruptions: what it says, and when they compare with published ones."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

from robustness.corruptions.provenance import Provenance
from robustness.corruptions.views import CorruptionViews
from robustness.evaluation.provenance import data_digest
from robustness.evaluation.records import Layout, Records

FOLLOWED = Provenance(
  CorruptionViews(protocol='as_released', photographs='imagecorruptions'),
  False,
  {'source': 'tfds', 'name': 'cifar10:3.0.2', 'split': 'test'},
  'ab12',
  10_000,
  (32, 32, 3),
  "RobustBench's Standard",
)


def value(provenance: Provenance, what: str) -> str:
  return dict(provenance.table().rows)[what]


@pytest.fixture(autouse=True)
def without_photographs(monkeypatch: pytest.MonkeyPatch) -> None:
  """The package of photographs need not be installed."""
  facts = property(lambda self: {'frost': {'source': 'photographs', 'from': self.photographs}})
  monkeypatch.setattr(CorruptionViews, 'facts', facts)


def test_a_run_that_follows_the_protocol_compares_but_for_the_draws() -> None:
  assert value(FOLLOWED, 'comparable with published tables').startswith('yes, but for the random')
  assert value(FOLLOWED, 'storage') == '8-bit arrays'
  assert value(FOLLOWED, 'frost') == 'photographs, imagecorruptions'
  assert value(FOLLOWED, 'data') == 'tfds, cifar10:3.0.2, test'
  assert value(FOLLOWED, 'mCE divides by').startswith('RobustBench')


@pytest.mark.parametrize(
  ('changes', 'reason'),
  [
    ({'views': CorruptionViews(photographs='x')}, 'not rounded to 8 bits'),
    ({'views': dataclasses.replace(FOLLOWED.views, photographs='')}, 'frost is drawn'),
    (
      {'views': dataclasses.replace(FOLLOWED.views, severities=(5,))},
      'without severity 1, 2, 3, 4',
    ),
    ({'num_images': 1000}, '1000 of 10000 images'),
    ({'description': {'source': 'digits'}}, 'not known to be those of CIFAR-10-C'),
    ({'views': CorruptionViews(), 'image_shape': (28, 28, 1)}, 'images are 28 × 28, not 32 × 32'),
    ({'stored': True}, 'the source tfds is no released set'),
  ],
)
def test_each_difference_is_said(changes: dict, reason: str) -> None:
  words = value(dataclasses.replace(FOLLOWED, **changes), 'comparable with published tables')
  assert words.startswith('no: ') and reason in words


def test_released_files_as_they_are_compare() -> None:
  stored = dataclasses.replace(
    FOLLOWED, stored=True, views=CorruptionViews(), description={'source': 'cifar10_c'}
  )
  assert value(stored, 'comparable with published tables') == 'yes'
  assert 'protocol' not in dict(stored.table().rows)


def test_the_subset_of_robustbench_compares_with_its_own_numbers() -> None:
  chosen = dataclasses.replace(
    FOLLOWED,
    stored=True,
    views=CorruptionViews(),
    description={'source': 'imagenet_c', 'listed': 'robustbench'},
    image_shape=(224, 224, 3),
    num_images=5000,
  )
  assert value(chosen, 'images') == "5000, RobustBench's subset"
  assert value(chosen, 'comparable with published tables').startswith("yes, with RobustBench's")
  fewer = dataclasses.replace(chosen, num_images=4999)
  assert '4999 of 50000 images' in value(fewer, 'comparable with published tables')


def test_images_of_64_pixels_are_known_to_differ_from_those_released() -> None:
  tiny = dataclasses.replace(
    FOLLOWED,
    description={'source': 'folder', 'name': 'tiny_imagenet', 'split': 'val'},
    image_shape=(64, 64, 3),
  )
  words = value(tiny, 'comparable with published tables')
  assert words == 'no: the clean images of Tiny-ImageNet-C were not released'
  stored = dataclasses.replace(tiny, stored=True, description={'source': 'tiny_imagenet_c'})
  assert value(stored, 'comparable with published tables') == 'yes'


def test_the_digest_tells_images_and_not_their_order(tmp_path: pathlib.Path) -> None:
  def digest(name: str, ids: list[int], digests: list[int] | None) -> str:
    records = Records(tmp_path / name, Layout(3, 1, 3, 1), {})
    arrays = {'example_id': np.array(ids), 'rank': np.zeros((3, 1), np.int32)}
    given = {} if digests is None else {'image_digest': np.array(digests, np.uint32)}
    records.write(0, 0, {**arrays, **given})
    return data_digest(records)

  first = digest('a', [0, 1, 2], [7, 8, 9])
  assert len(first) == 12
  assert digest('b', [2, 0, 1], [9, 7, 8]) == first
  assert digest('c', [0, 1, 2], [7, 8, 1]) != first
  assert digest('d', [0, 1, 2], None) == ''
