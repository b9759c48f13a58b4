"""Configs with every key at its default, for the files of `configs/` to change."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

import ml_collections
from ml_collections import config_dict

from input_pipeline.settings import DataSettings
from robustness.config.experiment import Execution
from robustness.config.recipe import (
  ATTACKS,
  AUGMENT,
  FRONT_ENDS,
  OBJECTIVES,
  SECTIONS,
  ClassifierSettings,
)
from robustness.core import parts
from robustness.evaluation import study
from robustness.training.settings import TrainingSettings
from robustness.training.step import CROSS_ENTROPY


def default_config(study_name: str, labels: tuple[str, ...] = ()) -> ml_collections.ConfigDict:
  """Returns a config with every key at its default, for a file in `configs/` to change.

  That of a study of images alone has neither classifiers nor a training.

  Args:
    study_name: a module of `robustness.studies`.
    labels: of several classifiers; none for a single `config.classifier`.
  """
  module = study.module(study_name)
  several = (
    {'classifiers': {label: classifier() for label in labels}}
    if labels
    else {'classifier': classifier()}
  )
  trained = {**several, 'training': dataclasses.asdict(TrainingSettings())}
  return _in_given_order(
    {
      'study': {'name': study_name, **dataclasses.asdict(module.Study())},
      'data': dataclasses.asdict(DataSettings()),
      **(trained if module.Study.needs_classifier else {}),
      **dataclasses.asdict(Execution()),
    }
  )


def classifier() -> dict[str, Any]:
  """Returns a classifier's section: all parts' settings; nothing differs from the run."""
  settings = ClassifierSettings()
  single = {
    field.name: getattr(settings, field.name)
    for field in dataclasses.fields(ClassifierSettings)
    if field.name not in SECTIONS
  }
  return {
    **single,
    'augment': {'policy': (), **parts.default_sections(AUGMENT)},
    'attack': {'name': '', **parts.default_sections(ATTACKS)},
    'front_end': {'name': '', **parts.default_sections(FRONT_ENDS)},
    'objective': {'name': CROSS_ENTROPY.name, **parts.default_sections(OBJECTIVES)},
    'training': inherited(TrainingSettings),
    'data': inherited(DataSettings),
    'seed': config_dict.placeholder(int),
  }


def inherited(settings: type) -> dict[str, Any]:
  """Returns a section whose keys have types but no values: None stands for the run's value."""
  return {
    name: config_dict.placeholder(typing.get_origin(kind) or kind)
    for name, kind in typing.get_type_hints(settings).items()
  }


def _in_given_order(values: Mapping[str, Any]) -> ml_collections.ConfigDict:
  """Returns a ConfigDict that keeps the order of its keys at every depth: the first classifier is
  the baseline, and ConfigDict sorts by default."""
  nested = {
    key: _in_given_order(value) if isinstance(value, Mapping) else value
    for key, value in values.items()
  }
  return ml_collections.ConfigDict(nested, sort_keys=False, convert_dict=False)
