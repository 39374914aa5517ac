"""A number of things in a sentence."""


def counted(number: object, what: str) -> str:
    """Return such as "1 flow" or "2 flows", of a noun that takes an s."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
