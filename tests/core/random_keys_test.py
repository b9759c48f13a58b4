"""Tests random keys: what they depend on, and that their numbers stay between releases."""

import random
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import robustness
from robustness.attacks import ATTACKS
from robustness.augment import AUGMENTATIONS, policy
from robustness.core import random_images, random_keys
from robustness.evaluation import study as studies
from robustness.parallel import MeshParallel, PmapParallel
from robustness.parallel.mesh import REPLICATED
from tests.cases import cases
from tests.refusals import refused


@pytest.fixture
def not_partitionable():
  """Sets the flag of JAX that JAX_THREEFRY_PARTITIONABLE=0 sets."""
  jax.config.update('jax_threefry_partitionable', False)
  yield
  jax.config.update('jax_threefry_partitionable', True)


def bits(seed, name, example, view):
  """Returns 32 random bits of a key."""
  key = random_keys.for_example(random_keys.stream(seed, name), np.int32(example), np.int32(view))
  return int(jax.random.bits(key))


def test_seed_stream_example_and_view_change_the_key_and_tracing_does_not():
  examples_and_views = [(3, 7), (4, 7), (3, 8), (7, 3)]
  drawn = {bits(0, 'fourier_heatmap', *pair) for pair in examples_and_views}
  assert len({*drawn, bits(1, 'fourier_heatmap', 3, 7), bits(0, 'accuracy', 3, 7)}) == 6
  key = random_keys.stream(5, 'x')
  traced = jax.jit(random_keys.for_example)(key, np.int32(2), np.int32(9))
  expected = random_keys.for_example(key, 2, 9)
  np.testing.assert_array_equal(jax.random.key_data(traced), jax.random.key_data(expected))


def test_streams_keep_their_names():
  """The number of a stream is the CRC-32 of its name: a renamed part draws other numbers."""
  names = 'augmix auto_augment corruption crop cutmix environment flip fog_noise gaussian mixup'
  names += ' patch_gaussian rand_augment random_resized_crop repeat'
  assert set(names.split()) <= set(AUGMENTATIONS.classes())
  assert {'auto_pgd', 'fgsm', 'pgd'} <= set(ATTACKS.classes())
  drawn = policy.row_keys({'example_id': jnp.array([3])}, 0, 'flip', jnp.int32(7))
  assert int(jax.random.bits(drawn[0])) == bits(0, 'training/flip', 3, 7) == 2100468367
  named = 'accuracy attack_error band_noise filtered_accuracy fourier_attack fourier_heatmap'
  named += ' fourier_preview si_score systematic video_pm_k'
  shared = 'all_but_one calibration corruption_error corruption_spectrum flip_rate tradeoff'
  streams = {n: n for n in named.split()} | dict.fromkeys(shared.split(), 'corruption_error')
  assert {name: studies.from_config({'name': name}).stream for name in streams} == streams


@cases(
  'study, ids',
  ({'name': 'attack_error', 'attacks': ('pgd', 'fgsm')}, [0, 40161840, 439317356]),
  ({'name': 'band_noise', 'kinds': ('low_pass',), 'bandwidths': (1, 3)}, [0, 2, 6]),
  ({'name': 'band_noise', 'kinds': ('high_pass',), 'bandwidths': (2, 4)}, [0, 5, 9]),
  ({'name': 'fourier_heatmap', 'window': 3}, [0, 25, 21, 22, 5, 1]),
  ({'name': 'systematic', 'environments': ('rotation', 'fog')}, [0, 1090, 1180, 1270, 46]),
)
def test_ids_of_views_stay(study, ids):
  """Ids of corruptions are in tests/corruptions/corruption_test.py."""
  assert studies.from_config(study).views((5, 5, 3)).ids.tolist()[: len(ids)] == ids


def test_reference_values():
  """Published results depend on these numbers: they must not change with a release."""
  drawn = [bits(0, 'fourier_heatmap', e, v) for e, v in ((0, 0), (0, 1), (1, 0))]
  assert drawn == [2567673510, 1122332074, 3013890363]


def test_repeated_rows_of_a_batch_have_different_keys():
  ids = np.array([7, 3, 7, 7, 0, 3], np.int32)
  occurrences = random_keys.occurrences(ids)
  assert occurrences.tolist() == [0, 0, 1, 2, 0, 1]
  stream = random_keys.stream(0, 'training/crop')
  keys = jax.vmap(random_keys.for_occurrence, (None, 0, None, 0))(stream, ids, 5, occurrences)
  drawn = [int(jax.random.bits(key)) for key in keys]
  assert len(set(drawn)) == 6
  assert [drawn[k] for k in (0, 1, 4)] == [bits(0, 'training/crop', e, 5) for e in (7, 3, 0)]
  assert drawn[2:4] == [44410394, 1388325365], 'trainings depend on these numbers'
  by_device = np.array([[4, 1], [1, 4], [2, 4], [1, 1]], np.int32)
  count = jax.pmap(lambda ids: random_keys.occurrences(ids, 'data'), 'data')
  assert count(by_device).tolist() == [[0, 0], [1, 1], [0, 2], [2, 3]]


@pytest.mark.usefixtures('not_partitionable')
def test_a_flag_of_jax_changes_no_number_and_a_context_is_refused():
  test_reference_values()
  key = random_keys.stream(0, 'fourier_heatmap')
  assert jax.random.bits(key, (2,)).tolist() == [769310925, 630560336]
  with jax.threefry_partitionable(False):  # which the code cannot override
    refused('leave the context', random_keys.stream, 0, 'accuracy')


@pytest.mark.slow
@pytest.mark.parametrize('shape', [(5, 7, 3), (4, 6, 1), (8, 9)])
def test_whole_images_have_the_numbers_of_their_shape(shape):
  key = jax.random.key(3)
  bits, normal = jax.random.bits(key, shape, jnp.uint32), jax.random.normal(key, shape)
  np.testing.assert_array_equal(random_images.bits(key, shape), bits)
  np.testing.assert_array_equal(random_images.uniform(key, shape), jax.random.uniform(key, shape))
  np.testing.assert_allclose(random_images.normal(key, shape), normal, rtol=2e-6, atol=1e-6)


@jax.jit
def jitted(x):
  """Adds a number of a global generator, which the cache of JAX would keep."""
  return x + np.random.normal()


def draws_before_a_call(x):
  """Draws from a global generator, and then calls a function that does not."""
  noise = np.random.normal()
  return (lambda y: y + noise)(x)


@pytest.mark.parametrize(
  'shake',
  [
    draws_before_a_call,
    lambda x: x + np.random.normal(size=3),
    lambda x: x + random.gauss(0, 1),
    jitted,
    jax.vmap(lambda x: x + np.random.rand()),
  ],
)
def test_draws_of_global_generators_in_a_traced_function_are_refused(shake):
  compiled = jax.jit(random_keys.without_global_draws(lambda x: shake(x)))
  text = refused('random_keys_test.py draws from np.random', compiled, jnp.zeros(3))
  assert text.startswith(('test_draws_of_global', '<lambda>', 'jitted', 'draws_before_a_call in'))


def test_generators_of_their_own_and_draws_of_other_threads_are_not_refused():
  calls = []

  def draws_elsewhere(x):
    if not calls:
      thread = threading.Thread(target=random.random)
      thread.start()
      thread.join()
    calls.append(x)
    return x + np.random.default_rng(0).normal() + random.Random(0).random()

  value = jax.jit(random_keys.without_global_draws(draws_elsewhere))(0.0)
  assert len(calls) == 2 and np.isfinite(value)


SHAKEN = """
import numpy as np

from robustness.augment import Augmentation
from robustness.corruptions.corruption import corruption


class Shake(Augmentation):
  resembles = ()

  def __call__(self, key, example):
    return {**example, 'image': example['image'] + np.random.normal()}


@corruption('sigma', {32: (1, 2, 3, 4, 5), 224: (1, 2, 3, 4, 5)}, family='alone')
def shake(key, image, strength):
  return image + strength['sigma'] * np.random.normal(size=image.shape)

"""


def test_steps_and_functions_of_arrays_refuse_global_draws(tmp_path):
  (tmp_path / 'shaken.py').write_text(SHAKEN)
  images = np.zeros((2, 8, 8, 3), np.float32)
  name = f'{tmp_path}/shaken.py'
  message = 'in .*shaken.py draws from'
  refused(message, robustness.apply_policy, 0, images, np.zeros(2, int), [f'{name}:Shake'])
  refused(message, robustness.corrupt, 0, images, f'{name}:shake', 3)
  for parallel in (MeshParallel(), PmapParallel()):
    step = parallel.compile(lambda x: x + np.random.normal(), (REPLICATED,), REPLICATED)
    refused('lambda.*draws from', step, parallel.replicate(np.zeros(2)))
