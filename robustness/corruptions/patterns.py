"""Corruptions of C-bar that draw over an image: waves, plasma, gradient noise, noise that is drawn
as a spectrum, checkerboards, lines and white stars.

Images are [N, N, C], and pixel (r, c) has its centre at the integers r, c = 0..N - 1.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.corruption import Draws, Strength, c_bar, uniform
from robustness.corruptions.filters import grid
from robustness.corruptions.names import ALONE, NOISE
from robustness.corruptions.pixels import GUARD, from_levels

MOST_STEPS = 6  # of the plasma's recursion
TABLE = 256  # gradients of Perlin's noise
CELLS = 7  # of its lattice along a side, in the lowest octave
OCTAVES = (1, 2, 4, 8, 16)
GAIN = 1.5
GREY = 128 / 255
MOST_CELLS = 40  # of the grid along a side
COUNTED = 1e-4  # keeps a number of lines that is exactly an integer from falling below it
LINES = (0.5, 1.0, 1.5, 2.0, 2.5)
STARS = 5
FEWEST_RAYS, MOST_RAYS = 50, 199
SPREAD = 0.25  # standard deviation of a ray's length, relative


def _draw_wave(keys: jax.Array, side: int) -> Draws:
  """Returns `frequency` (fx, fy), the larger of which is uniform on [-π, π], and `phase`."""
  first = uniform(keys[0], -jnp.pi, jnp.pi)
  pair = jnp.stack([first, jnp.abs(first) * uniform(keys[1], -1, 1)])
  swapped = jax.random.bernoulli(keys[2])
  return {
    'frequency': jnp.where(swapped, pair[::-1], pair),
    'phase': uniform(keys[3], 0, 2 * jnp.pi),
  }


@c_bar(_draw_wave, imagenet=(1.0, 1.5, 2.0, 4.5, 5.0), keys=4, family=ALONE)
def single_frequency_greyscale(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns clip(x + A sin(c fx + r fy + φ), 0, 1), the same in all channels; 255 A = 19.6 m."""
  r, c = grid(image.shape[0])
  amplitude = 19.6 / 255 * strength['magnitude']
  wave = jnp.sin(c * draws['frequency'][0] + r * draws['frequency'][1] + draws['phase'])
  return jnp.clip(image + amplitude * wave[..., None], 0, 1)


@c_bar(
  lambda keys, side: {
    'centre': uniform(keys[0], 0, side, (2,)),
    'frequency': uniform(keys[1], 0, 10),
    'wobble': uniform(keys[2], 0, side / 10),
    'width': uniform(keys[3], 0, side / 10),
  },
  imagenet=(3.0, 5.0, 8.0, 9.0, 10.0),
  keys=4,
  family=ALONE,
)
def cocentric_sine_waves(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns clip(x + I z, 0, 1), the same in all channels (so spelled in the released set).

  z ∈ [-½, ½) is a sawtooth of wobbly rings, z = ((ρ + a sin kθ) mod w) / w - ½, and 255 I = 12.8 m.
  `frequency` k is real, so that there is a seam; `wobble` a and `width` w are in pixels.
  """
  r, c = grid(image.shape[0])
  down, right = r - draws['centre'][0], c - draws['centre'][1]
  radius, angle = jnp.hypot(down, right), jnp.arctan2(right, down)
  width = jnp.maximum(draws['width'], 1e-6)
  rings = jnp.mod(radius + draws['wobble'] * jnp.sin(draws['frequency'] * angle), width) / width
  height = 12.8 / 255 * strength['magnitude']
  return jnp.clip(image + height * (rings - 0.5)[..., None], 0, 1)


@c_bar(
  lambda keys, side: {
    'time': uniform(keys[0], 0, 6 * jnp.pi),
    'steps': jax.random.randint(keys[1], (), 4, MOST_STEPS + 1),
    'sharpness': uniform(keys[2], 0.5, 1),
    'scale': uniform(keys[3], 0.075 * side, 0.2 * side),
  },
  imagenet=(4.75, 7.0, 8.5, 9.25, 10.0),
  keys=4,
  family=ALONE,
)
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


def _draw_perlin(keys: jax.Array, side: int) -> Draws:
  """Returns `gradients` [256, 2] of length 1 (diagonals are favoured) and `permutation` [256].

  A gradient that is drawn as (0, 0), which has no direction, becomes (1, 0).
  The released generator shuffles its table with a slight bias; this permutation is uniform.
  """
  drawn = jax.random.randint(keys[0], (TABLE, 2), -TABLE, TABLE).astype(jnp.float32)
  length = jnp.sqrt((drawn**2).sum(1, keepdims=True))
  return {
    'gradients': jnp.where(length > 0, drawn / jnp.maximum(length, 1), jnp.array([1.0, 0.0])),
    'permutation': jax.random.permutation(keys[1], TABLE),
  }


@c_bar(_draw_perlin, imagenet=(4.6, 5.2, 5.8, 7.6, 8.8), keys=2, family=ALONE)
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
  """Returns gradient noise × 1.5 at rows [N, 1] and columns [1, M] of the lattice, float32 [N, M];
  0 on its points. The gradient of (i, j) is that of p[p[i] + j], p the permutation."""
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


@c_bar(
  lambda key, side: {'phases': uniform(key, 0, 2 * np.pi, (side, side // 2))},
  cifar=(0.7, 1.4, 2.1, 3.5, 4.2),
  imagenet=(0.8, 1.6, 2.4, 4.0, 5.6),
  even=True,
  family=NOISE,
)
def blue_noise_sample(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Blackens the pixels where noise with the spectrum |k|, of standard deviation 1, is at most
  .3 m - 2.5: black pixels avoid each other.
  """
  field = field_of(draws['phases'], np.sqrt(_squared(image.shape[0])))
  threshold = 0.3 * strength['magnitude'] - 2.5
  return jnp.where((field > threshold)[..., None], image, 0)


@c_bar(
  lambda key, side: {'phases': uniform(key, 0, 2 * np.pi, (3, side, side // 2))},
  cifar=(2.5, 4.0, 5.5, 6.5, 7.0),
  imagenet=(1.0, 2.0, 3.0, 4.0, 5.0),
  even=True,
  family=NOISE,
)
def brownish_noise(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns clip(x + σ n, 0, 1), n of each channel with the spectrum 1 / (|k|² + 1) and standard
  deviation 1; 255 σ = 6.4 m. The mean of n is not removed: channels shift in level. A grey image
  uses the first phases.
  """
  amplitude = 1 / (_squared(image.shape[0]) + 1)
  phases = draws['phases'][: image.shape[-1]]
  noise = jnp.moveaxis(jax.vmap(lambda phase: field_of(phase, amplitude))(phases), 0, -1)
  return jnp.clip(image + 6.4 / 255 * strength['magnitude'] * noise, 0, 1)


def field_of(half: jax.Array, amplitude: np.ndarray) -> jax.Array:
  """Returns the real part of the inverse transform, divided by its standard deviation, [N, N].

  The right half of the phases is the left one turned by 180°, as released. That is no Hermitian
  spectrum: taking the real part leaves each frequency a random share of its amplitude.

  `half` [N, N / 2] are the phases of the left half, `amplitude` is [N, N]; frequency 0 is in the
  middle of the whole.
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


@c_bar(
  lambda keys, side: {
    'angle': uniform(keys[0], 0, 2 * np.pi),
    'cell': jnp.maximum(side * uniform(keys[1], 0.1, 0.25), 1),
    'luck': uniform(keys[2], 0, 1, (MOST_CELLS, MOST_CELLS)),
  },
  cifar=(1.0, 2.0, 3.0, 4.0, 5.0),
  imagenet=(2.0, 3.0, 4.0, 5.0, 6.0),
  keys=3,
  family=ALONE,
)
def checkerboard_cutout(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Turns cells of one colour of a rotated checkerboard grey, each with the chance .1 m."""
  r, c = grid(image.shape[0])
  cos, sin = jnp.cos(draws['angle']), jnp.sin(draws['angle'])
  u, v = (r * cos + c * sin) / draws['cell'], (c * cos - r * sin) / draws['cell']
  count = jnp.floor(4 * image.shape[0] / draws['cell']).astype(jnp.int32)
  count = jnp.minimum(count, MOST_CELLS)

  def cell(position: jax.Array) -> jax.Array:
    towards_zero = jnp.trunc(position).astype(jnp.int32)
    return jnp.where(towards_zero < 0, towards_zero + count, towards_zero)

  one_colour = (jnp.floor(u) - jnp.floor(v)) % 2 == 0
  cut = draws['luck'][cell(u), cell(v)] < 0.1 * strength['magnitude']
  return jnp.where((one_colour & cut)[..., None], jnp.float32(GREY), image)


def _draw_lines(keys: jax.Array, side: int) -> Draws:
  """Returns a `point` (row, column) and an `angle` of as many lines as there are at most."""
  count = int(0.1 * LINES[-1] * side + COUNTED)
  turns = uniform(keys[2], -0.5, 0.5, (count,)) * uniform(keys[1], 0.1, 1)
  return {
    'point': uniform(keys[3], 0, side, (count, 2)),
    'angle': uniform(keys[0], 0, 2 * np.pi) + 2 * np.pi * turns,
  }


@c_bar(_draw_lines, cifar=LINES, keys=4, family=ALONE)
def lines(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Draws ⌊.1 m N⌋ anti-aliased grey lines of similar directions; pixels that they touch are
  truncated to 8 bits after each line.
  """
  side = image.shape[0]
  directions = jnp.stack([jnp.sin(draws['angle']), jnp.cos(draws['angle'])], 1)

  def add(number: jax.Array, covered: jax.Array) -> jax.Array:
    reach = side * directions[number]
    ends = [jnp.trunc(draws['point'][number] + sign * reach) for sign in (-1, 1)]
    weight = line_weight(side, *ends)[..., None]
    mixed = 255 * ((1 - weight) * covered + weight * GREY)
    truncated = from_levels(jnp.floor(jnp.clip(mixed, 0, 255) + GUARD).astype(jnp.uint8))
    return jnp.where(weight > 0, truncated, covered)

  count = jnp.floor(0.1 * side * strength['magnitude'] + COUNTED).astype(jnp.int32)
  return jax.lax.fori_loop(0, count, add, image)


def line_weight(side: int, start: jax.Array, end: jax.Array) -> jax.Array:
  """Returns what a line one pixel wide covers of each pixel, max(0, 1 - distance), [N, N].

  `start` and `end` are (row, column); beyond them, along the longer axis, nothing is covered.
  """
  r, c = grid(side)
  down, right = end - start
  length = jnp.maximum(jnp.hypot(down, right), 1e-6)
  distance = jnp.abs((r - start[0]) * right - (c - start[1]) * down) / length
  (top, bottom), (left, right_end) = (jnp.sort(jnp.stack([start[k], end[k]])) for k in (0, 1))
  within = jnp.where(
    jnp.abs(down) > jnp.abs(right), (r >= top) & (r <= bottom), (c >= left) & (c <= right_end)
  )
  return jnp.where(within, jnp.maximum(0, 1 - distance), 0)


def _stars(keys: jax.Array, count: int, low: float, high: float) -> Draws:
  """Returns `centre` [S, 2] (row, column), `rays` [S] and `noise` [S, 199], standard normal."""
  return {
    'centre': uniform(keys[0], low, high, (count, 2)),
    'rays': jax.random.randint(keys[1], (count,), FEWEST_RAYS, MOST_RAYS + 1),
    'noise': jax.random.normal(keys[2], (count, MOST_RAYS), jnp.float32),
  }


@c_bar(
  lambda keys, side: _stars(keys, STARS, 0, side),
  cifar=(0.7, 3.5, 5.6, 6.3, 7.0),
  imagenet=(1.0, 2.0, 3.0, 5.0, 6.0),
  keys=3,
  family=ALONE,
)
def sparkles(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns 1 - (1 - x) Π_s (1 - w_s) over five stars s, whose rays are .01 m N pixels long, one at
  least.
  """
  length = 0.01 * image.shape[0] * strength['magnitude']
  lengths = jnp.maximum(1, length * (1 + SPREAD * draws['noise']))

  def dimmed(star: int) -> jax.Array:
    reach, falloff = _ray(image.shape[0], draws, star, lengths[star])
    return 1 - jnp.clip(falloff * reach, 0, 1)

  clear = jnp.prod(jnp.stack([dimmed(star) for star in range(STARS)]), 0)
  return 1 - (1 - image) * clear[..., None]


@c_bar(
  lambda keys, side: _stars(keys, 1, 0.25 * side, 0.75 * side),  # not near the border
  cifar=(1.0, 1.5, 2.5, 4.5, 5.0),
  imagenet=(1.0, 2.0, 4.0, 9.0, 10.0),
  keys=3,
  family=ALONE,
)
def inverse_sparkles(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Returns 1 + w (x - 1): an image that is clear near the centre of one star and white outside.

  The rays are .25 N pixels long; how fast they end grows with the exponent .13 m.
  """
  lengths = 0.25 * image.shape[0] * (1 + SPREAD * draws['noise'][0])
  reach, falloff = _ray(image.shape[0], draws, 0, lengths)
  clear = jnp.clip(falloff * reach ** (0.13 * strength['magnitude']), 0, 1)
  return 1 + clear[..., None] * (image - 1)


def _ray(side: int, draws: Draws, star: int, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns l² / distance² and 1 - (f - ½)² of every pixel [N, N], where l is interpolated between
  the `lengths` [199] of the two rays that the pixel lies between, f of the way from one to the
  other."""
  r, c = grid(side)
  down, right = r - draws['centre'][star, 0], c - draws['centre'][star, 1]
  rays = draws['rays'][star]
  turned = (jnp.arctan2(right, down) + np.pi) / (2 * np.pi) * rays
  before = jnp.floor(turned)
  part, index = turned - before, before.astype(jnp.int32)
  length = (1 - part) * lengths[index % rays] + part * lengths[(index + 1) % rays]
  return length**2 / (down**2 + right**2 + 1e-4), 1 - (part - 0.5) ** 2
