"""Whisper as a recogniser of fewer: its encoder from transformers, its decoder written here, its own tokens."""
