"""Largest accepted sizes in untrusted files.

A reader compares the numbers that a file states with these limits before it allocates memory or
starts a loop, so that a small file cannot take all memory or time. Each limit admits the largest
data that the project is made for, which its docstring names.
"""

MAX_PIXELS_PER_IMAGE = 2**28 // 3
"""89 million pixels, a quarter GiB in RGB, where Pillow begins to warn of decompression bombs. The
pictures of ImageNet, LAION and photographs of most cameras are smaller; 13,000 × 13,000 is not."""

MAX_BYTES_PER_ARRAY = 2**33
"""8 GiB, for one array that is inflated from a compressed file. It admits 50,000 RGB images of
224 × 224 pixels in bytes (7.0 GiB) and the logits of ImageNet's training set (4.8 GiB).
"""

MAX_BYTES_OF_RESULTS = 2**28
"""256 MiB, for `results.json`, `results.csv` and the inflated arrays of `results.npz`, each. A heat
map of all 25,000 frequencies of ImageNet's images has about 5 MB per classifier.
"""

MAX_BYTES_PER_SHARD = 2**31
"""2 GiB, for the inflated arrays of one file (shard) of records, which a run holds in memory while
it writes them. Without logits, a row in a view takes 20 bytes: 107 million of them fit.
"""

MAX_BYTES_OF_TEXT = 2**30
"""1 GiB, for one text file such as JSON; the largest annotations of COCO have 0.45 GB."""

MAX_ROWS = 2**31 - 1
"""Largest number of rows of a data set or of records: their positions fit 32 bits. LAION-400M has
4 · 10⁸.
"""

MAX_COUNT = 2**53
"""Largest number of observations of an estimate: floats represent whole numbers exactly up to
it.
"""

MAX_SHARDS = 2**20
"""Largest number of files of one data set or set of records, ten times the 100,000 shards of lists
like LAION's; the names of all take about 100 MB.
"""

MAX_LABEL_LENGTH = 255
"""Largest number of characters in the label of a classifier or class. Names of
folders, which become classes, have at most 255 bytes.
"""

MAX_JSON_DEPTH = 64
"""Largest depth of nested objects and lists in JSON. Configs and results nest fewer than ten;
Python's parser itself fails at about 1,000.
"""
