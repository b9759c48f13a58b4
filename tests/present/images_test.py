"""`grid` draws pictures in rows with titles, `basis_figure` the Fourier basis like its heat map."""

import numpy as np
import pytest

from robustness.present.images import basis_figure, grid

GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize('shape', [(8, 8, 1), (9, 5, 3)])
def test_pictures_stand_in_rows_with_names_and_titles(shape):
  pictures = GENERATOR.normal(0.5, 1, (2, 3, *shape))
  titles = ('clean', '(0, 3)', '(4, 4)')
  rows = [dict(zip(titles, images, strict=True)) for images in pictures]
  figure = grid(dict(zip('ab', rows, strict=True)), 'L2 norm 4')
  [axes] = figure.axes
  texts = {text.get_text(): text.get_position() for text in axes.texts}
  assert set(texts) == {*titles, 'a', 'b', ''}
  assert texts['clean'][0] < texts['(0, 3)'][0] < texts['(4, 4)'][0]
  assert texts['a'][1] < texts['b'][1]  # the vertical coordinate grows downwards
  height, width, _ = shape
  for row, image in zip(pictures, axes.images, strict=True):
    pixels = np.array(image.get_array())
    gap = pixels.shape[1] // 3 - width
    assert gap == 1  # white, to the right of each picture
    tiles = pixels.reshape(height, 3, width + gap, 3).swapaxes(0, 1)
    np.testing.assert_array_equal(
      tiles[:, :, :width], np.broadcast_to(row.clip(0, 1), (3, height, width, 3))
    )
    assert (tiles[:, :, width:] == 1).all()
    start, end, bottom, top = image.get_extent()
    assert (end - start) / (bottom - top) == pytest.approx(3 * (width + gap) / height)
  assert figure.get_supxlabel() == 'L2 norm 4'


def test_the_label_below_few_pictures_is_within_the_figure():
  image = np.zeros((4, 4, 1))
  words = '(vertical, horizontal) frequency in cycles per image'
  figure = grid({'': {'1': image, '2': image}}, words)
  figure.draw_without_rendering()
  [label] = figure.texts
  box = label.get_window_extent()
  assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y0 >= 0


def test_rows_with_other_titles_show_them():
  image = np.zeros((4, 4, 1))
  figure = grid({'a': {'1': image, '2': image}, 'b': {'3': image}})
  [axes] = figure.axes
  places = {text.get_text(): text.get_position() for text in axes.texts}
  assert [*places] == ['1', '2', 'a', '3', 'b']
  bottom_of_first_row = axes.images[0].get_extent()[2]
  assert bottom_of_first_row < places['3'][1] < axes.images[1].get_extent()[3]
  assert places['3'][0] == places['1'][0]


def test_the_basis_is_laid_out_as_the_heat_map():
  images = np.zeros((2, 3, 10, 12))
  images[1, 2] = 1.0
  axes = basis_figure(images).axes[0]
  mosaic = axes.images[0].get_array()
  assert mosaic.shape == (2 * 10 + 1, 3 * 12 + 2)
  np.testing.assert_array_equal(mosaic[11:, 26:], 1.0)
  assert [label.get_text() for label in axes.get_xticklabels()] == ['−1', '0', '1']
  assert [label.get_text() for label in axes.get_yticklabels()] == ['−1', '0']
  assert axes.images[0].get_clim() == (-1, 1)
