"""What a run prints: its own lines, and of other packages what a user can act on.

TensorFlow, XLA, Orbax and the like announce devices, deprecations and internals: of them errors are
shown, of this project all, and of other packages warnings, such as JAX's that a GPU is not used.
"""

import logging
import os
import warnings
from collections.abc import Callable, Sequence

from absl import flags
from absl import logging as absl_logging

CHATTY = (
  *('absl', 'apache_beam', 'etils', 'flax', 'google', 'grpc', 'h5py', 'keras', 'orbax'),
  *('tensorboard', 'tensorflow', 'tensorflow_datasets'),
  'PIL',
)
"""Packages whose warnings tell a user of this project nothing that they can change."""
NOT_ACTIONABLE = 'Some donated buffers were not usable'
"""How such a warning of JAX begins: XLA could not reuse a small buffer."""


def set_up(own: Sequence[str], is_told_elsewhere: Callable[[logging.LogRecord], bool]) -> None:
  """Lets Python, absl and the C++ parts of TensorFlow and XLA print no more than this.

  `own` are the folders of this project's packages; records that are told elsewhere, such as an
  error that ends the run, are left out.
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
  handler.setFormatter(LineFormatter())
  handler.addFilter(lambda record: is_shown(record, own) and not is_told_elsewhere(record))
  warnings.filterwarnings('ignore', module=rf'({"|".join(CHATTY)})(\.|$)')
  warnings.filterwarnings('ignore', message=NOT_ACTIONABLE)


def is_shown(record: logging.LogRecord, own: Sequence[str]) -> bool:
  """Returns whether a record is of interest to who runs an experiment."""
  if record.pathname.startswith(tuple(own)):
    return record.levelno >= logging.INFO
  chatty = set(CHATTY) & set(record.pathname.split(os.sep))
  return record.levelno >= (logging.ERROR if chatty else logging.WARNING)


class LineFormatter(logging.Formatter):
  """Writes a line as it is, and before warnings and errors what they are."""

  def format(self, record: logging.LogRecord) -> str:
    """Returns the text of a record."""
    text = super().format(record)
    return text if record.levelno < logging.WARNING else f'{record.levelname.lower()}: {text}'
