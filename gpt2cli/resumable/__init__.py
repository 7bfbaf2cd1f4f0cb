"""Runs over an input of many records, in order, which go on after a kill."""
