"""Storage to rows: the only home of TensorFlow. `load` is the way in.

Importing the package also lets `tfds.load` find the builders of `input_pipeline.builders`. It is
light: TensorFlow is imported when rows are loaded, a builder when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from input_pipeline import builders
from input_pipeline.settings import DataSettings, Preparation

if TYPE_CHECKING:
  from input_pipeline.rows import TfRows

__all__ = ['DataSettings', 'Preparation', 'load']

builders.register()


def load(settings: DataSettings, seed: int = 0, preparation: Preparation | None = None) -> TfRows:
  """Opens the images that the settings name.

  Args:
    settings: the section `config.data`.
    seed: chooses the subset when `settings.num_images` > 0.
    preparation: how images are resized and cropped if the settings do neither and the stored images
      do not have the right size already; stored corrupted images are only resized.

  Returns:
    Rows in a fixed order; see `robustness.core.rows.Rows` and `TfRows.training_batches`.

  Raises:
    InputError: whatever is wrong with the settings or the files, named.
  """
  from input_pipeline.rows import TfRows
  from input_pipeline.sources import open_source

  return TfRows(open_source(settings), settings, seed, preparation)
