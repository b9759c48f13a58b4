"""Spectra of feature maps through a network: which frequencies each layer keeps.

The output of a layer is a map of H × W positions and C channels. Its log-amplitude at frequency k
is ln(|F(k)| + 1e-6), with F the Fourier transform of a channel, averaged over channels and images.
It is drawn along half the diagonal, k = (j, j) with j = 0 .. J − 1 and J = ⌈min(H, W)/2⌉, at the
frequency π j / J, minus its value at zero frequency (Park and Kim, How do vision transformers
work?, ICLR 2022, figure 2). If it falls from layer to layer, the network is a low pass.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from robustness.core.registry import are_distinct_and_some, setting
from robustness.core.typing import PlainValue
from robustness.estimates.facets import ordered_facet
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import AMOUNT, Quantity
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Study

OUTPUT = 'output/'
"""Beginning of the names of recorded outputs."""
FLOOR = 1e-6
"""Added to |F| so that the logarithm of 0 is finite."""
_relative = functools.partial(Quantity, kind=AMOUNT, statistic=np.subtract)
"""Returns a quantity that is a mean of differences, given its name and words."""
RELATIVE = _relative(
  'relative_log_amplitude', 'log-amplitude minus that of zero frequency', drawn=True
)
HIGHEST = _relative(
  'high_frequency_log_amplitude', 'log-amplitude of the highest frequency, relative'
)
FREQUENCY = ordered_facet(
  'frequency', 'frequency along the diagonal', 'π', words_of_many='frequencies'
)


@dataclasses.dataclass(frozen=True)
class FeatureSpectrum(Study):
  """A study of how the Fourier spectra of feature maps change from layer to layer.

  Attributes:
    of_layers: names of layers with a feature map or a sequence of tokens as output. ('stages',)
      means the network's stem and stages.
    first_tokens: number of tokens to drop at the start, such as a class token, so that the rest is
      a square map. −1 drops as few as possible.
  """

  title = 'Spectra of feature maps'
  needs_labels = False
  papers = ('park2022how',)
  lists_failures = False
  described_facets = (FREQUENCY,)
  quantities = (RELATIVE, HIGHEST)

  of_layers: tuple[str, ...] = setting(('stages',), 'not empty, distinct', are_distinct_and_some)
  first_tokens: int = setting(-1, 'at least 0, or -1', lambda x: x >= -1)

  @property
  def outputs(self) -> tuple[str, ...]:  # type: ignore[override]
    """Names of the layers from which spectra are recorded."""
    return self.of_layers

  def summarise_output(self, layer: str, output: jax.Array) -> jax.Array:
    """Returns the log-amplitude spectrum of a layer along the diagonal frequencies, [B, J].

    Entry j is log |F(j, j)|, averaged over channels, with F the Fourier transform of the feature
    map. J is half the shorter side of the map, rounded up. J is 0 if the outputs are vectors.

    Args:
      layer: name of the layer.
      output: A map [B, h, w, channels], tokens [B, tokens, channels], or vectors [B, channels].
    """
    x = output.astype(jnp.float32)
    if x.ndim == 3:
      x = self._as_square_map(layer, x)
    if x.ndim != 4:  # layers of ('stages',) may be vectors, and layers that are named must not
      self.require(layer not in self.of_layers, 'of_layers', f'without {layer}: it gives a vector')
      return jnp.zeros((len(x), 0))
    diagonal = jnp.arange((min(x.shape[1:3]) + 1) // 2)
    # [B, J, channels], at row j and column j of the transform.
    amplitude = jnp.abs(jnp.fft.fft2(x, axes=(1, 2))[:, diagonal, diagonal])
    return jnp.log(amplitude + FLOOR).mean(-1)

  def _as_square_map(self, layer: str, tokens: jax.Array) -> jax.Array:
    """Reshapes the tokens [B, T, D] of a transformer to a square map [B, H, H, D].

    The first `first_tokens` tokens are dropped. With −1 as few as possible are dropped.

    Args:
      layer: name of the layer, for messages.
      tokens: the output of the layer.

    Raises:
      InputError: The number of remaining tokens is not a square.
    """
    count = tokens.shape[1]
    num_left = max(count - self.first_tokens, 0) if self.first_tokens >= 0 else count
    side = math.isqrt(num_left)  # of the largest square map that the tokens fill
    num_dropped = count - side**2
    if side == 0 or self.first_tokens not in (-1, num_dropped):
      problem = f'and {layer} gives {count} tokens'
      raise self.refused('first_tokens', problem, fix='The rest is no square number.')
    return tokens[:, num_dropped:].reshape(len(tokens), side, side, -1)

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields the mean log-amplitude of each layer, by frequency and at the highest frequency.

    The log-amplitude at frequency 0 is subtracted. Frequencies are in units of π per pixel.
    """
    num_maps = 0
    for evaluation in recorded.evaluations:
      arrays = evaluation.records.read(block=0, chunk=0).arrays  # all blocks have the same names
      # The output of a layer is a map if it has several frequencies.
      maps = [name for name in arrays if name.startswith(OUTPUT) and arrays[name].shape[-1] > 1]
      num_maps += len(maps)
      for name in maps:
        amplitudes = evaluation.records.column(name).astype(float)
        numbers = np.arange(amplitudes.shape[1])  # a number for each frequency
        views = pd.DataFrame({'frequency': np.round(numbers / len(numbers), 6)})
        # The statistic is the first field minus the second, the log-amplitude at frequency 0.
        fields = {evaluation.label: (amplitudes, amplitudes[:, :1])}
        relative = Outcomes.from_fields(RELATIVE, fields, views, clusters=recorded.clusters)
        layer = {'layer': name.removeprefix(OUTPUT)}
        yield self.means(RELATIVE, relative, ('frequency',), facets=layer)
        yield self.means(HIGHEST, relative, where=numbers == numbers[-1], facets=layer)
    if not num_maps:
      problem = 'of which none gives a map of several places'
      raise self.refused('of_layers', problem, fix='Choose others.')

  @property
  def recording(self) -> dict[str, PlainValue]:
    """The name and the settings on which recorded spectra depend.

    Studies of the same run with equal values share recorded spectra.
    """
    return {'name': self.name, 'of_layers': list(self.of_layers), 'tokens': self.first_tokens}
