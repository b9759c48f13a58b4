"""Shape bias: whether classifiers answer by shape or by texture, on images in which these conflict.

Each image has the shape of one class and the texture of another. With S answers that are the class
of the shape and T that are the class of the texture,

  shape_bias  S / (S + T)
  decided     (S + T) / images

Reference: Geirhos et al., ImageNet-trained CNNs are biased towards texture, ICLR 2019; Geirhos et
al., Partial success in closing the gap between human and machine vision, NeurIPS 2021, with code.
"""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from robustness.core.errors import KEYS, InputError, nearest, or_column
from robustness.core.rows import Rows
from robustness.estimates.means import means, published_row, table_of_rows
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.published import HUMAN_SHAPE_BIAS, SHAPE_BIAS
from robustness.estimates.quantity import Quantity
from robustness.evaluation.outcomes import ONE_VIEW, Recorded
from robustness.evaluation.study import Recipes, Study
from robustness.models import label_space

TEXTURE, CLASS, HUMANS = 'texture', 'class', 'humans'
"""The column with the name of the texture's class, the facet of the shape's class, and the label of
published values of people.
"""
PICTURES = 1200
"""Number of images with a conflict in the released set, which published values are of."""


def _bias(shares: np.ndarray, baseline: np.ndarray) -> np.ndarray:
  """Returns the shape bias S / (S + T), [...].

  Args:
    shares: [..., 2], the share S of answers by shape and the share T of answers by texture.
    baseline: not used.
  """
  with np.errstate(invalid='ignore'):
    return np.asarray(shares[..., 0] / shares.sum(-1))


BIAS = Quantity('shape_bias', 'shape bias', headline=True, statistic=np.asarray, function=_bias)
DECIDED = Quantity(
  'decided', 'share of answers by shape or by texture', drawn=True, statistic=np.asarray
)


@dataclasses.dataclass(frozen=True)
class ShapeBias(Study):
  """A study of shape bias on images with conflicting shape and texture (Geirhos et al. 2019).

  The label of an image is the class of its shape. The column `texture` has the class name of its
  texture.
  """

  title = 'Shape or texture'
  papers = ('geirhos2019texture', 'geirhos2021partial')
  lists_failures = False
  quantities = (BIAS, DECIDED)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError unless textures are classes and at least one differs from its shape."""
    super().check(rows, recipes)
    values = rows.without_images()
    textures, shapes = values.get(TEXTURE), values['label']
    # The dtype kinds 'U' and 'O' are texts.
    if textures is None or textures.dtype.kind not in 'UO' or shapes.ndim > 1:
      raise InputError(
        f'the images have no column {TEXTURE!r} with the class of the texture, or several labels: '
        f'set {KEYS.data.source}=cue_conflict' + or_column(TEXTURE)
      )
    for name in np.unique(textures.astype(str)).tolist():
      # such a texture could not be answered, so that all answers would be by shape
      if name not in rows.class_names:
        fix = nearest(name, rows.class_names)
        raise InputError(f'the column {TEXTURE!r} names {name!r}, which is no class; {fix}.')
    if np.array_equal(textures.astype(str), np.asarray(rows.class_names)[shapes]):
      raise InputError('no picture has the texture of another class than its shape has.')

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields shape bias and share of decided answers, over all images and by class of shape.

    An image has the shape of one class and the texture of another, such as a cat with the skin of
    an elephant. An answer is decided if it is the class of the shape or of the texture; the shape
    bias is the share of decided answers that name the shape. Images with the same class for both do
    not count. Published values follow the values of this run.
    """
    recorded.require_equal_columns((TEXTURE,))
    # {classifier: whether it names the shape, and whether it names the texture, bool [N, 2]}
    answered = dict[str, np.ndarray]()
    for evaluation in recorded.evaluations:
      records = evaluation.records
      # Labels and predictions are numbers of this classifier's classes. Another classifier may
      # number its classes differently, so that only their names can be compared.
      classes = np.asarray(records.identity['classes'])
      shapes = classes[records.column('label')]
      textures = _class_names_of(records.column(TEXTURE).astype(str), classes)
      answers = classes[records.table('prediction')[:, 0]]
      is_conflict = shapes != textures
      names_cue = np.stack([answers == shapes, answers == textures], 1)
      answered[evaluation.label] = names_cue & is_conflict[:, None]
    # The names of shapes and textures are those of the images: the last turn's hold for all.
    yield from self._estimates_of_images(answered, is_conflict, {})
    for name in classes.tolist():
      if name in shapes[is_conflict]:
        has_shape = is_conflict & (shapes == name)
        yield from self._estimates_of_images(answered, has_shape, {CLASS: name})
    yield from self._published_rows()

  def _estimates_of_images(
    self, answered: Mapping[str, np.ndarray], mask: np.ndarray, facets: Mapping[str, str]
  ) -> Iterator[pd.DataFrame]:
    """Yields the share of decided answers, and the shape bias, over some images.

    An answer is decided if it names the shape or the texture. The bias is the share of decided
    answers that name the shape.

    Args:
      answered: {classifier: whether it names the shape, and the texture, bool [N, 2]}.
      mask: bool [N], the images to use.
      facets: columns that describe the images in the results, such as {'class': 'cat'}.
    """
    # {classifier: bool [N, 1]}
    by_shape = {label: answers[:, [0]] for label, answers in answered.items()}
    decided = {label: answers.any(1, keepdims=True) for label, answers in answered.items()}
    is_decided = Outcomes.from_fields(DECIDED, decided, ONE_VIEW).of_rows(mask)
    yield self.means(DECIDED, is_decided, facets=facets)
    # The bias of each classifier is a share of the images that it decides, with an exact interval.
    is_by_shape = Outcomes.from_fields(BIAS, by_shape, ONE_VIEW, counted=decided).of_rows(mask)
    yield means(BIAS, is_by_shape, confidence=self.confidence, facets=facets, paired=False)
    # Differences of biases are computed in another way, since two classifiers decide different
    # images: as a function of the shares by shape and by texture, with a bootstrap interval.
    cues = pd.DataFrame({'answer': ['shape', 'texture']})
    by_cue = Outcomes.from_fields(BIAS, answered, cues).of_rows(mask)
    biases = self.means(BIAS, by_cue, ['answer'], facets=facets)
    yield biases[biases.versus != '']  # the differences alone

  def _published_rows(self) -> Iterator[pd.DataFrame]:
    """Yields published shape biases and shares of decided answers, without intervals.

    Values of networks are over all images, values of humans by class.
    """
    rows = []
    for quantity in self.quantities:
      networks, classes = SHAPE_BIAS[quantity.name], HUMAN_SHAPE_BIAS[quantity.name]
      for label, value in networks.items():
        rows.append(published_row(label.replace('_', ' '), quantity, value, PICTURES))
      for name, value in classes.items():
        rows.append(published_row(HUMANS, quantity, value, PICTURES, **{CLASS: name}))
    yield table_of_rows([row for row in rows if pd.notna(row['value'])])  # NaN was not published


def _class_names_of(textures: np.ndarray, classes: np.ndarray) -> np.ndarray:
  """Translates texture names of the data to the classifier's class names, [N].

  The data may have WordNet identifiers, or accents in another Unicode form.

  Args:
    textures: class names of the textures in the data, [N].
    classes: all class names of the classifier.
  """
  indices = label_space.index_by_name(classes.tolist())
  positions = [label_space.index_of_name(name, indices) for name in textures.tolist()]
  return classes[np.array(positions, np.int32)]
