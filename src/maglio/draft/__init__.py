"""Where drafts come from: indexes over tokens already seen, and policies that choose among them.

Token ids in, token ids out. Nothing here knows a model or text, and nothing here can change what a
model says: a draft is a guess that is verified. :mod:`~maglio.draft.source` is the seam,
:mod:`~maglio.draft.registry` names the sources that come with Maglio.
"""
