"""The table of readers, types that are not read, mail, JSON lines, source code."""

from __future__ import annotations

import os
import sys
from base64 import b64encode, encodebytes
from email.message import EmailMessage
from pathlib import Path
from quopri import encodestring
from typing import Any

import pytest

from tests.corpora.damaged import damaged, seeds
from tests.corpora.made import by_pandoc, read_all, read_one, refused, replaced
from tests.corpora.reading import ids, jsonl, told, write
from tests.drills.damaged import survives
from turnmark.corpora.readers import read_source, registry
from turnmark.corpora.readers.llama_index import adapted
from turnmark.corpora.readers.report import ReadingReport, describe_unread
from turnmark.corpora.types import Document, Problem

# --- the table -------------------------------------------------------------------------------------------------------


def test_counts_unread_types(tmp_path: Path) -> None:
    names = "a.md b.doc c.doc d.zip e.ppt f.PNG g.ttf h.css README .hidden.doc".split()
    write(tmp_path, dict.fromkeys(names, "text"))
    write(tmp_path, {"node_modules/x/readme.md": "x", "__pycache__/y.doc": "x", "env/pyvenv.cfg": "", "env/z.md": "x"})
    write(tmp_path, {"out/old.doc": "x", ".gitignore": "out/\n"})
    report = ReadingReport()
    documents = list(read_source(tmp_path, report=report))
    assert [item.id for item in documents if isinstance(item, Document)] == ["a.md"]
    assert describe_unread(report.unread) == ("5 files of types that are not read: .doc 2, .ppt 1, .zip 1, no suffix 1")
    assert describe_unread({".doc": 1}) == "1 file is not read: .doc"
    assert describe_unread({}) == ""
    report = ReadingReport()
    assert len(list(read_source(tmp_path, include=["*.md", "*.zip"], exclude=["*.zip"], report=report))) == 1
    assert report.unread == {}


def test_build_reports_unread_types(tmp_path: Path, turnmark: Any) -> None:
    write(tmp_path / "notes", {"a.md": "The gates are shut.", "b.doc": "x", "c.zip": "x", "d.zip": "x"})
    ran = turnmark("index", "build", tmp_path / "notes", "--name", "n", "--retriever", "bm25")
    assert "3 files of types that are not read: .zip 2, .doc 1" in ran.err
    assert '"unread": {".doc": 1, ".zip": 2}' in turnmark("index", "info", "n", "--json").out
    (tmp_path / "notes" / "a.md").unlink()
    ran = turnmark("index", "build", tmp_path / "notes", "--name", "m", "--retriever", "bm25")
    assert ran.code == 2
    assert "3 files of types that are not read" in ran.err


def test_build_reports_what_readers_left_out(tmp_path: Path, turnmark: Any) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("a.pptx", "b.pptx"):
        path = by_pandoc(tmp_path / "notes" / name, "# Gates\n\nOf wood.\n\n# Secret\n\nOf gold.\n")
        replaced(path, "ppt/slides/slide2.xml", "<p:sld ", '<p:sld show="0" ')
        os.utime(path, (1_700_000_000, 1_700_000_000))
    command = ("index", "build", tmp_path / "notes", "--name", "n", "--retriever", "bm25")
    assert "left out: hidden slides 2" in turnmark(*command).err
    assert '"left_out": {"hidden slides": 2}' in turnmark("index", "info", "n", "--json").out
    again = turnmark(*command)  # reads neither file
    assert "nothing has changed" in again.out
    assert "left out: hidden slides 2" in again.err


def test_third_party_adds_reader_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = write(
        tmp_path / "site",
        {
            "shout.py": (
                "from turnmark.corpora.readers.common.prose import parse_text\n"
                "def read(path, relative, progress):\n"
                "    text = path.read_text()\n"
                "    if 'fail' in text: raise KeyError('no such thing')\n"
                "    return parse_text(text.upper(), relative)\n"
            ),
            "shout-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: shout\nVersion: 1\n",
            "shout-1.dist-info/entry_points.txt": "[turnmark.readers]\n.shout = shout:read\n.md = shout:read\n",
        },
    )
    monkeypatch.setattr(sys, "path", [str(package), *sys.path])
    from turnmark.corpora.readers import isolation

    isolation.end_processes()
    registry.readers.cache_clear()
    try:
        source = write(tmp_path / "notes", {"a.shout": "the gates", "b.shout": "fail", "c.md": "the mill"})
        items = list(read_source(source))
        assert [item.text for item in items if isinstance(item, Document)] == ["THE GATES", "the mill\n"]
        assert "its reader failed (KeyError: 'no such thing')" in str(items[1])
        assert registry.list_readers()[".shout"].summary == "from shout"
    finally:
        registry.readers.cache_clear()
        isolation.end_processes()


def test_list_shows_readers(turnmark: Any) -> None:
    listed = turnmark("list", "readers").out
    assert ".docx" in listed
    assert "PowerPoint" in listed


def test_every_reader_of_the_table_can_be_imported() -> None:
    for suffix, reader in registry.readers().items():
        assert callable(reader.load()), suffix


def test_adapts_readers_of_llama_index(tmp_path: Path) -> None:
    class Reader:
        def load_data(self, path: Path) -> list[Any]:
            class Part:
                text = f"Title of {path.name}\n\nThe gates\0 are shut."

            return [Part()]

    document = adapted(Reader())(tmp_path / "a.xyz", "a.xyz", lambda *_: None)
    assert isinstance(document, Document)
    assert (document.title, document.text) == ("Title of a.xyz", "Title of a.xyz\n\nThe gates are shut.")
    write(tmp_path, {"a.hwp": "x"})
    assert "LlamaIndex's HWPReader" in refused(tmp_path / "a.hwp")


# --- mail ------------------------------------------------------------------------------------------------------------


def mail(subject: str, text: str, *, page: str = "", attached: str = "") -> bytes:
    message = EmailMessage()
    message["From"] = "Ann Smith <ann@example.org>"
    message["To"] = "Bob <bob@example.org>"
    message["Subject"] = subject
    message["Date"] = "Fri, 01 Mar 2024 10:22:00 +0100"
    message.set_content(text)
    if page:
        message.add_alternative(page, subtype="html")
    if attached:
        message.add_attachment(b"x", maintype="application", subtype="pdf", filename=attached)
    return bytes(message)


def test_reads_mail(tmp_path: Path) -> None:
    text = (
        "It opens on Monday.\n\n- bring <keys>\n\nAnn\n\n"
        "On Thu, Feb 29, 2024 Bob <b@x>\nwrote:\n> When does it open?\n>\n> Bob\n"
    )
    document = read_one(write(tmp_path, {"a.eml": mail("The Café", text, attached="plan.pdf")}) / "a.eml")
    assert (document.title, document.date) == ("The Café", "2024-03-01")
    assert document.text == (
        "# The Café\n\nFrom: Ann Smith (ann@example.org)\nTo: Bob (bob@example.org)\nDate: 2024-03-01 10:22\n\n"
        "It opens on Monday.\n\n- bring <keys>\n\nAnn\n\nAttachments: plan.pdf\n\n"
        "## Quoted message\n\nWhen does it open?\n\nBob\n"
    )
    assert [text for kind, *_, text in told(document) if kind == "item"] == ["- bring <keys>"]


def test_reads_mail_that_is_only_html(tmp_path: Path) -> None:
    page = "<h2>Gates</h2><ul><li>shut</li></ul>"
    document = read_one(write(tmp_path, {"a.eml": mail("x", "-", page=page)}) / "a.eml")
    assert document.text.endswith("## Gates\n\n- shut\n")
    assert told(document)[-1] == ("item", 0, None, "- shut")


def test_mailbox_has_one_document_per_message(tmp_path: Path) -> None:
    first, second = mail("One", "The first.\n\n>From here it is cited.\n"), mail("Two", "The second.")
    box = b"From a Fri Mar 1\n" + first + b"\nFrom b Fri Mar 1\n" + second + b"\nFrom c Fri Mar 1\nno mail\n"
    items = read_all(write(tmp_path, {"box.mbox": box}) / "box.mbox")
    documents = [item for item in items if isinstance(item, Document)]
    assert [(item.id, item.path, item.title) for item in documents] == [
        ("box.mbox#1", "box.mbox", "One"), ("box.mbox#2", "box.mbox", "Two"),
    ]  # fmt: skip
    assert "From here it is cited." in documents[0].text
    assert [str(item).split(":")[0] for item in items if isinstance(item, Problem)] == ["box.mbox#3"]


HEAD = "From: ann@example.org\nSubject: Gates\n"


def mail_body(tmp_path: Path, content: str | bytes) -> str:
    """Return the text of a mail below its sender."""
    return (
        read_one(write(tmp_path, {"a.eml": content}) / "a.eml")
        .text.split("(ann@example.org)")[-1]
        .split("org\n\n", 1)[-1]
    )


@pytest.mark.parametrize(
    ("said", "encoding"),
    [
        ("", "utf-8"),
        ("", "cp1252"),
        ("iso-8859-1", "cp1252"),
        ("gb2312", "gbk"),
        ("utf-16", "utf-16"),
        ("none", "utf-8"),
    ],
)
def test_reads_mail_in_declared_or_guessed_encoding(tmp_path: Path, said: str, encoding: str) -> None:
    words = "開門九点" if encoding == "gbk" else "Die “Größe”"
    head = (
        f"{HEAD}Content-Type: text/plain; charset={said}\nContent-Transfer-Encoding: base64\n\n"
        if said
        else f"{HEAD}\n"
    )
    data = words.encode(encoding)
    assert mail_body(tmp_path, head.encode() + (b64encode(data) if said else data)) == f"{words}\n"


def test_reads_all_texts_of_a_mail_and_attached_messages(tmp_path: Path) -> None:
    inner = f"{HEAD.replace('Gates', 'Keys')}Date: Fri, 01 Mar 2024 10:22:00 +0100\n\nUnder the mat."
    parts = [
        "Content-Type: text/plain\n\nSee the plan:", "Content-Type: application/pdf; name=plan.pdf\n\nx",
        "Content-Type: text/plain\n\nIt costs 400 pounds.",
        "Content-Type: text/plain\nContent-Disposition: attachment; filename=log.txt\n\nno",
        f"Content-Type: message/rfc822\n\n{inner}",
    ]  # fmt: skip
    mixed = "".join(f"--b\n{part}\n" for part in parts) + "--b--\n"
    assert mail_body(tmp_path, f"{HEAD}Content-Type: multipart/mixed; boundary=b\n\n{mixed}") == (
        "See the plan:\n\nIt costs 400 pounds.\n\nAttachments: plan.pdf, log.txt\n\n"
        "## Keys\n\nFrom: ann@example.org\nDate: 2024-03-01 10:22\n\nUnder the mat.\n"
    )
    digest = f"--b\n\n{inner}\n--b--\n"
    assert "## Keys" in mail_body(tmp_path, f"{HEAD}Content-Type: multipart/digest; boundary=b\n\n{digest}")


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable", "base64 of base64", "7bit"])
def test_reads_attached_messages_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    inner = "From: b@example.org\nSubject: The gates\nDate: soon\n\nThey are shut at nine = 21:00.\n"
    if encoding == "base64 of base64":
        inner = _wrapped(inner, "base64")
    (tmp_path / "a.eml").write_text(_wrapped(inner, encoding.split()[0]))
    document = read_one(tmp_path / "a.eml")
    assert "The gates\n\nFrom: b@example.org\nDate: soon\n\nThey are shut at nine = 21:00." in document.text
    assert document.date == ""


def _wrapped(inner: str, encoding: str) -> str:
    """Return a message that contains another one in a transfer encoding."""
    encoded = {
        "base64": encodebytes(inner.encode()).decode(),
        "quoted-printable": encodestring(inner.encode()).decode(),
    }
    return (
        "From: a@example.org\nSubject: Forwarded\nDate: INVALID\nMIME-Version: 1.0\n"
        'Content-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: text/plain\n\nSee below.\n--x\n'
        f"Content-Type: message/rfc822\nContent-Transfer-Encoding: {encoding}\n\n"
        f"{encoded.get(encoding, inner)}\n--x--\n"
    )


def test_reads_attached_file_of_a_message(tmp_path: Path) -> None:
    message = EmailMessage()
    message["From"] = "a@example.org"
    message["Subject"] = "Forwarded"
    message.set_content("See below.")
    inner = b"From: b@example.org\nSubject: The gates\n\nThey are shut.\n"
    message.add_attachment(inner, maintype="application", subtype="octet-stream", filename="gates.eml")
    (tmp_path / "a.eml").write_bytes(bytes(message))
    assert "## The gates\n\nFrom: b@example.org\n\nThey are shut." in read_one(tmp_path / "a.eml").text


def test_reads_html_part_that_is_much_longer_than_the_text(tmp_path: Path) -> None:
    page = "<p>The gates open at nine from Monday on, and the mill is shut until autumn.</p>" * 2
    text = read_one(write(tmp_path, {"a.eml": mail("x", "View this in a browser.", page=page)}) / "a.eml").text
    assert "until autumn" in text
    assert "browser" not in text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Open.\n____________________\nGates mailing list", "Open.\n____________________\nGates mailing list"),
        ("Open.\n____________________\nFrom: Bob\nShut.", "Open.\n\n## Quoted message\n\nFrom: Bob\nShut."),
        ("In general: On the whole it is good:\n> a", "In general: On the whole it is good:\n\n## Quoted message\n\na"),
        ("Open.\n-- \nAnn", "Open.\n\n-- \nAnn"),
    ],
)
def test_keeps_text_that_resembles_a_quotation_or_a_heading(tmp_path: Path, text: str, read: str) -> None:
    assert mail_body(tmp_path, f"{HEAD}\n{text}\n") == f"{read}\n"


def test_from_line_in_the_text_begins_no_message(tmp_path: Path) -> None:
    box = f"From a Fri Mar 1 10:00:00 2024\n{HEAD}\nOpen.\n\nFrom my side there is no more.\n"
    assert read_one(write(tmp_path, {"a.mbox": box}) / "a.mbox").text.endswith(
        "Open.\n\nFrom my side there is no more.\n"
    )


def test_continues_after_a_broken_message(tmp_path: Path) -> None:
    broken = "Content-Type: multipart/mixed; boundary*\n\nx\n\n"
    box = "".join(f"From a Fri Mar 1\n{HEAD}{more}\nOpen.\n\n" for more in ("", broken, ""))
    items = read_all(write(tmp_path, {"a.mbox": box}) / "a.mbox")
    assert [isinstance(item, Document) for item in items] == [True, False, True]
    assert "a.mbox#2: a broken message (IndexError" in str(items[1])


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "empty"), (b"just words\n", "not a mail"), (b"\x00\xff" * 50, "not a mail")]
)
def test_refuses_files_that_are_not_mail(tmp_path: Path, content: bytes, reason: str) -> None:
    assert reason in refused(write(tmp_path, {"a.eml": content}) / "a.eml")


def test_reads_broken_or_hostile_mail_as_far_as_possible(tmp_path: Path) -> None:
    deep = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(3000))
    files = {
        "charset.eml": b"Subject: x\nContent-Type: text/plain; charset=none\n\nThe gates\n",
        "base64.eml": b"Subject: y\nContent-Transfer-Encoding: base64\n\n!!!!not base64\n",
        "header.eml": b"Subject: =?utf-8?q?=ff?=\nDate: yesterday\nFrom: <<>>,\n\nThe gates\n",
        "deep.eml": b"Subject: z\n" + deep,
    }
    for name in write(tmp_path, dict(files)) and files:
        (item,) = read_all(tmp_path / name)
        assert isinstance(item, Document) or "nested too deeply" in item.what, name


# --- JSON lines ------------------------------------------------------------------------------------------------------


def test_reads_json_lines(tmp_path: Path) -> None:
    rows = jsonl(
        {"title": "Gates", "text": "# North\n\nIt is shut.", "date": "2024-03-01T10:00"},
        {"name": "Ann", "age": 40, "tags": ["a", "b"]},
        {"messages": [{"role": "user", "content": "Is it shut?"}, {"role": "assistant", "content": "Yes."}]},
        b"[1]",
        {"empty": ""},
        {"id": 7, "user": {"name": "Bob", "tags": ["a"]}, "keys": [{"of": "north"}, {"of": "south"}]},
        {"conversations": [{"from": "human", "value": "Shut?"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Shut?"}, {"type": "image", "url": "x"}]}]},
    )
    items = read_all(write(tmp_path, {"rows.jsonl": rows}) / "rows.jsonl")
    documents = [item for item in items if isinstance(item, Document)]
    assert [(item.id, item.title, item.date) for item in documents] == [
        ("rows.jsonl#1", "Gates", "2024-03-01"), ("rows.jsonl#2", "Ann", ""), ("rows.jsonl#3", "rows", ""),
        *[(f"rows.jsonl#{line}", "rows", "") for line in (6, 7, 8)],
    ]  # fmt: skip
    assert documents[0].path == "rows.jsonl"
    assert documents[1].text == "- name: Ann\n- age: 40\n- tags: a, b\n"
    assert documents[2].text == "user: Is it shut?\n\nassistant: Yes.\n"
    nested = "- id: 7\n- user.name: Bob\n- user.tags: a\n- keys.1.of: north\n- keys.2.of: south\n"
    assert [document.text for document in documents[3:]] == [nested, "human: Shut?\n", "user: Shut?\n"]
    assert [str(item) for item in items if isinstance(item, Problem)] == ["rows.jsonl:4: not a JSON object"]
    assert "are not JSON objects" in str(read_all(write(tmp_path, {"n.jsonl": b"1\n" * 50}) / "n.jsonl")[-1])
    # A single file without `_id` is not a BEIR corpus.
    assert ids(tmp_path / "rows.jsonl") == [f"rows.jsonl#{line}" for line in (1, 2, 3, 6, 7, 8)]


# --- source code -----------------------------------------------------------------------------------------------------

PYTHON = '''#!/usr/bin/env python
"""Opens the gates.

At dawn.
"""
import mill

# Wide enough for a boat.
@cached
def open_gate(name):
    """Open it."""
    return mill.gate(name)


class Wheel:
    def turn(self):
        return """
def not_this(): ...
"""
'''


def headings(document: Document) -> list[str]:
    return [text for kind, *_, text in told(document) if kind == "heading"]


def test_divides_python_at_definitions(tmp_path: Path) -> None:
    document = read_one(write(tmp_path, {"gates.py": PYTHON}) / "gates.py")
    assert document.title == "gates.py"
    assert headings(document) == ["## open_gate", "## Wheel"]
    assert document.text.startswith(
        "Opens the gates.\n\nAt dawn.\n\n```py\nimport mill\n```\n\n## open_gate\n\n```py\n# Wide"
    )
    assert headings(read_one(write(tmp_path, {"a.py": "print 'x'\ndef f(): pass\n"}) / "a.py")) == ["## f"]


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        (
            "a.js",
            "// Gates.\nconst x = 1\nexport async function open(a) {\n}\nexport const shut = (a) => {\n}\n"
            "class W {}\n",
            ["open", "shut", "W"],
        ),
        (
            "a.ts",
            "export interface Gate { a: 1 }\nexport type B = string\nexport default class Mill {}\n",
            ["Gate", "B", "Mill"],
        ),
        (
            "a.go",
            "package m\n\n// Open it.\nfunc (g *Gate) Open(a int) error {\n}\ntype Gate struct {\n}\n",
            ["Open", "Gate"],
        ),
        (
            "a.rs",
            "use x;\n#[derive(Debug)]\npub struct Gate {}\nimpl Gate {\n    fn a() {}\n}\n"
            "pub(crate) async fn open() {}\n",
            ["Gate", "impl Gate", "open"],
        ),
        ("A.java", "package m;\npublic class Gate {\n    public int open(int a) {\n    }\n}\n", ["Gate", "open"]),
        (
            "a.c",
            "#include <x.h>\nint shut(int a);\nstatic int open_it(int a,\n    int b)\n{\n    if (a) {\n"
            "    }\n}\nstruct gate {\n};\n",
            ["open_it", "gate"],
        ),
        (
            "a.cpp",
            "namespace m {\nclass Gate : Base {\n};\nvoid Gate::open(int a) {\n}\n}\n",
            ["m", "Gate", "Gate::open"],
        ),
        ("a.sh", "#!/bin/sh\n# Opens.\nopen_it() {\n  x\n}\nfunction shut {\n}\n", ["open_it", "shut"]),
        ("a.rb", "module M\n  class Gate\n  end\nend\n", ["M", "Gate"]),
        ("a.sql", "create table gates (a int);\nCREATE OR REPLACE VIEW w AS SELECT 1;\n", ["gates", "w"]),
        ("a.kt", "fun open(a: Int) {}\ndata class Gate(val a: Int)\n", ["open", "Gate"]),
    ],
)  # fmt: skip
def test_finds_definitions_of_other_languages(tmp_path: Path, name: str, text: str, names: list[str]) -> None:
    document = read_one(write(tmp_path, {name: text}) / name)
    assert [heading.lstrip("# ") for heading in headings(document)] == names
    for line in text.removeprefix("#!/bin/sh\n").split("\n"):
        assert line.strip(" /#!") in document.text, "no line is lost"


def test_code_without_definitions_is_one_block(tmp_path: Path) -> None:
    document = read_one(write(tmp_path, {"a.sh": "echo '```'\nls\n"}) / "a.sh")
    assert told(document) == [("code", 0, None, "````sh\necho '```'\nls\n````")]


def test_skips_scripts_of_web_sites_and_generated_code(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "site/index.html": "<p>x", "site/_static/search.js": "function f() {}", "tools/run.py": "def f(): pass",
            "tools/big.min.js": "function f() {}", "tools/long.js": "a" * 5000, "notes.md": "x",
        },
    )  # fmt: skip
    assert ids(tmp_path) == ["notes.md", "site/index.html", "tools/run.py"]
    assert ids(tmp_path, include=["*.js"]) == ["site/_static/search.js"]
    assert ids(tmp_path, exclude=["*.py"]) == ["notes.md", "site/index.html"]


# --- damaged files ---------------------------------------------------------------------------------------------------


def test_damaged_files_give_documents_or_problems(tmp_path: Path) -> None:
    """A few variants of each; `python -m tests.drills --only damaged` tries 200."""
    (tmp_path / "seeds").mkdir()
    for suffix, content in seeds(tmp_path / "seeds").items():
        for number in range(3):
            folder = tmp_path / f"{suffix[1:]}-{number}"
            folder.mkdir()
            survives(folder, suffix, damaged(content, number))


def test_reads_appointments_and_contacts(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "team.ics": "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;TZID=Europe/Berlin:20240503T100000\r\n"
            'SUMMARY:Budget\\, second\r\n  round\r\nORGANIZER;CN="Mira Holm":mailto:mira@firm.example\r\n'
            "BEGIN:VALARM\r\nDESCRIPTION:Alarm\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
            "eva.vcf": "BEGIN:VCARD\nFN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:Eva M=C3=BCller\n"
            "TEL;TYPE=WORK:+49 711 555\nADR:;;Main St 4;Ulm;;89073;\nEND:VCARD\n",
        },
    )
    contacts, appointments = read_source(tmp_path)
    assert isinstance(contacts, Document)
    assert isinstance(appointments, Document)
    assert contacts.text == "## Eva Müller\n\n- Phone: +49 711 555 (WORK)\n- Address: Main St 4, Ulm, 89073\n"
    assert appointments.text == (
        "## Budget, second round\n\n- Start: 2024-05-03 10:00 (Europe/Berlin)\n"
        "- Organizer: mira@firm.example (Mira Holm)\n"
    )


def test_reads_the_words_of_drawings(tmp_path: Path) -> None:
    drawing = '<svg xmlns="http://www.w3.org/2000/svg"><title>Plan</title><text>Main <tspan>gate</tspan></text></svg>'
    write(tmp_path, {"a.svg": drawing, "empty.svg": '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>'})
    [document] = read_source(tmp_path)
    assert isinstance(document, Document)
    assert (document.title, document.text) == ("Plan", "Plan\n\nMain gate\n")
    (tmp_path / "a.html").write_text(f"<p>See:</p>{drawing}")
    assert "Main gate" in read_one(tmp_path / "a.html").text
