"""Leak guards: which augmentations resemble what."""

import pytest

from robustness.attacks import ATTACKS
from robustness.augment.environment import refuse_leaks
from robustness.augment.policy import Policy
from robustness.core.errors import InputError
from robustness.environments import transforms


def parts(held_out: str, **augmentations: dict) -> list:
  policy = Policy.of(**augmentations, environment={'transforms': (held_out,)})
  return list(policy.augmentations)


@pytest.mark.parametrize(
  ('name', 'settings', 'held_out'),
  [
    ('gaussian', {}, 'gaussian_noise'),
    ('patch_gaussian', {}, 'speckle_noise'),
    ('auto_augment', {}, 'rotation'),
    ('auto_augment', {}, 'contrast'),
    ('rand_augment', {}, 'gaussian_blur'),
    ('augmix', {}, 'rotation'),
    ('corruption', {'corruptions': ('snow', 'fog')}, 'snow'),
    ('fog_noise', {}, 'fog'),
    ('cutout', {}, 'checkerboard_cutout'),
  ],
)
def test_what_resembles_a_held_out_transform_is_refused(name, settings, held_out):
  given = parts(held_out, **{name: settings})
  assert {*given[0].resembles} <= {*transforms.NAMES}
  with pytest.raises(InputError, match=f"'{name}'.*'{held_out}'"):
    refuse_leaks(given, (), 'config.classifier')


@pytest.mark.parametrize(
  ('name', 'settings', 'held_out'),
  [
    ('flip', {}, 'rotation'),
    ('crop', {}, 'gaussian_noise'),
    ('auto_augment', {}, 'gaussian_noise'),
    ('augmix', {}, 'brightness'),
    ('rand_augment', {'without': ('Rotate',)}, 'rotation'),
    ('corruption', {'left_out': ('snow',)}, 'snow'),
    ('cutout', {}, 'contrast'),
    ('repeat', {}, 'contrast'),
  ],
)
def test_what_does_not_is_not(name, settings, held_out):
  refuse_leaks(parts(held_out, **{name: settings}), (), 'config.classifier')


@pytest.mark.parametrize('name', ['mixup', 'cutmix'])
def test_rows_of_other_groups_are_not_mixed_unless_that_is_meant(name):
  """Before the transform or after it, and with environments that are stored."""
  transforms = {'transforms': ('contrast', 'snow')}
  message = f"'{name}' across environments, .*classes that it is held out from.*allow_leaks"
  for order in ({'environment': transforms, name: {}}, {name: {}, 'environment': transforms}):
    with pytest.raises(InputError, match=message):
      refuse_leaks(Policy.of(**order).augmentations, (), 'config.classifier')
  alone = Policy.of(**{name: {}}).augmentations
  with pytest.raises(InputError, match=message):
    refuse_leaks(alone, (), 'config.classifier', stored=True)
  refuse_leaks(alone, (), 'config.classifier')
  meant = Policy.of(environment={**transforms, 'allow_leaks': True}, **{name: {}})
  refuse_leaks(meant.augmentations, (), 'config.classifier')


@pytest.mark.parametrize('name', ['pgd', 'fgsm', 'auto_pgd'])
def test_an_attack_is_like_noise_and_like_nothing_else(name):
  attack = ATTACKS.find(name, '')()
  with pytest.raises(InputError, match=f"'{name}' on all classes.*'gaussian_noise'"):
    refuse_leaks(parts('gaussian_noise'), [attack], 'config.classifier')
  refuse_leaks(parts('contrast'), [attack, None], 'config.classifier')


def test_a_leak_may_be_meant_and_a_training_without_environments_leaks_nothing():
  policy = Policy.of(
    gaussian={}, environment={'transforms': ('gaussian_noise',), 'allow_leaks': True}
  )
  refuse_leaks(policy.augmentations, (), 'config.classifier')
  refuse_leaks(Policy.of(gaussian={}, auto_augment={}).augmentations, (), 'config.classifier')
