"""Where models come from: a file, the installed default, the hub, ollama's store.

Boundary: names in, paths of files on this machine out. No file of a model is opened here.
"""
