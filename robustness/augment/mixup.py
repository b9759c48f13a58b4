"""Mixup: convex combinations of pairs of images and of their targets."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from robustness.augment.mixing import Mixing

NEEDS_PARTNER = True


@dataclasses.dataclass(frozen=True)
class Settings(Mixing):
  """The section `config.classifier.augment.mixup`, see `Mixing`."""

  where: ClassVar[str] = 'config.classifier.augment.mixup'


def augment(key: jax.Array, example: dict[str, Any], settings: Settings) -> dict[str, Any]:
  """Returns λ·x + (1 − λ)·x' and the same of the targets, λ ~ Beta(α, α).

  λ is drawn for each row, where the released code draws one for the whole batch; the mean is the
  same, and a row does not depend on the batch's size. The partner x' is the row at the mirrored
  place of the batch, which is in random order. The partner is mixed with a share of its own.

  Args:
    key: decides λ.
    example: with `image`, `target` and `partner`.
    settings: see there.

  Returns:
    The example with mixed `image` and `target`; `label` is left as it is.

  Reference:
    Zhang et al. (2018), mixup: Beyond Empirical Risk Minimization, equation 1.
  """
  key_share, key_choice = jax.random.split(key)
  share = jax.random.beta(key_share, settings.alpha, settings.alpha)
  share = jax.numpy.where(jax.random.bernoulli(key_choice, settings.probability), share, 1.0)
  partner = example['partner']
  return {
    **example,
    **{name: share * example[name] + (1 - share) * partner[name] for name in ('image', 'target')},
  }
