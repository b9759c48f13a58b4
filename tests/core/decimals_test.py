"""Tests that products of decimals are rounded as the decimals would be."""

from fractions import Fraction

from robustness.core import decimals


def test_products_of_decimals_are_rounded_like_fractions():
  for percent in range(1, 101):
    for count in (7, 64, 100, 375, 1000):
      exact = Fraction(percent, 100) * count
      product = percent / 100 * count
      assert decimals.floor(product) == exact // 1
      assert decimals.ceil(product) == -(-exact // 1)


def test_numbers_clearly_between_two_whole_ones_are_rounded_as_usual():
  assert (decimals.floor(2.999999), decimals.ceil(2.000001)) == (2, 3)
  assert (decimals.floor(-0.5), decimals.ceil(-0.5)) == (-1, 0)
