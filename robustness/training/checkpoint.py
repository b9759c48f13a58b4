"""Checkpoints of a training, written by Orbax: the complete state, including the step.

A directory holds `checkpoints/<step>/`, and `classifier.json` with the facts of the training: all
values that decide the trained weights, such as settings, seed and data. Orbax renames a checkpoint
when it is complete, so that a kill during a save preserves the previous one. A checkpoint also has
a digest of its arrays, its step and the facts, and is refused if they do not match. Checkpoints are
read as NumPy arrays, independently of the machine and of the numbers of devices and processes.
"""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Self

import jax
import numpy as np
from flax import serialization, traverse_util

from robustness.core import disk, json_files
from robustness.core.array_files import digest_of
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.core.settings import differing_keys
from robustness.core.typing import Facts, PlainValue, PyTree, Variables
from robustness.evaluation.records import TOLERANCES
from robustness.parallel.mesh import own_copy
from robustness.parallel.processes import barrier, exchange
from robustness.training.preemption import interrupt_deferred
from robustness.training.state import TrainState, final_variables

FACTS_NAME = 'classifier.json'
FACTS_FORM: json_files.Form = {  # '?' marks keys that may be missing
  'architecture?': str,
  'class_names?': [str],
  'mean?': [float],
  'std?': [float],
  'image_shape?': [int],
  'training?': {'total_steps?': int},
}
FOLDER_NAME = 'checkpoints'
DIGEST = 'sha256'
MAX_LISTED = 5
"""Most differences that a message lists."""
PROGRESS = ('step', 'total_steps', 'kept_step')
"""The facts of a checkpoint that say how far the training came; see `load_variables`."""
Path = str | os.PathLike[str]


class Checkpoints:
  """The checkpoints of one training, a context manager that waits for unfinished saves."""

  def __init__(self, directory: Path, facts: Facts):
    """Opens or creates a directory of checkpoints.

    All processes of a run must call all methods.

    Args:
      directory: the directory.
      facts: values that determine the trained weights, such as settings and seed. They are written
        to `classifier.json`.

    Raises:
      InputError: The directory has checkpoints of a training with other facts.
    """
    self._directory = pathlib.Path(directory).absolute()
    barrier('the checkpoints')  # Orbax's first exchange has a short time-out
    folder = self._directory / FOLDER_NAME
    folder.mkdir(parents=True, exist_ok=True)
    from robustness.training import orbax_files  # Orbax takes long to import

    self._manager = orbax_files.Manager(folder)
    try:
      self._check_or_write(json.loads(json.dumps(facts)))  # tuples become lists, as in the file
    except BaseException:
      self._manager.close()  # ends its threads
      raise

  def restore(self, template: TrainState) -> TrainState | None:
    """Reads the newest checkpoint as NumPy arrays; returns None if there is none.

    Args:
      template: A state with the expected shapes and types.

    Raises:
      InputError: The checkpoint is damaged, or of another architecture.
    """
    step = self._newest()
    if step is None:
      return None
    saved = _read(self._directory / FOLDER_NAME / str(step))
    problem = f'the checkpoint of step {step} in {self._directory} is of another architecture'
    _check_same(_shapes(serialization.to_state_dict(template)), _shapes(saved), problem)
    return serialization.from_state_dict(template, saved)

  def save(self, state: TrainState) -> None:
    """Saves a state of JAX or NumPy arrays in a thread, while training continues.

    The arrays may be overwritten or donated when this method returns.

    Raises:
      OSError: The disk is full.
    """
    saved = serialization.to_state_dict(state)
    disk.require_space(self._directory, sum(x.nbytes for x in jax.tree.leaves(saved)))
    step = int(saved['step'])
    position: dict[str, object] = {'step': step}
    if jax.process_index() == 0:
      position[DIGEST] = _digest(saved, position, self._directory)
    with interrupt_deferred():
      self._manager.save_parts(step, saved, position)

  def wait(self) -> None:
    """Waits until all saves are on disk; raises the error of a save that failed."""
    self._manager.wait_until_finished()

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *unused: object) -> None:
    with interrupt_deferred():
      self._manager.close()  # waits for unfinished saves

  def _newest(self) -> int | None:
    """Returns the step of the newest checkpoint, as seen by the first process, or None."""
    from_first, *_ = exchange('the newest checkpoint', json.dumps(self._manager.latest_step()))
    return json.loads(from_first)

  def _check_or_write(self, facts: Facts) -> None:
    """Raises InputError if the checkpoints are of a training with other facts.

    Without checkpoints, the facts are written to `classifier.json`.

    Args:
      facts: values that determine the trained weights, such as settings and seed.
    """
    path, newest = self._directory / FACTS_NAME, self._newest()
    if newest is not None and path.exists():
      stored = _load_json(path)
      if 'columns_sha256' not in stored:  # begun by a version that did not state the digest
        facts = {key: value for key, value in facts.items() if key != 'columns_sha256'}
      _check_same(facts, stored, f'{self._directory} holds another training')
    elif jax.process_index() == 0:
      write_atomically(path, (json.dumps(facts, indent=2, sort_keys=True) + '\n').encode())


def load_variables(directory: Path) -> tuple[Variables, dict[str, PlainValue]]:
  """Reads a trained classifier from the directory of its checkpoints.

  Returns:
    The variables {'params': ..., 'batch_stats': ...} of the newest checkpoint as NumPy arrays, and
    facts about the training. The weights are the best of all evaluations if the training kept them
    (`config.training.keep=best`, and the checkpoint has the entry 'best'), else the averaged ones
    if there are any, else the last. The facts are those in `classifier.json`, the `step` of the
    checkpoint and, for the best weights, their step `kept_step`.

  Raises:
    InputError: The checkpoint is missing or damaged, or the training keeps the best weights, and
      none were evaluated yet.
  """
  root = pathlib.Path(directory).absolute()
  if not (root / FACTS_NAME).exists() or not (root / FOLDER_NAME).is_dir():
    raise InputError(f'{root} holds no trained classifier ({FACTS_NAME} and {FOLDER_NAME}/).')
  step = newest_step(root)
  if step is None:
    raise InputError(f'{root} holds no finished checkpoint yet; let the training continue.')
  state = _read(root / FOLDER_NAME / str(step))
  facts = {**_load_json(root / FACTS_NAME), 'step': step}
  if best := state.get('best'):
    if best['score'] < 0:  # the value before the first evaluation
      raise InputError(
        f'{root} keeps the best weights, and at step {step} none were evaluated yet, so that it '
        'holds those that the training began with: let the training continue.'
      )
    facts['kept_step'] = int(best['step'])
  return final_variables(state), facts


def progress(facts: Facts) -> dict[str, int]:
  """Selects `step`, `total_steps` and, if present, `kept_step` from facts about a training.

  Args:
    facts: the facts that `load_variables` returned.
  """
  # `classifier.json` has the number of all steps in its section `training`
  steps = {**facts, 'total_steps': facts.get('training', {}).get('total_steps')}
  return {name: steps[name] for name in PROGRESS if steps.get(name) is not None}


def unfinished(facts: Facts) -> str:
  """Describes how far an unfinished training came, as 'step 100 of 188'; '' if finished.

  Args:
    facts: the facts that `load_variables` returned.
  """
  steps = progress(facts)
  step, total = steps['step'], steps.get('total_steps', 0)
  return f'step {step} of {total}' if step < total else ''


def newest_step(directory: Path) -> int | None:
  """Returns the step of the newest complete checkpoint in a directory, or None.

  It is safe while another process saves and deletes checkpoints.
  """
  folder = pathlib.Path(directory).absolute() / FOLDER_NAME
  if not folder.is_dir():
    return None
  return max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=None)


def _read(folder: pathlib.Path) -> dict[str, PyTree]:
  """Reads a checkpoint from its folder, as a nested dictionary of NumPy arrays.

  Raises:
    InputError: The checkpoint cannot be read, or its digest does not match.
  """
  from robustness.training import orbax_files  # Orbax takes long to import

  try:
    state, position = orbax_files.read(folder)
    # the folder is directory / FOLDER_NAME / step
    if position.pop(DIGEST, None) != _digest(state, position, folder.parents[1]):
      raise ValueError('it was altered: it has another digest than when it was saved')
    return state
  except InputError:  # `classifier.json` cannot be read, and the message says so
    raise
  except Exception as error:  # Orbax, its store and its codecs fail in their own ways
    raise InputError(
      f'cannot read the checkpoint {folder}: {error}. Delete that folder; the '
      'checkpoint before it, or the beginning, takes its place.'
    ) from error


def _digest(state: Mapping[str, PyTree], position: Facts, directory: pathlib.Path) -> str:
  """Returns the SHA-256 of a checkpoint's arrays, its position, and the training's facts.

  Args:
    state: the arrays, which may be distributed over devices and processes.
    position: where the training was, such as {'step': 100}.
    directory: the directory of `classifier.json`, which has the facts.
  """
  leaves = {name: value for name, value in _flatten(state).items() if value is not None}
  arrays = {name: np.asarray(value) for name, value in own_copy(leaves).items()}
  texts = {'position': position, 'facts': _load_json(directory / FACTS_NAME)}
  text_arrays = {k: np.array(json.dumps(text, sort_keys=True)) for k, text in texts.items()}
  return digest_of({**arrays, **text_arrays})


def _load_json(path: pathlib.Path) -> Facts:
  """Reads the facts about a training from `classifier.json`."""
  fix = 'The command of the training writes this file again once it is removed.'
  return json_files.read(path, FACTS_FORM, fix)


def _flatten(tree: Mapping[str, PyTree]) -> dict[str, PyTree]:
  """Flattens a tree to {path: leaf}, with paths joined by dots."""
  return traverse_util.flatten_dict(dict(tree), sep='.')


def _shapes(tree: Mapping[str, PyTree]) -> dict[str, str]:
  """Returns {path: type and shape} for the arrays of a tree, such as {'params.w': 'float32[3]'}."""
  return {key: f'{value.dtype}{list(value.shape)}' for key, value in _flatten(tree).items()}


def _check_same(new: Facts, stored: Facts, problem: str) -> None:
  """Raises InputError if two dictionaries of facts differ.

  The message is `problem` and the first differences, as '{key}: {stored value} → {new value}'.
  """
  # `TOLERANCES` allows small differences of a user's network in its outputs on fixed images
  if lines := differing_keys(stored, new, tolerances=TOLERANCES):
    omitted = f' and {len(lines) - MAX_LISTED} more' if len(lines) > MAX_LISTED else ''
    raise InputError(
      f'{problem} (there → here; None where it is absent): {"; ".join(lines[:MAX_LISTED])}'
      f'{omitted}. Give another directory, or the settings it was begun with.'
    )
