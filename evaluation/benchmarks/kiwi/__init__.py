"""KIWI."""
