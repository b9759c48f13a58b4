"""SigLIP's text towers and zero-shot heads against open_clip and PyTorch, thin; token ids."""

import dataclasses

import jax
import numpy as np
import pytest

from robustness.models import catalog, zero_shot
from tests.cases import cases
from tests.models.peers import peer
from tests.refusals import refused

WIDTH = 64
SIGLIPS = [name for name in catalog.ARCHITECTURES if name.startswith('siglip')]


def thin(name):
  own = catalog.get(name)
  hidden = int(WIDTH * own.network.hidden / own.network.width)
  network = own.network.clone(width=WIDTH, depth=2, num_heads=2, hidden=hidden)
  sizes = {'size': WIDTH, 'width': WIDTH, 'depth': 2, 'num_heads': 1, 'hidden': hidden}
  text = own.text.clone(vocabulary=50, **sizes)
  return dataclasses.replace(own, name=f'thin_{name}', network=network, text=text)


@pytest.mark.parametrize('name', SIGLIPS)
def test_zero_shot_logits_are_scale_times_cosine_plus_bias_of_both_towers(name):
  torch = peer('torch')
  from tests.models import parity, peer_networks

  tower, own = peer('open_clip').transformer, thin(name)
  tanh = own.text.activation == 'tanh_gelu'
  make = torch.nn.GELU(approximate='tanh' if tanh else 'none')
  text = tower.TextTransformer(
    context_length=own.text.context,
    mlp_ratio=own.network.hidden / own.network.width,
    vocab_size=50,
    width=WIDTH,
    heads=1,
    layers=2,
    output_dim=WIDTH,
    no_causal_mask=True,
    pool_type='last',
    proj_bias=True,
    act_layer=lambda: make,
    norm_layer=lambda width: torch.nn.LayerNorm(width, eps=1e-6),
  )
  side = own.input_shape[0]
  size, theirs = 'so400m' if 'so400m' in name else 'base', f'_patch{own.network.patch}_siglip_224'
  thinner = {'embed_dim': WIDTH, 'depth': 2, 'num_heads': 2}
  image = peer_networks.siglip_tower(3, side, f'vit_{size}{theirs}', **thinner).eval()
  text, image = parity.randomise(text.eval(), 1), parity.randomise(image, 2)
  arrays = {f'text.{key}': value for key, value in parity.arrays(text).items()}
  arrays |= {k: v for k, v in parity.arrays(image).items() if k.startswith('visual.')}
  arrays |= {'logit_scale': np.float32(2.0), 'logit_bias': np.float32(-9.5)}
  ids = np.random.default_rng(0).integers(0, 50, (3, 2, own.text.context)).astype(np.int32)
  x, unit = parity.images(2, side, side, 3), torch.nn.functional.normalize
  with torch.inference_mode():
    classes = [
      unit(unit(text(torch.from_numpy(own).long()), dim=-1).mean(0), dim=-1) for own in ids
    ]
    images = unit(image.visual['trunk'](parity.torch_images(x)), dim=-1)
    theirs = (np.exp(2.0) * images @ torch.stack(classes).T - 9.5).numpy()
  ours = jax.jit(own.build(3).apply)(zero_shot.zero_shot(own, arrays, ids), x)
  parity.assert_small({'logits': parity.difference(np.asarray(ours) + 9.5, theirs + 9.5)})
  refused(
    rf'\[classes, prompts, {own.text.context}\]', zero_shot.zero_shot, own, arrays, ids[..., :-1]
  )


def tokenizer(tmp_path):
  tokenizers = pytest.importorskip('tokenizers', reason='the ids are made by tokenizers')
  words = {'<pad>': 0, '</s>': 1, '?': 2, 'a': 3, 'fire': 4, 'truck': 5}
  made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token='?'))
  made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
  made.save(str(tmp_path / 'tokenizer.json'))
  return str(tmp_path / 'tokenizer.json')


@cases('name, padding', ('siglip_b16', 1), ('siglip2_b16', 0))
def test_token_ids_are_of_plain_lower_case_ended_and_padded(name, padding, tmp_path):
  file, own = tokenizer(tmp_path), catalog.get(name)
  ids = zero_shot.tokenize_by(file, own, ['A fire_truck!', 'a ' * 70])
  assert ids.shape == (2, 64) and ids.dtype == np.int32
  assert ids[0].tolist() == [3, 4, 5, 1] + [padding] * 60
  assert ids[1].tolist() == [3] * 63 + [1]


@cases(
  'name, file, message',
  ('siglip_b16', '', 'needs --tokenizer=FILE.*got none'),
  ('siglip_b16', 'nowhere.json', 'got nowhere.json'),
  ('clip_vit_b32', 'tokenizer.json', 'has its own tokenizer: leave'),
)
def test_a_missing_tokenizer_and_one_too_many_are_refused(name, file, message):
  refused(message, zero_shot.tokenize_by, file, catalog.get(name), ['a cat'])
