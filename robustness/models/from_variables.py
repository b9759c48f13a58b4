"""A network's variables as a classifier of a run: normalisation, classes, identity."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from robustness.core.rows import Rows
from robustness.models import catalog, label_space
from robustness.models.classifier import Classifier, from_linen
from robustness.models.inputs import InputFilter
from robustness.models.projection import project, restrict

KEPT_IN_FLOAT32 = 'weights, statistics of batch normalisation, logits and losses'


class Normalisation(Protocol):
  """What images of a network are shifted and scaled by, one value a channel."""

  @property
  def mean(self) -> tuple[float, ...]:
    """Subtracted from images in [0, 1]."""

  @property
  def std(self) -> tuple[float, ...]:
    """Divides the difference."""


def from_variables(
  label: str,
  architecture: str,
  variables: Mapping[str, Any],
  input_shape: tuple[int, int, int],
  class_names: Sequence[str],
  provenance: Mapping[str, Any],
  *,
  precision: str = 'float32',
  input_filter: InputFilter | None = None,
  normalisation: Normalisation | None = None,
) -> Classifier:
  """Returns variables as the classifier of a run.

  Args:
    label: what tables call it.
    architecture: of `robustness.models.catalog`.
    variables: `params` and `batch_stats`.
    input_shape: (H, W, C) of its images.
    class_names: of its outputs, in order.
    provenance: where the weights come from, plain values.
    precision: what it computes in, 'float32' or 'bfloat16'.
    input_filter: see `robustness.models.inputs`.
    normalisation: has the mean and std of its images; None takes the architecture's.
  """
  network = catalog.get(architecture)
  how = normalisation or network
  facts = {
    'architecture': architecture,
    **catalog.file_facts(architecture),
    **provenance,
    'parameters': sum(int(np.size(leaf)) for leaf in jax.tree.leaves(variables['params'])),
    'sha256': digest(variables),
    'precision': precision,
    **({} if precision == 'float32' else {'kept_in_float32': KEPT_IN_FLOAT32}),
    **({'front_end': input_filter.describe()} if input_filter else {}),
  }
  classifier = from_linen(
    network.build(len(class_names), jnp.dtype(precision)),
    jax.tree.map(jnp.asarray, variables),  # on the device, so that no evaluation copies them there
    name=label,
    input_shape=input_shape,
    class_names=class_names,
    mean=how.mean,
    std=how.std,
    stages=network.stages,
    provenance=facts,
    input_filter=input_filter,
  )
  imagenet = label_space.get(label_space.IMAGENET)
  aliases = imagenet.aliases if classifier.class_names == imagenet.class_names else {}
  return dataclasses.replace(classifier, aliases=aliases)


def in_label_space(
  classifier: Classifier, name: str, merge: str, class_names: tuple[str, ...]
) -> Classifier:
  """Returns the classifier in a label space.

  Args:
    classifier: with all its classes.
    name: of the label space; 'data' restricts to `class_names`, '' changes nothing.
    merge: how probabilities of the members of a class are merged.
    class_names: of the evaluated rows.
  """
  if not name:
    return classifier
  if name == label_space.DATA:
    return restrict(classifier, class_names)
  return project(classifier, name, merge)


def match_labels(rows: Rows, classifier: Classifier) -> Rows:
  """Returns the rows with labels that are positions among the classifier's classes."""
  return label_space.align(rows, classifier.class_names, classifier.aliases, classifier.name)


def digest(variables: Any) -> str:
  """Returns the SHA-256 of all weights, in the order of the tree, as hexadecimal."""
  total = hashlib.sha256()
  for path, leaf in jax.tree_util.tree_leaves_with_path(variables):
    values = np.ascontiguousarray(leaf)
    total.update(f'{jax.tree_util.keystr(path)} {values.dtype} {values.shape}'.encode())
    total.update(values.tobytes())
  return total.hexdigest()
