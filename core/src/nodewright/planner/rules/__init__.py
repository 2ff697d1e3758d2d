"""Corrections of group sizes, one file for each rule of --size-correction."""
