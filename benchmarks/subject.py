"""The things that benchmarks measure: a network, its images, a study's evaluation, a training."""

import argparse
import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from benchmarks import timing
from robustness import parallel
from robustness.attacks import LOSSES
from robustness.augment.policy import Policy
from robustness.core import random_keys
from robustness.core.host import usable_cores
from robustness.core.rows import ArrayRows, Rows, as_float32
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Study
from robustness.models import catalog, weights
from robustness.models.classifier import Classifier, from_linen
from robustness.models.inputs import Inputs
from robustness.parallel.mesh import BATCH, REPLICATED
from robustness.training.settings import TrainingSettings
from robustness.training.step import TrainStep
from robustness.training.training import Pipeline, Training
from tests.networks import random_variables

CLASSES = tuple(map(str, range(10)))
CIFAR_RESNETS = ('resnet20', 'resnet32', 'resnet44', 'resnet56', 'resnet110')
Candidate = tuple[Callable[[], object], float]


def one_device_a_core() -> None:
  """Sets up a CPU as the launch does; to be called before JAX is used."""
  jax.config.update('jax_num_cpu_devices', usable_cores())


def one_device_and_thread_a_core() -> None:
  """Sets up one device a core for JAX and one thread a core for PyTorch."""
  one_device_a_core()
  try:
    import torch
  except ImportError:
    print("PyTorch is missing: pip install '.[torch]'", file=sys.stderr)
  else:
    torch.set_num_threads(usable_cores())


def options(
  doc: str, *, networks: Sequence[str], images: int, rounds: int = 0, clock: bool = False
) -> argparse.ArgumentParser:
  """Returns `timing.options` with the options of networks and images.

  Args:
    doc: the benchmark's docstring.
    networks: default of `--networks`; () leaves the option out.
    images: default of `--images`.
    rounds: see `timing.options`.
    clock: see `timing.options`.
  """
  parser = timing.options(doc, rounds, clock)
  if networks:
    default = list(networks)
    parser.add_argument('--networks', nargs='+', default=default, help='names of the catalog')
  parser.add_argument('--weights', default='', help='file with weights; random ones by default')
  parser.add_argument('--data', default='', help='.npz with image and label; random by default')
  parser.add_argument('--images', type=int, default=images)
  return parser


def classifier(
  name: str, file: str = '', variables: Any = None, precision: str = 'float32'
) -> Classifier:
  """Returns a network of the catalog with the weights of a file, `variables`, or random ones."""
  architecture = catalog.get(name)
  module = architecture.build(len(CLASSES), jnp.dtype(precision))
  if file:
    variables = weights.load(file, architecture, len(CLASSES))
  elif variables is None:
    variables = random_variables(name, len(CLASSES))
  return from_linen(
    module,
    jax.tree.map(jnp.asarray, variables),
    name=name,
    input_shape=architecture.input_shape,
    class_names=CLASSES,
    mean=architecture.mean,
    std=architecture.std,
  )


def rows(image_shape: tuple[int, int, int], count: int, file: str = '') -> ArrayRows:
  """Returns the first `count` rows of an .npz file, or of noise if `file` is '', as float32.

  The file has the arrays `image` [N, H, W, C], uint8 or in [0, 1], and `label` [N].
  """
  if file:
    with np.load(file, allow_pickle=False) as data:
      images, labels = data['image'][:count], data['label'][:count]
  else:
    noise = stored_rows(image_shape, count)
    images, labels = noise.images, noise.labels
  return ArrayRows(as_float32(images).astype(np.float32), labels.astype(np.int32), CLASSES)


def evaluator(network: Classifier, study: Study, count: int = 0) -> Evaluator:
  """Returns the evaluator of a study's clean view and of `count` other views.

  These are evenly spread over the study's views; a `count` of 0 takes all views.
  """
  views = study.views(network.input_shape)
  count = min(count or len(views), len(views) - 1)
  indices = np.append(0, np.linspace(1, len(views) - 1, count).astype(int))
  key = random_keys.stream(0, study.name)
  return Evaluator(network, views, key, parallel.create('jit')).with_views(indices)


def written(runner: Evaluator, data: Rows) -> Candidate:
  """Returns (function that evaluates as a run does, writing records, number of forward passes)."""
  layout = runner.layout(data.num_examples)

  def call() -> None:
    with tempfile.TemporaryDirectory() as folder:
      runner.evaluate(data, Records(pathlib.Path(folder), layout, {}))

  return call, layout.num_rows * layout.num_views


def forward(runner: Evaluator, data: ArrayRows, batch_size: int, passes: int) -> Candidate:
  """Returns a function that computes `passes` or more forward passes, and their number.

  They are passes of one image, computed in batches as `plain` does.
  """
  network = runner.classifier
  return plain(
    runner, data, batch_size, passes, lambda v, x: network.forward(v, x, ())[0].argmax(-1)
  )


def gradient(runner: Evaluator, data: ArrayRows, batch_size: int, passes: int) -> Candidate:
  """Returns a function that computes `passes` or more gradients by one image, and their number.

  They are gradients of the cross-entropy, computed in batches as `plain` does.
  """
  network = runner.classifier

  def loss(images: jax.Array, variables: Any) -> jax.Array:
    labels = jnp.zeros(len(images), jnp.int32)
    return LOSSES['cross_entropy'](network.forward(variables, images, ())[0], labels).sum()

  return plain(  # one number per image, so that storing results takes no time
    runner, data, batch_size, passes, lambda v, x: jax.grad(loss)(x, v).sum(axis=(1, 2, 3))
  )


def plain(
  runner: Evaluator,
  data: ArrayRows,
  batch_size: int,
  passes: int,
  function: Callable[[Any, jax.Array], jax.Array],
) -> Candidate:
  """Returns (function that applies `function` to images on all devices, number of these images).

  The images are on the devices before; a compiled `lax.map` goes through their batches.

  Args:
    runner: the evaluator; its network and devices are used.
    data: the images, repeated as often as needed.
    batch_size: number of images in a batch on each device.
    passes: least number of images that are passed through `function` in a call.
    function: function of (weights, images) to compute.
  """
  network, total = runner.classifier, batch_size * runner.parallel.num_devices
  steps = -(-passes // total)
  images = np.resize(as_float32(data.images), (min(steps, 16), total, *data.image_shape))
  # at most 16 batches are stored, and the compiled program is called several times
  repeats = -(-steps // len(images))

  @jax.jit
  def over_batches(variables: Any, batches: jax.Array) -> jax.Array:
    return jax.lax.map(lambda x: function(variables, x), batches)

  mesh = jax.make_mesh((runner.parallel.num_devices,), ('data',), axis_types=(AxisType.Auto,))
  variables = jax.device_put(network.variables, NamedSharding(mesh, PartitionSpec()))
  batches = jax.device_put(images, NamedSharding(mesh, PartitionSpec(None, 'data')))

  def call() -> None:
    jax.block_until_ready([over_batches(variables, batches) for _ in range(repeats)])

  return call, repeats * len(images) * total


def stored_rows(shape: tuple[int, int, int], count: int) -> ArrayRows:
  """Returns `count` uint8 images of noise with random labels."""
  generator = np.random.default_rng(0)
  images = generator.integers(0, 256, (count, *shape), np.uint8)
  labels = generator.integers(0, 10, count, np.int32)
  return ArrayRows(images, labels, CLASSES)


def training(
  name: str, rows: Any, batch: int, steps: int, precision: str = 'float32', **settings: Any
) -> Training:
  """Returns a training of the network `name` of the catalog with flips and crops.

  `settings` are further fields of `TrainingSettings`.
  """
  architecture = catalog.get(name)
  return Training(
    model=architecture.build(len(CLASSES), jnp.dtype(precision)),
    rows=rows,
    inputs=Inputs(architecture.mean, architecture.std),
    fit=architecture.fit,
    fit_rows=architecture.fit_rows,
    settings=TrainingSettings(
      steps=steps, batch_size=batch, log_every_steps=steps, checkpoint_every_steps=0, **settings
    ),
    pipeline=Pipeline(Policy.of(flip={}, crop={})),
  )


def bare_steps(task: Training, count: int) -> Candidate:
  """Returns (a function that runs `count` compiled training steps, their number of images).

  Each call of the function continues from the state of the call before. Every step takes the first
  batch of the rows, which is on the devices before.
  """
  size = task.settings.batch_size
  devices = parallel.create('jit', size)
  step = devices.compile(
    TrainStep(task, devices), (REPLICATED, BATCH), (REPLICATED, REPLICATED), donate=(0,)
  )
  # a list, so that `call` can replace the state
  state = [devices.replicate(task.initial_state())]
  batch = devices.put_batch(next(task.rows.training_batches(size, 0)))

  def call() -> None:
    for _ in range(count):
      state[0], metrics = step(state[0], batch)
    jax.block_until_ready(metrics)

  return call, count * size
