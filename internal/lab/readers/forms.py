import base64
import io
import sys

import tornado
import werkzeug
from tornado.httputil import parse_body_arguments
from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header as werkzeug_options

try:
    import python_multipart as multipart
    from python_multipart.multipart import parse_options_header
except ImportError:  # as it was called before
    import multipart
    from multipart.multipart import parse_options_header

from frames import attempt, serve

age = sys.argv[1]


def text(value):
    return base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()


def by_name(pairs):
    found = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def with_werkzeug(kind, body):
    mimetype, options = werkzeug_options(kind)
    _, fields, files = FormDataParser(silent=False).parse(io.BytesIO(body), mimetype, len(body), options)
    return {
        "fields": by_name((name, text(value)) for name, value in fields.items(multi=True)),
        "files": by_name((name, [f.filename, text(f.read())]) for name, f in files.items(multi=True)),
    }


def with_tornado(kind, body):
    fields, files = {}, {}
    parse_body_arguments(kind, body, fields, files)
    return {
        "fields": {name: [text(v) for v in values] for name, values in fields.items()},
        "files": {name: [[f.filename, text(f.body)] for f in values] for name, values in files.items()},
    }


def with_python_multipart(kind, body):
    """As Starlette uses it."""
    _, params = parse_options_header(kind.encode())
    parts, state = [], {}

    def begin():
        state.update(headers={}, data=b"", field=b"", value=b"")

    def header_field(data, start, end):
        state["field"] += data[start:end]

    def header_value(data, start, end):
        state["value"] += data[start:end]

    def header_end():
        state["headers"][state["field"].lower()] = state["value"]
        state.update(field=b"", value=b"")

    def part_data(data, start, end):
        state["data"] += data[start:end]

    def part_end():
        _, options = parse_options_header(state["headers"][b"content-disposition"])
        filename = options[b"filename"].decode() if b"filename" in options else None
        parts.append((options[b"name"].decode(), filename, state["data"]))

    ended = []
    parser = multipart.MultipartParser(params[b"boundary"], {
        "on_part_begin": begin, "on_part_data": part_data, "on_part_end": part_end, "on_header_field": header_field,
        "on_header_value": header_value, "on_header_end": header_end, "on_headers_finished": lambda: None, "on_end": lambda: ended.append(1),
    })
    parser.write(body)
    parser.finalize()
    if not ended:
        raise ValueError("no end")
    return {
        "fields": by_name((name, text(data)) for name, filename, data in parts if filename is None),
        "files": by_name((name, [filename, text(data)]) for name, filename, data in parts if filename is not None),
    }


def read(frame):
    kind, _, body = frame.partition(b"\n")
    kind = kind.decode()
    return {
        f"werkzeug, {age}": attempt(with_werkzeug, kind, body),
        f"tornado, {age}": attempt(with_tornado, kind, body),
        f"python-multipart, {age}": attempt(with_python_multipart, kind, body),
    }


serve(read)
