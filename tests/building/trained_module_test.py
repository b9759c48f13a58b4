"""Tests of the modules that `robustness.train` takes."""

import jax
import numpy as np
from flax import linen as nn

from robustness.building.trained_module import TrainedModule


class WithSettings(nn.Module):
  """A network whose settings change neither its logits for given variables nor their shapes."""

  momentum: float = 0.9
  scale: float = 1.0
  is_frozen: bool = False

  @nn.compact
  def __call__(self, images, train=False):
    init = nn.initializers.variance_scaling(self.scale, 'fan_in', 'normal')
    x = nn.Dense(3, kernel_init=init)(images.mean((1, 2)))
    x = nn.tanh(nn.BatchNorm(not train, momentum=self.momentum)(x))
    return nn.Dense(2)(jax.lax.stop_gradient(x) if self.is_frozen else x)


def test_a_module_is_identified_by_its_initialisation_statistics_and_gradient():
  def numbers(**settings):
    network = TrainedModule('network', module=WithSettings(**settings), image_shape=(4, 4, 3))
    return np.array(network.architecture_facts['outputs_on_fixed_images'])

  first, again = numbers(), numbers()
  np.testing.assert_array_equal(first, again)
  for changed in ({'momentum': 0.5}, {'scale': 1.1}, {'is_frozen': True}):
    difference = np.abs(numbers(**changed) - first).max() / np.abs(first).max()
    assert difference > 5e-3, changed  # five times the tolerance of a resumed training
