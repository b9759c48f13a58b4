"""Tests that every architecture and its peer have the same outputs for the same random weights.

A few architectures are compared in every run of the tests, all of them by

    python -m pytest tests/models/catalog_parity_test.py -m 'every_network or not every_network'

In training mode every batch norm amplifies rounding, so equality is tested twice: in float64, where
only different formulas differ, and in float32 with residual branches as small as in trained
networks.
"""

import functools
import pathlib

import pytest

from robustness.models import catalog

pytest.importorskip('torch', reason='parity needs torch')
from tests.cases import marked  # noqa: E402
from tests.models import catalog_parity  # noqa: E402
from tests.models.parity import assert_small  # noqa: E402
from tests.models.peer_networks import PEERS  # noqa: E402
from tests.networks import WITHOUT_STATISTICS  # noqa: E402

QUICK_TRAINING = ('resnet20', 'wide_resnet_16_2', 'resnet18', 'efficientnet_lite1')
QUICK = (*QUICK_TRAINING, 'resnet50', 'resnet34_gn', 'resnet50_gn', 'bit_r50x1')
QUICK += ('squeezenet1_0', 'squeezenet1_1', 'vit_s32')  # other tests compare VGG and CLIP
WITH_STATISTICS = [name for name in PEERS if not WITHOUT_STATISTICS.fullmatch(name)]
make = functools.lru_cache(maxsize=1)(catalog_parity.Pair.make)
every_but = functools.partial(marked, mark=pytest.mark.every_network)


def test_every_architecture_has_a_peer_or_a_separate_test():
  folder = pathlib.Path(__file__).parent
  tested = tuple(path.name.removesuffix('_test.py') for path in folder.glob('*_test.py'))
  without_peer = set(catalog.ARCHITECTURES) - set(PEERS)
  assert {name for name in without_peer if not name.startswith(tested)} == {'small_cnn'}


@pytest.mark.parametrize('name', every_but(PEERS, QUICK))
def test_logits_and_layers_match_the_peer_in_evaluation(name):
  differences = catalog_parity.evaluation(make(name))
  assert len(differences) > 1
  assert_small(differences)


@pytest.mark.slow
@pytest.mark.parametrize('name', every_but(WITH_STATISTICS, QUICK_TRAINING))
def test_a_training_pass_in_float64_matches_the_peer_to_rounding(name):
  differences = catalog_parity.training(make(name), double=True)
  assert len(differences) > 20
  assert_small(differences, 1e-9)


@pytest.mark.parametrize('name', every_but(WITH_STATISTICS, QUICK_TRAINING))
def test_a_training_pass_in_float32_matches_the_peer(name):
  pair = make(name, 2 * catalog_parity.IMAGES, damped=True)
  assert_small(catalog_parity.training(pair, double=False))
