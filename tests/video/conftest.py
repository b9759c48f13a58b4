"""A server that tests of reviewing share, and a client of it."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from robustness.video.review_server import ReviewServer
from tests.video.review_serving import SETS, Client, served


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[ReviewServer]:
  with served(tmp_path, SETS) as running:
    yield running


@pytest.fixture
def client(server: ReviewServer) -> Client:
  return Client(server.port)
