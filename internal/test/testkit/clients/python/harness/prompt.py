"""What is asked, and what the model server answers to it by its rules (internal/lab/mock/doc.go): words from a list, one a token."""

PROMPT = "Say something."
PROMPT_TOKENS = {"chat": 11, "responses": 4}

PIECES = [" the", " quick", " brown", " fox", " jumps", " over", " a", " lazy", " dog", " while", " seven", " wise"]
TEXT = "".join(PIECES)

# A call of this tool is as long as an answer: two tokens are the braces.
TOOL = "speak"
TOOL_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}
TOOL_TEXT = "".join(PIECES[:10])


def vector(i: int) -> list[float]:
    """The embedding of input number i."""
    return [8**-0.5 * (-1 if (i + 1) >> k & 1 else 1) for k in range(8)]
