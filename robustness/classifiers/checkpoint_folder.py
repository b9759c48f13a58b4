"""Classifiers with the weights of a checkpoint folder, which a training of this project wrote."""

import dataclasses

from robustness.classifiers import ClassifierSettings, Images
from robustness.classifiers.network import NetworkWeights, StoredNetwork
from robustness.core import json_files
from robustness.core.errors import KEYS, InputError
from robustness.core.paths import expanded
from robustness.core.typing import Facts
from robustness.models import weights
from robustness.models.classifier import Classifier
from robustness.training.checkpoint import FACTS_NAME, load_variables, progress, unfinished

_NUMBERS = {'mean': [float], 'std': [float], 'image_shape': [int]}
OF_CLASSIFIER: json_files.Form = {'architecture': str, 'class_names': [str], **_NUMBERS}
"""The keys of the folder's `classifier.json` that a classifier is built from, with their types."""


@dataclasses.dataclass(frozen=True)
class CheckpointFolder(StoredNetwork):
  """A network with the newest weights of a training's checkpoint folder."""

  @classmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Returns whether the settings name an architecture and a folder of checkpoints.

    A folder that was downloaded from a hub, with a description of its weights, is a `WeightsFile`
    instead.
    """
    is_folder = section.weights != '' and expanded(section.weights).is_dir()
    return is_folder and section.architecture is not None and section.record is None

  def read(self, image_shape: tuple[int, int, int]) -> NetworkWeights:
    """Returns the weights of the newest checkpoint, for images of shape [H, W, C].

    Position embeddings that were trained on images of another shape are resampled.
    """
    loaded, _ = self._read_newest()
    if loaded.input_shape == tuple(image_shape):
      return loaded
    variables = weights.for_images(
      self.architecture, loaded.variables, loaded.input_shape, image_shape, self.positions
    )
    return dataclasses.replace(loaded, variables=variables, input_shape=image_shape)

  def load(self, label: str, images: Images, precision: str) -> Classifier:
    """Returns the classifier with the newest weights.

    The classifier takes images of the shape that it was trained on.

    Raises:
      InputError: the folder has no readable checkpoint, or it was trained with another architecture
        or input filter than the config has.
    """
    loaded, facts = self._read_newest()
    configured = self.input_filter.describe() if self.input_filter else None
    trained_with = facts.get('input_filter')
    if configured != trained_with:
      raise InputError(
        f'{expanded(self.weights)} was trained with the input filter {trained_with or "none"} '
        f'({FACTS_NAME}); the config has {configured or "none"}: set '
        f'{KEYS.classifier.input_filter} as it was.'
      )
    self.warn(label, loaded)
    return self.classifier(label, loaded, precision)

  def _read_newest(self) -> tuple[NetworkWeights, Facts]:
    """Returns the newest weights, and the content of the folder's `classifier.json`.

    This file describes the network and the progress of the training.

    Raises:
      InputError: the folder has no readable checkpoint, or a checkpoint of another architecture.
    """
    path = expanded(self.weights)
    variables, facts = load_variables(path)
    json_files.check(facts, str(path / FACTS_NAME), OF_CLASSIFIER, 'Give another folder.')
    if facts['architecture'] != self.name:
      raise InputError(
        f'{path} holds {facts["architecture"]!r} ({FACTS_NAME}); the config asks for '
        f'{self.name!r}: {KEYS.classifier.name:--}={facts["architecture"]}.'
      )
    keys = ('class_names', 'mean', 'std', 'image_shape')
    names, mean, std, shape = (tuple(facts[key]) for key in keys)
    described = {'weights': path.name, **progress(facts)}
    loaded = NetworkWeights(path.name, variables, names, mean, std, shape, described)
    return dataclasses.replace(loaded, unfinished=unfinished(facts)), facts
