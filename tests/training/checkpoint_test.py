"""Checkpoints: exact, guarded against mixing trainings, sound after a cut."""

from __future__ import annotations

import json
import shutil
import threading
import time
from concurrent import futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from robustness.core.errors import InputError
from robustness.training import checkpoint
from robustness.training.checkpoint import Checkpoints, load_variables, newest_step
from robustness.training.state import TrainState

FACTS = {'architecture': 'tiny', 'class_names': ('a', 'b'), 'training': {'seed': 0, 'rate': 0.1}}


def _save(directory, states, facts=FACTS):
  with Checkpoints(directory, facts, {'seed': 3}) as checkpoints:
    for state in states:
      checkpoints.save(state, int(state.step) * 32)


def _assert_same(first, second):
  jax.tree.map(np.testing.assert_array_equal, first, second)


@pytest.fixture
def state(make_task, start):
  state = start(make_task())
  return state.replace(
    step=np.array(4, np.int32),
    opt_state=jax.tree.map(lambda x: x + np.asarray(0.1, x.dtype), state.opt_state),
  )


def test_everything_comes_back_bit_for_bit(tmp_path, state, make_task):
  _save(tmp_path, [state])
  with Checkpoints(tmp_path, FACTS, {'seed': 3}) as checkpoints:
    restored = checkpoints.restore(make_task().state_shapes())
  assert isinstance(restored, TrainState)
  _assert_same(restored, state)
  position = json.loads((tmp_path / 'checkpoints/4/position/metadata').read_text())
  assert len(position.pop('sha256')) == 64
  assert position == {'step': 4, 'examples_seen': 128, 'seed': 3}


def test_an_empty_directory_has_nothing_and_says_what_it_is(tmp_path, make_task):
  with Checkpoints(tmp_path / 'a/b', FACTS, {}) as checkpoints:
    assert checkpoints.restore(make_task().state_shapes()) is None
  written = json.loads((tmp_path / 'a/b/classifier.json').read_text())
  assert written == {**FACTS, 'class_names': ['a', 'b']}


def test_the_newest_of_the_two_that_are_kept_is_restored(tmp_path, state, make_task):
  _save(tmp_path, [state.replace(step=np.array(step, np.int32)) for step in (2, 4, 6)])
  assert {path.name for path in (tmp_path / 'checkpoints').iterdir()} == {'4', '6'}
  with Checkpoints(tmp_path, FACTS, {}) as checkpoints:
    restored = checkpoints.restore(make_task().state_shapes())
  assert restored is not None and restored.step == 6


def test_memory_reused_by_the_caller_does_not_reach_the_checkpoint(tmp_path, state, make_task):
  host = jax.tree.map(np.array, state)
  with Checkpoints(tmp_path, FACTS, {}) as checkpoints:
    checkpoints.save(host, 128)
    jax.tree.map(lambda x: x.fill(0), host.params)
  _assert_same(load_variables(tmp_path)[0], state.variables)


def test_a_step_may_reuse_the_memory_of_what_is_being_saved(tmp_path, state):
  placed = jax.tree.map(jnp.array, state)
  cleared = jax.jit(lambda tree: jax.tree.map(lambda x: x * 0, tree), donate_argnums=0)
  with Checkpoints(tmp_path, FACTS, {}) as checkpoints:
    checkpoints.save(placed, 128)
    jax.block_until_ready(cleared(placed))
  _assert_same(load_variables(tmp_path)[0], state.variables)


def test_another_architecture_is_refused_with_the_keys_that_differ(tmp_path, state, make_task):
  _save(tmp_path, [state])

  class Wider(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
      return nn.Dense(4, name='head')(nn.relu(nn.Conv(6, (3, 3), name='conv')(x)).mean((1, 2)))

  with (
    Checkpoints(tmp_path, FACTS, {}) as checkpoints,
    pytest.raises(
      InputError,
      match=r'step 4.*another architecture: batch_stats\.bn\.mean: float32\[6\] there, '
      r'absent here; .*and \d+ more',
    ),
  ):
    checkpoints.restore(make_task(Wider()).state_shapes())


def test_a_directory_of_another_training_is_refused_with_the_keys(tmp_path, state):
  _save(tmp_path, [state])
  other = {**FACTS, 'training': {'seed': 1, 'rate': 0.1}}
  with pytest.raises(InputError, match=r'training\.seed: 0 there, 1 here'):
    Checkpoints(tmp_path, other, {})
  shutil.rmtree(tmp_path / 'checkpoints')
  _save(tmp_path, [state], other)  # nothing is lost when there is no checkpoint


def test_a_save_cut_short_leaves_the_one_before(tmp_path, state, make_task):
  _save(tmp_path, [state])
  cut = tmp_path / 'checkpoints' / '6.orbax-checkpoint-tmp'
  shutil.copytree(tmp_path / 'checkpoints' / '4', cut)
  with Checkpoints(tmp_path, FACTS, {}) as checkpoints:
    _assert_same(checkpoints.restore(make_task().state_shapes()), state)


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')
@pytest.mark.parametrize('name', ['state/manifest.ocdbt', 'state/_METADATA', 'position/metadata'])
def test_a_damaged_checkpoint_is_named_with_the_mend(tmp_path, state, make_task, name):
  _save(tmp_path, [state])
  damaged = tmp_path / 'checkpoints/4' / name
  damaged.write_bytes(damaged.read_bytes()[:10])
  with (
    Checkpoints(tmp_path, FACTS, {}) as checkpoints,
    pytest.raises(
      InputError, match=r'cannot read the checkpoint .*checkpoints/4.*Delete that folder'
    ),
  ):
    checkpoints.restore(make_task().state_shapes())
  time.sleep(0.3)  # Orbax's other reads end after its event loop is closed and warn of it


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')
def test_no_flipped_bit_changes_weights_or_facts(tmp_path, state):
  _save(tmp_path, [state])
  whole = load_variables(tmp_path)
  root = tmp_path / 'checkpoints/4'
  files = [tmp_path / 'classifier.json', *(f for f in sorted(root.rglob('*')) if f.is_file())]
  random, refused = np.random.default_rng(0), 0
  for trial in range(25):
    file = files[trial % len(files)]
    content = file.read_bytes()
    if not content:
      continue
    damaged = bytearray(content)
    damaged[random.integers(len(content))] ^= 1 << int(random.integers(8))
    file.write_bytes(damaged)
    try:
      variables, facts = load_variables(tmp_path)
      _assert_same(variables, whole[0])
      assert facts == whole[1]
    except InputError:
      refused += 1
    file.write_bytes(content)
  assert refused >= 5
  _assert_same(load_variables(tmp_path)[0], whole[0])


def test_altered_weights_are_refused(tmp_path, state, make_task, monkeypatch):
  monkeypatch.setattr(checkpoint, '_digest', lambda *unused: '0' * 64)
  _save(tmp_path, [state])
  monkeypatch.undo()
  with pytest.raises(InputError, match=r'checkpoints/4: it was altered: .*Delete that folder'):
    load_variables(tmp_path)
  with (
    Checkpoints(tmp_path, FACTS, {}) as checkpoints,
    pytest.raises(InputError, match='it was altered'),
  ):
    checkpoints.restore(make_task().state_shapes())


def test_a_checkpoint_of_an_earlier_version_has_no_digest_and_is_read(tmp_path, state):
  _save(tmp_path, [state])
  position = tmp_path / 'checkpoints/4/position/metadata'
  entries = json.loads(position.read_text())
  del entries['sha256']
  position.write_text(json.dumps(entries))
  _assert_same(load_variables(tmp_path)[0], state.variables)


def test_variables_and_facts_load_without_the_training(tmp_path, state):
  _save(tmp_path, [state])
  variables, facts = load_variables(tmp_path)
  _assert_same(variables, state.variables)
  assert facts['architecture'] == 'tiny'


def test_others_may_look_while_checkpoints_are_saved_and_deleted(tmp_path, state):
  seen, over = [], threading.Event()

  def look():
    while not over.is_set():
      seen.append(newest_step(tmp_path))

  with futures.ThreadPoolExecutor(1) as pool:
    looking = pool.submit(look)
    try:
      _save(tmp_path, [state.replace(step=np.array(step, np.int32)) for step in range(30)])
    finally:
      over.set()
    looking.result()
  steps = [step for step in seen if step is not None]
  assert steps == sorted(steps) and newest_step(tmp_path) == 29


def test_a_half_deleted_checkpoint_beside_does_not_matter(tmp_path, state):
  _save(tmp_path, [state.replace(step=np.array(step, np.int32)) for step in (4, 6)])
  older = tmp_path / 'checkpoints/4'
  shutil.rmtree(older / 'state')
  (older / '_CHECKPOINT_METADATA').unlink()
  _assert_same(load_variables(tmp_path)[0], state.variables)


def test_a_directory_without_a_checkpoint_is_refused(tmp_path):
  with pytest.raises(InputError, match='holds no trained classifier'):
    load_variables(tmp_path)
  _save(tmp_path, [])
  with pytest.raises(InputError, match='no finished checkpoint yet'):
    load_variables(tmp_path)
