"""A classifier in a user's Python file goes through a whole run beside a native one."""

from __future__ import annotations

import pathlib

import ml_collections
import numpy as np
import pandas as pd
import pytest

from robustness import run as launch
from robustness.core.errors import InputError
from robustness.models import weights
from tests.classifiers_test import builder, rows
from tests.end_to_end import runs

SOURCE = """
import jax
import numpy as np
from robustness.models import catalog, weights
from robustness.models.classifier import Classifier

variables, _ = weights.load_variables({path!r})
module = catalog.get('small_cnn').build(10)
forward = jax.jit(lambda images: module.apply(variables, images))

def network():
  return Classifier.from_callable(lambda images: np.asarray(forward(images)), (28, 28, 1),
                                  [str(digit) for digit in range(10)])
"""


@pytest.fixture
def config(tmp_path: pathlib.Path) -> ml_collections.ConfigDict:
  """The default experiment with a native network and the same one in a Python file."""
  path = runs.save_weights(tmp_path / 'digits.safetensors', 'small_cnn')
  (tmp_path / 'mine.py').write_text(SOURCE.format(path=path))
  changed = runs.shrunk('fourier_heatmap')
  for classifier in changed.classifiers.values():
    classifier.train = False
  changed.classifiers.natural.weights = path
  changed.classifiers.gaussian.name = f'{tmp_path / "mine.py"}:network'
  return changed


def test_results_are_those_of_the_native_network(config, tmp_path: pathlib.Path) -> None:
  results = runs.run(config, tmp_path / 'run')
  own = results.table[results.table['quantity'].isin(['error', 'clean_error', 'accuracy'])]
  native, wrapped = (
    own[(own.classifier == label) & (own.versus == '')] for label in ('natural', 'gaussian')
  )
  assert len(native) > 13
  np.testing.assert_array_equal(native[['value', 'low', 'high']], wrapped[['value', 'low', 'high']])
  described = runs.document(tmp_path / 'run')['classifier'][1]
  assert described['kind'] == 'callable' and len(described['file_sha256']) == 64


def test_records_of_other_weights_of_the_same_file_are_refused(
  config, tmp_path: pathlib.Path
) -> None:
  """The file reads its weights from another one, whose content its own digest does not see."""
  del config.classifiers['natural']
  results = runs.run(config, tmp_path / 'run')
  (tmp_path / 'run/results.json').unlink()
  shards = sorted((tmp_path / 'run/records').glob('*/*.npz'))
  shards[0].unlink()
  runs.save_weights(tmp_path / 'digits.safetensors', 'small_cnn', seed=1)
  with pytest.raises(InputError, match=r'(?s)classifier\.outputs_on_fixed_images: \[.*Use another'):
    runs.run(config, tmp_path / 'run')
  assert not shards[0].exists()
  runs.save_weights(tmp_path / 'digits.safetensors', 'small_cnn', seed=0)
  pd.testing.assert_frame_equal(runs.run(config, tmp_path / 'run').table, results.table)


@pytest.mark.parametrize(
  ('key', 'value', 'message'),
  [
    ('study.layers', ('stages',), r'gaussian is a callable, whose layers cannot be seen'),
    ('classifiers.gaussian.train', True, 'brings its own weights'),
    ('classifiers.gaussian.name', 'none.py:network', 'there is no file none.py'),
    ('classifiers.gaussian.label_space', 'imagenet_vid', 'gaussian tells 10 classes apart'),
  ],
)
def test_what_it_cannot_do_is_refused_before_the_run(
  config, key, value, message, tmp_path: pathlib.Path
) -> None:
  config.update_from_flattened_dict({key: value})
  with pytest.raises(InputError, match=message):
    launch.run(config.to_dict(), tmp_path / 'run')
  assert not (tmp_path / 'run' / 'records').exists()


def test_saved_class_names_are_matched_by_name(tmp_path: pathlib.Path) -> None:
  path = tmp_path / 'net.safetensors'
  variables = weights.load_variables(runs.save_weights(path, 'small_cnn', num_classes=3))[0]
  weights.save_variables(path, variables, {'class_names': ['cat', 'ant', 'bee']})
  sections = {'net': {'name': 'small_cnn', 'weights': str(path)}}
  (classifier,) = builder(tmp_path, sections).build()
  assert classifier.class_names == ('cat', 'ant', 'bee')
  with pytest.raises(InputError, match="first 'dog'.*matched by name"):
    builder(tmp_path, sections, rows(class_names=('ant', 'bee', 'dog'))).build()
