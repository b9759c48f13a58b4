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
  """Base class of augmentations, functions of a random key and an example.

  The fields are the keys of the section `config.classifier.augment.<name>`.

  An example is a row: `image` float32 [H, W, C] in [0, 1], `label` int32 [], `target` float32
  [classes] (the distribution over classes to be learnt), `example_id`, and the columns of the
  source. An augmentation may return V images per row, [V, H, W, C]; later augmentations of the
  policy are then applied to each image separately.

  An augmentation that draws one of several costly computations for each image, its branches, such
  as one of several corruptions, may implement `branches`, `draw_branch` and `apply_branch`. An
  accelerator then computes all rows that drew the same branch together.

  Attributes:
    needs_partner: Whether the example has `partner`, another row of the batch at the same point of
      the policy.
    sequential: Whether it makes random choices that differ in cost. A CPU then processes rows one
      by one and computes only the choice of each row; the example has no `partner` then.
    gives_more_images: Whether it may return more than one image per row.
    one_key_a_row: Whether a row has the same random key in every step, and so in every epoch.
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
      key: Depends on (seed, name, example_id, step) and the occurrence of the row in the batch.
      example: A row as described for the class.
    """

  @property
  def within(self) -> str:
    """The column in which a row and its partner must have the same value; '' for any partner."""
    return ''

  @property
  @abc.abstractmethod
  def resembles(self) -> tuple[str, ...]:
    """The transforms or families of transforms that augmented images resemble; () for none.

    Names are from `robustness.environments.transforms` and
    `robustness.corruptions.names.FAMILIES`. A training that holds out a transform from some classes
    refuses augmentations that resemble it.
    """

  def added_columns(self) -> dict[str, int]:
    """Returns {name: n} for the columns of integers in [0, n) that are added to rows."""
    return {}

  def metrics(self, batch: Example) -> dict[str, jax.Array]:
    """Returns {name: mean over the rows} to be logged for a batch after the entire policy."""
    del batch
    return {}

  @property
  def branches(self) -> int:
    """The number of branches, see the class; 0 for an augmentation that does not declare any."""
    return 0

  def draw_branch(self, key: jax.Array, columns: Example) -> jax.Array:
    """Draws the number of the branch that is applied to an example, int32 [] in [0, `branches`).

    A branch is for example one corruption at one severity. `columns` are the columns of the example
    without the image. A column that the augmentation adds to rows has this number.
    """
    raise NotImplementedError

  def apply_branch(self, branch: jax.Array, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image [H, W, C] after the branch with the number `branch`."""
    raise NotImplementedError


AUGMENTATIONS = Registry('robustness.augment', Augmentation)  # type: ignore[type-abstract]
"""All augmentations by name."""


def multi_image_augmentations() -> str:
  """Returns the names of the augmentations with several images per row, as text for messages.

  An example is "'augmix' or 'prime'".
  """
  names = [name for name, part in AUGMENTATIONS.classes().items() if part.gives_more_images]
  return f'{", ".join(map(repr, names[:-1]))} or {names[-1]!r}'
