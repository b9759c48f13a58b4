"""Tests the study `sampled_mce`, which shows each image under one corruption of the full set."""

import numpy as np

from robustness.comparison.pairing import pair
from robustness.studies.corruption_error import CorruptionError
from robustness.studies.sampled_mce import SampledMCE
from tests.made_records import made
from tests.networks import tiny_rows
from tests.refusals import bad_setting, refused


def test_an_image_is_corrupted_as_in_the_full_set():
  study = SampledMCE()
  full_views, sampled_views = CorruptionError().views((32, 32, 3)), study.views((32, 32, 3))
  rows = sampled_views.add_columns(tiny_rows(160)).without_images()
  drawn = rows['drawn_view']
  np.testing.assert_array_equal(rows['draws'], full_views.ids[drawn])
  counts = np.bincount(drawn, minlength=76)  # clean, and 15 corruptions at 5 severities
  by_corruption = counts[1:].reshape(15, 5)
  expected = 160 * study.weights / study.weights.sum()
  assert (abs(counts - expected) < 1).all() and (np.ptp(by_corruption, 1) <= 1).all()


def test_classifiers_that_were_shown_other_corruptions_are_not_compared(tmp_path):
  ids, drawn = np.arange(150), 1 + np.arange(150) % 75
  columns = {'rank': np.zeros((150, 1), int), 'example_id': ids, 'image_digest': ids}
  first, other = (
    made(tmp_path / name, {**columns, 'drawn_view': views, 'draws': views}, data={})
    for name, views in (('one', drawn), ('other', drawn[::-1]))
  )
  study = SampledMCE(mce_half_width=5.0)
  for second, is_alike in ((other, False), (first, True)):
    pairing = pair(first.records, second.records, ('one', 'other'), common=False)
    assert len(pairing.first_rows) == 150 * is_alike
    assert ('shown otherwise' in pairing.note) != is_alike
  stated = [line for _, line in study.provenance([first], (32, 32, 3)).rows]
  assert sum('one corruption an image, not all' in line for line in stated) == 1
  message = 'one and other were shown the same images under'
  refused(message, study.reduce, [first, other], (32, 32, 3))
  assert study.recording != CorruptionError(protocol=study.protocol).recording


def test_differences_stay_within_their_range(tmp_path):
  columns = {'example_id': np.arange(160), 'image_digest': np.arange(160)}
  study = SampledMCE(mce_half_width=0.9)
  drawn = study.views((32, 32, 3)).add_columns(tiny_rows(160)).without_images()
  columns |= {name: drawn[name] for name in ('drawn_view', 'draws')}
  draws = np.random.default_rng(0).random((160, 1))
  wrong = made(tmp_path / 'wrong', {**columns, 'rank': draws < 0.9}, data={})
  right = made(tmp_path / 'right', {**columns, 'rank': draws < 0.1}, data={})
  (table,) = study.reduce([wrong, right], (32, 32, 3)).estimates
  differences = table[(table.quantity == 'error') & (table.versus == 'wrong')]
  assert len(differences) == 21 and differences.low.min() == -1
  assert (differences.low <= differences.value).all()


def test_too_few_images_and_another_size_are_refused():
  refused(bad_setting('config.study.mce_half_width', 0.1), SampledMCE().check, tiny_rows(40), {})
  message, study = bad_setting('config.study.baseline', 'alexnet'), SampledMCE(baseline='alexnet')
  refused(message, study.views, (32, 32, 3))
