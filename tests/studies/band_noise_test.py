"""Band-limited noise and filtered images: shown images and shares against plain NumPy."""

from __future__ import annotations

import functools
import pathlib

import jax
import numpy as np
import pytest

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.estimates.comparison import mcnemar
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.table import assemble, select
from robustness.fourier.filters import KINDS
from robustness.studies import band_noise, filtered_accuracy
from tests.end_to_end import runs
from tests.networks import SHAPE
from tests.studies.conftest import COUNT, Evaluate, classifier, rows
from tests.table_rows import estimate

SIDE = (32, 32, 3)


@functools.cache
def compiled(study, shape: tuple[int, ...]):
  views = study.views(shape)
  return views, jax.jit(views.show)


def shown(study, image: np.ndarray, index: int, example: int = 3) -> np.ndarray:
  views, show = compiled(study, image.shape)
  key = random_keys.for_example(random_keys.stream(0, study.name), example, views.ids[index])
  view = {name: values[index] for name, values in views.parameters.items()}
  return np.asarray(show(key, {'image': image}, view))


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('bandwidth', [1, 3, 15, 31])
def test_noise_has_the_norm_and_only_the_frequencies_of_its_band(kind: str, bandwidth: int) -> None:
  study = band_noise.BandNoise(kinds=(kind,), bandwidths=(bandwidth,))
  image = np.random.default_rng(0).random(SIDE, np.float32)
  noise = shown(study, image, 1) - image
  np.testing.assert_allclose(np.sqrt((noise**2).sum((0, 1))), 8, rtol=1e-5)
  spectrum = np.abs(np.fft.fftshift(np.fft.fft2(noise, axes=(0, 1)), axes=(0, 1)))
  kept = KINDS[kind](32, 32, bandwidth)
  assert spectrum[~kept].max(initial=0) < 1e-3 < spectrum[kept].min()
  np.testing.assert_array_equal(shown(study, image, 0), image)
  assert not np.allclose(noise, shown(study, image, 1, example=4) - image)


def test_noise_is_white_within_its_band_and_clipping_is_an_option() -> None:
  study = band_noise.BandNoise(kinds=('low_pass',), bandwidths=(9,))
  image = np.full(SIDE, 0.5, np.float32)
  noise = np.stack([shown(study, image, 1, e) - image for e in range(60)])
  power = (np.abs(np.fft.fftshift(np.fft.fft2(noise, axes=(1, 2)), axes=(1, 2))) ** 2).mean((0, 3))
  inside = power[KINDS['low_pass'](32, 32, 9)]
  assert inside.min() > 0.6 * inside.mean() and inside.max() < 1.5 * inside.mean()
  clipped = shown(
    band_noise.BandNoise(kinds=('low_pass',), bandwidths=(1,), clip=True), image * 0, 1
  )
  assert clipped.min() == 0 and clipped.max() <= 1


@pytest.mark.parametrize('kind', KINDS)
def test_filtered_images_keep_the_frequencies_of_the_square(kind: str) -> None:
  study = filtered_accuracy.FilteredAccuracy(kinds=(kind,), bandwidths=(7,))
  image = np.random.default_rng(0).random((32, 30, 3), np.float32)
  mask = np.fft.ifftshift(KINDS[kind](32, 30, 7))[..., None]
  expected = np.fft.ifft2(np.fft.fft2(image, axes=(0, 1)) * mask, axes=(0, 1)).real
  np.testing.assert_allclose(shown(study, image, 1), expected, atol=1e-5)
  np.testing.assert_array_equal(shown(study, image, 0), image)


def test_shares_and_differences_are_those_of_the_records(evaluate: Evaluate) -> None:
  study = filtered_accuracy.FilteredAccuracy()
  bands = [*(('low_pass', b) for b in (1, 3, 5)), *(('high_pass', b) for b in (2, 4))]
  assert study.bands(SHAPE) == bands
  results = assemble(study.reduce(evaluate(study), SHAPE).estimates)
  in_bands = {
    versus: select(results, 'accuracy', versus, band=..., bandwidth=...) for versus in ('', 'first')
  }
  data, right = rows(), {}
  for seed, label in enumerate(('first', 'second')):
    network = classifier('', seed)
    images = np.stack([[shown(study, image, v) for image in data.images] for v in range(6)])
    right[label] = (
      np.stack([np.asarray(network.forward(network.variables, x, ())[0]).argmax(1) for x in images])
      == data.labels
    )
    accuracy = right[label].mean(1)
    assert estimate(results, label, 'clean_accuracy').value == accuracy[0]
    own = in_bands[''][in_bands[''].classifier == label]
    assert [*zip(own.band, own.bandwidth, strict=True)] == bands
    exact = clopper_pearson(right[label][1:].sum(1), COUNT, 0.95)
    np.testing.assert_allclose(own[['value', 'low', 'high']].T, [accuracy[1:], *exact])
    assert set(own.n) == {COUNT}
  b, c = (right[one] & ~right[other] for one, other in (('first', 'second'), ('second', 'first')))
  pairs = in_bands['first']
  np.testing.assert_allclose(pairs.value, (c.mean(1) - b.mean(1))[1:], atol=1e-12)
  np.testing.assert_allclose(pairs.p, mcnemar(b.sum(1), c.sum(1))[1:])


def test_a_network_behind_a_filter_has_its_accuracy_at_its_own_bandwidth(
  evaluate: Evaluate,
) -> None:
  study = filtered_accuracy.FilteredAccuracy()
  evaluations = evaluate(study)
  front_ends = {'second': {'front_end': {'name': 'low_pass', 'bandwidth': 3}}}
  for evaluation in evaluations:
    evaluation.records.identity = {'classifier': front_ends.get(evaluation.label)}
  results = assemble(study.reduce(evaluations, SHAPE).estimates)
  (row,) = select(results, 'trained_accuracy', band='low_pass', bandwidth=3).itertuples()
  clean = estimate(results, 'second', 'clean_accuracy')
  assert (row.classifier, row.value, row.low) == ('second', clean.value, clean.low)


def test_default_bandwidths_are_at_most_sixteen_a_kind() -> None:
  study = band_noise.BandNoise()
  assert study.bands(SIDE)[16:] == [('high_pass', b) for b in range(1, 32, 2)]
  bands = study.bands((224, 224, 3))
  assert [kind for kind, _ in bands] == ['low_pass'] * 16 + ['high_pass'] * 16
  assert bands[0] == ('low_pass', 1) and bands[-1] == ('high_pass', 223)
  ids = study.views(SIDE).ids
  assert len(set(ids.tolist())) == 33
  assert band_noise.BandNoise(bandwidths=(31,)).views(SIDE).ids[-1] == ids[-1]


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('study', [band_noise.BandNoise, filtered_accuracy.FilteredAccuracy])
def test_an_even_bandwidth_of_an_even_side_is_refused_with_the_reason(study, kind: str) -> None:
  message = 'bandwidth is 14; .* on 32 pixels takes an odd number .* is symmetric'
  with pytest.raises(InputError, match=message):
    study(kinds=(kind,), bandwidths=(14,)).views(SIDE)


@pytest.mark.slow
def test_the_noise_config_of_digits_runs_end_to_end(tmp_path: pathlib.Path) -> None:
  config = runs.shrunk('band_noise', 'digits', {'study.bandwidths': (3, 27)})
  results = runs.run(config, tmp_path / 'run')
  for name in ('error_band_bandwidth', 'sample_images'):
    assert (tmp_path / 'run/figures' / f'{name}.png').stat().st_size > 0
  assert estimate(results.table, 'gaussian', 'error', band='high_pass', bandwidth=27).n == 24
  assert results.arrays['sample_images/low_pass'].shape == (2, 28, 28, 1)


@pytest.mark.slow
def test_the_filter_config_of_digits_runs_end_to_end(tmp_path: pathlib.Path) -> None:
  config = runs.shrunk('filtered_accuracy', 'digits', {'study.bandwidths': (3, 7, 21, 25)})
  for label in ('low_pass_7', 'high_pass_25'):  # one filter of each kind is trained behind
    del config.classifiers[label]
  results = runs.run(config, tmp_path / 'run')
  for name in ('accuracy_band_bandwidth', 'sample_images', 'trained_accuracy_band_bandwidth'):
    assert (tmp_path / 'run/figures' / f'{name}.png').stat().st_size > 0
  for kind, b in (('low_pass', 3), ('high_pass', 21)):
    own, trained = (
      estimate(results.table, f'{kind}_{b}', name, band=kind, bandwidth=b)
      for name in ('accuracy', 'trained_accuracy')
    )
    assert own.value == trained.value, 'filters are projections'


@pytest.mark.slow
@pytest.mark.parametrize('name', ['band_noise', 'filtered_accuracy'])
@pytest.mark.usefixtures('shallow_resnet')
def test_the_configs_of_cifar10_run_end_to_end(
  name: str, cifar10_dir: pathlib.Path, tmp_path: pathlib.Path
) -> None:
  labels = ('classifiers.natural', 'classifiers.gaussian')
  several = labels if name == 'band_noise' else ('classifier',)
  files = {
    f'{where}.weights': runs.save_weights(tmp_path / f'{seed}.safetensors', 'resnet20', seed)
    for seed, where in enumerate(several)
  }
  changes = {**files, 'data.data_dir': str(cifar10_dir), 'study.bandwidths': (3,)}
  results = runs.run(runs.shrunk(name, 'cifar10', changes), tmp_path / 'run')
  own = results.table[results.table.band.notna() & (results.table.versus == '')]
  assert len(own) == 2 * len(several)
