"""Filter of log records: prints this project's records, and others on which users can act.

TensorFlow, XLA, Orbax and similar packages log devices, deprecations and internals, so that only
their errors are printed; other packages' warnings are printed, such as JAX's about an unused GPU.
"""

import logging
import os
import warnings

from absl import flags
from absl import logging as absl_logging

from robustness.core import disk
from robustness.core.errors import OWN_FOLDERS
from robustness.parallel.processes import peer_is_lost

CHATTY = (
  *('absl', 'apache_beam', 'etils', 'flax', 'google', 'grpc', 'h5py', 'keras', 'orbax'),
  *('tensorboard', 'tensorflow', 'tensorflow_datasets', 'PIL'),
)
"""Packages with warnings that a user of this project cannot act on."""
NOT_ACTIONABLE = 'Some donated buffers were not usable'
"""Beginning of a further warning on which a user cannot act: JAX warns that XLA could not reuse a
small buffer."""


def set_up() -> None:
  """Configures logging for the command line: lines of this package, and few of other packages.

  Messages of absl get the format `LineFormatter` and pass the filter `is_shown`. Warnings of the
  packages `CHATTY`, and those that a user can do nothing about, are not shown.
  """
  logging.getLogger('tensorflow').setLevel(logging.ERROR)
  if not flags.FLAGS.is_parsed():  # in a notebook, `absl.app` has not done this
    flags.FLAGS.mark_as_parsed()
    absl_logging.use_absl_handler()
  absl_logging.set_verbosity(absl_logging.INFO)
  handler = absl_logging.get_absl_handler()
  assert handler is not None
  handler.setFormatter(LineFormatter())
  handler.addFilter(is_shown)
  warnings.filterwarnings('ignore', module=rf'({"|".join(CHATTY)})(\.|$)')
  warnings.filterwarnings('ignore', message=NOT_ACTIONABLE)


def is_shown(record: logging.LogRecord) -> bool:
  """Returns whether a log record is printed.

  Records of this project are printed from INFO on, of the packages in `CHATTY` from ERROR on, and
  all others from WARNING on. Errors of Orbax's threads about a full disk or a lost process are
  hidden, because the command reports these itself.
  """
  error = record.exc_info[1] if record.exc_info else None
  if error is not None and (disk.advice(error, directory='') or peer_is_lost(error)):
    return False
  if record.pathname.startswith(OWN_FOLDERS):
    return record.levelno >= logging.INFO
  is_chatty = not set(CHATTY).isdisjoint(record.pathname.split(os.sep))  # folders of the file
  return record.levelno >= (logging.ERROR if is_chatty else logging.WARNING)


class LineFormatter(logging.Formatter):
  """Formats log records as bare lines; warnings and errors begin with their level."""

  def format(self, record: logging.LogRecord) -> str:
    """Returns the text of a record."""
    text = super().format(record)
    return text if record.levelno < logging.WARNING else f'{record.levelname.lower()}: {text}'
