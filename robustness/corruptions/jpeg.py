"""Baseline JPEG: colour, 4:2:0 chroma, 8 × 8 DCT and quantisation, and their inverses.

Entropy coding is lossless and omitted. The rest equals libjpeg to the bit: the rounding of every
stage, the alternating bias when chroma is halved, the triangle filter when it is doubled, edges
replicated up to full blocks, and the accurate integer DCT ("islow").

Levels are int32 in 0..255; RGB levels are integers in float32. Colour weights have 16 fractional
bits.
"""

import jax
import jax.numpy as jnp
import numpy as np

from robustness.corruptions.filters import HIGHEST

BLOCK = 8
"""Side of a block in pixels."""
GUARD = 2.0**-2  # in eighths; added so that an integer quotient is not rounded down to the next
FIRST_SHIFT, SECOND_SHIFT = 11, 15  # bits dropped after each pass; 2 of 13 remain between them

# Colour weights times 2^16; libjpeg rounds halves of luma up and of chroma down.
FROM_RGB = np.array(
  [[19595, 38470, 7471], [-11059, -21709, 32768], [32768, -27439, -5329]], np.float32
)
ROUND_YCBCR = np.array([[2**15], [2**23 + 2**15 - 1], [2**23 + 2**15 - 1]], np.float32)
"""Numbers added to Y, Cb and Cr before 16 bits are dropped: rounding, and the offset 128."""
TO_RGB = np.array([[0, 91881], [-22554, -46802], [116130, 0]], np.float32)
"""Weights of Cb and Cr in R, G and B, with 16 fractional bits."""

# ITU-T T.81, Annex K, tables K.1 and K.2; rows are vertical frequencies.
LUMINANCE = np.array(
  [
    [16, 11, 10, 16, 24, 40, 51, 61],
    [12, 12, 14, 19, 26, 58, 60, 55],
    [14, 13, 16, 24, 40, 57, 69, 56],
    [14, 17, 22, 29, 51, 87, 80, 62],
    [18, 22, 37, 56, 68, 109, 103, 77],
    [24, 35, 55, 64, 81, 104, 113, 92],
    [49, 64, 78, 87, 103, 121, 120, 101],
    [72, 92, 95, 98, 112, 100, 103, 99],
  ]
)
CHROMINANCE = np.full((8, 8), 99)
CHROMINANCE[:4, :4] = [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]]

# √8 · 2^13 times the orthonormal DCT of libjpeg's accurate integer transform, the flow graph of
# Loeffler, Ligtenberg and Moschytz (1989) with multipliers of 13 bits; its transpose inverts.
DCT = np.array(
  [
    [8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192],
    [11363, 9633, 6437, 2260, -2260, -6437, -9633, -11363],
    [10703, 4433, -4433, -10703, -10703, -4433, 4433, 10703],
    [9633, -2259, -11362, -6436, 6436, 11362, 2259, -9633],
    [8192, -8192, -8192, 8192, 8192, -8192, -8192, 8192],
    [6437, -11362, 2261, 9633, -9633, -2261, 11362, -6437],
    [4433, -10704, 10704, -4433, -4433, 10704, -10704, 4433],
    [2260, -6436, 9633, -11363, 11363, -9633, 6436, -2260],
  ]
)


def round_trip(image: jax.Array, quality: jax.Array | int) -> jax.Array:
  """Compresses an image to JPEG and decodes it, float32 [H, W, C] in [0, 1].

  In colour images, Cb and Cr are stored at half the height and width (4:2:0).

  Args:
    image: float32 [H, W, C] in [0, 1], rounded to 8 bits first. One channel is stored as a grey
      file.
    quality: libjpeg's quality, 1..100; may be traced.
  """
  levels = jnp.round(jnp.clip(image, 0, 1) * 255)
  luminance = quantisation(LUMINANCE, quality)
  if image.shape[-1] == 1:
    return code_and_decode(levels[..., 0].astype(jnp.int32), luminance)[..., None] / 255
  y, cb, cr = to_ycbcr(levels)
  chrominance = quantisation(CHROMINANCE, quality)
  size = image.shape[:2]
  decoded_cb = enlarge(code_and_decode(halve(cb), chrominance), size)
  decoded_cr = enlarge(code_and_decode(halve(cr), chrominance), size)
  return to_rgb(code_and_decode(y, luminance), decoded_cb, decoded_cr) / 255


def quantisation(table: np.ndarray, quality: jax.Array | int) -> jax.Array:
  """Returns the quantisation steps for a quality 1..100, float32 [8, 8] in 1..255.

  The steps are ⌊(table · s + 50) / 100⌋ for a standard `table` [8, 8], with s = ⌊5000 / quality⌋
  for a quality below 50 and s = 200 - 2 · quality otherwise.
  """
  quality = jnp.clip(jnp.asarray(quality, jnp.int32), 1, 100)
  scale = jnp.where(quality < 50, 5000 // quality, 200 - 2 * quality)
  return jnp.clip((jnp.asarray(table, jnp.int32) * scale + 50) // 100, 1, 255).astype(jnp.float32)


def to_ycbcr(levels: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Converts RGB levels [H, W, 3] to (Y, Cb, Cr), int32 [H, W] each; Cb and Cr centre on 128.

  The product of float32 matrices is exact because every sum is an integer below 2^24. On a CPU it
  takes a fifth of the time of integers, which XLA reads channel by channel.
  """
  pixels = levels.astype(jnp.float32).reshape(-1, 3)
  sums = jnp.einsum('ij,pj->ip', jnp.asarray(FROM_RGB), pixels, precision=HIGHEST)
  # weights have 16 fractional bits; the added numbers round, and centre Cb and Cr on 128
  planes = jnp.floor((sums + jnp.asarray(ROUND_YCBCR)) / 2**16).astype(jnp.int32)
  y, cb, cr = planes.reshape(3, *levels.shape[:2])
  return y, cb, cr


def to_rgb(y: jax.Array, cb: jax.Array, cr: jax.Array) -> jax.Array:
  """Converts Y, Cb and Cr, int32 [H, W] each, to RGB levels [H, W, 3] clipped to 0..255.

  Cb and Cr centre on 128. The result equals libjpeg's to the bit.
  """
  chroma = jnp.stack([cb, cr]).reshape(2, -1).astype(jnp.float32) - 128
  sums = jnp.einsum('ij,jp->ip', jnp.asarray(TO_RGB), chroma, precision=HIGHEST)
  # the contribution of Cb and Cr, with 16 fractional bits, is rounded to whole levels; Y is added
  colours = jnp.floor((sums + 2**15) / 2**16) + y.reshape(1, -1).astype(jnp.float32)
  return jnp.clip(colours, 0, 255).T.reshape(*y.shape, 3)


def halve(plane: jax.Array) -> jax.Array:
  """Returns a plane [H, W] of levels shrunk to the means of 2 × 2 pixels as in libjpeg, int32.

  The result is [⌈H/2⌉, 8⌈W/16⌉]. The last column is repeated before to fill whole blocks of 8
  pixels. Means of k + ½ are rounded up in odd columns and down in even columns.
  """
  height, width = plane.shape
  plane = jnp.pad(plane, ((0, height % 2), (0, -width % (2 * BLOCK))), mode='edge')
  total = plane[::2] + plane[1::2]
  total = total[:, ::2] + total[:, 1::2]  # sums of 2 × 2 pixels
  # added before the division by 4 for rounding: 1, 2, 1, 2, … in the columns
  bias = 1 + np.arange(total.shape[1], dtype=np.int32) % 2
  return (total + bias[None, :]) >> 2


def code_and_decode(plane: jax.Array, steps: jax.Array) -> jax.Array:
  """Applies JPEG's lossy coding and decoding to a plane of levels, int32 [H, W].

  The DCT coefficients of each block of 8 × 8 pixels are rounded to multiples of the quantisation
  steps `steps`, float32 [8, 8], and transformed back. Edges are replicated to fill whole blocks.
  """
  height, width = plane.shape
  padded = jnp.pad(plane, ((0, -height % BLOCK), (0, -width % BLOCK)), mode='edge')
  # `_transform` acts along columns, hence the transposes for rows. `DCT` is √8 · 2¹³ times the
  # orthonormal one, so that two passes, less 11 + 15 bits, multiply by 8.
  transformed_rows = _transform(padded.T - 128, DCT, FIRST_SHIFT).T
  coefficients = _transform(transformed_rows, DCT, SECOND_SHIFT)
  steps_of_row = jnp.tile(steps, (1, padded.shape[1] // BLOCK))  # for a row of blocks, [8, width]
  rows_of_blocks = coefficients.reshape(-1, BLOCK, padded.shape[1])
  quantised = _quantise(rows_of_blocks, steps_of_row[None]).reshape(padded.shape)
  decoded_columns = _transform(quantised, DCT.T, FIRST_SHIFT)
  # 3 more bits are dropped, because the two passes of `DCT.T` also multiply by 8
  decoded = _transform(decoded_columns.T, DCT.T, SECOND_SHIFT + 3).T + 128
  return jnp.clip(decoded, 0, 255)[:height, :width]


def _transform(lines: jax.Array, matrix: np.ndarray, shift: int) -> jax.Array:
  """Transforms each vertical vector v of 8 values to round(matrix · v / 2^shift), int32.

  Args:
    lines: int32 [H, W] with H a multiple of 8, which holds H / 8 vectors in each column.
    matrix: [8, 8].
    shift: number of bits to drop. Halves are rounded up.

  Returns:
    int32 [H, W].
  """
  pieces = lines.reshape(-1, BLOCK, lines.shape[1])
  sums = jnp.einsum('uk,nkw->nuw', jnp.asarray(matrix, jnp.int32), pieces)
  return ((sums + (1 << (shift - 1))) >> shift).reshape(lines.shape)


def _quantise(eighths: jax.Array, step: jax.Array) -> jax.Array:
  """Returns DCT coefficients rounded to multiples of `step`, int32; halves are rounded away from 0.

  Args:
    eighths: coefficients times 8, int32 [H / 8, 8, W].
    step: quantisation steps.
  """
  size = jnp.abs(eighths).astype(jnp.float32)
  # ⌊|coefficient| / step + ½⌋; with GUARD no whole quotient is rounded down by an error
  coefficients = jnp.floor((size + 4 * step + GUARD) / (8 * step))
  return jnp.sign(eighths) * (coefficients * step).astype(jnp.int32)


def enlarge(plane: jax.Array, size: tuple[int, ...]) -> jax.Array:
  """Returns a chroma plane of levels enlarged by 2 to a size (H, W) as in libjpeg, int32.

  The four nearest pixels have the weights 9/16, 3/16, 3/16, 1/16. Images with at most 4 columns are
  enlarged by repetition.

  Args:
    plane: int32, at least [⌈H/2⌉, ⌈W/2⌉]. Further columns, which only fill blocks, are dropped.
    size: (H, W).
  """
  height, width = size
  plane = plane[: (height + 1) // 2, : (width + 1) // 2]
  if plane.shape[1] <= 2:
    return jnp.repeat(jnp.repeat(plane, 2, 0), 2, 1)[:height, :width]
  sixteenths = _double(_double(plane, 0), 1)  # 16 times the level: `_double` adds 4 pixels
  # Added before the division by 16 for rounding: 8, 7, 8, 7, … in the columns, so that halves are
  # rounded up and down in turn.
  bias = 8 - np.arange(sixteenths.shape[1], dtype=np.int32) % 2
  return ((sixteenths + bias[None, :]) >> 4)[:height, :width]


def _double(plane: jax.Array, axis: int) -> jax.Array:
  """Enlarges a plane by 2 along an axis with triangle weights that sum to 4, int32.

  Pixel p becomes two pixels: 3 p + (pixel before) and 3 p + (pixel after). Edges are replicated.
  """
  size = plane.shape[axis]
  before = jnp.take(plane, np.maximum(np.arange(size) - 1, 0), axis)
  after = jnp.take(plane, np.minimum(np.arange(size) + 1, size - 1), axis)
  halves = jnp.stack([3 * plane + before, 3 * plane + after], axis + 1)
  shape = list(plane.shape)
  shape[axis] *= 2
  return halves.reshape(shape)
