"""What weights files call the arrays of transformers: one table for each project.

A table gives a project's name by ours, joined by '/': for layers, whose arrays then have the
project's usual suffixes, and for arrays that stand alone. '#' is the number of a block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from robustness.models.naming import (
  AS_IS,
  OUTPUT_FIRST,
  Layout,
  Path,
  Scheme,
  Shape,
  Stored,
  pytorch_array,
  reshaped,
)

TIMM = {
  'embedding/class_token': 'cls_token',
  'embedding/position': 'pos_embed',
  'embedding/patches': 'patch_embed.proj',
  'block#/norm1': 'blocks.#.norm1',
  'block#/attention/qkv': 'blocks.#.attn.qkv',
  'block#/attention/out': 'blocks.#.attn.proj',
  'block#/norm2': 'blocks.#.norm2',
  'block#/mlp/fc1': 'blocks.#.mlp.fc1',
  'block#/mlp/fc2': 'blocks.#.mlp.fc2',
  'norm': 'norm',
  'head/dense': 'head',
}
TORCHVISION = {
  'embedding/class_token': 'class_token',
  'embedding/position': 'encoder.pos_embedding',
  'embedding/patches': 'conv_proj',
  'block#/norm1': 'encoder.layers.encoder_layer_#.ln_1',
  'block#/attention/qkv': 'encoder.layers.encoder_layer_#.self_attention.in_proj',
  'block#/attention/out': 'encoder.layers.encoder_layer_#.self_attention.out_proj',
  'block#/norm2': 'encoder.layers.encoder_layer_#.ln_2',
  'block#/mlp/fc1': 'encoder.layers.encoder_layer_#.mlp.0',
  'block#/mlp/fc2': 'encoder.layers.encoder_layer_#.mlp.3',
  'norm': 'encoder.ln',
  'head/dense': 'heads.head',
}
GOOGLE = {
  'embedding/class_token': 'cls',
  'embedding/position': 'Transformer/posembed_input/pos_embedding',
  'embedding/patches': 'embedding',
  'block#/norm1': 'Transformer/encoderblock_#/LayerNorm_0',
  'block#/attention/out': 'Transformer/encoderblock_#/MultiHeadDotProductAttention_1/out',
  'block#/norm2': 'Transformer/encoderblock_#/LayerNorm_2',
  'block#/mlp/fc1': 'Transformer/encoderblock_#/MlpBlock_3/Dense_0',
  'block#/mlp/fc2': 'Transformer/encoderblock_#/MlpBlock_3/Dense_1',
  'norm': 'Transformer/encoder_norm',
  'head/dense': 'head',
}
_GOOGLE_ATTENTION = 'Transformer/encoderblock_#/MultiHeadDotProductAttention_1'
OPEN_CLIP_BLOCKS = {
  'block#/norm1': 'transformer.resblocks.#.ln_1',
  'block#/attention/qkv': 'transformer.resblocks.#.attn.in_proj',
  'block#/attention/out': 'transformer.resblocks.#.attn.out_proj',
  'block#/norm2': 'transformer.resblocks.#.ln_2',
  'block#/mlp/fc1': 'transformer.resblocks.#.mlp.c_fc',
  'block#/mlp/fc2': 'transformer.resblocks.#.mlp.c_proj',
}


def pytorch_tables(name: str, table: Mapping[str, str], ignored: tuple[str, ...] = ()) -> Scheme:
  """Returns the scheme of a state dict whose names stand in `table`.

  Args:
    name: of the project.
    table: as at the top of this file.
    ignored: patterns of names that no variable needs.
  """
  return Scheme(name, lambda path: _pytorch(path, table), ignored)


def google(num_heads: int) -> Scheme:
  """Returns the scheme of the official `.npz` files: heads apart, and queries, keys and values."""
  return Scheme('google-research', lambda path: _google(path, num_heads))


def _pytorch(path: Path, table: Mapping[str, str]) -> Stored:
  alone, layer = _names(path, table)
  if alone:
    return Stored((alone,))
  leaf = path[-1]
  if layer.endswith('in_proj'):  # PyTorch's own attention has in_proj_weight, without a dot
    suffix, layout = ('weight', OUTPUT_FIRST) if leaf == 'kernel' else (leaf, AS_IS)
    return Stored((f'{layer}_{suffix}',), layout)
  return pytorch_array(layer, leaf)


def _google(path: Path, num_heads: int) -> Stored:
  if path[-3:-1] == ('attention', 'qkv'):
    attention = _numbered(_GOOGLE_ATTENTION, path)
    names = tuple(f'{attention}/{part}/{path[-1]}' for part in ('query', 'key', 'value'))
    return Stored(names, _heads_last(num_heads))
  alone, layer = _names(path, GOOGLE)
  if alone:
    return Stored((alone,))
  split = path[-3:] == ('attention', 'out', 'kernel')
  return Stored((f'{layer}/{path[-1]}',), _heads_first(num_heads) if split else AS_IS)


def _names(path: Path, table: Mapping[str, str]) -> tuple[str, str]:
  """Returns the name of an array that stands alone, or ''; and the name of its layer, or ''."""
  alone, layer = (re.sub(r'^block\d+', 'block#', '/'.join(p)) for p in (path[1:], path[1:-1]))
  return _numbered(table.get(alone, ''), path), _numbered(table.get(layer, ''), path)


def _numbered(name: str, path: Path) -> str:
  return name.replace('#', path[1].removeprefix('block'))


def _heads_last(num_heads: int) -> Layout:
  """[..., width] is stored as [..., heads, width / heads]."""

  def stored(shape: Shape) -> Shape:
    return (*shape[:-1], num_heads, shape[-1] // num_heads)

  return reshaped(stored)


def _heads_first(num_heads: int) -> Layout:
  """[width, out] is stored as [heads, width / heads, out]."""

  def stored(shape: Shape) -> Shape:
    return (num_heads, shape[0] // num_heads, *shape[1:])

  return reshaped(stored)
