"""Tests that gradients of convolutions on a CPU are XLA's, also in loops, maps and on devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from robustness.models import convolution_gradients
from robustness.models.layers import convolution
from tests.cases import cases

# kernel's side, stride, padding and images' side
CASES = {
  '3x3': (3, 1, ((1, 1), (1, 1)), 9),
  '3x3, stride 2': (3, 2, ((1, 1), (1, 1)), 9),
  '3x3, stride 2, even image': (3, 2, 'SAME', 8),
  '5x5, valid': (5, 1, 'VALID', 9),
  '1x1': (1, 1, 'SAME', 7),
  '1x1, stride 2': (1, 2, 'VALID', 8),
  '3x3, uneven pads': (3, 1, ((0, 2), (1, 0)), 6),
}


def xla(x, kernel, strides, padding):
  layout = ('NHWC', 'HWIO', 'NHWC')
  return lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=layout)


ours = convolution_gradients.convolution


def drawn(*shape, seed=0):
  """Returns standard normal float32 values."""
  return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def gradients(convolve, x, kernel, stride=1, padding='SAME'):
  """Returns a convolution's values and its gradients by images and kernel.

  They are the gradients of a loss that weighs every value differently.
  """

  def loss(x, kernel):
    y = convolve(x, kernel, (stride, stride), padding)
    weights = jnp.sin(jnp.arange(y.size, dtype=jnp.float32)).reshape(y.shape)
    return (y.astype(jnp.float32) * weights).sum(), y

  (_, y), grads = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(x, kernel)
  return y, *grads


@pytest.mark.parametrize('case', CASES)
@pytest.mark.parametrize('images', [6, pytest.param(11, marks=pytest.mark.slow)])
def test_values_and_gradients_match_xla(case, images):
  side, stride, padding, size = CASES[case]
  x, kernel = drawn(images, size, size, 8), drawn(side, side, 8, 12, seed=1)
  mine = gradients(ours, x, kernel, stride, padding)
  for actual, theirs in zip(mine, gradients(xla, x, kernel, stride, padding), strict=True):
    np.testing.assert_allclose(actual, theirs, rtol=1e-5, atol=1e-5 * float(jnp.abs(theirs).max()))
  assert 'while' in _program(x, kernel, stride, padding), 'patches were used'


@pytest.mark.slow
@cases('height, width, images', (8, 9, 37), (7, 12, 6), (15, 7, 16))
def test_winograds_gradients_match_xla(height, width, images):
  x, kernel = drawn(images, height, width, 128), drawn(3, 3, 128, 160, seed=1)
  mine = gradients(ours, x, kernel)
  for actual, theirs in zip(mine, gradients(xla, x, kernel), strict=True):
    np.testing.assert_allclose(actual, theirs, rtol=0, atol=3e-5 * float(jnp.abs(theirs).max()))
  np.testing.assert_array_equal(ours(x, kernel, (1, 1), 'SAME'), xla(x, kernel, (1, 1), 'SAME'))


@pytest.mark.parametrize(
  'change', [{}, {'side': 1}, {'stride': 2}, {'padding': 'VALID'}, {'filters': 64}, {'size': 6}]
)
def test_winograds_algorithm_is_used_for_many_channels_and_positions(change):
  settings = {'side': 3, 'stride': 1, 'padding': 'SAME', 'filters': 128, 'size': 8, **change}
  x = drawn(2, settings['size'], settings['size'], 128)
  kernel = drawn(settings['side'], settings['side'], 128, settings['filters'])
  program = _program(x, kernel, settings['stride'], settings['padding'])
  assert ('tensor<36x' in program) == (not change)


def _program(x, kernel, stride=1, padding='SAME'):
  """Returns the text of the program of the kernel's gradient."""
  total = jax.grad(lambda kernel: ours(x, kernel, (stride, stride), padding).sum())
  return jax.jit(total).lower(kernel).as_text()


@cases('channels, filters, side', (3, 16, 16), (16, 128, 4))
def test_patches_are_not_used_if_they_are_slower(channels, filters, side):
  x, kernel = drawn(2, side, side, channels), drawn(3, 3, channels, filters)
  assert 'while' not in _program(x, kernel)


def test_bfloat16_is_summed_in_float32_and_layers_use_it():
  assert convolution(8, 3, dtype=jnp.float32, name='conv').conv_general_dilated is ours
  x, kernel = drawn(16, 8, 8, 8), drawn(3, 3, 8, 8, seed=1)
  exact = gradients(xla, x, kernel)[2]
  rounded = gradients(ours, x.astype(jnp.bfloat16), kernel.astype(jnp.bfloat16))[2]
  assert rounded.dtype == jnp.bfloat16
  scale = float(jnp.abs(exact).max())
  np.testing.assert_allclose(rounded.astype(jnp.float32), exact, atol=0.01 * scale)


@pytest.mark.slow
@pytest.mark.parametrize('channels', [8, 128])
def test_devices_exchange_the_finished_gradient_alone(channels):
  """The program has one reduction, outside the loop, and gathers no images."""
  devices = jax.devices()
  mesh = jax.make_mesh((len(devices),), ('data',), axis_types=(AxisType.Auto,))
  split, replicated = (
    NamedSharding(mesh, PartitionSpec('data')),
    NamedSharding(mesh, PartitionSpec()),
  )
  x = drawn(4 * len(devices), 8, 8, channels)
  kernel = drawn(3, 3, channels, channels, seed=1)

  def gradient(x, kernel):
    return jax.grad(lambda kernel: (ours(x, kernel, (1, 1), 'SAME') ** 2).sum())(kernel)

  step = jax.jit(gradient, in_shardings=(split, replicated), out_shardings=replicated)
  program = step.lower(x, kernel).compile().as_text()
  assert program.count(' all-reduce(') == 1
  assert not any(word in program for word in ('all-gather', 'all-to-all', 'collective-permute'))
  expected = jax.jit(gradient)(x, kernel)
  np.testing.assert_allclose(
    step(x, kernel), expected, rtol=1e-5, atol=1e-5 * float(expected.max())
  )


@pytest.mark.slow
@pytest.mark.parametrize('channels', [8, 128])
def test_gradients_match_xla_in_a_loop_in_a_map_and_of_second_order(channels):
  x = drawn(2, 4, 6, 6, channels)
  kernel = drawn(3, 3, channels, channels, seed=1) / channels

  def loss(convolve, x, kernel):
    return jnp.tanh(convolve(x, kernel, (1, 1), 'SAME')).sum()

  def looped(convolve):
    def add(total, part):
      return total + jax.grad(loss, 2)(convolve, part, kernel), None

    return jax.jit(lambda: lax.scan(add, jnp.zeros(kernel.shape), x)[0])()

  def mapped(convolve):
    return jax.jit(jax.vmap(jax.grad(loss, 2), (None, 0, None)), static_argnums=0)(
      convolve, x, kernel
    )

  def twice(convolve):
    def norm(kernel):
      return (jax.grad(loss, 1)(convolve, x[0], kernel) ** 2).sum()

    return jax.jit(jax.grad(norm))(kernel)

  for gradient in (looped, mapped, twice):
    np.testing.assert_allclose(gradient(ours), gradient(xla), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('channels', [3, 8])
def test_in_a_loop_the_flipped_kernel_has_the_layout_of_the_fast_convolution(channels):
  """XLA's only convolution for kernels in another order than HWIO is one of nested loops."""
  x, kernel = drawn(2, 8, 8, channels), drawn(3, 3, channels, 8, seed=1) / 10

  def program(convolve):
    gradient = jax.grad(lambda x, kernel: jnp.tanh(convolve(x, kernel, (1, 1), 'SAME')).sum())

    def ascend(x, kernel):
      return lax.fori_loop(0, 4, lambda _, moved: moved + gradient(moved, kernel), x)

    return jax.jit(ascend).lower(x, kernel).compile().as_text()

  assert 'b01f_01oi->b01f' in program(xla), 'XLA has become fast: use it'
  assert 'b01f_01oi->b01f' not in program(ours)


@cases(
  'images, limit, expected',
  (16, 8, (8, 2)),
  (250, 7, (5, 5)),  # 50 images of a share
  (127, 7, (1, 7)),  # 133 with 6 of zeros
  (34, 3, (2, 3)),
  (5, 100, (5, 1)),
  (6, 0, (6, 1)),
)
def test_chunks_divide_the_images_or_add_few_zeros(images, limit, expected):
  assert convolution_gradients._chunks(jnp.zeros((images, 1)), limit) == expected
