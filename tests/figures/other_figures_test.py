"""Layer maps, sample images, the basis, radial curves and accuracy bars."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.figures import (
  accuracy_bars,
  basis_gallery,
  layer_maps,
  radial_curves,
  sample_images,
  save,
)
from robustness.metrics import RadialCurve, proportion

FREQUENCIES = np.arange(6) - 3


def words(figure: Figure) -> str:
  texts = [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, 'get_text'))]
  return '\n'.join(texts)


def saved(figure: Figure, tmp_path) -> int:
  save(figure, tmp_path / 'figure.png', dpi=60)
  return (tmp_path / 'figure.png').stat().st_size


def test_layer_maps_share_a_scale_within_a_layer(tmp_path):
  ones = np.ones((6, 6))
  changes = {
    'plain': {'stage1': ones, 'logits': 20 * ones},
    'gaussian': {'stage1': 3 * ones, 'logits': 5 * ones},
  }
  figure = layer_maps(changes, FREQUENCIES, FREQUENCIES)
  limits = [axes.images[0].get_clim()[1] for axes in figure.axes if axes.images]
  assert limits == [3, 20, 3, 20]
  for phrase in (
    'stage1',
    'logits',
    'plain',
    'gaussian',
    'mean L2 change',
    'horizontal frequency (cycles per image)',
  ):
    assert phrase in words(figure)
  assert saved(figure, tmp_path) > 1000


def test_layer_maps_divided_by_their_largest_value():
  values = np.arange(36.0).reshape(6, 6)
  figure = layer_maps({'plain': {'a': values, 'zero': 0 * values}}, FREQUENCIES, FREQUENCIES, 'max')
  shown = [axes.images[0].get_array() for axes in figure.axes if axes.images]
  np.testing.assert_allclose(shown[0], values / 35)
  np.testing.assert_allclose(shown[1], 0)


def test_a_layer_that_one_classifier_lacks_is_said():
  ones = np.ones((6, 6))
  figure = layer_maps({'a': {'x': ones, 'y': ones}, 'b': {'x': ones}}, FREQUENCIES, FREQUENCIES)
  assert words(figure).count('no such layer') == 1


@pytest.mark.parametrize(
  ('changes', 'normalise', 'message'),
  [
    ({'a': {'x': np.ones((6, 6))}}, 'mx', "did you mean 'max'"),
    ({'a': {}}, 'none', 'at least one'),
    ({'a': {'x': -np.ones((6, 6))}}, 'none', 'a: x holds -1'),
    ({'a': {'x': np.ones((6, 5))}}, 'none', 'shape'),
  ],
)
def test_bad_layer_maps(changes, normalise, message):
  with pytest.raises(InputError, match=message):
    layer_maps(changes, FREQUENCIES, FREQUENCIES, normalise)


@pytest.mark.parametrize('shape', [(3, 8, 8, 1), (3, 9, 5, 3), (2, 3, 8, 8, 3)])
def test_sample_images_are_labelled_by_frequency(shape, tmp_path):
  images = np.random.default_rng(0).normal(0.5, 1, shape)
  figure = sample_images(images, [None, (0, 3), (-4, 4)], norm=4.0)
  assert [axes.get_title() for axes in figure.axes[:3]] == ['clean', '(0, 3)', '(−4, 4)']
  assert 'L2 norm 4 in each channel' in words(figure)
  assert len(figure.axes) == int(np.prod(shape[:-3]))
  shown = figure.axes[0].images[0].get_array()
  assert shown.min() >= 0 and shown.max() <= 1
  assert saved(figure, tmp_path) > 1000


def test_sample_images_refuses_what_does_not_fit():
  with pytest.raises(InputError, match='3 images a row for 2'):
    sample_images(np.zeros((3, 4, 4, 1)), [(0, 0), (0, 1)])
  with pytest.raises(InputError, match='1 or 3 channels'):
    sample_images(np.zeros((1, 4, 4, 2)), [(0, 0)])


def test_basis_gallery_is_laid_out_as_the_heat_map(tmp_path):
  basis = np.zeros((2, 3, 10, 12))
  basis[1, 2] = 1.0
  figure = basis_gallery(basis, [-1, 0], [-1, 0, 1])
  axes = figure.axes[0]
  mosaic = axes.images[0].get_array()
  assert mosaic.shape == (2 * 10 + 1, 3 * 12 + 2)
  np.testing.assert_array_equal(mosaic[11:, 26:], 1.0)
  assert [label.get_text() for label in axes.get_xticklabels()] == ['−1', '0', '1']
  assert axes.images[0].get_clim() == (-1, 1)
  assert saved(figure, tmp_path) > 1000
  with pytest.raises(InputError, match='basis has shape'):
    basis_gallery(basis, [0], [0, 1, 2])


def test_radial_curves_in_percent_with_clean_errors(tmp_path):
  radii = np.arange(10)
  mean = np.linspace(0, 0.5, 10)
  curve = RadialCurve(radii, mean, mean - 0.1, mean + 0.1)
  figure = radial_curves({'plain': curve, 'gaussian': curve}, {'plain': proportion(1, 10)})
  axes = figure.axes[0]
  np.testing.assert_allclose(axes.lines[0].get_ydata(), 100 * mean)
  assert len(axes.lines) == 3 and axes.get_ylim()[0] == 0
  for phrase in ('cycles per image', 'top-1 error (%)', 'plain', 'gaussian', 'clean'):
    assert phrase in words(figure)
  assert saved(figure, tmp_path) > 1000
  with pytest.raises(InputError, match='no curves'):
    radial_curves({})


def test_accuracy_bars_show_values_and_intervals(tmp_path):
  numbers = {'top-1': proportion(917, 1000), 'top-5': proportion(997, 1000)}
  figure = accuracy_bars({'resnet20': numbers, 'other': {'top-1': proportion(0, 1000)}})
  for phrase in ('resnet20', 'other', 'top-1', 'top-5', 'accuracy (%)', '91.7% [', '0.0% ['):
    assert phrase in words(figure)
  assert saved(figure, tmp_path) > 1000
  with pytest.raises(InputError, match='no accuracies'):
    accuracy_bars({'a': {}})
