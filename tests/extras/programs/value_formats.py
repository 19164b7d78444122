"""A topic of JSON values refuses one that does not fit its schema."""

import json

from spark_eos import Admin, Producer, errors

SCHEMA = {"type": "object", "properties": {"price": {"type": "integer"}}, "required": ["price"]}
with Producer("log") as producer:
    config = {"value.format": "json", "value.schema": json.dumps(SCHEMA)}
    Admin("log").create_topic("orders", config=config)
    producer.send("orders", {"price": 3})
    producer.flush()
    try:
        producer.send("orders", {"price": "three"})
    except errors.EosLogError as error:
        assert "price" in str(error), error
    else:
        raise AssertionError("it was taken")
