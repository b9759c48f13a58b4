"""Augmentations of training examples, in the order of a policy; pure JAX."""

import abc
import dataclasses
from typing import ClassVar

import jax

from robustness.core.registry import Part, Registry
from robustness.core.typing import PyTree

Example = dict[str, PyTree]
"""One row, or a batch of them with a leading axis; `partner` is another one."""


@dataclasses.dataclass(frozen=True)
class Augmentation(Part):
  """Base class: the fields are the keys of the section `config.classifier.augment.<name>`.

  An example is a row: `image` float32 [H, W, C] in [0, 1], `label` int32 [], `target` float32
  [classes] (the distribution over classes that is learnt), `example_id`, and the columns of the
  source. An augmentation may give several images of a row, [V, H, W, C]; those after it in the
  policy see each by itself.

  One with choices that are costly gives their number as `branches`, with `draw_branch` and
  `apply_branch`: an accelerator then computes rows of one branch together.

  Attributes:
    needs_partner: whether the example has `partner`, another row of the batch as it is at that
      point of the policy.
    sequential: whether choices differ in cost: a CPU takes row after row, so that a row costs its
      own choice and not all of them; there is no `partner`.
    gives_more_images: whether it may give more than one image of a row.
    one_key_a_row: whether a row has the same key in every step.
  """

  section: ClassVar[str] = 'config.classifier.augment'
  needs_partner: ClassVar[bool] = False
  sequential: ClassVar[bool] = False
  gives_more_images: ClassVar[bool] = False
  one_key_a_row: ClassVar[bool] = False

  @abc.abstractmethod
  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the augmented example; pure and traceable.

    Args:
      key: depends on (seed, name, example_id, step) alone, and on how often the batch holds the
        row before.
      example: see the class.
    """

  @property
  def within(self) -> str:
    """The column, of a number a row, in which a row and its partner are equal; '' for any two."""
    return ''

  @property
  @abc.abstractmethod
  def resembles(self) -> tuple[str, ...]:
    """Transforms of `robustness.environments.transforms`, or families of these
    (`robustness.corruptions.names.FAMILIES`), that the images come to be like.

    A training must not show them to classes that they are held out from, so that each augmentation
    says them: `resembles = ()`, if there are none.
    """

  def added_columns(self) -> dict[str, int]:
    """Returns the columns of whole numbers in [0, n) that are added, {name: n}."""
    return {}

  def metrics(self, batch: Example) -> dict[str, jax.Array]:
    """Returns what is logged of a batch after the whole policy: means over its rows."""
    del batch
    return {}

  @property
  def branches(self) -> int:
    """How many different things can be done to an image; 0 does not tell."""
    return 0

  def draw_branch(self, key: jax.Array, columns: Example) -> jax.Array:
    """Returns which of them it is for an example, given all but its image, int32 []; a column that
    the augmentation adds holds it."""
    raise NotImplementedError

  def apply_branch(self, branch: jax.Array, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image [H, W, C] after that branch."""
    raise NotImplementedError


AUGMENTATIONS = Registry('robustness.augment', Augmentation)  # type: ignore[type-abstract]


def with_more_images() -> str:
  """Returns the names of the augmentations that give more than one image of a row, for messages."""
  names = [name for name, part in AUGMENTATIONS.classes().items() if part.gives_more_images]
  return f'{", ".join(map(repr, names[:-1]))} or {names[-1]!r}'
