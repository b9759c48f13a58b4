"""A callable gives the records of the native network with the same weights, or says why not."""

from __future__ import annotations

import dataclasses
import pathlib
import warnings

import jax
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import Views, identity
from robustness.models import catalog, weights
from robustness.models.cifar_resnet import CifarResNet
from robustness.models.classifier import Classifier, from_linen
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.pmap import PmapParallel
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.networks import CLASSES, SHAPE, tiny_classifier, tiny_rows

KEY = random_keys.stream(0, 'fourier_heatmap')
RESNET8 = dataclasses.replace(catalog.get('resnet20'), name='resnet8', network=CifarResNet(10, 8))
MEAN, STD = (np.asarray(value, np.float32) for value in (RESNET8.mean, RESNET8.std))


def evaluator(classifier: Classifier, parallel=None, **changes) -> Evaluator:
  parallel = parallel or MeshParallel(jax.devices()[:1])
  return dataclasses.replace(
    Evaluator(classifier, FourierHeatmap(norm=2.0).views(SHAPE), KEY, parallel), **changes
  )


def columns(
  runner: Evaluator, path: pathlib.Path, rows: ArrayRows, batch_size: int = 8, views: int = 7
) -> dict[str, np.ndarray]:
  records = Records(path, runner.layout(rows.num_examples, batch_size, views), {})
  runner.evaluate(rows, records)
  return {name: records.column(name) for name in ('prediction', 'rank', 'probability', 'label')}


def assert_same(recorded: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
  for name in ('prediction', 'rank', 'label'):
    np.testing.assert_array_equal(recorded[name], expected[name], err_msg=name)
  np.testing.assert_allclose(recorded['probability'], expected['probability'], rtol=1e-4, atol=1e-6)


def callable_of(native: Classifier, **changes) -> Classifier:
  """Wraps a native classifier as a function of NumPy arrays."""
  forward = jax.jit(lambda images: native.forward(native.variables, images, ())[0])
  arguments = {'name': native.name, **changes}
  return Classifier.from_callable(
    lambda images: np.asarray(forward(images)), SHAPE, CLASSES, **arguments
  )


@pytest.mark.parametrize('parallel', [MeshParallel, PmapParallel])
def test_logits_are_recorded_on_request(parallel, tmp_path: pathlib.Path) -> None:
  native, rows, recorded = tiny_classifier(), tiny_rows(13), {}
  for name, classifier in (('native', native), ('callable', callable_of(native))):
    runner = evaluator(classifier, parallel(), outputs=classifier.select_outputs(('logits',)))
    records = Records(tmp_path / name, runner.layout(13, 8, 7), {})
    runner.evaluate(rows, records)
    recorded[name] = records.column('output/logits', 3)
  assert recorded['native'].shape == (13, len(CLASSES))
  np.testing.assert_allclose(recorded['callable'], recorded['native'], rtol=1e-4, atol=1e-5)


@pytest.fixture
def module():
  """A PyTorch ResNet-8 with random weights."""
  torch = pytest.importorskip('torch', reason='a PyTorch module needs torch')
  from tests.models import parity, torch_networks

  network = torch_networks.CifarResNet(8, num_classes=len(CLASSES)).eval()
  parity.randomise(network, seed=3)
  return torch, network


@pytest.fixture
def native_records(module, tmp_path: pathlib.Path) -> dict[str, np.ndarray]:
  state = {name: tensor.numpy() for name, tensor in module[1].state_dict().items()}
  network = from_linen(
    RESNET8.build(len(CLASSES)),
    weights.import_variables(RESNET8, state),
    name='resnet8',
    input_shape=SHAPE,
    class_names=CLASSES,
    mean=MEAN,
    std=STD,
  )
  return columns(evaluator(network), tmp_path / 'native', tiny_rows())


def channels_first(images: np.ndarray) -> np.ndarray:
  return np.ascontiguousarray(((images - MEAN) / STD).transpose(0, 3, 1, 2))


def test_a_pytorch_module_gives_the_records_of_the_native_network(
  module, native_records, tmp_path: pathlib.Path
) -> None:
  torch, network = module

  def predict(images: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
      return network(torch.from_numpy(channels_first(images))).numpy()

  classifier = Classifier.from_callable(predict, SHAPE, CLASSES, name='pytorch')
  recorded = columns(evaluator(classifier, MeshParallel()), tmp_path / 'found', tiny_rows())
  assert_same(recorded, native_records)


def test_an_onnx_file_gives_the_records_of_the_native_network(
  module, native_records, tmp_path: pathlib.Path
) -> None:
  pytest.importorskip('onnx', reason='exporting needs onnx')
  runtime = pytest.importorskip('onnxruntime', reason='running the file needs onnxruntime')
  torch, network = module
  path = str(tmp_path / 'network.onnx')
  with warnings.catch_warnings():  # torch announces another exporter, which needs more packages
    warnings.simplefilter('ignore')
    torch.onnx.export(
      network, (torch.zeros(4, SHAPE[2], *SHAPE[:2]),), path, dynamo=False, input_names=['images']
    )
  session = runtime.InferenceSession(path, providers=['CPUExecutionProvider'])
  classifier = Classifier.from_callable(
    lambda images: session.run(None, {'images': channels_first(images)})[0],
    SHAPE,
    CLASSES,
    name='onnx',
    batch_size=4,
  )
  assert_same(columns(evaluator(classifier), tmp_path / 'found', tiny_rows()), native_records)


@pytest.mark.parametrize('create', [lambda: MeshParallel(jax.devices()[:3]), PmapParallel])
@pytest.mark.parametrize(('batch_size', 'views'), [(8, 5), (0, 0)])
def test_same_records_for_any_cut_and_devices(
  create, batch_size, views, tmp_path: pathlib.Path
) -> None:
  native = tiny_classifier()
  expected = columns(evaluator(native), tmp_path / 'native', tiny_rows())
  runner = evaluator(callable_of(native), create())
  assert_same(columns(runner, tmp_path / 'found', tiny_rows(), batch_size, views), expected)


def test_probabilities_give_the_records_of_logits(tmp_path: pathlib.Path) -> None:
  native = tiny_classifier()
  softmax = jax.jit(lambda x: jax.nn.softmax(native.forward(native.variables, x, ())[0]))
  classifier = Classifier.from_callable(
    lambda x: np.asarray(softmax(x)), SHAPE, CLASSES, outputs='probabilities'
  )
  recorded = columns(evaluator(classifier), tmp_path / 'found', tiny_rows())
  assert_same(recorded, columns(evaluator(native), tmp_path / 'native', tiny_rows()))


def test_a_resumed_run_calls_for_what_is_missing_only(tmp_path: pathlib.Path) -> None:
  native, calls = callable_of(tiny_classifier()), []

  def counted(images: np.ndarray) -> np.ndarray:
    calls.append(len(images))
    return native.predict(np.clip(images, 0, 1))

  runner = evaluator(Classifier.from_callable(counted, SHAPE, CLASSES))
  first = columns(runner, tmp_path, tiny_rows())
  assert calls == [8] * 3 * len(runner.views), 'every block is padded to the same size'
  sorted(tmp_path.glob('*.npz'))[0].unlink()
  calls.clear()
  again = columns(runner, tmp_path, tiny_rows())
  assert calls == [8] * 7
  for name in first:
    np.testing.assert_array_equal(again[name], first[name])


def failing(answer) -> Evaluator:
  return evaluator(Classifier.from_callable(answer, SHAPE, CLASSES, name='mine'))


@pytest.mark.parametrize(
  ('answer', 'message'),
  [
    (lambda x: np.zeros((len(x), 5), np.float32), r'returned shape \(8, 5\).*not \(8, 4\)'),
    (lambda x: x.sum((1, 2, 3)), r'returned shape \(8,\)'),
    (lambda x: np.zeros((len(x), 4), int), 'returned int64; logits are floats'),
    (lambda x: np.full((len(x), 4), 0.25), "probabilities.*outputs='probabilities'"),
    (lambda x: 1 / 0, 'ZeroDivisionError: division by zero'),
    (lambda x: None, r'returned shape \(\)'),
  ],
)
def test_what_a_callable_does_wrong_is_said_with_examples_and_view(answer, message) -> None:
  runner = failing(answer)
  with pytest.raises(InputError, match=r'mine failed on examples 0 to 7, view 0 \(fy=.*' + message):
    list(runner.shards(tiny_rows(), runner.layout(21, 8, 7)))


def test_the_examples_of_the_last_block_are_named_without_padding() -> None:
  def late(images):
    if not images[-1].any():
      raise RuntimeError('connection lost')
    return np.tile(np.arange(4, dtype=np.float32), (len(images), 1))

  rows, runner = (
    tiny_rows(),
    evaluator(Classifier.from_callable(late, SHAPE, CLASSES), views=identity()),
  )
  with pytest.raises(InputError, match=r'examples 16 to 20, view 0 .*RuntimeError: connection los'):
    list(runner.shards(rows, runner.layout(21, 8, 1)))


def test_nan_names_the_example_and_the_view() -> None:
  def broken(images):
    logits = np.tile(np.arange(4, dtype=np.float32), (len(images), 1))
    logits[images[:, 0, 0, 0] > 2] = np.nan
    return logits

  rows = tiny_rows()
  rows.images[13, 0, 0, 0] = 1.0
  runner = dataclasses.replace(failing(broken), views=FourierHeatmap(norm=9.0).views(SHAPE))
  with pytest.raises(InputError, match=r'mine gives logits that are not finite for example \d+, v'):
    list(runner.shards(rows, runner.layout(21, 8, 7)))


def test_a_study_that_needs_gradients_is_refused() -> None:
  def attack(key, row, view, logits):
    return row['image'] + jax.grad(lambda x: logits(x[None])[0, 0])(row['image'])

  views = Views(attack, np.zeros(1, np.int32), {'size': np.zeros(1)}, uses_classifier=True)
  runner = dataclasses.replace(failing(lambda x: x), views=views)
  with pytest.raises(InputError, match='mine is a callable, which has no gradient'):
    list(runner.shards(tiny_rows(), runner.layout(21, 8, 1)))


def test_layers_are_refused() -> None:
  classifier = callable_of(tiny_classifier())
  assert classifier.select_layers(()) == ()
  with pytest.raises(InputError, match=r'whose layers cannot be seen.*layers=\(\).*stages'):
    classifier.select_layers(('stages',))


def test_rows_outside_0_1_are_refused_before_anything_is_computed() -> None:
  rows = tiny_rows()
  rows.images[13, 2, 2, 1] = 255
  for classifier in (tiny_classifier(), callable_of(tiny_classifier())):
    runner = evaluator(classifier)
    with pytest.raises(InputError, match=r'example 13 has values in \[.*, 255\].*divide'):
      list(runner.shards(rows, runner.layout(21, 8, 7)))
