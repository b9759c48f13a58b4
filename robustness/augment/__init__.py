"""Augmentations of training examples, applied in the order of a policy; pure JAX."""

import abc
import dataclasses
from typing import ClassVar

import jax

from robustness.core.registry import Part, Registry
from robustness.core.typing import PyTree

Example = dict[str, PyTree]
"""One row, or a batch of rows with a leading axis; `partner` holds another row."""


@dataclasses.dataclass(frozen=True)
class Augmentation(Part):
  """Base class of augmentations, functions of a random key and a training example.

  The fields are keys of the config section `config.classifier.augment.<name>`.

  An example is a dictionary with `image` float32 [H, W, C] in [0, 1], `label` int32 [], `target`
  float32 [classes] (the class probabilities to learn), `example_id`, and the other columns of the
  data. An augmentation may replace the image by V images, [V, H, W, C]. The augmentations after it
  are then applied to each image separately.

  An augmentation may choose one of several costly computations for each image, such as one of
  several corruptions. It can declare them by overriding `branches`, `draw_branch` and
  `apply_branch`. An accelerator then computes all images with the same choice together.

  Attributes:
    needs_partner: whether the example has the key `partner`, another example of the batch to mix
      with.
    sequential: whether random choices differ in cost. A CPU then processes examples one by one and
      computes only what each needs. The example has no `partner` in this case.
    gives_more_images: whether the augmentation may return several images.
    one_key_a_row: whether an example has the same random key in every step, and so in every epoch.
  """

  section = 'config.classifier.augment'
  needs_partner: ClassVar[bool] = False
  sequential: ClassVar[bool] = False
  gives_more_images: ClassVar[bool] = False
  one_key_a_row: ClassVar[bool] = False

  @abc.abstractmethod
  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the augmented example; pure and traceable.

    Args:
      key: random key, which depends on seed, augmentation, `example_id` and step. Copies of an
        example in one batch have different keys if the batch numbers the copies.
      example: one training example, a dictionary with `image` and other keys as described for the
        class.
    """

  @property
  def within(self) -> str:
    """Name of the column in which an example and its partner must have the same value.

    '' if any other example of the batch may be the partner.
    """
    return ''

  @property
  @abc.abstractmethod
  def resembles(self) -> tuple[str, ...]:
    """Names of image transforms that augmented images look like, such as 'fog'; () for none.

    A name may also be of a family of transforms, such as 'noise'. Used to refuse the augmentation
    in a training that keeps such a transform from some of the classes. Valid names are in
    `robustness.environments.transforms` and `robustness.corruptions.names.FAMILIES`.
    """

  def added_columns(self) -> dict[str, int]:
    """Returns the columns that the augmentation adds to examples, as {name: n}.

    A column has integers in [0, n), for instance the number of the corruption that was applied.
    """
    return {}

  def metrics(self, batch: Example) -> dict[str, jax.Array]:
    """Returns the metrics to log for an augmented batch, as {name: mean over the batch}."""
    return {}

  @property
  def branches(self) -> int:
    """Number of computations that `draw_branch` chooses from.

    0 if the augmentation does not declare any.
    """
    return 0

  def draw_branch(self, key: jax.Array, columns: Example) -> jax.Array:
    """Chooses the computation for an example, int32 [] in [0, `branches`).

    For instance, a number stands for one corruption at one severity. A column that the augmentation
    adds to examples has this number.

    Args:
      key: random key.
      columns: the example without the image.
    """
    raise NotImplementedError

  def apply_branch(self, branch: jax.Array, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image [H, W, C] after the computation with the number `branch`."""
    raise NotImplementedError


AUGMENTATIONS = Registry('robustness.augment', Augmentation)  # type: ignore[type-abstract]
"""All augmentations by name."""


def multi_image_augmentations() -> str:
  """Returns the names of the augmentations that return several images, for messages.

  For instance "'augmix' or 'prime'".
  """
  names = [name for name, part in AUGMENTATIONS.classes().items() if part.gives_more_images]
  return f'{", ".join(map(repr, names[:-1]))} or {names[-1]!r}'
