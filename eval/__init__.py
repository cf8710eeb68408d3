"""Evaluation: recall, benchmarks of speed, figures of the papers.

Data and options that cannot be used raise InputError, which says what to do.
"""
