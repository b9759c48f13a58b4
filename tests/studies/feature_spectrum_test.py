"""Tests the study `feature_spectrum` on maps, on tokens, and on outputs without a map."""

import jax.numpy as jnp
import numpy as np
import pytest

from robustness.studies.feature_spectrum import FeatureSpectrum
from tests.made_records import made
from tests.refusals import bad_setting, refused
from tests.studies.conftest import table_of
from tests.table_rows import estimate

MAPS = np.random.default_rng(0).normal(size=(3, 6, 6, 4)).astype(np.float32)
STUDY = FeatureSpectrum()


def test_spectra_of_maps_and_of_tokens_equal_numpy():
  amplitude = np.abs(np.fft.fft2(MAPS, axes=(1, 2)))[:, range(3), range(3)]
  expected = np.log(amplitude + 1e-6).mean(-1)
  spectra = STUDY.summarise_output('stage', jnp.asarray(MAPS))
  np.testing.assert_allclose(spectra, expected, rtol=1e-4, atol=1e-5)
  tokens = np.concatenate([np.ones((3, 1, 4)), MAPS.reshape(3, 36, 4)], 1)
  spectra_of_tokens = STUDY.summarise_output('block', jnp.asarray(tokens))
  np.testing.assert_allclose(spectra_of_tokens, spectra, rtol=1e-5)
  assert STUDY.summarise_output('logits', jnp.ones((3, 10))).shape == (3, 0)


def test_settings_that_do_not_fit_the_layers_are_refused():
  tokens = jnp.ones((3, 37, 4))  # a class token and a map of 6 × 6
  for count in (2, 100):
    study = FeatureSpectrum(first_tokens=count)
    message = bad_setting('config.study.first_tokens', count)
    refused(message, study.summarise_output, 'block', tokens)
  key, repeated, named = 'config.study.of_layers', ('logits', 'logits'), ('stages', 'logits')
  refused(bad_setting(key, repeated), FeatureSpectrum, of_layers=repeated)
  study = FeatureSpectrum(of_layers=named)
  refused(bad_setting(key, named), study.summarise_output, 'logits', jnp.ones((3, 10)))


def test_estimates_are_relative_to_zero_frequency(tmp_path):
  values = np.array([[[5, 4, 1]], [[7, 4, 3.0]]])
  fields = {'output/stage1': values, 'output/logits': values[..., :0], 'rank': np.zeros((2, 1))}
  table = table_of(STUDY, [made(tmp_path / 'net', fields)])
  means = [
    estimate(table, 'net', 'relative_log_amplitude', layer='stage1', frequency=f).value
    for f in (0, round(1 / 3, 6), round(2 / 3, 6))
  ]
  assert means == pytest.approx([0, -2, -4])
  assert estimate(table, 'net', 'high_frequency_log_amplitude', layer='stage1').value == -4
  del fields['output/stage1']
  message, vector = bad_setting('config.study.of_layers', ('stages',)), tmp_path / 'vector'
  refused(message, table_of, STUDY, [made(vector, fields)])
