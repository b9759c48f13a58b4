"""Tests the studies `band_noise` and `filtered_accuracy` against NumPy on the images they show."""

import numpy as np
import pytest

from robustness.estimates.comparison import mcnemar
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.table import select
from robustness.fourier.filters import KINDS
from robustness.studies import band_noise, filtered_accuracy
from tests.end_to_end import runs
from tests.networks import SHAPE
from tests.refusals import bad_setting, refused
from tests.studies.conftest import COUNT, classifier, measured, rows, show_image, table_of
from tests.table_rows import estimate

RGB = (32, 32, 3)


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('bandwidth', [1, 3, 15, 31])
def test_noise_has_the_norm_and_only_the_frequencies_of_its_band(kind, bandwidth):
  study = band_noise.BandNoise(kinds=(kind,), bandwidths=(bandwidth,))
  image = np.random.default_rng(0).random(RGB, np.float32)
  noise = show_image(study, image, 1) - image
  assert study.norm == 8
  np.testing.assert_allclose(np.sqrt((noise**2).sum((0, 1))), 8, rtol=1e-5)
  spectrum = np.abs(np.fft.fftshift(np.fft.fft2(noise, axes=(0, 1)), axes=(0, 1)))
  band = KINDS[kind](32, 32, bandwidth)
  assert spectrum[~band].max(initial=0) < 1e-3 < spectrum[band].min()
  np.testing.assert_array_equal(show_image(study, image, 0), image)
  assert not np.allclose(noise, show_image(study, image, 1, example=4) - image)


def test_noise_is_white_within_its_band_and_clipping_is_an_option():
  study = band_noise.BandNoise(kinds=('low_pass',), bandwidths=(9,))
  image = np.full(RGB, 0.5, np.float32)
  noise = np.stack([show_image(study, image, 1, e) - image for e in range(60)])
  power = (np.abs(np.fft.fftshift(np.fft.fft2(noise, axes=(1, 2)), axes=(1, 2))) ** 2).mean((0, 3))
  inside = power[KINDS['low_pass'](32, 32, 9)]
  assert inside.min() > 0.6 * inside.mean() and inside.max() < 1.5 * inside.mean()
  cut = band_noise.BandNoise(kinds=('low_pass',), bandwidths=(1,), clip=True)
  clipped = show_image(cut, image * 0, 1)
  assert clipped.min() == 0 and clipped.max() <= 1


@pytest.mark.parametrize('kind', KINDS)
def test_filtered_images_keep_the_frequencies_of_the_square(kind):
  study = filtered_accuracy.FilteredAccuracy(kinds=(kind,), bandwidths=(7,))
  image = np.random.default_rng(0).random((32, 30, 3), np.float32)
  mask = np.fft.ifftshift(KINDS[kind](32, 30, 7))[..., None]
  expected = np.fft.ifft2(np.fft.fft2(image, axes=(0, 1)) * mask, axes=(0, 1)).real
  np.testing.assert_allclose(show_image(study, image, 1), expected, atol=1e-5)
  np.testing.assert_array_equal(show_image(study, image, 0), image)


def test_accuracies_are_shares_of_right_answers_and_a_filtered_network_has_its_bandwidth():
  study = filtered_accuracy.FilteredAccuracy()
  bands = [*(('low_pass', b) for b in (1, 3, 5)), *(('high_pass', b) for b in (2, 4))]
  assert study.bands(SHAPE) == bands
  measurement, *evaluations = measured(study)
  results = measurement.table
  facets = {'band': ..., 'bandwidth': ...}
  in_bands = {k: select(results, 'accuracy', k, **facets) for k in ('', 'first')}
  data, right = rows(), {}
  for seed, label in enumerate(('first', 'second')):
    network = classifier('', seed)
    images = np.stack([[show_image(study, image, v) for image in data.images] for v in range(6)])
    logits = np.stack([network.forward(network.variables, x, ())[0] for x in images])
    right[label] = logits.argmax(-1) == data.labels
    accuracy = right[label].mean(1)
    assert estimate(results, label, 'clean_accuracy').value == accuracy[0]
    estimates = in_bands[''][in_bands[''].classifier == label]
    assert [*zip(estimates.band, estimates.bandwidth, strict=True)] == bands
    exact = clopper_pearson(right[label][1:].sum(1), COUNT, 0.95)
    np.testing.assert_allclose(estimates[['value', 'low', 'high']].T, [accuracy[1:], *exact])
    assert set(estimates.n) == {COUNT}
  lost, gained = right['first'] & ~right['second'], right['second'] & ~right['first']
  pairs = in_bands['first']
  np.testing.assert_allclose(pairs.value, (gained.mean(1) - lost.mean(1))[1:], atol=1e-12)
  np.testing.assert_allclose(pairs.p, mcnemar(lost.sum(1), gained.sum(1))[1:])
  filtered = {'second': {'input_filter': {'name': 'low_pass', 'bandwidth': 3}}}
  for evaluation in evaluations:
    evaluation.records.identity = {'classifier': filtered.get(evaluation.label)}
  results = table_of(study, evaluations)
  (row,) = select(results, 'trained_accuracy', band='low_pass', bandwidth=3).itertuples()
  clean = estimate(results, 'second', 'clean_accuracy')
  assert (row.classifier, row.value, row.low) == ('second', clean.value, clean.low)


def test_each_kind_has_at_most_sixteen_bandwidths_by_default():
  study = band_noise.BandNoise()
  assert study.bands(RGB)[16:] == [('high_pass', b) for b in range(1, 32, 2)]
  bands = study.bands((224, 224, 3))
  assert [kind for kind, _ in bands] == ['low_pass'] * 16 + ['high_pass'] * 16
  assert bands[0] == ('low_pass', 1) and bands[-1] == ('high_pass', 223)
  ids = study.views(RGB).ids
  assert len(set(ids.tolist())) == 33
  assert band_noise.BandNoise(bandwidths=(31,)).views(RGB).ids[-1] == ids[-1]


@pytest.mark.slow
def test_a_high_pass_of_a_single_pixel_is_refused():
  message = bad_setting('config.study.kinds', words='one pixel')
  refused(message, band_noise.BandNoise().views, (1, 1, 3))
  assert len(band_noise.BandNoise(kinds=('low_pass',)).views((1, 1, 3))) == 2


def test_the_filter_config_of_digits_runs_end_to_end(tmp_path):
  config = runs.shrunk('filtered_accuracy', 'digits', {'study.bandwidths': (3, 7, 21, 25)})
  for label in ('low_pass_7', 'high_pass_25'):  # one network of each kind of filter is enough
    del config.classifiers[label]
  results = runs.run(config, tmp_path / 'run')
  runs.assert_pictures('filtered_accuracy', tmp_path / 'run')
  for name in ('sample_images', 'trained_accuracy_band_bandwidth'):
    assert (tmp_path / 'run/figures' / f'{name}.png').stat().st_size > 0
  for kind, b in (('low_pass', 3), ('high_pass', 21)):
    facets, names = {'band': kind, 'bandwidth': b}, ('accuracy', 'trained_accuracy')
    filtered, trained = (estimate(results.table, f'{kind}_{b}', name, **facets) for name in names)
    assert filtered.value == trained.value, 'to filter an image twice is to filter it once'
