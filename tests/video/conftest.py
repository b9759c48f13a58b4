"""Provides a review server and a client of it."""

import pytest

from tests.video.review_serving import SETS, Client, served


@pytest.fixture
def server(tmp_path):
  """A server of the review of `SETS`, two anchors with three pairs each."""
  with served(tmp_path, SETS) as running:
    yield running


@pytest.fixture
def client(server):
  """The connection of the annotator 'ann'."""
  return Client(server.port)
