"""Tests the evaluation loop: numbers for any shards and devices, resumed runs, and bad rows."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.evaluation.layout import Layout
from robustness.evaluation.measurements import summarise
from robustness.evaluation.provenance import image_digests
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.views import Views, stored_view
from robustness.models.classifier import Classifier
from robustness.parallel import MeshParallel, PmapParallel
from robustness.studies import corruption_error
from robustness.studies.attack_error import AttackError
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.cases import cases
from tests.networks import CLASSES, SHAPE, tiny_classifier, tiny_rows
from tests.refusals import refused

KEY = random_keys.stream(0, 'fourier_heatmap')
PARALLELS = [
  lambda: MeshParallel(jax.devices()[:1]),
  lambda: MeshParallel(jax.devices()[:3]),
  MeshParallel,
  lambda: PmapParallel(jax.devices()[:2]),
  PmapParallel,
]
"""Functions that return a way to compute on one, some or all devices."""
HEATMAP = FourierHeatmap(norm=2.0).views(SHAPE)
"""Seventeen views."""


def evaluator(parallel=None, **changes):
  """Returns an evaluator of the tiny classifier in `HEATMAP`, by default on one device."""
  parallel = parallel or MeshParallel(jax.devices()[:1])
  changes = {'classifier': tiny_classifier(), 'views': HEATMAP, **changes}
  return Evaluator(key=KEY, parallel=parallel, **changes)


def table(runner, rows, batch_size, views):
  """Returns the fields [rows, views] of the shards that the runner computes."""
  layout = runner.layout(rows.num_examples, batch_size, views)
  parts = {}
  for _, _, shard in runner.shards(rows, layout):
    for name, values in shard.arrays.items():
      if values.ndim == 2:
        empty = np.full((layout.num_rows, layout.num_views), -1, values.dtype)
        parts.setdefault(name, empty)[shard.rows, shard.views] = values
  return parts


def recorded_by(runner, rows, folder):
  """Writes and returns records of shards of 8 rows and 6 views."""
  records = Records(folder, runner.layout(rows.num_examples, 8, 6), {})
  runner.evaluate(rows, records)
  return records


def answering(answer, **changes):
  """Returns an evaluator of a function `(forward of the tiny network, images, layers)`."""
  tiny = tiny_classifier()

  def forward(variables, images, layers):
    return answer(functools.partial(tiny.forward, variables), images, layers)

  return evaluator(classifier=dataclasses.replace(tiny, forward=forward), **changes)


def parameters_of(views, number):
  """Returns the parameters of one view, by name."""
  return {name: values[number] for name, values in views.parameters.items()}


@pytest.fixture(scope='module')
def expected():
  """Returns the fields [rows, views] from one image and one view at a time, without the runner."""
  classifier, rows = tiny_classifier(), tiny_rows()

  @jax.jit
  def logits(image, example, view_id, parameters):
    key = random_keys.for_example(KEY, example, view_id)
    image_in_view = HEATMAP.show(key, {'image': image}, parameters)
    return classifier.forward(classifier.variables, image_in_view[None], ())[0][0]

  views = [(HEATMAP.ids[v], parameters_of(HEATMAP, v)) for v in range(len(HEATMAP))]
  images = enumerate(rows.images)
  scores = np.array([[logits(image, e, *view) for view in views] for e, image in images])
  labels, softmax = rows.labels[:, None, None], special.softmax(scores, -1)
  return {
    'prediction': scores.argmax(-1),
    'rank': (scores > np.take_along_axis(scores, labels, 2)).sum(-1),
    'probability': np.take_along_axis(softmax, labels, 2)[..., 0],
    'confidence': softmax.max(-1),
  }


@pytest.mark.parametrize('create', PARALLELS)
@cases(
  'shard_size, sequential',
  ((8, 5), False),
  *(
    pytest.param(*case, marks=pytest.mark.shared_bits)
    for case in (((24, 100), False), ((0, 0), False), ((8, 6), True))
  ),
)
def test_numbers_do_not_depend_on_shards_and_devices(create, shard_size, sequential, expected):
  runner = evaluator(create(), views=dataclasses.replace(HEATMAP, sequential=sequential))
  recorded = table(runner, tiny_rows(), *shard_size)
  np.testing.assert_array_equal(recorded['prediction'], expected['prediction'])
  np.testing.assert_array_equal(recorded['rank'], expected['rank'])
  for name in ('probability', 'confidence'):
    np.testing.assert_allclose(recorded[name], expected[name], rtol=2e-5)


@pytest.mark.shared_bits
def test_an_accelerator_computes_views_together_unless_they_are_sequential(monkeypatch, expected):
  monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
  runner = evaluator(views=dataclasses.replace(HEATMAP, sequential=False))
  one_by_one = evaluator(views=dataclasses.replace(HEATMAP, sequential=True))
  numbers_of_views = (8, 6, 7)  # their largest divisors up to 4 are 4, 3 and 1
  assert [runner._group_size(n) for n in numbers_of_views] == [4, 3, 1]
  assert [one_by_one._group_size(n) for n in numbers_of_views] == [1, 1, 1]
  recorded = table(runner, tiny_rows(), 8, 8)
  for name, values in expected.items():
    np.testing.assert_allclose(recorded[name], values, atol=1e-5)


def test_layer_change_is_the_norm_of_the_difference():
  rows, classifier, view = tiny_rows(4), tiny_classifier(), 5
  layers, parameters = ('stage1', 'logits'), parameters_of(HEATMAP, view)
  recorded = table(evaluator(layers=layers), rows, 4, 7)
  keys = [random_keys.for_example(KEY, example, HEATMAP.ids[view]) for example in range(4)]
  pairs = zip(keys, rows.images, strict=True)
  perturbed = jnp.stack([HEATMAP.show(key, {'image': x}, parameters) for key, x in pairs])
  clean, changed = (
    classifier.forward(classifier.variables, images, layers)[1]
    for images in (rows.images, perturbed)
  )
  for name in layers:
    norm = np.linalg.norm((clean[name] - changed[name]).reshape(4, -1), axis=1)
    np.testing.assert_allclose(recorded[f'layer_change/{name}'][:, view], norm, rtol=1e-4)
    assert not recorded[f'layer_change/{name}'][:, 0].any(), 'the clean view changes nothing'


def test_records_hold_the_columns_of_each_row_once_but_no_images(tmp_path):
  base_rows = tiny_rows(21)
  columns = {
    'severity': np.arange(21, dtype=np.int32),
    'boxes': np.ones((21, 4), np.float32),
    'path': np.array([f'clip/{index}.jpg' for index in range(21)]),
  }
  rows = dataclasses.replace(base_rows, columns={**columns, 'object': base_rows.images[:, :2]})
  runner = evaluator(MeshParallel())
  records = recorded_by(runner, rows, tmp_path)
  assert not records.missing() and runner.compiled._function._cache_size() == 1
  digests = image_digests(rows.images)
  columns |= {'example_id': np.arange(21), 'label': rows.labels, 'image_digest': digests}
  assert len(set(digests.tolist())) == 21
  for name, values in columns.items():
    np.testing.assert_array_equal(records.column(name), values)
  refused("no field 'object'", records.column, 'object')


@pytest.mark.parametrize('create', PARALLELS)
def test_a_view_sees_the_columns_of_its_row(create):
  levels = np.linspace(0, 1, 5, dtype=np.float32)
  rows = dataclasses.replace(tiny_rows(5), columns={'level': levels})
  views = dataclasses.replace(
    stored_view(), show=lambda key, row, view: row['image'] * row['level']
  )
  runner = evaluator(create(), views=views, outputs=('logits',))
  ((_, _, shard),) = runner.shards(rows, runner.layout(5))
  images = rows.images * levels[:, None, None, None]
  expected = tiny_classifier().predict(images)
  np.testing.assert_allclose(shard['output/logits'][:, 0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize('create', [MeshParallel, lambda: PmapParallel(jax.devices()[:2])])
def test_a_row_is_prepared_once_before_its_views(create):
  def show(key, row, view):
    return row['half'] + HEATMAP.show(key, {'image': row['half']}, view)

  def prepare(row):
    return {**{k: v for k, v in row.items() if k != 'image'}, 'half': row['image'] / 2}

  prepared = dataclasses.replace(HEATMAP, show=show, prepare=prepare)
  within_show = dataclasses.replace(
    HEATMAP, show=lambda key, row, view: show(key, prepare(row), view)
  )
  recorded, expected = (
    table(evaluator(create(), views=views), tiny_rows(), 8, 5) for views in (prepared, within_show)
  )
  np.testing.assert_array_equal(recorded['rank'], expected['rank'])
  np.testing.assert_allclose(recorded['probability'], expected['probability'], rtol=1e-5)


def test_images_of_another_size_are_resized_for_the_classifier():
  rows, (height, width, channels) = tiny_rows(3), SHAPE
  large_shape = (2 * height, 4 * width, channels)
  columns = (jnp.arange(4 * width, dtype=jnp.float32) + 0.5) / (4 * width)
  ramp = jnp.broadcast_to(columns[None, :, None], large_shape)
  views = dataclasses.replace(
    stored_view(), image_shape=large_shape, show=lambda key, row, view: ramp
  )
  runner = evaluator(views=views)
  batch = {'image': rows.images, 'example_id': np.arange(3)}
  resized, _ = runner.show(None, batch, (views.ids[0], {'identity': jnp.int32(0)}))
  assert resized.shape == (3, *SHAPE)
  expected = (np.arange(width) + width // 2 + 0.5) / (2 * width)
  np.testing.assert_allclose(resized[1, 2, :, 0], expected, rtol=1e-5)
  grey = dataclasses.replace(views, image_shape=(12, 20, 1))
  shards = evaluator(MeshParallel(), views=grey).shards(rows, runner.layout(3))
  refused('the data have 12 × 20 × 1', next, shards)


def test_a_resumed_run_computes_only_missing_shards(tmp_path):
  rows, runner = tiny_rows(21), evaluator()
  recorded_by(runner, rows, tmp_path)
  contents = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.glob('*.npz')}
  deleted = sorted(contents)[1:3]
  for name in deleted:
    (tmp_path / name).unlink()
  recorded_by(runner, rows, tmp_path)
  for name, (content, time) in contents.items():
    assert (tmp_path / name).read_bytes() == content, 'the same bytes'
    assert ((tmp_path / name).stat().st_mtime_ns == time) == (name not in deleted)


@cases(
  'field, changed, shard, column',
  ('images', slice(None), '*', 'image_digest'),
  ('labels', slice(None), '*', 'label'),
  ('images', slice(8, 16), 'rows000001-views000001', 'image_digest'),
)
def test_records_of_other_rows_are_not_completed(tmp_path, field, changed, shard, column):
  rows, runner = tiny_rows(21), evaluator()
  recorded_by(runner, rows, tmp_path)
  missing = sorted(tmp_path.glob(f'{shard}.npz'))[-1]
  missing.unlink()
  values = getattr(rows, field).copy()
  values[changed] = values[changed][::-1]
  changed_rows = dataclasses.replace(rows, **{field: values})
  refused(
    rf'answers on other images \({column} differs\)', recorded_by, runner, changed_rows, tmp_path
  )
  assert not missing.exists()
  recorded_by(runner, rows, tmp_path)


@cases('field', 'labels', 'site')
def test_labels_and_columns_of_all_blocks_are_those_of_finished_shards(
  tmp_path, monkeypatch, field
):
  monkeypatch.setattr(ArrayRows, 'may_have_changed', lambda *_: False)  # as for unchanged files
  sites = np.repeat(['a', 'b', 'c'], 7)
  rows, runner = dataclasses.replace(tiny_rows(21), columns={'site': sites}), evaluator()
  recorded_by(runner, rows, tmp_path)
  changed = {
    'labels': {'labels': (rows.labels + (np.arange(21) == 20)) % len(CLASSES)},
    'site': {'columns': {'site': np.where(np.arange(21) == 20, 'd', sites)}},
  }[field]
  message = rf'answers on other images \({field.removesuffix("s")} differs\)'
  refused(message, recorded_by, runner, dataclasses.replace(rows, **changed), tmp_path)
  recorded_by(runner, rows, tmp_path)


def test_records_are_not_completed_with_another_set_of_columns(tmp_path):
  rows, runner = tiny_rows(21), evaluator()
  with_sites = dataclasses.replace(rows, columns={'site': np.arange(21) // 7})
  for first, second in ((rows, with_sites), (with_sites, rows)):
    folder = tmp_path / f'{len(first.columns)}'
    recorded_by(runner, first, folder)
    refused(r'answers on other images \(site differs\)', recorded_by, runner, second, folder)
    recorded_by(runner, first, folder)


def test_columns_that_views_compute_are_not_compared_with_recorded_ones(tmp_path):
  for value in (0.5, 0.25):  # another machine may round otherwise
    columns = {'brightness': np.full(21, value)}
    views = dataclasses.replace(
      HEATMAP, add_columns=lambda rows, added=columns: dataclasses.replace(rows, columns=added)
    )
    records = recorded_by(evaluator(views=views), tiny_rows(21), tmp_path)
  assert records.column('brightness').tolist() == [0.5] * 21


def test_records_of_composed_images_are_not_completed_with_other_objects(tmp_path):
  masks = np.arange(21)[:, None, None] % 2 * np.ones((21, *SHAPE[:2]), np.uint8)
  rows = dataclasses.replace(tiny_rows(21), columns={'foreground': masks})
  changed_rows = dataclasses.replace(rows, columns={'foreground': 1 - masks})
  runner = evaluator(views=dataclasses.replace(stored_view(), composes=True))
  recorded_by(runner, rows, tmp_path)
  message = r'answers on other images \(foreground_digest differs\)'
  refused(message, recorded_by, runner, changed_rows, tmp_path)
  recorded_by(runner, rows, tmp_path)


def test_each_process_computes_a_share_of_the_blocks(tmp_path):
  rows, runner = tiny_rows(21), evaluator()
  records = Records(tmp_path, runner.layout(21, 4, 40), {})
  runner.evaluate(rows, records, process=1, processes=2)
  assert sorted(records.missing()) == [0, 2, 4]
  runner.evaluate(rows, records, process=0, processes=2)
  assert not records.missing()


@pytest.mark.parametrize('create', PARALLELS)
def test_the_layout_does_not_depend_on_the_devices(create):
  runner = evaluator(create())
  assert runner.layout(100, 12, 3) == Layout(100, 17, 12, 3)
  assert runner.layout(5).block_rows == 5
  assert runner.layout(1000) == Layout(1000, 17, 500, 17)
  assert runner.step_rows(runner.layout(100, 12, 3)) % runner.parallel.num_devices == 0


def test_a_network_outside_of_jax_has_small_shards():
  runner = evaluator(classifier=dataclasses.replace(evaluator().classifier, calls_host=True))
  assert evaluator().layout(400) == Layout(400, 17, 400, 17)
  assert runner.layout(400) == Layout(400, 17, 400, 2)


LARGE = dataclasses.replace(HEATMAP, image_shape=(224, 224, 3))
"""Views of the size of ImageNet's images."""


def test_a_heat_map_of_imagenet_has_under_5000_files_and_full_steps():
  views = FourierHeatmap(norm=15.7, window=63).views(LARGE.image_shape)
  runner = evaluator(views=dataclasses.replace(views, image_shape=LARGE.image_shape))
  layout, small = runner.layout(50_000), runner.layout(20)
  assert layout.num_views == 1986 and 4096 <= layout.num_blocks * layout.num_chunks < 5000
  assert small.block_rows * small.chunk_views <= 32768 * 32**2 / 224**2  # as many pixels as of 32
  for rows, block, steps in ((420, 64, 53), (20, 20, 3), (50_000, 64, 6250)):
    runner = evaluator(views=LARGE)
    layout = runner.layout(rows)
    step_rows, blocks = runner.step_rows(layout), map(layout.rows, range(layout.num_blocks))
    assert layout.block_rows == block and step_rows <= 8
    assert sum(-(-(block.stop - block.start) // step_rows) for block in blocks) == steps


def test_ties_go_to_the_lower_class():
  ties = summarise(jnp.asarray([[1.0, 1.0, 0.0, 0.0]] * 4), jnp.arange(4))
  np.testing.assert_array_equal(ties['rank'], [0, 1, 2, 3], 'rank zero is a right prediction')
  np.testing.assert_array_equal(ties['prediction'], [0, 0, 0, 0])
  np.testing.assert_array_equal(ties['rank/first'], [0, 0, 2, 2])
  np.testing.assert_array_equal(ties['rank/last'], [1, 1, 3, 3])


def test_a_prediction_is_right_if_it_is_any_of_several_labels():
  logits = jnp.asarray([[3.0, 2.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0], [-jnp.inf, 2.0, 1.0, 0.0]])
  recorded = summarise(logits, jnp.asarray([[2, 0, -1], [3, -1, -1], [1, -1, -1]]))
  np.testing.assert_array_equal(recorded['rank'], [0, 3, 0])
  assert recorded['finite'].all()
  first, last = special.softmax([3, 2, 1, 0]), special.softmax([2, 1, 0])
  np.testing.assert_allclose(recorded['probability'][0], first[0], rtol=1e-6)
  np.testing.assert_allclose(recorded['confidence'], [first[0], first[0], last[0]], rtol=1e-6)


def test_views_may_use_the_classifier():
  """A gradient step up the loss, as an attack takes it, lowers the probability of the class."""

  def attack(key, row, view, logits):
    def loss(image):
      return -jax.nn.log_softmax(logits(image[None])[0])[row['label']]

    return row['image'] + view['size'] * jnp.sign(jax.grad(loss)(row['image']))

  sizes = {'size': np.asarray([0, 0.05], np.float32)}
  views = Views(attack, np.arange(2, dtype=np.int32), sizes, uses_classifier=True)
  runner = evaluator(MeshParallel(), views=views)
  probability = table(runner, tiny_rows(16), 16, 2)['probability']
  assert (probability[:, 1] < probability[:, 0]).all()


@cases(
  'answer, message',
  (lambda z: (z[:, :3], {}), r'gives \(8, 3\) for 8 images and 4 class names.* give \(8, 4\)'),
  (lambda z: (jnp.pad(z, ((0, 0), (0, 1))), {}), r'gives \(8, 5\) for 8 images'),
  (lambda z: (z[:5], {}), r'gives \(5, 4\) for 8 images'),
  (lambda z: (z.astype(jnp.int32), {}), 'gives int32; logits are floats'),
  (lambda z: (jax.nn.softmax(z), {}), 'gives probabilities .* where logits are expected'),
  (lambda z: (jax.nn.softmax(z).astype(jnp.bfloat16), {}), 'gives probabilities'),
  (lambda z: z, 'forward of tiny returned .*; it must return the pair'),
  (lambda z: (z, None), 'forward of tiny returned tuple; it must return the pair'),
)
def test_a_function_in_jax_that_returns_no_logits_is_refused(answer, message, tmp_path):
  rows = tiny_rows(21)
  runner = answering(lambda forward, images, layers: answer(forward(images, layers)[0]))
  records = Records(tmp_path, runner.layout(21, 8, 4), {})
  refused(message, runner.evaluate, rows, records)
  message = message.replace('8 images', '21 images').replace('8', '21')
  refused(message, runner.classifier.predict, rows.images)
  assert len(records.missing()) == 3, 'nothing was recorded'


def test_a_function_that_uses_numpy_or_lacks_a_layer_is_refused():
  runner = answering(lambda forward, images, layers: forward(np.asarray(images), layers))
  message = r'forward of tiny cannot be compiled .*from_callable'
  refused(message, table, runner, tiny_rows(8), 8, 5)
  runner = answering(lambda forward, images, _: forward(images, ()), layers=('stage1',))
  message = r"tiny was asked for the layer 'stage1' and gives \[\]"
  refused(message, table, runner, tiny_rows(8), 8, 5)


def test_a_function_in_jax_may_ignore_layers_and_return_a_row_that_looks_like_probabilities(
  tmp_path,
):
  def one_hot_first(forward, images, _):
    return forward(images, ())[0].at[0].set(jnp.array([1.0, 0, 0, 0])), {}

  records = recorded_by(answering(one_hot_first, outputs=('logits',)), tiny_rows(21), tmp_path)
  assert records.column('output/logits').shape == (21, 4)
  assert (records.table('prediction')[0] == 0).all()


def test_rank_and_prediction_agree_where_xla_computes_logits_twice():
  """XLA fuses cheap logits into each use of them, where they may differ in the last digit."""
  rows = tiny_rows(200)
  shift = np.linspace(0, 1, 4, dtype=np.float32)[None]

  def forward(variables, images, layers):
    return -80 * (images.mean((1, 2, 3))[:, None] - shift) ** 2, {}

  cheap = Classifier('cheap', forward, {}, SHAPE, CLASSES)
  recorded = table(evaluator(classifier=cheap, views=stored_view()), rows, 200, 1)
  right = recorded['prediction'][:, 0] == rows.labels
  np.testing.assert_array_equal(recorded['rank'][:, 0] == 0, right)
  assert right.any() and not right.all()


def test_rows_are_checked_without_compiling():
  runner = evaluator()
  runner.check(tiny_rows(8))
  assert 'compiled' not in runner.__dict__
  stored = evaluator(views=corruption_error.CorruptionError(source='stored').views(SHAPE))
  refused('the rows have no corruption', stored.check, tiny_rows(8))


def with_value(column, place, value):
  """Returns tiny rows with one value replaced."""
  rows = tiny_rows(21)
  getattr(rows, column)[place] = value
  return rows


def with_one_hot_labels():
  rows = tiny_rows(21)
  object.__setattr__(rows, 'labels', np.eye(4, dtype=np.int32)[rows.labels])
  return rows


def black(*shape, class_names=CLASSES):
  return ArrayRows(np.zeros((3, *shape), np.float32), np.zeros(3, int), class_names)


@cases(
  'rows, message',
  (with_value('labels', 17, 4), r'example 17 has label 4; tiny has classes 0\.\.3'),
  (with_one_hot_labels(), 'example 0 has label .* an image has each once'),
  (
    black(8, 5, 3),
    'takes images of 6 × 5 × 3 .* have 8 × 5 × 3: images are cropped to squares only',
  ),
  (black(6, 5, 1), '6 × 5 × 1: give images of 3 channels, or a classifier of 1'),
  (black(*SHAPE, class_names=(*CLASSES, 'emu')), 'the data have 5 classes, tiny has 4'),
  (with_value('images', (13, 2, 2, 1), 255), r'example 13 has values in \[.*, 255\].*divide'),
)
@pytest.mark.parametrize('native', [True, False])
def test_bad_rows_are_refused(rows, message, native):
  wrapped = Classifier.from_callable(lambda x: x[:, 0, :4, 0], SHAPE, CLASSES, name='tiny')
  runner = evaluator() if native else evaluator(classifier=wrapped)
  refused(message, table, runner, rows, 8, 5)


@pytest.mark.parametrize('native', [True, False])
def test_non_finite_logits_name_example_and_view(native):
  def broken(images, np_or_jnp=jnp):
    """Returns logits that are NaN where the first pixel is above 2."""
    return np_or_jnp.where(
      (images[:, :1, 0, 0] > 2), np_or_jnp.nan, np_or_jnp.arange(4, dtype=np_or_jnp.float32)
    )

  rows, strong = with_value('images', (13, 0, 0, 0), 1.0), FourierHeatmap(norm=9.0).views(SHAPE)
  wrapped = Classifier.from_callable(lambda x: broken(x, np), SHAPE, CLASSES, name='tiny')
  runner = answering(lambda _, images, layers: (broken(images), {}), views=strong)
  runner = runner if native else evaluator(classifier=wrapped, views=strong)
  refused(r'not finite for example \d+, view \d+ \(fy=', table, runner, rows, 8, 5)


@cases(
  'show, message',
  (
    lambda key, row, view: jnp.log(row['image'] - 2),
    r'image shown is not finite for example \d+, v',
  ),
  (lambda key, row, view: row['image'][:3], r'show images float32 \[3, 5, 3\]: .* \[6, 5, 3\]'),
  (
    lambda key, row, view: jnp.uint8(255 * row['image']),
    r'show images uint8 \[6, 5, 3\]: give floats',
  ),
)
def test_shown_images_that_are_no_images_are_refused(show, message):
  views = dataclasses.replace(stored_view(), show=show)
  # its logits are finite for NaN too
  runner = answering(lambda _, x, layers: (jnp.nan_to_num(x[:, 0, :4, 0]), {}), views=views)
  refused(message, table, runner, tiny_rows(), 8, 5)


def test_measures_in_bfloat16_are_recorded_in_float32(tmp_path):
  def measure(row, image, view):
    return {'level': image.mean().astype(jnp.bfloat16)}

  runner = evaluator(views=dataclasses.replace(stored_view(), measure=measure))
  records = Records(tmp_path, runner.layout(21), {})
  runner.evaluate(tiny_rows(), records)
  levels = Records.open(tmp_path).table('measure/level')
  assert levels.dtype == np.float32
  np.testing.assert_allclose(levels[:, 0], tiny_rows().images.mean((1, 2, 3)), rtol=0.01)


@cases(
  'changes, message',
  ({'ids': np.zeros(2, np.int32)}, 'distinct integers'),
  ({'ids': np.arange(3)}, r"'identity' of views has shape \(2,\): .* each of the 3 views"),
)
def test_views_without_distinct_ids_or_with_too_few_parameters_are_refused(changes, message):
  views = {'ids': np.arange(2), 'parameters': {'identity': np.zeros(2)}, **changes}
  refused(message, dataclasses.replace, stored_view(), **views)


def test_an_attack_of_a_network_without_a_finite_gradient_names_the_cause():
  def saturated(_, images, layers):
    scores = 1e4 * images.reshape(len(images), -1)[:, :4]
    return jnp.log(jax.nn.softmax(scores)), {}

  views = AttackError(attacks=('pgd',), epsilons=()).views(SHAPE)
  cause = r'view 1 .*gradient.*probability of exactly 0.*maximum'
  message = rf'attacked image is not finite for example \d+, {cause}'
  refused(message, table, answering(saturated, views=views), tiny_rows(), 8, 5)


SLOWER = 'pgd', 'auto_pgd', 'fab', 'square', 'auto_attack'


@pytest.mark.parametrize(
  'attack', ['fgsm', *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)]
)
def test_attacks_find_the_same_images_with_64_bits_in_jax(attack, tmp_path):
  shortened = {
    'fgsm': {},
    'square': {'queries': 4},
    'auto_attack': {'iterations': 3, 'queries': 4},
  }.get(attack, {'steps': 3})
  restarts = 2 if attack in ('pgd', 'auto_pgd', 'square') else 1
  study = AttackError(attacks=(attack,), attack={attack: shortened}, restarts=restarts)
  recorded = {}
  for bits in (32, 64):
    with jax.enable_x64(bits == 64):
      runner = evaluator(views=study.views(SHAPE))
      recorded[bits] = recorded_by(runner, tiny_rows(), tmp_path / f'{bits}')
  first, second = (recorded[bits].read(0, 0).arrays for bits in (32, 64))
  assert {k: x.dtype for k, x in first.items()} == {k: x.dtype for k, x in second.items()}
  for name, values in first.items():
    np.testing.assert_array_equal(values, second[name], name)
