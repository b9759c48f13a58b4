"""Measures and improves the robustness of image classifiers.

A model and arrays in, results out:

  model = robustness.classifier(network, mean=(.49, .48, .45), std=(.25, .24, .26))
  results = robustness.measure('fourier_heatmap', model, images, labels, norm=4.0)

docs/from_python.md has an example of each function. All attributes are imported at first use:
importing the package loads no JAX and starts no device.
"""

import os
from typing import TYPE_CHECKING

from robustness.core import lazy

# JAX and TensorFlow read these when they are first imported: fatal errors alone are printed by
# their C++ parts, which announce slow compilations and large allocations as errors and warnings.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')  # TensorFlow only reads images here

if TYPE_CHECKING:
  from robustness import fourier, results, scenes, video
  from robustness.api import apply_policy, attack, classifier, compare, measure, read, run, train
  from robustness.core.errors import InputError
  from robustness.corruptions.catalog import corrupt
  from robustness.estimates import systematic
  from robustness.maite.augmentation import as_maite_augmentation
  from robustness.maite.dataset import as_maite_dataset
  from robustness.maite.model import as_maite_model
  from robustness.results import Results

__version__ = '0.1.0'
__all__ = ['InputError', 'Results', 'apply_policy', 'attack', 'classifier', 'compare', 'corrupt']
__all__ += ['as_maite_augmentation', 'as_maite_dataset', 'as_maite_model']
__all__ += ['fourier', 'measure', 'read', 'results', 'run', 'scenes', 'systematic', 'train']
__all__ += ['video']
__getattr__ = lazy.attributes(
  __name__,
  {
    **dict.fromkeys(('classifier', 'measure', 'compare', 'read', 'run', 'train'), 'api'),
    **dict.fromkeys(('attack', 'apply_policy'), 'api'),
    **{name: name for name in ('fourier', 'results', 'scenes', 'video')},
    **{f'as_maite_{name}': f'maite.{name}' for name in ('augmentation', 'dataset', 'model')},
    'corrupt': 'corruptions.catalog',
    'systematic': 'estimates.systematic',
    'Results': 'results',
    'InputError': 'core.errors',
  },
)
