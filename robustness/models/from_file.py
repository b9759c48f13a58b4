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
from typing import Any

from robustness.core.errors import InputError, nearest
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
    The classifier; its provenance also says file, name and the file's SHA-256, so that records
    made with another version of the file are not taken for its own.

  Raises:
    InputError: no such file or name, an error while the file runs, or something else than a
      `Classifier`.
  """
  path, _, name = reference.rpartition(':')
  file = pathlib.Path(path or reference).expanduser()
  if not path or not name:
    raise InputError(f'{reference}: say which name in it is the classifier, as {file.name}:NAME.')
  if not file.is_file():
    raise InputError(f'classifier {reference!r}: there is no file {file}.')
  digest = hashlib.sha256(file.read_bytes()).hexdigest()
  try:
    classifier = _found(file, name, digest)
  except InputError:
    raise
  except Exception as error:  # the file is the user's and may raise anything
    raise InputError(f'{reference} raised {type(error).__name__}: {error}') from error
  facts = {'file': file.name, 'object': name, 'file_sha256': digest}
  return dataclasses.replace(classifier, name=label, provenance={**classifier.provenance, **facts})


@functools.lru_cache(maxsize=8)
def _found(file: pathlib.Path, name: str, digest: str) -> Classifier:
  """Runs the file, once for each of its versions, and returns what `name` in it is or makes."""
  del digest
  spec = importlib.util.spec_from_file_location(f'classifier_of_{file.stem}', file)
  assert spec is not None and spec.loader is not None
  module = importlib.util.module_from_spec(spec)
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
  return made
