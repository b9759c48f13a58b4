"""Tests the checks of input filters that users write."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from robustness.models.inputs import InputFilter
from tests.cases import cases
from tests.networks import SHAPE
from tests.refusals import refused


@dataclasses.dataclass(frozen=True)
class Filter(InputFilter):
  """A filter that applies `function` to a batch of images."""

  resembles = ()
  function: object = jnp.sqrt

  def __call__(self, images):
    return self.function(images)


def check(function):
  Filter(function).check(SHAPE)


@cases(
  'function, message',
  (lambda images: jnp.uint8(255 * images), r"'inputs_test' gives uint8 \[2, 6, 5, 3\] for"),
  (lambda images: images[:, 1:], r'gives float32 \[2, 5, 5, 3\] for images \[2, 6, 5, 3\]'),
  (lambda images: images[:1], r'gives float32 \[1, 6, 5, 3\] for images \[2, 6, 5, 3\]'),
  (lambda images: images - images.mean(), 'other values beside a second one'),
  (lambda images: images / images.max(0, keepdims=True), 'other values beside a second one'),
  (lambda images: images + np.random.rand(*images.shape), 'without random numbers'),
)
def test_filters_that_make_no_image_of_each_image_alone_are_refused(function, message):
  refused(message, check, function)


def test_a_filter_of_each_image_passes_in_any_float_type():
  for function in (
    lambda images: images - images.mean((1, 2, 3), keepdims=True),
    lambda images: images.astype(jnp.bfloat16),
    jax.vmap(lambda image: image / image.max()),
  ):
    check(function)
