"""A classifier out of a user's own Python file, named `FILE.py:NAME` in a config.

NAME is a `Classifier`, or a function without arguments that returns one. The file is run, as any
script would be.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.util
import pathlib
import sys
from typing import Any

from absl import logging

from robustness.core.errors import InputError, nearest
from robustness.core.paths import expanded
from robustness.models import probe
from robustness.models.classifier import Classifier

SEPARATOR = '.py:'


def is_reference(name: str) -> bool:
  """Whether a config's name of a classifier means a Python file."""
  return SEPARATOR in name or name.endswith('.py')


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
  path, _, name = reference.rpartition(':')
  file = expanded(path or reference)
  if not path or not name:
    raise InputError(f'{reference}: say which name in it is the classifier, as {file.name}:NAME.')
  if not file.is_file():
    raise InputError(f'classifier {reference!r}: there is no file {file}.')
  digest = hashlib.sha256(file.read_bytes()).hexdigest()
  try:
    classifier, outputs = _run(file, name, digest)
  except InputError:
    raise
  except Exception as error:  # the file is the user's and may raise anything
    raise InputError(f'{reference} raised {type(error).__name__}: {error}') from error
  facts = {'file': file.name, 'object': name, 'file_sha256': digest, probe.KEY: outputs}
  return dataclasses.replace(classifier, name=label, provenance={**classifier.provenance, **facts})


def forget() -> None:
  """Lets every file be run again: files that it reads, such as weights, may have changed."""
  _run.cache_clear()


@functools.lru_cache(maxsize=8)
def _run(file: pathlib.Path, name: str, digest: str) -> tuple[Classifier, list[float] | str]:
  """Runs the file; returns what `name` in it is or makes, and its outputs on fixed images."""
  del digest
  spec = importlib.util.spec_from_file_location(f'classifier_of_{file.stem}', file)
  assert spec is not None and spec.loader is not None
  module = importlib.util.module_from_spec(spec)
  sys.modules[spec.name] = module  # where dataclasses look up the names in annotations
  spec.loader.exec_module(module)
  if not hasattr(module, name):
    public = [word for word in vars(module) if not word.startswith('_')]
    raise InputError(f'{file} has no {name!r}: {nearest(name, public)}')
  value: Any = getattr(module, name)
  made = value if isinstance(value, Classifier) or not callable(value) else value()
  if not isinstance(made, Classifier):
    raise InputError(
      f'{name} in {file} is a {type(made).__name__}, not a Classifier: see '
      'Classifier.from_callable.'
    )
  return made, _outputs(made, file, name)


def _outputs(classifier: Classifier, file: pathlib.Path, name: str) -> list[float] | str:
  try:
    outputs = probe.probe(classifier)
  except Exception as error:  # the classifier is the user's and may raise anything
    reason = str(error) if isinstance(error, InputError) else f'{type(error).__name__}: {error}'
    if classifier.host_function:
      reason += ' (If it takes one number of images only, give batch_size=... to from_callable.)'
    raise InputError(
      f'{name} in {file} failed on the 4 images that identify it: {reason}'
    ) from error
  if outputs == probe.RANDOM:
    logging.warning(
      '%s in %s is %s: whether its weights change between runs cannot be seen', name, file, outputs
    )
  return outputs
