"""Models and data sets with MAITE's protocols are measured, and MAITE evaluates ours."""

import jax
import numpy as np
import pytest

import robustness
from robustness.core import random_keys
from robustness.corruptions import catalog
from robustness.corruptions.names import STREAM, view_id
from tests.networks import CLASSES, tiny_classifier, tiny_rows
from tests.refusals import refused

SHAPE = (8, 8, 3)
IMAGES = np.random.default_rng(0).random((40, *SHAPE), np.float32)
LABELS = np.arange(40) % 4
ONE_HOT = np.eye(4)[LABELS]
METAS = [{'id': number} for number in range(40)]
CLASSIFIER = tiny_classifier(shape=SHAPE)


class Dataset:
  """A data set of MAITE with images (C, H, W) and one-hot targets."""

  def __init__(self, images=IMAGES, targets=ONE_HOT, names=CLASSES):
    self.images, self.targets = [*images.transpose(0, 3, 1, 2)], targets
    self.metadata = {'id': 'forty', 'index2label': dict(enumerate(names))}

  def __len__(self):
    return len(self.images)

  def __getitem__(self, index):
    return self.images[index], self.targets[index], METAS[index]


class Model:
  """A model of MAITE that returns the outputs of `function` for images [N, C, H, W] as a list."""

  def __init__(self, function=lambda images: CLASSIFIER.predict(images.transpose(0, 2, 3, 1))):
    self.function = function
    self.metadata = {'id': 'zoo/tiny', 'index2label': dict(enumerate(CLASSES))}

  def __call__(self, batch):
    assert isinstance(batch, list) and batch[0].shape == (3, 8, 8)
    return [*self.function(np.stack(batch))]


class Accuracy:
  """MAITE's protocol of a metric: the share of right predictions."""

  metadata = {'id': 'accuracy'}

  def reset(self):
    self.right = []

  def update(self, predictions, targets, metadata):
    pairs = zip(predictions, targets, strict=True)
    self.right += [np.argmax(prediction) == np.argmax(target) for prediction, target in pairs]

  def compute(self):
    return {'accuracy': np.mean(self.right)}


def loader(dataset, size=7):
  """Yields batches as MAITE's `DataLoader` does."""
  for start in range(0, len(dataset), size):
    entries = [dataset[index] for index in range(start, min(start + size, len(dataset)))]
    yield tuple(map(list, zip(*entries, strict=True)))


def accuracy(model, *data, **settings):
  return robustness.measure('accuracy', model, *data, **settings).value('top1_accuracy').value


def evaluated(model, dataset, augmentation=None, batch_size=7):
  """Returns the accuracy that MAITE computes, after a check of the protocols."""
  protocols = pytest.importorskip('maite.protocols.image_classification', reason='needs maite')
  from maite.tasks import evaluate

  assert isinstance(model, protocols.Model) and isinstance(dataset, protocols.Dataset)
  assert augmentation is None or isinstance(augmentation, protocols.Augmentation)
  arguments = {'batch_size': batch_size, 'augmentation': augmentation}
  return evaluate(model=model, metric=Accuracy(), dataset=dataset, **arguments)[0]['accuracy']


@pytest.mark.parametrize(
  'dtype', [np.uint8, np.float64, pytest.param(np.float32, marks=pytest.mark.slow)]
)
def test_a_data_set_and_a_loader_have_the_images_labels_and_names_of_arrays(dtype):
  images = (255 * IMAGES).astype(np.uint8) if dtype == np.uint8 else IMAGES.astype(dtype)
  expected = robustness.measure('accuracy', CLASSIFIER, images, LABELS, class_names=CLASSES).table
  for data in (Dataset(images), loader(Dataset(images))):
    table = robustness.measure('accuracy', CLASSIFIER, data).table
    assert table.equals(expected)


@pytest.mark.parametrize(
  ('data', 'message'),
  [
    (Dataset(IMAGES.transpose(0, 3, 1, 2)), r'shape \(8, 3, 8\); images of MAITE are \(C, H, W\)'),
    (Dataset((255 * IMAGES).astype(np.int64)), 'int64; it must be uint8, or floats'),
    (Dataset(255 * IMAGES), r'must lie in \[0, 1\], or be uint8'),
    (Dataset(IMAGES - 0.5), r'must lie in \[0, 1\], or be uint8'),
    (Dataset(targets=np.full((40, 4), 0.25)), r'\[0.25, .*targets of MAITE are one-hot'),
    (Dataset(targets=LABELS), 'target is 0; targets of MAITE are one-hot'),
    (Dataset(names=CLASSES[:3]), 'labels has 3 .example 3.; there are 3 classes'),
    ([(np.zeros((3, 8, s)), np.eye(4)[0], {'id': s}) for s in (8, 9)], 'sizes .*resize'),
    (loader(Dataset(targets=2 * ONE_HOT)), 'one-hot'),
  ],
)
def test_data_that_cannot_be_used_are_refused(data, message):
  refused(message, robustness.measure, 'accuracy', CLASSIFIER, data)


def test_class_names_are_numbered_from_0():
  data = Dataset()
  data.metadata['index2label'] = {1: 'a', 2: 'b'}
  refused(r'keys \[1, 2\]; they must be 0 to 1', robustness.measure, 'accuracy', CLASSIFIER, data)


def test_a_model_gives_the_records_of_the_classifier_that_it_calls():
  direct = robustness.measure('corruption_error', CLASSIFIER, IMAGES, LABELS, corruptions=('fog',))
  model = robustness.classifier(Model())
  results = robustness.measure('corruption_error', {'tiny': model}, Dataset(), corruptions=('fog',))
  ours, theirs = (
    {(row.quantity, row.corruption, row.severity): row.value for row in entry.table.itertuples()}
    for entry in (direct, results)
  )
  assert ours.keys() == theirs.keys() and len(ours) > 10
  np.testing.assert_array_equal([*ours.values()], [*theirs.values()])
  assert model.label == 'zoo_tiny' and model.classifier(IMAGES).class_names == CLASSES


def test_a_model_may_give_tensors_take_bytes_or_give_probabilities():
  torch = pytest.importorskip('torch', reason='needs torch')

  def of_bytes(images):
    assert images.max() > 1
    return torch.from_numpy(images.mean((2, 3)) - 100).requires_grad_()

  scaled = robustness.classifier(Model(of_bytes), std=(1 / 255,), class_names='abc')
  expected = 255 * IMAGES.mean((1, 2)) - 100
  np.testing.assert_allclose(scaled.classifier(IMAGES).predict(IMAGES), expected, rtol=1e-4)
  likely = Model(lambda images: np.asarray(jax.nn.softmax(images.sum((2, 3)))))
  refused(
    "outputs='probabilities'", robustness.classifier(likely, class_names='abc').classifier, IMAGES
  )
  model = robustness.classifier(likely, class_names='abc', outputs='probabilities')
  assert model.classifier(IMAGES).predict(IMAGES).max() <= 0


def test_a_model_has_no_gradient_for_attacks():
  refused(
    'has no gradient', robustness.measure, 'attack_error', Model(), Dataset(), attacks=('pgd',)
  )


@pytest.mark.slow
def test_our_objects_with_protocols_have_the_rows_and_accuracy_of_the_originals():
  rows = tiny_rows()
  dataset = robustness.as_maite_dataset(rows)
  assert accuracy(tiny_classifier(), dataset) == accuracy(tiny_classifier(), rows)
  image, target, metadata = dataset[-1]
  np.testing.assert_array_equal(image.transpose(1, 2, 0), rows.images[20])
  assert target.argmax() == rows.labels[20] and target.sum() == 1 and metadata == {'id': 20}
  assert dataset.metadata == {'id': 'arrays', 'index2label': dict(enumerate(CLASSES))}
  assert len([*dataset]) == 21
  model = robustness.as_maite_model(tiny_classifier())
  assert model.metadata == {'id': 'tiny', 'index2label': dict(enumerate(CLASSES))}
  function = robustness.as_maite_model(lambda images: tiny_classifier().predict(np.asarray(images)))
  for ours in (model, function):
    assert accuracy(ours, dataset) == accuracy(tiny_classifier(), rows)
  unnamed = robustness.as_maite_dataset((255 * IMAGES).astype(np.uint8), LABELS)
  assert unnamed.metadata['index2label'] == {0: '0', 1: '1', 2: '2', 3: '3'}
  assert unnamed[3][0].dtype == np.float32 and unnamed[3][0].max() <= 1


@pytest.mark.parametrize('dtype', [np.float32, np.uint8])
def test_a_corruption_depends_on_the_id_and_not_on_the_batch(dtype):
  images = IMAGES if dtype == np.float32 else (255 * IMAGES).astype(np.uint8)
  augmentation = robustness.as_maite_augmentation('gaussian_noise', 3, seed=5)
  results = []
  for size in (1, 7):
    batches = [augmentation(batch) for batch in loader(Dataset(images), size)]
    results.append(np.stack([image for batch in batches for image in batch[0]]))
    assert [facts for batch in batches for facts in batch[2]] == METAS
  np.testing.assert_array_equal(*results)
  assert results[0].dtype == dtype and results[0].shape == (40, 3, 8, 8)
  key = random_keys.for_example(random_keys.stream(5, STREAM), 9, view_id('gaussian_noise', 3))
  quantize = 'floor' if dtype == np.uint8 else None
  expected = catalog.corrupt(
    key, IMAGES[9] if quantize is None else images[9] / 255, 'gaussian_noise', 3, quantize
  )
  scale = 255 if quantize else 1
  np.testing.assert_allclose(
    results[0][9].transpose(1, 2, 0), scale * np.asarray(expected), rtol=1e-6
  )
  words = [
    augmentation(([images[0].transpose(2, 0, 1)], [], [{'id': word}]))[0][0] for word in 'ab'
  ]
  assert (words[0] != words[1]).any()


@pytest.mark.parametrize(
  ('function', 'arguments', 'message'),
  [
    ('augmentation', ('fogg', 3), "did you mean 'fog'"),
    ('augmentation', ('fog', 7), 'severity is 7'),
    ('dataset', (IMAGES, np.stack([LABELS, LABELS + 1], 1)), 'several labels'),
    ('dataset', (IMAGES,), 'without labels'),
    ('model', (3,), 'is no function'),
  ],
)
def test_arguments_without_a_protocol_are_refused(function, arguments, message):
  refused(message, getattr(robustness, f'as_maite_{function}'), *arguments)


@pytest.mark.parametrize(
  ('images', 'message'),
  [
    ([np.zeros((8, 8, 3))], r'\(C, H, W\)'),
    ([np.full((3, 8, 8), 2.0)], r'\[0, 1\]'),
    ([np.zeros((3, 8, 8), int)], 'int64'),
    ([np.zeros((3, 8, 8)), np.zeros((3, 9, 8))], 'resize'),
  ],
)
def test_images_that_cannot_be_used_are_refused(images, message):
  refused(message, robustness.as_maite_model(CLASSIFIER), images)
  if len(images) == 1:
    fog = robustness.as_maite_augmentation('fog', 1)
    refused(message, fog, (images, [np.eye(4)[0]], [{'id': 0}]))


@pytest.mark.parametrize('name', ['fog', 'shot_noise'])
def test_evaluate_agrees_with_the_study_of_corruptions(name):
  tasks = pytest.importorskip('maite.tasks', reason='needs maite')
  settings = {'corruptions': (name,), 'severities': (3,), 'seed': 2}
  results = robustness.measure('corruption_error', CLASSIFIER, IMAGES, LABELS, **settings)
  error = results.value('error', corruption=name, severity=3).value
  model = robustness.as_maite_model(CLASSIFIER)
  dataset = robustness.as_maite_dataset(IMAGES, LABELS, class_names=CLASSES)
  augmentation = robustness.as_maite_augmentation(name, 3, seed=2)
  for size in (1, 16):
    assert evaluated(model, dataset, augmentation, size) == pytest.approx(1 - error, abs=1e-12)
  augmented = tasks.augment_dataloader(augmentation=augmentation, dataloader=loader(dataset))
  assert accuracy(Model(), augmented) == pytest.approx(1 - error, abs=1e-12)
