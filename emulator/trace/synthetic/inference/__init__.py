"""Disaggregated inference: prefill and decode workers that serve requests."""
