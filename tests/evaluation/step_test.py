"""Tests that a callable has the records of the JAX network that it wraps, and refused callables."""

from unittest import mock

import jax
import numpy as np
import pytest

from robustness.evaluation.records import Records
from robustness.evaluation.views import Views, stored_view
from robustness.models.classifier import Classifier
from robustness.parallel import MeshParallel, PmapParallel
from tests.cases import cases
from tests.evaluation.runner_test import HEATMAP, evaluator
from tests.networks import CLASSES, SHAPE, tiny_classifier, tiny_rows
from tests.refusals import refused


def columns(runner, path, batch_size=8, views=7):
  """Writes records of 21 tiny rows and returns their columns."""
  records = Records(path, runner.layout(21, batch_size, views), {})
  runner.evaluate(tiny_rows(), records)
  return {name: records.column(name) for name in ('prediction', 'rank', 'probability', 'label')}


def assert_same(recorded, expected):
  """Checks that columns are equal, and probabilities up to rounding."""
  for name in ('prediction', 'rank', 'label'):
    np.testing.assert_array_equal(recorded[name], expected[name], err_msg=name)
  np.testing.assert_allclose(recorded['probability'], expected['probability'], rtol=1e-4, atol=1e-6)


def callable_of(native, **changes):
  """Returns a classifier that calls a JAX network as a function on NumPy arrays."""
  forward = jax.jit(lambda images: native.forward(native.variables, images, ())[0])
  return wrapped(lambda images: np.asarray(forward(images)), **{'name': native.name, **changes})


def wrapped(answer, **changes):
  return Classifier.from_callable(answer, SHAPE, CLASSES, **changes)


def records_of_both(native, parallel, folder, **changes):
  """Returns the records of a callable and of the JAX network that it wraps."""
  recorded = []
  for name, classifier in (('callable', callable_of(native)), ('native', native)):
    runner = evaluator(parallel(), classifier=classifier, **changes)
    recorded.append(Records(folder / name, runner.layout(13, 8, 7), {}))
    runner.evaluate(tiny_rows(13), recorded[-1])
  return recorded


@pytest.mark.slow
@pytest.mark.parametrize('parallel', [MeshParallel, PmapParallel])
def test_logits_are_recorded_on_request(parallel, tmp_path):
  native = tiny_classifier()
  outputs = native.select_outputs(('logits',))
  assert callable_of(native).select_outputs(('logits',)) == outputs
  recorded = records_of_both(native, parallel, tmp_path, outputs=outputs)
  logits, expected = (records.column('output/logits', 3) for records in recorded)
  assert expected.shape == (13, len(CLASSES))
  np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('parallel', [MeshParallel, PmapParallel])
def test_a_summary_of_logits_equals_that_of_the_network_in_jax(parallel, tmp_path):
  changes = {'outputs': ('logits',), 'summarise_output': lambda _, z: z.max(1) - z.min(1)}
  recorded = records_of_both(tiny_classifier(), parallel, tmp_path, **changes)
  summary, expected = (records.table('output/logits') for records in recorded)
  assert expected.shape == (13, len(HEATMAP))
  np.testing.assert_allclose(summary, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('create', [lambda: MeshParallel(jax.devices()[:3]), PmapParallel])
@cases('batch_size, views', (8, 5), (0, 0))
def test_records_do_not_depend_on_shards_and_devices(create, batch_size, views, tmp_path):
  native = tiny_classifier()
  expected = columns(evaluator(classifier=native), tmp_path / 'native')
  runner = evaluator(create(), classifier=callable_of(native))
  assert_same(columns(runner, tmp_path / 'callable', batch_size, views), expected)


def test_a_resumed_run_calls_the_function_only_for_missing_shards(tmp_path):
  native = callable_of(tiny_classifier())
  counted = mock.Mock(side_effect=lambda images: native.predict(np.clip(images, 0, 1)))
  runner = evaluator(classifier=wrapped(counted))
  first = columns(runner, tmp_path)
  assert counted.call_count == 3 * len(runner.views)
  sorted(tmp_path.glob('*.npz'))[0].unlink()
  resumed = columns(runner, tmp_path)
  sizes = [len(call.args[0]) for call in counted.call_args_list]
  assert sizes == [8] * (3 * len(runner.views) + 7), 'every block is padded to the same size'
  for name in first:
    np.testing.assert_array_equal(resumed[name], first[name])


def assert_fails(answer, message, **changes):
  """Checks that the evaluation of a function raises an InputError with this message."""
  runner = evaluator(classifier=wrapped(answer, name='mine'), **changes)
  refused(message, list, runner.shards(tiny_rows(), runner.layout(21, 8, 7)))


@cases(
  'answer, message',
  (lambda x: np.zeros((len(x), 5), np.float32), r'returned shape \(8, 5\).*not \(8, 4\)'),
  (lambda x: x.sum((1, 2, 3)), r'returned shape \(8,\)'),
  (lambda x: np.zeros((len(x), 4), int), 'returned int64; logits are floats'),
  (lambda x: np.full((len(x), 4), 0.25), "probabilities.*outputs='probabilities'"),
  (lambda x: 1 / 0, 'ZeroDivisionError: division by zero'),
  (lambda x: None, r'returned shape \(\)'),
)
def test_faults_of_a_callable_name_the_examples_and_the_view(answer, message):
  assert_fails(answer, r'mine failed on examples 0 to 7, view 0 \(fy=.*' + message)


def test_the_examples_of_the_last_block_are_named_without_padding():
  def fails_on_padding(images):
    if not images[-1].any():
      raise RuntimeError('connection lost')
    return np.tile(np.arange(4, dtype=np.float32), (len(images), 1))

  assert_fails(
    fails_on_padding,
    'examples 16 to 20, view 0 .*RuntimeError: connection lost',
    views=stored_view(),
  )


def test_studies_of_gradients_and_layers_are_refused():
  def attack(key, row, view, logits):
    return row['image'] + jax.grad(lambda x: logits(x[None])[0, 0])(row['image'])

  views = Views(attack, np.zeros(1, np.int32), {'size': np.zeros(1)}, uses_classifier=True)
  assert_fails(lambda x: x, 'mine is a callable, which has no gradient', views=views)
  classifier = callable_of(tiny_classifier())
  assert classifier.select_layers(()) == ()
  message = r'whose layers cannot be seen.*layers=\(\).*stages'
  refused(message, classifier.select_layers, ('stages',))
  message = 'a callable, whose layers cannot be seen, and the study records logits, features'
  refused(message, classifier.select_outputs, ('logits', 'features'))
