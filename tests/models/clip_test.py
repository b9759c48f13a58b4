"""CLIP's and SigLIP's towers and zero-shot heads against open_clip; what cannot be a zero-shot
classifier."""

import dataclasses
import functools
import hashlib
import json
import pathlib
import sys

import jax
import numpy as np
import pytest
import safetensors.numpy

from robustness.models import catalog, clip, hub, weights, zero_shot
from tests.cases import cases
from tests.models.peers import peer
from tests.networks import imported
from tests.refusals import refused

NETWORKS = {'clip_rn50': 'RN50', 'clip_vit_b32_quickgelu': 'ViT-B-32-quickgelu'}
NAMES = ('cat', 'fire truck', 'cauliflower')
TEMPLATES = ('a photo of a {}.', 'art of the {}')
QUICK = 'clip_vit_b32_quickgelu'
RN50 = catalog.get('clip_rn50')
WIDTH = 64
SIGLIPS = [name for name in catalog.ARCHITECTURES if name.startswith('siglip')]


@functools.cache
def open_clip_network(name):
  """Returns an open_clip network, every parameter and statistic random."""
  torch = peer('torch')
  network = peer('open_clip').model.CLIP(**peer('open_clip').get_model_config(NETWORKS[name]))
  generator = torch.Generator().manual_seed(3)
  for parameter in network.parameters():
    size = 0.02 if parameter.ndim > 1 else 0.1
    parameter.data += size * torch.randn(parameter.shape, generator=generator)
  for key, value in network.named_buffers():
    if key.endswith(('running_mean', 'running_var')):
      value.copy_((key.endswith('var') + torch.rand(value.shape, generator=generator)) / 2)
  return network.eval()


def arrays(network):
  return {name: tensor.numpy().copy() for name, tensor in network.state_dict().items()}


def tokens(prompts=2):
  """Returns token ids as the tokenizer makes them: a start, words, an end, zeros."""
  generator, ids = np.random.default_rng(1), np.zeros((3, prompts, 77), np.int32)
  for index in np.ndindex(3, prompts):
    length = generator.integers(3, 60)
    ids[index][:length] = generator.integers(1, 49_000, length)
    ids[index][0], ids[index][length] = 49_406, 49_407
  return ids


@pytest.mark.parametrize('name', NETWORKS)
def test_zero_shot_logits_equal_those_of_open_clip(name):
  torch, network, ids = peer('torch'), open_clip_network(name), tokens()
  x = np.random.default_rng(5).normal(size=(2, 224, 224, 3)).astype(np.float32)
  unit = torch.nn.functional.normalize
  with torch.inference_mode():
    image = network.encode_image(torch.from_numpy(x.transpose(0, 3, 1, 2).copy()), normalize=True)
    text = [
      network.encode_text(torch.from_numpy(class_tokens).long(), normalize=True)
      for class_tokens in ids
    ]
    classes = torch.stack([unit(class_tokens.mean(0), dim=-1) for class_tokens in text])
    theirs = (network.logit_scale.exp() * image @ classes.T).numpy()
  variables = zero_shot.zero_shot(catalog.get(name), arrays(network), ids)
  ours = np.asarray(jax.jit(catalog.get(name).build(3).apply)(variables, x))
  assert ours.shape == theirs.shape
  assert np.abs(ours - theirs).max() <= 1e-4 * np.abs(theirs).max()


def test_weights_of_prompt_ensembles_equal_those_of_open_clip():
  library, network = peer('open_clip'), open_clip_network(QUICK)
  names, templates = ['tabby cat', 'sports car', 'jay'], zero_shot.template_list('imagenet_7')
  arguments = (network, library.get_tokenizer('ViT-B-32-quickgelu'), names)
  theirs = library.build_zero_shot_classifier(*arguments, library.SIMPLE_IMAGENET_TEMPLATES).numpy()
  ids = np.stack([zero_shot.tokenize(texts) for texts in zero_shot.prompts(names, templates)])
  variables = zero_shot.zero_shot(catalog.get(QUICK), arrays(network), ids)
  scale = network.logit_scale.exp().item()
  ours = variables['params']['head']['dense']['kernel'] / scale
  assert ours.shape == theirs.shape == (512, 3) and np.ptp(theirs) > 0.01
  np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_published_lists_are_those_of_open_clip():
  library = peer('open_clip')
  published = (library.OPENAI_IMAGENET_TEMPLATES, library.SIMPLE_IMAGENET_TEMPLATES)
  for name, templates in zip(('imagenet_80', 'imagenet_7'), published, strict=True):
    assert zero_shot.template_list(name) == [template('{}') for template in templates]
  names, words = zero_shot.class_list('imagenet')
  assert words == list(library.IMAGENET_CLASSNAMES) and len(set(names)) == 1000
  assert (names[0], words[0], words[281]) == ('tench', 'tench', 'tabby cat')


def test_lists_have_a_name_or_a_file(tmp_path):
  of_cifar10 = zero_shot.template_list('cifar10_18')
  assert len(set(of_cifar10)) == 18 and all(text.count('{}') == 1 for text in of_cifar10)
  assert set(of_cifar10[9:]) == {
    text.replace('a photo of a', 'a photo of the', 1).replace('photo of a', 'photo of the', 1)
    for text in of_cifar10[:9]
  }
  file = tmp_path / 'own.txt'
  file.write_text('a {}\n\nthe {}\n')
  assert zero_shot.template_list(str(file)) == ['a {}', 'the {}']
  assert zero_shot.class_list('cifar10')[0][:2] == ['airplane', 'automobile']
  file.write_text('owl\n', encoding='utf-8-sig')
  assert zero_shot.class_list(str(file)) == (['owl'], ['owl'])
  message = "neither a file nor a list: did you mean 'imagenet_80'"
  refused(message, zero_shot.template_list, 'imagenet80')


def test_the_tokenizer_and_prompts_make_token_ids():
  peer('open_clip')
  texts = zero_shot.prompts(NAMES, TEMPLATES)
  assert texts[1] == ['a photo of a fire truck.', 'art of the fire truck']
  ids = zero_shot.tokenize(texts[1])
  assert ids.shape == (2, clip.CONTEXT) and ids.dtype == np.int32
  assert (ids[:, 0] == 49_406).all() and (ids.max(1) == 49_407).all()
  assert not ids[:, -1].any()


@cases(
  'names, templates, message',
  ((), TEMPLATES, 'class texts.*none'),
  (('cat', ' '), TEMPLATES, "class texts.*none empty.*' '"),
  (('cat', 'cat'), TEMPLATES, 'none twice'),
  (NAMES, (), 'template texts.*none'),
  (NAMES, ('a photo',), r"template 'a photo' must hold '\{\}' once"),
  (NAMES, ('{} {}',), 'once'),
)
def test_bad_prompts_are_refused(names, templates, message):
  refused(message, zero_shot.prompts, names, templates)


@functools.cache
def zeros(name='clip_rn50'):
  """Returns a CLIP of zeros by open_clip's names, both towers."""
  architecture = catalog.get(name)
  image = architecture.schemes[0].shapes(architecture.shapes(1))
  text = clip.TEXT_SCHEME.shapes(zero_shot.text_shapes(architecture))
  shapes = {key: s for key, s in {**image, **text}.items() if not key.startswith(clip.HEAD)}
  arrays = {key: np.zeros(shape, np.float32) for key, shape in shapes.items()}
  return {**arrays, 'logit_scale': np.asarray(2.0, np.float32)}


def without(*unwanted):
  return {name: value for name, value in zeros().items() if not name.startswith(unwanted)}


@pytest.fixture
def few(monkeypatch):
  """A catalogue of the networks that are named below: to build all takes a second each."""
  networks = {name: catalog.get(name) for name in ('clip_rn50', 'clip_vit_b32', 'resnet20')}
  monkeypatch.setattr(catalog, 'ARCHITECTURES', networks)


@pytest.mark.usefixtures('few')
@cases(
  'change, message',
  (
    lambda: {'given': zeros('clip_vit_b32')},
    r"do not fit clip_rn50: .*visual.layer1.*nearest architecture is 'clip_vit_b32'",
  ),
  (lambda: {'architecture': catalog.get('resnet20')}, 'resnet20 has no text tower'),
  (
    lambda: {'given': without('transf', 'token', 'position', 'ln_final', 'text')},
    'do not fit the text tower of clip_rn50: 149 missing: transf',
  ),
  (lambda: {'given': without('logit_scale')}, 'no logit_scale'),
  (
    lambda: {'given': {**zeros(), 'text_projection': np.zeros((512, 1024), np.int8)}},
    'text_projection is int8',
  ),
  (lambda: {'ids': np.zeros((3, 77), int)}, r'shape \(3, 77\), not \[classes, prompts, 77\]'),
  (lambda: {'ids': np.zeros((3, 2, 76), int)}, r'shape \(3, 2, 76\)'),
  (lambda: {'ids': np.full((3, 2, 77), 49_408)}, r'in \[49408, 49408\].*\[0, 49408\)'),
  (lambda: {'ids': np.zeros((3, 2, 77))}, 'tokens are float64'),
)
def test_weights_and_tokens_that_do_not_fit_are_refused(change, message):
  arrays = {'architecture': RN50, 'given': zeros(), 'ids': tokens(), **change()}
  refused(message, zero_shot.zero_shot, arrays['architecture'], arrays['given'], arrays['ids'])


@pytest.mark.slow
def test_the_command_writes_weights_that_load_without_torch(tmp_path, monkeypatch):
  monkeypatch.setattr(zero_shot, 'tokenize', lambda texts: tokens(len(texts))[0])
  generator = np.random.default_rng(0)
  arrays = {name: 0.02 * generator.normal(size=value.shape) for name, value in zeros().items()}
  arrays = {name: np.asarray(value, np.float32) for name, value in arrays.items()}
  monkeypatch.chdir(tmp_path)
  safetensors.numpy.save_file(arrays, 'clip.safetensors')
  pathlib.Path('classes.txt').write_text('\n'.join(NAMES))
  preprocessing = {'mean': [0.5] * 3, 'std': [0.25] * 3, 'resize_mode': 'squash'}
  record = {'model_cfg': {'vision_cfg': {'image_size': 224}}, 'preprocess_cfg': preprocessing}
  pathlib.Path('open_clip_config.json').write_text(json.dumps(record))
  out = 'head.safetensors'
  arguments = ['--architecture=clip_rn50', '--weights=clip.safetensors', f'--out={out}']
  assert zero_shot.main([*arguments, '--classes=classes.txt']) == 0
  variables = weights.load(out, RN50, num_classes=3)
  lengths = np.linalg.norm(variables['params']['head']['dense']['kernel'], axis=0)
  np.testing.assert_allclose(lengths, np.exp(arrays['logit_scale']), rtol=1e-5)
  facts, content = weights.load_variables(out)[1], pathlib.Path('clip.safetensors').read_bytes()
  assert facts['class_names'] == list(NAMES)
  pathlib.Path('elsewhere').mkdir()
  entry = hub.resolve(str(pathlib.Path(out).rename(f'elsewhere/{out}')), RN50)
  assert entry and (entry.mean, entry.std) == ((0.5,) * 3, (0.25,) * 3)
  assert entry.squash and entry.resize == 224 and entry.record == 'its metadata'
  assert facts['from_sha256'] == hashlib.sha256(content).hexdigest()


def test_the_command_names_files_that_it_cannot_read(capsys):
  arguments = ('--architecture=clip_rn50', '--weights=none', '--classes=none.txt')
  assert zero_shot.main((*arguments, '--out=none')) == 2
  assert '--out=none must end in .safetensors' in capsys.readouterr().err
  assert zero_shot.main((*arguments, '--out=none.safetensors')) == 2
  assert 'none.txt is no text file' in capsys.readouterr().err


@pytest.mark.usefixtures('few')
def test_a_missing_head_or_tokenizer_is_explained(monkeypatch):
  message = r'2 missing: zero_shot_head.*robustness.models.zero_shot'
  arrays = without('transformer.', 'token_embedding')  # of the text tower, most of the file
  refused(message, imported, RN50, arrays, 3)
  assert 'head' not in imported(RN50, arrays)['params']
  monkeypatch.setitem(sys.modules, 'open_clip.tokenizer', None)
  refused(r"pip install '\.\[clip\]', or give token ids", zero_shot.tokenize, ['a cat'])


def thin_siglip(name):
  architecture = catalog.get(name)
  hidden = int(WIDTH * architecture.network.hidden / architecture.network.width)
  network = architecture.network.clone(width=WIDTH, depth=2, num_heads=2, hidden=hidden)
  sizes = {'size': WIDTH, 'width': WIDTH, 'depth': 2, 'num_heads': 1, 'hidden': hidden}
  text = architecture.text.clone(vocabulary=50, **sizes)
  return dataclasses.replace(architecture, name=f'thin_{name}', network=network, text=text)


@pytest.mark.parametrize('name', SIGLIPS)
def test_zero_shot_logits_of_siglip_match_both_towers(name):
  torch = peer('torch')
  from tests.models import parity, peer_networks

  tower, architecture = peer('open_clip').transformer, thin_siglip(name)
  tanh = architecture.text.activation == 'tanh_gelu'
  make = torch.nn.GELU(approximate='tanh' if tanh else 'none')
  text = tower.TextTransformer(
    context_length=architecture.text.context,
    mlp_ratio=architecture.network.hidden / architecture.network.width,
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
  side = architecture.input_shape[0]
  size, theirs = (
    'so400m' if 'so400m' in name else 'base',
    f'_patch{architecture.network.patch}_siglip_224',
  )
  thinner = {'embed_dim': WIDTH, 'depth': 2, 'num_heads': 2}
  image = peer_networks.siglip_tower(3, side, f'vit_{size}{theirs}', **thinner).eval()
  text, image = parity.randomise(text.eval(), 1), parity.randomise(image, 2)
  arrays = {f'text.{key}': value for key, value in parity.arrays(text).items()}
  arrays |= {k: v for k, v in parity.arrays(image).items() if k.startswith('visual.')}
  arrays |= {'logit_scale': np.float32(2.0), 'logit_bias': np.float32(-9.5)}
  ids = np.random.default_rng(0).integers(0, 50, (3, 2, architecture.text.context)).astype(np.int32)
  x, unit = parity.images(2, side, side, 3), torch.nn.functional.normalize
  with torch.inference_mode():
    classes = [
      unit(unit(text(torch.from_numpy(architecture).long()), dim=-1).mean(0), dim=-1)
      for architecture in ids
    ]
    images = unit(image.visual['trunk'](parity.torch_images(x)), dim=-1)
    theirs = (np.exp(2.0) * images @ torch.stack(classes).T - 9.5).numpy()
  ours = jax.jit(architecture.build(3).apply)(zero_shot.zero_shot(architecture, arrays, ids), x)
  parity.assert_small({'logits': parity.difference(np.asarray(ours) + 9.5, theirs + 9.5)})
  refused(
    rf'\[classes, prompts, {architecture.text.context}\]',
    zero_shot.zero_shot,
    architecture,
    arrays,
    ids[..., :-1],
  )


def tokenizer(tmp_path):
  tokenizers = pytest.importorskip('tokenizers', reason='the ids are made by tokenizers')
  words = {'<pad>': 0, '</s>': 1, '?': 2, 'a': 3, 'fire': 4, 'truck': 5}
  made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token='?'))
  made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
  made.save(str(tmp_path / 'tokenizer.json'))
  return str(tmp_path / 'tokenizer.json')


@cases('name, padding', ('siglip_b16', 1), ('siglip2_b16', 0))
def test_token_ids_are_of_lower_case_words_with_an_end_and_padding(name, padding, tmp_path):
  file, architecture = tokenizer(tmp_path), catalog.get(name)
  ids = zero_shot.tokenize_by(file, architecture, ['A fire_truck!', 'a ' * 70])
  assert ids.shape == (2, 64) and ids.dtype == np.int32
  assert ids[0].tolist() == [3, 4, 5, 1] + [padding] * 60
  assert ids[1].tolist() == [3] * 63 + [1]


@cases(
  'name, file, message',
  ('siglip_b16', '', 'needs --tokenizer=FILE.*got none'),
  ('siglip_b16', 'nowhere.json', 'got nowhere.json'),
  ('clip_vit_b32', 'tokenizer.json', 'has its own tokenizer: leave'),
)
def test_a_missing_or_unneeded_tokenizer_is_refused(name, file, message):
  refused(message, zero_shot.tokenize_by, file, catalog.get(name), ['a cat'])
