"""Largest accepted sizes in untrusted files.

A reader compares the numbers that a file states with these limits before it allocates memory or
starts a loop, so that a small file cannot take all memory or time. Each limit admits the largest
data that the project is made for, which its docstring names.
"""

MAX_PIXELS_PER_IMAGE = 2**28 // 3
"""89 million pixels, a quarter GiB in RGB, where Pillow begins to warn of decompression bombs. The
pictures of ImageNet, LAION and photographs of most cameras are smaller; 13,000 × 13,000 is not."""

MAX_BYTES_PER_ARRAY = 2**33
"""8 GiB, of one array inflated from a compressed file. It admits 50,000 RGB images of 224 × 224
pixels in bytes (7.0 GiB) and the logits of ImageNet's training set (4.8 GiB)."""

MAX_BYTES_OF_RESULTS = 2**28
"""256 MiB, of `results.json`, of `results.csv`, and of the inflated arrays of `results.npz`. A heat
map of all 25,000 frequencies of ImageNet's images has about 5 MB a classifier."""

MAX_BYTES_PER_SHARD = 2**31
"""2 GiB, of the inflated arrays of one shard of records, which a run holds in memory as it writes
it. Without logits a row and a view take 20 bytes: 107 million of both fit."""

MAX_BYTES_OF_TEXT = 2**30
"""1 GiB, of one JSON file: the largest annotations of COCO have 0.45 GB."""

MAX_ROWS = 2**31 - 1
"""Rows of a data set or of records: places of rows fit 32 bits. LAION-400M has 4 · 10⁸."""

MAX_COUNT = 2**53
"""Observations of an estimate: floats hold whole numbers up to it."""

MAX_SHARDS = 2**20
"""Files of one data set or of one set of records, ten times the 100,000 shards of LAION-size
lists; the names of all take about 100 MB."""

MAX_LABEL_LENGTH = 255
"""Characters in a label of a classifier or a class. Folders, which become classes, have names of at
most 255 bytes."""

MAX_JSON_DEPTH = 64
"""Nested objects and lists in JSON. Configs and results nest fewer than ten; Python's parser itself
fails at about 1,000."""
