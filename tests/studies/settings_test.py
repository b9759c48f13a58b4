"""Settings that studies refuse, each with the key and what is valid."""

from typing import Any

import numpy as np
import pytest

from robustness.core.rows import ArrayRows
from robustness.evaluation.study import STUDIES, from_config
from robustness.fourier.filters import KINDS
from tests.cases import cases
from tests.networks import CLASSES, SHAPE, tiny_rows
from tests.refusals import refused

INF, NAN = float('inf'), float('nan')
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
  'sampled_mce': [
    ({'baseline': 'alexnet_3dcc'}, "'alexnet_3dcc'"),
    ({'severities': (1,)}, r'severities is \(1,\); it must be \(1, 2, 3, 4, 5\), over which mCE'),
    ({'corruptions': ('fog',)}, 'official'),
    ({'mce_half_width': 0.0}, 'above 0'),
  ],
  'recalibration': [({'scalings': ('vector',) * 2}, r'config\.study\.scalings is .*distinct')],
  'ood_scores': [({'scores': ('msp', 'msp')}, r'config\.study\.scores is .*distinct')],
  'accuracy': [({'top_k': 0}, r'config\.study\.top_k')],
  'accuracy_by_factor': [
    ({'factors': ('pose', 'pose')}, r'config\.study\.factors is .*distinct'),
    ({'factors': ()}, r'config\.study\.factors is \(\)'),
    ({'bins': 1}, r'config\.study\.bins is 1; it must be 0, or at least 2'),
    ({'fewest': 0}, r'config\.study\.fewest is 0'),
  ],
  'attack_error': [
    ({'epsilon': 0.0}, r'config\.study\.epsilon is 0\.0'),
    ({'epsilon': 8.0}, r'config\.study\.epsilon is 8\.0.*pixels are in \[0, 1\]'),
    ({'epsilons': (0.1, -0.1)}, r'config\.study\.epsilons is -0\.1'),
    ({'epsilons': (8 / 255,)}, r'config\.study\.epsilons is .*distinct'),
    ({'attack': {'pgd': {'steps': 0}}}, r'config\.study\.attack\.pgd\.steps is 0'),
    ({'restarts': 0}, r'config\.study\.restarts is 0'),
    ({'attack': {'pgd': {'step_size': -1.0}}}, r'study\.attack\.pgd\.step_size is -1\.0'),
    ({'norm': 'l1'}, r"config\.study\.norm is 'l1'"),
    ({'attacks': ('pdg',)}, r"did you mean 'pgd'"),
    ({'attacks': ()}, r'config\.study\.attacks is \(\)'),
    ({'attacks': ('pgd', 'pgd')}, r'config\.study\.attacks is .*distinct'),
    ({'attack': {'pgd': {'loss': 'dlrr'}}}, r"attack\.pgd\.loss is 'dlrr'; did you mean 'dlr'"),
    ({'attack': {'pgd': {'epsilon': 0.1}}}, r'unknown key config\.study\.attack\.pgd\.epsilon'),
    (
      {'attack': {'fgsm': {'steps': 7}}},
      r"unknown key config\.study\.attack\.fgsm\.steps: .*'loss'",
    ),
    ({'attack': {'pgdd': {}}}, "names 'pgdd'; did you mean 'pgd'"),
    ({'attack': {'pgd': 3}}, r'config\.study\.attack\.pgd must be a section of keys; got 3'),
    (
      {'attack': {'auto_attack': {'version': 'fast'}}},
      r"auto_attack\.version is 'fast'.*'standard'",
    ),
    ({'attack': {'square': {'loss': 'dlr'}}}, r"attack\.square\.loss is 'dlr'.*loss of its own"),
    ({'attacks': ('auto_attack',), 'restarts': 5}, r'restarts is 5; it must be 1, as auto_attack'),
  ],
  'band_noise': [
    ({'kinds': ('lowpass',)}, "did you mean 'low_pass'"),
    ({'kinds': ()}, r'config\.study\.kinds is \(\)'),
    ({'bandwidths': (3, 3)}, r'config\.study\.bandwidths is \(3, 3\).*distinct'),
    ({'bandwidths': (0,)}, r'config\.study\.bandwidths is \(0,\).*at least 1'),
    ({'norm': 0.0}, r'config\.study\.norm is 0\.0'),
  ],
  'calibration': [({'bins': 0}, r'config\.study\.bins is 0'), ({'resamples': 0}, 'resamples')],
  'corruption_error': [
    (
      {'corruptions': ('frost', 'mosaic'), 'photographs': 'imagecorruptions'},
      "photographs is 'imagecorruptions'; it must be '' for frost beside",
    ),
    ({'corruptions': ('fogg',)}, "did you mean 'fog'"),
    ({'corruptions': ()}, 'not empty'),
    ({'severities': (0, 1)}, 'distinct numbers of 1..5'),
    ({'severities': (1, 1)}, 'distinct numbers of 1..5'),
    ({'quantize': 'ceil'}, "'floor'"),
    ({'between': (5.5,)}, r'between is 5\.5; it must be in \[1, 5\]'),
    ({'between': (0.9,)}, r'between is 0\.9; it must be in \[1, 5\]'),
    ({'between': (NAN,)}, r'between is nan; it must be in \[1, 5\]'),
    ({'between': (2.0,)}, 'no whole number'),
    ({'between': (2.00001,)}, 'a multiple of 1/1000'),
    ({'between': (3.5, 2.5)}, 'distinct and ascending'),
    ({'between': (1.5,), 'source': 'stored'}, "left out with source='stored'"),
    ({'protocol': 'as_released', 'source': 'stored'}, "is 'as_released'; .* left out with"),
    ({'failure_share': 1.0}, 'config.study.failure_share'),
    ({'protocol': 'released'}, "protocol is 'released'; did you mean 'as_released'"),
    ({'protocol': 'as_released', 'quantize': 'round'}, 'which truncates'),
    ({'baseline': 'alexnet', 'corruptions': ('fog',)}, r"corruptions is \('fog',\)"),
    ({'baseline': 'alexnet', 'severities': (1, 5)}, r'severities="\(1, 2, 3, 4, 5\)"'),
  ],
  'corruption_spectrum': [
    ({'channels': 'gray'}, "did you mean 'grey'"),
    ({'normalisation': 'ortho'}, "'orthonormal'"),
    ({'corruptions': ('fogg',)}, "did you mean 'fog'"),
  ],
  'flip_rate': [
    ({'lowest': 0.5}, r'lowest is 0\.5; it must be in \[1, 5\]'),
    ({'highest': 6.0}, r'highest is 6\.0'),
    ({'lowest': 5.0}, r'below 5\.0'),
    ({'frames': 1}, 'frames is 1'),
    ({'corruptions': ('fogg',)}, "did you mean 'fog'"),
  ],
  'fourier_attack': [
    ({'norm': -1.0}, r'config\.study\.norm is -1\.0'),
    ({'queries': 0}, r'config\.study\.queries is 0'),
    ({'phase': 'sine'}, r"config\.study\.phase is 'sine'"),
  ],
  'fourier_heatmap': [
    *(({'norm': bad}, 'norm is .* a finite number above 0') for bad in (0.0, -1.0, INF, NAN)),
    *(({'half_width': bad}, 'config.study.half_width') for bad in (-0.1, 0.5, NAN)),
    ({'phase': 'sine'}, "did you mean 'cosine'"),
    ({'top_k': 0}, 'config.study.top_k'),
    ({'classes': ('ant', 'ant')}, 'classes is .* distinct'),
    ({'classes': ('all', 'ant')}, "names of classes, or 'all' alone"),
    ({'false_discovery_rate': 0.0}, 'config.study.false_discovery_rate'),
  ],
  'perturbation_stability': [
    ({'perturbations': ('tild',)}, "did you mean 'tilt'"),
    ({'perturbations': ()}, 'perturbations is .*not empty'),
    ({'baseline': 'resnet'}, "baseline is 'resnet'"),
    ({'baseline': 'alexnet', 'perturbations': ('tilt',)}, r"\('imagenet_p',\) with .*'alexnet'"),
  ],
  'si_score': [
    ({'factor': 'sizes'}, "did you mean 'size'"),
    ({'factor': 'cross', 'areas': (0.0,)}, 'above 0'),
    ({'factor': 'cross', 'xs': (2.0, 3.0)}, 'reaches into the image'),
    ({'min_inside': 1.5}, r'min_inside is 1.5; it must be in \[0, 1\]'),
    ({'measure': 'box'}, "'rectangle'"),
    ({'areas': (0.2, 0.2)}, r'areas is \(0.2, 0.2\); it must be distinct'),
    ({'xs': ()}, r'xs is \(\); it must be distinct'),
    ({'cells': 0, 'factor': 'grid'}, 'cells is 0'),
  ],
  'video_pm_k': [
    ({'k': 0}, r'config\.study\.k'),
    ({'failures': -1}, r'config\.study\.failures'),
    ({'label_rule': 'frames'}, r'config\.study\.label_rule'),
    ({'merge': 'mix'}, r'config\.study\.merge'),
    ({'testbed': 'vid'}, r'config\.study\.testbed'),
    ({'testbed': 'ytbb_robust', 'k': 5}, r'config\.study\.k is 5; it must be 10'),
  ],
  'systematic': [
    (
      {'environments': ('rotation',), 'angles': (30,)},
      'angles is .30,.; it must be of .90, 180, 270',
    ),
    ({'environments': ('noise',)}, 'gaussian_noise'),
  ],
  'tradeoff': [
    ({'corruptions': ('fog', 'snow')}, r"config\.study\.corruptions is \('fog', 'snow'\).*three"),
    ({'corruptions': ()}, 'not empty'),
  ],
}


RGB = (32, 32, 3)
NO_SQUARE = 'bandwidth is 14; .* on 32 pixels takes an odd number .* is symmetric'
UNFIT: list[tuple[str, dict[str, Any], tuple[int, int, int], str]] = [
  ('attack_error', {'bandwidth': 26}, RGB, 'takes an odd number'),
  *(
    (name, {'kinds': (kind,), 'bandwidths': (14,)}, RGB, NO_SQUARE)
    for name in ('band_noise', 'filtered_accuracy')
    for kind in KINDS
  ),
  ('corruption_error', {'corruptions': ('glass_blur',)}, (2, 2, 3), 'glass_blur'),
  (
    *('corruption_error', {'baseline': 'alexnet', 'constants': 224}, RGB),
    "32 × 32. Set config.study.baseline='first'",
  ),
  ('corruption_error', {'baseline': 'alexnet', 'source': 'stored'}, RGB, 'measured on ImageNet-C'),
  (
    *('corruption_error', {'baseline': 'cifar10_standard'}, (224, 224, 3)),
    'measured on CIFAR-10-C at 32 pixels',
  ),
  ('corruption_spectrum', {'bandwidth': 26}, RGB, 'takes an odd number'),
  ('fourier_attack', {'queries': 99}, SHAPE, r'queries is 99; it must be at most \d+'),
  *(
    ('fourier_heatmap', {'window': side}, SHAPE, r'config.study.window is .*must lie in 1\.\.5')
    for side in (6, -1)
  ),
  ('si_score', {}, (32, 40, 3), 'square and in colour'),
  ('systematic', {'environments': ('rotation',)}, (8, 6, 3), 'square'),
]
"""Study, settings, shape of images, and what is refused of them."""


@cases(
  'name, settings, message',
  *((name, *each) for name in REFUSED for each in REFUSED[name]),
  *((name, {'confidence': 1.0}, r'config\.study\.confidence is 1') for name in STUDIES.classes()),
)
def test_bad_settings_are_refused(name, settings, message):
  refused(message, from_config, {'name': name, **settings})


@pytest.mark.parametrize(('name', 'settings', 'shape', 'message'), UNFIT)
def test_settings_that_do_not_fit_the_images_are_refused_first(name, settings, shape, message):
  refused(message, from_config({'name': name, **settings}).views, shape)


@pytest.mark.parametrize('name', ['attack_error', 'fourier_preview'])
def test_gradients_need_rows_of_one_label(name):
  data, study = tiny_rows(4), from_config({'name': name})
  several = np.stack([data.labels, -1 + 0 * data.labels], 1)
  refused('several labels each', study.check, ArrayRows(data.images, several, CLASSES), {})
  study.check(data, {})
