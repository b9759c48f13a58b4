"""Stored corrupted images through the launch, shown to a network of another size than theirs."""

from __future__ import annotations

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from robustness.labels.imagenet_names import WNIDS
from robustness.models import catalog, hub, weights
from tests.end_to_end import runs


@pytest.fixture
def lite1(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
  """EfficientNet-Lite1 of zeros, which takes 240 pixels, of 272, in place of the published one."""
  module = catalog.get('efficientnet_lite1').build(1000)
  shapes = jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, 240, 240, 3)))
  variables = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), shapes)
  file = tmp_path / 'lite1.safetensors'
  weights.save_variables(file, variables, {})
  monkeypatch.setattr(hub, 'fetch', lambda entry: hub.Fetched(file, 'made'))


@pytest.mark.usefixtures('lite1')
def test_a_border_of_imagenet_c_reaches_a_network_of_240_pixels(tmp_path: pathlib.Path) -> None:
  pixels = np.zeros((224, 224, 3), np.uint8)
  pixels[:12], pixels[-12:], pixels[:, :12], pixels[:, -12:] = 255, 255, 255, 255
  for severity in ('1', '3'):
    folder = tmp_path / 'imagenet_c' / 'fog' / severity / WNIDS[7]
    folder.mkdir(parents=True)
    Image.fromarray(pixels).save(folder / 'a.png')
  changes = {
    'data.source': 'imagenet_c',
    'data.path': str(tmp_path / 'imagenet_c'),
    'data.name': '',
    'data.num_images': 0,
    'classifier.name': 'efficientnet_lite1',
  }
  results = runs.run(runs.shrunk('corruption_error', 'cifar10_c', changes), tmp_path / 'run')
  seen = results.arrays['gallery'][0, 0]
  assert seen.shape == (240, 240, 3)
  white = (seen[120, :, 0] > 0.5).sum()
  assert white == 26, '24 of 224 pixels are 25.7 of 240; none of them is cropped'
  assert (results.data['resize'], results.data['crop']) == (240, 240)
  assert 'cropped before they were stored' in results.data['crop_margin']
