"""Studies: names select modules, prefixes."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, ClassVar

import numpy as np
import pytest

from robustness.core.errors import InputError
from robustness.evaluation import study
from robustness.evaluation.records import Layout, Records
from robustness.evaluation.study import Evaluation
from robustness.evaluation.views import Views
from robustness.results import Results
from robustness.studies import accuracy, fourier_heatmap


def evaluations(tmp_path: pathlib.Path, *labels: str) -> list[Evaluation]:
  return [Evaluation(label, Records(tmp_path / label, Layout(1, 1, 1, 1), {})) for label in labels]


def test_every_module_of_studies_is_a_study() -> None:
  assert {'accuracy', 'fourier_heatmap'} <= set(study.STUDIES.classes())
  for name in study.STUDIES.classes():
    chosen = study.from_config({'name': name})
    assert chosen.name == name and isinstance(chosen, study.Study)


def test_a_study_that_only_reduces_shows_images_as_they_are() -> None:
  @dataclasses.dataclass(frozen=True)
  class Reducing(study.Study):
    name: ClassVar[str] = 'reducing'

    def reduce(self, evaluations: Any, image_shape: Any) -> study.Findings:
      return study.Findings()

  chosen = Reducing()
  assert (chosen.layers, chosen.outputs, chosen.facts) == ((), (), {})
  assert chosen.needs_classifier and len(chosen.views((8, 8, 3))) == 1
  assert chosen.figures(Results('reducing', {}, {}, {})) == {}
  assert chosen.sample_arrays(None, None, None) == {}  # type: ignore[arg-type]
  with pytest.raises(InputError, match="'reducing', which shows images.*video_pm_k"):
    study.scores_of(chosen, {})


def test_facets_are_the_decimals_that_views_were_given() -> None:
  @dataclasses.dataclass(frozen=True)
  class Dimmed(study.Study):
    name: ClassVar[str] = 'dimmed'

    def views(self, image_shape: Any) -> Views:
      dimming = np.array([0.0, 0.1, 0.35], np.float32)
      return Views(lambda key, row, view: row['image'], np.arange(3), {'dimming': dimming})

  assert Dimmed().facets((8, 8, 3)).dimming.tolist() == [0, 0.1, 0.35]


def test_the_name_selects_and_the_rest_are_settings() -> None:
  assert study.from_config({'name': 'accuracy', 'top_k': 3}) == accuracy.Accuracy(top_k=3)
  parsed = study.from_config({'name': 'fourier_heatmap', 'norm': 4, 'layers': ['stage1']})
  assert parsed == fourier_heatmap.FourierHeatmap(norm=4.0, layers=('stage1',))


@pytest.mark.parametrize('section', [{}, {'name': 'acuracy'}, {'name': 3}])
def test_unknown_studies_list_the_valid_ones(section: dict[str, Any]) -> None:
  with pytest.raises(InputError, match="'accuracy', .*'fourier_heatmap'"):
    study.from_config(section)


def test_prefixes(tmp_path: pathlib.Path) -> None:
  single, three = evaluations(tmp_path, 'a'), evaluations(tmp_path, 'a', 'b', 'c')
  assert study.prefixes(single) == ['']
  assert study.prefixes(three) == ['a/', 'b/', 'c/']
