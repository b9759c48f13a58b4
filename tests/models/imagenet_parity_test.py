"""The same random weights through ours and through timm and torchvision."""

from __future__ import annotations

import pytest

from robustness.models import catalog

pytest.importorskip('torch', reason='parity needs torch')
from tests.models import parity  # noqa: E402
from tests.models.peers import peer  # noqa: E402

RESNET_LAYERS = {'stem': 'act1', **{f'stage{i}': f'layer{i}' for i in (1, 2, 3, 4)},
                 'stage2/block0': 'layer2.0', 'stage3/block1/layer1/conv': 'layer3.1.conv1'}


@pytest.mark.parametrize('name', ['resnet18', 'resnet34', 'resnet50', 'resnet50_gn'])
def test_resnets_equal_timm(name):
  network = parity.randomise(peer('timm').create_model(name, num_classes=10))
  architecture, x = catalog.get(name), parity.images(2, 64, 75, 3)
  variables = parity.assert_parity(architecture, network, x, RESNET_LAYERS)
  if 'batch_stats' in variables and name != 'resnet34':
    parity.assert_training_parity(architecture, network, x, variables)


def test_resnet50_equals_torchvision():
  network = parity.randomise(peer('torchvision').models.resnet50(num_classes=10))
  layers = {f'stage{i}': f'layer{i}' for i in (1, 2, 3, 4)}
  parity.assert_parity(catalog.get('resnet50'), network, parity.images(2, 64, 64, 3), layers)
