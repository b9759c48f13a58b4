"""Results that several tests of what is shown read."""

import pytest

from tests.present.made_results import made_results


@pytest.fixture(scope='module')
def results():
  return made_results()
