"""Which scenes a data set of scenes holds, before any is composed.

The plan crosses pairs of object and background with the levels of a design, knows what share of
each object lies inside each scene, and so which scenes are kept. Numbers of images and the columns
of metadata.csv are the released generator's.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from input_pipeline import scene_metadata
from input_pipeline.scene_files import (
  Cutout,
  check_background,
  find_backgrounds,
  find_cutouts,
  read_cutout,
)
from robustness.core.errors import InputError
from robustness.scenes.designs import Design, draw_backgrounds
from robustness.scenes.views import fractions_inside


@dataclasses.dataclass(frozen=True)
class Plan:
  """P pairs at L levels.

  Attributes:
    design: the levels.
    cutouts: the objects.
    backgrounds: all files of the folder.
    objects, grounds: int64 [P], the pair's places in these.
    inside: float32 [P, L], the share of the object's rectangle on the canvas.
    measure: what an area is of; see `robustness.scenes.compose`.
  """

  design: Design
  cutouts: tuple[Cutout, ...]
  backgrounds: tuple[Path, ...]
  objects: np.ndarray
  grounds: np.ndarray
  inside: np.ndarray
  measure: str

  @property
  def num_pairs(self) -> int:
    """How many pairs there are."""
    return len(self.objects)

  @property
  def image_ids(self) -> np.ndarray:
    """The number of every scene of the full cross, int64 [P, L]."""
    return self.design.image_ids(self.num_pairs)

  @property
  def kept(self) -> np.ndarray:
    """Which scenes have enough of the object inside, bool [P, L]."""
    return self.inside >= np.float32(self.design.min_inside)

  def columns(self) -> dict[str, np.ndarray]:
    """Returns the columns of metadata.csv of the scenes that are kept, by image_id."""
    level, pair = np.nonzero(self.kept.T)
    cutouts = [self.cutouts[index] for index in self.objects[pair]]
    design, side = self.design, np.full(len(pair), self.design.side)
    return {
      'image_id': self.image_ids[pair, level],
      'x_coord': design.x[level],
      'y_coord': design.y[level],
      'area': design.area[level],
      'rotation': design.angle[level],
      'foreground_class': np.array([cutout.class_index for cutout in cutouts]),
      'foreground_instance': np.array([cutout.instance for cutout in cutouts]),
      'background': self.grounds[pair],
      'bg_resolution_width': side,
      'bg_resolution_height': side,
      'pct_inside_image': self.inside[pair, level],
    }

  def tables(self) -> dict[str, str]:
    """Returns {file name: text} of the tables that the released generator writes."""
    classes = list(dict.fromkeys((c.class_name, c.label) for c in self.cutouts))
    return {
      'metadata.csv': scene_metadata.text(self.columns()),
      'backgrounds.csv': _table(enumerate(path.name for path in self.backgrounds)),
      'foreground_classes.csv': _table((label, name) for name, label in classes),
      'foreground_classes_metadata_indices.csv': _table(enumerate(name for name, _ in classes)),
    }


def make(
  design: Design,
  foregrounds: str,
  backgrounds: str,
  backgrounds_per_object: int,
  seed: int,
  measure: str,
) -> Plan:
  """Returns the plan of a design with the files of two folders.

  Every cutout is read, and the header of every background that was drawn, so that a bad file is
  named before hours of composing.
  """
  cutouts, files = (
    find_cutouts(foregrounds, 'foregrounds'),
    find_backgrounds(backgrounds, 'backgrounds'),
  )
  drawn = draw_backgrounds(len(cutouts), len(files), backgrounds_per_object, seed)
  for index in np.unique(drawn):
    check_background(files[index], design.side)
  plan = Plan(
    design,
    cutouts,
    files,
    np.arange(len(cutouts)).repeat(backgrounds_per_object),
    drawn.ravel(),
    _inside(design, cutouts, measure).repeat(backgrounds_per_object, 0),
    measure,
  )
  if not plan.kept.any():
    raise InputError(
      f'no scene of design {design.name!r} has {design.min_inside:g} of its object '
      f'inside; the most is {plan.inside.max():g}. Lower min_inside, or choose '
      'smaller areas or places nearer to the centre.'
    )
  return plan


def _inside(design: Design, cutouts: Sequence[Cutout], measure: str) -> np.ndarray:
  """Returns the share of each cutout inside at each level, float32 [objects, L]."""
  sizes, pixels = [], []
  for cutout in cutouts:
    alpha = read_cutout(cutout.path)[..., 3]
    sizes.append(alpha.shape)
    pixels.append(int((alpha >= 128).sum()) if measure == 'mask' else alpha.size)
  return fractions_inside(design, np.array(sizes), np.array(pixels), design.side)


def _table(rows: object) -> str:
  out = io.StringIO()
  writer = csv.writer(out, lineterminator='\n')
  writer.writerow(['int', 'label'])
  writer.writerows(rows)  # type: ignore[arg-type]
  return out.getvalue()
