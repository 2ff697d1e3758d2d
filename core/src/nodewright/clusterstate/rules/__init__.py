"""Evaluation of a group, one file for each rule of --size-correction."""
