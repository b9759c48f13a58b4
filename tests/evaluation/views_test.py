"""Views: the identity, messages."""

from __future__ import annotations

import numpy as np

from robustness.evaluation.views import Views, identity


def test_identity_shows_the_image() -> None:
  views, image = identity(), np.zeros((2, 2, 1))
  assert len(views) == 1
  assert views.show(None, {'image': image}, {'identity': 0}) is image


def test_views_are_described_by_their_plain_parameters() -> None:
  views = Views(
    lambda *_: None,
    np.arange(2),
    {  # type: ignore[arg-type, return-value]
      'fy': np.array([0, -2]),
      'fx': np.array([0, 5]),
      'kernel': np.zeros((2, 3)),
    },
  )
  assert views.describe(1) == 'view 1 (fy=-2, fx=5)'


def test_a_parameter_is_described_as_the_decimal_that_was_given() -> None:
  views = Views(lambda *_: None, np.arange(1), {'dimming': np.array([0.35], np.float32)})  # type: ignore[arg-type, return-value]
  assert views.values(0) == 'dimming=0.35'
