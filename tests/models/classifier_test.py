"""Tests that Linen modules need images alone and return logits, or are refused with the fix."""

import flax.linen as nn
import jax
import numpy as np

from robustness.models.classifier import from_linen
from tests.cases import cases
from tests.refusals import refused

SHAPE = (4, 5, 3)


class Network(nn.Module):
  """A batch norm and a dense layer, with faults that its fields select."""

  train_by_default: bool = False
  pair: bool = False

  @nn.compact
  def __call__(self, images: jax.Array, train: bool | None = None):
    train = self.train_by_default if train is None else train
    logits = nn.Dense(2)(nn.BatchNorm(use_running_average=not train)(images).mean((1, 2)))
    return (logits, images) if self.pair else logits


class NeedsTrain(nn.Module):
  @nn.compact
  def __call__(self, images, train):
    return images.mean((1, 2))


@cases(
  'module, collections, classes, message',
  (Network(), ('params', 'batch_stats'), 3, r'gives \(1, 2\) for 1 images and 3 class names'),
  (Network(pair=True), ('params', 'batch_stats'), 2, 'gives tuple for 1 images'),
  (Network(), ('params',), 2, r"BatchNorm_0.*Give all its collections, such as \{'params'"),
  (Network(train_by_default=True), ('params', 'batch_stats'), 2, 'train=False by default'),
  (NeedsTrain(), (), 3, "missing 1 required positional argument: 'train'.*train=False by default"),
)
def test_other_modules_are_refused_with_the_fix(module, collections, classes, message):
  common = {'name': 'net', 'input_shape': SHAPE, 'mean': [0.5], 'std': [0.5]}
  names = [str(number) for number in range(classes)]
  complete = module.init(jax.random.key(0), np.zeros((1, *SHAPE)), train=True)
  variables = {name: complete[name] for name in collections}
  refused(message, from_linen, module, variables, class_names=names, **common)
