"""Corruptions of C-bar that add or blend in patterns: waves, plasma, gradient noise, and noise that
is drawn as a spectrum.

Images are [N, N, C], and pixel (r, c) has its centre at the integers r, c = 0..N - 1.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.corruption import Constants, Draws, Strength, c_bar, uniform
from robustness.corruptions.filters import grid

MOST_STEPS = 6  # of the plasma's recursion
TABLE = 256  # gradients of Perlin's noise
CELLS = 7  # of its lattice along a side, in the lowest octave
OCTAVES = (1, 2, 4, 8, 16)
GAIN = 1.5


def _draw_single_frequency(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns `frequency` (fx, fy), the larger of which is uniform on [-π, π], and `phase`."""
  keys = jax.random.split(key, 4)
  first = uniform(keys[0], -jnp.pi, jnp.pi)
  pair = jnp.stack([first, jnp.abs(first) * uniform(keys[1], -1, 1)])
  swapped = jax.random.bernoulli(keys[2])
  return {
    'frequency': jnp.where(swapped, pair[::-1], pair),
    'phase': uniform(keys[3], 0, 2 * jnp.pi),
  }


@c_bar(_draw_single_frequency, imagenet=(1.0, 1.5, 2.0, 4.5, 5.0))
def single_frequency_greyscale(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns clip(x + A sin(c fx + r fy + φ), 0, 1), the same in all channels; 255 A = 19.6 m."""
  r, c = grid(image.shape[0])
  amplitude = 19.6 / 255 * strength['magnitude']
  wave = jnp.sin(c * draws['frequency'][0] + r * draws['frequency'][1] + draws['phase'])
  return jnp.clip(image + amplitude * wave[..., None], 0, 1)


def _draw_cocentric(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns `centre` (row, column), `frequency` k, `wobble` a and `width` w, pixels."""
  side, keys = shape[0], jax.random.split(key, 4)
  return {
    'centre': uniform(keys[0], 0, side, (2,)),
    'frequency': uniform(keys[1], 0, 10),
    'wobble': uniform(keys[2], 0, side / 10),
    'width': uniform(keys[3], 0, side / 10),
  }


@c_bar(_draw_cocentric, imagenet=(3.0, 5.0, 8.0, 9.0, 10.0))
def cocentric_sine_waves(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns clip(x + I z, 0, 1), the same in all channels (so spelled in the released set).

  z ∈ [-½, ½) is a sawtooth of wobbly rings, z = ((ρ + a sin kθ) mod w) / w - ½, and 255 I = 12.8 m.
  k is real, so that there is a seam.
  """
  r, c = grid(image.shape[0])
  down, right = r - draws['centre'][0], c - draws['centre'][1]
  radius, angle = jnp.hypot(down, right), jnp.arctan2(right, down)
  width = jnp.maximum(draws['width'], 1e-6)
  rings = jnp.mod(radius + draws['wobble'] * jnp.sin(draws['frequency'] * angle), width) / width
  height = 12.8 / 255 * strength['magnitude']
  return jnp.clip(image + height * (rings - 0.5)[..., None], 0, 1)


def _draw_plasma(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns `time` T, `steps` of 4, 5, 6, `sharpness` q, and `scale` in pixels."""
  side, keys = shape[0], jax.random.split(key, 4)
  return {
    'time': uniform(keys[0], 0, 6 * jnp.pi),
    'steps': jax.random.randint(keys[1], (), 4, MOST_STEPS + 1),
    'sharpness': uniform(keys[2], 0.5, 1),
    'scale': uniform(keys[3], 0.075 * side, 0.2 * side),
  }


@c_bar(_draw_plasma, imagenet=(4.75, 7.0, 8.5, 9.25, 10.0))
def plasma_noise(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns clip((1 - I) x + I n, 0, 1) with n ∈ [-1, 1] of each channel; 255 I = 6.4 m.

  As n has the mean 0, the image is darkened. A grey image takes the mean of the three n.
  """
  time = draws['time']
  y, x = (jnp.broadcast_to(v, image.shape[:2]) / draws['scale'] for v in grid(image.shape[0]))
  fine, slow, divisor = 1.0, 1.0, jnp.float32(1)
  for step in range(MOST_STEPS):
    across = jnp.cos(fine * y + time / slow) / divisor
    along = jnp.sin(fine * x + time / slow) / divisor
    across, along = across - 0.3 * along, along + 0.3 * across
    taken = step < draws['steps']
    x, y = jnp.where(taken, x + across, x), jnp.where(taken, y + along, y)
    fine, slow, divisor = fine * 1.93, slow * 1.15, divisor * (2.25 - draws['sharpness'])
  waves = [jnp.sin(x - time), jnp.sin((x + y + jnp.sin(time)) / 2), jnp.sin(y + time)]
  noise = jnp.stack(waves, -1)
  if image.shape[-1] == 1:
    noise = noise.mean(-1, keepdims=True)
  weight = 6.4 / 255 * strength['magnitude']
  return jnp.clip((1 - weight) * image + weight * noise, 0, 1)


def _draw_perlin(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns `gradients` [256, 2] of length 1 (diagonals are favoured) and `permutation` [256].

  A gradient that is drawn as (0, 0), which has no direction, becomes (1, 0).
  The released generator shuffles its table with a slight bias; this permutation is uniform.
  """
  gradient_key, order_key = jax.random.split(key)
  drawn = jax.random.randint(gradient_key, (TABLE, 2), -TABLE, TABLE).astype(jnp.float32)
  length = jnp.sqrt((drawn**2).sum(1, keepdims=True))
  return {
    'gradients': jnp.where(length > 0, drawn / jnp.maximum(length, 1), jnp.array([1.0, 0.0])),
    'permutation': jax.random.permutation(order_key, TABLE),
  }


@c_bar(_draw_perlin, imagenet=(4.6, 5.2, 5.8, 7.6, 8.8))
def perlin_noise(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns (1 - α) x + α g with α = .05 m, g = clip(½ t + ½, 0, 1) and t = Σ_f |noise(f p)| / f,
  the same in all channels; f = 1, 2, 4, 8, 16 and p = 7 (r, c) / N (Perlin 1985).
  """
  r, c = (CELLS / image.shape[0] * line for line in grid(image.shape[0]))
  total = sum(
    (jnp.abs(noise(f * r, f * c, draws['gradients'], draws['permutation'])) / f for f in OCTAVES),
    jnp.zeros(image.shape[:2]),
  )
  weight = 0.05 * strength['magnitude']
  grey = jnp.clip(0.5 * total + 0.5, 0, 1)[..., None]
  return (1 - weight) * image + weight * grey


def noise(r: jax.Array, c: jax.Array, gradients: jax.Array, permutation: jax.Array) -> jax.Array:
  """Returns gradient noise × 1.5 at lattice coordinates, float32 [N, M]; 0 on lattice points.

  Args:
    r: rows [N, 1], at least 0.
    c: columns [1, M], at least 0.
    gradients: [256, 2] along rows and columns.
    permutation: of 0..255, [256]; the gradient of (i, j) is that of p[p[i] + j].
  """
  top, left = jnp.floor(r), jnp.floor(c)
  down, right = r - top, c - left
  i, j = top.astype(jnp.int32), left.astype(jnp.int32)

  def corner(below: int, beside: int) -> jax.Array:
    hashed = permutation[(permutation[(i + below) % TABLE] + (j + beside) % TABLE) % TABLE]
    gradient = gradients[hashed]
    return (down - below) * gradient[..., 0] + (right - beside) * gradient[..., 1]

  s, t = (v * v * (3 - 2 * v) for v in (down, right))
  upper, lower = ((1 - s) * corner(0, k) + s * corner(1, k) for k in (0, 1))
  return GAIN * ((1 - t) * upper + t * lower)


def _draw_blue(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns `phases` [N, N / 2] in [0, 2π)."""
  return {'phases': uniform(key, 0, 2 * np.pi, (shape[0], shape[0] // 2))}


@c_bar(_draw_blue, cifar=(0.7, 1.4, 2.1, 3.5, 4.2), imagenet=(0.8, 1.6, 2.4, 4.0, 5.6), even=True)
def blue_noise_sample(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Blackens the pixels where noise with the spectrum |k|, of standard deviation 1, is at most
  .3 m - 2.5: black pixels avoid each other.
  """
  field = field_of(draws['phases'], np.sqrt(_squared(image.shape[0])))
  threshold = 0.3 * strength['magnitude'] - 2.5
  return jnp.where((field > threshold)[..., None], image, 0)


def _draw_brownish(key: jax.Array, shape: tuple[int, ...], constants: Constants) -> Draws:
  """Returns `phases` [3, N, N / 2] in [0, 2π); a grey image uses the first."""
  return {'phases': uniform(key, 0, 2 * np.pi, (3, shape[0], shape[0] // 2))}


@c_bar(
  _draw_brownish, cifar=(2.5, 4.0, 5.5, 6.5, 7.0), imagenet=(1.0, 2.0, 3.0, 4.0, 5.0), even=True
)
def brownish_noise(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns clip(x + σ n, 0, 1), n of each channel with the spectrum 1 / (|k|² + 1) and standard
  deviation 1; 255 σ = 6.4 m. The mean of n is not removed: channels shift in level.
  """
  amplitude = 1 / (_squared(image.shape[0]) + 1)
  phases = draws['phases'][: image.shape[-1]]
  noise = jnp.moveaxis(jax.vmap(lambda phase: field_of(phase, amplitude))(phases), 0, -1)
  return jnp.clip(image + 6.4 / 255 * strength['magnitude'] * noise, 0, 1)


def field_of(half: jax.Array, amplitude: np.ndarray) -> jax.Array:
  """Returns the real part of the inverse transform, divided by its standard deviation, [N, N].

  The right half of the phases is the left one turned by 180°, as released. That is no Hermitian
  spectrum: taking the real part leaves each frequency a random share of its amplitude.

  Args:
    half: phases [N, N / 2] of the left half, frequency 0 in the middle of the whole.
    amplitude: [N, N], frequency 0 in the middle.
  """
  side = len(half)
  phase = jnp.concatenate([half, half[::-1, ::-1]], 1)
  spectrum = jnp.asarray(amplitude, jnp.float32) * jax.lax.complex(jnp.cos(phase), jnp.sin(phase))
  field = jnp.fft.ifft2(jnp.roll(spectrum, (side // 2, side // 2), (0, 1))).real
  return field / field.std()


def _squared(side: int) -> np.ndarray:
  """Returns |k|² with frequency 0 in the middle, float64 [N, N]."""
  line = (np.arange(side) - side // 2) ** 2.0
  return line[:, None] + line
