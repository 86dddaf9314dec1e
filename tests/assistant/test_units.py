"""The procedure that documents give: lists, bold openings, instructions in prose, several documents."""

from __future__ import annotations

import pytest
from turnmark.assistant.steps.answer import extract
from turnmark.assistant.steps.procedure import procedure_of
from turnmark.assistant.steps.units import units_of

from tests.assistant.notes import asked, hits
from turnmark.assistant.steps.understand import wants_procedure
from turnmark.assistant.steps.verify import procedure_valid
from turnmark.retrieval.embed import open_embedder

LISTED = "# Tea\n\n## What you need\n\n1. tea\n2. a pot\n\n## Steps\n\n1. Boil water.\n2. Pour it.\n3. Wait.\n"


def steps_of(evidence, message="How do I make tea?", embed=None):
    """The steps that the documents give for a question."""
    procedure = procedure_of((message, message), evidence, embed)
    return list(procedure.steps) if procedure else []


def test_items_under_a_heading_of_steps_are_the_steps():
    assert [unit.text for unit in steps_of(hits(LISTED))] == ["Boil water.", "Pour it.", "Wait."]


def test_headings_with_a_rule_under_them_are_headings():
    ruled = "Tea\n===\n\nIt is old.\n\nYou need\n---\n\n1. tea\n2. a pot\n\nSteps\n-----\n\n1. Boil water.\n2. Pour it."
    assert [unit.text for unit in steps_of(hits(ruled))] == ["Boil water.", "Pour it."]
    headings = [unit.heading for unit in units_of(hits(ruled))]
    assert headings == ["Tea", "You need", "You need", "Steps", "Steps"]


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("- Boil the water first.\n---\n\nThe tea is ready now.\n\n---\n\nIt is best drunk hot.",
         ["Boil the water first.", "The tea is ready now.", "It is best drunk hot."]),
        ("To begin, run the following command:\n\n```console\n$ hatch new demo\n```\n\nIt asks for a name then.",
         ["To begin, run the following command: `hatch new demo`", "It asks for a name then."]),
        ("| Segment | New version |\n| --- | --- |\n| `minor` | `1.1.0` |\n| `dev` | `1.0.0.dev0` |\n",
         ["minor — 1.1.0", "dev — 1.0.0.dev0"]),
        ("This is its entry.\n\n    iface enp7s0 inet6 auto\n      # Prefer random ones\n      privext 2\n      up 1\n",
         ["This is its entry."]),
        ("To see it, look at the picture:\n\n    ![](a.png)\n\nThe door is open.", ["The door is open."]),
        ("1. Fetch it with the command.\n\n    ```\n    get it now\n    ```\n",
         ["Fetch it with the command. `get it now`"]),
        ("> The harbour has\n> moved its channel.", ["The harbour has moved its channel."]),
        ("It is easy.\n\n**Example 10.1. Names of boats**\n\nOne is Auk.", ["It is easy.", "One is Auk."]),
        ("**CULTURE Names of the harbour**\n\nIt was called Nesvik.\n\n**Mind the tide.**",
         ["It was called Nesvik.", "Mind the tide."]),
    ],
)  # fmt: skip
def test_the_complete_units_of_a_text(text, units):
    assert [unit.text for unit in units_of(hits(text)) if unit.complete] == units


@pytest.mark.parametrize(
    "text",
    [
        "Step 1: Boil water.\nStep 2: Pour it over the leaves.\nStep 3: Wait five minutes.",
        "**Boil water.** A kettle will do.\n\n**Pour it.** Mind the steam.\n\n**Wait.** Five minutes are enough.",
        "Tea is easy. Boil water in a kettle. Then pour it over the leaves. Finally, wait for five minutes.",
        "## Zubereitung\n\n- Wasser kochen.\n- Aufgießen.\n- Fünf Minuten warten.",
    ],
)
def test_steps_are_found_however_they_are_written(text):
    steps = steps_of(hits(text))
    assert len(steps) == 3
    draft = extract(asked("How do I make tea?", steps=True), "How do I make tea?", hits(text), None)
    assert procedure_valid(draft.procedure)


@pytest.mark.parametrize(
    "text",
    [
        "Tea came in 1902. The island drinks a lot of it. Everybody likes the coffee.",
        "## Ingredients\n\n- flour\n- water\n- salt\n",
        "1. The only item.\n",
        "Kettles of the club:\n\n- red kettle\n- blue kettle\n- old pot\n",
        "## How to make it\n\n1. Minute\n2. Hour\n3. Day of the month\n",
        "1. tea-aarch64-unknown-linux.tar.gz\n2. tea-x86_64-apple-darwin.tar.gz\n",
        "- the value for the minute;\n- the value for the hour;\n- the person who must be asked.\n",
        "The folders that are looked at for tea:\n\n- the old tea of the north\n- the tea that is from the south\n",
        "",
    ],
)
def test_what_is_no_procedure_gives_none(text):
    assert steps_of(hits(text)) == []


def test_a_procedure_is_completed_from_another_document_and_it_says_so():
    first = "## Steps\n\n1. Gather seaweed on the beach.\n2. Let the rain wash the seaweed.\n"
    second = "## Steps\n\n1. Let the rain wash the seaweed.\n2. Spread a strip of turf.\n3. Set the potatoes.\n"
    message = "How do I grow potatoes?"
    draft = extract(asked(message, steps=True), message, hits(first, second, title="Beds"), None)
    assert [step.citations for step in draft.procedure] == [(1,), (1,), (2,), (2,)]
    assert "Steps 1 to 2 are of “Beds” [1] and steps 3 to 4 are of “Beds” [2]." in draft.text


@pytest.mark.parametrize(
    ("message", "asks"),
    [
        ("What needs to be done before winter?", True),
        ("In what order do I put the two to bed?", True),
        ("Tell me how I clean the tank.", True),
        ("How do we tell the harbour?", True),
        ("How do I tell if it is ripe?", False),
        ("What is the harbour?", False),
        ("How does the engine work?", False),
    ],
)
def test_what_asks_for_steps(message, asks):
    assert wants_procedure(message) is asks


LONG = (
    "# Handbook\n\n## Leave\n\n- Parental leave is twelve weeks.\n- Sick leave is ten days.\n\n"
    "## Orphaning a package\n\nFile a bug against wnpp to orphan a package. "
    "You should set its title to O: and the name. "
    "Then change the maintainer to the group. The archive is in Paris.\n"
)


def test_of_a_long_page_the_list_that_is_about_the_question_is_taken_and_no_other():
    embedder = open_embedder("minilm")
    steps = steps_of(hits(LONG), "How do I orphan a package?", lambda texts: embedder.encode(texts, "passage"))
    assert [step.text for step in steps] == [
        "File a bug against wnpp to orphan a package.", "You should set its title to O: and the name.",
        "Then change the maintainer to the group.",
    ]  # fmt: skip


def test_overlapping_passages_give_a_unit_once_and_the_longer_one():
    text = "The kettle is red and stands on the stove all day. It boils."
    evidence = hits(text[:30], text, documents=("d", "d"))
    evidence[1] = evidence[1].model_copy(
        update={"passage": evidence[1].passage.model_copy(update={"start": 0, "end": 9})}
    )
    assert next(unit.text for unit in units_of(evidence)) == "The kettle is red and stands on the stove all day."


def test_an_item_that_only_leads_on_to_the_next_ends_before_that():
    [first, second] = units_of(hits("* must say its licence, and\n* must be built from what it ships.\n"))
    assert (first.text, second.text) == ("must say its licence", "must be built from what it ships.")
