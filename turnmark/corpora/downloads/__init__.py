"""Fetches benchmark data and the small models that Turnmark knows by name. The room imports `core`; no other room
imports it, only the commands and the packages above."""
