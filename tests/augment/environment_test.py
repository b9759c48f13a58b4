"""Tests that a training is refused if an augmentation resembles a transform it is held out from."""

import dataclasses

import pytest

from robustness.attacks import ATTACKS
from robustness.augment.environment import refuse_leaks
from robustness.augment.flip_and_crop import Flip
from robustness.augment.policy import Policy
from robustness.corruptions.names import FAMILIES
from robustness.environments import transforms
from robustness.fourier.input_filters import INPUT_FILTERS
from tests.cases import cases
from tests.refusals import refused


def parts(held_out, **augmentations):
  """Returns augmentations and, last, an environment whose transform some classes do not see."""
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
def test_an_augmentation_that_resembles_a_held_out_transform_is_refused(
  name, settings, like, unlike
):
  if like:
    augmentations = parts(like, **{name: settings})
    assert {*augmentations[0].resembles} <= {*transforms.NAMES, *FAMILIES}
    refused(f"'{name}'.*'{like}'", refuse_leaks, augmentations, (), 'config.classifier')
  if unlike:
    refuse_leaks(parts(unlike, **{name: settings}), (), 'config.classifier')


GRAIN = """
from robustness.corruptions.corruption import corruption

@corruption('sigma', {{32: (0.1, 0.2, 0.3, 0.4, 0.5)}}, {family})
def grain(key, image, strength):
  return image
"""


@cases(
  'family, name, settings',
  ("family='noise'", 'gaussian', {}),
  ("family='noise'", 'corruption', {'corruptions': ('shot_noise',)}),
  ("family='haze'", 'auto_augment', {}),
)
def test_a_new_corruption_is_guarded_by_its_family(family, name, settings, tmp_path):
  file = tmp_path / 'new.py'
  file.write_text(GRAIN.format(family=family))
  reference = f'{file}:grain'
  held_out = parts(reference, **{name: settings})
  refused(f"'{name}'.*'{reference}'", refuse_leaks, held_out, (), 'config.classifier')
  refuse_leaks(parts(reference, flip={}), (), 'config.classifier')
  trained = parts('impulse_noise', corruption={'corruptions': (reference,)})
  if family == "family='noise'":
    refused("'corruption'.*'impulse_noise'", refuse_leaks, trained, (), 'config.classifier')
  else:
    refuse_leaks(trained, (), 'config.classifier')
  itself = parts(reference, corruption={'corruptions': (reference,)})
  refused(f"'corruption'.*'{reference}'", refuse_leaks, itself, (), 'config.classifier')


@cases(
  'family, message',
  ('', "missing 1 required positional argument: 'family'"),
  ("family='nois'", "the family of grain is 'nois'; did you mean 'noise'"),
)
def test_a_corruption_declares_a_family_that_exists(family, message, tmp_path):
  file = tmp_path / 'new.py'
  file.write_text(GRAIN.format(family=family))
  refused(message, parts, f'{file}:grain')


def test_an_augmentation_that_resembles_an_unknown_transform_is_refused():
  @dataclasses.dataclass(frozen=True)
  class Misspelt(Flip):
    name = 'misspelt'
    resembles = ('gausian_noise',)

  message = "misspelt.resembles is 'gausian_noise'; did you mean 'gaussian_noise'"
  refused(message, refuse_leaks, (Misspelt(),), (), 'config.classifier')


@pytest.mark.parametrize('name', ['mixup', 'cutmix', 'mixup_or_cutmix'])
def test_rows_of_different_environments_are_mixed_only_if_leaks_are_allowed(name):
  """This holds before the transform, after it, and with environments that are stored."""
  transforms = {'transforms': ('contrast', 'snow')}
  inside = f"set config.classifier.augment.{name}.within='environment', or"
  message = f"'{name}' across environments, .*classes that it is held out from.*{inside}"
  for order in ({'environment': transforms, name: {}}, {name: {}, 'environment': transforms}):
    refused(message, refuse_leaks, Policy.of(**order).augmentations, (), 'config.classifier')
  alone = Policy.of(**{name: {}}).augmentations
  refused(message, refuse_leaks, alone, (), 'config.classifier', stored=True)
  refuse_leaks(alone, (), 'config.classifier')
  allowed = Policy.of(environment={**transforms, 'allow_leaks': True}, **{name: {}})
  refuse_leaks(allowed.augmentations, (), 'config.classifier')
  within = Policy.of(environment=transforms, **{name: {'within': 'environment'}})
  refuse_leaks(within.augmentations, (), 'config.classifier', stored=True)
  # Rows mixed within their label leak once a second augmentation mixes them further.
  label = Policy.of(environment=transforms, **{name: {'within': 'label'}})
  refused(message, refuse_leaks, label.augmentations, (), 'config.classifier')


@pytest.mark.parametrize('name', ['pgd', 'fgsm', 'auto_pgd'])
def test_an_attack_resembles_noise_alone(name):
  attack = ATTACKS.find(name, '')()
  message = f"'{name}' on all classes.*'gaussian_noise'"
  refused(message, refuse_leaks, parts('gaussian_noise'), [attack], 'config.classifier')
  refuse_leaks(parts('contrast'), [attack, None], 'config.classifier')


def test_a_low_pass_filter_resembles_pixelate_and_not_contrast():
  arguments = parts('pixelate'), [INPUT_FILTERS.find('low_pass', '')()], 'config.classifier'
  refused("'low_pass' on all classes.*'pixelate'", refuse_leaks, *arguments)
  refuse_leaks(parts('contrast'), *arguments[1:])


def test_a_leak_may_be_allowed_and_a_training_without_environments_has_none():
  settings = {'transforms': ('gaussian_noise',), 'allow_leaks': True}
  policy = Policy.of(gaussian={}, environment=settings)
  refuse_leaks(policy.augmentations, (), 'config.classifier')
  refuse_leaks(Policy.of(gaussian={}, auto_augment={}).augmentations, (), 'config.classifier')
