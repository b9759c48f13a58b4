"""Published CIFAR-10 networks classify real images as published."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from robustness.models import catalog, weights


@pytest.fixture(scope='module')
def images_and_labels(cifar10_dir):
  datasets = pytest.importorskip('tensorflow_datasets')
  rows = datasets.load('cifar10', split='test[:500]', data_dir=cifar10_dir, download=False)
  rows = list(datasets.as_numpy(rows))
  images = np.stack([row['image'] for row in rows]).astype(np.float32) / 255
  return images, np.array([row['label'] for row in rows])


@pytest.mark.slow
# On these 500 the networks miss as many as on all 10,000, within binomial noise (sd .012).
@pytest.mark.parametrize(
  ('name', 'file', 'published'),
  [
    ('resnet20', 'cifar10_resnet20-12fca82f.th', 0.9173),
    ('resnet56', 'cifar10_resnet56-4bfd9763.th', 0.9339),
  ],
)
def test_accuracy_on_a_subset(shared_dir, images_and_labels, name, file, published):
  pytest.importorskip('torch')
  architecture = catalog.get(name)
  variables = weights.load(shared_dir / 'data' / 'weights' / file, architecture, num_classes=10)
  images, labels = images_and_labels
  facts = (architecture.mean, architecture.std)
  mean, std = (np.float32(value)[None, None, None] for value in facts)
  logits = jax.jit(architecture.build(10).apply)(variables, (images - mean) / std)
  assert abs(float(np.mean(np.argmax(logits, -1) == labels)) - published) < 0.036
