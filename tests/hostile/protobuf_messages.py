"""The messages of the hostile Protobuf records: their schema, their wire format, and the columns that are declared."""

from __future__ import annotations

from tests.hostile.types import Schema, Type, decimal

MESSAGES = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Colour { RED = 0; GREEN = 1; BLUE = -5; }
message Other { int64 id = 1; int64 seq = 2; string name = 3; }
message Tree { int32 n = 1; Tree sub = 2; }
message Hostile {
  message Inner { google.protobuf.Timestamp at = 1; int32 n = 2; string name = 3; repeated Colour colours = 4; }
  int64 id = 1;
  sint64 seq = 2;
  optional string name = 3;
  int32 number = 4;
  sint32 small = 5;
  uint32 tiny = 6;
  uint64 big = 7;
  fixed64 huge = 8;
  sfixed64 long = 9;
  fixed32 half = 10;
  sfixed32 short = 11;
  float ratio = 12;
  double size = 13;
  bool flag = 14;
  bytes raw = 15;
  Colour colour = 16;
  google.protobuf.Timestamp at = 17;
  google.protobuf.Int64Value wrapped = 18;
  google.protobuf.StringValue text = 19;
  repeated string tags = 20;
  repeated int32 sums = 21;
  map<string, int64> counts = 22;
  map<sint32, Inner> parts = 23;
  Inner inner = 24;
  oneof choice { int32 one = 25; string two = 26; }
  string money = 27;
  Tree tree = 28;
  optional double wide = 29;
  string day = 30;
}
"""

# The same, as the generator and the oracle have it: by number a name and a kind; `*` marks what repeats, `?` what has
# presence.
Fields = dict[int, tuple[str, str]]
_STAMP: Fields = {1: ("seconds", "int64"), 2: ("nanos", "int32")}
_INNER: Fields = {1: ("at", "Timestamp"), 2: ("n", "int32"), 3: ("name", "string"), 4: ("colours", "*enum")}
HOSTILE: Fields = {
    1: ("id", "int64"),
    2: ("seq", "sint64"),
    3: ("name", "?string"),
    4: ("number", "int32"),
    5: ("small", "sint32"),
    6: ("tiny", "uint32"),
    7: ("big", "uint64"),
    8: ("huge", "fixed64"),
    9: ("long", "sfixed64"),
    10: ("half", "fixed32"),
    11: ("short", "sfixed32"),
    12: ("ratio", "float"),
    13: ("size", "double"),
    14: ("flag", "bool"),
    15: ("raw", "bytes"),
    16: ("colour", "enum"),
    17: ("at", "Timestamp"),
    18: ("wrapped", "Int64Value"),
    19: ("text", "StringValue"),
    20: ("tags", "*string"),
    21: ("sums", "*int32"),
    22: ("counts", "map counts"),
    23: ("parts", "map parts"),
    24: ("inner", "Inner"),
    25: ("one", "?int32"),
    26: ("two", "?string"),
    27: ("money", "string"),
    28: ("tree", "Tree"),
    29: ("wide", "?double"),
    30: ("day", "string"),
}
KINDS: dict[str, Fields] = {
    "Other": {1: ("id", "int64"), 2: ("seq", "int64"), 3: ("name", "string")},
    "Tree": {1: ("n", "int32"), 2: ("sub", "Tree")},
    "Hostile": HOSTILE,
    "Inner": _INNER,
    "Timestamp": _STAMP,
    "Int64Value": {1: ("value", "int64")},
    "StringValue": {1: ("value", "string")},
    "map counts": {1: ("key", "string"), 2: ("value", "int64")},
    "map parts": {1: ("key", "sint32"), 2: ("value", "Inner")},
}
PLACES = {(0,): "Other", (1,): "Tree", (2,): "Hostile", (2, 0): "Inner"}  # of messages in the file
ONE_OF = ("one", "two")
COLOURS = {0: "RED", 1: "GREEN", -5: "BLUE"}
WIRE = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum"), 0),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), 1),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), 5),
}  # all else: 2
PACKED = {"fixed64": "<Q", "sfixed64": "<q", "double": "<d", "fixed32": "<I", "sfixed32": "<i", "float": "<f"}

_INNER_TYPE = Type(
    "STRUCT",
    fields=(
        ("at", Type("TIMESTAMP")),
        ("n", Type("INT")),
        ("name", Type("STRING")),
        ("colours", Type("ARRAY", (Type("STRING"),))),
    ),
)
PROTOBUF_COLUMNS: Schema = {
    "id": Type("BIGINT"),
    "seq": Type("BIGINT"),
    "name": Type("STRING"),
    "number": Type("INT"),
    "small": Type("SMALLINT"),
    "tiny": Type("TINYINT"),
    "big": Type("BIGINT"),
    "huge": decimal(20, 0),
    "long": Type("BIGINT"),
    "half": Type("BIGINT"),
    "short": Type("INT"),
    "ratio": Type("FLOAT"),
    "size": Type("DOUBLE"),
    "flag": Type("BOOLEAN"),
    "raw": Type("BINARY"),
    "colour": Type("STRING"),
    "at": Type("TIMESTAMP"),
    "wrapped": Type("BIGINT"),
    "text": Type("STRING"),
    "tags": Type("ARRAY", (Type("STRING"),)),
    "sums": Type("ARRAY", (Type("INT"),)),
    "counts": Type("MAP", (Type("BIGINT"),)),
    "parts": Type("MAP", (_INNER_TYPE,)),
    "inner": _INNER_TYPE,
    "one": Type("INT"),
    "two": Type("STRING"),
    "money": decimal(12, 2),
    "tree": Type("STRUCT", fields=(("n", Type("INT")), ("sub", Type("STRUCT", fields=(("n", Type("INT")),))))),
    "wide": decimal(38, 10),
    "day": Type("DATE"),
}
