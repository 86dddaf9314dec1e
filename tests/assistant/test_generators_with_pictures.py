"""Pictures in messages: how they are sent, which generators refuse them, and where their bytes must not be."""

from __future__ import annotations

import pytest

from tests.assistant.endpoint import opened
from tests.servers import Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.protocols import GeneratorError, PicturesRefused, PromptMessage, PromptPicture
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.assistant.llm.generators.response_cache import CachedGenerator, ResponseStore

RED = PromptPicture(content=b"\x89PNG red", media_type="image/png")
BLUE = PromptPicture(content=b"\x89PNG blue", media_type="image/png")


def ask_about(picture: PromptPicture) -> list[PromptMessage]:
    return [
        PromptMessage(role="system", content="Be brief."),
        PromptMessage(role="user", content="Which color?", pictures=(picture,)),
    ]


def test_sends_a_picture_as_a_data_uri_before_the_text():
    with ScriptedServer(Say("Red.")) as server:
        assert opened(server).complete(ask_about(RED)).text == "Red."
    [system, user] = server.bodies[0]["messages"]
    assert system["content"] == "Be brief."
    assert user["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORyByZWQ="}},
        {"type": "text", "text": "Which color?"},
    ]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "At most 0 image(s) may be provided in one request."),
        (400, "Qwen2.5-7B-Instruct is not a multimodal model None"),
        (400, "Invalid content type. image_url is only supported by certain models."),
        (400, "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`"),
        (422, "messages.1.content: Input should be a valid string"),
        (400, "'messages.1' : for 'role:user' the following must be satisfied: content must be a string"),
        (404, "No endpoints found that support image input"),
        (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
        (500, "Failed to create new sequence: this model is missing data required for image input"),
        (400, "Model does not support images. Please use a model that does."),
    ],
)
def test_endpoint_that_takes_no_pictures_is_asked_once_and_the_error_says_what_to_do(status, words):
    with ScriptedServer(Status(status, words)) as server:
        generator = opened(server)
        with pytest.raises(PicturesRefused, match=r"takes no pictures.*name a model that reads pictures"):
            generator.complete(ask_about(RED))
        with pytest.raises(PicturesRefused):
            generator.complete(ask_about(BLUE))
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "words",
    [
        "image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes",
        "Could not process image",
        "Unsupported image format, only PNG and JPEG are allowed",
        "Invalid base64 image_url.",
    ],
)
def test_objection_to_one_picture_does_not_mean_that_no_picture_is_taken(words):
    with ScriptedServer(Status(400, words), Say("Blue.")) as server:
        generator = opened(server)
        with pytest.raises(GeneratorError) as raised:
            generator.complete(ask_about(RED))
        assert not isinstance(raised.value, PicturesRefused)
        assert generator.complete(ask_about(BLUE)).text == "Blue."


def test_error_that_repeats_the_request_is_shown_without_the_picture():
    large = PromptPicture(content=b"\x89PNG" + bytes(range(256)) * 40, media_type="image/png")

    def echo(body):
        return Status(400, body={"error": {"message": f"Could not process image: {body['messages'][1]['content']}"}})

    with ScriptedServer(echo) as server, pytest.raises(GeneratorError) as raised:
        opened(server).complete(ask_about(large))
    assert "Could not process image" in str(raised.value)
    assert large.data_uri[22:60] not in str(raised.value)


def test_objection_to_a_message_without_pictures_is_no_refusal_of_pictures():
    with ScriptedServer(Status(400, "Model does not support images."), Say("Red.")) as server:
        generator = opened(server)
        with pytest.raises(GeneratorError):
            generator.complete([PromptMessage(role="user", content="Hello")])
        assert generator.complete(ask_about(RED)).text == "Red."


def test_generator_of_your_own_takes_no_pictures_unless_it_says_so(tmp_path, monkeypatch):
    (tmp_path / "mine_without_eyes.py").write_text(
        "class Mine:\n    name = 'mine'\n    context_tokens = 1000\n    reply_tokens = 100\n"
        "    def complete(self, messages, **options):\n        raise AssertionError('called')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PicturesRefused, match="mine takes no pictures"):
        open_generator("python:mine_without_eyes:Mine").complete(ask_about(RED))


def test_response_cache_tells_pictures_apart_and_stores_none(tmp_path):
    with ScriptedServer(Say("Red."), Say("Blue.")) as server:
        generator = CachedGenerator(opened(server), ResponseStore(tmp_path / "replies.db"))
        texts = [generator.complete(ask_about(picture)).text for picture in (RED, BLUE, RED, BLUE)]
        generator.store.close()
    assert texts == ["Red.", "Blue.", "Red.", "Blue."]
    assert len(server.seen) == 2
    assert not any(b"PNG" in path.read_bytes() or b"iVBORy" in path.read_bytes() for path in tmp_path.iterdir())


def test_neither_repr_nor_json_of_a_message_contains_the_picture():
    [_, message] = ask_about(RED)
    assert "PNG" not in repr(message)
    assert "PNG" not in message.model_dump_json()


def test_system_message_is_folded_into_a_message_with_a_picture():
    with ScriptedServer(Status(400, "System role not supported"), Say("Red.")) as server:
        assert opened(server).complete(ask_about(RED)).text == "Red."
    [message] = server.bodies[1]["messages"]
    assert [part["type"] for part in message["content"]] == ["text", "image_url", "text"]
