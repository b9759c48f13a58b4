"""The 15 corruptions of C-bar in NumPy and SciPy, image by image, as the released generator works.

A transcription of the definition (Mintun, Kirillov and Xie 2021, and the constants of the released
generator, which is not part of this project): 8-bit images of N × N × 3, values of 0..255 in
float64, truncated at the end; caustics, plasma, gradient noise and stars pixel by pixel. Every
function takes an image, the magnitude m and what `robustness.corruptions` drew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import scipy.ndimage

Draws = Mapping[str, np.ndarray]


def _levels(values: np.ndarray) -> np.ndarray:
  """Returns values clipped to 0..255 and truncated, uint8."""
  return np.clip(values, 0, 255).astype(np.uint8)


def _grid(side: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns the row and the column of every pixel, int [side, side] each."""
  return np.meshgrid(np.arange(side), np.arange(side), indexing='ij')


def single_frequency_greyscale(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  r, c = _grid(len(image))
  fx, fy = draws['frequency']
  wave = 19.6 * m * np.sin(c * fx + r * fy + draws['phase'])
  return _levels(image + wave[..., None])


def cocentric_sine_waves(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  r, c = _grid(len(image))
  down, right = r - draws['centre'][0], c - draws['centre'][1]
  angle = np.arctan2(right, down)
  rings = np.hypot(down, right) + draws['wobble'] * np.sin(draws['frequency'] * angle)
  sawtooth = np.mod(rings, draws['width']) / draws['width'] - 0.5
  return _levels(image + (12.8 * m * sawtooth)[..., None])


def plasma_noise(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  side, time = len(image), float(draws['time'])
  noise = np.zeros((side, side, 3))
  for r in range(side):
    for c in range(side):
      x, y, a, b, d = c / draws['scale'], r / draws['scale'], 1.0, 1.0, 1.0
      for _ in range(int(draws['steps'])):
        p, s = math.cos(a * y + time / b) / d, math.sin(a * x + time / b) / d
        p, s = p - 0.3 * s, s + 0.3 * p
        x, y = x + p, y + s
        a, b, d = a * 1.93, b * 1.15, d * (2.25 - draws['sharpness'])
      noise[r, c] = (math.sin(x - time), math.sin((x + y + math.sin(time)) / 2), math.sin(y + time))
  return _levels((1 - 6.4 * m / 255) * image + 6.4 * m * noise)


def perlin_noise(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  side = len(image)
  p = [int(v) for v in draws['permutation']] * 2
  g = [tuple(map(float, v)) for v in draws['gradients']]
  grey = np.zeros((side, side))
  for r in range(side):
    for c in range(side):
      total = sum(
        abs(_gradient_noise(f * r * 7 / side, f * c * 7 / side, p, g)) / f for f in _OCTAVES
      )
      grey[r, c] = min(max(0.5 * total + 0.5, 0), 1)
  return _levels((1 - 0.05 * m) * image + 0.05 * m * 255 * grey[..., None])


_OCTAVES = (1, 2, 4, 8, 16)


def _gradient_noise(y: float, x: float, p: list[int], g: list[tuple[float, float]]) -> float:
  """Returns Perlin's noise at a place, with a permutation and the gradients it selects."""
  i, j = int(y) % 256, int(x) % 256
  dy, dx = y - int(y), x - int(x)
  first, second = p[i], p[(i + 1) % 256]
  s, t = dy * dy * (3 - 2 * dy), dx * dx * (3 - 2 * dx)
  corners = []
  for k in (0, 1):
    upper, lower = g[p[first + (j + k) % 256]], g[p[second + (j + k) % 256]]
    u = dy * upper[0] + (dx - k) * upper[1]
    v = (dy - 1) * lower[0] + (dx - k) * lower[1]
    corners.append(u + s * (v - u))
  return 1.5 * (corners[0] + t * (corners[1] - corners[0]))


def _spectral(half: np.ndarray, amplitude: np.ndarray) -> np.ndarray:
  """Returns the field of an amplitude and phases, of which the left half is drawn; deviation 1."""
  phase = np.concatenate([half, np.rot90(half, 2)], 1)
  spectrum = np.fft.ifftshift(amplitude * np.exp(1j * phase))
  field = np.fft.ifft2(spectrum).real
  return field / field.std()


def _wave_number(side: int) -> np.ndarray:
  """Returns the distance from frequency 0, which is in the middle, float [side, side]."""
  r, c = _grid(side)
  return np.hypot(r - side / 2, c - side / 2)


def blue_noise_sample(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  field = _spectral(draws['phases'], _wave_number(len(image)))
  return np.where((field > 0.3 * m - 2.5)[..., None], image, 0).astype(np.uint8)


def brownish_noise(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  amplitude = 1 / (_wave_number(len(image)) ** 2 + 1)
  noise = np.stack([_spectral(phases, amplitude) for phases in draws['phases']], -1)
  return _levels(image + 6.4 * m * noise)


def checkerboard_cutout(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  r, c = _grid(len(image))
  cos, sin, cell = math.cos(draws['angle']), math.sin(draws['angle']), float(draws['cell'])
  u, v = (r * cos + c * sin) / cell, (-r * sin + c * cos) / cell
  count = int(4 * len(image) / cell)
  is_cell_covered = (draws['luck'] < 0.1 * m)[:count, :count]
  is_dark = np.floor(u) % 2 == np.floor(v) % 2
  covered = is_dark & is_cell_covered[np.trunc(u).astype(int), np.trunc(v).astype(int)]
  return np.where(covered[..., None], 128, image).astype(np.uint8)


def _star(
  side: int, centre: np.ndarray, rays: int, lengths: np.ndarray, r: int, c: int
) -> tuple[float, float]:
  """Returns l² / distance² and 1 - (f - ½)² of a pixel."""
  down, right = r - centre[0], c - centre[1]
  turned = (math.atan2(right, down) + math.pi) / (2 * math.pi) * rays
  j = int(turned)
  f = turned - j
  length = (1 - f) * lengths[j % rays] + f * lengths[(j + 1) % rays]
  return length**2 / (down**2 + right**2 + 1e-4), 1 - (f - 0.5) ** 2


def sparkles(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  side, values = len(image), image.astype(np.float64)
  for star in range(5):
    rays = int(draws['rays'][star])
    lengths = np.maximum(1, 0.01 * m * side * (1 + 0.25 * draws['noise'][star]))
    for r in range(side):
      for c in range(side):
        reach, part = _star(side, draws['centre'][star], rays, lengths, r, c)
        weight = min(max(part * reach, 0), 1)
        values[r, c] += weight * (255 - values[r, c])
  return _levels(values)


def inverse_sparkles(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  side, values = len(image), image.astype(np.float64)
  rays = int(draws['rays'][0])
  lengths = 0.25 * side * (1 + 0.25 * draws['noise'][0])
  for r in range(side):
    for c in range(side):
      reach, part = _star(side, draws['centre'][0], rays, lengths, r, c)
      weight = min(max(part * reach ** (0.13 * m), 0), 1)
      values[r, c] = 255 + weight * (values[r, c] - 255)
  return _levels(values)


def caustic_refraction(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  side, x = len(image), image / 255
  surface = np.array([[_caustic(r, c, draws) for c in range(side)] for r in range(side)])
  surface = scipy.ndimage.gaussian_filter(surface, 1, truncate=4)
  framed = np.pad(surface, 1)
  out = np.zeros_like(x)
  for r in range(side):
    for c in range(side):
      down = framed[r + 2, c + 1] - framed[r, c + 1]
      right = framed[r + 1, c + 2] - framed[r + 1, c]
      y, z = r, c
      slope = math.hypot(down, right)
      tilt = math.atan(slope)
      if math.cos(tilt) < 0.999:
        shift = 0.05 * m * side * math.sin(tilt - math.asin(math.sin(tilt) / 4)) / slope
        y, z = r + round(shift * down, 3), c + round(shift * right, 3)
      out[r, c] = _bilinear(x, y, z) + 0.2 * m * (down - right)
  return (np.clip(out, 0, 1) * 255).astype(np.uint8)


def _caustic(r: int, c: int, draws: Draws) -> float:
  """Returns the height of the water's surface at a pixel, in 0..1."""
  y, x = (((v / draws['size']) % 1) * 6.28318530718 - 250 for v in (r, c))
  i, j, total = y, x, 1.0
  for n in range(1, 6):
    t = draws['time'] * (1 - 3.5 / n)
    i, j = y + math.cos(t - i) + math.sin(t + j), x + math.sin(t - j) + math.cos(t + i)
    total += 1 / math.hypot(y / (math.sin(i + t) / 0.005), x / (math.cos(j + t) / 0.005))
  return min(max(abs(1.17 - (total / 5) ** 1.4) ** 8, 0), 1)


def _bilinear(image: np.ndarray, y: float, x: float) -> np.ndarray:
  """Returns the image at a place; pixels outside are 0."""
  top, left = math.floor(y), math.floor(x)
  value = np.zeros(3)
  for r, down in ((top, 1 - (y - top)), (top + 1, y - top)):
    for c, right in ((left, 1 - (x - left)), (left + 1, x - left)):
      if 0 <= r < len(image) and 0 <= c < len(image):
        value = value + down * right * image[r, c]
  return value


def ripple(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  side, out = len(image), np.zeros(image.shape)
  amount = 0.0025 * m * side
  for r in range(side):
    for c in range(side):
      y, x = (
        v + amount * math.sin(2 * math.pi * v / draws['length'][k] + draws['phase'][k])
        for k, v in enumerate((r, c))
      )
      out[r, c] = _bilinear(image, y, x)
  return _levels(out)


def pinch_and_twirl(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  side, out = len(image), image.astype(np.float64)
  cells = 5 if side == 224 else 3
  width = side // cells
  radius = width / 2
  for i in range(cells):
    for j in range(cells):
      top, left = i * width + radius, j * width + radius
      angle = draws['sign'][i, j] * m * math.pi / 20
      for r in range(i * width, (i + 1) * width):
        for c in range(j * width, (j + 1) * width):
          down, right = r - top, c - left
          distance = math.hypot(down, right)
          if not 0 < distance <= radius:
            continue
          share = distance / radius
          factor = math.sin(math.pi * share / 2) ** -(0.04 * m + 0.1)
          turn = angle * (1 - share) ** 2
          down, right = factor * down, factor * right
          y = top + down * math.cos(turn) - right * math.sin(turn)
          x = left + down * math.sin(turn) + right * math.cos(turn)
          out[r, c] = _bilinear(image, y, x)
  return _levels(out)


def lines(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  side, values = len(image), image.astype(np.uint8)
  for number in range(int(round(0.1 * m * side, 6))):
    angle = draws['angle'][number]
    direction = np.array([math.sin(angle), math.cos(angle)])
    start, end = (np.trunc(draws['point'][number] + s * side * direction) for s in (-1, 1))
    weight = _line(side, start, end)[..., None]
    values = _levels((1 - weight) * values + 128 * weight)
  return values


def _line(side: int, start: np.ndarray, end: np.ndarray) -> np.ndarray:
  """Returns the anti-aliased weights of a line, walked along its longer axis."""
  weight = np.zeros((side, side))
  run = end - start
  long = 0 if abs(run[0]) > abs(run[1]) else 1
  length, slope = np.hypot(*run), run[1 - long] / run[long]
  for k in range(side):
    if not min(start[long], end[long]) <= k <= max(start[long], end[long]):
      continue
    crossing = start[1 - long] + slope * (k - start[long])
    for other in range(max(0, math.floor(crossing) - 1), min(side, math.floor(crossing) + 3)):
      distance = abs(other - crossing) * abs(run[long]) / length
      place = (k, other) if long == 0 else (other, k)
      weight[place] = max(0, 1 - distance)
  return weight


def circular_motion_blur(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  turns = np.linspace(-1, 1, 21)
  weights = np.exp(-2 * turns**2)
  total = sum(
    weight
    * scipy.ndimage.rotate(image / 255, 1.5 * m * turn, reshape=False, order=3, mode='constant')
    for turn, weight in zip(turns, weights / weights.sum(), strict=True)
  )
  return (np.clip(total, 0, 1) * 255).astype(np.uint8)


def transverse_chromatic_abberation(image: np.ndarray, m: float, draws: Draws) -> np.ndarray:
  side, out = len(image), np.zeros_like(image)
  for channel, place in enumerate(draws['order']):
    plane = image[..., channel].astype(np.float64)
    scale = 1 + 0.05 * m * place / 2
    large = scipy.ndimage.zoom(plane, scale, order=3, prefilter=False, mode='mirror')
    first = (len(large) - side) // 2
    out[..., channel] = np.rint(np.clip(large, 0, 255))[first : first + side, first : first + side]
  return out


FUNCTIONS: dict[str, Callable[[np.ndarray, float, Draws], np.ndarray]] = {
  function.__name__: function
  for function in (
    blue_noise_sample,
    brownish_noise,
    caustic_refraction,
    checkerboard_cutout,
    circular_motion_blur,
    cocentric_sine_waves,
    inverse_sparkles,
    lines,
    perlin_noise,
    pinch_and_twirl,
    plasma_noise,
    ripple,
    single_frequency_greyscale,
    sparkles,
    transverse_chromatic_abberation,
  )
}
