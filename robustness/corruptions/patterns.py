"""Corruptions of C-bar that draw patterns over an image.

They are waves, plasma, gradient noise, spectral noise, checkerboards, lines and stars. Images are
[N, N, C]; pixel (r, c) has its centre at the integers r, c = 0..N − 1. In formulas, x is the image
and m the magnitude, the constant that grows with severity.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.corruption import PUBLISHED, Draws, Strength, c_bar, uniform
from robustness.corruptions.filters import pixel_grid
from robustness.corruptions.names import NOISE
from robustness.corruptions.pixels import GUARD, from_levels

MAX_PLASMA_STEPS = 6
"""Largest number of iterations of `plasma_noise`."""
GRADIENTS = 256  # number of gradients in the table of Perlin's noise
CELLS = 7  # cells of Perlin's lattice along a side, in the lowest octave
OCTAVES = (1, 2, 4, 8, 16)
"""Factors of the frequency of the five layers of Perlin noise."""
GAIN = 1.5
"""Factor of the gradient noise that `gradient_noise` returns."""
GREY = 128 / 255
"""Grey value of lines and of checkerboard cells."""
MAX_CELLS = 40  # cells of the checkerboard along a side
LINE_GUARD = 1e-4  # added before rounding down, so that a number such as 2.9999999 becomes 3
LINES = PUBLISHED['lines']['32']
"""Magnitudes of `lines` at severities 1 to 5."""
STARS = 5
"""Number of stars of `sparkles`."""
MIN_RAYS, MAX_RAYS = 50, 199
"""Smallest and largest number of rays of a star."""
RAY_DEVIATION = 0.25  # relative standard deviation of a ray's length


def _draw_wave(keys: jax.Array, side: int) -> Draws:
  """Returns the random `phase` in radians and `frequency` (fx, fy) of a wave.

  Frequencies are in radians per pixel. One component f, fx or fy with equal probability, is uniform
  on [−π, π]. The other component is uniform on [−|f|, |f|].

  Args:
    keys: four random keys.
    side: unused.
  """
  larger = uniform(keys[0], -jnp.pi, jnp.pi)
  pair = jnp.stack([larger, jnp.abs(larger) * uniform(keys[1], -1, 1)])
  is_swapped = jax.random.bernoulli(keys[2])
  frequency, phase = jnp.where(is_swapped, pair[::-1], pair), uniform(keys[3], 0, 2 * jnp.pi)
  return {'frequency': frequency, 'phase': phase}


@c_bar(_draw_wave, keys=4)
def single_frequency_greyscale(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Adds a grey sine wave: clip(x + A sin(c fx + r fy + φ), 0, 1) at row r and column c.

  The frequency (fx, fy), in radians per pixel, and the phase φ are drawn. With the magnitude m the
  amplitude A is 19.6 m / 255.
  """
  row, column = pixel_grid(image.shape[0])
  amplitude = 19.6 / 255 * strength['magnitude']
  wave = jnp.sin(column * draws['frequency'][0] + row * draws['frequency'][1] + draws['phase'])
  return jnp.clip(image + amplitude * wave[..., None], 0, 1)


@c_bar(
  lambda keys, side: {
    'centre': uniform(keys[0], 0, side, (2,)),
    'frequency': uniform(keys[1], 0, 10),
    'wobble': uniform(keys[2], 0, side / 10),
    'width': uniform(keys[3], 0, side / 10),
  },
  keys=4,
)
def cocentric_sine_waves(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Adds wobbly grey rings to the image x: clip(x + 12.8 m / 255 · z, 0, 1) with the magnitude m.

  The pattern z = ((ρ + a sin kθ) mod w) / w − ½ is a sawtooth in [−½, ½). ρ is the distance in
  pixels and θ the angle from the drawn `centre`. a = `wobble` and w = `width` are in pixels. The
  drawn k = `frequency` is not an integer, and the rings are therefore discontinuous at one angle.
  The name is spelt as in the released set.
  """
  r, c = pixel_grid(image.shape[0])
  down, right = r - draws['centre'][0], c - draws['centre'][1]
  radius, angle = jnp.hypot(down, right), jnp.arctan2(right, down)
  width = jnp.maximum(draws['width'], 1e-6)  # no division by 0
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
  keys=4,
)
def plasma_noise(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Mixes the image x with smooth coloured noise n: clip((1 − w) x + w n, 0, 1).

  The weight is w = 6.4 m / 255 with the magnitude m. The noise n ∈ [−1, 1] has mean 0 in each
  channel, so that the image is darkened. For a grey image, n is the mean of the noise in the three
  channels.
  """
  time = draws['time']
  # row and column of each pixel in units of the drawn `scale`
  r, c = pixel_grid(image.shape[0])
  y = jnp.broadcast_to(r, image.shape[:2]) / draws['scale']
  x = jnp.broadcast_to(c, image.shape[:2]) / draws['scale']
  # each step bends the coordinates by waves of a higher frequency and a smaller amplitude; the
  # constants are from the released generator
  frequency, period, divisor = 1.0, 1.0, jnp.float32(1)
  for step in range(MAX_PLASMA_STEPS):
    right = jnp.cos(frequency * y + time / period) / divisor
    down = jnp.sin(frequency * x + time / period) / divisor
    right, down = right - 0.3 * down, down + 0.3 * right
    is_taken = step < draws['steps']  # later steps change nothing
    x, y = jnp.where(is_taken, x + right, x), jnp.where(is_taken, y + down, y)
    frequency, period = frequency * 1.93, period * 1.15
    divisor = divisor * (2.25 - draws['sharpness'])
  waves = [jnp.sin(x - time), jnp.sin((x + y + jnp.sin(time)) / 2), jnp.sin(y + time)]
  noise = jnp.stack(waves, -1)
  if image.shape[-1] == 1:
    noise = noise.mean(-1, keepdims=True)
  weight = 6.4 / 255 * strength['magnitude']
  return jnp.clip((1 - weight) * image + weight * noise, 0, 1)


def _draw_perlin(keys: jax.Array, side: int) -> Draws:
  """Returns random numbers of Perlin noise: `gradients` [256, 2] and `permutation` [256].

  Gradients have length 1. They are drawn uniformly from a square and then scaled, so that they
  favour diagonals; a drawn (0, 0) becomes (1, 0). The released generator shuffles its table with a
  slight bias; this permutation is uniform. `side` is unused.
  """
  vectors = jax.random.randint(keys[0], (GRADIENTS, 2), -GRADIENTS, GRADIENTS).astype(jnp.float32)
  length = jnp.sqrt((vectors**2).sum(1, keepdims=True))  # 0 or at least 1
  return {
    'gradients': jnp.where(length > 0, vectors / jnp.maximum(length, 1), jnp.array([1.0, 0.0])),
    'permutation': jax.random.permutation(keys[1], GRADIENTS),
  }


@c_bar(_draw_perlin, keys=2)
def perlin_noise(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Mixes the image x with a grey pattern g of Perlin noise (Perlin 1985): (1 − α) x + α g.

  The weight is α = .05 m with the magnitude m. The pattern is g = clip(½ t + ½, 0, 1) with t = Σ_f
  |noise(f p)| / f over the octaves f = 1, 2, 4, 8, 16. The position is p = 7 (r, c) / N for row r
  and column c of an image of N × N pixels. `gradient_noise` computes the noise.
  """
  # row and column of the pixels in cells of the lattice; the image has 7 × 7 cells
  rows, columns = pixel_grid(image.shape[0])
  r, c = CELLS / image.shape[0] * rows, CELLS / image.shape[0] * columns
  total = jnp.zeros(image.shape[:2])
  for f in OCTAVES:
    noise = gradient_noise(f * r, f * c, draws['gradients'], draws['permutation'])
    total = total + jnp.abs(noise) / f
  weight = 0.05 * strength['magnitude']
  grey = jnp.clip(0.5 * total + 0.5, 0, 1)[..., None]
  return (1 - weight) * image + weight * grey


def gradient_noise(
  r: jax.Array, c: jax.Array, gradients: jax.Array, permutation: jax.Array
) -> jax.Array:
  """Returns 1.5 times Perlin's gradient noise on a grid of points, [N, M].

  Each lattice point (i, j) with integers i and j has a random gradient, which defines a linear
  function that is 0 there. At other points, the functions of the four nearest lattice points are
  interpolated smoothly.

  Args:
    r: rows of the points, [N, 1].
    c: columns of the points, [1, M].
    gradients: table of unit vectors (row, column), [256, 2].
    permutation: p, int [256]; lattice point (i, j) has the gradient number p[(p[i] + j) mod 256].
  """
  r0, c0 = jnp.floor(r), jnp.floor(c)
  down, right = r - r0, c - c0
  i, j = r0.astype(jnp.int32), c0.astype(jnp.int32)

  def corner(di: int, dj: int) -> jax.Array:
    """Returns gradient · offset at each point for the lattice point (i + di, j + dj)."""
    hashed = permutation[(i + di) % GRADIENTS] + (j + dj) % GRADIENTS
    gradient = gradients[permutation[hashed % GRADIENTS]]
    return (down - di) * gradient[..., 0] + (right - dj) * gradient[..., 1]

  s = down * down * (3 - 2 * down)  # smooth weight of the next row
  t = right * right * (3 - 2 * right)  # smooth weight of the next column
  at_left = (1 - s) * corner(0, 0) + s * corner(1, 0)
  at_right = (1 - s) * corner(0, 1) + s * corner(1, 1)
  return GAIN * ((1 - t) * at_left + t * at_right)


@c_bar(
  lambda key, side: {'phases': uniform(key, 0, 2 * np.pi, (side, side // 2))},
  even=True,
  family=NOISE,
)
def blue_noise_sample(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Makes pixels black where blue noise is at most .3 m - 2.5, with the magnitude m.

  The noise has standard deviation 1 and the amplitude |k| at frequency k in cycles per image. It
  has no coarse structure, so that black pixels are far from each other.
  """
  field = spectral_noise(draws['phases'], np.sqrt(_squared_frequency(image.shape[0])))
  threshold = 0.3 * strength['magnitude'] - 2.5
  return jnp.where((field > threshold)[..., None], image, 0)


@c_bar(
  lambda key, side: {'phases': uniform(key, 0, 2 * np.pi, (3, side, side // 2))},
  even=True,
  family=NOISE,
)
def brownish_noise(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Adds noise with large smooth structures, independent in each channel: clip(x + σ n, 0, 1).

  The noise n has standard deviation 1 and the amplitude 1 / (|k|² + 1) at frequency k. Its factor
  is σ = 6.4 m / 255 with the magnitude m. The mean of n is not removed, so that the mean level of a
  channel changes.
  """
  num_channels = image.shape[-1]
  amplitude = 1 / (_squared_frequency(image.shape[0]) + 1)
  phases = draws['phases'][:num_channels]  # three are drawn, also for a grey image
  by_channel = jax.vmap(lambda phase: spectral_noise(phase, amplitude))(phases)  # [C, N, N]
  noise = jnp.moveaxis(by_channel, 0, -1)
  return jnp.clip(image + 6.4 / 255 * strength['magnitude'] * noise, 0, 1)


def spectral_noise(half_phases: jax.Array, amplitude: np.ndarray) -> jax.Array:
  """Returns noise [N, N] of standard deviation 1 with a given amplitude spectrum.

  The noise is the real part of the inverse Fourier transform of a spectrum with random phases. As
  in the released generator the spectrum is not Hermitian. The amplitudes of the real part are
  therefore random fractions of the given ones.

  Args:
    half_phases: phases in radians of the left half of the spectrum, [N, N / 2]. The right half has
      the same phases, rotated by 180°.
    amplitude: absolute values of the spectrum, [N, N], with frequency 0 in the middle.
  """
  side = len(half_phases)
  phase = jnp.concatenate([half_phases, half_phases[::-1, ::-1]], 1)
  spectrum = jnp.asarray(amplitude, jnp.float32) * jax.lax.complex(jnp.cos(phase), jnp.sin(phase))
  # the roll moves frequency 0 from the middle to index (0, 0), where `ifft2` expects it
  field = jnp.fft.ifft2(jnp.roll(spectrum, (side // 2, side // 2), (0, 1))).real
  return field / field.std()


def _squared_frequency(side: int) -> np.ndarray:
  """Returns |k|² of the frequencies k of an N × N image, float64 [N, N], for N = `side`.

  Frequencies are in cycles per image, and frequency 0 is in the middle.
  """
  line = (np.arange(side) - side // 2) ** 2.0
  return line[:, None] + line


@c_bar(
  lambda keys, side: {
    'angle': uniform(keys[0], 0, 2 * np.pi),
    'cell': jnp.maximum(side * uniform(keys[1], 0.1, 0.25), 1),
    'luck': uniform(keys[2], 0, 1, (MAX_CELLS, MAX_CELLS)),
  },
  keys=3,
)
def checkerboard_cutout(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Makes cells of a rotated checkerboard grey, with probability .1 m for the magnitude m.

  Only cells of one of the two colours of the checkerboard can become grey.
  """
  r, c = pixel_grid(image.shape[0])
  cos, sin = jnp.cos(draws['angle']), jnp.sin(draws['angle'])
  # position of each pixel on the checkerboard, in cells
  u, v = (r * cos + c * sin) / draws['cell'], (c * cos - r * sin) / draws['cell']
  # cells along a side of the released generator's table of random numbers
  count = jnp.floor(4 * image.shape[0] / draws['cell']).astype(jnp.int32)
  count = jnp.minimum(count, MAX_CELLS)

  def cell_index(position: jax.Array) -> jax.Array:
    """Returns the row or column of each pixel's cell in the table `luck`.

    Two oddities of the released generator are kept. Positions are rounded towards 0, so that cells
    −1 and 0 share a number. Negative indices count back from `count`.

    Args:
      position: position of each pixel in cells.
    """
    towards_zero = jnp.trunc(position).astype(jnp.int32)
    return jnp.where(towards_zero < 0, towards_zero + count, towards_zero)

  is_of_colour = (jnp.floor(u) - jnp.floor(v)) % 2 == 0
  is_cut = draws['luck'][cell_index(u), cell_index(v)] < 0.1 * strength['magnitude']
  return jnp.where((is_of_colour & is_cut)[..., None], jnp.float32(GREY), image)


def _draw_lines(keys: jax.Array, side: int) -> Draws:
  """Returns the random `point` (row, column) in pixels, [L, 2], and `angle`, [L], of L lines.

  Angles are in radians. All lines have a common angle plus an individual deviation, up to a maximum
  that is random too. L is the number of lines at the highest severity.
  """
  count = int(0.1 * max(LINES) * side + LINE_GUARD)  # `LINES` holds the magnitudes
  deviations = uniform(keys[2], -0.5, 0.5, (count,)) * uniform(keys[1], 0.1, 1)  # in revolutions
  return {
    'point': uniform(keys[3], 0, side, (count, 2)),
    'angle': uniform(keys[0], 0, 2 * np.pi) + 2 * np.pi * deviations,
  }


@c_bar(_draw_lines, keys=4)
def lines(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Draws anti-aliased grey lines of similar directions.

  An image of N × N pixels has ⌊.1 m N⌋ lines, with the magnitude m. Line i extends N pixels to both
  sides of the drawn `point` i (row, column), in the direction of the drawn `angle` i. Pixels that a
  line touches are truncated to 8 bits before the next line is drawn.
  """
  side = image.shape[0]
  # (down, right), a vector of length 1 for each line
  directions = jnp.stack([jnp.sin(draws['angle']), jnp.cos(draws['angle'])], 1)

  def add_line(number: jax.Array, drawn: jax.Array) -> jax.Array:
    """Returns the image `drawn` with one more grey line, [side, side, C], for `lax.fori_loop`.

    The line goes through a random point (`draws`), `side` pixels to both sides of it.

    Args:
      number: number of the line.
      drawn: the image with the lines before, in [0, 1].
    """
    half = side * directions[number]  # from the point to the end of the line, (down, right)
    start, end = (jnp.trunc(draws['point'][number] + sign * half) for sign in (-1, 1))
    weight = line_weight(side, start, end)[..., None]  # opacity of the line at each pixel
    mixed = 255 * ((1 - weight) * drawn + weight * GREY)
    # GUARD keeps an error of rounding from truncating an integer to the next lower one
    truncated = from_levels(jnp.floor(jnp.clip(mixed, 0, 255) + GUARD).astype(jnp.uint8))
    return jnp.where(weight > 0, truncated, drawn)

  count = jnp.floor(0.1 * side * strength['magnitude'] + LINE_GUARD).astype(jnp.int32)
  return jax.lax.fori_loop(0, count, add_line, image)


def line_weight(side: int, start: jax.Array, end: jax.Array) -> jax.Array:
  """Returns the opacity of a line at each pixel, in [0, 1], [side, side].

  The opacity is max(0, 1 - distance from the line in pixels). It is 0 beyond the ends of the line.

  Args:
    side: side of the image in pixels.
    start: one end, (row, column) in pixels.
    end: the other end.
  """
  r, c = pixel_grid(side)
  down, right = end - start
  length = jnp.maximum(jnp.hypot(down, right), 1e-6)  # no division by 0
  distance = jnp.abs((r - start[0]) * right - (c - start[1]) * down) / length
  r0, r1 = jnp.sort(jnp.stack([start[0], end[0]]))
  c0, c1 = jnp.sort(jnp.stack([start[1], end[1]]))
  is_steep = jnp.abs(down) > jnp.abs(right)
  is_within = jnp.where(is_steep, (r >= r0) & (r <= r1), (c >= c0) & (c <= c1))
  return jnp.where(is_within, jnp.maximum(0, 1 - distance), 0)


def _stars(keys: jax.Array, count: int, low: float, high: float) -> Draws:
  """Returns the random properties of S = `count` stars.

  Returns:
    {'centre': [S, 2], 'rays': [S], 'noise': [S, 199]}. `centre` is the row and column in pixels,
    uniform on [low, high). `rays` is the number of rays. `noise` is standard normal and varies the
    lengths of the rays.
  """
  return {
    'centre': uniform(keys[0], low, high, (count, 2)),
    'rays': jax.random.randint(keys[1], (count,), MIN_RAYS, MAX_RAYS + 1),
    'noise': jax.random.normal(keys[2], (count, MAX_RAYS), jnp.float32),
  }


@c_bar(lambda keys, side: _stars(keys, STARS, 0, side), keys=3)
def sparkles(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Adds five bright stars: 1 − (1 − x) Π_s (1 − w_s), with w_s the brightness of star s in [0, 1].

  Rays are about .01 m N pixels long, with the magnitude m in an image of N × N pixels, and at least
  one pixel.
  """
  mean_length = 0.01 * image.shape[0] * strength['magnitude']
  lengths = jnp.maximum(1, mean_length * (1 + RAY_DEVIATION * draws['noise']))

  def one_minus_brightness(star: int) -> jax.Array:
    """Returns 1 − w_s for star s, [N, N]."""
    # (ray length / distance)², and a factor that is 1 in the middle between rays and ¾ on them
    reach, falloff = _ray(image.shape[0], draws, star, lengths[star])
    return 1 - jnp.clip(falloff * reach, 0, 1)

  factor = jnp.prod(jnp.stack([one_minus_brightness(star) for star in range(STARS)]), 0)
  return 1 - (1 - image) * factor[..., None]


@c_bar(
  lambda keys, side: _stars(keys, 1, 0.25 * side, 0.75 * side),  # not near the border
  keys=3,
)
def inverse_sparkles(draws: Draws, image: jax.Array, strength: Strength) -> jax.Array:
  """Shows the image x only near the centre of a star, and white elsewhere: 1 + w (x − 1).

  The weight w ∈ [0, 1] is proportional to (l / d)^(.26 m), with the magnitude m. d is the distance
  from the centre, and l the length of a ray, about a quarter of the image's side. Rays fade faster
  for larger m.
  """
  only_star = 0
  lengths = 0.25 * image.shape[0] * (1 + RAY_DEVIATION * draws['noise'][only_star])
  reach, falloff = _ray(image.shape[0], draws, only_star, lengths)
  weight = jnp.clip(falloff * reach ** (0.13 * strength['magnitude']), 0, 1)
  return 1 + weight[..., None] * (image - 1)


def _ray(side: int, draws: Draws, star: int, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Returns two factors of a star's brightness at each pixel, l² / d² and 1 − (f − ½)².

  d is the pixel's distance from the centre of the star. f in [0, 1) is the fraction of the angle
  from one ray to the next. l is the ray length at the pixel's angle, interpolated between these two
  rays.

  Args:
    side: side N of the image in pixels.
    draws: random properties of stars, see `_stars`.
    star: index of the star in `draws`.
    lengths: lengths of the star's rays in pixels, [199]; the star uses the first `rays` of them.

  Returns:
    Two arrays [N, N].
  """
  r, c = pixel_grid(side)
  down, right = r - draws['centre'][star, 0], c - draws['centre'][star, 1]
  num_rays = draws['rays'][star]
  # direction from the centre to the pixel, in [0, num_rays]; whole numbers are the rays
  angle = (jnp.arctan2(right, down) + np.pi) / (2 * np.pi) * num_rays
  before = jnp.floor(angle)
  fraction, ray = angle - before, before.astype(jnp.int32)
  length = (1 - fraction) * lengths[ray % num_rays] + fraction * lengths[(ray + 1) % num_rays]
  # 1e-4 avoids a division by 0 at the centre
  return length**2 / (down**2 + right**2 + 1e-4), 1 - (fraction - 0.5) ** 2
