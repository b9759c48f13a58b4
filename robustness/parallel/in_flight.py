"""Keeps the host a few calls ahead of several CPU devices, and no more.

XLA lets 32 programs wait on a device. On a CPU it starts and runs those of all devices by one
thread a device; where a start has to wait for its place among the 32, it holds a thread that
the programs before it need, and none ever ends.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import jax

MOST = 8
"""Calls whose results may be outstanding, of all functions of one `Parallel` together."""

Outstanding = collections.deque[list[jax.Array]]


class Bounded:
  """A compiled function whose caller waits for the call `MOST` before.

  What the function is asked for else, such as `lower`, it answers itself.
  """

  def __init__(self, function: Callable[..., Any], outstanding: Outstanding):
    """Args: function: compiled; outstanding: results that may be waited for, shared by several."""
    self._function, self._outstanding = function, outstanding

  def __call__(self, *arguments: Any) -> Any:
    """Calls the function; waits where too many calls are outstanding."""
    outputs = self._function(*arguments)
    self._outstanding.append(jax.tree.leaves(outputs))
    while len(self._outstanding) > MOST:
      _wait(self._outstanding.popleft())
    return outputs

  def __getattr__(self, name: str) -> Any:
    return getattr(self._function, name)


def _wait(arrays: Sequence[jax.Array]) -> None:
  """Waits for arrays, but for donated ones: what came of those is waited for.

  `is_deleted` does not know all of these, such as an input that a step returns as it was.
  """
  for array in arrays:
    try:
      array.block_until_ready()
    except jax.errors.JaxRuntimeError as error:
      if 'deleted or donated' not in str(error):
        raise


def bounded(
  function: Callable[..., Any], devices: Sequence[jax.Device], outstanding: Outstanding
) -> Callable[..., Any]:
  """Returns the function, bounded where this process has several CPU devices among these."""
  own = [device for device in devices if device.process_index == jax.process_index()]
  needed = len(own) > 1 and own[0].platform == 'cpu'
  return Bounded(function, outstanding) if needed else function
