"""Classifiers out of a user's Python file."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.models import from_file

SOURCE = """
import numpy as np
from robustness.models.classifier import Classifier

def score(images):
  return images.mean((1, 2, 3))[:, None] * np.arange(3, dtype=np.float32)

def make():
  return Classifier.from_callable(score, (6, 5, 3), ('a', 'b', 'c'), provenance={'version': 2})

ready = make()
number = 3

def broken():
  raise RuntimeError('no weights here')
"""


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
  path = tmp_path / 'mine.py'
  path.write_text(SOURCE)
  return path


@pytest.mark.parametrize('name', ['make', 'ready'])
def test_a_classifier_or_what_makes_one(file, name) -> None:
  assert from_file.is_classifier(f'{file}:{name}')
  classifier = from_file.load(f'{file}:{name}', 'mine')
  assert classifier.name == 'mine' and classifier.num_classes == 3
  images = np.full((2, 6, 5, 3), 0.5, np.float32)
  np.testing.assert_allclose(classifier.predict(images), [[0, 0.5, 1.0]] * 2, rtol=1e-6)
  assert classifier.provenance['version'] == 2


def test_another_version_of_the_file_has_another_provenance(file) -> None:
  before = from_file.load(f'{file}:make', 'mine').provenance
  file.write_text(SOURCE + '\n# changed\n')
  assert from_file.load(f'{file}:make', 'mine').provenance != before


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    (':mak', "has no 'mak'.*'make'"),
    (':number', 'number in .*mine.py is a int, not a Classifier'),
    (':score', 'raised TypeError'),
    (':broken', 'mine.py:broken raised RuntimeError: no weights here'),
  ],
)
def test_what_is_no_classifier_is_named(file, name, message) -> None:
  with pytest.raises(InputError, match=message):
    from_file.load(f'{file}{name}', 'mine')


@pytest.mark.parametrize(
  ('name', 'message'),
  [
    ('softmax', 'probabilities .* where logits are expected'),
    ('more', r'gives \(4, 4\) for 4 images and 3 class names'),
    ('whole', 'gives int32; logits are floats'),
  ],
)
def test_a_function_in_jax_is_checked_when_it_is_loaded(tmp_path, name, message) -> None:
  path = tmp_path / 'own.py'
  path.write_text(
    'import jax, jax.numpy as jnp\n'
    'from robustness.models.classifier import Classifier\n'
    'def scores(x, k): return x.mean((1, 2, 3))[:, None] * jnp.arange(k)[None] * 8\n'
    'def own(f):\n'
    '  return Classifier("own", lambda v, x, l: (f(x), {}), {}, (6, 5, 3), ("a", "b", "c"))\n'
    'def softmax(): return own(lambda x: jax.nn.softmax(scores(x, 3)))\n'
    'def more(): return own(lambda x: scores(x, 4))\n'
    'def whole(): return own(lambda x: scores(x, 3).astype(jnp.int32))\n'
    'def good(): return own(lambda x: scores(x, 3))\n'
  )
  with pytest.raises(InputError, match=message) as raised:
    from_file.load(f'{path}:{name}', 'mine')
  assert 'batch_size' not in str(raised.value), 'that is advice for callables'
  assert from_file.load(f'{path}:good', 'mine').num_classes == 3
