"""Corruptions of C-bar that draw patterns over an image.

They are waves, plasma, gradient noise, spectral noise, checkerboards, lines and stars. Images are
[N, N, C]; pixel (r, c) has its centre at the integers r, c = 0..N − 1. In formulas, x is the image
and m the magnitude, the constant that grows with severity.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.corruption import Draws, Strength, c_bar, uniform
from robustness.corruptions.filters import grid
from robustness.corruptions.names import ALONE, NOISE
from robustness.corruptions.pixels import GUARD, from_levels

MAX_PLASMA_STEPS = 6
"""Largest number of iterations of `plasma_noise`."""
GRADIENTS = 256  # in the table of Perlin's noise
CELLS = 7  # cells of Perlin's lattice along a side, in the lowest octave
OCTAVES = (1, 2, 4, 8, 16)
"""Factors of the frequency of the five layers of Perlin noise."""
GAIN = 1.5
"""Factor of the gradient noise that `noise` returns."""
GREY = 128 / 255
"""Grey value of lines and of checkerboard cells."""
MAX_CELLS = 40  # cells of the checkerboard along a side
LINE_GUARD = 1e-4  # an integer number of lines does not fall below itself by rounding
LINES = (0.5, 1.0, 1.5, 2.0, 2.5)
"""Magnitudes of `lines` at severities 1 to 5."""
STARS = 5
"""Number of stars of `sparkles`."""
MIN_RAYS, MAX_RAYS = 50, 199
"""Smallest and largest number of rays of a star."""
RAY_DEVIATION = 0.25  # relative standard deviation of a ray's length


def _draw_wave(keys: jax.Array, side: int) -> Draws:
  """Returns random numbers of a wave: its `phase` in radians and `frequency` (fx, fy).

  Frequencies are in radians per pixel. The component that is larger in magnitude is uniform on
  [−π, π].
  """
  first = uniform(keys[0], -jnp.pi, jnp.pi)
  pair = jnp.stack([first, jnp.abs(first) * uniform(keys[1], -1, 1)])
  is_swapped = jax.random.bernoulli(keys[2])
  frequency, phase = jnp.where(is_swapped, pair[::-1], pair), uniform(keys[3], 0, 2 * jnp.pi)
  return {'frequency': frequency, 'phase': phase}


@c_bar(_draw_wave, imagenet=(1.0, 1.5, 2.0, 4.5, 5.0), keys=4, family=ALONE)
def single_frequency_greyscale(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Adds a grey sine wave: clip(x + A sin(c fx + r fy + φ), 0, 1) with 255 A = 19.6 m.

  (fx, fy) is the drawn frequency in radians per pixel and φ the phase.
  """
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
  """Adds wobbly grey rings: clip(x + I z, 0, 1) with 255 I = 12.8 m.

  z ∈ [−½, ½) is a sawtooth, z = ((ρ + a sin kθ) mod w) / w − ½. (ρ, θ) are polar coordinates about
  the drawn `centre`, and a = `wobble` and w = `width` are in pixels. k = `frequency` is a real
  number, so that the rings have a seam. The released set spells the name so.
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
    'steps': jax.random.randint(keys[1], (), 4, MAX_PLASMA_STEPS + 1),
    'sharpness': uniform(keys[2], 0.5, 1),
    'scale': uniform(keys[3], 0.075 * side, 0.2 * side),
  },
  imagenet=(4.75, 7.0, 8.5, 9.25, 10.0),
  keys=4,
  family=ALONE,
)
def plasma_noise(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Mixes the image with smooth coloured noise: clip((1 − I) x + I n, 0, 1) with 255 I = 6.4 m.

  n ∈ [−1, 1] has mean 0 in each channel, so the image is darkened. A grey image takes the mean of
  the three channels' n.
  """
  time = draws['time']
  y, x = (jnp.broadcast_to(v, image.shape[:2]) / draws['scale'] for v in grid(image.shape[0]))
  fine, slow, divisor = 1.0, 1.0, jnp.float32(1)
  for step in range(MAX_PLASMA_STEPS):
    across = jnp.cos(fine * y + time / slow) / divisor
    along = jnp.sin(fine * x + time / slow) / divisor
    across, along = across - 0.3 * along, along + 0.3 * across
    is_taken = step < draws['steps']
    x, y = jnp.where(is_taken, x + across, x), jnp.where(is_taken, y + along, y)
    fine, slow, divisor = fine * 1.93, slow * 1.15, divisor * (2.25 - draws['sharpness'])
  waves = [jnp.sin(x - time), jnp.sin((x + y + jnp.sin(time)) / 2), jnp.sin(y + time)]
  noise = jnp.stack(waves, -1)
  if image.shape[-1] == 1:
    noise = noise.mean(-1, keepdims=True)
  weight = 6.4 / 255 * strength['magnitude']
  return jnp.clip((1 - weight) * image + weight * noise, 0, 1)


def _draw_perlin(keys: jax.Array, side: int) -> Draws:
  """Returns random numbers of Perlin noise: `gradients` [256, 2] and `permutation` [256].

  Gradients have length 1 and favour diagonals; a drawn (0, 0) becomes (1, 0). The released
  generator shuffles its table with a slight bias; this permutation is uniform.
  """
  vectors = jax.random.randint(keys[0], (GRADIENTS, 2), -GRADIENTS, GRADIENTS).astype(jnp.float32)
  length = jnp.sqrt((vectors**2).sum(1, keepdims=True))
  return {
    'gradients': jnp.where(length > 0, vectors / jnp.maximum(length, 1), jnp.array([1.0, 0.0])),
    'permutation': jax.random.permutation(keys[1], GRADIENTS),
  }


@c_bar(_draw_perlin, imagenet=(4.6, 5.2, 5.8, 7.6, 8.8), keys=2, family=ALONE)
def perlin_noise(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Mixes the image with a grey pattern g of Perlin noise: (1 − α) x + α g with α = .05 m.

  g = clip(½ t + ½, 0, 1) and t = Σ_f |noise(f p)| / f over the octaves f = 1, 2, 4, 8, 16, with
  p = 7 (r, c) / N at pixel (r, c) (Perlin 1985).
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
  """Returns 1.5 times gradient noise at rows r [N, 1] and columns c [1, M] of a lattice, [N, M].

  It is 0 at lattice points. Lattice point (i, j) has the gradient with the number p[p[i] + j], with
  the permutation p.
  """
  r0, c0 = jnp.floor(r), jnp.floor(c)
  down, right = r - r0, c - c0
  i, j = r0.astype(jnp.int32), c0.astype(jnp.int32)

  def corner(di: int, dj: int) -> jax.Array:
    hashed = permutation[(i + di) % GRADIENTS] + (j + dj) % GRADIENTS
    gradient = gradients[permutation[hashed % GRADIENTS]]
    return (down - di) * gradient[..., 0] + (right - dj) * gradient[..., 1]

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
  """Makes pixels black where blue noise of standard deviation 1 is at most .3 m - 2.5.

  The noise has the amplitude |k| at frequency k, so that black pixels are far from each other; m is
  the magnitude.
  """
  field = spectral_noise(draws['phases'], np.sqrt(_squared(image.shape[0])))
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
  """Returns clip(x + σ n, 0, 1) with 255 σ = 6.4 m and independent noise n in each channel.

  The noise has the amplitude 1 / (|k|² + 1) at frequency k and the standard deviation 1. Its mean
  is not removed, so the mean level of channels changes. A grey image uses the phases of the first
  channel.
  """
  amplitude = 1 / (_squared(image.shape[0]) + 1)
  phases = draws['phases'][: image.shape[-1]]
  noise = jnp.moveaxis(jax.vmap(lambda phase: spectral_noise(phase, amplitude))(phases), 0, -1)
  return jnp.clip(image + 6.4 / 255 * strength['magnitude'] * noise, 0, 1)


def spectral_noise(half_phases: jax.Array, amplitude: np.ndarray) -> jax.Array:
  """Returns noise [N, N] of standard deviation 1 with a given amplitude spectrum and phases.

  The noise is the real part of the inverse Fourier transform of a spectrum with frequency 0 in the
  middle. The spectrum has the `amplitude` [N, N], the phases `half_phases` [N, N / 2] in its left
  half, and these turned by 180° in its right half, as released. The spectrum is not Hermitian: the
  real part holds a random share of the amplitude of each frequency.
  """
  side = len(half_phases)
  phase = jnp.concatenate([half_phases, half_phases[::-1, ::-1]], 1)
  spectrum = jnp.asarray(amplitude, jnp.float32) * jax.lax.complex(jnp.cos(phase), jnp.sin(phase))
  field = jnp.fft.ifft2(jnp.roll(spectrum, (side // 2, side // 2), (0, 1))).real
  return field / field.std()


def _squared(side: int) -> np.ndarray:
  """Returns the squared frequency |k|², float64 [N, N], with frequency 0 in the middle."""
  line = (np.arange(side) - side // 2) ** 2.0
  return line[:, None] + line


@c_bar(
  lambda keys, side: {
    'angle': uniform(keys[0], 0, 2 * np.pi),
    'cell': jnp.maximum(side * uniform(keys[1], 0.1, 0.25), 1),
    'luck': uniform(keys[2], 0, 1, (MAX_CELLS, MAX_CELLS)),
  },
  cifar=(1.0, 2.0, 3.0, 4.0, 5.0),
  imagenet=(2.0, 3.0, 4.0, 5.0, 6.0),
  keys=3,
  family=ALONE,
)
def checkerboard_cutout(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Makes cells of one colour of a rotated checkerboard grey, each with probability .1 m."""
  r, c = grid(image.shape[0])
  cos, sin = jnp.cos(draws['angle']), jnp.sin(draws['angle'])
  u, v = (r * cos + c * sin) / draws['cell'], (c * cos - r * sin) / draws['cell']
  count = jnp.floor(4 * image.shape[0] / draws['cell']).astype(jnp.int32)
  count = jnp.minimum(count, MAX_CELLS)

  def cell(position: jax.Array) -> jax.Array:
    towards_zero = jnp.trunc(position).astype(jnp.int32)
    return jnp.where(towards_zero < 0, towards_zero + count, towards_zero)

  is_of_colour = (jnp.floor(u) - jnp.floor(v)) % 2 == 0
  is_cut = draws['luck'][cell(u), cell(v)] < 0.1 * strength['magnitude']
  return jnp.where((is_of_colour & is_cut)[..., None], jnp.float32(GREY), image)


def _draw_lines(keys: jax.Array, side: int) -> Draws:
  """Returns random numbers of L lines: `point` (row, column) in pixels [L, 2], and `angle` [L].

  Angles are in radians. L is the largest number of lines that any severity needs.
  """
  count = int(0.1 * LINES[-1] * side + LINE_GUARD)
  turns = uniform(keys[2], -0.5, 0.5, (count,)) * uniform(keys[1], 0.1, 1)
  return {
    'point': uniform(keys[3], 0, side, (count, 2)),
    'angle': uniform(keys[0], 0, 2 * np.pi) + 2 * np.pi * turns,
  }


@c_bar(_draw_lines, cifar=LINES, keys=4, family=ALONE)
def lines(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Draws ⌊.1 m N⌋ anti-aliased grey lines of similar directions on an image of N × N pixels.

  Pixels that a line touches are truncated to 8 bits before the next line is drawn.
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

  count = jnp.floor(0.1 * side * strength['magnitude'] + LINE_GUARD).astype(jnp.int32)
  return jax.lax.fori_loop(0, count, add, image)


def line_weight(side: int, start: jax.Array, end: jax.Array) -> jax.Array:
  """Returns the share of each pixel that a line one pixel wide covers, [N, N].

  It is max(0, 1 - distance from the line), and 0 beyond the ends `start` and `end` (row, column)
  along the longer axis of the line.
  """
  r, c = grid(side)
  down, right = end - start
  length = jnp.maximum(jnp.hypot(down, right), 1e-6)
  distance = jnp.abs((r - start[0]) * right - (c - start[1]) * down) / length
  r0, r1 = jnp.sort(jnp.stack([start[0], end[0]]))
  c0, c1 = jnp.sort(jnp.stack([start[1], end[1]]))
  is_steep = jnp.abs(down) > jnp.abs(right)
  is_within = jnp.where(is_steep, (r >= r0) & (r <= r1), (c >= c0) & (c <= c1))
  return jnp.where(is_within, jnp.maximum(0, 1 - distance), 0)


def _stars(keys: jax.Array, count: int, low: float, high: float) -> Draws:
  """Returns random numbers of S stars.

  They are `centre` [S, 2], row and column uniform on [low, high) in pixels; `rays` [S], the number
  of rays; and standard normal `noise` [S, 199], which varies the lengths of rays. S is `count`.
  """
  return {
    'centre': uniform(keys[0], low, high, (count, 2)),
    'rays': jax.random.randint(keys[1], (count,), MIN_RAYS, MAX_RAYS + 1),
    'noise': jax.random.normal(keys[2], (count, MAX_RAYS), jnp.float32),
  }


@c_bar(
  lambda keys, side: _stars(keys, STARS, 0, side),
  cifar=(0.7, 3.5, 5.6, 6.3, 7.0),
  imagenet=(1.0, 2.0, 3.0, 5.0, 6.0),
  keys=3,
  family=ALONE,
)
def sparkles(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Adds five bright stars: 1 − (1 − x) Π_s (1 − w_s), with w_s the brightness of star s in [0, 1].

  Rays are about .01 m N pixels long, and at least one pixel.
  """
  length = 0.01 * image.shape[0] * strength['magnitude']
  lengths = jnp.maximum(1, length * (1 + RAY_DEVIATION * draws['noise']))

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
  """Shows the image only near the centre of one star, white elsewhere: 1 + w (x − 1).

  w is in [0, 1]. Rays are about .25 N pixels long. With l / d the length of a ray over the distance
  from the centre, w is proportional to (l / d)² to the power .13 m, so rays fade faster for larger
  m.
  """
  lengths = 0.25 * image.shape[0] * (1 + RAY_DEVIATION * draws['noise'][0])
  reach, falloff = _ray(image.shape[0], draws, 0, lengths)
  clear = jnp.clip(falloff * reach ** (0.13 * strength['magnitude']), 0, 1)
  return 1 + clear[..., None] * (image - 1)


def _ray(side: int, draws: Draws, star: int, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns two factors of the brightness of each pixel near one star, l² / d² and 1 − (f − ½)².

  Both are [N, N]. A pixel is d pixels from the centre of the star and at the fraction f of the
  angle between two rays; l is interpolated between the `lengths` of these rays, in pixels.
  """
  r, c = grid(side)
  down, right = r - draws['centre'][star, 0], c - draws['centre'][star, 1]
  rays = draws['rays'][star]
  turned = (jnp.arctan2(right, down) + np.pi) / (2 * np.pi) * rays
  before = jnp.floor(turned)
  fraction, index = turned - before, before.astype(jnp.int32)
  length = (1 - fraction) * lengths[index % rays] + fraction * lengths[(index + 1) % rays]
  return length**2 / (down**2 + right**2 + 1e-4), 1 - (fraction - 0.5) ** 2
