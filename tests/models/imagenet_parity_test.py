"""The same random weights through ours and through timm and torchvision."""

from __future__ import annotations

import flax.traverse_util
import numpy as np
import pytest

from robustness.models import catalog, fitting, weights

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


BIT_LAYERS = {'stem': 'stem.conv', **{f'stage{i + 1}': f'stages.{i}' for i in range(4)},
              'stage1/block0/shortcut': 'stages.0.blocks.0.downsample.conv'}


def test_bit_resnet_equals_timm():
  network = parity.randomise(peer('timm').create_model('resnetv2_50x1_bit', num_classes=10))
  x = parity.images(2, 64, 75, 3)
  parity.assert_parity(catalog.get('bit_r50x1'), network, x, BIT_LAYERS)


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


@pytest.mark.parametrize(('name', 'places'), [('1_0', (0, 5, 10, 12)), ('1_1', (0, 4, 7, 12))])
@pytest.mark.parametrize('size', [(64, 75)])
def test_squeezenets_equal_torchvision(name, places, size):
  network = getattr(peer('torchvision').models, f'squeezenet{name}')(num_classes=10)
  names = ('stem', 'stage1', 'stage2', 'stage3')
  layers = {ours: f'features.{place + (ours == "stem")}'
            for ours, place in zip(names, places, strict=True)}
  parity.assert_parity(catalog.get(f'squeezenet{name}'), parity.randomise(network),
                       parity.images(2, *size, 3), layers)


def test_vgg_with_batch_norm_equals_torchvision():
  network = parity.randomise(peer('torchvision').models.vgg16_bn(num_classes=10, dropout=0.0))
  architecture, x = catalog.get('vgg16_bn'), parity.images(4, 47, 64, 3)
  layers = {f'stage{i + 1}': f'features.{n}' for i, n in enumerate((6, 13, 23, 33, 43))}
  variables = parity.assert_parity(architecture, network, x, layers)
  parity.assert_training_parity(architecture, network, x, variables)


def test_vgg_equals_timm():
  network = parity.randomise(peer('timm').create_model('vgg19', num_classes=10))
  parity.assert_parity(catalog.get('vgg19'), network, parity.images(1, 64, 64, 3),
                       {'stage5': 'features.36'})
