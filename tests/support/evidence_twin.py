"""What the occurrences of a context say of the token after it, by the documented thresholds."""

ONCE, AGAIN, ALWAYS, MOSTLY, SOMETIMES, SELDOM = range(6)


def weigh(followed: int, contexts: int) -> int:
    """The class of evidence for a context seen so often, followed by the token so often."""
    if contexts <= 1:
        return ONCE
    if followed == contexts:
        return AGAIN if contexts <= 3 else ALWAYS
    share = followed / contexts
    return MOSTLY if share > 0.7 else SOMETIMES if share > 0.4 else SELDOM


def occurrences(string: str, text: str) -> int:
    """How often ``string`` occurs, overlaps included."""
    return sum(text.startswith(string, at) for at in range(len(text) - len(string) + 1))
