"""Tests that corrupted images of a run do not depend on batch size, devices or pmap, to the bit."""

import dataclasses

import jax
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.corruptions.released import RELEASED
from robustness.corruptions.views import CorruptionOptions, CorruptionViews
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.pmap import PmapParallel
from tests.corruptions.pictures import natural
from tests.refusals import bad_setting, refused

COUNT, SIDE = 16, 32
SUMS_OF_PIXELS = ('glass_blur', 'gaussian_blur', 'fog', 'contrast', 'elastic_transform')
"""Corruptions that sum over pixels, of which compiled programs may change the order."""


def images_of_a_run(folder, quantize: str, devices, batch_size: int) -> np.ndarray:
  """Returns what every row looks like in every view, float32 [views, COUNT, SIDE, SIDE, 3]."""
  study = CorruptionViews(corruptions=SUMS_OF_PIXELS, severities=(3, 5), quantize=quantize)
  shape = (SIDE, SIDE, 3)
  replacements = {'image_shape': shape, 'measure': lambda row, image, view: {'image': image}}
  views = dataclasses.replace(study.views(shape), **replacements)
  evaluator = Evaluator(None, views, random_keys.stream(0, 'corruption_error'), devices)
  images = np.stack([natural(SIDE, SIDE, seed=seed) for seed in range(COUNT)])
  rows = ArrayRows(images, np.zeros(COUNT, int), ('a',))
  records = Records(folder, evaluator.layout(COUNT, batch_size), {})
  evaluator.evaluate(rows, records)
  return np.stack([records.column('measure/image', view) for view in range(len(views))])


def test_a_variant_of_a_corruption_that_is_not_shown_changes_no_images():
  options = CorruptionOptions(motion_blur='fixed', glass_blur='swap')
  for names, expected in ((('fog',), ()), (('fog', 'glass_blur'), ('glass_blur',))):
    study = CorruptionViews(corruptions=names, options=options)
    assert tuple(study.variants) == expected
    differs = study.settings_differ(RELEASED[SIDE], (SIDE, SIDE, 3))
    has_variant = any(differs[line] for line in differs if line.startswith('variants of'))
    assert has_variant == bool(expected)
  CorruptionViews(corruptions=('fog',), options=options, protocol='as_released')
  made = {'corruptions': ('glass_blur',), 'options': options, 'protocol': 'as_released'}
  refused(bad_setting('config.study.options', 'glass_blur'), CorruptionViews, **made)


@pytest.mark.shared_bits
@pytest.mark.parametrize(
  ('quantize', 'layouts'), [('', ('single', 'mesh', 'pmap')), ('floor', ('mesh',))]
)
def test_batch_size_devices_and_pmap_change_no_bit(tmp_path, quantize, layouts):
  single = MeshParallel(jax.devices()[:1])
  expected = images_of_a_run(tmp_path / 'whole', quantize, single, COUNT)
  mesh, pmap = MeshParallel(jax.devices()[:4]), PmapParallel(jax.devices()[:2])
  cases = {'single': (single, 1), 'mesh': (mesh, 8), 'pmap': (pmap, 6)}
  for name in layouts:
    devices, batch_size = cases[name]
    made = images_of_a_run(tmp_path / name, quantize, devices, batch_size)
    np.testing.assert_array_equal(made, expected, err_msg=name)
