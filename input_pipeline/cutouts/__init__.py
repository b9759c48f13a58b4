"""Segmented photographs to the cutouts that scenes are composed of.

`robustness cutouts` reads annotations in the format of Open Images.

Reference: Yung et al., SI-Score, 2021, section 2; Kuznetsova et al., The Open Images Dataset V4.
"""
