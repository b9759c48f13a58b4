"""The object classes of SI-Score and their indices in ImageNet's order.

Objects come from OpenImages, with other names than ImageNet's: a pig is ImageNet's hog. Check the
pictures of one class: ImageNet's kite (21) is the bird, and OpenImages' may be the toy.

Reference: Yung et al., SI-Score, 2021, section 2; the class map of the released generator and
the class names of the TFDS data set `siscore`.
"""

from collections.abc import Mapping

from robustness.core.errors import InputError, nearest
from robustness.models import imagenet_names, label_space

IMAGENET_INDEX: Mapping[str, int] = {
  name: int(index) for name, _, index in label_space.coarse_entries('si_score')
}
"""{class of the released generator: its index in ImageNet's order}, from `coarse_classes.txt`.

There are 112 classes; the released sets have the first 61.
"""


def imagenet_index(name: str, kind: str = 'class') -> int:
  """Returns the ImageNet class index, 0 to 999, for a class name or a WordNet identifier.

  Args:
    name: one of SI-Score's class names, for instance 'Bell pepper', or a WordNet identifier of
      ImageNet, for instance 'n07720875'. Case is ignored, and underscores may replace spaces.
    kind: what error messages call `name`, for example 'folder'.

  Raises:
    InputError: `name` is unknown. The message names the closest class.
  """
  plain_name = ' '.join(name.replace('_', ' ').lower().split())
  if plain_name in IMAGENET_INDEX:
    return IMAGENET_INDEX[plain_name]
  if plain_name in imagenet_names.WNIDS:
    return imagenet_names.WNIDS.index(plain_name)
  raise InputError(
    f'{kind} {name!r} is no class of SI-Score: {nearest(plain_name, IMAGENET_INDEX)}; or '
    "a WordNet identifier of ImageNet, such as 'n07693725'. Rename the class."
  )
