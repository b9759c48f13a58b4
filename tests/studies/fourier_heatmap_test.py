"""The heat map's reduction against plain numpy on the raw records, and what its views promise."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from scipy import stats

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.estimates.table import assemble, select
from robustness.figures import fourier_heatmap as heatmap_figures
from robustness.fourier.basis import basis_image
from robustness.fourier.cell_shares import CLEAN
from robustness.metrics import clustered_proportion, independent_trials, ring_masks
from robustness.results import Number, Results
from robustness.studies import fourier_heatmap
from robustness.studies.fourier_heatmap import Study
from tests.networks import SHAPE, tiny_rows
from tests.studies.conftest import COUNT, Evaluate, table
from tests.table_rows import assert_same, assert_same_arrays, estimate

STUDY = Study(norm=1.5, top_k=2)
HEIGHT, WIDTH, _ = SHAPE
AXIS_Y, AXIS_X = np.arange(HEIGHT) - HEIGHT // 2, np.arange(WIDTH) - WIDTH // 2


def shown(study: Study, view: int, example: int) -> np.ndarray:
  views, rows = study.views(SHAPE), tiny_rows(COUNT)
  key = random_keys.for_example(random_keys.stream(0, study.name), example, views.ids[view])
  parameters = {name: values[view] for name, values in views.parameters.items()}
  return np.asarray(views.show(key, {'image': rows.images[example]}, parameters))


def by_frequency(study: Study, values: np.ndarray) -> np.ndarray:
  """Puts [views] on the map by looking every cell's frequency, or its mirror, up by hand."""
  views = study.views(SHAPE).parameters
  place = {
    (int(y) % HEIGHT, int(x) % WIDTH): v
    for v, (y, x) in enumerate(zip(views['fy'], views['fx'], strict=True))
    if v != CLEAN
  }

  def look_up(y: int, x: int) -> int:
    own, mirror = (y % HEIGHT, x % WIDTH), (-y % HEIGHT, -x % WIDTH)
    return place[own] if own in place else place[mirror]

  return np.array([[values[look_up(y, x)] for x in AXIS_X] for y in AXIS_Y])


def test_error_maps_are_counts_of_the_raw_records(evaluate: Evaluate) -> None:
  (only,) = evaluate(STUDY, ('first',))
  findings = STUDY.reduce([only], SHAPE)
  rank = table(only, 'rank')
  for k, name in ((1, 'error'), (2, 'top2_error')):
    wrong = (rank >= k).sum(0)
    np.testing.assert_array_equal(findings.arrays[name], by_frequency(STUDY, wrong / COUNT))
    exact = [stats.binomtest(int(w), COUNT).proportion_ci(0.95, 'exact') for w in wrong]
    for end in ('low', 'high'):
      expected = by_frequency(STUDY, np.array([getattr(own, end) for own in exact]))
      np.testing.assert_allclose(findings.arrays[f'{name}_{end}'], expected, atol=1e-12)
    assert findings.numbers[f'clean_{name}'].value == wrong[CLEAN] / COUNT
    assert findings.numbers[f'clean_{name}'].n == COUNT
  np.testing.assert_array_equal(findings.arrays['frequency_y'], AXIS_Y)
  np.testing.assert_array_equal(findings.arrays['frequency_x'], AXIS_X)
  assert len(np.unique(findings.arrays['error'])) > 3, 'a map without structure would show nothing'


def test_mirrored_cells_are_equal(evaluate: Evaluate) -> None:
  arrays = STUDY.reduce(evaluate(STUDY), SHAPE).arrays
  for name in ('first/error', 'second/error_high', 'second/difference'):
    for y in range(HEIGHT):
      for x in range(WIDTH):
        mirror = (-AXIS_Y[y] + HEIGHT // 2) % HEIGHT, (-AXIS_X[x] + WIDTH // 2) % WIDTH
        assert arrays[name][y, x] == arrays[name][mirror]


def test_difference_map_and_its_significance_against_scipy(evaluate: Evaluate) -> None:
  first, second = evaluate(STUDY)
  right = [table(e, 'rank') == 0 for e in (first, second)]
  b, c = (right[0] & ~right[1]).sum(0), (~right[0] & right[1]).sum(0)
  p = np.array(
    [
      stats.binomtest(int(x), int(x + y)).pvalue if x + y else 1.0
      for x, y in zip(b, c, strict=True)
    ]
  )
  adjusted = stats.false_discovery_control(p[CLEAN + 1 :])
  study = dataclasses.replace(STUDY, false_discovery_rate=float(np.median(adjusted)) + 1e-9)
  findings = study.reduce([first, second], SHAPE)
  np.testing.assert_allclose(findings.arrays['second/difference_p'], by_frequency(study, p))
  difference = (right[0].astype(float) - right[1]).mean(0)
  np.testing.assert_allclose(
    findings.arrays['second/difference'], by_frequency(study, difference), atol=1e-12
  )
  significant = adjusted <= study.false_discovery_rate
  marked = findings.arrays['second/difference_significant']
  np.testing.assert_array_equal(marked, by_frequency(study, np.append(False, significant)))
  assert 0 < significant.sum() < len(significant), 'both kinds must occur in this test'
  (row,) = findings.tables['comparison'].rows
  assert row[:2] == ['first', 'second']
  better, worse = (
    int((significant & (sign * difference[CLEAN + 1 :] > 0)).sum()) for sign in (-1, 1)
  )
  assert row[-3:] == [len(significant), better, worse]


def test_errors_over_all_frequencies_weigh_every_cell_once(evaluate: Evaluate) -> None:
  findings = STUDY.reduce(evaluate(STUDY), SHAPE)
  for label in ('first', 'second'):
    number = findings.numbers[f'{label}/error_all_frequencies']
    assert number.value == pytest.approx(findings.arrays[f'{label}/error'].mean())
    assert number.low < number.value < number.high
    assert number.n == COUNT
  mean = findings.arrays['second/difference'].mean()
  assert findings.numbers['second/difference_all_frequencies'].value == pytest.approx(mean)


def test_bands_that_the_window_cuts_say_so(evaluate: Evaluate) -> None:
  window = dataclasses.replace(STUDY, window=1)
  whole, cut = (s.reduce(evaluate(s, name=f'bands{s.window}'), SHAPE) for s in (STUDY, window))
  cells = {row[0]: row[1:] for row in cut.tables['bands'].rows}
  assert cells['all'] == [1, HEIGHT * WIDTH, 1 / (HEIGHT * WIDTH)]
  assert cells['high'][0] == 0 and cells['high'][1] > 0
  assert 'first/error_high_frequencies' not in cut.numbers
  number = cut.numbers['second/difference_all_frequencies']
  assert number.note == f'the window of 1 × 1 shows 1 of {HEIGHT * WIDTH} cells'
  assert all(row[1] == row[2] for row in whole.tables['bands'].rows)
  results = Results('fourier_heatmap', {}, {}, {}, tables=cut.tables)
  assert f'all 1 of {HEIGHT * WIDTH}, ' in heatmap_figures._cut(results)
  assert not any(number.note for number in whole.numbers.values())


def test_a_frequency_and_its_mirror_are_one_trial(evaluate: Evaluate) -> None:
  """Equal in every image and for all frequencies, shares have the interval of the frequencies."""
  evaluation = evaluate(STUDY)[0]
  frequencies = STUDY.frequencies(SHAPE)
  number = STUDY.reduce([evaluation], SHAPE).numbers['error_all_frequencies']
  cells = np.bincount(frequencies.cell.ravel())
  wrong = table(evaluation, 'rank')[:, 1:] > 0
  expected = clustered_proportion(wrong, cells)
  assert (number.low, number.high) == pytest.approx((expected.low, expected.high))
  assert independent_trials(cells) <= len(frequencies) < frequencies.cell.size


def test_layer_maps_are_means_of_the_records(evaluate: Evaluate) -> None:
  study = dataclasses.replace(STUDY, layers=('stages',))
  (only,) = evaluate(study, ('first',))
  arrays = study.reduce([only], SHAPE).arrays
  for layer in ('stage1', 'logits'):
    change = table(only, f'layer_change/{layer}').astype(np.float64)
    np.testing.assert_allclose(
      arrays[f'layer_change/{layer}'], by_frequency(study, change.mean(0)), rtol=1e-6
    )
    spread = stats.t.ppf(0.975, COUNT - 1) * change.std(0, ddof=1) / np.sqrt(COUNT)
    np.testing.assert_allclose(
      arrays[f'layer_change/{layer}_high'], by_frequency(study, change.mean(0) + spread), rtol=1e-4
    )


def test_a_window_is_the_cut_of_the_full_map(evaluate: Evaluate) -> None:
  window = dataclasses.replace(STUDY, window=3)
  full, cut = (
    s.reduce(evaluate(s, name=f'window{s.window}'), SHAPE).arrays for s in (STUDY, window)
  )
  rows = slice(HEIGHT // 2 - 1, HEIGHT // 2 + 2)
  columns = slice(WIDTH // 2 - 1, WIDTH // 2 + 2)
  for name in ('first/error', 'second/error', 'first/top2_error', 'second/difference'):
    np.testing.assert_array_equal(cut[name], full[name][rows, columns])


def test_signs_do_not_depend_on_the_window() -> None:
  window, full = dataclasses.replace(STUDY, window=3), STUDY.views(SHAPE)
  for view, view_id in enumerate(window.views(SHAPE).ids):
    same = int(np.flatnonzero(full.ids == view_id)[0])
    np.testing.assert_array_equal(shown(window, view, 5), shown(STUDY, same, 5))


def test_view_ids_are_distinct_and_the_clean_view_is_the_image() -> None:
  views = STUDY.views(SHAPE)
  assert len(np.unique(views.ids)) == len(views) == 1 + len(STUDY.frequencies(SHAPE))
  np.testing.assert_array_equal(shown(STUDY, CLEAN, 3), tiny_rows(COUNT).images[3])


@pytest.mark.parametrize('phase', ['reference', 'cosine'])
def test_perturbation_is_plus_or_minus_v_times_the_basis(phase: str) -> None:
  study = dataclasses.replace(STUDY, phase=phase)
  views, images = study.views(SHAPE), tiny_rows(COUNT).images
  signs = []
  for view in range(1, len(views)):
    wave = np.asarray(
      basis_image(views.parameters['fy'][view], views.parameters['fx'][view], HEIGHT, WIDTH, phase)
    )
    for example in range(3):
      added = shown(study, view, example) - images[example]
      sign = np.sign((added * wave[..., None]).sum((0, 1)))
      np.testing.assert_allclose(added, 1.5 * wave[..., None] * sign, atol=1e-5)
      signs.append(sign)
  counts = np.unique(np.stack(signs), axis=0)
  assert len(counts) == 8, 'every combination of signs over the three channels occurs'


def test_clip_keeps_images_in_range_and_changes_only_what_was_outside() -> None:
  clipped = dataclasses.replace(STUDY, clip=True)
  for view in (2, 9):
    free, cut = shown(STUDY, view, 1), shown(clipped, view, 1)
    assert free.max() > 1 or free.min() < 0
    np.testing.assert_array_equal(cut, np.clip(free, 0, 1))


def test_two_classifiers_see_the_same_images() -> None:
  """Keys depend on seed, study, example and view: nothing of a classifier enters."""
  assert STUDY.views(SHAPE).uses_classifier is False
  own, other = (
    np.asarray(
      jax.random.key_data(
        random_keys.for_example(random_keys.stream(0, STUDY.name), 7, STUDY.views(SHAPE).ids[4])
      )
    )
    for _ in range(2)
  )
  np.testing.assert_array_equal(own, other)
  np.testing.assert_array_equal(shown(STUDY, 4, 7), shown(STUDY, 4, 7))


def test_illustrations_are_what_was_shown() -> None:
  key = random_keys.stream(0, STUDY.name)
  arrays = STUDY.sample_arrays(tiny_rows(COUNT), key)
  np.testing.assert_array_equal(arrays['sample_images'][0], tiny_rows(COUNT).images[0])
  views = STUDY.views(SHAPE).parameters
  for image, (y, x) in zip(
    arrays['sample_images'][1:], arrays['sample_frequencies'][1:], strict=True
  ):
    view = 1 + int(
      np.flatnonzero(
        [
          {(fy % HEIGHT, fx % WIDTH), (-fy % HEIGHT, -fx % WIDTH)} >= {(y % HEIGHT, x % WIDTH)}
          for fy, fx in zip(views['fy'][1:], views['fx'][1:], strict=True)
        ]
      )[0]
    )
    np.testing.assert_allclose(image, shown(STUDY, view, 0), atol=1e-6)
  norms = np.linalg.norm(arrays['basis_images'], axis=(-2, -1))
  np.testing.assert_allclose(norms, 1, rtol=1e-5)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'norm': 0.0}, 'config.study.norm'),
    ({'norm': -1.0}, 'config.study.norm'),
    ({'norm': float('inf')}, 'config.study.norm'),
    ({'phase': 'sine'}, "did you mean 'cosine'"),
    ({'top_k': 0}, 'config.study.top_k'),
    ({'confidence': 1.0}, 'config.study.confidence'),
    ({'false_discovery_rate': 0.0}, 'config.study.false_discovery_rate'),
  ],
)
def test_bad_settings_are_refused(change: dict, message: str) -> None:
  with pytest.raises(InputError, match=message):
    dataclasses.replace(STUDY, **change)


@pytest.mark.parametrize('window', [6, -1])
def test_window_larger_than_the_image_is_refused(window: int) -> None:
  with pytest.raises(InputError, match=r'must lie in 1\.\.5'):
    dataclasses.replace(STUDY, window=window).views(SHAPE)


def test_verdict_reads_the_interval() -> None:
  findings = [
    fourier_heatmap.verdict(Number(0.0, low, high, 10, 'normal'))
    for low, high in ((-0.2, -0.1), (0.1, 0.2), (-0.1, 0.1))
  ]
  assert findings == ['better', 'worse', 'no significant difference']


@pytest.mark.parametrize('window', [0, 5])
def test_the_table_has_every_number_and_map(evaluate: Evaluate, window: int) -> None:
  study = dataclasses.replace(STUDY, window=window, layers=('stage1',))
  evaluations = evaluate(study)
  findings = study.reduce(evaluations, SHAPE)
  results = assemble(findings.estimates)
  frequencies = study.frequencies(SHAPE)
  for label in ('first', 'second'):
    maps = {'error': ('error', {}), 'top2_error': ('top2_error', {})}
    maps['layer_change/stage1'] = ('layer_change', {'layer': 'stage1'})
    for name, (quantity, facets) in maps.items():
      rows = select(results, quantity, frequency_y=..., frequency_x=..., **facets)
      rows = rows[rows.classifier == label].reset_index()
      for end, column in (('', 'value'), ('_low', 'low'), ('_high', 'high')):
        expected = findings.arrays[f'{label}/{name}{end}']
        np.testing.assert_allclose(rows[column].to_numpy()[frequencies.cell], expected, atol=1e-9)
    radial = select(results, 'error', radius=...)
    ends = [findings.arrays[f'{label}/radial_error{end}'] for end in ('', '_low', '_high')]
    assert_same_arrays(radial[radial.classifier == label].sort_values('radius'), *ends)
    radii, rings = ring_masks(frequencies.axis_y, frequencies.axis_x)
    of_rings = [findings.arrays[f'{label}/error'][ring].mean() for ring in rings]
    np.testing.assert_allclose(ends[0], of_rings)
    np.testing.assert_array_equal(findings.arrays['radius'], radii)
    assert_same(estimate(results, label, 'clean_error'), findings.numbers[f'{label}/clean_error'])
    for band in ('low', 'mid', 'high'):
      if f'{label}/error_{band}_frequencies' in findings.numbers:
        own = findings.numbers[f'{label}/error_{band}_frequencies']
        row = estimate(results, label, 'error', band=band)
        assert_same(row, own)
    whole = findings.numbers[f'{label}/error_all_frequencies']
    assert_same(estimate(results, label, 'error'), whole)
  pairs = select(results, 'error', 'first', frequency_y=..., frequency_x=...)
  for end, column in (('', 'value'), ('_low', 'low'), ('_high', 'high'), ('_p', 'p')):
    expected = findings.arrays[f'second/difference{end}']
    np.testing.assert_allclose(pairs[column].to_numpy()[frequencies.cell], expected, atol=1e-9)
  difference = findings.numbers['second/difference_all_frequencies']
  assert_same(estimate(results, 'second', 'error', 'first'), difference)
