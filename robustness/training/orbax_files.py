"""Checkpoints as Orbax writes and reads them: a state of arrays and a position of plain values.

Functions import this module when they need it, since the import of Orbax takes a tenth of the time
that a run from records takes to start.
"""

import pathlib

import jax
import numpy as np
import orbax.checkpoint as ocp

from robustness.core.typing import Facts, PyTree


class Manager(ocp.CheckpointManager):
  """Orbax's checkpoint manager, which keeps two checkpoints and ignores SIGTERM.

  SIGTERM is handled by `StopRequest` instead. There each process asks JAX after every step whether
  to stop, and JAX selects a common last step. Orbax would ask too, about the step that it saves in
  a thread. JAX would then select a step that the process has already passed.
  """

  def __init__(self, folder: pathlib.Path):
    """Opens an existing folder, and deletes unfinished checkpoints in it."""
    options = ocp.CheckpointManagerOptions(
      create=False, max_to_keep=2, cleanup_tmp_directories=True
    )
    handlers = {'state': ocp.StandardCheckpointHandler(), 'position': ocp.JsonCheckpointHandler()}
    super().__init__(folder, options=options, item_handlers=handlers)

  def save_parts(self, step: int, state: PyTree, position: Facts) -> None:
    """Saves the arrays of a training and its position in a thread.

    Args:
      step: number of steps taken, which names the checkpoint.
      state: tree of arrays.
      position: where the training is, such as {'step': 100}, stored as JSON.
    """
    arrays, json = ocp.args.StandardSave(state), ocp.args.JsonSave(position)
    self.save(step, force=True, args=ocp.args.Composite(state=arrays, position=json))

  def reached_preemption(self, step: int) -> bool:
    """Returns False, so that Orbax never stops a training by itself."""
    return False


def read(folder: pathlib.Path) -> tuple[dict[str, PyTree], dict[str, object]]:
  """Reads a checkpoint's arrays and its position, such as {'step': 100}.

  The arrays are a nested dictionary of NumPy arrays. Other processes are not waited for.
  """
  process = jax.process_index()
  alone = ocp.options.MultiprocessingOptions(  # this process waits for no other one
    primary_host=process, active_processes={process}, barrier_sync_key_prefix=f'process{process}'
  )
  handlers = ocp.CompositeCheckpointHandler(
    state=ocp.StandardCheckpointHandler(multiprocessing_options=alone),
    position=ocp.JsonCheckpointHandler(multiprocessing_options=alone),
  )
  with ocp.Checkpointer(handlers, multiprocessing_options=alone) as reader:
    arrays = reader.metadata(folder).item_metadata['state'].tree
    # Orbax restores NumPy arrays of the templates' dtypes; their shapes are those it has saved.
    templates = jax.tree.map(lambda x: np.empty(0, x.dtype), arrays)
    state = ocp.args.StandardRestore(templates)
    parts = ocp.args.Composite(state=state, position=ocp.args.JsonRestore())
    saved = reader.restore(folder, args=parts)
  return saved.state, dict(saved.position)
