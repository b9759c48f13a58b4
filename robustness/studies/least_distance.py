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
from robustness.attacks.attack_study import AttackStudy, Shown
from robustness.attacks.nearest import NearestAttack
from robustness.core.registry import are_distinct, setting
from robustness.core.typing import Facts
from robustness.estimates.facets import ATTACK
from robustness.estimates.medians import medians
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity, declare_accuracy, declare_amount
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import ImageShape
from robustness.evaluation.views import Arrays, Views, ViewTable, id_of
from robustness.present.notation import value_text

BEST, UNCHANGED = 'nearest of all', 'none'
"""Values of the facet `attack` that `OPTIMALITY` is computed with."""


def _areas(distances: np.ndarray, nearest: np.ndarray) -> np.ndarray:
  """Returns each image's contribution to areas under robust accuracy curves, [N, A + 2].

  A curve is accuracy against the radius ε. An image is right for all ε below its distance, so it
  adds this distance to the area. Means over images are the areas. Curves end at the largest finite
  value of `nearest`. The columns are:

  * 0, ..., A − 1: each attack alone.
  * A: all attacks together, with the nearest adversarial image of any.
  * A + 1: no attack, where an image that is right adds the whole length of the curve.

  Args:
    distances: [N, A], distance of N images to the nearest adversarial image, by A attacks.
    nearest: [N, 1], the minimum over attacks.
  """
  end = np.max(nearest, where=np.isfinite(nearest), initial=0)
  # Column A + 1: a wrong image has the distance 0.
  unchanged = np.where(nearest > 0, end, 0)
  return np.minimum(np.hstack([distances, nearest, unchanged]), end)


def _optimality(areas: np.ndarray, _: np.ndarray) -> np.ndarray:
  """Returns the optimality of attacks: their effect as a fraction of all attacks' effect.

  It is (U − A) / (U − A*) for an area A under the robust accuracy curve, with A* the area for all
  attacks together and U the area without attack. It is NaN if U = A*.

  Args:
    areas: [..., n + 2], the areas of n attacks, then A* and U; see `_areas`.
    _: not used.
  """
  best, unchanged = areas[..., -2:-1], areas[..., -1:]  # A* and U
  with np.errstate(invalid='ignore', divide='ignore'):
    return np.asarray((unchanged - areas) / (unchanged - best))


MEDIAN = declare_amount(
  'median_distance',
  'median distance to the nearest wrong image',
  better='higher',
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
  """A study of the distance from each image to the nearest misclassified image.

  Attributes:
    attacks: names of attacks: 'fmn', 'ddn' (ℓ2) or `FILE.py:NAME`, a subclass of `NearestAttack`.
      LABEL=NAME adds an attack under another label, so that it can run twice with different
      settings.
    attack: {label of an attack: its settings}, for instance {'fmn': {'steps': 100}}. It is the
      section `config.study.attack`.
    norm: norm of distances: 'linf', 'l2' or 'l1'.
    epsilons: radii ε at which accuracy is reported. They can be changed later without running the
      attacks again.
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
    """Settings that all attacks share: the norm."""
    return {'norm': self.norm}

  def lost_in_bfloat16(self, image_shape: ImageShape | None = None) -> str:
    """Returns an error message for bfloat16, which is too coarse for small distances.

    Args:
      image_shape: not used.
    """
    return 'least distances may be below 2**-8 a value'

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The reported quantities; the description of the median distance states the norm."""
    words = f'median {self.ball} distance to the nearest wrong image'
    return dataclasses.replace(MEDIAN, words=words), ACCURACY, OPTIMALITY

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views, which are the names of the attacks.

    A view is one way to perturb each image.
    """
    return ViewTable.of([value_text(ATTACK, label) for label in self.runs])

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns a table with the label of the attack of each view, in the column `attack`."""
    return pd.DataFrame({'attack': list(self.runs)})

  @property
  def shown_as(self) -> dict[str, str]:
    """{'attacks': their names and settings, the norm, and that true distances may be less}."""
    attacks = [f'{value_text(ATTACK, x)} ({attack.words})' for x, attack in self.runs.items()]
    return {'attacks': f'{", ".join(attacks)} in {self.ball}; true distances may be less'}

  def views(self, image_shape: ImageShape) -> Views:
    """Returns a view for each attack, with the nearest misclassified image that it finds."""
    # all attacks of this study are of this type
    attacks = [attack for attack in self.runs.values() if isinstance(attack, NearestAttack)]
    ids = [id_of(f'{label} {self.norm}') for label in self.runs]

    def show(keys: jax.Array, rows: Arrays, view: Arrays, logits: Logits) -> Shown:
      """Attacks a batch and returns the nearest misclassified images, and their distances.

      Args:
        keys: random keys, [B].
        rows: the clean images, `rows['image']` [B, H, W, C], and labels.
        view: index of the attack, `view['attack']`.
        logits: function from images to logits.

      Returns:
        Images [B, H, W, C], and {'distance': [B]}.
      """
      branches = [functools.partial(attack.nearest, keys, logits) for attack in attacks]
      images, labels = rows['image'], rows['label']
      distance, nearest_images = jax.lax.switch(view['attack'], branches, images, labels)
      return nearest_images, {'distance': distance}

    parameters = {'attack': np.arange(len(ids), dtype=np.int32)}
    return Views(show, np.array(ids, np.int32), parameters, uses_classifier=True, together=True)

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields median distance and accuracy by radius, for all attacks together and each alone.

    With several attacks, the optimality of each is added. It is the area that an attack removes
    under the curve of accuracy against radius, divided by the area that all attacks remove
    together.

    Args:
      recorded: for each classifier and attack, the distance of each of N images to the nearest
        misclassified image that the attack found.
    """
    distances = recorded.outcomes(MEDIAN)  # [N, attacks] of each classifier
    nearest = distances.combined((), lambda values: values.min(1))  # [N, 1], over all attacks
    yield from self._medians_and_curves(nearest, ())
    if len(self.runs) > 1:
      yield from self._medians_and_curves(distances, ('attack',))
      # `_areas` computes areas under the curves from the distances of each attack and the nearest.
      fields = {label: (d, nearest.values[label]) for label, d in distances.values.items()}
      views = pd.DataFrame({'attack': [*self.runs, BEST, UNCHANGED]})  # the columns of `_areas`
      areas = Outcomes.from_fields(OPTIMALITY, fields, views, clusters=recorded.clusters)
      # `_optimality` returns a value for each attack from the areas of all (`by_group`).
      shares = self.means(OPTIMALITY, areas, ('attack',), by_group=True)
      yield shares[shares.attack.isin(list(self.runs))]  # without `BEST` and `UNCHANGED`

  def _medians_and_curves(self, distances: Outcomes, by: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yields median distances, and accuracy at each radius of the setting `epsilons`.

    Args:
      distances: distance of each image to the nearest misclassified one, [N, A], by A attacks.
      by: columns that the results are split by: ('attack',), or () for a single one.
    """
    yield medians(MEDIAN, distances, by, confidence=self.confidence)
    radii = np.array(self.epsilons)
    # The statistic compares each distance with each radius, [N, A, radii].
    fields = {label: (values, radii) for label, values in distances.values.items()}
    views = distances.views.merge(pd.DataFrame({'epsilon': radii}), how='cross')
    right = Outcomes.from_fields(ACCURACY, fields, views, clusters=distances.clusters)
    yield self.means(ACCURACY, right, (*by, 'epsilon'), test=True)
