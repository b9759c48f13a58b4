"""Provides a real picture of each of three published sizes."""

import pytest

from tests.corruptions.pictures import photographs


@pytest.fixture(params=[32, 64, 224])
def picture(request, shared_dir):
  """A photograph of 32, 64 or 224 pixels a side, float32 [side, side, 3]."""
  return photographs(shared_dir, request.param, 1)[0]
