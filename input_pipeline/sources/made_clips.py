"""Source `made_clips`: rendered video clips of moving MNIST digits, with neighbor sets.

The digits of `input_pipeline.sources.digits` turn, grow, drift and flicker; nothing is downloaded.
The split 'test' has a clip of 41 frames for each of the first 200 test digits. The neighbor set of
a clip is a random frame, the anchor, and the 10 frames before and after it, fewer at the ends of
the clip; other frames are not rendered. The split 'train' has one frame of a clip for each training
digit, and no sets. Videos have 25 or 30 frames per second; the motion per frame is smaller at 30.
`example_id` is the index of the frame, clip by clip.
"""

import dataclasses
import functools

import numpy as np
from scipy import ndimage

from input_pipeline.images import Images, array_images
from input_pipeline.selection import choose_groups
from input_pipeline.settings import DataSettings, Source
from input_pipeline.sources.digits import CLASSES, read_split

CLIPS, LENGTH, SIDE, K = 200, 41, 28, 10
"""Clips in the split 'test', frames of a clip, side of a frame in pixels, and most neighbors before
and after an anchor."""
_FLICKER_SHARE, _FLICKER_RATE = 0.15, 10
"""Amplitude of the flicker as a fraction of the brightness, and its periods per second."""
FPS = (25, 30)
"""Frames per second that clips are drawn from."""
_SEED = 0xC119
"""Seed of the random stream of the motions."""


@dataclasses.dataclass(frozen=True)
class Motion:
  """Motion of N digits in N video clips.

  Attributes:
    middle: [N, 4], pose in the middle of the clip: angle in radians (counter-clockwise), scale, and
      shift down and to the right in pixels.
    change: [N, 4], change of the pose per frame.
    contrast: [N], factor of the digit's brightness.
    fps: [N], frames per second.
  """

  middle: np.ndarray
  change: np.ndarray
  contrast: np.ndarray
  fps: np.ndarray


class MadeClips(Source):
  """Rendered video clips of moving MNIST digits.

  Digits turn, grow, drift and flicker. Test clips are neighbor sets, an anchor frame with similar
  frames.
  """

  splits = ('train', 'test')

  def open(self, settings: DataSettings) -> Images:
    """Returns the frames, uint8 [28, 28, 1].

    For the split 'test', columns are `group_id`, the index of the clip; `offset`, the frame number
    minus the anchor's frame number; `fps` and `path`. A random subset consists of whole clips.
    """
    digits, labels = read_split(settings.split)
    is_test = settings.split == 'test'
    generator = np.random.default_rng([_SEED, 0 if is_test else 1])
    motion = draw_motion(generator, CLIPS if is_test else len(digits))
    # For each of F returned frames, `clip` is its clip and `times` the time, in frames, since the
    # middle of the clip.
    if is_test:  # the frames around one random anchor in each clip
      anchors = generator.integers(0, LENGTH, CLIPS)
      clip, offset = frames_around_anchors(anchors)
      position = anchors[clip] + offset  # of each frame in its clip, [F]
      times = position - LENGTH / 2
    else:  # one frame at a random time in each clip
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
      'path': np.array([f'clip{c:03d}/{f:02d}' for c, f in zip(clip, position, strict=True)]),
    }
    choose = functools.partial(choose_groups, clip, noun='clips')
    return dataclasses.replace(images, columns=columns, choose=choose)


def draw_motion(generator: np.random.Generator, count: int) -> Motion:
  """Chooses random motions of `count` digits.

  In a clip of `LENGTH` frames at the mean frame rate, 27.5 frames per second, a digit turns by up
  to 40°, changes its scale by up to .25, and drifts by up to 8 pixels in each direction. The speed
  per second does not depend on the frame rate.
  """
  fps = generator.choice(FPS, count)
  # the part of the change over a clip at the mean rate that happens in one frame, [count]
  change_per_frame = (np.mean(FPS) / fps) / LENGTH

  def uniform(largest: float, shape_of_each: tuple[int, ...] = ()) -> np.ndarray:
    """Returns uniform random numbers in [-largest, largest], of shape [count, *shape_of_each]."""
    return generator.uniform(-largest, largest, (count, *shape_of_each))

  # the pose in the middle of the clip, and its change over the clip; radians, factors and pixels
  angle, spin = uniform(0.35), uniform(0.7)
  scale, growth = generator.uniform(0.75, 1.05, count), uniform(0.25)
  shift, drift = uniform(2, (2,)), uniform(8, (2,))  # down and right
  change = np.column_stack([spin, growth, drift]) * change_per_frame[:, None]
  contrast = generator.uniform(0.5, 1, count)
  return Motion(np.column_stack([angle, scale, shift]), change, contrast, fps)


def frames_around_anchors(anchors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Lists the frames around an anchor frame in each clip, up to `K` before and `K` after.

  Args:
    anchors: int [clips], position of the anchor (labelled frame) in each clip, from 0 to LENGTH −
      1.

  Returns:
    For each of F frames, ordered by clip and time, the index of its clip, int32 [F], and its
    position minus the anchor's position, int32 [F].
  """
  offsets = np.arange(-K, K + 1)
  frames = anchors[:, None] + offsets[None, :]
  clip, column = np.nonzero((frames >= 0) & (frames < LENGTH))
  return clip.astype(np.int32), offsets[column].astype(np.int32)


def render(digits: np.ndarray, motion: Motion, clip: np.ndarray, time: np.ndarray) -> np.ndarray:
  """Renders frames of moving digits, uint8 [F, 28, 28, 1].

  Args:
    digits: images of N digits, uint8 [N, 28, 28, 1].
    motion: motion of each digit.
    clip: int [F], index of the digit in each frame.
    time: [F], time of each frame, in frames since the middle of the clip.
  """
  poses = motion.middle[clip] + motion.change[clip] * time[:, None]  # [F, 4]
  phase = 2 * np.pi * _FLICKER_RATE * time / motion.fps[clip]
  brightness = motion.contrast[clip] * (1 + _FLICKER_SHARE * np.sin(phase))
  frames = np.empty((len(clip), SIDE, SIDE, 1), np.uint8)
  center = (SIDE - 1) / 2
  for index, (angle, scale, down, right) in enumerate(poses):
    cosine, sine = np.cos(angle), np.sin(angle)
    # from places in the frame to places in the digit, which turns and grows about its centre
    matrix = np.array([[cosine, sine], [-sine, cosine]]) / scale
    offset = center - matrix @ (center + np.array([down, right]))
    digit = digits[clip[index], ..., 0].astype(float)
    image = ndimage.affine_transform(digit, matrix, offset, order=1)
    frames[index, ..., 0] = np.clip(np.rint(image * brightness[index]), 0, 255)
  return frames
