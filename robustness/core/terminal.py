"""What a run prints: its own lines, and of other packages what a user can act on.

TensorFlow, XLA, Orbax and the like announce devices, deprecations and internals. Their errors are
shown; their warnings are not. Those of packages that are not listed here are, such as JAX's that a
GPU is present and not used, and those of this project always.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Sequence

from absl import flags
from absl import logging as absl_logging

CHATTY = (
  'absl',
  'apache_beam',
  'etils',
  'flax',
  'google',
  'grpc',
  'h5py',
  'keras',
  'orbax',
  'tensorboard',
  'tensorflow',
  'tensorflow_datasets',
)
"""Packages whose warnings tell a user of this project nothing that they can change."""
NOT_ACTIONABLE = (
  'Some donated buffers were not usable',  # JAX: a small buffer that XLA could not reuse
)
"""Beginnings of such warnings by other packages."""


def set_up(own: Sequence[str], is_told_elsewhere: Callable[[logging.LogRecord], bool]) -> None:
  """Lets Python, absl and the C++ parts of TensorFlow and XLA print no more than this.

  Args:
    own: folders of this project's packages.
    is_told_elsewhere: records of any package to leave out, such as an error that ends the run with
      a line of its own.
  """
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # errors
  os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')  # TensorFlow only reads images here
  logging.getLogger('tensorflow').setLevel(logging.ERROR)
  if not flags.FLAGS.is_parsed():  # a notebook: what `absl.app` does first for a command
    flags.FLAGS.mark_as_parsed()
    absl_logging.use_absl_handler()
  absl_logging.set_verbosity(absl_logging.INFO)
  handler = absl_logging.get_absl_handler()
  assert handler is not None
  handler.setFormatter(Lines())
  handler.addFilter(lambda record: is_shown(record, own) and not is_told_elsewhere(record))
  warnings.filterwarnings('ignore', module=rf'({"|".join(CHATTY)})(\.|$)')
  for beginning in NOT_ACTIONABLE:
    warnings.filterwarnings('ignore', message=re.escape(beginning))


def is_shown(record: logging.LogRecord, own: Sequence[str]) -> bool:
  """Returns whether a record is of interest to who runs an experiment."""
  if record.pathname.startswith(tuple(own)):
    return record.levelno >= logging.INFO
  chatty = set(CHATTY) & set(record.pathname.split(os.sep))
  return record.levelno >= (logging.ERROR if chatty else logging.WARNING)


class Lines(logging.Formatter):
  """Writes a line as it is, and before warnings and errors what they are."""

  def format(self, record: logging.LogRecord) -> str:
    """Returns the text of a record."""
    text = super().format(record)
    return text if record.levelno < logging.WARNING else f'{record.levelname.lower()}: {text}'
