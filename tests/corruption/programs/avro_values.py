"""Values of a few bytes that stand for a trillion items, or for more levels than the stack has."""

import json

from spark_eos.extensions.value_formats.formats import codec_for
from spark_eos.extensions.value_formats.settings import ValueSettings
from tests.corruption.hostile import little


def record(type_):
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": type_}]})


empty = {"type": "array", "items": "null"}
nothing = {
    "type": "array",
    "items": {"type": "record", "name": "n", "fields": [{"name": "x", "type": "null"}]},
}
trillion = b"\x80" * 5 + b"\x40" + b"\0"
hostile = [
    (record(empty), trillion, "take no bytes"),
    (record({"type": "map", "values": empty}), b"\2\2k" + trillion + b"\0", "take no bytes"),
    (record(nothing), trillion, "take no bytes"),
    (record(["null", "r"]), b"\2" * 100_000 + b"\0", "nested too deeply"),
    (record({"type": "array", "items": "r"}), b"\2" * 100_000, "nested too deeply"),
    (record({"type": "array", "items": "long"}), trillion, "no value of its Avro schema"),
    (record("bytes"), b"\xfe" * 9 + b"\x01", "no value of its Avro schema"),
]
codecs = [(codec_for(ValueSettings("t", "avro", schema)), data, words) for schema, data, words in hostile]
codecs[3][0].decode(b"\0")
little(200 << 20)
for codec, data, words in codecs:
    try:
        codec.decode(data)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
# What is not hostile is read, by either reader.
chain = codecs[3][0]
for depth in (3, 300):
    found, left = chain.decode(b"\2" * depth + b"\0"), depth
    while found["a"] is not None:
        found, left = found["a"], left - 1
    assert not left
fields = [{"name": "text", "type": "string"}, {"name": "next", "type": ["null", "r"]}]
long = codec_for(ValueSettings("t", "avro", json.dumps({"type": "record", "name": "r", "fields": fields})))
value = {"text": "x" * 5000, "next": {"text": "y", "next": None}}
assert long.decode(long.encode(value)) == value
