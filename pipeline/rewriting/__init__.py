"""Simpler and more readable programs that compute the same.

readable_text   a program → text with streams named by what made them and their types as comments
simplification  a verified text → a simpler one that is verified too, by rewrites that leave out structure
"""
