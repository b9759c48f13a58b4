"""Training on common corruptions, for example on all except the measured one."""

import dataclasses

import jax
import jax.numpy as jnp

from robustness.augment import Augmentation, Example
from robustness.core.registry import are_distinct_and_some, setting
from robustness.corruptions.catalog import apply, check_names, find, refuse_stored
from robustness.corruptions.names import KNOWN, SETS, SEVERITIES, UNLIKE_OTHERS, spelt_out


@dataclasses.dataclass(frozen=True)
class RandomCorruption(Augmentation):
  """Corrupts the image by one random corruption at one random severity.

  Corruptions are the same functions as in the study `corruption_error`, for instance fog. Random
  numbers are new for every example and step. Values are not rounded to 8 bits. Images that are too
  small for a corruption raise InputError.

  Attributes:
    corruptions: names, `FILE.py:NAME` for your own, or sets: 'official' (15), 'extra' (4), 'all'
      (19), 'fourier_cifar', 'fourier_imagenet'.
    left_out: names of corruptions that are not drawn.
    severities: severities to draw from, integers in 1..5.
    probability: probability of corrupting an image.
    constants: image size for which the corruption's constants were published: 32, 64, 224 or 299. 0
      selects the size nearest to the images.

  Reference:
    Yin et al. (2019), A Fourier Perspective on Model Robustness, table 3: a network is trained at
    one severity on all corruptions except one, and measured on the corruption that is left out.
  """

  sequential = True
  corruptions: tuple[str, ...] = ('official',)
  left_out: tuple[str, ...] = ()
  severities: tuple[int, ...] = SEVERITIES
  probability: float = setting(1.0, 'in [0, 1]', lambda x: 0 <= x <= 1)
  constants: int = 0

  def __post_init__(self) -> None:
    """Raises InputError for invalid names or severities, or if all corruptions are left out."""
    super().__post_init__()
    self.require(bool(self.corruptions), 'corruptions', 'one or more')
    check_names(self.key('corruptions'), self.corruptions, (*SETS, *KNOWN))
    self.choose('left_out', spelt_out(self.corruptions))
    self.require(bool(self.names), 'left_out', 'fewer than all corruptions')
    is_valid = are_distinct_and_some(self.severities) and {*self.severities} <= {*SEVERITIES}
    self.require(is_valid, 'severities', 'some of 1..5, each once')

  @property
  def references(self) -> tuple[str, ...]:
    """The corruptions from the user's files, as `FILE.py:NAME`.

    Names of built-in corruptions may also be among them.
    """
    return self.names

  @property
  def names(self) -> tuple[str, ...]:
    """Names of the corruptions to draw from, in the order of `KNOWN`."""
    return tuple(name for name in spelt_out(self.corruptions) if name not in self.left_out)

  @property
  def resembles(self) -> tuple[str, ...]:
    """Names of the corruptions that training shows, and of their families.

    A measured corruption is unseen in training only if neither its name nor its family is among
    them.
    """
    families = {find(name).family for name in self.names}
    # members of `UNLIKE_OTHERS` resemble no other one
    return (*self.names, *sorted(families - {UNLIKE_OTHERS}))

  def __call__(self, key: jax.Array, example: Example) -> Example:
    """Returns the example with its image corrupted, or unchanged by chance."""
    branch = self.draw_branch(key, example)
    return {**example, 'image': self.apply_branch(branch, key, example['image'])}

  @property
  def branches(self) -> int:
    """Number of corruptions times severities, plus 1 for the unchanged image."""
    return len(self.names) * len(self.severities) + 1

  def draw_branch(self, key: jax.Array, columns: Example) -> jax.Array:
    """Draws a corruption and a severity, as one number, int32 [] in [0, `branches`).

    With S severities, number S·i + j is corruption i at the severity j, both counted from 0. The
    last number, drawn with probability 1 − `probability`, leaves the image unchanged.
    """
    refuse_stored(columns)  # raises InputError for images that are corrupted already
    # 0 here and 1 in `apply_branch` make independent keys
    key_branch, key_applied = jax.random.split(jax.random.fold_in(key, 0))
    unchanged = self.branches - 1
    branch = jax.random.randint(key_branch, (), 0, unchanged)
    return jnp.where(jax.random.bernoulli(key_applied, self.probability), branch, unchanged)

  def apply_branch(self, branch: jax.Array, key: jax.Array, image: jax.Array) -> jax.Array:
    """Returns the image [H, W, C] after a corruption at a severity.

    Args:
      branch: S·i + j for corruption i at the severity j, both counted from 0, of S severities. The
        last number leaves the image unchanged.
      key: random key.
      image: [H, W, C] in [0, 1].
    """
    corruption, severity_index = jnp.divmod(branch, len(self.severities))
    severity = jnp.array(self.severities)[severity_index]

    def corrupted(image: jax.Array) -> jax.Array:
      """Returns the image after the corruption, [H, W, C]."""
      side = self.constants or None  # None selects the constants of the nearest image size
      noise_key = jax.random.fold_in(key, 1)
      return apply(noise_key, image, corruption, severity, names=self.names, side=side)

    is_unchanged = branch == self.branches - 1  # see `draw_branch`
    return jax.lax.cond(is_unchanged, lambda image: image, corrupted, image)
