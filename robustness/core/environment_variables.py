"""Advice in one line about environment variables that JAX or Matplotlib refuse.

Both read their variables during import, and JAX starts its devices at their first use.
"""

import os
import traceback
from types import FrameType

from robustness.core.errors import causes

MODULE_PREFIXES = ('jax._src.config', 'matplotlib')
"""Beginnings of the names of the modules that read settings from the environment."""
VARIABLE_PREFIXES = ('JAX_', 'MPL')
"""Beginnings of the names of the variables that these modules read."""
DEVICE_VARIABLES = ('JAX_PLATFORMS', 'JAX_NUM_CPU_DEVICES', 'CUDA_VISIBLE_DEVICES')
"""Variables that decide which devices JAX starts."""


def advice(error: BaseException) -> str | None:
  """Returns a sentence that names a wrong environment variable and the fix, or None.

  Args:
    error: an error of JAX or Matplotlib. The errors that caused it are examined too.

  Returns:
    The sentence, or None if no environment variable caused the error.
  """
  for cause in causes(error):
    frames = [frame for frame, _ in traceback.walk_tb(cause.__traceback__)]
    message = str(cause).partition('\n')[0].strip().rstrip('.')  # its first line
    if any(_starts_devices(frame) for frame in frames):
      values = [f'{name}={os.environ[name]}' for name in DEVICE_VARIABLES if os.environ.get(name)]
      settings = f' with {" ".join(values)}' if values else ''
      reason = message.partition(' (')[0] or 'this machine has no such device'
      return (
        f'JAX cannot start its devices{settings}: {reason}. Unset what is wrong, or take the '
        'processor by JAX_PLATFORMS=cpu.'
      )
    raising_module = str(frames[-1].f_globals.get('__name__', '')) if frames else ''
    if raising_module.startswith(MODULE_PREFIXES):
      for name, value in os.environ.items():
        is_quoted = repr(value) in message or f'"{value}"' in message
        if name.startswith(VARIABLE_PREFIXES) and is_quoted:
          return f'the environment has {name}={value}: {message}. Correct or unset it.'
  return None


def _starts_devices(frame: FrameType) -> bool:
  """Returns whether a stack frame is JAX's function that starts the devices."""
  module = frame.f_globals.get('__name__')
  return module == 'jax._src.xla_bridge' and frame.f_code.co_name == 'backends'
