import pytest

from ssbench.core.scenario.checks import ValidationErrors
from ssbench.core.scenario.syntax import MAX_BYTES, member, read_object
from ssbench.core.text import MAX_KEY


def read(text: str | bytes) -> tuple[dict[str, object] | None, list[str]]:
    faults = ValidationErrors("x")
    return read_object(text, faults), faults.lines


def test_an_object_is_read_without_faults() -> None:
    assert read('{"a": [1, {"b": null}]}') == ({"a": [1, {"b": None}]}, [])


def test_a_byte_order_mark_is_accepted() -> None:
    assert read(b"\xef\xbb\xbf{}") == ({}, [])
    assert read("\ufeff{}") == ({}, [])


SYNTAX = [
    ("", "1:1: the file is empty"),
    (" \n\t", "1:1: the file is empty"),
    ("// nothing", "1:1: the file is empty"),
    ('{"a": [1,,2]}', "1:10: invalid JSON: an extra comma"),
    ('{"a": 1,, "b": 2}', "1:9: invalid JSON: an extra comma"),
    ('{"a": [,]}', "1:8: invalid JSON: an extra comma"),
    ('{"a": 1', "1:8: invalid JSON: the text ends too early"),
    ('{"a": "b', "1:7: invalid JSON: a string is not closed"),
    ("{'a': 1}", "1:2: invalid JSON: not a JSON quote"),
    ("{“a”: 1}", "1:2: invalid JSON: not a JSON quote"),
    ('{"a": 1, // users\n/* 2 */ "b": x}', "2:14: invalid JSON: expected a value"),
    ('{"a": 1 /* users }', "1:9: invalid JSON: a comment is not closed"),
    ('{"a": 1 /*/', "1:9: invalid JSON: a comment is not closed"),
    ('{\n# users\n"a": 1}', "2:1: invalid JSON: not a comment of JSON; // before a comment"),
    ("\n{a: 1}", "2:2: invalid JSON: expected a key"),
    ('{"a": True}', "1:7: invalid JSON: a Python constant"),
    ('{"a": 1\n "b": 2}', "2:2: invalid JSON: expected a comma before this"),
    ('{"a" 1}', "1:6: invalid JSON: expected a colon before this"),
    ('{"a": }', "1:7: invalid JSON: expected a value"),
    ('{"a": .5}', "1:7: invalid JSON: not a JSON number"),
    ('{"a": +5}', "1:7: invalid JSON: not a JSON number"),
    ('{"a": "b\nc"}', "1:9: invalid JSON: a line break or tab in a string"),
    (r'{"a": "\x"}', "invalid JSON: not a JSON escape"),
    ('{"a": 1} x', "1:10: invalid JSON: text after the end of the object"),
    ("[]", "1:1: the scenario is a list"),
    ("null", "1:1: the scenario is null"),
    ("1.5", "1:1: the scenario is a number"),
    ('"a"', "1:1: the scenario is a string"),
    (b"\xff\xfe{\x00}\x00", "1:1: byte 0xff is not UTF-8; save the file as UTF-8"),
    ('{"ä":\n "ä'.encode() + b'\xe4"}', "2:4: byte 0xe4 is not UTF-8"),
    ("{}\udce4", "1:3: byte 0xe4 is not UTF-8"),
    ("{}\ud800", "1:3: half a surrogate pair is not UTF-8"),
    ("[" * 100_000, "1:21: brackets are nested 21 deep"),
    ('{"a":' * 100_000, "1:101: brackets are nested 21 deep"),
    (b" " * (MAX_BYTES + 1), "1:1: more than 4 MiB"),
    ('"' + '\\"' * 1_000_000, "1:1: invalid JSON: a string is not closed"),
    ("{" + "/* " * 1_000_000, "1:2: invalid JSON: a comment is not closed"),
    ("{" + " ," * 1_000_000, "1:3: invalid JSON: an extra comma"),
    ("a = 1\nb = ", "2:5: invalid TOML: invalid value; TOML 1.0, as in key = value"),
    ("# of mine\n\n[a]\nb = 1\nb = 2", "5:6: invalid TOML: cannot overwrite a value"),
    ("a = " + "[" * 100_000, "1:25: invalid TOML: brackets are nested 21 deep, 20 are allowed"),
    ("a." * 100_000 + "a = 1", "1:40: invalid TOML: a key of more than 20 parts"),
    ('a."b".' * 40_000 + "a = 1", "1:60: invalid TOML: a key of more than 20 parts"),
    ("a = 1\n" * 100_000, "1:1: invalid TOML: more than 256 KiB"),
    ("a = " + "9" * 10_000, "1:1: invalid TOML: a value that can't be read"),
]


@pytest.mark.parametrize(("text", "line"), SYNTAX, ids=range(len(SYNTAX)))
def test_syntax_faults_have_line_column_and_a_hint(text: str | bytes, line: str) -> None:
    _, lines = read(text)
    assert len(lines) == 1
    assert line in lines[0]
    assert lines[0].startswith("x: ")


def test_json_may_have_comments_and_trailing_commas() -> None:
    text = '{// "x": [[[[[[[[[[[[[[[[[[[[[[[\n"a": [1, {"b": "// \\"/* ,]",} /* 2, */, ], \n}//'
    assert read(text) == ({"a": [1, {"b": '// "/* ,]'}]}, [])


def test_toml_is_known_by_its_first_line_or_the_name_of_the_file() -> None:
    text = '# a comment\nname = "x"\n[initial_files]\ntiny = 0x10\n[[sizes]]\nname = \'"\'\n'
    wanted = {"name": "x", "initial_files": {"tiny": 16}, "sizes": [{"name": '"'}]}
    assert read(text) == (wanted, [])
    assert read(text.encode("utf-8-sig").replace(b"\n", b"\r\n")) == (wanted, [])
    assert read("[[sizes]]\n") == ({"sizes": [{}]}, [])
    faults = ValidationErrors("x.toml")
    assert read_object("", faults) == {}
    assert read_object('"a b" = 1', faults) == {"a b": 1}
    assert read_object("{}", faults) is None
    assert [line.partition(";")[0] for line in faults.lines] == [
        "x.toml: 1:1: invalid TOML: invalid statement"
    ]


def test_dots_and_brackets_in_strings_and_comments_of_toml_do_not_count() -> None:
    dots = "." * 100 + "[" * 100
    text = f'a = """\n{dots}""" # {dots}\nb = "{dots}"\nc = \'{dots}\'\nd = [{"1.5, " * 100}]\n'
    value, lines = read(text)
    assert lines == []
    assert value is not None
    assert value["d"] == [1.5] * 100


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    assert read('{"a": "' + "[" * 100 + '\\"["}')[1] == []


def test_duplicate_keys_are_reported_by_path() -> None:
    value, lines = read('{"a": 1, "b": [{"odd key": 1, "odd key": 2, "odd key": 3}], "a": 2}')
    assert value == {"a": 2, "b": [{"odd key": 3}]}
    assert lines == [
        "x: a: the key is given more than once; give it once",
        'x: b[0]["odd key"]: the key is given more than once; give it once',
    ]


def test_a_key_too_long_for_stat_files_is_rejected() -> None:
    assert read('{"a": {"' + "k" * MAX_KEY + '": 1}}')[1] == []
    for key in ("k" * (MAX_KEY + 1), "\u00fc " * MAX_KEY):
        _value, [line] = read('{"a": [{"' + key + '": 1}]}')
        assert line.startswith("x: a[0]")
        assert line.endswith(f": a key of {len(key)} characters; at most 4096")
        assert len(line) < 150


def test_huge_numbers_are_parsed() -> None:
    value, lines = read('{"a": ' + "9" * 10_000 + ', "b": 1e999}')
    assert value == {"a": float("inf"), "b": float("inf")}
    assert lines == []


def test_paths_are_dotted_where_they_can_be() -> None:
    assert member("", "sizes") == "sizes"
    assert member("sizes[2]", "name") == "sizes[2].name"
    assert member("initial_files", "big ones") == 'initial_files["big ones"]'
