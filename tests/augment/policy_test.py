"""A policy of augmentations: what a part draws depends on its own key and on nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment import AUGMENTATIONS
from robustness.augment.policy import Policy, from_section
from robustness.core.errors import InputError
from robustness.parallel import Parallel
from robustness.parallel.mesh import BATCH, MeshParallel
from robustness.parallel.pmap import PmapParallel

Alone = Callable[[str], Callable[..., dict[str, jax.Array]]]
NAMES = tuple(AUGMENTATIONS.classes())
SEED = 3
SPECTRUM = {'spectrum': np.ones((1, 10, 8), np.float32), 'severity': np.array([3])}


@pytest.fixture(scope='module')
def sections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
  """Settings of the augmentations that need some for images as small as these."""
  fog = tmp_path_factory.mktemp('fog') / 'fog.npz'
  np.savez(fog, provenance='', **SPECTRUM)
  return {
    'fog_noise': {'spectrum': str(fog)},
    'corruption': {'corruptions': ('contrast', 'speckle_noise'), 'severities': (4, 5)},
    'patch_gaussian': {'size': 5},
    'cutout': {'size': 5},
    'environment': {'transforms': ('contrast', 'speckle_noise'), 'share': 0.8},
  }


@pytest.fixture(scope='module')
def alone(sections: dict[str, dict]) -> Alone:
  """Returns a function from a name to its policy of one part, compiled for all seeds and steps:
  `augment(examples, seed, step)`."""

  @functools.cache
  def compiled(name: str) -> Callable[..., dict[str, jax.Array]]:
    return jax.jit(Policy.of(**{name: sections.get(name, {})}))

  return compiled


def batch(size: int = 16) -> dict[str, jax.Array]:
  generator = np.random.default_rng(0)
  return {
    'image': jnp.asarray(generator.random((size, 10, 8, 3), np.float32)),
    'label': jnp.arange(size, dtype=jnp.int32) % 4,
    'target': jax.nn.one_hot(jnp.arange(size) % 4, 4),
    'example_id': jnp.arange(100, 100 + size, dtype=jnp.int32),
    'severity': jnp.arange(size, dtype=jnp.int32),
    'class_group': jnp.arange(size, dtype=jnp.int32) % 3,
  }


def rows(examples: dict[str, jax.Array], index: slice | list[int]) -> dict[str, jax.Array]:
  return {name: value[jnp.asarray(np.arange(16)[index])] for name, value in examples.items()}


def test_an_empty_policy_changes_nothing() -> None:
  examples = batch()
  assert Policy()(examples, SEED, jnp.int32(0)) is examples


@pytest.mark.parametrize('name', NAMES)
def test_an_image_is_the_same_in_any_layout(name: str, sections: dict, alone: Alone) -> None:
  """One device or eight, jit or pmap or neither: equal but for fused multiplications, 1e-6."""
  policy, step = Policy.of(**{name: sections.get(name, {})}), jnp.int32(7)
  plain = alone(name)(batch(), SEED, step)
  assert not np.array_equal(plain['image'], batch()['image'])
  for kind in (MeshParallel, PmapParallel):
    parallel = kind(jax.devices()[:8])

    def apply(examples: dict, parallel: Parallel = parallel) -> dict:
      return policy(examples, SEED, step, parallel)

    other = parallel.gather(parallel.compile(apply, (BATCH,), BATCH)(parallel.put_batch(batch())))
    for key in ('image', 'target', 'label', 'severity'):
      np.testing.assert_allclose(other[key], plain[key], atol=1e-6)


@pytest.mark.parametrize('name', [n for n in NAMES if n not in ('mixup', 'cutmix')])
def test_a_row_does_not_depend_on_the_batch_around_it(name: str, alone: Alone) -> None:
  """Among other rows, by the same program; of pmap's, above, each device has two rows."""
  whole = alone(name)(batch(), SEED, jnp.int32(7))
  for part in ([0, 1, 2, 3], [9, 2, 7, 15]):
    some = alone(name)(rows(batch(), 4 * part), SEED, jnp.int32(7))
    np.testing.assert_allclose(some['image'], whole['image'][np.array(4 * part)], atol=1e-6)


@pytest.mark.parametrize('name', NAMES)
def test_draws_change_with_the_step_and_the_seed(name: str, alone: Alone) -> None:
  if name == 'repeat':
    return  # it draws nothing
  images = [
    alone(name)(batch(), seed, jnp.int32(step))['image'] for seed, step in ((0, 0), (0, 1), (1, 0))
  ]
  assert not any(np.array_equal(images[0], other) for other in images[1:])


def test_a_part_that_gives_one_image_never_changes_the_draw_of_another() -> None:
  flips = Policy.of(flip={})(batch(), SEED, jnp.int32(1))['image']
  flipped = (np.asarray(flips) != np.asarray(batch()['image'])).any((1, 2, 3))
  assert 0 < flipped.sum() < 16
  for other in ('crop', 'gaussian'):
    alone = Policy.of(**{other: {}})
    for order in (('flip', other), (other, 'flip')):
      both = Policy.of(**{name: {} for name in order})(batch(), SEED, jnp.int32(1))['image']
      mirrored = {**batch(), 'image': flips} if order[0] == 'flip' else batch()
      expected = alone(mirrored, SEED, jnp.int32(1))['image']
      if order[1] == 'flip':
        expected = np.where(flipped[:, None, None, None], expected[:, :, ::-1], expected)
      np.testing.assert_allclose(both, expected, atol=1e-6)


def test_the_order_is_that_of_the_policy() -> None:
  black = {**batch(), 'image': jnp.zeros((16, 10, 8, 3))}
  noisy_last = Policy.of(crop={'padding': 8}, gaussian={'sigma': 0.5})(black, SEED, jnp.int32(0))
  noisy_first = Policy.of(gaussian={'sigma': 0.5}, crop={'padding': 8})(black, SEED, jnp.int32(0))
  assert (noisy_last['image'] > 0).mean() > (noisy_first['image'] > 0).mean() + 0.1


def test_what_follows_repeat_draws_for_every_image_apart() -> None:
  images = Policy.of(repeat={'copies': 3}, gaussian={})(batch(), SEED, jnp.int32(0))['image']
  assert images.shape == (16, 3, 10, 8, 3)
  assert not np.array_equal(images[:, 0], images[:, 1])
  alone = Policy.of(gaussian={})(batch(), SEED, jnp.int32(0))['image']
  assert not any(np.allclose(images[:, view], alone) for view in range(3)), (
    'as docs/training.md says'
  )
  plain = Policy.of(repeat={'copies': 3})(batch(), SEED, jnp.int32(0))
  assert set(plain) == set(batch()), 'columns stay'
  np.testing.assert_array_equal(plain['image'][:, 2], batch()['image'])


@pytest.mark.parametrize('name', ['mixup', 'cutmix'])
def test_all_images_of_a_row_are_mixed_by_one_share(name: str) -> None:
  mixed = Policy.of(repeat={'copies': 3}, **{name: {}})(batch(), SEED, jnp.int32(0))
  alone = Policy.of(**{name: {}})(batch(), SEED, jnp.int32(0))
  np.testing.assert_array_equal(mixed['target'], alone['target'])
  for view in range(3):
    np.testing.assert_allclose(mixed['image'][:, view], alone['image'], atol=1e-6)


@pytest.mark.parametrize('repeat', [{}, {'repeat': {}}])
def test_rows_sorted_by_branch_are_those_in_sequence(
  repeat: dict, sections: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
  """As an accelerator takes them, on several devices: the same images."""
  policy = Policy.of(**repeat, corruption={**sections['corruption'], 'probability': 0.7})
  parallel = MeshParallel(jax.devices()[:2])
  for way in ('in sequence', 'sorted'):
    with monkeypatch.context() as patched:
      if way == 'sorted':
        patched.setattr(type(policy.augmentations[-1]), 'sequential', False)
      apply = parallel.compile(lambda x: policy(x, SEED, jnp.int32(2), parallel), (BATCH,), BATCH)
      images = np.asarray(apply(parallel.put_batch(batch()))['image'])
    if way == 'in sequence':
      expected = images
  np.testing.assert_allclose(images, expected, atol=1e-6)


def test_images_of_a_row_are_not_multiplied_twice() -> None:
  with pytest.raises(InputError, match="'augmix' gives several images of a row, and so does"):
    jax.eval_shape(lambda: Policy.of(repeat={}, augmix={})(batch(2), SEED, jnp.int32(0)))


@pytest.mark.parametrize(
  ('section', 'message'),
  [
    ({'policy': ('flip', 'flop')}, r"config\.c\.augment\.policy names 'flop'; did you mean 'flip'"),
    ({'policy': ('flip', 'crop', 'flip')}, r"policy names 'flip' twice"),
    ({'policy': 'flip'}, r"policy is 'flip'; it must be a tuple of names.*'crop'.*cutmix"),
    ({'policy': ('',)}, r"policy is \('',\); it must be a tuple of names"),
    ({'policy': (1,)}, r'policy is \(1,\)'),
    ({'flipp': {}}, r"unknown key config\.c\.augment\.flipp: did you mean 'flip'"),
    ({'crop': {'pading': 3}}, r"unknown key config\.c\.augment\.crop\.pading: .*'padding'"),
    ({'crop': {'padding': -1}}, r'augment\.crop\.padding is -1'),
    ({'crop': {'border': 'white'}}, r"augment\.crop\.border is 'white'"),
    ({'gaussian': {'sigma': 25.5}}, r'augment\.gaussian\.sigma is 25\.5'),
    ({'gaussian': {'sigma': float('nan')}}, r'augment\.gaussian\.sigma is nan'),
    ({'flip': {'probability': 1.5}}, r'augment\.flip\.probability is 1\.5'),
    ({'mixup': {'alpha': 0.0}}, r'augment\.mixup\.alpha is 0\.0'),
    ({'cutmix': {'alpha': -1.0}}, r'augment\.cutmix\.alpha is -1\.0'),
    ({'repeat': {'copies': 1}}, r'augment\.repeat\.copies is 1'),
    ({'random_resized_crop': {'smallest_area': 0.0}}, r'smallest_area is 0\.0'),
    ({'random_resized_crop': {'largest_area': 0.05}}, r'largest_area is 0\.05.*\[0\.08, 1\]'),
    ({'random_resized_crop': {'aspect': 0.5}}, r'aspect is 0\.5'),
    ({'patch_gaussian': {'size': 0}}, r'augment\.patch_gaussian\.size is 0'),
    ({'patch_gaussian': {'sigma': 1.5}}, r'augment\.patch_gaussian\.sigma is 1\.5'),
    ({'fog_noise': {'severity': 6}}, r'augment\.fog_noise\.severity is 6'),
    ({'fog_noise': {'spectrum': 'none.npz'}}, r"spectrum is 'none\.npz', which does not exist"),
    ({'corruption': {'corruptions': ('fogg',)}}, r"corruptions is 'fogg'; did you mean 'fog'"),
    ({'corruption': {'left_out': ('spatter',)}}, r"left_out is 'spatter'; "),
    ({'corruption': {'corruptions': ('fog',), 'left_out': ('fog',)}}, r'fewer than all'),
    ({'corruption': {'severities': (0,)}}, r'corruption\.severities is \(0,\)'),
    ({'corruption': {'probability': -0.1}}, r'corruption\.probability is -0\.1'),
    ({'rand_augment': {'magnitude': 31}}, r'rand_augment\.magnitude is 31.*0\.\.30'),
    ({'rand_augment': {'operations': 0}}, r'rand_augment\.operations is 0'),
    ({'rand_augment': {'magnitudes': 'tf'}}, r"rand_augment\.magnitudes is 'tf'"),
    ({'rand_augment': {'without': ('Cutout',)}}, r"rand_augment\.without is 'Cutout'"),
    ({'augmix': {'severity': 0.0}}, r'augment\.augmix\.severity is 0\.0'),
    ({'augmix': {'width': 0}}, r'augment\.augmix\.width is 0'),
    ({'augmix': {'depth': -1}}, r'augment\.augmix\.depth is -1'),
    ({'augmix': {'alpha': 0.0}}, r'augment\.augmix\.alpha is 0\.0'),
    ({'augmix': {'mixtures': 0}}, r'augment\.augmix\.mixtures is 0'),
    ({'auto_augment': {'policy': 'cifar'}}, r"augment\.auto_augment\.policy is 'cifar'"),
  ],
)
def test_mistakes_are_named(section: dict, message: str) -> None:
  with pytest.raises(InputError, match=message):
    from_section(section, 'config.c.augment')
