"""Configurations: importable alone, without torch. Class defaults are the vetted settings."""
