"""A server that tests of reviewing share, and a client of it."""

import pytest

from tests.video.review_serving import SETS, Client, served


@pytest.fixture
def server(tmp_path):
  with served(tmp_path, SETS) as running:
    yield running


@pytest.fixture
def client(server):
  return Client(server.port)
