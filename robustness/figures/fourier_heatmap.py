"""The figures of the study `fourier_heatmap`, from its results alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from robustness.figures.heat_map import heat_map_panels
from robustness.figures.images import basis_gallery, sample_images
from robustness.figures.layer_maps import layer_maps
from robustness.figures.radial import radial_curves
from robustness.metrics.fourier import RadialCurve
from robustness.results import Results

LAYER = 'layer_change/'


def draw(results: Results) -> dict[str, tuple[Figure, str]]:
  """Draws all figures.

  Args:
    results: what the study left in `results.json` and `results.npz`.

  Returns:
    {name: (figure, caption)}: `heat_map`, `radial_error`, `top<k>_heat_map` if there are more
    classes than k, `layer_change` if layers were measured, `sample_images` and `basis`.
  """
  settings = results.settings
  v = f'v = {settings["norm"]:g}'
  shown = _shown(results)
  k = settings['top_k']
  figures: dict[str, tuple[Figure, str]] = {
    'heat_map': (
      _panels(results, 'error', 'top-1 error'),
      (
        f'Top-1 error on {shown} under every Fourier basis perturbation of norm {v}, zero '
        'frequency in the centre.'
      ),
    ),
    'radial_error': (
      _radial(results),
      f'Error by distance from zero frequency; bands are intervals over images.{_cut(results)}',
    ),
  }
  if all(f'{prefix}top{k}_error' in results.arrays for prefix in results.prefixes.values()):
    figures[f'top{k}_heat_map'] = (
      _panels(results, f'top{k}_error', f'top-{k} error'),
      f'Top-{k} error under the same perturbations.',
    )
  if 'passes' in results.tables:
    figures['images'] = (
      _images(results),
      'Images that each frequency was shown to until its interval was narrow enough.',
    )
  if any(LAYER in name for name in results.arrays):
    figures['layer_change'] = (
      _layers(results),
      ('Mean change ‖z_h(x) - z_h(x̃)‖ of the output of each layer.'),
    )
  figures['sample_images'] = (
    _samples(results),
    ('One image under basis perturbations from low to high frequency.'),
  )
  figures['basis'] = (_basis(results), 'Basis images around zero frequency.')
  return figures


def _shown(results: Results) -> str:
  """Says how many images each cell rests on."""
  if 'passes' not in results.tables:
    return f'{next(iter(results.numbers.values())).n} images'
  maps = _image_maps(results).values()
  fewest, most = min(map(np.min, maps)), max(map(np.max, maps))
  width = results.settings['half_width']
  return f'{fewest} to {most} images, so many that every interval is within ± {width:g},'


def _image_maps(results: Results) -> dict[str, np.ndarray]:
  """The number of images of each cell [H, W] by classifier; of a sequential design."""
  return {label: results.arrays[f'{prefix}images'] for label, prefix in results.prefixes.items()}


def _images(results: Results) -> Figure:
  maps = {label: {'until narrow': images} for label, images in _image_maps(results).items()}
  return layer_maps(maps, *_axes(results), quantity='images')


def _cut(results: Results) -> str:
  """Says how many cells of each band a window shows; nothing where it shows all."""
  table = results.tables.get('bands')
  cut = [row for row in table.rows if row[1] < row[2]] if table else []
  shares = ', '.join(f'{name} {shown} of {whole}' for name, shown, whole, _ in cut)
  return f' Cells that the window shows: {shares}.' if cut else ''


def _axes(results: Results) -> tuple[np.ndarray, np.ndarray]:
  return results.arrays['frequency_y'], results.arrays['frequency_x']


def _panels(results: Results, name: str, quantity: str) -> Figure:
  prefixes, arrays = results.prefixes, results.arrays
  significant = {}
  if name == 'error':
    significant = {
      label: arrays[f'{label}/difference_significant']
      for label in prefixes
      if f'{label}/difference_significant' in arrays
    }
  return heat_map_panels(
    {label: arrays[prefix + name] for label, prefix in prefixes.items()},
    *_axes(results),
    clean_errors={
      label: results.numbers[f'{prefix}clean_{name}'] for label, prefix in prefixes.items()
    },
    significant=significant,
    rate=results.settings['false_discovery_rate'],
    quantity=quantity,
  )


def _radial(results: Results) -> Figure:
  curves = {
    label: RadialCurve(results.arrays['radius'], *results.with_interval(f'{prefix}radial_error'))
    for label, prefix in results.prefixes.items()
  }
  clean = {
    label: results.numbers[f'{prefix}clean_error'] for label, prefix in results.prefixes.items()
  }
  return radial_curves(curves, clean)


def _layers(results: Results) -> Figure:
  changes = {
    label: {layer: results.arrays[f'{prefix}{LAYER}{layer}'] for layer in layers}
    for (label, prefix), layers in zip(results.prefixes.items(), _measured(results), strict=True)
  }
  return layer_maps(changes, *_axes(results))


def _measured(results: Results) -> list[list[str]]:
  """The layers of each classifier whose change was measured, from input to output."""
  several = [results.classifier] if isinstance(results.classifier, Mapping) else results.classifier
  return [classifier['layers'] for classifier in several]


def _samples(results: Results) -> Figure:
  pairs = [(int(fy), int(fx)) for fy, fx in results.arrays['sample_frequencies']]
  return sample_images(
    results.arrays['sample_images'], [None, *pairs[1:]], results.settings['norm']
  )


def _basis(results: Results) -> Figure:
  basis = results.arrays['basis_images']
  reach = len(basis) // 2
  around = list(range(-reach, reach + 1))
  return basis_gallery(basis, around, around)
