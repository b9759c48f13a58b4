"""Tests the study `background_challenge`: its views, its counts, and refused rows."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

import robustness
from robustness.core.rows import ArrayRows
from robustness.studies.background_challenge import BackgroundChallenge
from tests.networks import tiny_classifier
from tests.refusals import bad_setting, refused
from tests.table_rows import estimate

SHAPE = (8, 8, 3)
COUNT = 12
GENERATOR = np.random.default_rng(0)
IMAGES = GENERATOR.random((COUNT, *SHAPE), np.float32)
MASKS = GENERATOR.random((COUNT, 8, 8)) < 0.3


@pytest.fixture
def folder(tmp_path):
  """Returns a folder of five pictures of one colour each."""
  for number in range(5):
    path = tmp_path / 'backgrounds' / f'{number}.png'
    path.parent.mkdir(exist_ok=True)
    pixels = np.full(SHAPE, 60 * number, np.uint8) * np.array([number > 1, 1, 0], np.uint8)
    Image.fromarray(pixels).save(path)
  return tmp_path / 'backgrounds'


def test_a_foreground_survives_if_the_answer_is_right_on_every_background(folder):
  study, network = BackgroundChallenge(backgrounds=str(folder)), tiny_classifier(9, shape=SHAPE)
  pictures = np.stack([np.asarray(Image.open(p)) for p in sorted(folder.iterdir())]) / 255
  pasted = np.where(MASKS[:, None, ..., None], IMAGES[:, None], pictures[None])
  answers = np.argmax(network.predict(pasted.reshape(-1, *SHAPE).astype(np.float32)), 1)
  answers = answers.reshape(COUNT, 5)
  labels = np.where(np.arange(COUNT) % 3 == 0, (answers[:, 0] + 1) % 4, answers[:, 0])
  rows = ArrayRows(IMAGES, labels, network.class_names, columns={'foreground': MASKS})
  table = robustness.measure(study, {'net': network}, rows).table
  is_right = answers == labels[:, None]
  surviving = estimate(table, 'net', 'surviving_foregrounds')
  assert (surviving.value, surviving.n) == (is_right.all(1).mean(), COUNT)
  assert 0 < surviving.value < estimate(table, 'net', 'accuracy').value == is_right.mean()
  assert estimate(table, 'ResNet-50', 'surviving_foregrounds').value == 0.223


def test_selected_backgrounds_are_evenly_spaced_and_have_a_digest(folder):
  study = BackgroundChallenge(backgrounds=str(folder), num_backgrounds=2)
  parameters = study.views(SHAPE).parameters
  files = sorted(folder.iterdir())
  np.testing.assert_array_equal(parameters['picture'][1], np.asarray(Image.open(files[2])))
  digest = study.facts['backgrounds_sha256']
  assert digest != BackgroundChallenge(backgrounds=str(folder)).facts['backgrounds_sha256']


def test_unsuitable_rows_and_backgrounds_are_refused(folder):
  study = BackgroundChallenge(backgrounds=str(folder))
  rows = ArrayRows(IMAGES, np.arange(COUNT) % 4, tuple('abcd'))
  refused('no masks of their size: set config.data.source=imagenet_9', study.check, rows, {})
  with_masks = dataclasses.replace(rows, columns={'foreground': MASKS[:, 1:]})
  refused('no masks of their size', study.check, with_masks, {})
  refused('give backgrounds of the same size', study.views, (9, 8, 3))
  missing = BackgroundChallenge(backgrounds=str(folder / 'none'))
  refused(bad_setting('config.study.backgrounds', str(folder / 'none')), missing.views, SHAPE)
  too_many = BackgroundChallenge(backgrounds=str(folder), num_backgrounds=6)
  refused('which holds 5 pictures', too_many.views, SHAPE)
  Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(folder / '9.png')
  refused('give one size', BackgroundChallenge(backgrounds=str(folder)).views, SHAPE)
