"""Derived tables: facts about the job that no single line states."""
