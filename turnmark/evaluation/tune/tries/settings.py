"""Settings of the assistant to try, as `--try KEY=VALUE` names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnmark.assistant.config import AssistantConfig
from turnmark.core.errors import ErrorCollector, unknown_name
from turnmark.core.flags import flags_of

TRIED_FIELDS = ("generator", "retriever", "top_k", "tokens", "quote_words", "sure_from", "prompts", "steps")
"""Fields of the configuration that can be tried. The model is chosen first, since the others depend on it."""


@dataclass(frozen=True)
class TriedSetting:
    """One value of a field of the configuration, which is one form for `steps`."""

    field: str
    value: Any

    def applied_to(self, config: AssistantConfig) -> AssistantConfig:
        """Return a configuration with this setting; the forms of other steps stay."""
        value = self.value
        if self.field == "steps":
            step = value[0].partition("=")[0]
            value = (*(each for each in config.steps if each.partition("=")[0] != step), *value)
        return config.model_copy(update={self.field: value})


def read_tries(texts: Sequence[str], errors: ErrorCollector) -> list[TriedSetting]:
    """Read the values of `--try`, those of one field next to each other and in the order of `TRIED_FIELDS`."""
    by_key = {flags_of(AssistantConfig)[field].key.replace("-", "_"): field for field in TRIED_FIELDS}
    found: dict[str, list[TriedSetting]] = {field: [] for field in TRIED_FIELDS}
    for text in texts:
        key, _, value = text.partition("=")
        field = by_key.get(key.strip().replace("-", "_"))
        if not value.strip():
            errors.add(f"--try {text}: expected KEY=VALUE, e.g. top_k=10")
        elif field is None:
            errors.add(f"--try {text}: {unknown_name('setting', key.strip(), list(by_key))}")
        else:
            given: Any = (value.strip(),) if field == "steps" else value.strip()
            mistakes = ErrorCollector()
            config = AssistantConfig.build({field: given}, mistakes)
            errors.problems += [f"--try {mistake}" for mistake in mistakes.problems]
            setting: Any = getattr(config, field)
            found[field].append(TriedSetting(field, setting.absolute() if isinstance(setting, Path) else setting))
    return [setting for settings in found.values() for setting in dict.fromkeys(settings)]


def changed_settings(config: AssistantConfig, base: AssistantConfig) -> dict[str, Any]:
    """Return the fields of a configuration that differ from another one, as JSON."""
    values = config.model_dump(mode="json", include=set(TRIED_FIELDS))
    return {name: value for name, value in values.items() if getattr(config, name) != getattr(base, name)}
