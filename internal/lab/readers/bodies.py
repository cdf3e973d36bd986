import json
import math

from frames import attempt, serve


def first_wins(pairs):
    found = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def number(text):
    """As JSON can say it to Node.js and back."""
    value = float(text)
    return value if math.isfinite(value) else None


serve(lambda text: {
    "python, last wins": attempt(lambda: json.loads(text, parse_float=number)),
    "python, first wins": attempt(lambda: json.loads(text, parse_float=number, object_pairs_hook=first_wins)),
})
