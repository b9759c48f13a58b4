"""Perturbation stability: flip probability and top-5 distance along stored sequences, mFR and mT5D.

A sequence has m frames of one image, each more perturbed than the last. Each frame x_j is compared
with a reference frame: the frame before it, or, for perturbations by noise, the first frame, which
is clean, because noise does not grow along a sequence. With f the predicted class,

  FP = mean over sequences and j = 2..m of [f(x_j) ≠ f(x_ref)],
  T5D = mean of Σ_{i=1..5} |(i - 1) - min(σ(i) - 1, 5)|, 0 to 15,

where σ(i) is the rank in x_j of the class that has rank i in x_ref. FP and T5D are computed for
each perturbation and averaged over perturbations. mFR and mT5D are means over perturbations of the
ratio to a baseline's FP or T5D. All are fractions or ratios; papers print FP, mFR and mT5D times
100.

Reference:
  Hendrycks & Dietterich (2019), Benchmarking Neural Network Robustness to Common Corruptions and
  Perturbations, section 4.2, and their released evaluation of ImageNet-P and CIFAR-10-P.
"""

import dataclasses
import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import setting, word
from robustness.core.rows import Rows, with_facts
from robustness.corruptions.names import PERTURBATION_SETS, PERTURBATIONS
from robustness.estimates.of_means import MeanRatio
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.published import ALEXNET_FLIPS, ALEXNET_TOP5_DISTANCES
from robustness.estimates.quantity import AMOUNT, RATIO, Quantity
from robustness.evaluation.outcomes import Recorded, num_images
from robustness.evaluation.records import RecordsReader
from robustness.evaluation.study import ImageShape, Recipes, Study

FIRST, ALEXNET = 'first', 'alexnet'
"""The baselines of mFR and mT5D: the first classifier of the config, or AlexNet's published
values.
"""
COLUMNS = ('perturbation', 'base_id', 'frame')
"""Columns of the stored rows: the perturbation, the image that is perturbed, and the frame's
number.
"""
NUM_IMAGES = {'imagenet_p': 50_000, 'cifar10_p': 10_000}
"""Number of images, with a sequence for each perturbation, in the released sets."""


def top5_distance(reference: np.ndarray, best: np.ndarray) -> np.ndarray:
  """Returns the top-5 distance of pairs of predictions, [...], from 0 to 15.

  It is Σ_i |i − p(i)| over i = 0..4, where p(i) is the position in `best` of the class at position
  i of `reference`. p(i) is 5 if the class is not in `best`.

  Args:
    reference: int [..., 5], the five best classes of the reference frame, in order.
    best: int [..., 5], the five best classes of the later frame, in order.
  """
  is_same = reference[..., :, None] == best[..., None, :]
  place = np.where(is_same.any(-1), is_same.argmax(-1), 5)
  return np.abs(np.arange(5) - place).sum(-1).astype(float)


_flips = functools.partial(Quantity, better='lower', statistic=np.not_equal)
"""Returns a quantity that is a share of changed predictions, given its name and words."""
_distances = functools.partial(Quantity, better='lower', statistic=top5_distance)
"""Returns a quantity that is a mean of `top5_distance`, given its name and words."""
OVER_PERTURBATIONS = MeanRatio('perturbation')
"""The mean over perturbations of the ratio to the baseline."""
FLIP_PROBABILITY = _flips('flip_probability', 'flip probability', headline=True)
MFR = _flips('mFR', 'mean flip rate', RATIO, unit='%', function=OVER_PERTURBATIONS)
TOP5_DISTANCE = _distances('top5_distance', 'top-5 distance', AMOUNT, low=0, high=15)
MT5D = _distances(
  'mT5D', 'mean top-5 distance relative to a baseline', RATIO, unit='%', function=OVER_PERTURBATIONS
)


@dataclasses.dataclass(frozen=True)
class PerturbationStability(Study):
  """A study of how stable predictions are along sequences of perturbed images.

  Attributes:
    perturbations: names of perturbations, or of the sets 'imagenet_p' and 'cifar10_p' with the ten
      perturbations of published means.
    baseline: mFR and mT5D divide by the values of the baseline: 'first' is the first classifier of
      the config, 'alexnet' the published values of AlexNet on ImageNet-P.
    confidence: confidence level of intervals, in (0, 1).
  """

  title = 'How often predictions change along sequences of perturbed images'
  needs_labels = False
  papers = ('hendrycks2019benchmarking',)
  quantities = (FLIP_PROBABILITY, MFR, TOP5_DISTANCE, MT5D)
  outputs = ('logits',)
  lists_failures = False

  perturbations: tuple[str, ...] = setting(('imagenet_p',), 'not empty', bool)
  baseline: str = word(FIRST, (FIRST, ALEXNET))

  def __post_init__(self) -> None:
    """Raises InputError for unknown perturbations, or if the baseline has no values for them.

    Flip rates are divided by those of a baseline: the first classifier, which is measured under all
    perturbations, or AlexNet, with values published for exactly the perturbations of ImageNet-P.
    """
    super().__post_init__()
    self.choose('perturbations', (*PERTURBATION_SETS, *PERTURBATIONS))
    has_baseline = self.baseline == FIRST or set(self.names) == set(ALEXNET_FLIPS)
    valid = f"('imagenet_p',) with {KEYS.study.baseline}='alexnet'"
    self.require(has_baseline, 'perturbations', valid)

  def summarise_output(self, layer: str, output: jax.Array) -> jax.Array:
    """Reduces logits to the five best classes, in order, int32 [..., 5].

    Ties are resolved to the lower index. With fewer than five classes all are returned.
    """
    _, best = jax.lax.top_k(output, min(5, output.shape[-1]))
    return best.astype(jnp.int32)

  @property
  def names(self) -> tuple[str, ...]:
    """The selected perturbations without repetition, in a fixed order.

    A set such as 'imagenet_p' is replaced by its members.
    """
    names = set[str]().union(*(PERTURBATION_SETS.get(name, (name,)) for name in self.perturbations))
    return tuple(name for name in PERTURBATIONS if name in names)

  def needed_rows(self, rows: Rows) -> Rows:
    """Selects the images with the perturbations of the settings."""
    numbers = [PERTURBATIONS[name] for name in self.names]
    is_wanted = np.isin(rows.without_images()['perturbation'], numbers)
    if is_wanted.all():
      return rows
    return with_facts(rows.at(np.flatnonzero(is_wanted)), {'perturbations': list(self.names)})

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if the data are not sequences of perturbed frames, or lack a perturbation.

    Args:
      rows: the data; their description lists the perturbations.
      recipes: the classifiers, for the general checks of a study.
    """
    super().check(rows, recipes)
    stored = rows.description.get('perturbations')
    if not stored:
      raise InputError(
        f'the study {self.name} reads stored sequences, and {rows.description.get("source")} has '
        f'none: set {KEYS.data.source} to one of {", ".join(NUM_IMAGES)}.'
      )
    if lacking := [name for name in self.names if name not in stored]:
      raise InputError(
        f'{rows.description["path"]} lacks {", ".join(lacking)}: fetch it, or set '
        f'{KEYS.study.perturbations} to some of {", ".join(stored)}.'
      )

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns deviations of the data from the released ImageNet-P or CIFAR-10-P, in words.

    They concern the source, the number of images and the perturbations. If there are none, the
    result is [].

    Args:
      records: predictions of a classifier with a description of the data.
      image_shape: not used.
    """
    source = str(records.identity.get('data', {}).get('source', ''))
    if source not in NUM_IMAGES:
      return [f'the source {source} is no released set']
    count, released = num_images(records), NUM_IMAGES[source]
    differences = []
    if count != released:
      differences.append(f'{count} of {released} images')
    if {*self.names} != {*PERTURBATION_SETS[source]}:
      differences.append(f'not the ten perturbations of {source}')
    return differences

  @property
  def shown_as(self) -> dict[str, str]:
    """Describes the source of the sequences and the baseline, for a report."""
    is_alexnet = self.baseline == ALEXNET
    baseline = 'AlexNet on ImageNet-P (published)' if is_alexnet else 'the first classifier'
    return {'sequences': 'read as they are stored', 'mFR and mT5D divide by': baseline}

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields flip probability and top-5 distance, and their ratios to the baseline.

    The data are sequences of frames: an image under a perturbation that grows from frame to frame.
    Flip probability is the share of pairs of frames with different predictions. Top-5 distance
    compares the five best classes of a pair. Both are over all perturbations, by perturbation, and
    by perturbation and frame. The ratios to the baseline are called mFR and mT5D. A classifier with
    fewer than five classes has no top-5 distance.

    Args:
      recorded: predictions of each classifier for all frames; each frame is a row.
    """
    recorded.require_equal_columns(COLUMNS)  # so that all classifiers have the same rows
    first = recorded.evaluations[0]
    pairs_by_name = [frame_pairs(first.records, name) for name in self.names]
    num_pairs = [pairs.shape[-1] for pairs in pairs_by_name]  # pairs of frames in a sequence
    # Row numbers of the reference frames and of the frames that are compared with them,
    # [sequences, pairs of all perturbations] each.
    reference, frame = np.concatenate(pairs_by_name, axis=2)
    # {classifier: the values of the reference frames and of the others}
    predictions, best_classes = {}, {}
    for evaluation in recorded.evaluations:
      label, records = evaluation.label, evaluation.records
      prediction, best = records.column('prediction'), records.column('output/logits')
      predictions[label] = prediction[reference], prediction[frame]
      if best.shape[-1] == 5:  # a classifier of fewer classes has no five best
        best_classes[label] = best[reference], best[frame]
    # A view is a pair of frames, numbered from 1 in each perturbation.
    numbers = np.concatenate([np.arange(1, count + 1) for count in num_pairs])
    views = pd.DataFrame({'perturbation': np.repeat(self.names, num_pairs), 'frame': numbers})
    weight = np.repeat(1 / np.array(num_pairs), num_pairs)  # perturbations have equal weights
    # `frames` is what both the quantity and its ratio to the baseline are computed from.
    for quantity, ratio, frames, published in (
      (FLIP_PROBABILITY, MFR, predictions, ALEXNET_FLIPS),
      (TOP5_DISTANCE, MT5D, best_classes, ALEXNET_TOP5_DISTANCES),
    ):
      if not frames:  # no classifier has five classes
        continue
      outcomes = Outcomes.from_fields(quantity, frames, views, weight=weight)
      yield self.means(quantity, outcomes)
      yield self.means(quantity, outcomes, ('perturbation',))
      yield self.means(quantity, outcomes, ('perturbation', 'frame'), paired=False)
      if self.baseline == ALEXNET:
        yield self.means(ratio, outcomes, baseline=published)
      elif first.label in frames:  # the baseline is the first classifier
        yield self.means(ratio, outcomes)


def frame_pairs(records: RecordsReader, name: str) -> np.ndarray:
  """Finds the pairs of frames to compare, as row numbers, int64 [2, sequences, frames − 1].

  Entry 0 has the reference frames and entry 1 the later frames. For noise the reference is always
  the first frame of the sequence. For other perturbations it is the frame before.

  Args:
    records: recorded predictions with the columns `perturbation`, `base_id` (the image) and
      `frame`.
    name: name of the perturbation.

  Raises:
    InputError: A sequence has a frame twice, or lacks a frame that another one has.
  """
  perturbation, base_id, frame = (records.column(column) for column in COLUMNS)
  rows = np.flatnonzero(perturbation == PERTURBATIONS[name])
  rows = rows[np.lexsort((frame[rows], base_id[rows]))]
  images, frames = np.unique(base_id[rows]), np.unique(frame[rows])
  expected = [np.repeat(images, len(frames)), np.tile(frames, len(images))]  # every frame of each
  if not np.array_equal([base_id[rows], frame[rows]], expected):
    raise InputError(
      f'sequences of {name} have different frames: each must have every frame exactly once.'
    )
  table = rows.reshape(len(images), -1)  # a sequence in each line, its frames in order
  # `first` is [sequences, 1], the others are [sequences, frames − 1].
  first, later, before = table[:, :1], table[:, 1:], table[:, :-1]
  reference = first if 'noise' in name else before
  return np.stack(np.broadcast_arrays(reference, later))
