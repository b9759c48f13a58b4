"""Makes classifiers and rows have the same classes, by projecting predictions and matching labels.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021, section 4.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.errors import KEYS, InputError
from robustness.core.rows import Rows, composed_unicode
from robustness.core.typing import PyTree
from robustness.models import imagenet_names, label_space
from robustness.models.callables import CheckedFunction
from robustness.models.classifier import LOGITS, UNPROJECTED, Classifier, Outputs
from robustness.models.label_space import LabelSpace


def project_logits(logits: jax.Array, space: LabelSpace, merge: str = 'max') -> jax.Array:
  """Returns the logits of the classes of a coarse label space, [B, coarse classes].

  For logits z [B, classes] and the members M_c of class c they are max_{m ∈ M_c} z_m,
  log Σ_{m ∈ M_c} exp(z_m), or the latter minus log |M_c|, for a `merge` of 'max', 'sum' or 'mean'.
  Their softmax is proportional to the merged probabilities. A class without members has −∞.
  """
  count = np.array([len(members) for members in space.members])
  # [coarse classes, most members]; a class with fewer members takes a further logit, −∞
  index = np.full((len(count), count.max()), logits.shape[-1])
  for row, members in zip(index, space.members, strict=True):
    row[: len(members)] = members
  values = jnp.pad(logits, ((0, 0), (0, 1)), constant_values=-jnp.inf)[:, index]
  if merge == 'max':
    return values.max(-1)
  total = jax.nn.logsumexp(values, axis=-1)
  return total - jnp.log(jnp.maximum(jnp.asarray(count), 1))[None] if merge == 'mean' else total


def match_labels(rows: Rows, classifier: Classifier) -> Rows:
  """Returns the rows with labels replaced by indices into the classifier's class names.

  InputError is raised if the classifier lacks a class of the rows, see `label_space.align`.
  """
  return label_space.align(rows, classifier.class_names, classifier.aliases, classifier.name)


def in_label_space(
  classifier: Classifier, name: str, merge: str, class_names: Sequence[str]
) -> Classifier:
  """Returns the classifier with its predictions projected onto a label space.

  Args:
    classifier: the classifier.
    name: a coarse label space, see `project`; 'data' for the classes of the rows only, see
      `restrict`; '' returns the classifier unchanged.
    merge: how the scores of fine classes are combined, 'max', 'sum' or 'mean'.
    class_names: the class names of the rows.
  """
  if not name:
    return classifier
  if name == label_space.DATA:
    return restrict(classifier, class_names)
  return project(classifier, name, merge)


def restrict(classifier: Classifier, class_names: Sequence[str]) -> Classifier:
  """Returns the classifier with the logits of the classes `class_names` only, in their order.

  ImageNet-A and ImageNet-R, which have 200 of ImageNet's classes each, are usually evaluated so.

  Raises:
    InputError: the classifier lacks one of the classes, or two names mean the same class.
  """
  names = map(composed_unicode, classifier.class_names)
  indices = {**classifier.aliases, **{name: index for index, name in enumerate(names)}}
  unknown = [name for name in class_names if composed_unicode(name) not in indices]
  if unknown or not class_names:
    reason = 'the data have no class names'
    if unknown:
      count = f'{len(unknown)} of {len(class_names)} classes of the data'
      reason = f'{count} are none of {classifier.name}, first {unknown[0]!r}'
    raise InputError(f"{KEYS.classifier.label_space} is 'data', but {reason}.")
  members = tuple((indices[composed_unicode(name)],) for name in class_names)
  if len(set(members)) < len(members):
    raise InputError(f'two classes of the data are one class of {classifier.name}.')
  space = LabelSpace(label_space.DATA, tuple(class_names), members=members, source=classifier.name)
  # the maximum of one logit each, which is this logit
  return _merge_logits(classifier, space, 'max')


def project(classifier: Classifier, name: str, merge: str = 'max') -> Classifier:
  """Returns the classifier with its logits projected onto a coarse label space.

  A classifier that has the classes of this space already is returned unchanged.

  Args:
    classifier: the classifier.
    name: the name of the label space, such as 'imagenet_vid'.
    merge: how the logits of a class's members are combined: 'max', 'sum' or 'mean', see
      `project_logits`.

  Raises:
    InputError: the space is unknown, or the classifier does not have the fine classes that it is
      made from.
  """
  space = label_space.get(name)
  if tuple(classifier.class_names) == tuple(space.class_names):
    return classifier
  # the classes that the space joins, by their names or by their WordNet identifiers
  joined = (label_space.get(space.source).class_names, imagenet_names.WNIDS) if space.source else ()
  if tuple(classifier.class_names) not in joined:
    raise InputError(
      f'{classifier.name} tells {classifier.num_classes} classes apart; label space '
      f'{name!r} is made of the classes of {space.source or "no other space"}.'
    )
  return _merge_logits(classifier, space, merge)


def _merge_logits(classifier: Classifier, space: LabelSpace, merge: str) -> Classifier:
  """Returns the classifier with its logits merged to the classes of a coarser label space.

  The layer 'logits' then has the merged logits, and the layer 'unprojected_logits' the logits of
  `classifier`. A function on the host shows neither layer.
  """

  def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
    """Returns the merged logits, and the outputs of `layers`."""
    inner_layers = tuple(name for name in layers if name not in (UNPROJECTED, LOGITS))
    logits, outputs = classifier.apply(variables, images, inner_layers)
    merged = project_logits(logits, space, merge)
    both_logits = {UNPROJECTED: logits, LOGITS: merged}
    requested = {name: value for name, value in both_logits.items() if name in layers}
    return merged, {**outputs, **requested}

  unmerged, merged_on_host = classifier.host_function, None
  if unmerged:
    merged_on_host = CheckedFunction(
      lambda images: np.asarray(project_logits(jnp.asarray(unmerged(images)), space, merge)),
      len(space.class_names),
    )
  return dataclasses.replace(
    classifier,
    forward=forward,
    host_function=merged_on_host,
    class_names=space.class_names,
    aliases=space.aliases,
    layers=() if unmerged else (*classifier.layers, UNPROJECTED),
    provenance={**classifier.provenance, 'label_space': space.name, 'merge': merge},
  )
