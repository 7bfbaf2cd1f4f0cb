"""Tells what this machine can run, and what mends what it cannot."""

from gpt2cli.doctor.diagnosis import diagnose
from gpt2cli.doctor.facts import Diagnosis

__all__ = ["Diagnosis", "diagnose"]
