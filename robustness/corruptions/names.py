"""The corruptions by name, for this package; their home needs no JAX."""

from robustness.corruption_names import (
    BLUR,
    DIGITAL,
    EXTRA,
    NAMES,
    NOISE,
    OFFICIAL,
    SETS,
    SEVERITIES,
    WEATHER,
)

__all__ = ['BLUR', 'DIGITAL', 'EXTRA', 'NAMES', 'NOISE', 'OFFICIAL', 'SETS', 'SEVERITIES',
           'WEATHER']
