"""Reads frames (four bytes of length, then the text) and answers each with a JSON frame."""

import json
import struct
import sys


def serve(read):
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while head := stdin.read(4):
        text = stdin.read(struct.unpack(">I", head)[0])
        answer = json.dumps(read(text)).encode()
        stdout.write(struct.pack(">I", len(answer)) + answer)
        stdout.flush()


def attempt(read, *args):
    try:
        return {"read": read(*args)}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}
