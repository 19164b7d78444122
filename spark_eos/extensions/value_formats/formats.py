"""The formats Avro and JSON, as the kernel asks for them (`spark_eos.log.values.codec.ValueFormat`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from spark_eos.extensions.value_formats import registration, settings
from spark_eos.extensions.value_formats.settings import ValueSettings, value_settings
from spark_eos.log.values.codec import ValueCodec
from spark_eos.protocol.state import Topic


class _Formats:
    def check(self, topic: str, config: Mapping[str, str], *, typed: bool) -> None:
        settings.check(topic, config, typed=typed)

    def kept(self, topic: str, old: Mapping[str, str], new: dict[str, str]) -> dict[str, str]:
        return settings.kept_settings(topic, old, new)

    def registered(
        self, topic: str, stays: Mapping[str, str], given: Mapping[str, object]
    ) -> Mapping[str, object]:
        return registration.registered(topic, stays, given)

    def codec_of(self, topic: Topic, user_info: str | None, registry_url: str | None) -> ValueCodec:
        own = value_settings(topic.name, topic.config)
        assert own is not None, "the kernel asks for topics with a format"
        return codec_for(own._replace(user_info=user_info, registry_url=registry_url or own.registry_url))


FORMATS = _Formats()


@lru_cache(maxsize=64)
def codec_for(of_topic: ValueSettings) -> ValueCodec:
    """The codec of such settings."""
    if of_topic.payload == "avro":
        from spark_eos.extensions.value_formats.avro.codec import AvroCodec

        return AvroCodec(of_topic)
    from spark_eos.extensions.value_formats.json_codec import JsonCodec

    return JsonCodec(of_topic)
