"""Sample images, the basis and accuracy bars."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from robustness.core.errors import InputError
from robustness.figures import accuracy_bars, basis_gallery, sample_images, save
from robustness.metrics import proportion


def words(figure: Figure) -> str:
  texts = [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, 'get_text'))]
  return '\n'.join(texts)


def saved(figure: Figure, tmp_path) -> int:
  save(figure, tmp_path / 'figure.png', dpi=60)
  return (tmp_path / 'figure.png').stat().st_size


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


def test_accuracy_bars_show_values_and_intervals(tmp_path):
  numbers = {'top-1': proportion(917, 1000), 'top-5': proportion(997, 1000)}
  figure = accuracy_bars({'resnet20': numbers, 'other': {'top-1': proportion(0, 1000)}})
  for phrase in ('resnet20', 'other', 'top-1', 'top-5', 'accuracy (%)', '91.7% [', '0.0% ['):
    assert phrase in words(figure)
  assert saved(figure, tmp_path) > 1000
  with pytest.raises(InputError, match='no accuracies'):
    accuracy_bars({'a': {}})
