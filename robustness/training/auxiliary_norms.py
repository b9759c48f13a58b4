"""A second set of normalisation layers, for augmented or adversarial images.

Clean and altered images have different statistics, which one set of layers would mix. The second
set is stored under `auxiliary_norms` in `params` and `batch_stats`, and is removed from the weights
at the end of a training.

Reference:
  Xie et al. (2020), Adversarial Examples Improve Image Recognition, section 4; Vaish et al. (2024),
  Fourier-basis Functions to Bridge Augmentation Gap, section 3.
"""

import collections

import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict

from robustness.core.errors import KEYS, InputError
from robustness.core.typing import Variables

AUXILIARY = 'auxiliary_norms'
_ARRAYS = {'scale', 'bias', 'mean', 'var'}
"""Arrays of normalisation layers; a layer without other arrays is one."""


def with_second_norms(variables: Variables) -> Variables:
  """Adds a copy of all normalisation layers' arrays, for augmented or adversarial images.

  The copy is under the key `auxiliary_norms` of `params` and of `batch_stats`.

  Raises:
    InputError: The network has no normalisation layers.
  """
  flat = flatten_dict(dict(without_second_norms(variables)), keep_empty_nodes=True)
  # a path is (collection, *layer, array), such as ('params', 'stem', 'bn', 'scale')
  arrays_of_layer = collections.defaultdict(set)  # {path of a layer: names of its arrays}
  for path in flat:
    arrays_of_layer[path[1:-1]].add(path[-1])
  # layers that have no other arrays than normalisation layers do; () is the network itself
  norms = {layer for layer, arrays in arrays_of_layer.items() if layer and arrays <= _ARRAYS}
  second = {}
  for path, value in flat.items():
    if path[1:-1] in norms:  # the path of the layer
      second[path[0], AUXILIARY, *path[1:]] = jnp.copy(value)
  if not second:
    raise InputError(
      f'{KEYS.training.auxiliary_norms} is above 0, and this network has no normalisation layers: '
      f'set it to 0, or take another {KEYS.classifier.name:--}.'
    )
  return unflatten_dict({**flat, **second})


def without_second_norms(variables: Variables) -> Variables:
  """Removes the second set of normalisation layers that `with_second_norms` added.

  Variables without a second set are returned unchanged.
  """
  return {
    name: {key: value for key, value in tree.items() if key != AUXILIARY}
    for name, tree in variables.items()
  }


def swap_norms(variables: Variables) -> Variables:
  """Exchanges the first and second set of normalisation layers' arrays.

  The network then uses the set that `with_second_norms` added. `variables` have `params`,
  `batch_stats` or both.
  """
  flat = flatten_dict(dict(variables), keep_empty_nodes=True)
  # a path of the second set is (collection, AUXILIARY, *layer, array); others may be (collection,)
  for path in [path for path in flat if path[1:2] == (AUXILIARY,)]:
    collection, _, *layer_and_array = path
    in_network = (collection, *layer_and_array)  # path of the same array in the first set
    flat[path], flat[in_network] = flat[in_network], flat[path]
  return unflatten_dict(flat)
