"""Real pictures of the sizes that were published."""

import pytest

from tests.corruptions.pictures import photographs


@pytest.fixture(params=[32, 64, 224])
def picture(request, shared_dir):
  return photographs(shared_dir, request.param, 1)[0]
