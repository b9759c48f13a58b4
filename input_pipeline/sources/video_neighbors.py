"""Frames of neighbor sets: a metadata folder, and a folder of frames.

`config.data.metadata` is laid out as ImageNet-Vid-Robust was released, or one such folder for
each split; `config.data.path` is the folder that its paths lie under. Rows are the
distinct frames, `config.data.num_images` counts anchors, whose neighbors come along, and the
columns are those of `input_pipeline.neighbor_frames.NeighborFrames`.
"""

from __future__ import annotations

from input_pipeline import neighbor_frames
from input_pipeline.image_files import file_images
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source


class VideoNeighbors(Source):
  """Frames of neighbor sets: a metadata folder, and a folder of frames."""

  def open(self, settings: DataSettings) -> Images:
    """See `Source`; the distinct frames of the sets, uint8 RGB."""
    home = neighbor_frames.find_metadata(settings.metadata or settings.path, settings.split)
    frames = neighbor_frames.load(home, settings.path, settings.name, settings.allow_missing)
    missing = {'missing_frames': len(frames.missing), 'missing_anchors': frames.missing_anchors}
    return file_images(
      [f'{settings.path.rstrip("/")}/{path}' for path in frames.paths],
      frames.labels,
      frames.class_names,
      title=f'neighbor sets {str(home)!r}',
      description={
        'path': settings.path,
        'metadata': settings.metadata,
        'split': settings.split,
        'available_anchors': frames.num_anchors,
        **(missing if frames.missing else {}),
      },
      channels=3,
      columns=frames.columns,
      choose=frames.choose,
    )
