"""Weights that a training begins with: imported ones, with a new last layer for new classes."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from flax import traverse_util

from robustness.augment.policy import Policy
from robustness.config.recipe import ClassifierSettings
from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.models import catalog, hub, label_space, weights
from robustness.models.naming import HEAD_BIAS
from robustness.models.pretrained import Weights
from robustness.training.checkpoint import FACTS_NAME, load_variables, unfinished

LAST_LAYER = HEAD_BIAS[:-1]
OF_CLASSIFIER: json_files.Form = {
  'architecture': str,
  'class_names': [str],
  'mean': [float],
  'std': [float],
  'image_shape': [int],
}
"""Facts of a checkpoint folder that a classifier is built from."""


@dataclasses.dataclass(frozen=True)
class InitialWeights:
  """Imported weights, and the normalisation they were trained for.

  Attributes:
    name: of the weights, for results.
    variables: `params` and `batch_stats`.
    class_names: of their outputs; () if the file does not say.
    mean: subtracted from images in [0, 1], one value a channel.
    std: what the difference is then divided by.
    trained_with: augmentations beside flips and crops, by name; None is not known.
    unfinished: how far the training of a checkpoint folder is that was not ended; '' for all else.
  """

  name: str
  variables: Mapping[str, Any]
  class_names: tuple[str, ...]
  mean: tuple[float, ...]
  std: tuple[float, ...]
  trained_with: tuple[str, ...] | None = None
  unfinished: str = ''

  @property
  def facts(self) -> dict[str, Any]:
    """What results say of them: their name, what they were trained with, and which transforms of
    `robustness.environments` that resembles; None is not known."""
    resembles = None
    if self.trained_with is not None:
      policy = Policy.of(**{name: {} for name in self.trained_with})
      resembles = sorted({name for part in policy.augmentations for name in part.resembles})
    return {
      'initial_weights': self.name,
      'initial_weights_trained_with': None if self.trained_with is None else [*self.trained_with],
      'initial_weights_resemble': resembles,
      **({'initial_weights_unfinished': self.unfinished} if self.unfinished else {}),
    }

  def kept(self, class_names: Sequence[str]) -> dict[str, Any]:
    """Returns what a network for these classes begins with: all, or all but the last layer.

    The last layer is left out, and so drawn anew, unless the classes are the same in the same
    order.
    """
    if self.class_names == tuple(class_names):
      return dict(self.variables)
    flat = traverse_util.flatten_dict(dict(self.variables))
    return traverse_util.unflatten_dict(
      {path: value for path, value in flat.items() if path[: len(LAST_LAYER)] != LAST_LAYER}
    )


def published(settings: ClassifierSettings) -> Weights | None:
  """Returns the published weights that a training begins with, or None; nothing is fetched."""
  return hub.resolve(settings.initial_weights, settings.name) if settings.initial_weights else None


def load(settings: ClassifierSettings, input_shape: tuple[int, int, int]) -> InitialWeights | None:
  """Reads the weights that `settings.initial_weights` names; None if it names none.

  Args:
    settings: `initial_weights` is a file, a checkpoint folder, or the name of published weights.
    input_shape: height, width and channels of the images to train on.

  Raises:
    InputError: the weights are not there, or are of another architecture.
  """
  if not settings.initial_weights:
    return None
  architecture, path = (catalog.get(settings.name), expanded(settings.initial_weights))
  if path.is_dir():
    return _from_checkpoints(settings, path)
  entry = published(settings)
  if entry is None:
    variables = weights.load(path, architecture, None, input_shape, settings.positions)
    return InitialWeights(
      path.name, variables, weights.saved_class_names(path), architecture.mean, architecture.std
    )
  file = path if path.is_file() else hub.fetch(entry).path
  names = label_space.get(entry.label_space).class_names
  variables = weights.load(file, architecture, len(names), input_shape, settings.positions)
  return InitialWeights(entry.name, variables, names, entry.mean, entry.std, entry.trained_with)


def _from_checkpoints(settings: ClassifierSettings, path: pathlib.Path) -> InitialWeights:
  variables, facts = read_checkpoint(path)
  if facts['architecture'] != settings.name:
    raise InputError(
      f'{path} holds {facts["architecture"]!r}; the training is one of '
      f'{settings.name!r}: --config.classifier.name={facts["architecture"]}.'
    )
  return of_checkpoint(path, variables, facts)


def read_checkpoint(path: pathlib.Path) -> tuple[dict[str, Any], dict[str, Any]]:
  """Returns what `load_variables` gives of a checkpoint folder of a classifier.

  Raises:
    InputError: see there; or facts that lack what a classifier is built from.
  """
  variables, facts = load_variables(path)
  json_files.check(facts, str(path / FACTS_NAME), OF_CLASSIFIER, 'Give another folder.')
  return variables, facts


def of_checkpoint(
  path: pathlib.Path, variables: Mapping[str, Any], facts: Mapping[str, Any]
) -> InitialWeights:
  """Returns what `read_checkpoint` gives as weights."""
  return InitialWeights(
    path.name,
    variables,
    tuple(facts['class_names']),
    tuple(facts['mean']),
    tuple(facts['std']),
    unfinished=unfinished(facts),
  )
