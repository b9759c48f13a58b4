"""Least distances to a misclassified image: their median, and the accuracy at every radius.

Attacks such as FMN and DDN find the nearest misclassified image of each image. The accuracy at
the radius ε is the share of images with a least distance above ε, so that one run has the curve
over all ε (Pintor et al. 2021; Cinà et al. 2025, AttackBench).
"""

import dataclasses
import functools
import operator
from collections.abc import Iterator, Sequence

import jax
import numpy as np
import pandas as pd

from robustness.attacks import Logits
from robustness.attacks.nearest import NearestAttack
from robustness.core.registry import are_distinct, setting
from robustness.core.typing import Facts
from robustness.estimates.facets import ATTACK
from robustness.estimates.medians import medians
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import AMOUNT, Quantity, declare_accuracy
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import ImageShape
from robustness.evaluation.views import Arrays, Views, ViewTable, id_of
from robustness.present.notation import value_text
from robustness.studies.attack_error import AttackStudy, Shown

BEST, UNCHANGED = 'nearest of all', 'none'
"""Values of the facet `attack` that `OPTIMALITY` is computed with."""


def _areas(distances: np.ndarray, nearest: np.ndarray) -> np.ndarray:
  """Returns values of each image, [N, A + 2]; their means are areas under curves of accuracy by ε.

  An image is right for all ε below its distance, so that it adds this distance to the area. Curves
  end at the largest finite value of `nearest`. Columns are:

  * 0, ..., A − 1: one attack each;
  * A: all attacks together, by the nearest wrong image of any;
  * A + 1: no attack. The curve stays at the clean accuracy, so that its area is the largest
    possible: an image that is right at ε = 0 adds the whole length of the curve.

  Args:
    distances: [N, A], distance to the nearest wrong image of N images by A attacks.
    nearest: [N, 1], the least of these distances of each image.
  """
  end = np.max(nearest, where=np.isfinite(nearest), initial=0)
  # Column A + 1: a wrong image has the distance 0.
  unchanged = np.where(nearest > 0, end, 0)
  return np.minimum(np.hstack([distances, nearest, unchanged]), end)


def _optimality(areas: np.ndarray, _: np.ndarray) -> np.ndarray:
  """Returns the optimality (U − A) / (U − A*) of each area A, [..., n + 2]; NaN if U = A*.

  `areas` [..., n + 2] are areas under the accuracy by ε: n entries of one attack each, then A*, of
  the nearest wrong image of all attacks, and U, of no attack at all; see `_areas`. The second
  argument, the areas of the baseline classifier, is not used.
  """
  best, unchanged = areas[..., -2:-1], areas[..., -1:]  # A* and U
  with np.errstate(invalid='ignore', divide='ignore'):
    return np.asarray((unchanged - areas) / (unchanged - best))


MEDIAN = Quantity(
  'median_distance',
  'median distance to the nearest wrong image',
  kind=AMOUNT,
  better='higher',
  low=0,
  headline=True,
  statistic=operator.itemgetter('measure/distance'),  # inf for an image without a wrong one
)
ACCURACY = declare_accuracy(
  'robust_accuracy', 'accuracy under attacks of a radius', drawn=True, statistic=np.greater.outer
)
OPTIMALITY = Quantity(
  'optimality',
  'optimality of an attack among the attacks',
  drawn=True,
  statistic=_areas,
  function=_optimality,
)


@dataclasses.dataclass(frozen=True)
class LeastDistance(AttackStudy):
  """A study of least distances to a misclassified image; attributes are its settings.

  Attributes:
    attacks: names of attacks: 'fmn', 'ddn' (ℓ2) or `FILE.py:NAME`, a subclass of `NearestAttack`;
      LABEL=NAME repeats an attack with other settings.
    attack: the settings of each attack in a section of its name or label, such as
      `config.study.attack.fmn.steps`.
    norm: the norm of distances: 'linf', 'l2' or 'l1'.
    epsilons: the radii ε at which accuracy is reported. Records do not depend on them, so that the
      same command with other radii runs no attack again.
  """

  title = 'Least distance to a wrong image'
  papers = ()
  lists_failures = False
  not_recorded = ('epsilons',)

  attacks: tuple[str, ...] = setting(('fmn',), 'not empty', bool)
  epsilons: tuple[float, ...] = setting(
    tuple(number / 510 for number in range(17)),  # 0, ½/255, 1/255, …, 8/255
    'not empty, distinct, finite and at least 0',
    lambda radii: bool(radii) and are_distinct(radii) and all(0 <= x < float('inf') for x in radii),
  )

  def __post_init__(self) -> None:
    """Raises InputError for a setting that is not valid."""
    super().__post_init__()
    are_nearest = all(isinstance(attack, NearestAttack) for attack in self.runs.values())
    self.require(are_nearest, 'attacks', 'attacks that find the nearest wrong image: fmn, ddn')

  @property
  def common_settings(self) -> Facts:
    """The norm, which all attacks have in common."""
    return {'norm': self.norm}

  def lost_in_bfloat16(self, image_shape: ImageShape | None = None) -> str:
    """Returns why bfloat16 is refused: it rounds small changes away, and distances may be small.

    The shape of the images makes no difference.
    """
    return 'least distances may be below 2**-8 a value'

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The quantities; the words of the median state the norm, for example ℓ∞."""
    words = f'median {self.ball} distance to the nearest wrong image'
    return dataclasses.replace(MEDIAN, words=words), ACCURACY, OPTIMALITY

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, which are the names of the attacks."""
    return ViewTable.of([value_text(ATTACK, label) for label in self.runs])

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns a table with the attack of each view, by its label."""
    return pd.DataFrame({'attack': list(self.runs)})

  @property
  def shown_as(self) -> dict[str, str]:
    """The attacks with settings, for the report's table `which numbers these are`."""
    attacks = [f'{value_text(ATTACK, x)} ({attack.words})' for x, attack in self.runs.items()]
    return {'attacks': f'{", ".join(attacks)} in {self.ball}; true distances may be less'}

  def views(self, image_shape: ImageShape) -> Views:
    """Returns a view for each attack, which shows the nearest misclassified image that it finds."""
    attacks = [attack for attack in self.runs.values() if isinstance(attack, NearestAttack)]
    ids = [id_of(f'{label} {self.norm}') for label in self.runs]

    def show(keys: jax.Array, rows: Arrays, view: Arrays, logits: Logits) -> Shown:
      """Returns the nearest wrong images [B, H, W, C], and {'distance': their distances [B]}."""

      def nearest(attack: NearestAttack, _: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Returns the distances to the nearest images that `attack` finds, and these images.

        The second argument is not used; `jax.lax.switch` needs an operand to pass to its branches.
        """
        return attack.nearest(keys, logits, rows['image'], rows['label'])

      branches = [functools.partial(nearest, attack) for attack in attacks]
      distance, images = jax.lax.switch(view['attack'], branches, view['attack'])
      return images, {'distance': distance}

    parameters = {'attack': np.arange(len(ids), dtype=np.int32)}
    return Views(show, np.array(ids, np.int32), parameters, uses_classifier=True, together=True)

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields median distances and accuracies by radius, of all attacks together and by attack.

    Each attack lowers the curve of accuracy over the radius, and the area under it. With several
    attacks the optimality of each is added: the area that it removes, as a share of the area that
    all attacks together remove.
    """
    distances = recorded.outcomes(MEDIAN)  # [N, attacks] of each classifier
    nearest = distances.combined((), lambda values: values.min(1))  # [N, 1], over all attacks
    yield from self._medians_and_curves(nearest, ())
    if len(self.runs) > 1:
      yield from self._medians_and_curves(distances, ('attack',))
      fields = {label: (d, nearest.values[label]) for label, d in distances.values.items()}
      views = pd.DataFrame({'attack': [*self.runs, BEST, UNCHANGED]})  # the columns of `_areas`
      areas = Outcomes.from_fields(OPTIMALITY, fields, views, clusters=recorded.clusters)
      shares = self.means(OPTIMALITY, areas, ('attack',), by_group=True)
      yield shares[shares.attack.isin(list(self.runs))]  # without `BEST` and `UNCHANGED`

  def _medians_and_curves(self, distances: Outcomes, by: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yields median distances, and the curve of accuracy over the radii `epsilons`.

    Args:
      distances: least distances of each image, [N, A], in A views.
      by: facets of the views; () if there is one.
    """
    yield medians(MEDIAN, distances, by, confidence=self.confidence)
    radii = np.array(self.epsilons)
    # The statistic compares each distance with each radius, [N, A, radii].
    fields = {label: (values, radii) for label, values in distances.values.items()}
    views = distances.views.merge(pd.DataFrame({'epsilon': radii}), how='cross')
    right = Outcomes.from_fields(ACCURACY, fields, views, clusters=distances.clusters)
    yield self.means(ACCURACY, right, (*by, 'epsilon'), test=True)
