"""Tests that studies refuse bad settings with the key and what is valid."""

from typing import Any

import numpy as np
import pytest

from robustness.core.rows import ArrayRows
from robustness.evaluation.study import STUDIES, from_config
from robustness.fourier.filters import KINDS
from tests.cases import cases
from tests.networks import CLASSES, SHAPE, tiny_rows
from tests.refusals import Setting, bad_setting, refused

INF, NAN = float('inf'), float('nan')


def bad(
  key: str, setting: Any, value: Any = None, words: str = '', **settings: Any
) -> tuple[dict[str, Any], Setting]:
  """Returns settings and their refusal, which names the setting or `value`, one of its entries."""
  value = setting if value is None else value
  return {key: setting, **settings}, bad_setting(f'config.study.{key}', value, words)


REFUSED: dict[str, list[tuple[dict[str, Any], str | Setting]]] = {
  'sampled_mce': [
    bad('baseline', 'alexnet_3dcc'),
    bad('severities', (1,)),
    bad('corruptions', ('fog',)),
    ({'mce_half_width': 0.0}, 'above 0'),
  ],
  'recalibration': [bad('scalings', ('vector', 'vector')), bad('scalings', (), scores=())],
  'background_challenge': [bad('num_backgrounds', -1)],
  'frequency_shortcuts': [bad('kept', 1.0), bad('grids', (4, 4))],
  'ood_scores': [bad('scores', ('msp', 'msp'))],
  'accuracy': [bad('top_k', 0)],
  'accuracy_by_factor': [
    bad('factors', ('pose', 'pose')),
    bad('factors', ()),
    bad('bins', 1),
    bad('fewest', 0),
    bad('strength', 'scale'),
    bad('pairs', True, factors=('class',)),
  ],
  'attack_error': [
    bad('epsilon', 0.0),
    bad('epsilon', 8.0),
    bad('epsilons', (0.1, -0.1), -0.1),
    bad('epsilons', (0.0,), 0.0),
    bad('epsilons', (8 / 255,)),
    ({'attack': {'pgd': {'steps': 0}}}, r'config\.study\.attack\.pgd\.steps is 0'),
    bad('restarts', 0),
    bad('restarts', 2, attacks=('fgsm',)),
    bad('norm', 'l1'),
    ({'attacks': ('pdg',)}, r"did you mean 'pgd'"),
    bad('attacks', ()),
    ({'attacks': ('pgd', 'pgd')}, r'config\.study\.attacks is .*distinct'),
    ({'attack': {'pgd': {'loss': 'dlrr'}}}, r"attack\.pgd\.loss is 'dlrr'; did you mean 'dlr'"),
    ({'attack': {'pgd': {'epsilon': 0.1}}}, r'unknown key config\.study\.attack\.pgd\.epsilon'),
    (
      {'attack': {'fgsm': {'steps': 7}}},
      r"unknown key config\.study\.attack\.fgsm\.steps: .*'loss'",
    ),
    ({'attack': {'pgdd': {}}}, "names 'pgdd'; did you mean 'pgd'"),
    ({'attack': {'pgd': 3}}, bad_setting('config.study.attack.pgd', 3)),
    ({'attacks': ('auto_attack',), 'restarts': 5}, r'restarts is 5; it must be 1, as auto_attack'),
  ],
  'least_distance': [
    bad('epsilons', ()),
    bad('epsilons', (0.1, 0.1)),
    bad('epsilons', (-0.1,)),
    bad('norm', 'l3'),
    ({'attacks': ('pgd',)}, r"attacks is .*'pgd'.*find the nearest wrong image: fmn, ddn"),
    bad('norm', 'linf', attacks=('ddn', 'fmn')),
    ({'attack': {'fmn': {'epsilon': 0.1}}}, r'unknown key config\.study\.attack\.fmn\.epsilon'),
  ],
  'band_noise': [
    bad('kinds', ('lowpass',), 'lowpass', "did you mean 'low_pass'"),
    bad('kinds', ()),
    bad('bandwidths', (3, 3)),
    bad('bandwidths', (0,)),
    bad('norm', 0.0),
  ],
  'calibration': [bad('bins', 0), bad('resamples', 0), bad('quantize', 'floor', source='stored')],
  'corruption_error': [
    bad('photographs', 'imagecorruptions', corruptions=('frost', 'mosaic')),
    bad('corruptions', ('fogg',), 'fogg', "did you mean 'fog'"),
    bad('corruptions', ()),
    ({'severities': (0, 1)}, 'distinct numbers of 1..5'),
    ({'severities': (1, 1)}, 'distinct numbers of 1..5'),
    bad('quantize', 'ceil'),
    bad('between', (5.5,), 5.5),
    bad('between', (0.9,), 0.9),
    ({'between': (NAN,)}, bad_setting('config.study.between')),
    bad('between', (2.0,), 2.0),
    bad('between', (2.00001,), 2.00001),
    bad('between', (3.5, 2.5)),
    bad('between', (1.5,), source='stored'),
    bad('protocol', 'as_released', source='stored'),
    bad('failure_share', 1.0),
    bad('protocol', 'released', words="did you mean 'as_released'"),
    bad('quantize', 'round', protocol='as_released'),
    ({'baseline': 'alexnet', 'corruptions': ('fog',)}, r"official.*images have \('fog',\)"),
    ({'baseline': 'alexnet', 'severities': (1, 5)}, r'severities \(1, 2, 3, 4, 5\), .*\(1, 5\)'),
  ],
  'corruption_spectrum': [
    bad('channels', 'gray', words="did you mean 'grey'"),
    bad('normalisation', 'ortho'),
    bad('corruptions', ('fogg',), 'fogg', "did you mean 'fog'"),
  ],
  'flip_rate': [
    bad('lowest', 0.5),
    bad('highest', 6.0),
    bad('lowest', 5.0),
    bad('frames', 1),
    bad('corruptions', ('fogg',), 'fogg', "did you mean 'fog'"),
  ],
  'fourier_attack': [bad('norm', -1.0), bad('queries', 0), bad('phase', 'sine')],
  'fourier_heatmap': [
    *(({'norm': bad}, 'norm is .* a finite number above 0') for bad in (0.0, -1.0, INF, NAN)),
    *(({'half_width': bad}, 'config.study.half_width') for bad in (-0.1, 0.5, NAN)),
    bad('phase', 'sine', words="did you mean 'cosine'"),
    bad('top_k', 0),
    bad('classes', ('ant', 'ant')),
    bad('classes', ('all', 'ant')),
    bad('classes', ('all',), half_width=0.1),
    bad('false_discovery_rate', 0.0),
  ],
  'perturbation_stability': [
    bad('perturbations', ('tild',), 'tild', "did you mean 'tilt'"),
    bad('perturbations', ()),
    bad('baseline', 'resnet'),
    bad('perturbations', ('tilt',), baseline='alexnet'),
  ],
  'si_score': [
    bad('factor', 'sizes', words="did you mean 'size'"),
    ({'factor': 'cross', 'areas': (0.0,)}, 'above 0'),
    ({'factor': 'cross', 'xs': (2.0, 3.0)}, 'reaches into the image'),
    bad('min_inside', 1.5),
    bad('measure', 'box'),
    bad('measure', 'mask', stored=True),
    bad('cells', 28, factor='location'),
    bad('areas', (0.2, 0.2)),
    bad('xs', ()),
    bad('cells', 0, factor='grid'),
    bad('ys', (0.1,), factor='grid'),
  ],
  'video_pm_k': [
    bad('k', 0),
    bad('failures', -1),
    bad('label_rule', 'frames'),
    bad('merge', 'mix'),
    bad('testbed', 'vid'),
    bad('k', 5, testbed='ytbb_robust'),
    bad('include_anchor', False, testbed='imagenet_vid_robust'),
    bad('label_rule', 'anchor', testbed='imagenet_vid_robust'),
  ],
  'systematic': [
    bad('angles', (30,), environments=('rotation',)),
    bad('environments', ('noise',), 'noise'),
    bad('baseline_by_cell', True),
    bad('angles', (90,)),
    bad('severities', (1,), environments=('rotation',)),
    bad('environments', ('snow', 'rotation'), source='stored'),
    bad('severities', (1,), source='stored'),
  ],
  'tradeoff': [bad('corruptions', ('fog', 'snow')), bad('corruptions', ())],
}


RGB = (32, 32, 3)
NO_SQUARE = 'bandwidth is 14; .* on 32 pixels takes an odd number .* is symmetric'
"""The band of an even number of frequencies cannot be symmetric about zero."""
UNFIT: list[tuple[str, tuple[int, int, int], dict[str, Any], str | Setting]] = [
  ('attack_error', RGB, {'bandwidth': 26}, 'takes an odd number'),
  *(
    (name, RGB, {'kinds': (kind,), 'bandwidths': (14,)}, NO_SQUARE)
    for name in ('band_noise', 'filtered_accuracy')
    for kind in KINDS
  ),
  ('corruption_error', (2, 2, 3), {'corruptions': ('glass_blur',)}, 'glass_blur'),
  ('corruption_error', RGB, *bad('baseline', 'alexnet', constants=224)),
  ('corruption_error', RGB, *bad('baseline', 'alexnet', source='stored')),
  ('corruption_error', (224, 224, 3), *bad('baseline', 'cifar10_standard')),
  ('corruption_spectrum', RGB, {'bandwidth': 26}, 'takes an odd number'),
  ('fourier_attack', SHAPE, *bad('queries', 99)),
  *(('fourier_heatmap', SHAPE, *bad('window', side)) for side in (6, -1)),
  ('si_score', (32, 40, 3), {}, 'square and in colour'),
  ('systematic', (8, 6, 3), {'environments': ('rotation',)}, 'square'),
]
"""Study, shape of images, settings that do not fit the shape, and their refusal."""


@cases(
  'name, settings, message',
  *((name, *case) for name in REFUSED for case in REFUSED[name]),
  *(
    (name, {'confidence': 1.0}, bad_setting('config.study.confidence', 1.0))
    for name in STUDIES.classes()
  ),
)
def test_bad_settings_are_refused(name, settings, message):
  refused(message, from_config, {'name': name, **settings})


@cases('name, shape, settings, message', *UNFIT)
def test_settings_that_do_not_fit_the_shape_of_images_are_refused(name, shape, settings, message):
  refused(message, from_config({'name': name, **settings}).views, shape)


@pytest.mark.parametrize('name', ['attack_error', 'least_distance', 'fourier_preview'])
def test_gradients_need_rows_of_one_label(name):
  data, study = tiny_rows(4), from_config({'name': name})
  labels = np.stack([data.labels, np.full(4, -1)], 1)
  refused('several labels each', study.check, ArrayRows(data.images, labels, CLASSES), {})
  study.check(data, {})
