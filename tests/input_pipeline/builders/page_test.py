"""Tests that the code of docs/datasets.md runs, on a small base data set."""

import collections
import functools
import pathlib
import re
from typing import Any

import numpy as np
import pytest
import tensorflow_datasets as tfds

from tests.input_pipeline.builders.conftest import SIDE, pictures
from tests.input_pipeline.domains import store_labelled

LABELS = np.arange(11, dtype=np.int64) % 5  # four groups of one class, and a class left over
PAGE = pathlib.Path(__file__).resolve().parents[3] / 'docs/datasets.md'


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
  torch = pytest.importorskip('torch', reason='needs torch')
  rows = list(zip(pictures(), LABELS, strict=True))
  store_labelled(tmp_path, 'pictures', {'test': rows, 'train': rows}, 'abcde', (SIDE, SIDE, 3))
  load = functools.partial(tfds.load, data_dir=tmp_path)
  monkeypatch.setattr(tfds, 'load', load)
  text = PAGE.read_text(encoding='utf-8')
  for printed, replacement in (
    (", base_dir='~/tensorflow_datasets'", ''),
    ("base='cifar10'", f"base='pictures', base_dir='{tmp_path}'"),
    ("'test[:32]'", "'test[:4]'"),
    ("data_dir='D'", f"data_dir='{tmp_path}/elsewhere'"),
  ):
    assert printed in text
    text = text.replace(printed, replacement)
  namespace: dict[str, Any] = {}
  for block in re.findall(r'^```python\n(.*?)^```', text, re.DOTALL | re.MULTILINE):
    exec(compile(block.replace('cifar10', 'pictures'), 'docs/datasets.md', 'exec'), namespace)
  count = len(LABELS)
  (batch, labels), *_ = namespace['loader']
  assert isinstance(batch, torch.Tensor) and batch.shape == (count, 3, SIDE, SIDE)
  np.testing.assert_array_equal(labels, LABELS)
  assert (namespace['stored']['image'] != pictures()).mean() > 0.3
  np.testing.assert_array_equal(namespace['images'], namespace['stored']['image'])
  np.testing.assert_array_equal(namespace['positions'], np.arange(count))
  assert len(list(namespace['pale'])) == count and len(list(namespace['small'])) == 4
  counts = collections.Counter(int(example['label']) for example in namespace['snow'])
  assert len(counts) == 2 and all(counts[k] == 5 * np.bincount(LABELS)[k] for k in counts)
  assert len(list(namespace['train'])) > count
  assert len(list(namespace['fog'])) == count
  assert (tmp_path / 'elsewhere/corrupted').is_dir()
  assert not (tmp_path / 'elsewhere/pictures').exists(), 'the base is read where it is'
