"""Checkpoints of a training, with Orbax: the whole state and the place in the input.

A directory holds `classifier.json`, which says what is trained and how, and `checkpoints/<step>/`.
Orbax writes a checkpoint beside its place and renames it when it is whole, so a kill during a save
leaves the one before. It takes arrays where they are: `save` waits for their digest and for no
disk, and processes that train one network each write a part. The digest, of arrays, position and
facts, lies in the position: what was altered since is refused when it is read. Checkpoints of
earlier versions have no digest and are taken as they are. What is read are numpy arrays, so a
checkpoint of one machine, number of devices or of processes opens on any other.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Self

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import serialization, traverse_util
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from robustness.core import disk, json_files
from robustness.core.array_files import digest_of
from robustness.core.atomic_files import write_atomically
from robustness.core.errors import InputError
from robustness.parallel.meeting import exchange, meet
from robustness.training.preemption import interrupt_deferred
from robustness.training.state import TrainState, chosen_variables

FACTS_NAME = 'classifier.json'
FACTS_FORM: json_files.Form = {
  'architecture?': str,
  'class_names?': [str],
  'mean?': [float],
  'std?': [float],
  'image_shape?': [int],
  'training?': {'total_steps?': int},
}
FOLDER_NAME = 'checkpoints'
DIGEST = 'sha256'
KEPT = 2
SHOWN = 5
PROGRESS = ('step', 'total_steps', 'kept_step')
Path = str | os.PathLike[str]


class Checkpoints:
  """The checkpoints of one directory; use as a context, which waits for saves under way."""

  def __init__(
    self,
    directory: Path,
    facts: Mapping[str, Any],
    position: Mapping[str, int],
    together: bool = False,
  ):
    """Opens or begins a directory.

    Args:
      directory: made if it is not there.
      facts: plain values that decide what comes out of the training; written to `classifier.json`.
      position: plain values saved with the place in the input, for example the seed.
      together: whether all processes of the run have this training, and call everything here; else
        this one does so alone.

    Raises:
      InputError: the directory holds checkpoints of a training with other facts.
    """
    self._directory = pathlib.Path(directory).absolute()
    self._position = dict(position)
    self._together = together and jax.process_count() > 1
    self._arguments = ocp.args.PyTreeSave if _is_apart(together) else ocp.args.StandardSave
    self._writes = not (self._together and jax.process_index())
    if self._together:
      meet('the checkpoints')  # Orbax's first exchange does not wait for long
    self._manager = _manager(self._directory / FOLDER_NAME, self._together)
    try:
      self._claim(json.loads(json.dumps(facts)))
    except BaseException:
      self._manager.close()
      raise

  def restore(self, template: TrainState) -> TrainState | None:
    """Returns the newest checkpoint as numpy arrays, or None if there is none.

    Args:
      template: a state with the wanted shapes and types; its values are not used.

    Raises:
      InputError: the checkpoint is damaged, or is one of another architecture (the first keys that
        differ are named).
    """
    step = self._newest()
    if step is None:
      return None
    saved = _read(self._directory / FOLDER_NAME / str(step))
    _check_same(
      _shapes(serialization.to_state_dict(template)),
      _shapes(saved.state),
      f'the checkpoint of step {step} in {self._directory} is of another architecture',
    )
    return serialization.from_state_dict(template, saved.state)

  def save(self, state: TrainState, examples_seen: int) -> None:
    """Begins to save a state; the writing goes on beside the next steps.

    Args:
      state: arrays of JAX, which a step may be given to reuse when this returns, or of numpy.
      examples_seen: rows consumed since the first step.

    Raises:
      OSError: no room for it; nothing is written then.
    """
    saved = serialization.to_state_dict(_for_orbax(state, self._together))
    disk.require_space(self._directory, sum(x.nbytes for x in jax.tree.leaves(saved)))
    step = int(saved['step'])
    position: dict[str, Any] = {'step': step, 'examples_seen': examples_seen, **self._position}
    if self._writes:
      position[DIGEST] = _digest(saved, position, self._directory)
    with interrupt_deferred():
      self._manager.save(
        step,
        force=True,
        args=ocp.args.Composite(state=self._arguments(saved), position=ocp.args.JsonSave(position)),
      )

  def wait(self) -> None:
    """Returns when every save begun is on disk; raises what went wrong with one."""
    self._manager.wait_until_finished()

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *unused: object) -> None:
    with interrupt_deferred():
      self._manager.close()

  def _newest(self) -> int | None:
    """Returns the step of the newest checkpoint; of several processes, what the first one sees."""
    step = self._manager.latest_step()
    if not self._together:
      return step
    return json.loads(exchange('the newest checkpoint', json.dumps(step))[0])

  def _claim(self, facts: dict[str, Any]) -> None:
    path, newest = self._directory / FACTS_NAME, self._newest()
    if newest is not None and path.exists():
      _check_same(
        _flat(facts), _flat(_load_json(path)), f'{self._directory} holds another training'
      )
    elif self._writes:
      write_atomically(path, (json.dumps(facts, indent=2, sort_keys=True) + '\n').encode())


def load_variables(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
  """Reads a trained classifier.

  Args:
    directory: what `train` wrote.

  Returns:
    `{'params', 'batch_stats'}` of the newest checkpoint as numpy arrays (the best ones where they
    are kept, else the averaged ones where there are any), and the facts of `classifier.json` with
    the checkpoint's `step`, and `kept_step`, that of the best weights where these are kept.

  Raises:
    InputError: there is no checkpoint, it is damaged, or the best weights are kept and none were
      evaluated yet.
  """
  root = pathlib.Path(directory).absolute()
  if not (root / FACTS_NAME).exists() or not (root / FOLDER_NAME).is_dir():
    raise InputError(f'{root} holds no trained classifier ({FACTS_NAME} and {FOLDER_NAME}/).')
  step = newest_step(root)
  if step is None:
    raise InputError(f'{root} holds no finished checkpoint yet; let the training go on.')
  state = _read(root / FOLDER_NAME / str(step)).state
  facts = {**_load_json(root / FACTS_NAME), 'step': step}
  if best := state.get('best'):
    if best['score'] < 0:
      raise InputError(
        f'{root} keeps the best weights, and at step {step} none were evaluated yet, so that it '
        'holds those that the training began with: let the training go on.'
      )
    facts['kept_step'] = int(best['step'])
  return chosen_variables(state), facts


def progress(facts: Mapping[str, Any]) -> dict[str, int]:
  """Returns of a checkpoint's facts `step`, `total_steps` and, of the best weights, `kept_step`."""
  known = {**facts, 'total_steps': facts.get('training', {}).get('total_steps')}
  return {name: known[name] for name in PROGRESS if known.get(name) is not None}


def unfinished(facts: Mapping[str, Any]) -> str:
  """Returns how far a training was that did not reach its end, 'step 100 of 188'; '' if it did."""
  steps = progress(facts)
  step, total = steps['step'], steps.get('total_steps', 0)
  return f'step {step} of {total}' if step < total else ''


def newest_step(directory: Path) -> int | None:
  """Returns the step of the newest whole checkpoint of a training, or None.

  Only lists names, so another process may save and delete checkpoints at the same time.
  """
  folder = pathlib.Path(directory).absolute() / FOLDER_NAME
  if not folder.is_dir():
    return None
  return max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=None)


class _Manager(ocp.CheckpointManager):
  """A manager that leaves it to the training to ask JAX whether to stop.

  Processes agree on a step by the last one that each has asked about; a thread that finishes the
  save of an earlier step must not ask again.
  """

  def reached_preemption(self, step: int) -> bool:
    """Returns False."""
    del step
    return False


def _manager(folder: pathlib.Path, together: bool) -> _Manager:
  """Opens a folder, for this process alone or for all processes of the run.

  One of several that saves alone makes folders before it goes on. Orbax has them made beside the
  next steps and told of under the save's number, which counts in every process: it would hear of
  the folders of another one's save, or wait for a word that the other has deleted.
  """
  apart = _is_apart(together)
  folder.mkdir(parents=True, exist_ok=True)
  options = ocp.CheckpointManagerOptions(
    max_to_keep=KEPT,
    cleanup_tmp_directories=True,
    create=False,
    async_options=ocp.AsyncOptions(create_directories_asynchronously=not apart),
    multiprocessing_options=_who(together),
  )
  handlers = _handlers(together)
  if apart:
    handlers['state'] = _writer_of_one()
  return _Manager(folder, options=options, item_handlers=handlers)


def _is_apart(together: bool) -> bool:
  return jax.process_count() > 1 and not together


def _who(together: bool) -> ocp.options.MultiprocessingOptions:
  if together:
    return ocp.options.MultiprocessingOptions(primary_host=0)
  process = jax.process_index()
  return ocp.options.MultiprocessingOptions(process, {process}, f'process{process}')


def _handlers(together: bool) -> dict[str, Any]:
  return {
    'state': ocp.StandardCheckpointHandler(multiprocessing_options=_who(together)),
    'position': ocp.JsonCheckpointHandler(multiprocessing_options=_who(together)),
  }


def _writer_of_one() -> ocp.PyTreeCheckpointHandler:
  """Returns what writes every array of a state by this process, one of several, alone."""
  handler = ocp.type_handlers.ArrayHandler(
    primary_host=jax.process_index(), use_replica_parallel=False
  )
  return ocp.PyTreeCheckpointHandler(
    multiprocessing_options=_who(together=False),
    type_handler_registry=ocp.type_handlers.create_type_handler_registry((jax.Array, handler)),
  )


def _for_orbax(state: TrainState, together: bool) -> TrainState:
  """Returns a state whose arrays Orbax can save.

  Of several processes, it refuses arrays of JAX that one of them has alone. Those of pmap, which
  all have alike, become numpy arrays, which the first one writes. Those of a training of this
  process alone are declared to be on a device of another process too, which is never looked at.
  """
  leaves = jax.tree.leaves(state)
  if jax.process_count() == 1 or not all(getattr(x, 'is_fully_addressable', True) for x in leaves):
    return state
  if not together:
    return _as_if_shared(state)
  for leaf in leaves:
    if isinstance(leaf, jax.Array):
      leaf.copy_to_host_async()
  return jax.tree.map(lambda x: np.array(x, copy=True), state)


def _as_if_shared(state: TrainState) -> TrainState:
  """Returns the arrays as replicated over a device of this process, the first, and another's."""
  own = jax.local_devices()[0]
  other = next(device for device in jax.devices() if device.process_index != own.process_index)
  sharding = NamedSharding(Mesh(np.array([own, other]), ('copies',)), PartitionSpec())

  def shared(value: Any) -> jax.Array:
    copy = jax.device_put(value, own)
    return jax.make_array_from_single_device_arrays(np.shape(value), sharding, [copy])

  return jax.tree.map(shared, state)


def _read(folder: pathlib.Path) -> Any:
  """Returns the `state`, as numpy arrays, and the `position` of one checkpoint's folder."""
  handlers = ocp.CompositeCheckpointHandler(**_handlers(together=False))
  try:
    with ocp.Checkpointer(handlers, multiprocessing_options=_who(together=False)) as reader:
      arrays = reader.metadata(folder).item_metadata['state'].tree
      asked = jax.tree.map(lambda x: np.empty(0, x.dtype), arrays)  # no devices are asked for
      saved = reader.restore(
        folder,
        args=ocp.args.Composite(
          state=ocp.args.StandardRestore(asked), position=ocp.args.JsonRestore()
        ),
      )
    position = dict(saved.position)
    digest = position.pop(DIGEST, None)
    if digest not in (None, _digest(saved.state, position, folder.parents[1])):
      raise ValueError('it was altered: it has another digest than when it was saved')
    return saved
  except InputError:  # of the facts
    raise
  except Exception as error:  # Orbax, its store and its codecs fail in their own ways
    raise InputError(
      f'cannot read the checkpoint {folder}: {error}. Delete that folder; the '
      'checkpoint before it, or the beginning, takes its place.'
    ) from error


def _digest(state: Mapping[str, Any], position: Mapping[str, Any], directory: pathlib.Path) -> str:
  """Returns the SHA-256 of a state's arrays, of its position and of the facts in a directory."""
  arrays = {name: _on_host(value) for name, value in _flat(state).items() if value is not None}
  texts = {'position': position, 'facts': _load_json(directory / FACTS_NAME)}
  plain = {name: np.array(json.dumps(value, sort_keys=True)) for name, value in texts.items()}
  return digest_of({**arrays, **plain})


def _on_host(value: Any) -> np.ndarray:
  """Returns an array that all devices, perhaps of several processes, have alike."""
  return np.asarray(value.addressable_data(0) if isinstance(value, jax.Array) else value)


def _load_json(path: pathlib.Path) -> dict[str, Any]:
  return json_files.read(path, FACTS_FORM, 'Give another directory.')


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
  return traverse_util.flatten_dict(dict(tree), sep='.')


def _shapes(tree: Mapping[str, Any]) -> dict[str, str]:
  return {key: f'{value.dtype}{list(value.shape)}' for key, value in _flat(tree).items()}


def _check_same(here: Mapping[str, Any], there: Mapping[str, Any], what: str) -> None:
  keys = [key for key in sorted({**here, **there}) if here.get(key) != there.get(key)]
  if keys:
    lines = [
      f'{key}: {there.get(key, "absent")} there, {here.get(key, "absent")} here'
      for key in keys[:SHOWN]
    ]
    more = f' and {len(keys) - SHOWN} more' if len(keys) > SHOWN else ''
    raise InputError(
      f'{what}: {"; ".join(lines)}{more}. Give another directory, or the settings '
      'it was begun with.'
    )
