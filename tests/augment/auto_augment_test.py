"""Tests AutoAugment and RandAugment: released lists and magnitudes, and policies as by Pillow."""

import collections

import jax
import numpy as np
import pytest

from robustness.augment import auto_augment as magnitudes
from robustness.augment import operations
from robustness.augment.auto_augment import AutoAugment, RandAugment, parsed
from tests.augment import pictures
from tests.augment.operations_test import pillow
from tests.cases import cases
from tests.models import peers
from tests.refusals import bad_setting, refused

SECTION = r'config\.classifier\.augment\.auto_augment'
CONTRAST = ('Brightness', 'Contrast')


@cases(
  'name, count, remaining',
  ('cifar10', 25, 19),
  ('imagenet', 25, 23),
  ('cifar10_reference_95', 95, 78),
)
def test_the_lists_have_the_published_lengths(name, count, remaining):
  """Without brightness and contrast, as in Yin et al. (2019), `remaining` sub-policies are left."""
  remaining_policies = AutoAugment(name, CONTRAST).policies
  assert (len(AutoAugment(name).policies), len(remaining_policies)) == (count, remaining)
  assert not {step.name for policy in remaining_policies for step in policy} & set(CONTRAST)
  steps = [step for policy in AutoAugment(name).policies for step in policy]
  assert all(round(10 * step.probability) == pytest.approx(10 * step.probability) for step in steps)


def test_20_of_the_25_published_sub_policies_are_among_the_95_of_the_code():
  every = set(AutoAugment('cifar10_reference_95').policies)
  published = AutoAugment('cifar10').policies
  assert [n for n, policy in enumerate(published) if policy not in every] == [15, 16, 17, 18, 19]
  assert sum('Cutout' in {step.name for step in policy} for policy in every) == 3


@pytest.mark.parametrize(('name', 'peer'), [('cifar10', 'CIFAR10'), ('imagenet', 'IMAGENET')])
def test_lists_and_magnitudes_are_those_of_torchvision(name, peer):
  autoaugment = peers.peer('torchvision').transforms.autoaugment
  theirs = autoaugment.AutoAugment(autoaugment.AutoAugmentPolicy[peer])
  for policy, expected in zip(AutoAugment(name).policies, theirs.policies, strict=True):
    for step, (operation, probability, level) in zip(policy, expected, strict=True):
      assert (step.name, step.probability) == (operation, pytest.approx(probability))
      assert level is None or step.level == level
  for size in ((32, 32), (224, 224), (48, 64)):
    check_space(theirs._augmentation_space(10, size), size)


def check_space(space, size, rand=False):
  """Asserts that magnitudes, and those with the other sign, are torchvision's at every level.

  `space` is torchvision's augmentation space; `rand` is True for RandAugment.
  """
  for name, (values, signed) in space.items():
    for level, value in enumerate(values.tolist() if values.ndim else ()):
      magnitude, mirrored = magnitudes.magnitude('torchvision', name, level, *size, rand)
      factor = 1 if name in magnitudes.FACTORS else 0
      is_integer = name in ('TranslateX', 'TranslateY', 'Posterize')
      expected = factor + (int(value) if is_integer else value)
      assert magnitude == pytest.approx(expected, abs=1e-4), (name, level)
      assert mirrored == pytest.approx(2 * factor - expected if signed else expected, abs=1e-4)


MAGNITUDES = {  # Each case is a name, a level, the value, and the value with the other sign.
  'tensorflow_models': 'ShearX 8 .24 -.24, TranslateY 9 9 -9, Rotate 7 21 -21, Posterize 0 4 4, '
  'Posterize 7 2 2, Solarize 3 180 180, Color 5 1 1, Sharpness 9 1.72 1.72, Cutout 4 8 8',
  'torchvision': 'TranslateX 9 14 -14, Color 9 1.9 .1',
  'efficientnet': 'Solarize 3 76 76, SolarizeAdd 7 77 77, Posterize 8 3 3, TranslateX 10 250 -250',
}


@pytest.mark.parametrize('implementation', MAGNITUDES)
def test_magnitudes_by_implementation(implementation):
  for case in MAGNITUDES[implementation].split(', '):
    name, level, *values = case.split()
    computed = magnitudes.magnitude(implementation, name, int(level), 32, 32)
    assert computed == pytest.approx(tuple(map(float, values))), case


def test_rand_augment_has_its_constants_and_magnitudes_above_10():
  """`translate_const=100` and `cutout_const=40` of the released code, in units of 10."""
  for level, values in ((9, (90, 72, 3, 230)), (28, (280, 224, 8, 256))):
    for name, value in zip(('TranslateX', 'Cutout', 'Posterize', 'Solarize'), values, strict=True):
      assert magnitudes.magnitude('efficientnet', name, level, 224, 224, True)[0] == value
  names = RandAugment(magnitudes='efficientnet').names
  augmentation = RandAugment(1, 28, 'efficientnet', tuple(n for n in names if n != 'Invert'))
  image = np.zeros((4, 4, 3), np.float32)
  assert (augmented(augmentation, 20, image) == 1).all(), 'the operation is always applied'


def augmented(augmentation, count, image, seed=0):
  """Returns an image augmented `count` times, float32 [count, H, W, C]."""
  return pictures.augmented(augmentation, jax.random.split(jax.random.key(seed), count), image)


def test_a_sub_policy_is_its_two_operations_in_order():
  """Operations of probability 1 are Pillow's in their order, with either sign."""
  lines = ('Equalize 1 0, ShearX 1 9', 'Posterize 1 8, TranslateY 1 5', 'Rotate 1 6, Solarize 1 4')
  picture = pictures.seeded(32, 32)[0]
  image = pictures.batch([picture])[0]
  results = augmented(AutoAugment(sub_policies=lines), 60, image)
  expected = {}
  for policy in parsed(lines, 'lines'):
    values = [magnitudes.magnitude('torchvision', s.name, s.level, 32, 32) for s in policy]
    for first in set(values[0]):
      for second in set(values[1]):
        changed = pillow(policy[0].name, picture, first)
        between = pictures.Image.fromarray(np.round(255 * changed).astype(np.uint8))
        image = pillow(policy[1].name, between, second)
        expected[np.round(255 * image).astype(np.uint8).tobytes()] = policy
  seen = {image.tobytes() for image in np.round(255 * results).astype(np.uint8)}
  assert seen == set(expected) and len(expected) == 6, 'each of three policies has two signs'


def test_operations_are_applied_with_their_probabilities():
  """One Invert is applied with probability .3 and the other never, so .3 of the images are 1 − x.

  An image to which none is applied is not rounded to levels.
  """
  image = np.random.default_rng(0).random((4, 4, 3), np.float32)
  results = augmented(AutoAugment(sub_policies=('Invert .3 0, Invert 0 5',)), 2000, image, seed=1)
  is_unchanged = (results == image).all((1, 2, 3))
  # Five standard deviations of the share of 2000 images are .05.
  assert 0.65 < is_unchanged.mean() < 0.75
  inverted = np.broadcast_to(1 - np.round(255 * image) / 255, results[~is_unchanged].shape)
  np.testing.assert_allclose(results[~is_unchanged], inverted, atol=1e-6)


def test_sub_policies_are_drawn_uniformly():
  """Each sub-policy posterises white noise to other levels, in an equal share of the images."""
  lines = tuple(f'Posterize 1 {level}, Invert 0 0' for level in (0, 2, 5, 7, 9))
  image = np.random.default_rng(0).random((8, 8, 1), np.float32)
  results = augmented(AutoAugment(sub_policies=lines), 2000, image, seed=2)
  counts = collections.Counter(image.tobytes() for image in results)
  # The range is 5.6 standard deviations of a count on both sides of 400.
  assert len(counts) == 5 and all(300 < n < 500 for n in counts.values())


def test_the_released_code_fills_with_the_mean_colour_at_the_end():
  """Vacated pixels are black for the second operation, and CIFAR-10's mean colour after it."""
  lines, white = ('TranslateX 1 9, Invert 1 0',), np.ones((16, 16, 3), np.float32)
  (image,) = augmented(AutoAugment('cifar10_reference_95', sub_policies=lines), 1, white)
  colours = {tuple(pixel) for pixel in np.round(255 * image).astype(int).reshape(-1, 3).tolist()}
  assert colours == {(0, 0, 0), (125, 123, 114)}
  inverted = augmented(AutoAugment(sub_policies=lines, fill=(7,)), 1, white)
  assert set(np.round(255 * inverted).astype(int).ravel()) == {248, 0}, 'torchvision fills at once'


@cases(
  'settings, message',
  ({'policy': 'cifar'}, rf"{SECTION}\.policy is 'cifar'; .*'cifar10'"),
  ({'magnitudes': 'tf'}, rf"{SECTION}\.magnitudes is 'tf'"),
  ({'without': ('Bright',)}, rf"{SECTION}\.without is 'Bright'; .*'Brightness'"),
  ({'without': operations.NAMES}, rf'{SECTION}\.without .*leaves no sub-policy'),
  ({'fill': (300,)}, rf'{SECTION}\.fill is \(300,\)'),
  ({'sub_policies': ('Rotat .7 2, Invert .1 0',)}, r"names 'Rotat'; did you mean 'Rotate'"),
  ({'sub_policies': ('Rotate 1.7 2, Invert .1 0',)}, r'probability of Rotate is 1\.7.*\[0, 1\]'),
  (
    {'sub_policies': ('Rotate 0 2, Invert 0 0',)},
    bad_setting('config.classifier.augment.auto_augment.sub_policies', ('Rotate 0 2, Invert 0 0',)),
  ),
  ({'sub_policies': ('Rotate nan 2, Invert .1 0',)}, r'probability of Rotate is nan'),
  ({'sub_policies': ('Rotate .7 11, Invert .1 0',)}, r'magnitude of Rotate is 11.*0\.\.10'),
  ({'sub_policies': ('Rotate .7 10, Invert .1 0',)}, r'Rotate is 10; torchvision has 0\.\.9'),
  ({'sub_policies': ('Rotate .7 x, Invert .1 0',)}, r"the magnitude 'x'"),
  ({'sub_policies': ('Rotate .7 2',)}, r'two operations, each with its probability'),
  ({'sub_policies': ('Cutout .7 2, Invert .1 0',)}, r'Cutout is no operation of torchvision'),
)
def test_mistakes_are_named(settings, message):
  refused(message, AutoAugment, **settings)


def test_operations_of_rand_augment_are_those_of_torchvision_or_efficientnet():
  names = RandAugment(magnitudes='efficientnet').names
  assert len(names) == 16 and set(names) == set(operations.NAMES)
  fewer = RandAugment(magnitudes='efficientnet', without=('Cutout', 'SolarizeAdd')).names
  assert set(names) - set(fewer) == {'Cutout', 'SolarizeAdd'}
  autoaugment = peers.peer('torchvision').transforms.autoaugment
  space = autoaugment.RandAugment()._augmentation_space(31, (32, 48))
  assert {*space} - {'Identity'} == {*RandAugment().names}
  check_space(space, (32, 48), rand=True)


def test_operations_are_drawn_uniformly_with_the_identity():
  """Three operations with different results and the identity are drawn about 500 times each."""
  excluded = tuple(
    n for n in RandAugment().names if n not in ('Posterize', 'Solarize', 'Brightness')
  )
  augmentation = RandAugment(operations=1, magnitude=20, without=excluded)
  image = np.random.default_rng(0).random((6, 6, 1), np.float32)
  results = augmented(augmentation, 2000, image)
  counts = collections.Counter(result.tobytes() for result in results)
  assert counts.pop(image.tobytes()) == pytest.approx(500, abs=100)  # five standard deviations
  brighter_or_darker = sorted(counts.values())[:2]  # Brightness has two signs.
  assert len(counts) == 4 and brighter_or_darker == pytest.approx([250, 250], abs=75)
