"""Files of a second library, and archives, hold the same network as those of timm."""

from __future__ import annotations

import flax.traverse_util
import numpy as np
import pytest

from robustness.models import catalog, fitting, weights

pytest.importorskip('torch', reason='parity needs torch')
from tests.models import parity  # noqa: E402
from tests.models.peers import peer  # noqa: E402


@pytest.mark.slow
def test_resnet50_equals_torchvision():
  network = parity.randomise(peer('torchvision').models.resnet50(num_classes=10))
  layers = {f'stage{i}': f'layer{i}' for i in (1, 2, 3, 4)}
  parity.assert_parity(catalog.get('resnet50'), network, parity.images(2, 64, 64, 3), layers)


@pytest.mark.slow
def test_bit_archive_gives_the_network_that_timm_makes_of_it(tmp_path):
  architecture, path = catalog.get('bit_r50x1'), tmp_path / 'BiT-M-R50x1.npz'
  network = peer('timm').create_model('resnetv2_50x1_bit', num_classes=10)
  timm, archive = architecture.schemes
  shapes = archive.shapes(fitting.linen_shapes(architecture, 10))
  rng = np.random.default_rng(7)
  np.savez(path, **{k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()})
  network.load_pretrained(path)
  ours, theirs = weights.load(path, architecture), parity.arrays(network)
  flat = flax.traverse_util.flatten_dict(ours)
  assert len(flat) == len(theirs)
  for key, value in flat.items():
    stored = timm.locate(key)
    np.testing.assert_array_equal(value, stored.restore(theirs, value.shape), err_msg=str(key))


@pytest.mark.slow
def test_vgg_equals_timm():
  network = parity.randomise(peer('timm').create_model('vgg19', num_classes=10))
  parity.assert_parity(
    catalog.get('vgg19'), network, parity.images(1, 64, 64, 3), {'stage5': 'features.36'}
  )
