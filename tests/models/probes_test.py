"""Tests probes against scikit-learn on the same features, and as classifiers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy import special

from robustness.attacks.pgd import PGD
from robustness.core.rows import ArrayRows
from robustness.models import probes
from robustness.models.probes import PROBES, Linear, Neighbors, Prototype
from tests.building.builder_test import builder
from tests.cases import cases
from tests.networks import SHAPE, tiny_classifier
from tests.refusals import bad_setting, refused

NAMES = tuple('abcde')


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns features [count, 20] of five overlapping classes, and their labels."""
  generator, centres = np.random.default_rng(seed), np.random.default_rng(9).normal(size=(5, 20))
  labels = np.arange(count) % 5
  return (centres[labels] + generator.normal(size=(count, 20)) * 1.5).astype(np.float32), labels


TRAINING, TEST = drawn(500, 0), drawn(2000, 1)


def is_right(probe, arrays) -> np.ndarray:
  """Returns which of the test features a fitted probe classifies correctly."""
  return np.asarray(probe(arrays, jnp.asarray(TEST[0]))).argmax(1) == TEST[1]


@cases('penalty', 1e-3, 0.1)
@cases('classes', 5, 2)
def test_a_linear_probe_matches_scikit_learn(penalty, classes):
  linear = pytest.importorskip('sklearn.linear_model', reason='compares with scikit-learn')
  probe = Linear(penalties=(penalty,))
  (x, labels), (test, _) = ((data[0], data[1] % classes) for data in (TRAINING, TEST))
  arrays, facts = probes.fit(probe, x, labels, NAMES[:classes], 0)
  mean, std = x.mean(0), x.std(0)
  # For two classes scikit-learn has one column of weights, w; ours are w / 2 and -w / 2 and have
  # half the sum of squares.
  factor = 2 if classes == 2 else 1
  peer = linear.LogisticRegression(C=factor / (500 * penalty), max_iter=1000, tol=1e-8)
  peer.fit((x - mean) / std, labels)
  ours = special.softmax(np.asarray(probe(arrays, jnp.asarray(test))), 1)
  np.testing.assert_allclose(ours, peer.predict_proba((test - mean) / std), atol=0.005)
  assert facts['rows'] == 500 and 'chosen' not in facts


@cases('k', 1, 5, 20)
def test_nearest_neighbors_match_scikit_learn(k):
  neighbors = pytest.importorskip('sklearn.neighbors', reason='compares with scikit-learn')
  probe = Neighbors(neighbors=(k,), votes='uniform')
  arrays, _ = probes.fit(probe, *TRAINING, NAMES, 0)
  peer = neighbors.KNeighborsClassifier(k, metric='cosine').fit(*TRAINING)
  expected = peer.score(*TEST)
  assert 0.4 < expected < 0.95
  assert abs(is_right(probe, arrays).mean() - expected) <= 0.002, 'ties decide single rows'


@cases('rows_at_once', 64, pytest.param(500, marks=pytest.mark.slow))
def test_neighbors_are_searched_in_blocks_and_labels_are_integers(monkeypatch, rows_at_once):
  monkeypatch.setattr(probes, '_ROWS_AT_ONCE', rows_at_once)
  probe = Neighbors(neighbors=(7,))
  arrays, _ = probes.fit(probe, *TRAINING, NAMES, 0)
  assert arrays['labels'].shape == (500,) and arrays['labels'].dtype == np.int32
  features = TEST[0][:50]
  cosines = features / np.linalg.norm(features, axis=1, keepdims=True) @ arrays['rows'].T
  nearest = np.argsort(-cosines, 1)[:, :7]
  weights = special.softmax(np.take_along_axis(cosines, nearest, 1) / probe.temperature, 1)
  shares = np.stack([(weights * (TRAINING[1][nearest] == c)).sum(1) for c in range(5)], 1)
  logits = np.asarray(probe(arrays, jnp.asarray(features)))
  np.testing.assert_allclose(np.exp(logits), np.maximum(shares, 1e-6), atol=1e-5)
  gradient = jax.grad(lambda x: probe(arrays, x)[:, 0].sum())(jnp.asarray(features))
  assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0


def test_prototypes_are_the_nearest_class_means():
  probe = Prototype()
  arrays, _ = probes.fit(probe, *TRAINING, NAMES, 0)
  unit = TRAINING[0] / np.linalg.norm(TRAINING[0], axis=1, keepdims=True)
  means = np.stack([unit[TRAINING[1] == c].mean(0) for c in range(5)])
  cosines = TEST[0] @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
  np.testing.assert_array_equal(is_right(probe, arrays), cosines.argmax(1) == TEST[1])


@pytest.mark.slow
@cases('probe', Linear(penalties=(1e-4, 1e-2, 10.0)), Neighbors(neighbors=(1, 5, 20)))
def test_settings_are_chosen_on_held_out_rows(probe):
  _, facts = probes.fit(probe, *TRAINING, NAMES, 0)
  drawn_rows, held_out_rows = probes.drawn_rows(probe, TRAINING[1], NAMES, 0)
  assert len(drawn_rows) == 500 and len(held_out_rows) == facts['held_out_rows'] == 100
  fitted_rows = np.setdiff1d(drawn_rows, held_out_rows)
  scores = {}
  for candidate in probe.candidates():
    arrays = probe.fitted(TRAINING[0][fitted_rows], TRAINING[1][fitted_rows], 5, candidate)
    held_out = (TRAINING[0][held_out_rows], TRAINING[1][held_out_rows])
    scores[candidate], _ = probes.accuracy_and_log_loss(probe, arrays, *held_out)
  assert len(set(scores.values())) > 1
  assert scores[facts['chosen']] == max(scores.values()) == facts['held_out_accuracy']


@cases('penalties', (10.0, 1e-3, 1e-6), (1e-6, 1e-3, 10.0))
def test_the_smallest_log_loss_decides_between_equal_accuracies(penalties):
  """Far-apart classes with four mislabelled rows: every penalty is right on the same rows."""
  generator, labels = np.random.default_rng(0), np.arange(100) % 2
  features = (generator.normal(size=(100, 3)) * 0.1 + labels[:, None] * 4).astype(np.float32)
  labels[[10, 11, 30, 31]] ^= 1
  probe = Linear(penalties=penalties)
  _, held_out = probes.drawn_rows(probe, labels, NAMES[:2], 2)
  fitted = np.setdiff1d(np.arange(100), held_out)
  scores = {}
  for penalty in penalties:
    arrays = probe.fitted(features[fitted], labels[fitted], 2, penalty)
    logits = np.asarray(probe(arrays, jnp.asarray(features[held_out])), float)
    log_probabilities = special.log_softmax(logits, 1)[np.arange(len(held_out)), labels[held_out]]
    scores[penalty] = (logits.argmax(1) == labels[held_out]).mean(), -log_probabilities.mean()
  assert len({accuracy for accuracy, _ in scores.values()}) == 1
  _, facts = probes.fit(probe, features, labels, NAMES[:2], 2)
  assert facts['chosen'] == min(scores, key=lambda penalty: scores[penalty][1]) == 1e-3


def test_an_unconverged_linear_map_is_logged(monkeypatch, caplog):
  minimize = scipy.optimize.minimize
  with caplog.at_level('WARNING', 'absl'):
    Linear().fitted(*TRAINING, 5, 1e-2)
    assert not caplog.messages
    short = lambda *a, options, **k: minimize(*a, options={**options, 'maxiter': 1}, **k)  # noqa: E731
    monkeypatch.setattr(scipy.optimize, 'minimize', short)
    Linear().fitted(*TRAINING, 5, 1e-2)
  assert 'probe of penalty 0.01 is not converged: STOP' in caplog.text


def test_the_first_possible_number_of_neighbors_is_used_without_enough_rows():
  few = np.arange(0, 500, 80)[:6]  # with half of them held out, 9 and 6 neighbors are too many
  probe = Neighbors(neighbors=(9, 6), held_out=0.5)
  arrays, facts = probes.fit(probe, TRAINING[0][few], np.arange(6) % 2, ('a', 'b'), 0)
  assert len(arrays['ranks']) == facts['chosen'] == 6 and 'held_out_accuracy' not in facts


def test_seeds_draw_other_rows_of_each_class():
  probe = Prototype(rows_per_class=8)
  first, again, other = (
    probes.drawn_rows(probe, TRAINING[1], NAMES, seed)[0] for seed in (0, 0, 1)
  )
  np.testing.assert_array_equal(first, again)
  assert len(other) == 40 and len(np.setdiff1d(other, first)) > 10
  np.testing.assert_array_equal(np.bincount(TRAINING[1][first]), [8] * 5)
  pair = Linear(rows_per_class=2, held_out=0.9)
  _, held_out = probes.drawn_rows(pair, TRAINING[1], NAMES, 0)
  assert len(held_out) == 5, 'one of two rows of each class is fitted, whatever the share'


@cases(
  'labels, names, probe, message',
  (TRAINING[1] % 4, NAMES, Prototype(), "1 of 5 classes have fewer, first 'e' with 0"),
  (np.arange(500) // 499, NAMES[:2], Linear(), "needs 2 training rows .*first 'b' with 1"),
  (TRAINING[1], NAMES, Prototype(rows_per_class=101), "needs 101 .*first 'a' with 100"),
  (TRAINING[1][:, None], NAMES, Prototype(), 'several labels'),
)
def test_unsuitable_rows_are_refused(labels, names, probe, message):
  refused(message, probes.fit, probe, TRAINING[0], labels, names, 0)


def network_with(probe):
  """Returns the tiny classifier with a probe, fitted to random features of three classes."""
  network = tiny_classifier()
  size = probes.num_features(network, 'stage1')
  labels = np.arange(30) % 3
  features = np.random.default_rng(0).random((30, size), np.float32) + labels[:, None] * 0.1
  arrays, facts = probes.fit(probe, features.astype(np.float32), labels, NAMES[:3], 0)
  return probes.with_probe(network, probe, arrays, NAMES[:3], facts)


@pytest.mark.slow
@cases('name', 'linear', 'knn', 'prototype')
def test_an_attack_raises_the_loss_of_a_probe_and_layers_stay(name):
  ours = network_with(dataclasses.replace(PROBES.classes()[name](), layer='stage1'))
  images = np.random.default_rng(1).random((4, *SHAPE), np.float32)
  assert ours.predict(images).shape == (4, 3) and 'stage1' in ours.layers
  attack = PGD(norm='linf', epsilon=0.1, steps=2, step_size=0.05)
  keys, labels = jax.random.split(jax.random.key(0), 4), jnp.arange(4) % 3

  def logits(x):
    return ours.apply(ours.variables, x, ())[0]

  attacked = np.asarray(jax.jit(lambda x: attack(keys, logits, x, labels))(images))

  def loss(x):
    return -np.mean(np.asarray(jax.nn.log_softmax(logits(x)))[np.arange(4), labels])

  assert loss(attacked) > loss(images)


def test_features_are_float32_for_all_axes_and_precisions():
  for shape in ((2, 3), (2, 4, 3), (2, 4, 5, 3)):
    features = probes.pooled(jnp.ones(shape, jnp.bfloat16))
    assert features.shape == (2, 3) and features.dtype == jnp.float32


@cases('probe', Neighbors(neighbors=(5,)), Prototype())
def test_features_of_zero_have_finite_logits_and_gradients(probe):
  arrays, _ = probes.fit(probe, *TRAINING, NAMES, 0)
  # the neighbours of the second image are of two classes, else the share 1 would be constant
  features = jnp.asarray(TEST[0][2:4]).at[0].set(0)
  logits, gradient = jax.vjp(lambda x: probe(arrays, x), features)
  assert np.isfinite(logits).all()
  (slopes,) = gradient(jnp.ones_like(logits).at[:, 0].set(0))
  assert np.isfinite(slopes).all() and slopes[1].any()


def test_counted_votes_have_no_gradient():
  ours = network_with(Neighbors(layer='stage1', votes='uniform'))
  images = jnp.zeros((1, *SHAPE))
  gradient = jax.grad(lambda x: ours.apply(ours.variables, x, ())[0].sum())
  refused("'uniform'.*no gradient.*'softmax'", gradient, images)


def rows(side: int = 28) -> ArrayRows:
  """Returns 64 grey images of three classes, which differ in brightness."""
  generator, labels = np.random.default_rng(0), np.arange(64) % 3
  images = generator.random((64, side, side, 1), np.float32) * 0.5 + labels[:, None, None, None] / 6
  return ArrayRows(images.astype(np.float32), labels, ('ant', 'bee', 'cat'))


def small_cnn(**changes):
  """Returns a section of the config: random weights and the changes."""
  return {'name': 'small_cnn', 'weights': 'random', **changes}


@pytest.mark.slow
def test_the_features_of_a_probe_are_stored_and_reused(tmp_path, monkeypatch):
  sections = {'a': small_cnn(probe={'name': 'linear'}), 'b': small_cnn()}
  of_both = builder(tmp_path / 'checkpoints', sections, rows())
  assert of_both.checked_classifiers['a'].class_names == ('ant', 'bee', 'cat')
  first, plain = of_both.build()
  assert first.provenance['probe']['name'] == 'linear'
  assert first.provenance['probe']['held_out_rows'] > 0
  assert first.provenance['sha256'] == plain.provenance['sha256'], 'the backbone is the same'
  images = rows().images
  probed, unprobed = (
    np.mean(made.predict(images).argmax(1) == rows().labels) for made in (first, plain)
  )
  assert probed > 0.9 > unprobed
  (folder,) = (tmp_path / 'features').iterdir()
  before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
  again = builder(tmp_path / 'checkpoints', sections, rows()).build()[0]
  assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before
  np.testing.assert_array_equal(again.predict(images), first.predict(images))


@cases(
  'changes, message',
  ({'probe': {'name': 'linaer'}}, "did you mean 'linear'"),
  ({'probe': {'name': 'linear', 'linear': {'layer': 'stage9'}}}, "no layer 'stage9'.*valid"),
  ({'probe': {'name': 'linear', 'linear': {'layer': 'stages'}}}, 'takes one layer of a: stage1'),
  (
    {'probe': {'name': 'linear', 'linear': {'penalties': ()}}},
    bad_setting('config.classifiers.a.probe.linear.penalties', ()),
  ),
  (
    {'probe': {'name': 'knn', 'knn': {'votes': 'most'}}},
    bad_setting('config.classifiers.a.probe.knn.votes', 'most'),
  ),
  (
    {'probe': {'name': 'knn', 'knn': {'votes': 'uniform', 'temperature': 1.0}}},
    bad_setting('config.classifiers.a.probe.knn.temperature', 1.0),
  ),
  (
    {'probe': {'name': 'linear', 'linear': {'rows_per_class': 1}}},
    bad_setting('config.classifiers.a.probe.linear.rows_per_class', 1),
  ),
  (
    {'probe': {'name': 'linear', 'linear': {'penalties': (1.0,), 'held_out': 0.5}}},
    bad_setting('config.classifiers.a.probe.linear.held_out', 0.5),
  ),
  (
    {'probe': {'name': 'knn', 'knn': {'neighbors': (70, 65)}}},
    'a.probe.knn.neighbors has 65, and there are 64 training rows',
  ),
)
def test_bad_settings_are_refused_before_anything_is_computed(changes, message, tmp_path):
  def planned():
    return builder(
      tmp_path / 'checkpoints', {'a': small_cnn(**changes)}, rows()
    ).checked_classifiers

  refused(message, planned)
  assert not (tmp_path / 'features').exists()


def test_rows_of_another_size_are_refused_before_a_fit(tmp_path):
  section = small_cnn(probe={'name': 'knn'}, data={'resize': 20})
  of_rows = builder(tmp_path / 'checkpoints', {'a': section}, rows(), training=rows(20))
  message = r'have 20 × 20 × 1: .*--config\.classifiers\.a\.data\.resize=.* --config'
  refused(message, lambda: of_rows.checked_classifiers)


@pytest.mark.slow
@pytest.mark.usefixtures('shallow_resnet')
def test_weights_without_a_head_are_probed(tmp_path):
  from safetensors.numpy import save_file

  from robustness.models import catalog
  from tests.networks import normal_arrays

  arrays = normal_arrays(catalog.get('resnet20'))
  bare = {
    name: np.abs(x) if 'var' in name else x / 5
    for name, x in arrays.items()
    if not name.startswith(('linear', 'fc'))
  }
  assert len(bare) == len(arrays) - 2
  save_file(bare, tmp_path / 'bare.safetensors')
  section = {'name': 'resnet20', 'weights': str(tmp_path / 'bare.safetensors')}
  images = rows(32).with_channels(3)
  refused(
    'linear.bias|fc.bias',
    lambda: builder(tmp_path / 'a', {'a': section}, images).checked_classifiers,
  )
  (probed,) = builder(tmp_path / 'b', {'a': {**section, 'probe': {'name': 'knn'}}}, images).build()
  assert probed.class_names == ('ant', 'bee', 'cat')
  assert probed.predict(images.images[:8]).shape == (8, 3)
