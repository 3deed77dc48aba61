"""Files from people: what is wrong is named, with its place, and nothing takes for ever."""

from dataclasses import dataclass

import pytest

from hf_pct.core.decode import convert, load_yaml, parse_json, parse_yaml, read_json, read_text, resolve_beside


@dataclass(frozen=True)
class Group:
    name: str
    rows: int


@dataclass(frozen=True)
class Record:
    rate: float
    groups: list[Group]
    note: str | None = None


def test_a_file_becomes_its_type(tmp_path):
    (tmp_path / "a.json").write_text('\ufeff{"rate": 1, "groups": [{"name": "x", "rows": 3}]}', encoding="utf-8")
    record = read_json(tmp_path / "a.json", Record, "a record")
    assert record == Record(1.0, [Group("x", 3)])
    (tmp_path / "a.yaml").write_text("rate: 1e-3\ngroups: []\n")
    assert convert(load_yaml(tmp_path / "a.yaml", "a record"), Record, "a.yaml").rate == 0.001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rate": "1", "groups": []}', "rate: Expected float, got str"),
        ('{"rate": true, "groups": []}', "rate: Expected float, got bool"),
        ('{"rate": 1, "groups": [{"name": "x", "rows": 1.5}]}', r"groups\[0\].rows: Expected int, got float"),
        ('{"rate": NaN, "groups": []}', "rate is nan, expected a finite number"),
        ('{"rate": 1e999, "groups": []}', "rate is inf, expected a finite number"),
        ('{"rate": 1, "groups": [], "note": "\\ud800"}', "note is text with half a surrogate pair"),
        ('{"rate": 1%s, "groups": []}' % ("0" * 30), "rate is a whole number of more than 64 bits"),
        ('{"rate": 1%s, "groups": []}' % ("0" * 9000), "digits"),
        ('{"rate": 1, "rate": 0, "groups": []}', "the key 'rate' stands twice"),
        ('{"rate": 1, "groups": [{"name": "x", "rows": 3, "rows": 4}]}', "the key 'rows' stands twice"),
        ('{"rate": 1}', "missing required field groups"),
        ("[]", "Expected object, got array"),
        ('{"rate": 1, "groups": [', "not a whole JSON file"),
        ("[" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_bad_json_is_one_clear_message(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as raised:
        read_json(path, Record, "a record")
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate: 1\nrate: 0\n", "the key 'rate' stands twice"),
        ("a: &a [x, x]\nb: &b [*a, *a]\n" + "".join(
            f"{chr(99 + i)}: &{chr(99 + i)} [{', '.join([f'*{chr(98 + i)}'] * 9)}]\n" for i in range(9)),
         "more than 100,000 values"),
        ("a: &a\n  k0: 1\nb: &b\n  <<: [*a, *a]\n" + "".join(
            f"{chr(99 + i)}: &{chr(99 + i)}\n  <<: [{', '.join([f'*{chr(98 + i)}'] * 9)}]\n" for i in range(9)),
         "more than 100,000 values"),
        ("a: &a [*a]", "inside the very thing"),
        ("a: [1", "is not YAML"),
        ("[" * 20_000, "nested too deeply"),
        ("? [1, 2]\n: x\n", "a key that is no text|not YAML"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
        ("a: \x00", "is not YAML"),
        ("rate: .nan\ngroups: []\n", "rate is nan"),
        ("rate: 2020-01-01\ngroups: []\n", "rate: Expected float, got date"),
    ],
)  # fmt: skip
def test_bad_yaml_is_one_clear_message(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        convert(load_yaml(path, "a record"), Record, str(path))


def test_sizes_are_bounded_and_places_are_said(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * 101)
    with pytest.raises(ValueError, match="larger than 100 bytes, which is no size for a name"):
        read_text(tmp_path / "large", "a name", 100)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist, expected a name"):
        read_text(tmp_path / "nowhere", "a name")
    with pytest.raises(ValueError, match="is a folder, expected a name"):
        read_text(tmp_path, "a name")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        read_text(tmp_path / "bytes", "a name")


def test_plain_values():
    assert parse_json('{"a": [1, 2.5, null, true]}', "it") == {"a": [1, 2.5, None, True]}
    assert parse_yaml("", "it") is None
    assert parse_yaml("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3\n", "it")["b"] == {"k": 3, "l": 2}
    assert parse_yaml("a: &x [1]\nb: *x\n", "it") == {"a": [1], "b": [1]}
    with pytest.raises(ValueError, match=r"it: \[1\] is nan"):
        convert([1.0, float("nan")], list[float], "it")


@pytest.mark.parametrize("name", ["", "../a.parquet", "/etc/passwd", "x/../../a"])
def test_a_name_leads_nowhere_else(tmp_path, name):
    with pytest.raises(ValueError, match="in the same folder"):
        resolve_beside(tmp_path / "r.json", name, "its rows")
    assert resolve_beside(tmp_path / "r.json", "a.parquet", "its rows") == tmp_path / "a.parquet"
