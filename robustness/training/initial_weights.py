"""What a training begins with: imported weights, with a new last layer for new classes."""

import dataclasses
import pathlib
from collections.abc import Sequence

from flax import traverse_util

from robustness.augment.policy import Policy
from robustness.core import json_files
from robustness.core.errors import InputError
from robustness.core.paths import expanded
from robustness.core.typing import Facts, Variables
from robustness.models import catalog, hub, label_space, weights
from robustness.models.architecture import LOCAL
from robustness.models.naming import HEAD_BIAS
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
    class_names: of their outputs; () if the file does not say.
    mean, std: what images in [0, 1] are normalised by, one value a channel.
    trained_with: augmentations beside flips and crops, by name; None is not known.
    unfinished: how far an unfinished training of a checkpoint folder is; '' for all else.
    assumed: whether nothing says mean and std, which are then the architecture's.
  """

  name: str
  variables: Variables
  class_names: tuple[str, ...]
  mean: tuple[float, ...]
  std: tuple[float, ...]
  trained_with: tuple[str, ...] | None = None
  unfinished: str = ''
  assumed: bool = False

  @property
  def facts(self) -> Facts:
    """Their name, what they were trained with, and which transforms of `robustness.environments`
    that resembles, for results; None is not known."""
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

  def for_classes(self, class_names: Sequence[str]) -> Variables:
    """Returns what a network for these classes begins with.

    The last layer is left out, and so drawn, unless the classes are the same in the same order, by
    any word for them: a file of ImageNet says 'tench' where the data say 'n01440764'.
    """
    known = label_space.words(self.class_names)
    if [known.get(name) for name in class_names] == [*range(len(self.class_names))]:
      return dict(self.variables)
    flat = traverse_util.flatten_dict(dict(self.variables))
    return traverse_util.unflatten_dict(
      {path: value for path, value in flat.items() if path[: len(LAST_LAYER)] != LAST_LAYER}
    )


def load(
  name: str, architecture: str, input_shape: tuple[int, int, int], positions: str = 'bicubic'
) -> InitialWeights | None:
  """Reads the weights that `config.classifier.initial_weights` names: a file, a checkpoint folder,
  or published weights; None if it names none. `positions` is how position embeddings are
  resampled.

  Raises:
    InputError: the weights are not there, or are of another architecture.
  """
  if not name:
    return None
  network, path = catalog.get(architecture), expanded(name)
  entry = hub.resolve(name, architecture)
  if entry is None and path.is_dir():
    initial, facts = from_checkpoints(path, architecture)
    shape = tuple(facts['image_shape'])
    if shape == tuple(input_shape):
      return initial
    variables = weights.for_images(network, initial.variables, shape, input_shape, positions)
    return dataclasses.replace(initial, variables=variables)
  if entry is None:
    variables, notes = weights.load_with_notes(path, network, None, input_shape, positions)
    project = notes.get('normalised_as', '')
    how = network.scheme(project) if project else network
    names = weights.saved_class_names(path)
    return InitialWeights(path.name, variables, names, how.mean, how.std, assumed=not project)
  file = path if path.is_file() else hub.fetch(entry).path
  imagenet = label_space.get(label_space.IMAGENET).class_names
  own = weights.saved_class_names(file) or entry.class_names
  names = own if entry.source == LOCAL else imagenet
  variables = weights.load(file, network, len(names) or None, input_shape, positions)
  return InitialWeights(entry.name, variables, names, entry.mean, entry.std, entry.trained_with)


def from_checkpoints(path: pathlib.Path, architecture: str) -> tuple[InitialWeights, Facts]:
  """Returns the weights of a classifier's checkpoint folder, and the facts beside them; refuses
  those of another architecture."""
  variables, facts = load_variables(path)
  json_files.check(facts, str(path / FACTS_NAME), OF_CLASSIFIER, 'Give another folder.')
  if facts['architecture'] != architecture:
    raise InputError(
      f'{path} holds {facts["architecture"]!r} ({FACTS_NAME}); the config asks for '
      f'{architecture!r}: --config.classifier.name={facts["architecture"]}.'
    )
  names, mean, std = (tuple(facts[key]) for key in ('class_names', 'mean', 'std'))
  initial = InitialWeights(path.name, variables, names, mean, std, unfinished=unfinished(facts))
  return initial, facts
