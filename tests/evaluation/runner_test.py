"""The evaluation loop: same numbers for any cut, devices, jit or pmap; resume; bad rows."""

import dataclasses
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.core.rows import ArrayRows
from robustness.evaluation.provenance import image_digests
from robustness.evaluation.records import Layout, Records
from robustness.evaluation.runner import Evaluator, summarise
from robustness.evaluation.views import Views, identity
from robustness.models.classifier import Classifier
from robustness.parallel.mesh import MeshParallel
from robustness.parallel.pmap import PmapParallel
from robustness.studies import corruption_error
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.networks import CLASSES, SHAPE, tiny_classifier, tiny_rows

KEY = random_keys.stream(0, 'fourier_heatmap')
PARALLELS = [
  lambda: MeshParallel(jax.devices()[:1]),
  lambda: MeshParallel(jax.devices()[:3]),
  MeshParallel,
  lambda: PmapParallel(jax.devices()[:2]),
  PmapParallel,
]


def evaluator(parallel=None, layers=(), classifier: Classifier | None = None) -> Evaluator:
  views = FourierHeatmap(norm=2.0).views(SHAPE)
  return Evaluator(
    classifier or tiny_classifier(), views, KEY, parallel or MeshParallel(jax.devices()[:1]), layers
  )


def table(runner: Evaluator, rows: ArrayRows, batch_size: int, views: int) -> dict[str, np.ndarray]:
  layout = runner.layout(rows.num_examples, batch_size, views)
  parts: dict[str, np.ndarray] = {}
  for _, _, shard in runner.shards(rows, layout):
    for name, values in shard.arrays.items():
      if values.ndim == 2:
        empty = np.full((layout.num_rows, layout.num_views), -1, values.dtype)
        full = parts.setdefault(name, empty)
        full[shard.rows, shard.views] = values
  return parts


def by_hand(rows: ArrayRows) -> dict[str, np.ndarray]:
  """One image and one view at a time, without the runner."""
  classifier, views = tiny_classifier(), FourierHeatmap(norm=2.0).views(SHAPE)

  @jax.jit
  def logits(image, example, view_id, parameters):
    key = random_keys.for_example(KEY, example, view_id)
    shown = views.show(key, {'image': image}, parameters)
    return classifier.forward(classifier.variables, shown[None], ())[0][0]

  scores = np.stack(
    [
      np.stack(
        [
          logits(image, example, views.ids[v], {k: p[v] for k, p in views.parameters.items()})
          for v in range(len(views))
        ]
      )
      for example, image in enumerate(rows.images)
    ]
  )
  own = np.take_along_axis(scores, rows.labels[:, None, None], 2)
  softmax = np.exp(scores - scores.max(-1, keepdims=True))
  softmax /= softmax.sum(-1, keepdims=True)
  return {
    'prediction': scores.argmax(-1),
    'rank': (scores > own).sum(-1),
    'probability': np.take_along_axis(softmax, rows.labels[:, None, None], 2)[..., 0],
    'confidence': softmax.max(-1),
  }


@pytest.fixture(scope='module')
def expected() -> dict[str, np.ndarray]:
  return by_hand(tiny_rows())


@pytest.mark.parametrize('create', PARALLELS)
@pytest.mark.parametrize(('batch_size', 'views'), [(8, 5), (24, 100), (0, 0)])
def test_same_numbers_for_any_cut_and_device_layout(create, batch_size, views, expected) -> None:
  recorded = table(evaluator(create()), tiny_rows(), batch_size, views)
  np.testing.assert_array_equal(recorded['prediction'], expected['prediction'])
  np.testing.assert_array_equal(recorded['rank'], expected['rank'])
  for name in ('probability', 'confidence'):
    np.testing.assert_allclose(recorded[name], expected[name], rtol=2e-5)


def test_layer_change_is_the_norm_of_the_difference() -> None:
  rows, classifier = tiny_rows(4), tiny_classifier()
  recorded = table(evaluator(layers=('stage1', 'logits')), rows, 4, 7)
  views, view = FourierHeatmap(norm=2.0).views(SHAPE), 5
  parameters = {k: v[view] for k, v in views.parameters.items()}
  shown = jnp.stack(
    [
      views.show(random_keys.for_example(KEY, e, views.ids[view]), {'image': x}, parameters)
      for e, x in enumerate(rows.images)
    ]
  )
  layers = ('stage1', 'logits')
  clean, changed = (
    classifier.forward(classifier.variables, x, layers)[1] for x in (rows.images, shown)
  )
  for name in layers:
    norm = np.linalg.norm((clean[name] - changed[name]).reshape(4, -1), axis=1)
    np.testing.assert_allclose(recorded[f'layer_change/{name}'][:, view], norm, rtol=1e-4)
    assert not recorded[f'layer_change/{name}'][:, 0].any(), 'the clean view changes nothing'


def test_pad_rows_never_reach_the_records_and_each_row_counts_once(tmp_path: pathlib.Path) -> None:
  rows, runner = tiny_rows(21), evaluator(MeshParallel())
  records = Records(tmp_path, runner.layout(21, 8, 6), {})
  runner.evaluate(rows, records)
  np.testing.assert_array_equal(records.column('example_id'), np.arange(21))
  np.testing.assert_array_equal(records.column('label'), rows.labels)
  assert not records.missing()


def test_records_keep_the_columns_of_rows_but_no_images(tmp_path: pathlib.Path) -> None:
  plain = tiny_rows(21)
  columns = {
    'severity': np.arange(21, dtype=np.int32),
    'boxes': np.ones((21, 4), np.float32),
    'path': np.array([f'clip/{index}.jpg' for index in range(21)]),
    'object': plain.images[:, :2],
  }
  rows = dataclasses.replace(plain, columns=columns)
  runner = evaluator(MeshParallel())
  records = Records(tmp_path, runner.layout(21, 8, 6), {})
  runner.evaluate(rows, records)
  for name in ('severity', 'boxes', 'path'):
    np.testing.assert_array_equal(records.column(name), columns[name])
  with pytest.raises(InputError, match="no column 'object'"):
    records.column('object')


@pytest.mark.parametrize('create', PARALLELS)
def test_a_view_sees_the_columns_of_its_row(create) -> None:
  levels = np.linspace(0, 1, 5, dtype=np.float32)
  rows = dataclasses.replace(tiny_rows(5), columns={'level': levels})
  views = dataclasses.replace(identity(), show=lambda key, row, view: row['image'] * row['level'])
  runner = Evaluator(tiny_classifier(), views, KEY, create(), (), ('logits',))
  ((_, _, shard),) = runner.shards(rows, runner.layout(5))
  shown = rows.images * levels[:, None, None, None]
  expected = tiny_classifier().predict(shown)
  np.testing.assert_allclose(shard['output/logits'][:, 0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('create', [MeshParallel, lambda: PmapParallel(jax.devices()[:2])])
def test_a_row_is_prepared_before_its_views(create) -> None:
  runner = evaluator(create())

  def show(key, row, view):
    return row['half'] + runner.views.show(key, {'image': row['half']}, view)

  def prepare(row):
    return {**{k: v for k, v in row.items() if k != 'image'}, 'half': row['image'] / 2}

  def show_alone(key, row, view):
    return show(key, prepare(row), view)

  prepared = dataclasses.replace(
    runner, views=dataclasses.replace(runner.views, show=show, prepare=prepare)
  )
  alone = dataclasses.replace(runner, views=dataclasses.replace(runner.views, show=show_alone))
  recorded, expected = (table(each, tiny_rows(), 8, 5) for each in (prepared, alone))
  np.testing.assert_array_equal(recorded['rank'], expected['rank'])
  np.testing.assert_allclose(recorded['probability'], expected['probability'], rtol=1e-5)


def test_images_of_another_size_are_resized_to_what_the_classifier_takes() -> None:
  rows, (height, width, channels) = tiny_rows(3), SHAPE
  wide = (2 * height, 4 * width, channels)
  ramp = np.broadcast_to(((np.arange(4 * width) + 0.5) / (4 * width))[None, :, None], wide)
  views = dataclasses.replace(
    identity(), image_shape=wide, show=lambda key, row, view: jnp.asarray(ramp, jnp.float32)
  )
  runner = Evaluator(tiny_classifier(), views, KEY, MeshParallel(jax.devices()[:1]))
  batch = {'image': rows.images, 'example_id': np.arange(3)}
  shown, _ = runner.show(None, batch, (views.ids[0], {'identity': jnp.int32(0)}))
  assert shown.shape == (3, *SHAPE)
  expected = (np.arange(width) + width // 2 + 0.5) / (2 * width)
  np.testing.assert_allclose(shown[1, 2, :, 0], expected, rtol=1e-5)
  grey = dataclasses.replace(views, image_shape=(12, 20, 1))
  with pytest.raises(InputError, match='the data have 12 × 20 × 1'):
    next(Evaluator(tiny_classifier(), grey, KEY, MeshParallel()).shards(rows, runner.layout(3)))


def test_a_resumed_run_computes_only_what_is_missing(tmp_path: pathlib.Path) -> None:
  rows, runner = tiny_rows(21), evaluator()
  records = Records(tmp_path, runner.layout(21, 8, 6), {})
  runner.evaluate(rows, records)
  before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.glob('*.npz')}
  victims = sorted(before)[1:3]
  for name in victims:
    (tmp_path / name).unlink()
  runner.evaluate(rows, Records(tmp_path, runner.layout(21, 8, 6), {}))
  for name, (content, time) in before.items():
    path = tmp_path / name
    assert path.read_bytes() == content, 'bit for bit'
    assert (path.stat().st_mtime_ns == time) == (name not in victims)


def test_processes_share_the_blocks(tmp_path: pathlib.Path) -> None:
  rows, runner = tiny_rows(21), evaluator()
  records = Records(tmp_path, runner.layout(21, 4, 40), {})
  runner.evaluate(rows, records, process=1, processes=2)
  assert sorted(records.missing()) == [0, 2, 4]
  runner.evaluate(rows, records, process=0, processes=2)
  assert not records.missing()


def test_compiles_once(tmp_path: pathlib.Path) -> None:
  runner = evaluator(MeshParallel())
  runner.evaluate(tiny_rows(21), Records(tmp_path, runner.layout(21, 8, 4), {}))
  assert runner.compiled._function._cache_size() == 1


@pytest.mark.parametrize('create', PARALLELS)
def test_the_layout_does_not_depend_on_the_devices(create) -> None:
  one = evaluator(create())
  assert one.layout(100, 12, 3) == Layout(100, 17, 12, 3)
  assert one.layout(5).block_rows == 5
  assert one.layout(1000) == Layout(1000, 17, 500, 17)
  assert one.step_rows(one.layout(100, 12, 3)) % one.parallel.num_devices == 0


def test_a_map_of_imagenet_leaves_some_thousand_files() -> None:
  size = 224, 224, 3
  views = FourierHeatmap(norm=15.7, window=63).views(size)
  runner = dataclasses.replace(evaluator(), views=dataclasses.replace(views, image_shape=size))
  layout = runner.layout(50_000)
  assert layout.num_views == 1986 and 4096 <= layout.num_blocks * layout.num_chunks < 5000
  few = runner.layout(20)
  assert few.block_rows * few.chunk_views <= 32768 * 32**2 / 224**2


@pytest.mark.parametrize(
  ('rows', 'block', 'steps'), [(420, 64, 53), (20, 20, 3), (50_000, 64, 6250)]
)
def test_steps_of_large_images_are_full(rows: int, block: int, steps: int) -> None:
  views = dataclasses.replace(evaluator().views, image_shape=(224, 224, 3))
  runner = dataclasses.replace(evaluator(), views=views)
  layout = runner.layout(rows)
  assert layout.block_rows == block
  sizes = [layout.rows(number) for number in range(layout.num_blocks)]
  taken = runner.step_rows(layout)
  assert taken <= 8 and sum(-(-(s.stop - s.start) // taken) for s in sizes) == steps


def test_a_run_goes_on_with_other_devices(tmp_path: pathlib.Path) -> None:
  rows, layout = tiny_rows(21), evaluator().layout(21, 6, 5)
  whole = Records(tmp_path / 'whole', layout, {})
  evaluator().evaluate(rows, whole)
  parts = Records(tmp_path / 'parts', layout, {})
  for create, shards in zip(PARALLELS, (3, 2, 4, 3, 100), strict=True):
    for block, chunk, shard in evaluator(create()).shards(rows, layout, parts.missing()):
      parts.write(block, chunk, shard.arrays)
      shards -= 1
      if not shards:
        break
  assert not parts.missing()
  for name in ('prediction', 'rank', 'example_id'):
    columns = [records.column(name) for records in (whole, parts)]
    np.testing.assert_array_equal(*columns)
  np.testing.assert_array_equal(whole.table('rank'), parts.table('rank'))
  np.testing.assert_allclose(whole.table('probability'), parts.table('probability'), rtol=2e-5)


def test_image_digests_tell_images_apart_and_lie_in_the_records() -> None:
  rows = tiny_rows()
  runner = evaluator()
  layout = runner.layout(rows.num_examples, 8, 100)
  recorded = [shard['image_digest'] for _, _, shard in runner.shards(rows, layout)]
  np.testing.assert_array_equal(np.concatenate(recorded), image_digests(rows.images))
  assert len(set(image_digests(rows.images).tolist())) == len(rows.images)


def test_ties_go_to_the_lower_class_so_that_rank_zero_is_a_right_prediction() -> None:
  logits = jnp.asarray([[1.0, 1.0, 0.0, 0.0]] * 4)
  recorded = summarise(logits, jnp.arange(4))
  np.testing.assert_array_equal(recorded['rank'], [0, 1, 2, 3])
  np.testing.assert_array_equal(recorded['prediction'], [0, 0, 0, 0])


def test_several_labels_count_as_right_if_any_is() -> None:
  logits = jnp.asarray([[3.0, 2.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0], [-jnp.inf, 2.0, 1.0, 0.0]])
  recorded = summarise(logits, jnp.asarray([[2, 0, -1], [3, -1, -1], [1, -1, -1]]))
  np.testing.assert_array_equal(recorded['rank'], [0, 3, 0])
  assert recorded['finite'].all()
  largest = np.exp(3) / np.exp([3, 2, 1, 0]).sum()
  np.testing.assert_allclose(recorded['probability'][0], largest, rtol=1e-6)
  rest = np.exp(2) / np.exp([2, 1, 0]).sum()
  np.testing.assert_allclose(recorded['confidence'], [largest, largest, rest], rtol=1e-6)


def test_views_may_use_the_classifier() -> None:
  """A gradient step up the loss, as an attack makes it, lowers the true class's probability."""

  def attack(key, row, view, logits):
    def loss(image):
      return -jax.nn.log_softmax(logits(image[None])[0])[row['label']]

    return row['image'] + view['size'] * jnp.sign(jax.grad(loss)(row['image']))

  views = Views(
    attack,
    np.arange(2, dtype=np.int32),
    {'size': np.asarray([0, 0.05], np.float32)},
    uses_classifier=True,
  )
  runner = dataclasses.replace(evaluator(MeshParallel()), views=views)
  probability = table(runner, tiny_rows(16), 16, 2)['probability']
  assert (probability[:, 1] < probability[:, 0]).all()


def test_non_finite_logits_name_example_and_view() -> None:
  classifier = tiny_classifier()

  def forward(variables, images, layers):
    logits, outputs = classifier.forward(variables, images, layers)
    bad = (images[:, 0, 0, 0] > 2)[:, None]
    return jnp.where(bad, jnp.nan, logits), outputs

  rows = tiny_rows(21)
  rows.images[13, 0, 0, 0] = 1.0
  broken = dataclasses.replace(classifier, forward=forward)
  runner = evaluator(classifier=broken)
  loud = dataclasses.replace(runner, views=FourierHeatmap(norm=9.0).views(SHAPE))
  with pytest.raises(InputError, match=r'not finite for example \d+, view \d+ \(fy='):
    table(loud, rows, 8, 5)


@pytest.mark.parametrize(
  ('answer', 'message'),
  [
    (lambda z: (z[:, :3], {}), r'gives \(8, 3\) for 8 images and 4 class names.* give \(8, 4\)'),
    (lambda z: (jnp.pad(z, ((0, 0), (0, 1))), {}), r'gives \(8, 5\) for 8 images'),
    (lambda z: (z[:5], {}), r'gives \(5, 4\) for 8 images'),
    (lambda z: (z.astype(jnp.int32), {}), 'gives int32; logits are floats'),
    (lambda z: (jax.nn.softmax(z), {}), 'gives probabilities .* where logits are expected'),
    (lambda z: (jax.nn.softmax(z).astype(jnp.bfloat16), {}), 'gives probabilities'),
    (lambda z: z, 'forward of tiny returned .*; it must return the pair'),
    (lambda z: (z, None), 'forward of tiny returned tuple; it must return the pair'),
  ],
)
def test_a_function_in_jax_that_gives_no_logits_is_refused(answer, message, tmp_path) -> None:
  classifier, rows = tiny_classifier(), tiny_rows(21)

  def forward(variables, images, layers):
    return answer(classifier.forward(variables, images, layers)[0])

  runner = evaluator(classifier=dataclasses.replace(classifier, forward=forward))
  records = Records(tmp_path, runner.layout(21, 8, 4), {})
  with pytest.raises(InputError, match=message):
    runner.evaluate(rows, records)
  with pytest.raises(InputError, match=message.replace('8 images', '21 images').replace('8', '21')):
    runner.classifier.predict(rows.images)
  assert len(records.missing()) == 3, 'nothing was recorded'


def test_a_function_that_leaves_jax_is_refused(tmp_path) -> None:
  classifier, rows = tiny_classifier(), tiny_rows(21)

  def forward(variables, images, layers):
    return classifier.forward(variables, jnp.asarray(np.asarray(images)), layers)

  runner = evaluator(classifier=dataclasses.replace(classifier, forward=forward))
  with pytest.raises(InputError, match=r'forward of tiny cannot be compiled .*from_callable'):
    runner.evaluate(rows, Records(tmp_path, runner.layout(21, 8, 4), {}))


def test_a_function_in_jax_need_not_know_that_its_logits_are_a_layer(tmp_path) -> None:
  classifier, rows = tiny_classifier(), tiny_rows(21)

  def forward(variables, images, layers):
    return classifier.forward(variables, images, ())[0], {}

  runner = evaluator(classifier=dataclasses.replace(classifier, forward=forward))
  runner = dataclasses.replace(runner, outputs=('logits',))
  records = Records(tmp_path, runner.layout(21, 8, 4), {})
  runner.evaluate(rows, records)
  assert records.column('output/logits').shape == (21, 4)


def test_logits_that_are_computed_twice_have_one_rank() -> None:
  """XLA puts cheap logits into each use of them, where they may differ in the last digit."""
  rows = tiny_rows(200)
  shift = np.linspace(0, 1, 4, dtype=np.float32)[None]

  def forward(variables, images, layers):
    return -80 * (images.mean((1, 2, 3))[:, None] - shift) ** 2, {}

  cheap = Classifier('cheap', forward, {}, SHAPE, CLASSES)
  runner = Evaluator(cheap, identity(), KEY, MeshParallel(jax.devices()[:1]))
  found = table(runner, rows, 200, 1)
  right = found['prediction'][:, 0] == rows.labels
  np.testing.assert_array_equal(found['rank'][:, 0] == 0, right)
  assert right.any() and not right.all()


def test_a_layer_that_a_function_in_jax_leaves_out_is_named() -> None:
  classifier = tiny_classifier()

  def forward(variables, images, layers):
    return classifier.forward(variables, images, ())

  runner = evaluator(None, ('stage1',), dataclasses.replace(classifier, forward=forward))
  with pytest.raises(InputError, match=r"tiny was asked for the layer 'stage1' and gives \[\]"):
    table(runner, tiny_rows(8), 8, 5)


def test_one_row_of_logits_that_looks_like_probabilities_is_no_reason_to_refuse() -> None:
  classifier = tiny_classifier()

  def forward(variables, images, layers):
    logits = classifier.forward(variables, images, layers)[0]
    return logits.at[0].set(jnp.array([1.0, 0, 0, 0])), {}

  runner = evaluator(classifier=dataclasses.replace(classifier, forward=forward))
  assert (table(runner, tiny_rows(8), 8, 5)['prediction'][0] == 0).all()


def test_rows_are_traced_and_not_computed() -> None:
  runner = evaluator(classifier=tiny_classifier())
  runner.check(tiny_rows(8))
  assert 'compiled' not in runner.__dict__
  stored = dataclasses.replace(
    runner, views=corruption_error.CorruptionError(source='stored').views(SHAPE)
  )
  with pytest.raises(InputError, match='the rows have no corruption'):
    stored.check(tiny_rows(8))


def test_label_outside_the_classes_names_the_example() -> None:
  rows = tiny_rows()
  rows.labels[17] = 4
  with pytest.raises(InputError, match=r'example 17 has label 4; tiny has classes 0\.\.3'):
    table(evaluator(), rows, 8, 5)


def test_one_hot_labels_of_rows_of_ones_own_are_refused() -> None:
  rows = tiny_rows()
  several = dataclasses.replace(rows, labels=np.stack([rows.labels, -np.ones_like(rows.labels)], 1))
  object.__setattr__(several, 'labels', np.eye(4, dtype=np.int32)[rows.labels])
  with pytest.raises(InputError, match=r'example 0 has label .* an image has each once'):
    table(evaluator(), several, 8, 5)


def test_images_of_another_shape_are_refused() -> None:
  rows = ArrayRows(np.zeros((3, 8, 5, 3), np.float32), np.zeros(3, int), CLASSES)
  with pytest.raises(InputError, match=r'takes images of 6 × 5 × 3 .* have 8 × 5 × 3'):
    table(evaluator(), rows, 8, 5)


@pytest.mark.parametrize('create', PARALLELS)
def test_rows_shown_one_by_one_are_the_same(create) -> None:
  rows, runner = tiny_rows(21), evaluator(create())
  expected = table(runner, rows, 8, 6)
  sequential = dataclasses.replace(runner, views=dataclasses.replace(runner.views, sequential=True))
  recorded = table(sequential, rows, 8, 6)
  for name in ('prediction', 'rank'):
    np.testing.assert_array_equal(recorded[name], expected[name])
  np.testing.assert_allclose(recorded['probability'], expected['probability'], rtol=1e-5)
