"""A classifier out of a user's own Python file, named `FILE.py:NAME` in a config.

NAME is a `Classifier`, or a function without arguments that returns one. The file is run, as any
script would be.
"""

from __future__ import annotations

import dataclasses
import functools

from absl import logging

from robustness.core import registry
from robustness.core.errors import InputError
from robustness.models import catalog, probe
from robustness.models.classifier import Classifier

WHERE = 'config.classifier.name'


def is_classifier(name: str) -> bool:
  """Whether a config's name means a classifier in a file, which brings its own weights.

  An architecture in a file does not: it is trained or given weights as those here are.
  """
  return registry.is_reference(name) and catalog.find(name) is None


def load(reference: str, label: str) -> Classifier:
  """Returns the classifier that `FILE.py:NAME` holds.

  Args:
    reference: path of the file and a name in it.
    label: what tables call the classifier from now on.

  Returns:
    The classifier; its provenance also says file, name, the file's SHA-256 and what the classifier
    gives for fixed images (`robustness.models.probe`), so that records made with another version of
    the file, or of other files that it reads, are not taken for its own.

  Raises:
    InputError: no such file or name, an error while the file or the classifier runs, or something
      else than a `Classifier`.
  """
  found = registry.load(reference, WHERE)
  classifier = _made(reference, found.digest)
  return dataclasses.replace(classifier, name=label)


def forget() -> None:
  """Lets every file be run again: files that it reads, such as weights, may have changed."""
  registry.forget()
  _made.cache_clear()


@functools.lru_cache(maxsize=8)
def _made(reference: str, digest: str) -> Classifier:
  """Returns what the name is or makes, with its identity; `digest` is the file's."""
  found = registry.load(reference, WHERE)
  value, named = found.value, f'{found.name} in {found.path}'
  try:
    made = value if isinstance(value, Classifier) or not callable(value) else value()
  except InputError:
    raise
  except Exception as error:  # the function is the user's and may raise anything
    raise InputError(f'{reference} raised {type(error).__name__}: {error}') from error
  if not isinstance(made, Classifier):
    raise InputError(
      f'{named} is a {type(made).__name__}, not a Classifier: see Classifier.from_callable.'
    )
  facts = {
    'file': found.path.name,
    'object': found.name,
    'file_sha256': digest,
    probe.KEY: _outputs(made, named),
  }
  return dataclasses.replace(made, provenance={**made.provenance, **facts})


def _outputs(classifier: Classifier, named: str) -> list[float] | str:
  try:
    outputs = probe.probe(classifier)
  except Exception as error:  # the classifier is the user's and may raise anything
    reason = str(error) if isinstance(error, InputError) else f'{type(error).__name__}: {error}'
    if classifier.host_function:
      reason += ' (If it takes one number of images only, give batch_size=... to from_callable.)'
    raise InputError(f'{named} failed on the 4 images that identify it: {reason}') from error
  if outputs == probe.RANDOM:
    logging.warning(
      '%s is %s: whether its weights change between runs cannot be seen', named, outputs
    )
  return outputs
