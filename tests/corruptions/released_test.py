"""Tests how released sets are made here, and what results say of their comparability."""

import dataclasses

import jax
import numpy as np
import pytest

from robustness.corruptions.names import SEVERITIES
from robustness.corruptions.stored import StoredOrMade
from robustness.corruptions.views import CorruptionViews, Provenance
from robustness.evaluation.layout import Layout
from robustness.evaluation.provenance import data_digest
from robustness.evaluation.records import Records
from tests.cases import cases
from tests.corruptions.digital_test import reference
from tests.corruptions.pictures import (
  constants,
  natural,
  share_within,
  smooth,
  through_a_file,
  zoom_blur,
)
from tests.refusals import bad_setting, refused

SIDE = 64
WITHOUT_DRAWS = (
  *('gaussian_blur', 'zoom_blur', 'brightness', 'contrast', 'saturate'),
  *('pixelate', 'jpeg_compression'),
)
SETTINGS = {'corruptions': ('contrast',), 'severities': (3,)}


def levels_in_view(views: CorruptionViews, image: np.ndarray, place: int) -> np.ndarray:
  """Returns an image in a view, in levels of 0..255."""
  made = views.views(image.shape)
  parameters = {name: values[place] for name, values in made.parameters.items()}
  result = jax.jit(made.show)(jax.random.key(0), {'image': image}, parameters)
  return np.asarray(result) * 255


def smooth_picture(side: int) -> np.ndarray:
  """Returns a smooth picture of values between levels, float32 [side, side, 3]."""
  y, x = np.mgrid[:side, :side] / side
  waves = [0.5 + 0.4 * np.sin(7 * x + k) * np.cos(5 * y - k) for k in range(3)]
  return np.stack(waves, -1).astype(np.float32)


def test_images_of_64_pixels_are_stored_as_jpeg_files():
  image = np.round(smooth_picture(64) * 255).astype(np.float32) / 255
  truncated = levels_in_view(CorruptionViews(**SETTINGS, quantize='floor'), image, 1)
  stored = levels_in_view(CorruptionViews(**SETTINGS, protocol='as_released'), image, 1)
  np.testing.assert_allclose(stored, through_a_file(truncated.round(), 85), atol=1e-3)
  assert np.abs(stored - truncated).max() > 1


def test_images_of_32_pixels_are_truncated_to_levels():
  image = smooth_picture(32)
  views = CorruptionViews(**SETTINGS, protocol='as_released')
  levels = np.round(image * 255).astype(np.float32)
  # Values half-way between levels may be rounded up or down, within the tolerance of `to_levels`.
  between = np.abs(image * 255 % 1 - 0.5) < 1e-3
  clean = np.where(between, levels, levels_in_view(views, image, 0))
  np.testing.assert_allclose(clean, levels, atol=1e-3)
  levels = levels_in_view(views, image, 0).round()
  floor = levels_in_view(CorruptionViews(**SETTINGS, quantize='floor'), levels / np.float32(255), 1)
  np.testing.assert_allclose(levels_in_view(views, image, 1), floor, atol=1e-3)


def test_a_protocol_that_the_data_cannot_follow_is_refused():
  views = CorruptionViews(**SETTINGS, protocol='as_released')
  other = CorruptionViews(**SETTINGS, protocol='as_released', constants=64)
  refused(bad_setting('config.study.constants', 64), other.views, (32, 32, 3))
  refused(r'images are 28 × 28.*32, 64, 224 pixels', views.views, (28, 28, 1))
  refused('images are 256 × 224', views.views, (256, 224, 3))
  assert views.views((32, 32, 3)).image_shape == (32, 32, 3), 'resized to the network afterwards'
  mixed = CorruptionViews(('laion_c', 'fog'), protocol='as_released')
  refused('glitched is of another released set than ImageNet-C', mixed.views, (224, 224, 3))


MADE = CorruptionViews(protocol='as_released', photographs='imagecorruptions')
TFDS = {'source': 'tfds', 'name': 'cifar10:3.0.2', 'split': 'test'}
FOLLOWED = Provenance(MADE, TFDS, 'ab12', 10_000, (32, 32, 3), "RobustBench's Standard")
"""CIFAR-10-C made by the protocol of the released set."""
STORED = dataclasses.replace(
  FOLLOWED, settings=StoredOrMade(source='stored'), description={'source': 'cifar10_c'}
)
"""CIFAR-10-C as it was released."""
COMPARABLE = 'comparable with published tables'


def value(provenance: Provenance, line: str = COMPARABLE) -> str:
  """Returns a line of the table in results that says which numbers these are."""
  return dict(provenance.table().rows)[line]


@pytest.fixture(autouse=True)
def without_photographs(monkeypatch):
  """Describes photographs of frost without their package, which need not be installed."""
  facts = property(lambda self: {'frost': {'source': 'photographs', 'from': self.photographs}})
  monkeypatch.setattr(CorruptionViews, 'facts', facts)


def test_images_made_by_the_protocol_are_comparable():
  assert value(FOLLOWED).startswith('yes, but for the random')
  assert value(FOLLOWED, 'storage') == '8-bit arrays'
  assert value(FOLLOWED, 'frost') == 'photographs, imagecorruptions'
  assert value(FOLLOWED, 'data') == 'tfds, cifar10:3.0.2, test'
  assert value(FOLLOWED, 'mCE divides by').startswith('RobustBench')


def test_released_images_are_comparable_with_the_tables_of_their_corruptions():
  assert value(STORED) == 'yes'
  assert 'protocol' not in dict(STORED.table().rows)
  settings = dataclasses.replace(STORED.settings, corruptions=('fourier_cifar',))
  line = value(dataclasses.replace(STORED, settings=settings))
  assert line.startswith('yes; with tables 2 and 3 of Yin et al.'), 'they have another 15'
  settings = dataclasses.replace(STORED.settings, corruptions=('fourier_imagenet',))
  line = value(dataclasses.replace(STORED, settings=settings))
  assert line.startswith('no: without motion_blur, s')


def test_all_of_robustbenchs_subset_is_comparable_with_its_tables():
  subset = {'source': 'imagenet_c', 'image_list': 'robustbench'}
  listed = dataclasses.replace(STORED, description=subset, image_shape=(224, 224, 3))
  listed = dataclasses.replace(listed, num_images=5000)
  assert value(listed, 'images') == "5000, RobustBench's subset"
  assert value(listed).startswith("yes, with RobustBench's")
  assert '4999 of 50000 images' in value(dataclasses.replace(listed, num_images=4999))


def test_tiny_imagenet_c_is_comparable_as_released_and_not_as_made_here():
  described = {'source': 'folder', 'name': 'tiny_imagenet', 'split': 'val'}
  made = dataclasses.replace(FOLLOWED, description=described, image_shape=(64, 64, 3))
  assert value(made) == 'no: the clean images of Tiny-ImageNet-C were not released'
  stored = {'settings': STORED.settings, 'description': {'source': 'tiny_imagenet_c'}}
  assert value(dataclasses.replace(made, **stored)) == 'yes'


PREPARED = {'name': 'imagenet2012:5.1.0', 'split': 'validation', 'resize': 256, 'crop': 224}
PREPARED |= {'interpolation': 'bilinear', 'resized_by': 'pillow'}
DRAWN_FROST = {'settings': dataclasses.replace(FOLLOWED.settings, photographs='')}
IMAGENET = {**DRAWN_FROST, 'description': PREPARED, 'num_images': 50_000}
IMAGENET |= {'image_shape': (224, 224, 3)}
DRAWN, FLOATS = 'frost is drawn, not photographed', 'values are not rounded to 8 bits as released'
SHORT = dataclasses.replace(FOLLOWED.settings, severities=(5,))
UNKNOWN = 'the data are not known to be those of CIFAR-10-C and CIFAR-100-C'


@cases(
  'changes, reasons',
  ({'settings': CorruptionViews(photographs='x')}, [FLOATS]),
  (DRAWN_FROST, [DRAWN]),
  ({'settings': SHORT}, ['without severity 1, 2, 3, 4']),
  ({'num_images': 1000}, ['1000 of 10000 images']),
  ({'description': {'source': 'digits'}, 'num_images': 300}, [UNKNOWN, '300 of 10000 images']),
  (
    {'settings': CorruptionViews(), 'image_shape': (28, 28, 1)},
    ['images are 28 × 28, not 32 × 32', DRAWN, FLOATS],
  ),
  ({'settings': STORED.settings}, ['the source tfds is no released set']),
  (
    IMAGENET | {'settings': CorruptionViews()},
    [DRAWN, FLOATS, 'images are not stored as JPEG, quality 85'],
  ),
  (IMAGENET, [DRAWN]),
  (
    IMAGENET | {'settings': CorruptionViews(('laion_c',), quantize='floor')},
    ['the clean images of LAION-C were not released', 'images are not stored as JPEG, quality 100'],
  ),
  (
    IMAGENET | {'description': PREPARED | {'interpolation': 'bicubic'}},
    ['images were prepared otherwise, without config.data.interpolation=bilinear', DRAWN],
  ),
)
def test_each_difference_from_the_released_set_is_named(changes, reasons):
  changed = dataclasses.replace(FOLLOWED, **changes)
  assert changed.differences == reasons
  assert value(changed).startswith('no: ' + reasons[0])


def test_corruptions_of_another_set_are_compared_with_that_set():
  settings = CorruptionViews(('c_bar_imagenet',), quantize='floor')
  made = dataclasses.replace(FOLLOWED, **IMAGENET | {'settings': settings})
  assert value(made).startswith('yes, but for the random')
  as_released = dataclasses.replace(settings, protocol='as_released', quantize='')
  assert value(dataclasses.replace(made, settings=as_released), 'storage') == '8-bit arrays'


def test_the_digest_depends_on_the_images_and_not_on_their_order(tmp_path):
  def digest(name: str, ids: list[int], digests: list[int]) -> str:
    records = Records(tmp_path / name, Layout(3, 1, 3, 1), {})
    columns = {'example_id': np.array(ids), 'image_digest': np.array(digests, np.uint32)}
    records.write(0, 0, {**columns, 'rank': np.zeros((3, 1), np.int32)})
    return data_digest(records)

  first = digest('a', [0, 1, 2], [7, 8, 9])
  assert len(first) == 12
  assert digest('b', [2, 0, 1], [9, 7, 8]) == first
  assert digest('c', [0, 1, 2], [7, 8, 1]) != first


def as_generated(name: str, picture: np.ndarray, severity: int) -> np.ndarray:
  """Returns an image as the generator stores it: float64, truncated, JPEG of quality 85; in 0..1.

  A remainder of 2⁻¹² of a level is not truncated.
  """
  values = constants(name, SIDE, severity)
  x = picture.astype(np.float64)
  if name == 'gaussian_blur':
    made = smooth(x, values[0])
  elif name == 'zoom_blur':
    made = zoom_blur(x, values[0])
  else:
    made = reference(name, picture, values)
  return through_a_file(np.floor(np.clip(made, 0, 1) * 255 + 2**-12), 85) / 255


def test_files_made_here_are_those_of_the_generator():
  """Seven corruptions without random numbers at five severities make 35 files."""
  study = CorruptionViews(corruptions=WITHOUT_DRAWS, protocol='as_released')
  picture = natural(SIDE, SIDE, seed=4)
  views = study.views(picture.shape)
  show = jax.jit(views.show)
  names = [(name, severity) for name in study.names for severity in SEVERITIES]
  assert len(names) == len(views) - 1 == 35
  for place, (name, severity) in enumerate(names, 1):
    parameters = {key: values[place] for key, values in views.parameters.items()}
    ours = show(jax.random.key(0), {'image': picture}, parameters)
    assert share_within(ours, as_generated(name, picture, severity), 2) > 0.99, (name, severity)
