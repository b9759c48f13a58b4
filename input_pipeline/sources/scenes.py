"""Parts of scenes: a row is a cutout and a background, which views put together (SI-Score).

Each cutout gets as many backgrounds as `config.data.backgrounds_per_object` says, drawn without
replacement. Of a row, `image` is the background, [S, S, 3] with S = `config.data.canvas`;
`foreground` the cutout, uint8 [F, F, 4], in the upper left of a square that holds the largest;
`foreground_size` its height and width; `foreground_pixels` how many of them its mask has; `object`
and `background` are positions in the sorted lists of files. Labels are ImageNet's, kept as
`imagenet_class` too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from input_pipeline.images import Facts, Images, MemoryStore, Size
from input_pipeline.scene_files import (
  check_background,
  check_cutout,
  find_backgrounds,
  find_cutouts,
  read_background,
  read_cutout,
)
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import InputError
from robustness.models.imagenet_names import WNIDS
from robustness.scenes.designs import LONGEST, draw_backgrounds

if TYPE_CHECKING:
  import tensorflow as tf

CANVAS = 512
"""Side of the canvas where neither the data nor the study give one, pixels."""

Read = Callable[[int], np.ndarray]


class Scenes(Source):
  """Parts of scenes: cutouts and backgrounds in two folders, which views put together."""

  resized_on_device = True

  def open(self, settings: DataSettings) -> Images:
    """See `Source`."""
    side = settings.canvas or CANVAS
    cutouts = find_cutouts(settings.foregrounds)
    backgrounds = find_backgrounds(settings.backgrounds)
    for path in backgrounds:
      check_background(path, side)
    headers = [check_cutout(cutout.path) for cutout in cutouts]
    for cutout, header in zip(cutouts, headers, strict=True):
      if max(header.height, header.width) > LONGEST * min(header.height, header.width):
        raise InputError(
          f'cutout {cutout.path} is {header.width}×{header.height} pixels; it may be '
          f'{LONGEST} times as long as wide at most. Remove it.'
        )
    return pairs(
      settings,
      f'scenes of {settings.foregrounds!r}',
      {'foregrounds': settings.foregrounds, 'backgrounds': settings.backgrounds},
      labels=[cutout.label for cutout in cutouts],
      sizes=[(h.height, h.width) for h in headers],
      cutout=lambda index: read_cutout(cutouts[index].path),
      background=lambda index: read_background(backgrounds[index], side),
      names=([str(cutout.path) for cutout in cutouts], [path.name for path in backgrounds]),
    )


def pairs(
  settings: DataSettings,
  title: str,
  description: Facts,
  labels: Sequence[int],
  sizes: Sequence[Size],
  cutout: Read,
  background: Read,
  names: tuple[Sequence[str], Sequence[str]],
) -> Images:
  """Returns rows of every object with its backgrounds, objects in order.

  Args:
    settings: give the canvas, backgrounds an object and the seed of the draw.
    title: what messages call the images.
    description: plain values for results.json.
    labels: of the objects, positions among ImageNet's classes.
    sizes: of the objects, height and width.
    cutout, background: read one by number, uint8 [h, w, 4] and [S, S, 3].
    names: of the objects and of the backgrounds, for messages.
  """
  side, per_object = settings.canvas or CANVAS, settings.backgrounds_per_object
  drawn = draw_backgrounds(len(labels), len(names[1]), per_object, settings.pair_seed)
  drawn_pairs = np.stack([np.repeat(np.arange(len(labels)), per_object), drawn.ravel()], 1)
  room = max(map(max, sizes))
  classes = np.asarray(labels, np.int32)[drawn_pairs[:, 0]]
  columns = {
    'object': drawn_pairs[:, 0],
    'background': drawn_pairs[:, 1],
    'imagenet_class': classes,
    'foreground_size': np.asarray(sizes)[drawn_pairs[:, 0]],
  }
  return Images(
    title=title,
    num_examples=len(drawn_pairs),
    class_names=WNIDS,
    channels=3,
    as_stored=True,
    description={
      **description,
      'canvas': side,
      'objects': len(labels),
      'num_backgrounds': len(names[1]),
      'backgrounds_per_object': per_object,
      'pair_seed': settings.pair_seed,
    },
    store=MemoryStore(drawn_pairs, classes),
    decode=functools.partial(_decode, cutout=cutout, background=background, room=room, side=side),
    where=lambda index: (
      f'{names[0][drawn_pairs[index, 0]]} on {names[1][drawn_pairs[index, 1]]} (example {index})'
    ),
    sizes=lambda indices: [(side, side)] * len(indices),
    columns={name: values.astype(np.int32) for name, values in columns.items()},
  )


def _decode(
  pair: tf.Tensor, cutout: Read, background: Read, room: int, side: int
) -> dict[str, tf.Tensor]:
  """Returns `image`, `foreground` and `foreground_pixels` of a pair of positions."""
  import tensorflow as tf

  def read(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.int32]:
    pixels = cutout(int(numbers[0]))
    height, width = pixels.shape[:2]
    padded = np.pad(pixels, ((0, room - height), (0, room - width), (0, 0)))
    return background(int(numbers[1])), padded, np.int32((pixels[..., 3] >= 128).sum())

  image, foreground, count = tf.numpy_function(read, [pair], (tf.uint8, tf.uint8, tf.int32))
  return {
    'image': tf.ensure_shape(image, [side, side, 3]),
    'foreground': tf.ensure_shape(foreground, [room, room, 4]),
    'foreground_pixels': tf.ensure_shape(count, []),
  }
