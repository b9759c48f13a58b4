"""Makes classifiers and rows have the same classes, by projecting predictions and matching labels.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 4.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.rows import Rows
from robustness.core.typing import PyTree
from robustness.models import imagenet_names, label_space
from robustness.models.callables import CheckedFunction
from robustness.models.classifier import LOGITS, UNPROJECTED, Classifier, Outputs
from robustness.models.label_space import LabelSpace


def project_logits(logits: jax.Array, space: LabelSpace, merge: str = 'max') -> jax.Array:
  """Combines logits of fine classes to logits of coarse classes, [B, coarse classes].

  Each coarse class c combines a set M_c of fine classes. Its logit for the logits z is:

  * 'max': max_{m ∈ M_c} z_m;
  * 'sum': log Σ_{m ∈ M_c} exp z_m;
  * 'mean': log (Σ_{m ∈ M_c} exp z_m / |M_c|).

  The logit is −∞ if M_c is empty. The softmax of the result is proportional to the merged
  probabilities.

  Args:
    logits: logits of the fine classes, [B, classes].
    space: the coarse label space.
    merge: 'max', 'sum' or 'mean'.
  """
  num_members = np.array([len(members) for members in space.members])
  # a logit of −∞ is appended; classes with fewer members than others are filled up with its index
  padded = jnp.pad(logits, ((0, 0), (0, 1)), constant_values=-jnp.inf)
  indices = np.full((len(num_members), num_members.max()), logits.shape[-1])
  for row, members in zip(indices, space.members, strict=True):
    row[: len(members)] = members
  values = padded[:, indices]  # [B, coarse classes, most members]
  if merge == 'max':
    return values.max(-1)
  total = jax.nn.logsumexp(values, axis=-1)
  if merge == 'sum':
    return total
  return total - jnp.log(jnp.maximum(jnp.asarray(num_members), 1))[None]


def match_labels(rows: Rows, classifier: Classifier) -> Rows:
  """Replaces the labels of a data set by indices of the classifier's classes.

  Raises:
    InputError: a class of the data is unknown to the classifier, see `label_space.align`.
  """
  return label_space.align(rows, classifier.class_names, classifier.name)


def in_label_space(
  classifier: Classifier, name: str, merge: str, class_names: Sequence[str]
) -> Classifier:
  """Changes a classifier to predict the classes of another label space.

  Args:
    classifier: the classifier.
    name: a coarse label space such as 'imagenet_vid', see `project`; 'data' for only the classes of
      the data, see `restrict`; '' for no change.
    merge: how logits of fine classes are combined: 'max', 'sum' or 'mean'.
    class_names: the class names of the data.
  """
  if not name:
    return classifier
  if name == label_space.DATA:
    return restrict(classifier, class_names)
  return project(classifier, name, merge)


def restrict(classifier: Classifier, class_names: Sequence[str]) -> Classifier:
  """Returns the classifier with the logits of only some of its classes.

  This is usual for ImageNet-A and ImageNet-R, which have 200 of ImageNet's 1000 classes each.

  Args:
    classifier: the classifier.
    class_names: the classes to keep, in the order of the new logits.

  Raises:
    InputError: the classifier lacks one of the classes, or two names mean the same class.
  """
  setting = f"{KEYS.classifier.label_space} is 'data'"
  if not class_names:
    raise InputError(f'{setting}, but the data have no class names.')
  indices = label_space.index_by_name(classifier.class_names)
  positions = [label_space.index_of_name(name, indices) for name in class_names]
  if unknown := [name for name, index in zip(class_names, positions, strict=True) if index is None]:
    raise InputError(
      f'{setting}, but {len(unknown)} of {len(class_names)} classes of the data are none of '
      f'{classifier.name}, first {unknown[0]!r}.'
    )
  members = tuple((index,) for index in positions if index is not None)
  if len(set(members)) < len(members):
    raise InputError(f'two classes of the data are one class of {classifier.name}.')
  space = LabelSpace(label_space.DATA, tuple(class_names), members=members, source=classifier.name)
  # the maximum of one logit each, which is this logit
  return _merge_logits(classifier, space, 'max')


def project(classifier: Classifier, name: str, merge: str = 'max') -> Classifier:
  """Changes a classifier to predict the classes of a coarse label space.

  A classifier that already has these classes is returned unchanged.

  Args:
    classifier: the classifier of fine classes, such as ImageNet's.
    name: the name of the label space, such as 'imagenet_vid'.
    merge: how logits of fine classes are combined: 'max', 'sum' or 'mean', see `project_logits`.

  Raises:
    InputError: the label space is unknown, or combines other classes than the classifier's.
  """
  space = label_space.get(name)
  if tuple(classifier.class_names) == tuple(space.class_names):
    return classifier
  # the fine classes of the space by name, or by WordNet identifier
  names = (label_space.get(space.source).class_names, imagenet_names.WNIDS) if space.source else ()
  if tuple(classifier.class_names) not in names:
    raise InputError(
      f'{classifier.name} tells {classifier.num_classes} classes apart; label space '
      f'{name!r} is made of the classes of {space.source or "no other space"}.'
    )
  return _merge_logits(classifier, space, merge)


def _merge_logits(classifier: Classifier, space: LabelSpace, merge: str) -> Classifier:
  """Changes a classifier to return logits merged by `project_logits`.

  Its layer 'logits' has the merged logits of the coarse classes, and its layer 'unprojected_logits'
  the original ones of the fine classes. A classifier that is a function on the host has no layers.

  Args:
    classifier: the classifier of fine classes.
    space: the coarse label space.
    merge: 'max', 'sum' or 'mean'.
  """

  def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
    """Computes the forward pass of a classifier of fine classes, with logits merged to coarse ones.

    Args:
      variables: the variables of the classifier.
      images: images [B, H, W, C] in [0, 1].
      layers: names of the layers to return: 'unprojected_logits' are the logits of the fine
        classes.

    Returns:
      The merged logits, [B, coarse classes], and {layer: output}.
    """
    other_layers = tuple(name for name in layers if name not in (UNPROJECTED, LOGITS))
    logits, outputs = classifier.apply(variables, images, other_layers)
    merged = project_logits(logits, space, merge)
    outputs = {**outputs, UNPROJECTED: logits, LOGITS: merged}
    return merged, {name: outputs[name] for name in layers}

  original = classifier.host_function
  merged_on_host = None
  if original:
    merged_on_host = CheckedFunction(
      lambda images: np.asarray(project_logits(jnp.asarray(original(images)), space, merge)),
      len(space.class_names),
    )
  return dataclasses.replace(
    classifier,
    forward=forward,
    host_function=merged_on_host,
    class_names=space.class_names,
    layers=() if original else (*classifier.layers, UNPROJECTED),
    provenance={**classifier.provenance, 'label_space': space.name, 'merge': merge},
  )
