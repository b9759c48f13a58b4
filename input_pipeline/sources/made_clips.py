"""Source `made_clips`: rendered video clips of moving MNIST digits, with neighbor sets.

The digits of `input_pipeline.sources.digits` turn, grow, drift and flicker; nothing is downloaded.
The split 'test' has one clip of 41 frames for each of 200 test digits. Of each it has a random
anchor and the up to 10 frames on each side of it, fewer at the ends of the clip. The split 'train'
has one frame of a clip for each training digit, and no sets. Videos have 25 or 30 frames per
second; the motion per frame is smaller at 30. `example_id` is the index of the frame, clip by clip.
"""

import dataclasses

import numpy as np
from scipy import ndimage

from input_pipeline.images import Images, array_images
from input_pipeline.selection import choose_subset
from input_pipeline.settings import DataSettings, Source
from input_pipeline.sources.digits import CLASSES, read_split

CLIPS, LENGTH, SIDE, K = 200, 41, 28, 10
"""Clips in the split 'test', frames of a clip, side of a frame in pixels, and neighbors on each
side.
"""
FPS = (25, 30)
"""Frames per second that clips are drawn from."""
_STREAM = 0xC119
"""Seed of the random stream of the motions."""


@dataclasses.dataclass(frozen=True)
class Motion:
  """How N digits move.

  Attributes:
    middle: [N, 4], angle in radians, scale and shift (down, right) in pixels at the clip's middle.
    change: [N, 4], the change of these per frame.
    contrast: [N], factor of the digit's brightness.
    fps: [N], frames per second.
  """

  middle: np.ndarray
  change: np.ndarray
  contrast: np.ndarray
  fps: np.ndarray


class MadeClips(Source):
  """Made video clips: MNIST digits that turn, grow, drift and flicker, with neighbor sets."""

  splits = ('train', 'test')

  def open(self, settings: DataSettings) -> Images:
    """Returns the frames, uint8 [28, 28, 1].

    The split 'test' has the columns `group_id` (clip), `offset` (frames from the anchor), `fps` and
    `path`; a subset takes whole clips.
    """
    digits, labels = read_split(settings.split)
    generator = np.random.default_rng([_STREAM, settings.split == 'train'])
    is_test = settings.split == 'test'
    motion = draw_motion(generator, CLIPS if is_test else len(digits))
    if is_test:
      anchors = generator.integers(0, LENGTH, CLIPS)
      clip, offset = members(anchors)
      frame = anchors[clip] + offset
      times = frame - LENGTH / 2
    else:
      clip = np.arange(len(digits))
      times = generator.uniform(-LENGTH / 2, LENGTH / 2, len(digits))
    images = array_images(
      render(digits, motion, clip, times),
      labels[clip].astype(np.int32),
      [str(digit) for digit in range(CLASSES)],
      title=f'made clips, split {settings.split!r}',
      description={'name': 'moving MNIST digits, rendered', 'split': settings.split},
    )
    if not is_test:
      return images
    columns = {
      'group_id': clip,
      'offset': offset,
      'fps': motion.fps[clip].astype(np.float32),
      'path': np.array([f'clip{c:03d}/{f:02d}' for c, f in zip(clip, frame, strict=True)]),
    }

    def choose(count: int, seed: int) -> np.ndarray:
      return np.flatnonzero(np.isin(clip, choose_subset(CLIPS, count, seed, noun='clips')))

    return dataclasses.replace(images, columns=columns, choose=choose)


def draw_motion(generator: np.random.Generator, count: int) -> Motion:
  """Draws how `count` digits move.

  In a clip at 27.5 frames per second they turn by up to 40° and drift by up to 8 pixels.
  """
  fps = generator.choice(FPS, count)
  per_frame = (np.mean(FPS) / fps) / LENGTH

  def uniform(largest: float, *shape: int) -> np.ndarray:
    """Returns numbers uniform on [-largest, largest], [count, *shape]."""
    return generator.uniform(-largest, largest, (count, *shape))

  angle, spin = uniform(0.35), uniform(0.7)
  scale, growth = generator.uniform(0.75, 1.05, count), uniform(0.25)
  place, drift = uniform(2, 2), uniform(8, 2)
  change = np.column_stack([spin, growth, drift]) * per_frame[:, None]
  contrast = generator.uniform(0.5, 1, count)
  return Motion(np.column_stack([angle, scale, place]), change, contrast, fps)


def members(anchors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the clip and the offset from the anchor of each frame of the sets, int32 [F] each.

  `anchors` are frame numbers, int [clips]. Frames are ordered by clip, then time.
  """
  offsets = np.arange(-K, K + 1)
  inside = (anchors[:, None] + offsets >= 0) & (anchors[:, None] + offsets < LENGTH)
  clip, column = np.nonzero(inside)
  return clip.astype(np.int32), offsets[column].astype(np.int32)


def render(digits: np.ndarray, motion: Motion, clip: np.ndarray, time: np.ndarray) -> np.ndarray:
  """Renders frames of clips, uint8 [F, 28, 28, 1].

  Args:
    digits: uint8 [N, 28, 28, 1].
    motion: how these move.
    clip: int [F], the digit of each frame.
    time: [F], time of each frame from the clip's middle, in frames.
  """
  poses = motion.middle[clip] + motion.change[clip] * time[:, None]
  flicker = motion.contrast[clip] * (1 + 0.15 * np.sin(2 * np.pi * 10 * time / motion.fps[clip]))
  frames = np.empty((len(clip), SIDE, SIDE, 1), np.uint8)
  center = (SIDE - 1) / 2
  for index, (angle, scale, *place) in enumerate(poses):
    cosine, sine = np.cos(angle), np.sin(angle)
    matrix = np.array([[cosine, sine], [-sine, cosine]]) / scale
    shift = center - matrix @ (center + np.array(place))
    digit = digits[clip[index], ..., 0].astype(float)
    image = ndimage.affine_transform(digit, matrix, shift, order=1)
    frames[index, ..., 0] = np.clip(np.rint(image * flicker[index]), 0, 255)
  return frames
