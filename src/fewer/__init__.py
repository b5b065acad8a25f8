"""Fewer word errors from text alone: log P_AED + λ1·log P_LM − λ2·log P_ILM."""

__version__ = "0.1.0"
