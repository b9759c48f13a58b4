"""RandAugment: torchvision's magnitudes, and which operations are drawn."""

from __future__ import annotations

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.augment import operations, rand_augment
from robustness.augment.rand_augment import Settings
from tests.augment.auto_augment_test import check_space
from tests.models import peers


def test_operations_and_magnitudes_are_those_of_torchvision() -> None:
  peers.peer('torchvision')
  from torchvision.transforms import autoaugment

  space = autoaugment.RandAugment()._augmentation_space(31, (32, 48))
  assert {*space} - {'Identity'} == {*Settings().names}
  check_space(space, (32, 48), 30)


def test_efficientnet_has_16_operations() -> None:
  names = Settings(magnitudes='efficientnet').names
  assert len(names) == 16 and set(names) == set(operations.NAMES)
  fewer = Settings(magnitudes='efficientnet', without=('Cutout', 'SolarizeAdd')).names
  assert set(names) - set(fewer) == {'Cutout', 'SolarizeAdd'}


def test_operations_are_drawn_uniformly_with_the_identity() -> None:
  """One operation of three that can be told apart, one of four with the identity: 500 each."""
  others = tuple(n for n in Settings().names if n not in ('Posterize', 'Solarize', 'Brightness'))
  settings = Settings(operations=1, magnitude=20, without=others)
  image = np.random.default_rng(0).random((6, 6, 1), np.float32)
  apply = jax.jit(
    jax.vmap(
      lambda key: rand_augment.augment(key, {'image': jnp.asarray(image)}, settings)['image']
    )
  )
  results = np.asarray(apply(jax.random.split(jax.random.key(0), 2000)))
  counts = collections.Counter(result.tobytes() for result in results)
  assert counts.pop(image.tobytes()) == pytest.approx(500, abs=100)  # five standard deviations
  brighter_or_darker = sorted(counts.values())[:2]
  assert len(counts) == 4 and brighter_or_darker == pytest.approx([250, 250], abs=75)
