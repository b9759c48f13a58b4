"""What was measured in words."""

from __future__ import annotations

from robustness.present.described import classifier_words

TRAINED = {'label': 'a', 'architecture': 'small_cnn', 'weights': 'trained here', 'step': 40}


def test_the_front_end_of_a_classifier_is_told() -> None:
  filtered = {**TRAINED, 'front_end': {'name': 'low_pass', 'bandwidth': 3}}
  told = 'small cnn behind low pass (bandwidth 3), trained here 40 steps'
  assert classifier_words(filtered) == told
  assert classifier_words({**TRAINED, 'front_end': None}) == 'small cnn, trained here 40 steps'


def test_of_several_seeds_the_first_is_told() -> None:
  seeds = {'0': TRAINED, '1': {**TRAINED, 'step': 50}}
  assert classifier_words({'label': 'a', 'seeds': seeds}) == classifier_words(TRAINED)
