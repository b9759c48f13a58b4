"""The evaluation of views that run many attacks, such as AutoAttack, with progress between them.

A step is a run of one attack on a batch, a call of one compiled program. The state of a batch has
the results so far: adversarial images, and whether each is still classified correctly.
"""

import dataclasses
import functools
from collections.abc import Hashable, Mapping, Sequence

import jax
import numpy as np

from robustness.core.pixels import with_scaled_image
from robustness.core.progress import part_of_step
from robustness.core.typing import PyTree
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.step import HostView, View, view_at
from robustness.evaluation.views import STAGED, Arrays, Stages, view_key
from robustness.parallel.mesh import BATCH, REPLICATED
from robustness.present.phrases import plural


@dataclasses.dataclass(frozen=True)
class StagedEvaluator(Evaluator):
  """Computes the records of a classifier under long attacks, such as AutoAttack.

  An attack is divided into many runs of compiled programs (`Views.stages`). A terminal shows
  progress after each run. The runs of a view end early when every image of the batch is
  misclassified.
  """

  @property
  def _stages(self) -> Stages:
    """The runs of compiled programs that the views need."""
    assert self.views.stages is not None
    return self.views.stages

  def run_chunk(
    self, variables: PyTree, step_batches: Sequence[Arrays], views: PyTree, state: PyTree
  ) -> tuple[list[dict[str, jax.Array]], PyTree]:
    """Attacks and predicts a block of images in a chunk of views, one batch after another.

    For each batch and each view, the runs of the attack come first. Their result is a state, such
    as adversarial images. State number k is passed to `Views.show` as columns 'staged/k/NAME' of
    the batch, with k as the parameter 'staged' of the view (`STAGED`).

    Args:
      variables: the classifier's weights on the devices.
      step_batches: the batches of the block on the devices, each {column: [rows, ...]}.
      views: ids [v] and parameters {name: [v, ...]} of the views, on the host.
      state: returned unchanged.

    Returns:
      The recorded fields of each batch, {field: [rows, v, ...]}, and `state`.
    """
    ids, parameters = views
    # index of each view in the chunk; repeats of the last view, which fill the chunk, are left out
    _, view_indices = np.unique(ids, return_index=True)
    outputs = []
    begin = self._program('begin', self._begin, (REPLICATED, BATCH), BATCH)
    for batch in step_batches:
      initial_state = begin(variables, batch)
      last_states: list[Arrays] = []  # of each view that has steps
      # index in `last_states` for each view; views without steps do not use it
      state_numbers = np.zeros(len(ids), np.int32)
      for index in sorted(view_indices):
        view_id, view_parameters = view = view_at(views, index)
        if steps := self._stages.steps(view_parameters, self._network.num_classes):
          state_numbers[ids == view_id] = len(last_states)  # also for repeats of the view
          last_states.append(self._after_steps(variables, batch, view, steps, initial_state))
      if not last_states:  # the compiled step needs the columns nevertheless
        last_states = [initial_state]
      columns = {}
      for number, state_of_view in enumerate(last_states):
        for name, values in state_of_view.items():
          columns[f'{STAGED}/{number}/{name}'] = values
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
    """Returns the state of a batch after all runs of a view's attack, such as AutoAttack.

    Args:
      variables: the classifier's weights.
      batch: columns [B, ...] on the devices.
      view: id and parameters of the view.
      steps: (name in the progress, program, number of the run) of each run, from `Stages.steps`.
      state: the state before the first run, {name: [B, ...]}.
    """
    view_on_devices, num_right = self.parallel.replicate(view), self._num_right(state)
    placement = REPLICATED, BATCH, BATCH, REPLICATED, REPLICATED
    for name, program, run in steps:
      if not num_right:  # every image is misclassified already
        break
      with part_of_step(f'{name}, {plural(num_right, "image")} still right'):
        run_on_devices = self.parallel.replicate(np.int32(run))
        # `program` says which attack is run, such as (0, 2) for the third of the first ensemble
        function = functools.partial(self._advance, program)
        advance = self._program(('advance', program), function, placement, BATCH)
        state = advance(variables, batch, state, view_on_devices, run_on_devices)
        num_right = self._num_right(state)
    return state

  def _num_right(self, state: Arrays) -> int:
    """Returns the number of images that are still classified correctly and need further runs."""
    return int(self.parallel.gather({'is_right': state['is_right']})['is_right'].sum())

  def _begin(self, variables: PyTree, batch: Arrays) -> Arrays:
    """Returns the state of a batch before the first attack, {name: [B, ...]}.

    The state has the unperturbed images, and whether they are classified correctly.

    Args:
      variables: the classifier's weights.
      batch: columns of the B images.
    """

    def begin_on_device(rows: Arrays, variables: PyTree) -> Arrays:
      """Returns the state before the first attack of one device's b images, {name: [b, ...]}."""
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
    """Returns the state of a batch after one more run of an attack, {name: [B, ...]}.

    Args:
      program: which attack runs; `Stages.steps` defines the values.
      variables: the classifier's weights.
      batch: columns of the images, {name: [B, ...]}.
      state: the state before the run, {name: [B, ...]}.
      view: id and parameters of the view.
      run: number of the run, such as of a restart of the attack, int32 scalar.
    """

    def advance_on_device(
      rows_and_state: Mapping[str, Arrays], variables: PyTree, view: View, run: jax.Array
    ) -> Arrays:
      """Runs the attack once on the b images of one device, and returns the new state.

      Args:
        rows_and_state: 'rows' are the columns of the images and 'state' the state before the run,
          arrays [b, ...].
        variables: the classifier's weights.
        view: id and parameters of the view, which is an attack at one radius.
        run: number of the run.
      """
      rows, state = rows_and_state['rows'], rows_and_state['state']
      view_id, parameters = view
      keys = jax.vmap(lambda row: view_key(self.key, row, view_id, parameters))(dict(rows))
      logits = functools.partial(self._logits, variables)
      return self._stages.advance(program, keys, rows, parameters, logits, state, run)

    # each device gets its share of the first argument, and all of the others
    rows_and_state = {'rows': with_scaled_image(batch), 'state': state}
    return self.parallel.by_device(advance_on_device, rows_and_state, variables, view, run)
