"""Tests of server/writing/."""
