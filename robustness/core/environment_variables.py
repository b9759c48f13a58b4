"""Advice in one line about environment variables that JAX or Matplotlib refuse.

Both read their variables during import, and JAX starts its devices at their first use.
"""

import os
import traceback
from types import FrameType

from robustness.core.errors import causes

READERS = ('jax._src.config', 'matplotlib')
"""Modules that read settings from the environment; `matplotlib` stands for all its modules."""
OF_DEVICES = ('JAX_PLATFORMS', 'JAX_NUM_CPU_DEVICES', 'CUDA_VISIBLE_DEVICES')
"""Variables that decide which devices JAX starts."""


def advice(error: BaseException) -> str | None:
  """Returns a sentence on the environment variable that caused an error; None if none did."""
  for cause in causes(error):
    frames = [frame for frame, _ in traceback.walk_tb(cause.__traceback__)]
    if any(_starts_devices(frame) for frame in frames):
      variables = [f'{name}={os.environ[name]}' for name in OF_DEVICES if os.environ.get(name)]
      reason = _first_line(cause).partition(' (')[0] or 'this machine has no such device'
      return (
        f'JAX cannot start its devices{" with " if variables else ""}{" ".join(variables)}: '
        f'{reason}. Unset what is wrong, or take the processor by JAX_PLATFORMS=cpu.'
      )
    module = str(frames[-1].f_globals.get('__name__', '')) if frames else ''
    if module.startswith(READERS):
      message = _first_line(cause)
      for name, value in os.environ.items():
        if name.startswith(('JAX_', 'MPL')) and (repr(value) in message or f'"{value}"' in message):
          return f'the environment has {name}={value}: {message}. Correct or unset it.'
  return None


def _starts_devices(frame: FrameType) -> bool:
  """Returns whether a stack frame is JAX's function that starts the devices."""
  module = frame.f_globals.get('__name__')
  return module == 'jax._src.xla_bridge' and frame.f_code.co_name == 'backends'


def _first_line(error: BaseException) -> str:
  """Returns the first line of an error's message without a full stop."""
  return str(error).partition('\n')[0].strip().rstrip('.')
