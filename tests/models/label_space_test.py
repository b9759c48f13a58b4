"""Tests label spaces: ImageNet's names, labels matched by class names, and projected scores."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.classifiers.network import NetworkWeights
from robustness.core.rows import ArrayRows
from robustness.models import label_space
from robustness.models.classifier import Classifier
from robustness.models.imagenet_names import NAMES, WNIDS
from robustness.models.label_space import LabelSpace, project_scores
from robustness.models.projection import match_labels, project, project_logits, restrict
from tests.cases import cases
from tests.refusals import refused

IMAGENET = label_space.get('imagenet')
COARSE = LabelSpace('coarse', ('a', 'b', 'c'), {}, ((0, 2), (), (3,)), 'fine')
"""Three classes of four others: 'a' has the classes 0 and 2, 'b' has none and 'c' has class 3."""


def test_a_thousand_wnids_are_sorted_and_names_are_unique():
  assert len(WNIDS) == len(NAMES) == len(set(NAMES)) == 1000
  assert list(WNIDS) == sorted(set(WNIDS))
  assert all(re.fullmatch(r'n\d{8}', wnid) for wnid in WNIDS)
  assert all(name == name.strip() and name for name in NAMES)
  examples = [(WNIDS[index], NAMES[index]) for index in (0, 207, 281, 404, 999)]
  assert examples == [
    ('n01440764', 'tench'),
    ('n02099601', 'golden retriever'),
    ('n02123045', 'tabby'),
    ('n02690373', 'airliner'),
    ('n15075141', 'toilet tissue'),
  ]


def test_folders_of_real_pictures_have_these_names(shared_dir):
  folders = sorted(p.name for p in (shared_dir / 'data' / 'imagenet_samples').iterdir())
  assert tuple(f for f in folders if f.startswith('n')) == WNIDS


def rows(labels, class_names):
  images = np.zeros((len(labels), 2, 2, 1), np.float32)
  return ArrayRows(images, np.array(labels), tuple(class_names))


def labels_of(aligned, batch_size=2):
  """Returns the labels of rows as a list, without padding."""
  batches = list(aligned.batches(batch_size))
  return np.concatenate([batch['label'][batch['mask']] for batch in batches]).tolist()


def align(data):
  """Returns rows with the labels of a classifier of ImageNet that is called 'network'."""
  return match_labels(data, network())


@cases(
  'labels, names, expected',
  ([0, 1, 2, 1], (WNIDS[7], WNIDS[900], WNIDS[3]), [7, 900, 3, 900]),
  ([0, 1], ('tabby', 'tench'), [281, 0]),
  ([[0, 1], [1, -1], [0, -1]], (WNIDS[5], WNIDS[6]), [[5, 6], [6, -1], [5, -1]]),
)
def test_wnids_and_names_in_any_order_become_labels_of_the_classifier(labels, names, expected):
  aligned = align(rows(labels, names))
  assert labels_of(aligned) == expected
  assert aligned.class_names == NAMES
  assert aligned.description['classes_present'] == len(names)
  assert aligned.num_examples == len(labels) and aligned.image_shape == (2, 2, 1)


def test_accents_match_in_either_unicode_form_and_two_forms_stay_two_classes():
  composed, decomposed = 'caf\u00e9', 'cafe\u0301'
  mixed = 'vi\u00ea\u0323t'  # a composed letter with a further accent
  assert label_space.index_of_name(mixed, label_space.index_by_name(['vi\u1ec7t'])) == 0
  aligned = label_space.align(rows([0, 1], (mixed, 'bar')), ('bar', 'vi\u1ec7t'), 'the network')
  assert labels_of(aligned) == [1, 0]
  for name in (composed, decomposed):
    indices = label_space.index_by_name(['bar', name])
    assert indices[composed] == indices[decomposed] == 1
    start = NetworkWeights('f0', {'params': {}}, ('bar', name), (), (), (8, 8, 3))
    assert not start.has_other_classes(('bar', composed))
    assert not start.has_other_classes(('bar', decomposed))
  for names in ((composed, decomposed), (decomposed, composed)):
    indices = label_space.index_by_name(names)
    assert [indices[name] for name in names] == [0, 1]


def test_classes_are_never_matched_by_position():
  for data in (rows([0, 1], ()), rows([0, 1], NAMES)):
    assert align(data) is data
  message = "1 of 2 classes.*network.*'fish'.*'tench'.*'n01440764'"
  refused(message, align, rows([0, 1], ('tabby', 'fish')))
  message = 'example 1 has label 2; the data name 2 classes'
  refused(message, labels_of, align(rows([0, 2], (WNIDS[5], WNIDS[6]))))


def test_only_wnids_are_taken_for_imagenet_and_ranges_are_read():
  assert label_space.is_imagenet(WNIDS[:3])
  assert not label_space.is_imagenet((WNIDS[0], 'cat'))
  assert not label_space.is_imagenet(())
  assert label_space.parse_ranges('7-9 12') == (7, 8, 9, 12)
  assert label_space.parse_ranges('') == ()
  refused("'vid'.*'imagenet_vid'", label_space.get, 'vid')


def test_coarse_spaces_are_the_released_tables(shared_dir):
  released = json.loads((shared_dir / 'reference' / 'video_class_map.json').read_text())
  for name in ('imagenet_vid', 'youtube_bb'):
    space = label_space.get(name)
    assert list(space.class_names) == [entry['name'] for entry in released[name]]
    for members, entry in zip(space.members, released[name], strict=True):
      assert sorted(members) == sorted(entry['ilsvrc_indices'])
  file = shared_dir / 'data/imagenet_vid_robust/rev_class_idx_map.json'
  members_in_file = {int(c): tuple(m) for c, m in json.loads(file.read_text()).items()}
  assert members_in_file == dict(enumerate(label_space.get('imagenet_vid').members))


@pytest.mark.slow
@pytest.mark.parametrize('merge', label_space.MERGES)
@cases(
  'name, classes, members',
  ('imagenet_vid', 30, 288),
  ('youtube_bb', 24, 231),
  ('laion_c', 16, 285),
  ('cue_conflict', 16, 207),
  ('imagenet_9', 10, 1000),
)
def test_scores_are_projected_on_the_host_as_on_the_device(name, classes, members, merge):
  space = label_space.get(name)
  assert len(space.class_names) == classes
  assert len(set(sum(space.members, ()))) == sum(map(len, space.members)) == members
  logits = np.random.default_rng(0).normal(size=(20, 1000)).astype(np.float32) * 3
  on_host = project_scores(logits, space, merge)
  on_device = project_logits(jnp.asarray(logits), space, merge)
  np.testing.assert_allclose(on_host, on_device, rtol=1e-5)
  probabilities = np.asarray(jax.nn.softmax(logits))
  projected = project_scores(probabilities, space, merge, 'probabilities')
  normaliser = jax.nn.logsumexp(logits, axis=1, keepdims=True)
  with np.errstate(divide='ignore', invalid='ignore'):
    expected = np.exp(on_device - normaliser)
  has_members = np.array([bool(members) for members in space.members])
  np.testing.assert_allclose(projected[:, has_members], expected[:, has_members], rtol=1e-4)
  assert (projected[:, ~has_members] == -np.inf).all()


def test_projected_scores_match_values_by_hand():
  probabilities, absent = np.array([[0.1, 0.2, 0.3, 0.4]]), -np.inf
  for merge, of_a in (('max', 0.3), ('sum', 0.4), ('mean', 0.2)):
    expected = [[of_a, absent, 0.4]]
    projected = project_scores(probabilities, COARSE, merge, 'probabilities')
    np.testing.assert_allclose(projected, expected)
    logits = project_logits(jnp.log(jnp.asarray(probabilities, jnp.float32)), COARSE, merge)
    np.testing.assert_allclose(np.exp(logits), [[of_a, 0, 0.4]], rtol=1e-6)
  projected = project_scores(np.log(probabilities), COARSE, 'sum')
  np.testing.assert_allclose(projected, [[np.log(0.4), absent, np.log(0.4)]])
  probabilities = np.array([[0.3, 0.0, 0.3, 0.4]])
  assert project_scores(probabilities, COARSE, 'max', 'probabilities').argmax() == 2
  assert project_scores(probabilities, COARSE, 'sum', 'probabilities').argmax() == 0
  assert project_scores(np.full((1, 4), -50.0), COARSE).argmax() != 1, 'it has no members'


def network(names=NAMES):
  """Returns a classifier that gives class 404, 'airliner', an image's mean, and other classes 0."""

  def forward(variables, images, layers):
    brightness = images.mean((1, 2, 3))
    logits = jnp.zeros((len(images), len(names))).at[:, 404 % len(names)].set(brightness)
    return logits, {'logits': logits} if 'logits' in layers else {}

  return Classifier('network', forward, None, (2, 2, 1), names)


def test_networks_and_callables_are_projected_and_keep_their_logits():
  fine, images = network(), jnp.full((3, 2, 2, 1), 50.0)
  coarse = project(fine, 'imagenet_vid', 'sum')
  logits, layers = coarse.forward(None, images, ('unprojected_logits', 'logits'))
  assert logits.shape == layers['logits'].shape == (3, 30)
  assert layers['unprojected_logits'].shape == (3, 1000)
  assert coarse.class_names[int(logits[0].argmax())] == 'airplane'
  assert coarse.provenance == {'label_space': 'imagenet_vid', 'merge': 'sum'}
  aliases = label_space.aliases_of(coarse.class_names)
  assert aliases == label_space.get('imagenet_vid').aliases
  airliner, airplane = WNIDS[404], 'n02691156'  # a member of the class, and the wnid of ILSVRC-VID
  for wnid in (airliner, airplane):
    assert coarse.class_names[aliases[wnid]] == 'airplane'
  assert coarse.select_outputs(('unprojected_logits',)) == ('unprojected_logits',)
  assert fine.select_outputs(('unprojected_logits',)) == ('logits',)
  scores = 5 * np.eye(1, 1000, 404, dtype=np.float32)
  classifier = Classifier.from_callable(lambda x: np.repeat(scores, len(x), 0), (2, 2, 1), NAMES)
  logits = project(classifier, 'imagenet_vid').predict(np.zeros((2, 2, 2, 1), np.float32))
  assert logits.shape == (2, 30) and (logits.argmax(1) == 0).all()


def test_a_restricted_classifier_has_the_classes_of_the_data():
  restricted = restrict(network(), (NAMES[7], WNIDS[404], NAMES[2]))
  logits = restricted.predict(np.full((2, *restricted.input_shape), 0.5, np.float32))
  np.testing.assert_allclose(logits, [[0, 0.5, 0]] * 2)
  assert restricted.class_names == (NAMES[7], WNIDS[404], NAMES[2])
  assert restricted.provenance['label_space'] == 'data'


def test_a_classifier_with_the_classes_of_a_space_is_unchanged():
  classifier = network()
  assert project(classifier, 'imagenet') is classifier


@cases(
  'make, message',
  (lambda: restrict(network(), ('tenche', NAMES[2])), "1 of 2 classes .* first 'tenche'"),
  (lambda: restrict(network(), (NAMES[2], NAMES[2])), 'one class of'),
  (
    lambda: project(network(tuple('abcdefghij')), 'imagenet_vid'),
    'network tells 10 classes apart.*classes of imagenet',
  ),
  (
    lambda: project(network(tuple('abcdefghij')), 'imagenet'),
    "'imagenet' is made of the classes of no other",
  ),
)
def test_classes_outside_the_space_are_refused(make, message):
  refused(message, make)


def test_the_order_of_numbered_classes_is_logged_for_weights_without_names(caplog):
  caplog.set_level('INFO')
  label_space.log_numbers('mine.npz', ('cat', '1'))
  label_space.log_numbers('mine.npz', ())
  assert not caplog.text
  label_space.log_numbers('mine.npz', tuple(map(str, range(1000))))
  assert 'mine.npz: the weights do not name their classes; outputs 0 to 999 are' in caplog.text
  assert 'in this order: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..., 999\n' in caplog.text


def test_the_label_space_that_has_the_classes_of_the_data_is_named():
  imagenet, video, coarse = map(label_space.get, ('imagenet', 'imagenet_vid', 'laion_c'))

  def message(names, space):
    data = rows([0], names)
    return refused('', label_space.align, data, space.class_names, 'net')

  assert message(video.class_names[:3], imagenet).endswith(
    'set config.classifier.label_space=imagenet_vid, which has all classes of the data.'
  )
  outside = [wnid for wnid in WNIDS if wnid not in coarse.aliases][:2]
  assert message(outside, coarse).endswith('set config.data.folder.label_space=laion_c.')
  assert 'rename them' in message(['no such thing'], imagenet)
