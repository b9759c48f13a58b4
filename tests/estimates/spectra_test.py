"""Energy fractions, and means of what is known of an image."""

from __future__ import annotations

import numpy as np

from robustness.estimates.spectra import energy_fraction, known_mean


def test_a_fraction_of_no_energy_is_unknown():
  np.testing.assert_array_equal(energy_fraction([0, 1, 2.0000001], [0, 4, 2]), [np.nan, 0.25, 1])


def test_a_mean_leaves_out_what_is_unknown():
  np.testing.assert_array_equal(known_mean([[1, 3, np.nan], [np.nan] * 3]), [2, np.nan])
