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
  """Orbax's checkpoint manager of a folder, which keeps two checkpoints and never stops a training.

  After SIGTERM, JAX chooses a step after which all processes stop. For this, each process asks JAX
  at every step whether to stop (`StopRequest`), and JAX takes the step of the last question for the
  step of the process. Orbax would ask too, from its own thread after a save, about the step that
  was saved; the process is past that step, so that JAX would choose a wrong one.
  """

  def __init__(self, folder: pathlib.Path):
    """Opens an existing folder, and deletes checkpoints in it that were not written to the end."""
    options = ocp.CheckpointManagerOptions(
      create=False, max_to_keep=2, cleanup_tmp_directories=True
    )
    handlers = {'state': ocp.StandardCheckpointHandler(), 'position': ocp.JsonCheckpointHandler()}
    super().__init__(folder, options=options, item_handlers=handlers)

  def save_parts(self, step: int, state: PyTree, position: Facts) -> None:
    """Saves a state of arrays with its position, such as {'step': 100}; a thread writes them."""
    parts = ocp.args.Composite(
      state=ocp.args.StandardSave(state), position=ocp.args.JsonSave(position)
    )
    self.save(step, force=True, args=parts)

  def reached_preemption(self, step: int) -> bool:
    """Returns False without asking JAX, so that Orbax never stops a training by itself."""
    del step
    return False


def read(folder: pathlib.Path) -> tuple[dict[str, PyTree], dict[str, object]]:
  """Returns the state, a nested dict of NumPy arrays, and the position of a checkpoint's folder."""
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
    parts = ocp.args.Composite(
      state=ocp.args.StandardRestore(templates), position=ocp.args.JsonRestore()
    )
    saved = reader.restore(folder, args=parts)
  return saved.state, dict(saved.position)
