"""Comparison of the classifiers of several workdirs, image by image where they share images.

`entries` reads the classifiers of finished workdirs, `pairing` pairs their answers on shared
images, `compare` makes the table of results, and `references` relates it to other tasks.
"""
