"""How corrupted images differ from the stored set ImageNet-C, on which AlexNet was measured."""

from __future__ import annotations

from robustness.corruptions.severities import table_for
from robustness.corruptions.views import CorruptionViews

SIDE = 224


def is_of_its_kind(image_shape: tuple[int, int, int]) -> bool:
  """Returns whether images of a size have ImageNet's constants, and not those of small images."""
  return table_for(*image_shape[:2]).side >= SIDE


def size_difference(image_shape: tuple[int, int, int]) -> list[str]:
  """Returns what the size of the images differs in."""
  height, width = image_shape[:2]
  return [] if height == width == SIDE else [f'images are {height} × {width}, not {SIDE} × {SIDE}']


def setting_differences(views: CorruptionViews, image_shape: tuple[int, int, int]) -> list[str]:
  """Returns what settings of images made here differ in; none where they are as released.

  Args:
    views: the settings.
    image_shape: height, width and channels of the images.
  """
  side = views.constants or table_for(*image_shape[:2]).side
  facts = {
    'frost is drawn, not photographed': 'frost' in views.names and not views.photographs,
    'values are not rounded to 8 bits as released': views.quantize != 'floor',
    f'constants are those of {side} pixels': side != SIDE,
    f'variants of {", ".join(views.options.chosen())} are not the released ones': bool(
      views.options.chosen()
    ),
  }
  return [reason for reason, differs in facts.items() if differs]
