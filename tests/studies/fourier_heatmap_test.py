"""Tests the study `fourier_heatmap`: its table against NumPy on the records, and its views."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import stats

from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.estimates.intervals import korn_graubard
from robustness.estimates.table import select
from robustness.evaluation.study import Evaluation, Findings
from robustness.fourier.basis import CLEAN, basis_image
from robustness.fourier.maps import band_map, centred_map
from robustness.models.label_space import align, get
from robustness.results import Results
from robustness.studies.fourier_heatmap import FourierHeatmap
from tests.networks import SHAPE, tiny_rows
from tests.refusals import bad_setting, refused
from tests.studies import conftest
from tests.studies.conftest import COUNT, measured, table_of
from tests.table_rows import estimate

STUDY = FourierHeatmap(norm=1.5, top_k=2)
HEIGHT, WIDTH, _ = SHAPE
AXIS_Y, AXIS_X = np.arange(HEIGHT) - HEIGHT // 2, np.arange(WIDTH) - WIDTH // 2
"""Frequencies of the cells of a map, zero in the centre."""


def show_example(study: FourierHeatmap, view: int, example: int) -> np.ndarray:
  return conftest.show_image(study, tiny_rows(COUNT).images[example], view, example)


def by_frequency(study: FourierHeatmap, values: np.ndarray) -> np.ndarray:
  """Returns the map of values [views], by looking up each cell's frequency or its mirror."""
  views = study.views(SHAPE).parameters
  waves = enumerate(zip(views['fy'], views['fx'], strict=True))
  place = {(int(y) % HEIGHT, int(x) % WIDTH): v for v, (y, x) in waves if v != CLEAN}

  def look_up(y: int, x: int) -> int:
    frequency, mirror = (y % HEIGHT, x % WIDTH), (-y % HEIGHT, -x % WIDTH)
    return place[frequency] if frequency in place else place[mirror]

  return np.array([[values[look_up(y, x)] for x in AXIS_X] for y in AXIS_Y])


def reduced(study: FourierHeatmap, evaluations: list[Evaluation]) -> Results:
  """Returns results that hold the table of the evaluations."""
  table = table_of(study, evaluations)
  described = {'image_shape': list(SHAPE)}
  return Results(study.name, [], described, study.describe(), table=table)


def map_of(results: Results, *args: Any, **facets: Any) -> np.ndarray:
  """Returns a map [HEIGHT, WIDTH] as figures draw it; takes the arguments of `centred_map`."""
  return centred_map(results, *args, **facets)[2]


def sample_arrays(study: FourierHeatmap) -> dict[str, np.ndarray]:
  return study.sample_arrays(tiny_rows(COUNT), random_keys.stream(0, STUDY.name), Findings())


def test_error_maps_are_counts_and_a_frequency_is_one_trial_with_its_mirror():
  results, evaluation = measured(STUDY, ('first',))
  rank = evaluation.records.table('rank')
  for k, name in ((1, 'error'), (2, 'top2_error')):
    wrong = (rank >= k).sum(0)
    values = map_of(results, name, 'first')
    np.testing.assert_array_equal(values, by_frequency(STUDY, wrong / COUNT))
    exact = [stats.binomtest(int(w), COUNT).proportion_ci(0.95, 'exact') for w in wrong]
    for end in ('low', 'high'):
      expected = by_frequency(STUDY, np.array([getattr(interval, end) for interval in exact]))
      np.testing.assert_allclose(map_of(results, name, 'first', '', end), expected, atol=1e-12)
    clean = estimate(results.table, 'first', f'clean_{name}')
    assert (clean.value, clean.n) == (wrong[CLEAN] / COUNT, COUNT)
    assert len(np.unique(values)) > 3, 'a map without structure would show nothing'
  # The interval of Korn and Graubard over images; trials are frequencies, not cells.
  frequencies = STUDY.frequencies(SHAPE)
  cells = np.bincount(frequencies.cell.ravel())
  share = (rank[:, 1:] > 0) @ cells / cells.sum()
  trials = cells.sum() ** 2 / (cells**2).sum()
  row = estimate(results.table, 'first', 'error')
  expected = korn_graubard(share.mean(), share.std(ddof=1), COUNT, trials)
  assert (row.low, row.high) == pytest.approx(expected)
  assert trials <= len(frequencies) < frequencies.cell.size


def test_difference_map_and_its_significance_against_scipy():
  unadjusted, first, second = measured(STUDY)
  right = [e.records.table('rank') == 0 for e in (first, second)]
  lost, gained = (right[0] & ~right[1]).sum(0), (~right[0] & right[1]).sum(0)
  pairs = zip(lost, gained, strict=True)
  p = [stats.binomtest(int(x), int(x + y)).pvalue if x + y else 1.0 for x, y in pairs]
  p = np.array(p)
  adjusted = stats.false_discovery_control(p[CLEAN + 1 :])
  study = dataclasses.replace(STUDY, false_discovery_rate=float(np.median(adjusted)) + 1e-9)
  results = reduced(study, [first, second])
  difference = (right[0].astype(float) - right[1]).mean(0)
  for column, expected in (('p', p), ('value', difference)):
    values = map_of(results, 'error', 'second', 'first', column)
    np.testing.assert_allclose(values, by_frequency(study, expected), atol=1e-12)
  significant = adjusted <= study.false_discovery_rate
  assert 0 < significant.sum() < len(significant), 'both kinds must occur in this test'
  for finding, sign in (('less error', -1), ('more error', 1)):
    count = (significant & (sign * difference[CLEAN + 1 :] > 0)).sum()
    row = estimate(results.table, 'second', 'significant_frequencies', finding=finding)
    assert row.value == pytest.approx(count / len(significant)) and row.n == COUNT
    assert row.note.startswith(f'{count} of {len(significant)} frequencies, at')


def test_means_over_frequencies_weigh_every_cell_once():
  results, *_ = measured(STUDY)
  distance = np.hypot(AXIS_Y[:, None], AXIS_X)
  nyquist = min(HEIGHT, WIDTH) / 2
  masks: dict[tuple[str, Any], np.ndarray] = {
    ('band', 'low'): distance < nyquist / 4,
    ('band', 'high'): distance >= nyquist / 2,
    **{('radius', radius): np.rint(distance) == radius for radius in (0, 1, 2, 3)},
  }
  for label, versus in (('first', ''), ('second', ''), ('second', 'first')):
    errors = map_of(results, 'error', label, versus)
    mean = estimate(results.table, label, 'error', versus)
    assert mean.value == pytest.approx(errors.mean()) and mean.n == COUNT
    assert mean.low < mean.value < mean.high
    for (facet, value), mask in masks.items():
      row = estimate(results.table, label, 'error', versus, **{facet: value})
      assert row.value == pytest.approx(errors[mask].mean()), (facet, value)
  radii = select(results.table, 'error', radius=...)
  assert set(radii.radius) == set(np.rint(distance).astype(int).ravel())


def test_figures_show_the_map_waves_and_samples():
  results, *_ = measured(STUDY)
  figures = results.figures()
  assert {'error_frequency_y_frequency_x', 'sample_images', 'basis'} < set(figures)
  assert all('norm 1.5' in caption for name, (_, caption) in figures.items() if name != 'basis')
  [axes] = figures['sample_images'][0].axes
  titles = [text.get_text() for text in axes.texts if text.get_text()]
  assert titles == ['clean', '(−1, −1)', '(−2, −2)']


@pytest.mark.slow
def test_bands_that_the_window_cuts_have_a_note():
  (full, *_), (cut, *_) = measured(STUDY), measured(dataclasses.replace(STUDY, window=1))
  cells = {row[0]: row[1:] for row in cut.tables['bands'].rows}
  assert cells['all'] == [1, HEIGHT * WIDTH] and cells['high'][0] == 0 < cells['high'][1]
  assert all(row[1] == row[2] for row in full.tables['bands'].rows)
  assert 'high' not in set(cut.table.band.dropna())
  note = f'the window of 1 × 1 shows 1 of {HEIGHT * WIDTH} cells'
  assert estimate(cut.table, 'second', 'error', 'first').note == note
  assert not select(full.table, 'error', band=...).note.any(), 'a whole map cuts no band'


def test_layer_maps_are_means_of_the_records():
  study = dataclasses.replace(STUDY, layers=('stages',))
  results, evaluation = measured(study, ('first',))
  for layer in ('stage1', 'logits'):
    change = evaluation.records.table(f'layer_change/{layer}').astype(np.float64)
    columns = ('value', 'high')
    values, high = (map_of(results, 'layer_change', 'first', '', c, layer=layer) for c in columns)
    np.testing.assert_allclose(values, by_frequency(study, change.mean(0)), rtol=1e-6)
    spread = stats.t.ppf(0.975, COUNT - 1) * change.std(0, ddof=1) / np.sqrt(COUNT)
    np.testing.assert_allclose(high, by_frequency(study, change.mean(0) + spread), rtol=1e-4)


@pytest.mark.slow
def test_each_layer_map_is_drawn_as_shares_of_its_largest_value():
  results, *_ = measured(dataclasses.replace(STUDY, layers=('stages',)))
  figures = results.figures()
  for label in ('first', 'second'):
    figure, caption = figures[f'layer_change_frequency_y_frequency_x_layer_{label}']
    assert 'share of the largest in its map' in caption
    for axes, layer in zip(figure.axes[:2], ('stage1', 'logits'), strict=True):
      change = map_of(results, 'layer_change', label, layer=layer)
      (image,) = axes.images
      np.testing.assert_allclose(image.get_array(), 100 * change / change.max(), rtol=1e-6)
      assert axes.get_title() == f'{layer}, largest {change.max():.3g}'
  errors = [quantity for quantity in results.quantities if quantity.name != 'layer_change']
  drawn = dataclasses.replace(results, quantities=tuple(errors)).figures()
  assert drawn and drawn.keys() == {name for name in figures if 'layer_change' not in name}


def test_view_ids_are_distinct_and_illustrations_equal_the_views():
  views = STUDY.views(SHAPE)
  assert len(np.unique(views.ids)) == len(views) == 1 + len(STUDY.frequencies(SHAPE))
  np.testing.assert_array_equal(show_example(STUDY, CLEAN, 3), tiny_rows(COUNT).images[3])
  arrays = sample_arrays(STUDY)
  np.testing.assert_array_equal(arrays['sample_images'][0], tiny_rows(COUNT).images[0])
  views = STUDY.views(SHAPE).parameters
  pairs = list(zip(views['fy'], views['fx'], strict=True))[1:]
  samples = zip(arrays['sample_images'], arrays['sample_frequencies'], strict=True)
  for image, (y, x) in list(samples)[1:]:
    mirrors = {(sign * y % HEIGHT, sign * x % WIDTH) for sign in (1, -1)}
    view = 1 + [(fy % HEIGHT, fx % WIDTH) in mirrors for fy, fx in pairs].index(True)
    np.testing.assert_allclose(image, show_example(STUDY, view, 0), atol=1e-6)
  norms = np.linalg.norm(arrays['basis_images'], axis=(-2, -1))
  np.testing.assert_allclose(norms, 1, rtol=1e-5)


@pytest.mark.parametrize('phase', ['reference', 'cosine'])
def test_perturbation_is_plus_or_minus_v_times_the_basis(phase):
  study = dataclasses.replace(STUDY, phase=phase)
  views, images = study.views(SHAPE), tiny_rows(COUNT).images
  signs = []
  for view in range(1, len(views)):
    pair = views.parameters['fy'][view], views.parameters['fx'][view]
    wave = np.asarray(basis_image(*pair, HEIGHT, WIDTH, phase))
    for example in range(3):
      free = show_example(study, view, example)
      cut = show_example(dataclasses.replace(study, clip=True), view, example)
      np.testing.assert_array_equal(cut, np.clip(free, 0, 1))
      added = free - images[example]
      sign = np.sign((added * wave[..., None]).sum((0, 1)))
      np.testing.assert_allclose(added, 1.5 * wave[..., None] * sign, atol=1e-5)
      signs.append(sign)
  counts = np.unique(np.stack(signs), axis=0)
  assert len(counts) == 8, 'every combination of signs over the three channels occurs'


def test_a_map_of_a_class_is_the_error_on_its_images():
  study, names = dataclasses.replace(STUDY, classes=('all',)), tiny_rows(COUNT).class_names
  results, evaluation = measured(study, ('first',))
  wrong, labels = evaluation.records.table('rank') > 0, evaluation.records.column('label')
  for label, name in enumerate(names):
    class_map = map_of(results, 'class_error', 'first', **{'class': name})
    expected = wrong[labels == label].mean(0)
    np.testing.assert_allclose(class_map, by_frequency(study, expected))
    in_band = select(results.table, 'class_error_in_band', band=..., **{'class': name})
    band_means = [class_map[band_map(SHAPE) == band].mean() for band in in_band.band]
    np.testing.assert_allclose(in_band.value, band_means)
  assert study.recording == STUDY.recording, 'maps of classes use the records of the whole map'
  evaluation.records.identity = {'classes': ['tench', 'goldfish', *names[2:]]}
  by_word = reduced(dataclasses.replace(STUDY, classes=('n01443537', 'tench')), [evaluation])
  for name, label in (('n01443537', names[1]), ('tench', names[0])):
    from_word = map_of(by_word, 'class_error', 'first', **{'class': name})
    from_label = map_of(results, 'class_error', 'first', **{'class': label})
    np.testing.assert_array_equal(from_word, from_label)
  evaluation.records.identity = {'classes': ['lynx', *names[1:], 'wolf']}
  table, key = reduced(study, [evaluation]).table, 'config.study.classes'
  in_bands = select(table, 'class_error_in_band', band=..., **{'class': ...})
  assert {*in_bands['class']} == {'lynx', *names[1:]}, 'no image is a wolf'
  no_class = dataclasses.replace(STUDY, classes=('owl',))
  refused(bad_setting(key, 'owl'), reduced, no_class, [evaluation])
  lynx = dataclasses.replace(STUDY, classes=('lynx',))
  refused(bad_setting(key, 'lynx'), lynx.check_classes, tiny_rows(COUNT))
  rows_of_three_classes = tiny_rows(COUNT).at(np.flatnonzero(tiny_rows(COUNT).labels != 1))
  study = dataclasses.replace(STUDY, classes=(rows_of_three_classes.class_names[1],))
  message = 'of which there is no image among .*num_images'
  refused(message, study.check_classes, rows_of_three_classes)


def test_classes_in_a_coarser_label_space_are_those_of_the_space():
  chihuahuas = ArrayRows(tiny_rows(COUNT).images[:2], np.zeros(2, int), ('n02085620',))
  space = get('imagenet_vid')
  dogs = align(chihuahuas, space.class_names, 'net')
  of_dogs, of_chihuahuas = (
    dataclasses.replace(STUDY, classes=(name,)) for name in ('dog', 'n02085620')
  )
  of_dogs.check_classes(dogs)
  of_chihuahuas.check_classes(chihuahuas)
  expected = bad_setting('config.study.classes', 'n02085620')
  refused(expected, of_chihuahuas.check_classes, dogs)
