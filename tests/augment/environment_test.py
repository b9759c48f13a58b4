"""Leak guards: which augmentations resemble what."""

import pytest

from robustness.attacks import ATTACKS
from robustness.augment.environment import refuse_leaks
from robustness.augment.policy import Policy
from robustness.environments import transforms
from tests.cases import cases
from tests.refusals import refused


def parts(held_out, **augmentations):
  return Policy.of(**augmentations, environment={'transforms': (held_out,)}).augmentations


@cases(
  'name, settings, like, unlike',
  ('gaussian', {}, 'gaussian_noise', ''),
  ('patch_gaussian', {}, 'speckle_noise', ''),
  ('auto_augment', {}, 'rotation', 'gaussian_noise'),
  ('auto_augment', {}, 'contrast', ''),
  ('rand_augment', {}, 'gaussian_blur', ''),
  ('rand_augment', {'without': ('Rotate',)}, '', 'rotation'),
  ('augmix', {}, 'rotation', 'brightness'),
  ('corruption', {'corruptions': ('snow', 'fog')}, 'snow', ''),
  ('corruption', {'left_out': ('snow',)}, '', 'snow'),
  ('corruption', {'corruptions': ('shot_noise',)}, 'gaussian_noise', 'contrast'),
  ('corruption', {'corruptions': ('defocus_blur',)}, 'gaussian_blur', ''),
  ('corruption', {'corruptions': ('fog',)}, 'contrast', 'gaussian_blur'),
  ('afa', {}, 'single_frequency_greyscale', 'contrast'),
  ('fog_noise', {}, 'fog', ''),
  ('cutout', {}, 'checkerboard_cutout', 'contrast'),
  ('flip', {}, '', 'rotation'),
  ('crop', {}, '', 'gaussian_noise'),
  ('repeat', {}, '', 'contrast'),
)
def test_what_resembles_a_held_out_transform_is_refused(name, settings, like, unlike):
  if like:
    given = parts(like, **{name: settings})
    assert {*given[0].resembles} <= {*transforms.NAMES}
    refused(f"'{name}'.*'{like}'", refuse_leaks, given, (), 'config.classifier')
  if unlike:
    refuse_leaks(parts(unlike, **{name: settings}), (), 'config.classifier')


@pytest.mark.parametrize('name', ['mixup', 'cutmix'])
def test_rows_of_other_groups_are_not_mixed_unless_that_is_meant(name):
  """Before the transform or after it, and with environments that are stored."""
  transforms = {'transforms': ('contrast', 'snow')}
  inside = f"set config.classifier.augment.{name}.within='environment', or"
  message = f"'{name}' across environments, .*classes that it is held out from.*{inside}"
  for order in ({'environment': transforms, name: {}}, {name: {}, 'environment': transforms}):
    refused(message, refuse_leaks, Policy.of(**order).augmentations, (), 'config.classifier')
  alone = Policy.of(**{name: {}}).augmentations
  refused(message, refuse_leaks, alone, (), 'config.classifier', stored=True)
  refuse_leaks(alone, (), 'config.classifier')
  meant = Policy.of(environment={**transforms, 'allow_leaks': True}, **{name: {}})
  refuse_leaks(meant.augmentations, (), 'config.classifier')
  within = Policy.of(environment=transforms, **{name: {'within': 'environment'}})
  refuse_leaks(within.augmentations, (), 'config.classifier', stored=True)
  label = Policy.of(environment=transforms, **{name: {'within': 'label'}})  # two in a row leak
  refused(message, refuse_leaks, label.augmentations, (), 'config.classifier')


@pytest.mark.parametrize('name', ['pgd', 'fgsm', 'auto_pgd'])
def test_an_attack_is_like_noise_and_like_nothing_else(name):
  attack = ATTACKS.find(name, '')()
  message = f"'{name}' on all classes.*'gaussian_noise'"
  refused(message, refuse_leaks, parts('gaussian_noise'), [attack], 'config.classifier')
  refuse_leaks(parts('contrast'), [attack, None], 'config.classifier')


def test_a_leak_may_be_meant_and_a_training_without_environments_leaks_nothing():
  meant = {'transforms': ('gaussian_noise',), 'allow_leaks': True}
  policy = Policy.of(gaussian={}, environment=meant)
  refuse_leaks(policy.augmentations, (), 'config.classifier')
  refuse_leaks(Policy.of(gaussian={}, auto_augment={}).augmentations, (), 'config.classifier')
