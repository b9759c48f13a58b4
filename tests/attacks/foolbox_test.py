"""Robust accuracy against foolbox on the published ResNet-20 and CIFAR-10: the same images fall."""

import numpy as np
import pytest

from robustness.estimates.comparison import mcnemar, paired_difference
from tests.cases import cases

IMAGES = 64


@pytest.mark.slow
@cases('norm, epsilon, size', ('linf', 1 / 255, 0.25 / 255), ('l2', 0.05, 0.0125))
@pytest.mark.filterwarnings('ignore::DeprecationWarning')  # the package's own
def test_errors_agree_within_their_paired_interval(norm, epsilon, size, shared_dir, cifar10_dir):
  pytest.importorskip('torch', reason='compares with foolbox on PyTorch')
  pytest.importorskip('foolbox', reason='compares with foolbox')
  from benchmarks import pgd_against_foolbox as benchmark
  from benchmarks.heatmap_against_pytorch import networks
  from input_pipeline import load
  from input_pipeline.settings import DataSettings
  from robustness.core.rows import ArrayRows

  (file,) = (shared_dir / 'data/weights').glob('cifar10_resnet20-*.th')
  settings = DataSettings(
    source='tfds', name='cifar10', data_dir=str(cifar10_dir), num_images=IMAGES
  )
  batch = next(load(settings, 0).batches(IMAGES))
  data = ArrayRows(batch['image'], batch['label'], benchmark.subject.CLASSES)
  study = benchmark.AttackError(
    norm=norm, epsilon=epsilon, steps=5, step_size=size, random_start=False
  )
  peer, network = networks(str(file))
  own = benchmark.predictions(benchmark.ours(network, study), data)
  other = benchmark.foolbox_attack(peer, data, study, IMAGES)()
  assert 0.15 < other.mean() < 0.95, 'the case leaves images right and wrong'
  b, c = (other & ~own).sum(), (own & ~other).sum()
  _, low, high = paired_difference(b, c, IMAGES)
  assert low <= 0 <= high and mcnemar(b, c) > 0.05
  assert int(b + c) <= 2, 'from the image both take the same steps, to rounding'
  assert np.mean(own == other) >= 0.96
