"""Frequency shortcuts: for each class, the set of frequencies alone that it is recognised by best.

Every row is shown as it is, and through random sets of frequencies. Half of a class's rows choose
its set, the other half says how many of them are still recognised.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting
from robustness.core.rows import Rows
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity, Right, declare_accuracy
from robustness.evaluation.outcomes import BASE, ONE_VIEW, Recorded, image_numbers
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import Evaluation, Figures, Findings, ImageShape, Recipes, Study
from robustness.evaluation.views import Arrays, Views, ViewTable
from robustness.fourier import spectrum
from robustness.fourier.filters import filtered_by_half
from robustness.present import charts, images
from robustness.results import Results

TAKEN = Quantity(
  'taken_for_class',
  'share of others taken for the class through its set',
  drawn=True,
  statistic=np.equal,
)
THROUGH = Quantity(
  'accuracy_through_set',
  'accuracy through the set of frequencies',
  headline=True,
  extreme='highest',
  reference=TAKEN.name,
  statistic=Right(),
)
"""A shortcut is a set through which a class is recognised and others are not taken for it."""
WHOLE = declare_accuracy('accuracy_when_whole', 'accuracy on whole images', drawn=True)
SMALLEST = 1e-12  # of a probability, in a loss


@dataclasses.dataclass(frozen=True)
class FrequencyShortcuts(Study):
  """A set keeps each of grid × grid patches of the plane of frequencies with a probability, for
  every grid in turn, and with a frequency its opposite. The set of a class has the least mean
  −log p of its true class over half of the class's rows. The other halves are scored, of other
  classes too: a set through which everything is taken for one class says nothing of it.

  The paper searches from coarse grids to fine ones, the next candidates inside of the best; here
  all sets are drawn at once, so that they are views.

  Attributes:
    sets: how many are drawn.
    grids: patches a side; 4, 8 and 16 for 32 pixels.
    kept: share of the patches that each grid keeps.

  Reference:
    Wang et al. (2023), What Do Neural Networks Learn in Image Classification? A Frequency Shortcut
    Perspective; the search by grids is of Wang et al. (2025), Do ImageNet-trained Models Learn
    Shortcuts?
  """

  title: ClassVar[str] = 'Frequencies that suffice, by class'
  quantities = (THROUGH, WHOLE, TAKEN)

  sets: int = setting(200, 'at least 1', lambda x: x >= 1)
  grids: tuple[int, ...] = setting(
    (4, 8, 16), 'not empty, all at least 2', lambda x: min(x, default=0) >= 2
  )
  kept: float = setting(0.8, 'in (0, 1)', lambda x: 0 < x < 1)

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require_no_repeats('grids')

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """See `Study`; refuses rows with several labels, a single class, and a class with one row."""
    super().check(rows, recipes)
    columns = rows.without_images()
    labels = columns['label']
    if labels.ndim > 1:
      raise InputError('frequency_shortcuts counts by class, and these rows have several labels.')
    if len(np.unique(labels)) < 2:
      raise _one_class()
    image = columns[BASE if BASE in columns else 'example_id']
    distinct = np.unique(np.stack([labels, image]), axis=1)
    few = [rows.class_names[k] for k, n in enumerate(np.bincount(distinct[0])) if n == 1]
    if few:
      raise InputError(
        f'frequency_shortcuts chooses on half of the images of a class, and {few[0]!r} has one: '
        f'give more images ({KEYS.data.num_images}; 0 takes all).'
      )

  def masks(self, height: int, width: int) -> np.ndarray:
    """Returns the sets, bool [sets, H, W // 2 + 1], frequencies in the order of `rfft2`."""
    masks = np.ones((self.sets, height, width), bool)
    for number, mask in enumerate(masks):
      generator = np.random.default_rng(number)  # a set is the same however many there are
      for grid in self.grids:
        patches = generator.random((grid, grid)) < self.kept
        y, x = (np.arange(n) * grid // n for n in (height, width))
        mask &= patches[y[:, None], x[None, :]]
    ordered = np.fft.ifftshift(masks, (1, 2))
    opposite = np.roll(ordered[:, ::-1, ::-1], 1, (1, 2))
    first = np.arange(height * width).reshape(height, width)
    is_first = first <= np.roll(first[::-1, ::-1], 1, (0, 1))
    return np.where(is_first, ordered, opposite)[:, :, : width // 2 + 1]

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the view of whole images (id 0), then the sets."""
    height, width, _ = image_shape
    side = min(height, width)
    self.require(
      max(self.grids) <= side, 'grids', f'at most {side}, the shorter side of the images'
    )
    every = np.ones((1, height, width // 2 + 1), bool)
    number = np.arange(self.sets + 1, dtype=np.int32)
    masks = np.concatenate([every, self.masks(height, width)])
    return Views(_show, number, {'set': number, 'kept': masks})

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Names the views 'clean' and 'set 1' to the last."""
    sets = range(1, self.sets + 1)
    groups = {'clean': [0], 'all sets': list(sets)}
    return ViewTable.of(['clean', *(f'set {number}' for number in sets)], groups)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the shares by class, and the sets of the classes as `sets/<classifier>`."""
    recorded = Recorded(evaluations, self.facets(image_shape))
    classes = _classes(evaluations[0])
    if len(classes) < 2:  # of the classifier, which may have one where the data have several
      raise _one_class()
    labels = evaluations[0].records.column('label')
    best = {e.label: self._best_sets(e, labels) for e in evaluations}
    masks = self.masks(*image_shape[:2])
    arrays = {f'sets/{k}': masks[[sets[n] for n in classes.values()]] for k, sets in best.items()}
    return Findings(estimates=list(self._by_class(recorded, best)), arrays=arrays)

  def _best_sets(self, evaluation: Evaluation, labels: np.ndarray) -> dict[int, int]:
    """Returns the number of the best set of each class of the rows."""
    losses = -np.log(np.maximum(evaluation.records.table('probability')[:, 1:], SMALLEST))
    choosing = _choosing(labels, evaluation.records)
    return {
      k: int(losses[(labels == k) & choosing].mean(0).argmin()) for k in np.unique(labels).tolist()
    }

  def _by_class(
    self, recorded: Recorded, best: Mapping[str, Mapping[int, int]]
  ) -> Iterator[pd.DataFrame]:
    first, right = recorded.evaluations[0], recorded.outcomes(THROUGH)
    labels = first.records.column('label')
    predicted = {e.label: e.records.table('prediction') for e in recorded.evaluations}
    own_labels = {e.label: e.records.column('label') for e in recorded.evaluations}
    scored_half = ~_choosing(labels, first.records)
    halves = {k: np.flatnonzero((labels == k) & scored_half) for k in best[first.label]}
    for name, number in _classes(first).items():
      scored = halves[number]
      rest_of_classes = [rows for k, rows in halves.items() if k != number]
      view = {k: [1 + sets[number]] for k, sets in best.items()}
      through, on_whole = (
        dataclasses.replace(right, values=values, views=ONE_VIEW)
        for values in (
          {k: x[:, view[k]] for k, x in right.values.items()},
          {k: x[:, :1] for k, x in right.values.items()},
        )
      )
      pairs = {k: (x[:, view[k]], own_labels[k][scored[0]]) for k, x in predicted.items()}
      taken = Outcomes.from_fields(TAKEN, pairs, ONE_VIEW, clusters=recorded.clusters)
      for quantity, outcomes, rows in (
        (THROUGH, through, scored),
        (WHOLE, on_whole, scored),
        (TAKEN, taken, np.concatenate(rest_of_classes)),
      ):
        yield self.means(quantity, outcomes.of_rows(rows), facets={'class': name}, test=True)

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and the set of each class, zero frequency in the centre."""
    rows = {}
    names = results.table[results.table.quantity == WHOLE.name]['class'].dropna().unique()
    height, width = results.data['image_shape'][:2]
    for label in results.labels:
      sets = spectrum.full_map(results.arrays[f'sets/{label}'], width).astype(float)
      rows[label] = dict(zip(names, sets[..., None], strict=True))
    caption = f'The frequencies that each class is recognised by best, of {height} × {width}: '
    caption += 'white ones, zero frequency in the centre.'
    return {**charts.draw(results), 'sets': (images.grid(rows), caption)}


def _classes(evaluation: Evaluation) -> dict[str, int]:
  """Returns {class name: index in the classifier's outputs} of the classes that the labels have."""
  names = evaluation.records.identity.get('classes', ())
  labels = np.unique(evaluation.records.column('label')).tolist()
  return {names[k] if k < len(names) else str(k): k for k in labels}


def _one_class() -> InputError:
  """Returns the error for images of a single class."""
  return InputError(
    'frequency_shortcuts asks what else is taken for a class, and these rows are of one class: '
    f'give images of two ({KEYS.data}).'
  )


def _choosing(labels: np.ndarray, records: RecordsReader) -> np.ndarray:
  """Returns which rows choose sets, bool [N]: of every second image of a class all versions."""
  image = image_numbers(records)
  choosing = np.zeros(len(labels), bool)
  for label in np.unique(labels):
    rows = np.flatnonzero(labels == label)
    choosing[rows] = pd.factorize(image[rows])[0] % 2 == 0
  return choosing


def _show(key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
  del key
  return jnp.where(view['set'] > 0, filtered_by_half(row['image'], view['kept']), row['image'])
