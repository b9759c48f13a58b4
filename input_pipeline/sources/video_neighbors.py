"""Frames of neighbor sets: a metadata folder, and a folder of frames.

`config.data.metadata` is laid out as ImageNet-Vid-Robust was released, or one such folder for
each split; `config.data.path` is the folder that its paths lie under. Rows are the
distinct frames, `config.data.num_images` counts anchors, whose neighbors come along, and the
columns are those of `input_pipeline.neighbor_frames.NeighborFrames`.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from input_pipeline import neighbor_frames
from input_pipeline.images import MemoryStore, Source
from input_pipeline.neighbor_frames import NeighborFrames
from input_pipeline.settings import DataSettings
from input_pipeline.sources.folder import header_sizes, read_file


def open_source(settings: DataSettings) -> Source:
  """Returns the distinct frames of the neighbor sets, uint8 RGB.

  Raises:
    InputError: see `neighbor_frames.find_metadata` and `neighbor_frames.load`.
  """
  home = neighbor_frames.find_metadata(settings.metadata or settings.path, settings.split)
  frames = neighbor_frames.load(home, settings.path, settings.name, settings.allow_missing)
  files = [f'{settings.path.rstrip("/")}/{path}' for path in frames.paths]
  return Source(
    title=f'neighbor sets {str(home)!r}',
    description=_description(settings, frames),
    num_examples=len(files),
    class_names=frames.class_names,
    channels=3,
    store=MemoryStore(tf.constant(files), tf.constant(frames.labels)),
    read=functools.partial(read_file, channels=3),
    where=lambda index: f'{files[index]} (example {index})',
    sizes=functools.partial(header_sizes, files),
    columns=frames.columns,
    choose=frames.choose,
  )


def _description(settings: DataSettings, frames: NeighborFrames) -> dict[str, Any]:
  """Says what is read and, where frames are missing, what is not."""
  missing = {'missing_frames': len(frames.missing), 'missing_anchors': frames.missing_anchors}
  return {
    'source': 'video_neighbors',
    'path': settings.path,
    'metadata': settings.metadata,
    'split': settings.split,
    'available_anchors': frames.num_anchors,
    **(missing if frames.missing else {}),
  }
