"""One's own classifiers among the published models of neighbor sets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import Quantity
from robustness.estimates.table import assemble
from robustness.results import Results
from robustness.video.testbed_figures import draw


def made_results(n: int, k: int = 10, testbed: str = 'auto') -> Results:
  right = np.arange(n)[:, None] < [0.7 * n, 0.5 * n]
  anchor, worst = (Outcomes({'net': right[:, [i]]}, pd.DataFrame(index=range(1))) for i in (0, 1))
  parts = [
    means(Quantity('accuracy_anchor', 'accuracy'), anchor),
    means(Quantity('accuracy_pm_k', 'pm-k'), worst, facets={'k': k}),
    means(Quantity('accuracy_pm_k', 'pm-k'), anchor, facets={'k': 0}),
  ]
  settings = {'testbed': testbed}
  return Results('video_pm_k', {'label': 'net'}, {}, settings, table=assemble(parts))


@pytest.mark.parametrize(('n', 'models'), [(1109, 45), (2030, 60)])
def test_as_many_anchors_as_a_published_set_draw_its_testbed(n: int, models: int) -> None:
  figure, caption = draw(made_results(n))['testbed']
  assert f'{models} published models' in caption
  points = [c for c in figure.axes[0].containers if len(c.lines[0].get_xdata()) == 1]
  assert len(points) == models + 1
  assert points[-1].lines[0].get_xdata()[0] == pytest.approx(70, abs=0.1)
  said = [text.get_text() for text in figure.legends[0].get_texts()]
  assert {'net', 'noise augmentation', 'no drop'} <= set(said)


def test_others_are_drawn_where_they_are_asked_for() -> None:
  assert not draw(made_results(1109, k=5)), 'published is pm-10'
  assert not draw(made_results(100)) and not draw(made_results(1109, testbed=''))
  assert '60 published models' in draw(made_results(100, testbed='ytbb_robust'))['testbed'][1]
  assert not draw(Results('video_pm_k', {'label': 'net'}, {}, {}))
