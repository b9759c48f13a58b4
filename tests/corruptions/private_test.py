"""Tests that a corruption in a user's file or package works wherever the ones here do, by name."""

import importlib
import json
import sys

import jax
import numpy as np
import pytest

from robustness import corruptions
from robustness.augment.corruption import RandomCorruption
from robustness.config.defaults import default_config
from robustness.corruptions.corruption import corruption
from robustness.corruptions.names import NUMBERS, view_id
from robustness.corruptions.views import CorruptionViews
from robustness.environments import transforms
from robustness.evaluation import recorded_study
from robustness.results import Results
from robustness.studies.corruption_error import CorruptionError
from robustness.studies.flip_rate import FlipRate
from tests.augment import pictures
from tests.end_to_end import runs
from tests.refusals import refused

DARKEN = """
from robustness.corruptions.corruption import corruption

@corruption('factor', {32: (0.9, 0.8, 0.7, 0.6, 0.5)}, family='alone')
def darken(key, image, strength):
  return strength['factor'] * image

@corruption('factor', {32: (2, 2, 2, 2, 2)}, family='alone')
def lighten(key, image, strength):
  return strength['factor'] * image / (image != image[:1])

@corruption('factor', {32: (1, 1, 1, 1, 1)}, family='alone')
def cropped(key, image, strength):
  return image[2:]

def brightness(key, image, strength):
  return image

fog = darken
"""
IMAGES = np.random.default_rng(0).random((2, 32, 32, 3), np.float32)


@pytest.fixture(params=['file', 'package'])
def code(request, tmp_path, monkeypatch):
  """The part of a reference before ':NAME': a file, or a module of an installed package."""
  package = tmp_path / 'their_package'
  package.mkdir()
  (package / '__init__.py').touch()
  (package / 'shades.py').write_text(DARKEN)
  monkeypatch.syspath_prepend(str(tmp_path))
  importlib.invalidate_caches()
  yield str(package / 'shades.py') if request.param == 'file' else 'their_package.shades'
  for name in ('their_package.shades', 'their_package'):
    sys.modules.pop(name, None)


def test_functions_of_arrays_and_studies_accept_a_private_corruption(code):
  name = f'{code}:darken'
  np.testing.assert_allclose(corruptions.corrupt(0, IMAGES, name, 5), IMAGES / 2, atol=1e-6)
  np.testing.assert_allclose(corruptions.corrupt(0, IMAGES, name, 4.5), 0.55 * IMAGES, atol=1e-6)
  study = CorruptionError(corruptions=('fog', name), severities=(1, 5))
  assert study.names == ('fog', 'darken') and study.references == ('fog', name)
  assert study.facets((32, 32, 3)).corruption[1:].tolist() == ['fog', 'fog', 'darken', 'darken']
  views = study.views((32, 32, 3))
  assert views.ids[-1] == view_id('darken', 5) and len({*views.ids.tolist()}) == 5
  digest = study.recording['files']['darken']['file_sha256']
  assert len(digest) == 64 and study.describe()['files']['darken']['file'] == 'shades.py'
  assert 'files' not in CorruptionError(corruptions=('fog',)).recording
  flips = FlipRate(corruptions=(name,), frames=3).view_table((32, 32, 3)).names
  assert flips == ['darken 1', 'darken 3', 'darken 5']


def test_values_of_a_private_corruption_are_clipped_and_checked(code):
  for quantize in (None, 'floor'):
    lighter = np.asarray(corruptions.corrupt(0, IMAGES, f'{code}:lighten', 1, quantize))
    assert np.isnan(lighter[:, 0]).all()  # 0 / 0 has no level
    np.testing.assert_allclose(lighter[:, 1:], np.minimum(2 * IMAGES, 1)[:, 1:], atol=1 / 255)
  refused(
    'returns float32 of shape .30, 32, 3.', corruptions.corrupt, 0, IMAGES, f'{code}:cropped', 1
  )


def test_trainings_and_environments_accept_a_private_corruption(code):
  name = f'{code}:darken'
  augmentation = RandomCorruption((name,), severities=(5,))
  image, keys = jax.numpy.asarray(IMAGES[0]), jax.random.split(jax.random.key(0), 2)
  for made in pictures.augmented(augmentation, keys, image):
    np.testing.assert_allclose(made, IMAGES[0] / 2, atol=1e-6)
  assert augmentation.describe()['files']['darken']['file'] == 'shades.py'
  transformed = transforms.transform(keys[0], image, 1, jax.numpy.float32(3), (name,))
  np.testing.assert_allclose(transformed, 0.7 * IMAGES[0], atol=1e-6)


def test_other_objects_and_taken_names_are_refused(code):
  refused('with @corruption', CorruptionViews, corruptions=(f'{code}:brightness',))
  refused('a function of a new name', CorruptionViews, corruptions=(f'{code}:fog',))
  refused("has no 'dark'", corruptions.corrupt, 0, IMAGES, f'{code}:dark', 1)
  refused('no published constants', corruptions.corrupt, 0, IMAGES, f'{code}:darken', 1, side=224)


@pytest.mark.parametrize('by_side', [{28: (1, 2, 3, 4, 5), 32: (1, 2, 3, 4, 5)}, {32: (1, 2)}])
def test_constants_that_no_image_would_get_are_refused(by_side):
  refused('5 for sides in 32, 64, 224, 299', corruption, 'factor', by_side, 'alone')


def test_a_module_that_is_not_installed_is_named():
  message = "names 'their_package.shades:darken': no module 'their_package' is installed"
  refused(message, CorruptionViews, corruptions=('their_package.shades:darken',))


def test_results_are_read_without_the_code_of_the_corruption(code):
  section = {'name': 'corruption_error', 'corruptions': [f'{code}:darken']}
  study = recorded_study.study_of_results(section, 'corruption_error', {})
  assert isinstance(study, recorded_study.RecordedStudy)
  assert 'their_package' not in sys.modules


def test_ids_of_views_differ_from_the_ids_of_the_corruptions_here():
  last = 5 * max(NUMBERS.values()) + 5
  for name in ('darken', 'sepia', 'grain'):
    assert last < 1000 < 50_000 < view_id(name, 1) < view_id(name, 5) < 10**6
    assert 10**6 + 1000 * last < view_id(name, 1.5) < 2**31


@pytest.mark.slow
def test_a_run_measures_and_trains_on_a_private_corruption(code, tmp_path):
  name = f'{code}:darken'
  config = default_config('corruption_error', labels=('plain', 'dark'))
  config.update_from_flattened_dict(runs.flat(runs.SMALL))
  config.study.corruptions, config.study.severities = (name,), (1, 5)
  for classifier in config.classifiers.values():
    classifier.train = True
  config.classifiers.dark.augment.policy = ('corruption',)
  config.classifiers.dark.augment.corruption.corruptions = (name,)
  results = runs.run(config, tmp_path / 'run')
  rows = results.table[(results.table.quantity == 'error') & results.table.severity.notna()]
  assert set(rows.corruption) == {'darken'} and len(rows[rows.versus == '']) == 4
  assert results.settings['files']['darken']['file'] == 'shades.py'
  stored = json.loads((tmp_path / 'run/config.json').read_text())
  assert stored['study']['corruptions'] == [name]
  assert Results.read(tmp_path / 'run').table.equals(results.table)
