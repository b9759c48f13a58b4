"""The released sets: their sizes, 8-bit values and files, what differs, and what results say."""

from __future__ import annotations

import dataclasses
import io
import pathlib

import jax
import numpy as np
import pytest
from PIL import Image

from robustness.core.errors import InputError
from robustness.corruptions.released import RELEASED, Provenance
from robustness.corruptions.views import CorruptionViews
from robustness.evaluation.provenance import data_digest
from robustness.evaluation.records import Layout, Records

SETTINGS = {'corruptions': ('contrast',), 'severities': (3,)}


def shown(views: CorruptionViews, image: np.ndarray, place: int) -> np.ndarray:
  """Returns an image in a view, in levels of 0..255."""
  made = views.views(image.shape)
  parameters = {name: values[place] for name, values in made.parameters.items()}
  result = jax.jit(made.show)(jax.random.key(0), {'image': image}, parameters)
  return np.asarray(result) * 255


def photograph(side: int) -> np.ndarray:
  """Returns a smooth picture of floats that are no levels, float32 [side, side, 3]."""
  y, x = np.mgrid[:side, :side] / side
  waves = [0.5 + 0.4 * np.sin(7 * x + k) * np.cos(5 * y - k) for k in range(3)]
  return np.stack(waves, -1).astype(np.float32)


def test_images_of_64_pixels_go_through_a_jpeg_file_of_quality_85() -> None:
  image = np.round(photograph(64) * 255).astype(np.float32) / 255
  truncated = shown(CorruptionViews(**SETTINGS, quantize='floor'), image, 1)
  file = io.BytesIO()
  Image.fromarray(np.round(truncated).astype(np.uint8)).save(file, 'JPEG', quality=85)
  expected = np.asarray(Image.open(file)).astype(float)
  stored = shown(CorruptionViews(**SETTINGS, protocol='as_released'), image, 1)
  np.testing.assert_allclose(stored, expected, atol=1e-3)
  assert np.abs(stored - truncated).max() > 1


def test_images_of_32_pixels_are_truncated_and_clean_ones_rounded() -> None:
  image = photograph(32)
  views = CorruptionViews(**SETTINGS, protocol='as_released')
  levels = np.round(image * 255).astype(np.float32)
  between = np.abs(image * 255 % 1 - 0.5) < 1e-3  # halves, but for the guard of `to_levels`
  clean = np.where(between, levels, shown(views, image, 0))
  np.testing.assert_allclose(clean, levels, atol=1e-3)
  levels = shown(views, image, 0).round()
  floor = shown(CorruptionViews(**SETTINGS, quantize='floor'), levels / np.float32(255), 1)
  np.testing.assert_allclose(shown(views, image, 1), floor, atol=1e-3)


def test_a_protocol_that_the_data_cannot_follow_is_refused() -> None:
  views = CorruptionViews(**SETTINGS, protocol='as_released')
  with pytest.raises(InputError, match=r'images are 28 × 28.*32, 64, 224 pixels'):
    views.views((28, 28, 1))
  with pytest.raises(InputError, match='images are 256 × 224'):
    views.views((256, 224, 3))
  with pytest.raises(InputError, match='constants is 64'):
    CorruptionViews(**SETTINGS, protocol='as_released', constants=64).views((32, 32, 3))
  assert views.views((32, 32, 3)).image_shape == (32, 32, 3), 'resized to the network afterwards'


def test_records_of_the_exact_protocol_are_those_of_before() -> None:
  assert 'protocol' not in CorruptionViews().recording
  assert CorruptionViews(protocol='as_released').recording['protocol'] == 'as_released'


def test_what_differs_from_a_released_set_is_said() -> None:
  shape = (224, 224, 3)
  exact, followed = CorruptionViews(), CorruptionViews(protocol='as_released')
  assert RELEASED[224].setting_differences(exact, shape) == [
    'frost is drawn, not photographed',
    'values are not rounded to 8 bits as released',
    'images are not stored as JPEG, quality 85',
  ]
  assert RELEASED[224].setting_differences(followed, shape) == ['frost is drawn, not photographed']
  known = {'name': 'cifar10:3.0.2', 'split': 'test'}
  assert RELEASED[32].data_differences(known, 10_000) == []
  assert RELEASED[32].data_differences({'source': 'digits'}, 300) == [
    'the data are not known to be those of CIFAR-10-C and CIFAR-100-C',
    '300 of 10000 images',
  ]
  photographs = {'name': 'imagenet2012:5.1.0', 'split': 'validation', 'resize': 256, 'crop': 224}
  as_pillow = {**photographs, 'interpolation': 'bilinear', 'resized_by': 'pillow'}
  assert RELEASED[224].data_differences(as_pillow, 50_000) == []
  otherwise = {**as_pillow, 'interpolation': 'bicubic'}
  assert RELEASED[224].data_differences(otherwise, 50_000) == [
    'images were prepared otherwise, without config.data.interpolation=bilinear'
  ]


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
    ({'settings': CorruptionViews(photographs='x')}, 'not rounded to 8 bits'),
    ({'settings': dataclasses.replace(FOLLOWED.settings, photographs='')}, 'frost is drawn'),
    (
      {'settings': dataclasses.replace(FOLLOWED.settings, severities=(5,))},
      'without severity 1, 2, 3, 4',
    ),
    ({'num_images': 1000}, '1000 of 10000 images'),
    ({'description': {'source': 'digits'}}, 'not known to be those of CIFAR-10-C'),
    (
      {'settings': CorruptionViews(), 'image_shape': (28, 28, 1)},
      'images are 28 × 28, not 32 × 32',
    ),
    ({'stored': True}, 'the source tfds is no released set'),
  ],
)
def test_each_difference_is_said(changes: dict, reason: str) -> None:
  words = value(dataclasses.replace(FOLLOWED, **changes), 'comparable with published tables')
  assert words.startswith('no: ') and reason in words


def test_released_files_as_they_are_compare() -> None:
  stored = dataclasses.replace(
    FOLLOWED, stored=True, settings=CorruptionViews(), description={'source': 'cifar10_c'}
  )
  assert value(stored, 'comparable with published tables') == 'yes'
  assert 'protocol' not in dict(stored.table().rows)


def test_the_subset_of_robustbench_compares_with_its_own_numbers() -> None:
  chosen = dataclasses.replace(
    FOLLOWED,
    stored=True,
    settings=CorruptionViews(),
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
