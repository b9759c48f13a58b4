"""Environments E_k = T_k × C_k of systematic robustness: transforms, and the classes that see them.

Training shows T_k to C_k only (`robustness.augment.environment`), the study `systematic` shows it
to all classes (Omran & Schiele, Towards Systematic Robustness for Scalable Visual Recognition,
2022, section 2).
"""
