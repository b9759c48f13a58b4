"""A natural shift through a whole run: a classifier among all classes, and among the data's."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from PIL import Image

from robustness.models.imagenet_names import WNIDS
from tests.end_to_end import runs
from tests.table_rows import estimate

pytestmark = pytest.mark.slow

SOURCE = """
import numpy as np
from robustness.models.imagenet_names import WNIDS
from robustness.models.classifier import Classifier

def scores(images):
  # most of all the last class, which the data lack; then the class four times the grey level
  logits = np.zeros((len(images), 1000), np.float32)
  logits[:, 999] = 2
  logits[np.arange(len(images)), np.rint(255 * images.mean((1, 2, 3))).astype(int) * 4] = 1
  return logits

def network():
  return Classifier.from_callable(scores, (8, 8, 3), WNIDS)
"""


def test_accuracy_is_among_all_classes_or_those_of_the_data(tmp_path: pathlib.Path) -> None:
  for label in (40, 80, 120):
    (tmp_path / 'data' / WNIDS[label]).mkdir(parents=True)
    for k in range(2):
      pixels = np.full((8, 8, 3), label // 4, np.uint8)
      Image.fromarray(pixels).save(tmp_path / 'data' / WNIDS[label] / f'{k}.png')
  (tmp_path / 'mine.py').write_text(SOURCE)
  accuracy = {}
  for space in ('', 'data'):
    config = runs.shrunk(
      'accuracy',
      changes={
        'data.source': 'natural_shifts',
        'data.name': 'imagenet_r',
        'data.path': str(tmp_path / 'data'),
        'data.allow_missing': True,
        'data.num_images': 0,
        'classifier.name': f'{tmp_path / "mine.py"}:network',
        'classifier.label_space': space,
      },
    )
    results = runs.run(config, tmp_path / f'run{space}')
    row = estimate(results.table, *results.labels, 'top1_accuracy')
    accuracy[space] = row.value
    assert results.data['classes'] == 3 and row.n == 6
  assert accuracy == {'': 0.0, 'data': 1.0}
