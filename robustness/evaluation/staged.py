"""The evaluation of views that take many steps, such as AutoAttack, with progress between steps."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Self

import jax
import numpy as np

from robustness.core.pixels import with_scaled_image
from robustness.core.progress import part_of_step
from robustness.core.typing import PyTree
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.step import View
from robustness.evaluation.views import STAGED, Arrays, Stages, view_key
from robustness.parallel.mesh import BATCH, REPLICATED, Compiled
from robustness.present.phrases import plural

HostView = tuple[np.ndarray, Mapping[str, np.ndarray]]
"""Id and parameters of a view, or of the views of a chunk, on the host."""


@dataclasses.dataclass(frozen=True)
class StagedEvaluator(Evaluator):
  """An `Evaluator` for views that take many steps, such as AutoAttack, with progress between steps.

  A batch is shown in a view after the steps of the view (`Views.stages`). The steps end early when
  no row of the batch is classified correctly any more.
  """

  def with_views(self, positions: np.ndarray) -> Self:
    """Returns the evaluator of the views at `positions`, int [v]; it shares compiled programs."""
    evaluator = super().with_views(positions)
    vars(evaluator)['_programs'] = self._programs
    return evaluator

  @property
  def _stages(self) -> Stages:
    """The steps of the views."""
    assert self.views.stages is not None
    return self.views.stages

  def run_chunk(
    self, variables: PyTree, step_batches: Sequence[Arrays], views: PyTree, state: PyTree
  ) -> tuple[list[dict[str, jax.Array]], PyTree]:
    """Computes the shard of a block of rows in a chunk of views, after the steps of the views.

    Arguments and results are the same as in `Evaluator.run_chunk`. For each batch, the steps of
    every view are taken first. Then the batch is shown in all views, with the states after the
    steps as columns 'staged/0/NAME', 'staged/1/NAME', ..., and the number of a view's state as its
    parameter 'staged' (`STAGED`).
    """
    ids, parameters = views
    # the index of each view in the chunk, without repeats of the last view, which fill the chunk
    _, first_indices = np.unique(ids, return_index=True)
    outputs = []
    for batch in step_batches:
      initial = self._program('begin')(variables, batch)
      states: list[Arrays] = []  # of the views that have steps
      state_numbers = np.zeros(len(ids), np.int32)  # of each view, the index of its state
      for index in sorted(first_indices):
        view_parameters = {name: values[index] for name, values in parameters.items()}
        if steps := self._stages.steps(view_parameters, self._network.num_classes):
          state_numbers[ids == ids[index]] = len(states)  # of the view and its repeats
          view = ids[index], view_parameters
          states.append(self._after_steps(variables, batch, view, steps, initial))
      # without steps in any view, `initial` is passed, so that the columns always exist
      columns = {
        f'{STAGED}/{number}/{name}': values
        for number, view_state in enumerate(states or [initial])
        for name, values in view_state.items()
      }
      chunk = ids, {**parameters, STAGED: state_numbers}
      outputs.append(self.run(variables, {**batch, **columns}, chunk))
    return outputs, state

  def _after_steps(
    self,
    variables: PyTree,
    batch: Arrays,
    view: HostView,
    steps: Sequence[tuple[str, Hashable, int]],
    state: Arrays,
  ) -> Arrays:
    """Returns the state of a batch after the steps of a view.

    Args:
      variables: the classifier's weights.
      batch: columns [B, ...] on the devices.
      view: id and parameters of the view.
      steps: (name, program, run) of each step, from `Stages.steps`.
      state: the state before the first step.
    """
    on_devices, num_right = self.parallel.replicate(view), self._num_right(state)
    for name, program, run in steps:
      if not num_right:
        break
      with part_of_step(f'{name}, {plural(num_right, "image")} still right'):
        number = self.parallel.replicate(np.int32(run))
        state = self._program(program)(variables, batch, state, on_devices, number)
        num_right = self._num_right(state)
    return state

  def _num_right(self, state: Arrays) -> int:
    """Returns the number of rows that are still classified correctly and need further steps."""
    return int(self.parallel.gather({'is_right': state['is_right']})['is_right'].sum())

  @functools.cached_property
  def _programs(self) -> dict[Hashable, Compiled]:
    """{program: its compiled function}, which `_program` fills."""
    return {}

  def _program(self, program: Hashable) -> Compiled:
    """Returns the compiled function of a program; it is compiled once.

    `program` is 'begin' for the function `_begin`. Every other value, such as one attack of
    AutoAttack, is the argument `program` of `_advance`, which is constant in the compiled function.
    """
    if program not in self._programs:
      # which arguments all devices get whole (REPLICATED), and which they divide by rows (BATCH)
      step: Callable[..., Arrays] = self._begin
      placement: tuple[str, ...] = REPLICATED, BATCH
      if program != 'begin':
        step = functools.partial(self._advance, program)
        placement = REPLICATED, BATCH, BATCH, REPLICATED, REPLICATED
      self._programs[program] = self.parallel.compile(step, placement, BATCH)
    return self._programs[program]

  def _begin(self, variables: PyTree, batch: Arrays) -> Arrays:
    """Returns the state of a batch of B rows before the first step of the views, {name: [B, ...]}.

    For attacks it has the adversarial images and whether they are still classified correctly.
    `variables` are the classifier's weights, and `batch` has the columns of the rows.
    """

    def begin_on_device(rows: Arrays, variables: PyTree) -> Arrays:
      """Returns the state of the rows of one device."""
      return self._stages.begin(rows, functools.partial(self._logits, variables))

    # each device gets its share of the rows, the first argument, and all variables
    return self.parallel.by_device(begin_on_device, with_scaled_image(batch), variables)

  def _advance(
    self,
    program: Hashable,
    variables: PyTree,
    batch: Arrays,
    state: Arrays,
    view: View,
    run: jax.Array,
  ) -> Arrays:
    """Returns the state of a batch in a view after one more step.

    Args:
      program: the computation of the step, such as one attack of AutoAttack.
      variables: the classifier's weights.
      batch: columns [B, ...].
      state: {name: [B, ...]} before the step.
      view: id and parameters of the view.
      run: integer argument of the program, such as the number of a restart.
    """

    def advance_on_device(
      rows_and_state: Mapping[str, Arrays], variables: PyTree, view: View, run: jax.Array
    ) -> Arrays:
      """Returns the new state of the rows of one device."""
      rows, state = rows_and_state['rows'], rows_and_state['state']
      view_id, parameters = view
      keys = jax.vmap(lambda row: view_key(self.key, row, view_id, parameters))(dict(rows))
      logits = functools.partial(self._logits, variables)
      return self._stages.advance(program, keys, rows, parameters, logits, state, run)

    rows_and_state = {'rows': with_scaled_image(batch), 'state': state}
    return self.parallel.by_device(advance_on_device, rows_and_state, variables, view, run)
