"""Tests classifiers that adapt to a stream of images: its order, its numbers on any devices."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from robustness.config import experiment
from robustness.config.defaults import default_config
from robustness.core import random_keys
from robustness.evaluation.adapting import ORDER, AdaptingEvaluator
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import Views
from robustness.measurement import evaluator_for
from robustness.models.adaptation import Adaptation, ImageBatch
from robustness.models.adaptation.cotta import Cotta
from robustness.models.adaptation.eata import Eata
from robustness.models.adaptation.sar import Sar
from robustness.models.adaptation.statistics import Statistics
from robustness.models.adaptation.tent import Tent
from robustness.models.adaptation.zero import Zero
from robustness.models.classifier import from_linen
from robustness.parallel import MeshParallel, PmapParallel
from robustness.studies.corruption_error import CorruptionError
from tests.cases import cases
from tests.networks import CLASSES, SHAPE, tiny_rows
from tests.refusals import bad_setting, refused

KEY = random_keys.stream(0, 'corruption_error')
ROWS = tiny_rows(21)
TENT = Tent(batch_size=8, learning_rate=0.05)
CONTINUAL = dataclasses.replace(TENT, protocol='continual')


class Normalised(nn.Module):
  """A convolution with batch normalisation, then a dense layer."""

  @nn.compact
  def __call__(self, x, train=False):
    x = nn.BatchNorm(not train, name='norm')(nn.Conv(4, (3, 3), name='stage1')(x))
    return nn.Dense(len(CLASSES), name='head')(nn.relu(x).mean((1, 2)) * 8)


def adapting(adaptation):
  """Returns a classifier of random weights that adapts in this way."""
  module = Normalised()
  variables = module.init(jax.random.key(0), jnp.zeros((1, *SHAPE)))
  named = {'name': 'normalised', 'input_shape': SHAPE, 'class_names': CLASSES}
  facts = {**named, 'mean': (0.5,), 'std': (0.3,), 'provenance': {'seed': 0}}
  return from_linen(module, variables, **facts).with_adaptation(adaptation)


def darker(key, row, view):
  """Shows a darker image with some noise."""
  return row['image'] * view['factor'] + 0.1 * jax.random.uniform(key, SHAPE)


VIEWS = Views(darker, np.arange(3, dtype=np.int32), {'factor': np.array([0.9, 0.6, 0.3])})


def evaluator(adaptation, parallel=None, kind=AdaptingEvaluator, **stream):
  parallel = parallel or MeshParallel(jax.devices()[:1])
  return kind(adapting(adaptation), VIEWS, KEY, parallel, **stream)


def recorded(adaptation, folder, parallel=None, **stream):
  """Writes records of `ROWS`, by default as a single stream."""
  runner = evaluator(adaptation, parallel, **{'stream_rows': 21, **stream})
  records = Records(folder, runner.layout(21), {})
  runner.evaluate(ROWS, records)
  return records


def files(folder):
  """Returns the bytes of the shards in a folder, by name."""
  return {path.name: path.read_bytes() for path in sorted(folder.glob('*.npz'))}


@pytest.mark.shared_bits
@cases(
  'adaptation',
  TENT,
  CONTINUAL,
  Statistics(batch_size=8, order='label_shift'),
  Tent(batch_size=8, steps=2, protocol='episodic'),
  Eata(batch_size=8, margin=1.0, redundancy=2.0, learning_rate=0.05, fisher_images=8),
  Sar(batch_size=8, margin=1.0, learning_rate=0.05, fixed_layers=()),
  Cotta(batch_size=8, num_views=2, threshold=1.0),
  Zero(batch_size=8, num_views=6),
)
def test_records_are_the_same_bytes_on_any_devices_and_after_an_interruption(adaptation, tmp_path):
  recorded(adaptation, tmp_path / 'one')
  expected = files(tmp_path / 'one')
  assert len(expected) == len(VIEWS)
  recorded(adaptation, tmp_path / 'mesh', MeshParallel())
  recorded(adaptation, tmp_path / 'pmap', PmapParallel())
  for name in list(expected)[1:]:
    (tmp_path / 'mesh' / name).unlink()
  recorded(adaptation, tmp_path / 'mesh', MeshParallel())
  assert files(tmp_path / 'mesh') == expected
  if not isinstance(adaptation, Eata):
    assert files(tmp_path / 'pmap') == expected
  for name in expected:  # without AVX-512, pmap's program of EATA rounds single values otherwise
    by_jit, by_pmap = (np.load(tmp_path / folder / name) for folder in ('one', 'pmap'))
    for field in ('prediction', 'rank'):
      np.testing.assert_array_equal(by_pmap[field], by_jit[field])
    for field in ('probability', 'confidence'):
      np.testing.assert_allclose(by_pmap[field], by_jit[field], atol=3e-7)


@pytest.mark.slow
@cases('adaptation', TENT, CONTINUAL)
def test_rows_are_shown_in_random_order_and_recorded_by_example(adaptation, tmp_path):
  key = jax.random.fold_in(KEY, ORDER)
  bits = [int(jax.random.bits(jax.random.fold_in(key, example))) for example in range(21)]
  order, classifier = np.argsort(bits), adapting(adaptation)
  assert (order != np.arange(21)).any()
  expected, state = np.zeros((21, 3)), None

  @jax.jit
  def step(images, state):
    image_batch = ImageBatch(
      images, jnp.ones(len(images), bool), jax.random.split(KEY, len(images))
    )
    apply = lambda variables, images: classifier.apply(variables, images, ())  # noqa: E731
    return adaptation(apply, classifier.variables, state, image_batch)

  for view in range(3):
    if state is None or not adaptation.is_continual:
      state = adaptation.begin(classifier.variables, classifier.linen_layers(), 4)
    for places in np.split(order, (8, 16)):
      keys = [random_keys.for_example(KEY, place, view) for place in places]
      pairs = zip(keys, ROWS.images[places], strict=True)
      level = {'factor': VIEWS.parameters['factor'][view]}
      images = jnp.stack([darker(key, {'image': image}, level) for key, image in pairs])
      (logits, _), state = step(images, state)
      shares = jax.nn.softmax(logits)
      expected[places, view] = shares[np.arange(len(places)), ROWS.labels[places]]
  measured = recorded(adaptation, tmp_path).table('probability')
  np.testing.assert_allclose(measured, expected, rtol=1e-4, atol=1e-5)
  np.testing.assert_array_equal(Records.open(tmp_path).column('example_id'), np.arange(21))


@cases('fisher_images', 8, pytest.param(100, marks=pytest.mark.slow))
def test_eata_observes_mixed_classes_where_the_stream_shows_class_after_class(fisher_images):
  eata = Eata(batch_size=8, margin=1.0, redundancy=2.0, fisher_images=fisher_images)
  sorted_rows = dataclasses.replace(ROWS, labels=np.sort(ROWS.labels))
  fisher = {}
  for order in ('random', 'label_shift'):
    runner = evaluator(dataclasses.replace(eata, order=order), stream_rows=21)
    layout = runner.layout(21)
    (block,) = runner.blocks_on_devices(sorted_rows, layout)
    views = runner._chunk_of_views(layout, 0)
    variables = runner.classifier.variables
    outputs, (initial, _) = runner.run_chunk(variables, block.step_batches, views, None)
    assert len(outputs) == 3, 'batches that were only observed are not predicted'
    fisher[order] = initial['fisher']
  jax.tree.map(np.testing.assert_array_equal, fisher['label_shift'], fisher['random'])


def test_an_adaptation_with_the_statistics_of_training_alone_changes_nothing(tmp_path):
  adapted = recorded(Statistics(batch_size=8, source_weight=1.0), tmp_path / 'adapting')
  runner = evaluator(None, kind=Evaluator)
  records = Records(tmp_path / 'source', runner.layout(21), {})
  runner.evaluate(ROWS, records)
  for name in ('prediction', 'rank', 'probability'):
    np.testing.assert_allclose(adapted.table(name), records.table(name), rtol=1e-6, err_msg=name)


def test_each_stored_corruption_and_severity_is_a_stream():
  stored = dataclasses.replace(ROWS, facts={'parts': 3})
  execution, devices = experiment.Execution(), MeshParallel()
  study = CorruptionError(corruptions=('fog',), constants=32)
  streams = {}
  for name, rows in (('made', ROWS), ('stored', stored)):
    layout = evaluator_for(execution, study, adapting(TENT), rows, devices).layout(21)
    streams[name] = layout.num_blocks, layout.block_rows, layout.chunk_views
  assert streams == {'made': (1, 21, 1), 'stored': (3, 7, 1)}


@cases('parts', 1, 3)
def test_eata_takes_no_clean_images_from_a_stored_corrupted_set(parts):
  stored = dataclasses.replace(ROWS, facts={'parts': parts})
  study = CorruptionError(corruptions=('fog',), constants=32)
  arguments = experiment.Execution(), study, adapting(Eata()), stored, MeshParallel()
  refused('those of a stored set are corrupted', evaluator_for, *arguments)


@cases(
  'study, changes, message',
  ('attack_error', {}, "name is 'attack_error', which needs answers that do not depend on"),
  ('fourier_heatmap', {}, "name is 'fourier_heatmap', which needs answers that do not depend on"),
  ('corruption_error', {'study.half_width': 0.1}, bad_setting('config.study.half_width', 0.1)),
  ('corruption_error', {'batch_size': 64}, bad_setting('config.batch_size', 64)),
  ('accuracy', {'views_per_step': 2}, bad_setting('config.views_per_step', 2)),
)
def test_studies_and_settings_that_do_not_fit_a_stream_are_refused(study, changes, message):
  config = default_config(study)
  config.classifier.adaptation.name = 'tent'
  config.update_from_flattened_dict(changes)
  refused(message, experiment.from_config, config.to_dict())


def test_the_identity_of_records_holds_the_adaptation():
  facts = adapting(TENT).provenance['adaptation']
  assert facts == TENT.describe()
  assert facts['batch_size'] == 8 and adapting(None).provenance == {'seed': 0}


@dataclasses.dataclass(frozen=True)
class Returning(Adaptation):
  """An adaptation that returns what `change` makes of logits, outputs of layers and state."""

  change: Callable = None

  def __call__(self, apply, variables, state, batch):
    logits, outputs = apply(variables, batch.images)
    return self.change(logits, outputs, state)


@cases(
  'change, message',
  (lambda z, outputs, state: ((z[:, :3], outputs), state), r"'adapting_test' gives \(8, 3\)"),
  (lambda z, outputs, state: ((z[:1], outputs), state), r'gives \(1, 4\) for 8 images'),
  (lambda z, outputs, state: ((z > 0, outputs), state), 'gives bool'),
  (lambda z, outputs, state: (z, outputs), r'must return \(\(logits, outputs\), state\)'),
  (lambda z, outputs, state: (z, state), r'must return \(\(logits, outputs\), state\)'),
  (lambda z, outputs, state: ((z * jnp.nan, outputs), state), 'not finite.*adaptation'),
)
def test_an_adaptation_that_returns_no_logits_is_refused(change, message, tmp_path):
  adaptation = Returning(batch_size=8, change=change)
  refused(message, recorded, adaptation, tmp_path)
  if 'not finite' not in message:  # the shapes show it before a training
    untrained = evaluator(adaptation, stream_rows=21)
    shapes = jax.eval_shape(lambda: untrained.classifier.variables)
    classifier = dataclasses.replace(untrained.classifier, variables=shapes)
    refused(message, dataclasses.replace(untrained, classifier=classifier).check, ROWS)


def test_an_adaptation_may_return_logits_in_bfloat16(tmp_path):
  def half(logits, outputs, state):
    return (logits.astype(jnp.bfloat16), outputs), state

  halved = recorded(Returning(batch_size=8, change=half), tmp_path / 'half')
  exact = recorded(Returning(batch_size=8, change=lambda *x: (x[:2], x[2])), tmp_path / 'exact')
  probability = [records.table('probability') for records in (halved, exact)]
  np.testing.assert_allclose(*probability, atol=0.02)
