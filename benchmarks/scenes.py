"""Scenes composed a second on all devices, against the reference method in Pillow on one core.

python -m benchmarks.scenes --sides 224 512

  For each factor of SI-Score all levels (or --levels of them, spread over the design) of drawn
  objects: resized, rotated, pasted. Ours begins with the parts on the device and ends with 8-bit
  images there; where objects are resized once for all their levels, that is in the time, and weighs
  more the fewer levels there are. Pillow begins with decoded images and ends with 8-bit arrays. As
  the reference works, it resizes the background for every scene; in the last column it is given
  backgrounds that have the size already.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

import input_pipeline
from benchmarks import subject, timing
from robustness import parallel
from robustness.core.rows import Batch, Rows
from robustness.core.sequential import map_rows
from robustness.parallel.mesh import BATCH, REPLICATED
from robustness.scenes import designs, views
from robustness.scenes.designs import Design

BATCHED_VIEWS = 8


def main(arguments: Sequence[str] | None = None) -> None:
  parser = timing.options(__doc__, rounds=3)
  parser.add_argument('--sides', type=int, nargs='+', default=[224, 512])
  parser.add_argument('--levels', type=int, default=0)
  parser.add_argument('--rows', type=int, default=4)
  parser.add_argument('--factors', nargs='+', default=list(designs.FACTORS))
  given = parser.parse_args(arguments)
  lines = []
  for side in given.sides:
    batch = next(drawn(given.rows, side).batches(given.rows))
    for factor in given.factors:
      design = part(designs.published(factor), given.levels)
      work = len(design) * given.rows
      timings = timing.alternate(
        {
          'device': (composer(batch, design, side), work),
          'pillow': (pillow(batch, design, originals(given.rows)), work),
          'sized': (pillow(batch, design), work),
        },
        given.rounds,
      )
      lines.append(
        [
          factor,
          side,
          f'{timings.rate("device"):.0f}',
          f'{timings.rate("pillow"):.0f}',
          timing.describe_ratio(timings.ratio('device', 'pillow')),
          timing.describe_ratio(timings.ratio('device', 'sized')),
        ]
      )
  timing.print_table(
    ['factor', 'side', 'scenes/s', 'Pillow scenes/s', 'ratio', 'ratio, sized background'], lines
  )


def drawn(count: int, side: int) -> Rows:
  """Returns rows of drawn objects and backgrounds."""
  settings = input_pipeline.DataSettings(source='drawn_scenes', canvas=side, num_images=count)
  return input_pipeline.load(settings)


def part(design: Design, levels: int) -> Design:
  """Returns some levels, spread over all; 0 keeps all."""
  chosen = np.unique(np.linspace(0, len(design) - 1, levels or len(design)).round().astype(int))
  return dataclasses.replace(
    design, **{key: getattr(design, key)[chosen] for key in ('area', 'angle', 'x', 'y')}
  )


def composer(batch: Batch, design: Design, side: int) -> Callable[[], object]:
  """Returns a call that composes every row at every level on the devices."""
  devices = parallel.create('jit')
  show, prepare = views.shown(design, side, 'rectangle')
  columns = {name: batch[name] for name in ('image', 'foreground', 'foreground_size')}
  placed = devices.put_batch(columns)
  levels = views.parameters(design)
  each = functools.partial(map_rows, lambda row, _: prepare(row))
  ready = devices.compile(lambda rows: devices.by_device(each, rows, None), (BATCH,), BATCH)

  def scenes(rows: dict[str, jax.Array], some: dict[str, jax.Array]) -> jax.Array:
    def compose_level(level: dict[str, jax.Array]) -> jax.Array:
      def shown(row: dict[str, jax.Array], level: dict[str, jax.Array]) -> jax.Array:
        return show(jax.random.key(0), row, level)

      shown_rows = devices.by_device(functools.partial(map_rows, shown), rows, level)
      return jnp.round(shown_rows * 255).astype(jnp.uint8)

    return jnp.swapaxes(jax.lax.map(compose_level, some), 0, 1)

  step = devices.compile(scenes, (BATCH, REPLICATED), BATCH)
  index = np.arange(-(-len(design) // BATCHED_VIEWS) * BATCHED_VIEWS).clip(max=len(design) - 1)
  chunks = [
    devices.replicate({k: v[i] for k, v in levels.items()})
    for i in index.reshape(-1, BATCHED_VIEWS)
  ]

  def call() -> None:
    rows = ready(placed)
    for chunk in chunks:
      jax.block_until_ready(step(rows, chunk))

  return call


def originals(count: int) -> list[Image.Image]:
  """Returns backgrounds as they would be stored: noise of 1000 × 750 pixels."""
  noise = np.random.default_rng(0).integers(0, 256, (750, 1000, 3), np.uint8)
  return [Image.fromarray(noise)] * count


def pillow(
  batch: Batch, design: Design, stored: Sequence[Image.Image] = ()
) -> Callable[[], object]:
  """Returns a call that does the same in Pillow, scene by scene.

  Args:
    batch: rows; their objects, and their backgrounds unless `stored` ones are given.
    design: the levels.
    stored: backgrounds of any size, one a row, cropped and resized for every scene.
  """
  objects = [
    Image.fromarray(pixels[:height, :width])
    for pixels, (height, width) in zip(batch['foreground'], batch['foreground_size'], strict=True)
  ]
  grounds = [Image.fromarray(np.round(255 * image).astype(np.uint8)) for image in batch['image']]

  def call() -> None:
    for level in range(len(design)):
      for cutout, ground in zip(objects, stored or grounds, strict=True):
        sized = square(ground, len(batch['image'][0])) if stored else ground
        np.asarray(
          paste(
            cutout,
            sized,
            *(float(getattr(design, key)[level]) for key in ('area', 'angle', 'x', 'y')),
          )
        )

  return call


def square(image: Image.Image, side: int) -> Image.Image:
  """Returns the largest square from the top left at the canvas's size."""
  shorter = min(image.size)
  return image.crop((0, 0, shorter, shorter)).resize((side, side), Image.Resampling.BILINEAR)


def paste(
  cutout: Image.Image, ground: Image.Image, area: float, angle: float, x: float, y: float
) -> Image.Image:
  """Returns a scene by the reference method."""
  k = math.sqrt(area / (cutout.width * cutout.height / ground.width**2))
  layer = cutout.resize((int(cutout.width * k), int(cutout.height * k)), Image.Resampling.BILINEAR)
  if angle % 360:
    layer = layer.rotate(angle, Image.Resampling.BICUBIC, expand=True)
  corner = (
    int(int(x * ground.width) - layer.width / 2),
    int(int(y * ground.width) - layer.height / 2),
  )
  scene = ground.copy()
  scene.paste(layer, corner, layer)
  return scene


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
