"""Frequency shortcuts: for each class, the set of frequencies that suffices best to recognise it.

Every image is shown unchanged and restricted to each of many random sets of frequencies. Half of a
class's images choose its set; on the other half, and on other classes, the set is measured.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import are_distinct, setting
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
"""Share of images recognised through the set of their class. A shortcut is a set through which a
class is recognised and other classes are not mistaken for it.
"""
WHOLE = declare_accuracy('accuracy_when_whole', 'accuracy on whole images', drawn=True)
MIN_PROBABILITY = 1e-12
"""Smallest probability in the loss −log p, which keeps it finite."""


@dataclasses.dataclass(frozen=True)
class FrequencyShortcuts(Study):
  """A study of frequency shortcuts: sets of frequencies that suffice to recognise a class.

  Images are filtered with many random sets of frequencies. The set of a class is the one with the
  smallest cross-entropy on half of the class's images. Accuracy with it is measured on the other
  half. How often other classes are taken for the class is also measured, since a set that makes
  every image look like one class says nothing.

  A random set is the intersection of several grids. Each grid divides the plane of frequencies into
  grid × grid patches and keeps each with probability `kept`. With f a set also has −f. The paper
  instead refines sets from coarse grids to fine ones.

  Attributes:
    sets: number of random sets.
    grids: numbers of patches along a side; 4, 8 and 16 suit images of 32 pixels.
    kept: probability with which a grid keeps a patch.

  Reference:
    Wang et al. (2023), What Do Neural Networks Learn in Image Classification? A Frequency Shortcut
    Perspective; the search by grids is of Wang et al. (2025), Do ImageNet-trained Models Learn
    Shortcuts?
  """

  title = 'Frequencies that suffice, by class'
  quantities = (THROUGH, WHOLE, TAKEN)

  sets: int = setting(200, 'at least 1', lambda x: x >= 1)
  grids: tuple[int, ...] = setting(
    (4, 8, 16),
    'not empty, distinct, all at least 2',
    lambda x: min(x, default=0) >= 2 and are_distinct(x),
  )
  kept: float = setting(0.8, 'in (0, 1)', lambda x: 0 < x < 1)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError unless images have one label each and two images for each class.

    There must be at least two classes. Corrupted versions of an image count as one image.
    """
    super().check(rows, recipes)
    columns = rows.without_images()
    labels = columns['label']
    if labels.ndim > 1:
      raise InputError('frequency_shortcuts counts by class, and these rows have several labels.')
    if len(np.unique(labels)) < 2:
      raise _one_class()
    image = columns[BASE if BASE in columns else 'example_id']  # equal for versions of an image
    labels_of_distinct, _ = np.unique(np.stack([labels, image]), axis=1)  # one of each image
    with_one = np.flatnonzero(np.bincount(labels_of_distinct) == 1)  # classes of one image
    if len(with_one):
      name = rows.class_names[with_one[0]]
      raise InputError(
        f'frequency_shortcuts chooses on half of the images of a class, and {name!r} has one: '
        f'give more images ({KEYS.data.num_images}; 0 takes all).'
      )

  def masks(self, height: int, width: int) -> np.ndarray:
    """Draws the random sets of frequencies, as masks, bool [sets, H, W // 2 + 1].

    Frequencies are in the order of `rfft2`. See `FrequencyShortcuts` for how a set is drawn.
    """
    masks = np.ones((self.sets, height, width), bool)  # zero frequency in the centre
    for number, mask in enumerate(masks):
      generator = np.random.default_rng(number)  # a set does not depend on the number of sets
      for grid in self.grids:  # the set has the frequencies in a kept patch of every grid
        is_kept = generator.random((grid, grid)) < self.kept
        # The row and the column of the patch of each frequency, [H] and [W].
        y, x = np.arange(height) * grid // height, np.arange(width) * grid // width
        mask &= is_kept[y[:, None], x[None, :]]
    has_frequency = np.fft.ifftshift(masks, (1, 2)).reshape(self.sets, -1)  # zero frequency first
    index = np.arange(height * width).reshape(height, width)  # of each frequency, [H, W]
    # The frequency at position i of an axis has its mirror −f at position −i modulo the side.
    index_of_mirror = index[-np.arange(height) % height][:, -np.arange(width) % width]
    # A set has both f and −f, or neither: of the two, the one that comes first decides.
    deciding = np.minimum(index, index_of_mirror)
    return has_frequency[:, deciding[:, : width // 2 + 1]]

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view (id 0), then a view for each random set of frequencies.

    A view is one way to perturb each image, here to filter it.
    """
    height, width, _ = image_shape
    side = min(height, width)
    valid = f'at most {side}, the shorter side of the images'
    self.require(max(self.grids) <= side, 'grids', valid)
    all_frequencies = np.ones((1, height, width // 2 + 1), bool)
    numbers = np.arange(self.sets + 1, dtype=np.int32)  # view 0 shows whole images
    masks = np.concatenate([all_frequencies, self.masks(height, width)])
    return Views(_show, ids=numbers, parameters={'set': numbers, 'kept': masks})

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views: 'clean', 'set 1', 'set 2' and so on.

    The latter are grouped as 'all sets'.
    """
    sets = range(1, self.sets + 1)
    groups = {'clean': [0], 'all sets': list(sets)}
    return ViewTable.of(['clean', *(f'set {number}' for number in sets)], groups)

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the set of frequencies that a class is recognised by best, and accuracy through it.

    The study filters images to random sets of frequencies. Half of the images of a class select its
    set, the others measure it. The estimates are accuracy on images filtered to the set of their
    class, accuracy on whole images, and the share of images of other classes that are taken for the
    class when filtered to its set.

    Args:
      evaluations: for each classifier, its predictions for N images, whole (view 0) and filtered
        to each random set.
      image_shape: height H, width W and channels of the images.

    Returns:
      The estimates, and an array `sets/<label>` for each classifier, bool [C, H, W // 2 + 1]: the
      set of each of C classes, in the order of frequencies of `rfft2`.
    """
    recorded = Recorded(evaluations, self.facets(image_shape))
    classes = _classes(evaluations[0])
    if len(classes) < 2:  # the classifier may join several classes of the data in one
      raise _one_class()
    labels = evaluations[0].records.column('label')
    # {classifier: {index of a class: index of its set}}
    best_sets = {e.label: self._best_sets(e, labels) for e in evaluations}
    masks = self.masks(*image_shape[:2])  # the frequencies of each set, bool
    arrays = {}
    for label, best_by_class in best_sets.items():
      set_of_class = [best_by_class[number] for number in classes.values()]
      arrays[f'sets/{label}'] = masks[set_of_class]
    return Findings(estimates=list(self._by_class(recorded, best_sets)), arrays=arrays)

  def _best_sets(self, evaluation: Evaluation, labels: np.ndarray) -> dict[int, int]:
    """Selects a set of frequencies for each class: {class index: index of the set}.

    It is the set with the smallest mean cross-entropy on half of the images of the class; see
    `_chooses_set`.

    Args:
      evaluation: recorded predictions of a classifier.
      labels: class of each image, [N].
    """
    probabilities = evaluation.records.table('probability')[:, 1:]  # view 0 shows whole images
    losses = -np.log(np.maximum(probabilities, MIN_PROBABILITY))
    chooses_set = _chooses_set(labels, evaluation.records)
    best_sets = {}
    for index in np.unique(labels).tolist():
      mean_by_set = losses[(labels == index) & chooses_set].mean(0)
      best_sets[index] = int(mean_by_set.argmin())
    return best_sets

  def _by_class(
    self, recorded: Recorded, best_sets: Mapping[str, Mapping[int, int]]
  ) -> Iterator[pd.DataFrame]:
    """Yields accuracy and confusion by class, on images filtered to the class's frequencies.

    There are three tables for each class: accuracy on its filtered images, accuracy on its whole
    images, and the share of filtered images of other classes that are taken for it. Images that
    selected the frequencies are left out.

    Args:
      recorded: recorded predictions of all classifiers.
      best_sets: {classifier: {class index: index of the set of frequencies of the class}}.
    """
    first, right = recorded.evaluations[0], recorded.outcomes(THROUGH)
    labels = first.records.column('label')
    is_scored = ~_chooses_set(labels, first.records)
    for name, number in _classes(first).items():
      in_class = np.flatnonzero((labels == number) & is_scored)
      in_others = np.flatnonzero((labels != number) & is_scored)
      # By classifier: whether predictions are right, [N, 1], and the arguments of `TAKEN`.
      through, whole, taken_fields = {}, {}, {}
      for evaluation in recorded.evaluations:
        label, records = evaluation.label, evaluation.records
        view = 1 + best_sets[label][number]  # view 0 shows whole images
        through[label] = right.values[label][:, [view]]  # [N, 1]
        whole[label] = right.values[label][:, [0]]
        # `number` is the first classifier's for the class, and this one may number it differently:
        # its number is the label of any image of the class.
        number_in_records = records.column('label')[in_class[0]]
        predicted = records.table('prediction')[:, [view]]
        taken_fields[label] = predicted, number_in_records
      taken = Outcomes.from_fields(TAKEN, taken_fields, ONE_VIEW, clusters=recorded.clusters)
      right_through = dataclasses.replace(right, values=through, views=ONE_VIEW).of_rows(in_class)
      right_whole = dataclasses.replace(right, values=whole, views=ONE_VIEW).of_rows(in_class)
      facets = {'class': name}
      yield self.means(THROUGH, right_through, facets=facets, test=True)
      yield self.means(WHOLE, right_whole, facets=facets, test=True)
      yield self.means(TAKEN, taken.of_rows(in_others), facets=facets, test=True)

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and a figure of the frequencies selected for each class.

    Zero frequency is in the centre.
    """
    rows = {}  # {classifier: {class: picture of its frequencies}}
    # The classes in the order of the arrays `sets/<label>`.
    names = results.table[results.table.quantity == WHOLE.name]['class'].dropna().unique()
    height, width = results.data['image_shape'][:2]
    for label in results.labels:
      sets = spectrum.full_map(results.arrays[f'sets/{label}'], width).astype(float)
      rows[label] = dict(zip(names, sets[..., None], strict=True))  # pictures [H, W, 1]
    caption = f'The frequencies that each class is recognised by best, of {height} × {width}: '
    caption += 'white ones, zero frequency in the centre.'
    return {**charts.draw(results), 'sets': (images.grid(rows), caption)}


def _classes(evaluation: Evaluation) -> dict[str, int]:
  """Returns {name: index} for the classes that occur among the labels.

  A class without a name is named by its index, such as '7'.
  """
  names = evaluation.records.identity.get('classes', ())
  labels = np.unique(evaluation.records.column('label')).tolist()
  return {names[k] if k < len(names) else str(k): k for k in labels}


def _one_class() -> InputError:
  """Returns the InputError that is raised for images of a single class."""
  return InputError(
    'frequency_shortcuts asks what else is taken for a class, and these rows are of one class: '
    f'give images of two ({KEYS.data}).'
  )


def _chooses_set(labels: np.ndarray, records: RecordsReader) -> np.ndarray:
  """Returns which images select the frequencies of their class, bool [N].

  They are every second image of a class, with all corrupted versions. The others are measured.

  Args:
    labels: class of each image, [N].
    records: recorded predictions, which say which images are versions of each other.
  """
  image = image_numbers(records)
  chooses_set = np.zeros(len(labels), bool)
  for label in np.unique(labels):
    rows = np.flatnonzero(labels == label)
    number_in_class, _ = pd.factorize(image[rows])  # 0, 1, … in order of first occurrence
    chooses_set[rows] = number_in_class % 2 == 0  # every second image
  return chooses_set


def _show(key: jax.Array, row: Arrays, view: Arrays) -> jax.Array:
  """Filters an image to a set of frequencies and returns it, [H, W, C].

  Args:
    key: not used.
    row: the image, `row['image']`.
    view: `kept`, the mask of the frequencies, bool [H, W // 2 + 1], and `set`, the number of the
      set. Set 0 leaves the image unchanged.
  """
  return jnp.where(view['set'] > 0, filtered_by_half(row['image'], view['kept']), row['image'])
