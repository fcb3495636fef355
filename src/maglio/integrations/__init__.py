"""Maglio inside other people's programs. Each module needs the package that it is named after."""
