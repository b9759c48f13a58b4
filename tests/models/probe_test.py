"""A classifier's outputs on fixed images tell functions apart, not the last digits of one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.evaluation.records import TOLERANCES, Layout, Records
from robustness.models import from_file, probe
from robustness.models.classifier import Classifier
from tests.networks import tiny_classifier

SHAPE = (6, 5, 3)
WEIGHTS = np.random.default_rng(3).normal(size=(90, 4)).astype(np.float32)


def classifier(function: Callable[[np.ndarray], np.ndarray], **more) -> Classifier:
  return Classifier.from_callable(function, SHAPE, 'abcd', **more)


def linear(weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
  return lambda images: images.reshape(len(images), -1) @ weights


def test_sixteen_numbers_the_same_each_time() -> None:
  first = probe.probe(classifier(linear(WEIGHTS)))
  assert len(first) == 16 and np.isfinite(first).all() and len(set(first)) == 16
  assert probe.probe(classifier(linear(WEIGHTS))) == first
  assert len(probe.probe(tiny_classifier())) == 16


def test_images_are_different_and_in_range() -> None:
  images = probe.fixed_images(SHAPE)
  assert images.dtype == np.float32 and images.shape == (4, *SHAPE)
  assert images.min() >= 0 and images.max() <= 1
  assert len({image.tobytes() for image in images}) == 4


@pytest.mark.parametrize(
  ('change', 'same'), [(1e-6, True), (1e-4, True), (1e-2, False), (1.0, False)]
)
def test_records_take_the_same_network_and_refuse_another(tmp_path, change, same) -> None:
  other = WEIGHTS * (1 + change * np.sign(np.random.default_rng(4).normal(size=WEIGHTS.shape)))
  layout = Layout(1, 1, 1, 1)
  first, second = (
    {'classifier': {probe.KEY: probe.probe(classifier(linear(w.astype(np.float32))))}}
    for w in (WEIGHTS, other)
  )
  Records(tmp_path, layout, first).write(0, 0, {'rank': np.zeros((1, 1), np.int32)})
  if same:
    assert Records(tmp_path, layout, second).identity == first, 'the first is kept'
  else:
    with pytest.raises(InputError, match=probe.KEY):
      Records(tmp_path, layout, second)
  assert TOLERANCES == {probe.KEY: probe.TOLERANCE}


def test_probabilities_of_zero_are_finite() -> None:
  def certain(images: np.ndarray) -> np.ndarray:
    return np.eye(4, dtype=np.float32)[np.zeros(len(images), int)]

  assert np.isfinite(probe.probe(classifier(certain, outputs='probabilities'))).all()


def test_a_function_that_draws_is_named_as_such() -> None:
  generator = np.random.default_rng(0)
  assert probe.probe(classifier(lambda x: generator.normal(size=(len(x), 4)))) == probe.RANDOM


def test_a_function_that_fails_on_them_is_told_when_the_file_is_loaded(tmp_path) -> None:
  (tmp_path / 'mine.py').write_text("""
from __future__ import annotations
import dataclasses
import numpy as np
from robustness.models.classifier import Classifier

@dataclasses.dataclass
class Network:
  size: int = 64

  def __call__(self, images):
    assert len(images) == self.size, 'not 64 images'
    return np.zeros((len(images), 2), np.float32)

network = Classifier.from_callable(Network(), (6, 5, 3), 'ab')
fixed = Classifier.from_callable(Network(), (6, 5, 3), 'ab', batch_size=64)
""")
  with pytest.raises(InputError, match='AssertionError: not 64 images.*give batch_size='):
    from_file.load(f'{tmp_path}/mine.py:network', 'mine')
  assert len(from_file.load(f'{tmp_path}/mine.py:fixed', 'mine').provenance[probe.KEY]) == 16
