"""Tests policies: the draws of an augmentation depend on its key and on nothing else."""

import ast
import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment import AUGMENTATIONS, Augmentation, multi_image_augmentations
from robustness.augment.policy import Policy, from_section, row_keys
from robustness.core.sampler import EPOCH
from robustness.parallel import BATCH, MeshParallel, PmapParallel
from tests.cases import cases, marked
from tests.refusals import bad_setting, refused

NAMES = tuple(AUGMENTATIONS.classes())
UNDER_PMAP = ('apr_p', 'cutmix', 'mixup', 'flip', 'rand_augment')
"""Augmentations tested under pmap: three take rows of other devices, flip is mapped over rows, and
rand_augment runs in sequence. All others run like one of the last two."""
LONG = (
  *('afa', 'apr_p', 'apr_s', 'augmix', 'cutmix', 'mixup', 'mixup_or_cutmix', 'prime'),
  'rand_augment',
)
"""Augmentations that take seconds to compile for devices and layouts."""
MIXING = ('mixup', 'cutmix', 'mixup_or_cutmix', 'apr_p')
"""Augmentations that take other rows of the batch."""
SEED = 3


def for_augmentations_except(*excluded: str) -> pytest.MarkDecorator:
  """Runs a test with the name of every augmentation that is not excluded; `LONG` ones are slow."""
  included = [name for name in NAMES if name not in excluded]
  return pytest.mark.parametrize('name', marked(included, {*NAMES} - {*LONG}))


@pytest.fixture(scope='module')
def sections(tmp_path_factory):
  """Settings by augmentation, of those whose defaults do not fit images of 10 × 8 pixels."""
  fog, spectrum = tmp_path_factory.mktemp('fog') / 'fog.npz', np.ones((1, 10, 8), np.float32)
  np.savez(fog, provenance='', spectrum=spectrum, severity=np.array([3]))
  return {
    'fog_noise': {'spectrum': str(fog)},
    'corruption': {'corruptions': ('contrast', 'speckle_noise'), 'severities': (4, 5)},
    'patch_gaussian': {'size': 5},
    'cutout': {'size': 5},
    'prime': {'modes': 10, 'colour_waves': 10},
    'environment': {'transforms': ('contrast', 'speckle_noise'), 'share': 0.8},
  }


@pytest.fixture(scope='module')
def alone(sections):
  """A function of a name that returns `augment(examples, seed, step)`, a compiled policy of it."""
  return functools.cache(lambda name: jax.jit(Policy.of(**{name: sections.get(name, {})})))


def batch(size=16):
  """Returns rows with random images of 10 × 8 pixels, four classes, and the columns of a source."""
  count = jnp.arange(size, dtype=jnp.int32)
  return {
    'image': jnp.asarray(np.random.default_rng(0).random((size, 10, 8, 3), np.float32)),
    'label': count % 4,
    'target': jax.nn.one_hot(count % 4, 4),
    'example_id': 100 + count,
    'severity': count,
    'class_group': count % 3,
    EPOCH: jnp.ones(size, jnp.int32),
  }


def augmented(policy, examples=None, step=0):
  """Returns rows, by default `batch()`, after a policy."""
  return policy(examples or batch(), SEED, jnp.int32(step))


def rows(examples, index):
  """Returns the rows of 16 at an index."""
  return {name: value[jnp.asarray(np.arange(16)[index])] for name, value in examples.items()}


@for_augmentations_except()
def test_an_image_is_the_same_in_any_layout(name, sections, alone):
  """Layouts are one device or eight, and pmap; fused multiplications may change the last bits."""
  policy, step = Policy.of(**{name: sections.get(name, {})}), jnp.int32(7)
  plain = alone(name)(batch(), SEED, step)
  assert not np.array_equal(plain['image'], batch()['image'])
  for kind in (MeshParallel, *[PmapParallel] * (name in UNDER_PMAP)):
    parallel = kind(jax.devices()[:8])
    apply = parallel.compile(lambda x, p=parallel: policy(x, SEED, step, p), (BATCH,), BATCH)
    other = parallel.gather(apply(parallel.put_batch(batch())))
    for key in ('image', 'target', 'label', 'severity'):
      np.testing.assert_allclose(other[key], plain[key], atol=1e-6)


@for_augmentations_except(*MIXING)
def test_a_row_does_not_depend_on_the_batch_around_it(name, alone):
  """The rows are among others in a batch of the same size, which runs in the same program."""
  full = alone(name)(batch(), SEED, jnp.int32(7))
  for part in ([0, 1, 2, 3], [9, 2, 7, 15]):
    subset = alone(name)(rows(batch(), 4 * part), SEED, jnp.int32(7))
    np.testing.assert_allclose(subset['image'], full['image'][np.array(4 * part)], atol=1e-6)


@for_augmentations_except('repeat')
def test_draws_change_with_the_step_and_the_seed(name, alone):
  images = []
  for seed, step in ((0, 0), (0, 1), (1, 0)):
    examples = {**batch(), EPOCH: jnp.full(16, step, jnp.int32)}
    images.append(alone(name)(examples, seed, jnp.int32(step))['image'])
  assert not any(np.array_equal(images[0], other) for other in images[1:])


@pytest.mark.slow
def test_an_augmentation_of_one_image_does_not_change_the_draws_of_another():
  flips = augmented(Policy.of(flip={}), step=1)['image']
  flipped = (np.asarray(flips) != np.asarray(batch()['image'])).any((1, 2, 3))
  assert 0 < flipped.sum() < 16
  for other in ('crop', 'gaussian'):
    alone, mirrored = Policy.of(**{other: {}}), {**batch(), 'image': flips}
    flip_first = augmented(Policy.of(**{'flip': {}, other: {}}), step=1)['image']
    np.testing.assert_allclose(flip_first, augmented(alone, mirrored, 1)['image'], atol=1e-6)
    flip_last = augmented(Policy.of(**{other: {}, 'flip': {}}), step=1)['image']
    unflipped = augmented(alone, step=1)['image']
    expected = np.where(flipped[:, None, None, None], unflipped[:, :, ::-1], unflipped)
    np.testing.assert_allclose(flip_last, expected, atol=1e-6)


def test_augmentations_run_in_the_order_of_the_policy_and_an_empty_policy_changes_nothing():
  black, noise = {**batch(), 'image': jnp.zeros((16, 10, 8, 3))}, {'sigma': 0.5}
  noisy_last = augmented(Policy.of(crop={'padding': 8}, gaussian=noise), black)
  noisy_first = augmented(Policy.of(gaussian=noise, crop={'padding': 8}), black)
  assert (noisy_last['image'] > 0).mean() > (noisy_first['image'] > 0).mean() + 0.1
  assert augmented(Policy(), black) is black


@pytest.mark.slow
def test_augmentations_after_repeat_draw_for_each_image_of_a_row():
  images = augmented(Policy.of(repeat={'copies': 3}, gaussian={}))['image']
  assert images.shape == (16, 3, 10, 8, 3)
  assert not np.array_equal(images[:, 0], images[:, 1])
  alone = augmented(Policy.of(gaussian={}))['image']
  assert not any(np.allclose(images[:, view], alone) for view in range(3))  # see docs/training.md
  plain = augmented(Policy.of(repeat={'copies': 3}))
  assert set(plain) == set(batch()), 'no column is added or lost'
  np.testing.assert_array_equal(plain['image'][:, 2], batch()['image'])


@pytest.mark.slow
@pytest.mark.parametrize('name', MIXING[:3])
def test_all_images_of_a_row_are_mixed_by_one_share(name):
  mixed = augmented(Policy.of(repeat={'copies': 3}, **{name: {}}))
  alone = augmented(Policy.of(**{name: {}}))
  np.testing.assert_array_equal(mixed['target'], alone['target'])
  for view in range(3):
    np.testing.assert_allclose(mixed['image'][:, view], alone['image'], atol=1e-6)


@pytest.mark.slow
def test_rows_are_mixed_only_with_rows_of_an_equal_value():
  """Among rows of a value, the first is mixed with the last and so on, on any number of devices.

  A row with a value that no other has is mixed with itself.
  """
  groups = np.array([2, 0, 1, 0, 0, 2, 0, 5, 1, 1, 2, 2, 0, 1, 2, 1])
  examples = {**batch(), 'group': jnp.asarray(groups)}
  policy = Policy.of(mixup={'within': 'group'})
  mixed = augmented(policy, examples)
  partner = np.arange(16)
  for value in np.unique(groups):
    members = np.flatnonzero(groups == value)
    partner[members] = members[::-1]
  keys = row_keys(examples, SEED, 'mixup', jnp.int32(0))
  for row, (key, other) in enumerate(zip(keys, partner, strict=True)):
    example = {name: value[row] for name, value in examples.items()}
    with_partner = {**example, 'partner': {name: value[other] for name, value in examples.items()}}
    alone = policy.augmentations[0](key, with_partner)
    np.testing.assert_allclose(mixed['image'][row], alone['image'], atol=1e-6)
    np.testing.assert_allclose(mixed['target'][row], alone['target'], atol=1e-6)
  for kind in (MeshParallel, PmapParallel):
    parallel = kind(jax.devices()[:4])
    apply = parallel.compile(
      lambda x, p=parallel: policy(x, SEED, jnp.int32(0), p), (BATCH,), BATCH
    )
    made = apply(parallel.put_batch(examples))['image'].reshape(mixed['image'].shape)
    np.testing.assert_allclose(made, mixed['image'], atol=1e-6)
  message = r"mixup\.within is 'groups', .*class_group"
  refused(message, augmented, Policy.of(mixup={'within': 'groups'}), examples)


@pytest.mark.slow
@cases('name, repeat', ('corruption', {}), ('corruption', {'repeat': {}}), ('environment', {}))
def test_rows_sorted_by_branch_equal_rows_in_sequence(name, repeat, sections, monkeypatch):
  """Rows sorted as on an accelerator, on two devices, have the same images and added columns."""
  varied = {'probability': 0.7} if name == 'corruption' else {}
  policy = Policy.of(**repeat, **{name: {**sections[name], **varied}})
  parallel = MeshParallel(jax.devices()[:2])
  batches = []
  for sequential in (type(policy.augmentations[-1]).sequential, False):
    monkeypatch.setattr(type(policy.augmentations[-1]), 'sequential', sequential)
    apply = parallel.compile(lambda x: policy(x, SEED, jnp.int32(2), parallel), (BATCH,), BATCH)
    batches.append(apply(parallel.put_batch(batch())))
  np.testing.assert_allclose(*(made['image'] for made in batches), atol=1e-6)
  for column in policy.augmentations[-1].added_columns():
    np.testing.assert_array_equal(*(made[column] for made in batches))
    assert len(np.unique(batches[0][column])) == 3


@cases(
  'result, message',
  (lambda example: example['image'], r"'custom' gives \w+; it must give the example"),
  (
    lambda example: {'image': example['image']},
    r"'custom' gives \['image'\]; it must give the example",
  ),
  (
    lambda example: {**example, 'image': example['image'][:5]},
    r'float32\[5, 8, 3\]; .* \[10, 8, 3\]',
  ),
  (lambda example: {**example, 'image': example['image'] > 0.5}, r'of bool\[10, 8, 3\]; .* floats'),
)
def test_an_augmentation_must_return_an_example_of_the_same_columns_and_shapes(result, message):
  @dataclasses.dataclass(frozen=True)
  class Custom(Augmentation):
    name = 'custom'
    resembles = ()

    def __call__(self, key, example):
      return result(example)

  refused(message, augmented, Policy((Custom(),)))


@pytest.mark.parametrize('name', NAMES)
def test_augmentations_that_give_more_images_of_a_row_declare_it(name, sections):
  policy = Policy.of(**{name: sections.get(name, {})})
  image = jax.eval_shape(lambda: augmented(policy, batch(2)))['image']
  assert (image.ndim == 5) == policy.augmentations[0].gives_more_images
  assert (repr(name) in multi_image_augmentations()) == (image.ndim == 5)


def test_two_augmentations_that_multiply_images_or_add_a_column_are_refused():
  message = "'augmix' gives several images of a row, and so does"
  refused(message, jax.eval_shape, lambda: augmented(Policy.of(repeat={}, augmix={}), batch(2)))
  message = "'environment' gives a row a column, environment, and one before it"
  refused(
    message, jax.eval_shape, lambda: augmented(Policy.of(repeat={}, environment={}), batch(2))
  )


OUT_OF_RANGE = (
  'crop.padding=-1 gaussian.sigma=25.5 flip.probability=1.5 mixup.alpha=0.0 cutmix.alpha=-1.0 '
  'repeat.copies=1 random_resized_crop.smallest_area=0.0 '
  'patch_gaussian.size=0 patch_gaussian.sigma=1.5 fog_noise.severity=6 corruption.severities=(0,) '
  'corruption.probability=-0.1 rand_augment.operations=0 augmix.severity=0.0 augmix.width=0 '
  'augmix.depth=-1 augmix.alpha=0.0 augmix.mixtures=0 corruption.corruptions=() '
  "crop.border='white' rand_augment.magnitude=31 rand_augment.magnitudes='tf'"
)


@pytest.mark.parametrize('setting', OUT_OF_RANGE.split())
def test_values_out_of_range_are_named(setting):
  part, name, value = re.fullmatch(r'(\w+)\.(\w+)=(.*)', setting).groups()
  message = rf'augment\.{part}\.{name} is {re.escape(value)}'
  refused(message, from_section, {part: {name: ast.literal_eval(value)}}, 'config.c.augment')


@cases(
  'section, message',
  ({'policy': ('flip', 'flop')}, r"config\.c\.augment\.policy names 'flop'; did you mean 'flip'"),
  ({'policy': ('flip', 'crop', 'flip')}, r"policy names 'flip' twice"),
  ({'policy': 'flip'}, r"policy is 'flip'; it must be a tuple of names.*'crop'.*cutmix"),
  ({'policy': ('',)}, r"policy is \('',\); it must be a tuple of names"),
  ({'policy': (1,)}, r'policy is \(1,\)'),
  ({'flipp': {}}, r"unknown key config\.c\.augment\.flipp: did you mean 'flip'"),
  ({'crop': {'pading': 3}}, r"unknown key config\.c\.augment\.crop\.pading: .*'padding'"),
  ({'gaussian': {'sigma': float('nan')}}, bad_setting('config.classifier.augment.gaussian.sigma')),
  ({'mixup': {'alpha': float('inf')}}, bad_setting('config.c.augment.mixup.alpha')),
  ({'fog_noise': {'spectrum': 'none.npz'}}, r"spectrum is 'none\.npz', which does not exist"),
  (
    {'corruption': {'corruptions': ('fogg',)}},
    bad_setting(
      'config.classifier.augment.corruption.corruptions', 'fogg', words="did you mean 'fog'"
    ),
  ),
  (
    {'corruption': {'left_out': ('spatter',)}},
    bad_setting('config.classifier.augment.corruption.left_out', 'spatter'),
  ),
  (
    {'corruption': {'corruptions': ('fog',), 'left_out': ('fog',)}},
    bad_setting('config.classifier.augment.corruption.left_out', ('fog',)),
  ),
  (
    {'rand_augment': {'without': ('Cutout',)}},
    bad_setting('config.classifier.augment.rand_augment.without', 'Cutout'),
  ),
)
def test_mistakes_are_named(section, message):
  refused(message, from_section, section, 'config.c.augment')
