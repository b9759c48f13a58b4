"""A network's variables as a classifier of a run: normalisation, classes, identity."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from robustness.config.recipe import ClassifierSettings
from robustness.core.rows import Rows
from robustness.models import catalog, label_space
from robustness.models.classifier import Classifier, from_linen
from robustness.models.projection import project, restrict

KEPT_IN_FLOAT32 = 'weights, statistics of batch normalisation, logits and losses'


class Normalisation(Protocol):
  """What images of a network are shifted and scaled by, one value a channel."""

  @property
  def mean(self) -> tuple[float, ...]:
    """Subtracted from images in [0, 1]."""

  @property
  def std(self) -> tuple[float, ...]:
    """What the difference is then divided by."""


def wrap(
  label: str,
  settings: ClassifierSettings,
  precision: str,
  variables: Mapping[str, Any],
  input_shape: tuple[int, int, int],
  class_names: Sequence[str],
  provenance: Mapping[str, Any],
  normalisation: Normalisation | None = None,
) -> Classifier:
  """Returns variables as the classifier of a run.

  Args:
    label: what tables call it.
    settings: its section of the config.
    precision: what it computes in, 'float32' or 'bfloat16'.
    variables: `params` and `batch_stats`.
    input_shape: (H, W, C) of its images.
    class_names: of its outputs, in order.
    provenance: where the weights come from, plain values.
    normalisation: what has the mean and std of its images; None takes the architecture's.
  """
  architecture = catalog.get(settings.name)
  how = normalisation or architecture
  module = architecture.build(len(class_names), jnp.dtype(precision))
  facts = {
    'architecture': settings.name,
    **catalog.file_facts(settings.name),
    **provenance,
    'parameters': _count(variables),
    'sha256': digest(variables),
    'precision': precision,
    **({} if precision == 'float32' else {'kept_in_float32': KEPT_IN_FLOAT32}),
    **({'front_end': settings.front_end.describe()} if settings.front_end else {}),
  }
  classifier = from_linen(
    module,
    jax.tree.map(jnp.asarray, variables),  # on the device, so that no evaluation copies them there
    name=label,
    input_shape=input_shape,
    class_names=class_names,
    mean=how.mean,
    std=how.std,
    stages=architecture.stages,
    provenance=facts,
    front_end=settings.front_end,
  )
  imagenet = label_space.get(label_space.IMAGENET)
  aliases = imagenet.aliases if classifier.class_names == imagenet.class_names else {}
  return dataclasses.replace(classifier, aliases=aliases)


def projected(
  classifier: Classifier, settings: ClassifierSettings, class_names: tuple[str, ...]
) -> Classifier:
  """Returns the classifier in the label space that its settings name, if any.

  Args:
    classifier: with all its classes.
    settings: its recipe.
    class_names: of the evaluated rows, which the label space 'data' has.
  """
  if not settings.label_space:
    return classifier
  if settings.label_space == label_space.DATA:
    return restrict(classifier, class_names)
  return project(classifier, settings.label_space, settings.merge)


def aligned(rows: Rows, classifier: Classifier) -> Rows:
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


def _count(variables: Mapping[str, Any]) -> int:
  return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(variables['params']))
