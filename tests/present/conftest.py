"""The fixture of results for the tests of tables, sentences and figures."""

import pytest

from tests.present.made_results import made_results


@pytest.fixture(scope='module')
def results():
  """Errors of two classifiers, by corruption and severity, see `made_results`."""
  return made_results()
