"""Pictures from NumPy arrays: every function returns a Matplotlib figure, `save` writes it."""

from robustness.figures.accuracy_bars import accuracy_bars as accuracy_bars
from robustness.figures.heat_map import draw_difference_map as draw_difference_map
from robustness.figures.heat_map import draw_heat_map as draw_heat_map
from robustness.figures.heat_map import heat_map_panels as heat_map_panels
from robustness.figures.images import basis_gallery as basis_gallery
from robustness.figures.images import sample_images as sample_images
from robustness.figures.style import save as save
