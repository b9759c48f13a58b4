"""The heat map's table against plain NumPy on the raw records, and what its views promise."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from robustness.core import random_keys
from robustness.core.errors import InputError
from robustness.estimates.intervals import korn_graubard
from robustness.estimates.table import assemble, select
from robustness.evaluation.study import Evaluation, Findings
from robustness.fourier.basis import CLEAN, basis_image
from robustness.fourier.maps import centred_map
from robustness.results import Results
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.networks import SHAPE, tiny_rows
from tests.studies.conftest import COUNT, Evaluate, table
from tests.table_rows import estimate

STUDY = FourierHeatmap(norm=1.5, top_k=2)
HEIGHT, WIDTH, _ = SHAPE
AXIS_Y, AXIS_X = np.arange(HEIGHT) - HEIGHT // 2, np.arange(WIDTH) - WIDTH // 2


def shown(study: FourierHeatmap, view: int, example: int) -> np.ndarray:
  views, rows = study.views(SHAPE), tiny_rows(COUNT)
  key = random_keys.for_example(random_keys.stream(0, study.name), example, views.ids[view])
  parameters = {name: values[view] for name, values in views.parameters.items()}
  return np.asarray(views.show(key, {'image': rows.images[example]}, parameters))


def by_frequency(study: FourierHeatmap, values: np.ndarray) -> np.ndarray:
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


def reduced(study: FourierHeatmap, evaluations: list[Evaluation]) -> Results:
  table = assemble(study.reduce(evaluations, SHAPE).estimates)
  described = {'image_shape': list(SHAPE)}
  return Results(study.name, {}, described, study.describe(), table=table)


def drawn(results: Results, *args: Any, **facets: Any) -> np.ndarray:
  return centred_map(results, *args, **facets)[2]


def test_error_maps_are_counts_of_the_raw_records(evaluate: Evaluate) -> None:
  (only,) = evaluate(STUDY, ('first',))
  results = reduced(STUDY, [only])
  rank = table(only, 'rank')
  for k, name in ((1, 'error'), (2, 'top2_error')):
    wrong = (rank >= k).sum(0)
    values = drawn(results, name, 'first')
    np.testing.assert_array_equal(values, by_frequency(STUDY, wrong / COUNT))
    exact = [stats.binomtest(int(w), COUNT).proportion_ci(0.95, 'exact') for w in wrong]
    for end in ('low', 'high'):
      expected = by_frequency(STUDY, np.array([getattr(own, end) for own in exact]))
      np.testing.assert_allclose(drawn(results, name, 'first', '', end), expected, atol=1e-12)
    clean = estimate(results.table, 'first', f'clean_{name}')
    assert (clean.value, clean.n) == (wrong[CLEAN] / COUNT, COUNT)
    assert len(np.unique(values)) > 3, 'a map without structure would show nothing'


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
  results = reduced(study, [first, second])
  difference = (right[0].astype(float) - right[1]).mean(0)
  for column, expected in (('p', p), ('value', difference)):
    values = drawn(results, 'error', 'second', 'first', column)
    np.testing.assert_allclose(values, by_frequency(study, expected), atol=1e-12)
  significant = adjusted <= study.false_discovery_rate
  assert 0 < significant.sum() < len(significant), 'both kinds must occur in this test'
  for finding, sign in (('less error', -1), ('more error', 1)):
    count = (significant & (sign * difference[CLEAN + 1 :] > 0)).sum()
    row = estimate(results.table, 'second', 'significant_frequencies', finding=finding)
    assert row.value == pytest.approx(count / len(significant)) and row.n == COUNT
    assert row.note.startswith(f'{count} of {len(significant)} frequencies, at')


def test_means_over_frequencies_weigh_every_cell_once(evaluate: Evaluate) -> None:
  results = reduced(STUDY, evaluate(STUDY))
  distance = np.hypot(AXIS_Y[:, None], AXIS_X)
  nyquist = min(HEIGHT, WIDTH) / 2
  masks: dict[tuple[str, Any], np.ndarray] = {
    ('band', 'low'): distance < nyquist / 4,
    ('band', 'high'): distance >= nyquist / 2,
    **{('radius', radius): np.rint(distance) == radius for radius in (0, 1, 2, 3)},
  }
  for label, versus in (('first', ''), ('second', ''), ('second', 'first')):
    errors = drawn(results, 'error', label, versus)
    whole = estimate(results.table, label, 'error', versus)
    assert whole.value == pytest.approx(errors.mean()) and whole.n == COUNT
    assert whole.low < whole.value < whole.high
    for (facet, value), mask in masks.items():
      row = estimate(results.table, label, 'error', versus, **{facet: value})
      assert row.value == pytest.approx(errors[mask].mean()), (facet, value)
  radii = select(results.table, 'error', radius=...)
  assert set(radii.radius) == set(np.rint(distance).astype(int).ravel())


def test_bands_that_the_window_cuts_say_so(evaluate: Evaluate) -> None:
  window = dataclasses.replace(STUDY, window=1)
  whole, cut = (s.reduce(evaluate(s, name=f'bands{s.window}'), SHAPE) for s in (STUDY, window))
  cells = {row[0]: row[1:] for row in cut.tables['bands'].rows}
  assert cells['all'] == [1, HEIGHT * WIDTH] and cells['high'][0] == 0 < cells['high'][1]
  assert all(row[1] == row[2] for row in whole.tables['bands'].rows)
  rows, of_cut = assemble(whole.estimates), assemble(cut.estimates)
  assert 'high' not in set(of_cut.band.dropna())
  note = f'the window of 1 × 1 shows 1 of {HEIGHT * WIDTH} cells'
  assert estimate(of_cut, 'second', 'error', 'first').note == note
  assert not rows[rows['quantity'] == 'error'].note.any(), 'nothing is cut of a whole map'


def test_a_frequency_and_its_mirror_are_one_trial(evaluate: Evaluate) -> None:
  """Korn and Graubard's interval of images whose trials are the frequencies, not the cells."""
  evaluation = evaluate(STUDY)[0]
  frequencies = STUDY.frequencies(SHAPE)
  cells = np.bincount(frequencies.cell.ravel())
  share = (table(evaluation, 'rank')[:, 1:] > 0) @ cells / cells.sum()
  trials = cells.sum() ** 2 / (cells**2).sum()
  row = estimate(reduced(STUDY, [evaluation]).table, 'first', 'error')
  expected = korn_graubard(share.mean(), share.std(ddof=1), COUNT, trials)
  assert (row.low, row.high) == pytest.approx(expected)
  assert trials <= len(frequencies) < frequencies.cell.size


def test_layer_maps_are_means_of_the_records(evaluate: Evaluate) -> None:
  study = dataclasses.replace(STUDY, layers=('stages',))
  (only,) = evaluate(study, ('first',))
  results = reduced(study, [only])
  for layer in ('stage1', 'logits'):
    change = table(only, f'layer_change/{layer}').astype(np.float64)
    values, high = (
      drawn(results, 'layer_change', 'first', '', column, layer=layer)
      for column in ('value', 'high')
    )
    np.testing.assert_allclose(values, by_frequency(study, change.mean(0)), rtol=1e-6)
    spread = stats.t.ppf(0.975, COUNT - 1) * change.std(0, ddof=1) / np.sqrt(COUNT)
    np.testing.assert_allclose(high, by_frequency(study, change.mean(0) + spread), rtol=1e-4)


def test_a_window_is_the_cut_of_the_full_map(evaluate: Evaluate) -> None:
  window = dataclasses.replace(STUDY, window=3)
  full, cut = (reduced(s, evaluate(s, name=f'window{s.window}')) for s in (STUDY, window))
  rows = slice(HEIGHT // 2 - 1, HEIGHT // 2 + 2)
  columns = slice(WIDTH // 2 - 1, WIDTH // 2 + 2)
  pair = ('error', 'second', 'first')
  for chosen in (('error', 'first'), ('error', 'second'), ('top2_error', 'first'), pair):
    np.testing.assert_array_equal(drawn(cut, *chosen), drawn(full, *chosen)[rows, columns])


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


def test_illustrations_are_what_was_shown() -> None:
  key = random_keys.stream(0, STUDY.name)
  arrays = STUDY.sample_arrays(tiny_rows(COUNT), key, Findings())
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


@pytest.mark.parametrize('window', [6, -1])
def test_window_larger_than_the_image_is_refused(window: int) -> None:
  with pytest.raises(InputError, match=r'must lie in 1\.\.5'):
    dataclasses.replace(STUDY, window=window).views(SHAPE)


def test_pictures_of_the_waves_are_drawn_beside_the_table(evaluate: Evaluate) -> None:
  results = reduced(STUDY, evaluate(STUDY))
  results.quantities = STUDY.quantities
  results.arrays = STUDY.sample_arrays(
    tiny_rows(COUNT), random_keys.stream(0, STUDY.name), Findings()
  )
  figures = STUDY.figures(results)
  assert {'error_frequency_y_frequency_x', 'sample_images', 'basis'} < set(figures)
  assert all('norm 1.5' in caption for name, (_, caption) in figures.items() if name != 'basis')
  titles = [axes.get_title() for axes in figures['sample_images'][0].axes]
  assert titles == ['clean', '(−1, −1)', '(−2, −2)']
