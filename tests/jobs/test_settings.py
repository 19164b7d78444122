"""What the jobs are told: the command line before the file, and clear words for what is missing or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from settings import Setting, existing, positive, read_settings, require_topic, run, write

from spark_eos import Admin
from spark_eos.errors import CheckpointMismatchError, NotALogError, UnknownTopicOrPartitionError

OWN = (Setting("input", "the folder of files", existing), Setting("max_files", "files at a time", positive))
FILE = """
[DEFAULT]
log = here/log
checkpoints = here/checkpoints
partitions = 4
trigger = available-now
of_other_jobs = alone
[one]
transactional_id = the-one
input =
max_files = 3
[two]
transactional_id = the-other
secret = 1
"""


@pytest.fixture
def read(tmp_path):
    path = tmp_path / "jobs.ini"
    path.write_text(FILE)

    def read_one(job, *arguments):
        return read_settings(job, "A job.", OWN, ["--settings", str(path), *arguments])

    return read_one


def refusal(capsys, call, *arguments):
    with pytest.raises(SystemExit) as ended:
        call(*arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_the_command_line_goes_before_the_file(read, tmp_path):
    settings = read("one", "--input", str(tmp_path), "--max-files", "7")
    assert (settings.max_files, settings.partitions, settings.transactional_id) == (7, 4, "the-one")
    assert read("one", "--input", str(tmp_path)).max_files == 3


def test_folders_are_absolute_and_urls_stay(read, tmp_path):
    settings = read("one", "--input", str(tmp_path))
    assert settings.log == str(Path("here/log").absolute())
    assert settings.checkpoint == str(Path("here/checkpoints/one").absolute())
    assert read("one", "--input", "s3://bucket/files", "--log", "s3://bucket/log").log == "s3://bucket/log"


def test_what_is_missing_is_named(read, capsys):
    message = refusal(capsys, read, "one")
    assert "input is missing (the folder of files)" in message
    assert "--input" in message


def test_an_input_that_is_not_there_is_named(read, capsys, tmp_path):
    message = refusal(capsys, read, "one", "--input", str(tmp_path / "nothing"))
    assert f"there is no file or folder {tmp_path / 'nothing'}" in message


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_number_has_to_be_one(read, capsys, tmp_path, number):
    message = refusal(capsys, read, "one", "--input", str(tmp_path), f"--max-files={number}")
    assert "--max-files" in message
    assert number in message


def test_an_unknown_setting_in_the_file_is_named(read, capsys, tmp_path):
    assert "unknown setting 'secret'" in refusal(capsys, read, "two", "--input", str(tmp_path))


def test_a_file_that_is_not_there_is_named(capsys, tmp_path):
    arguments = ["--settings", str(tmp_path / "nothing.ini")]
    message = refusal(capsys, read_settings, "one", "A job.", OWN, arguments)
    assert f"there is no settings file {tmp_path / 'nothing.ini'}" in message


@pytest.mark.parametrize("job", ["ingest", "consume_transform_produce", "aggregate", "to_delta"])
def test_the_file_of_the_project_has_all_that_has_a_default(job, tmp_path):
    module = __import__(job)
    needed = {"input", "airlines"} & {setting.name for setting in module.SETTINGS}
    arguments = [part for name in needed for part in (f"--{name}", str(tmp_path))]
    assert read_settings(job, "A job.", module.SETTINGS, arguments).trigger == "available-now"


def test_a_topic_that_is_not_there_is_found_out_before_spark_starts(log_url):
    with pytest.raises(NotALogError):
        require_topic(log_url, "flights")
    with Admin(log_url) as admin:
        admin.create_topic("flights", partitions=1)
        require_topic(log_url, "flights")
        with pytest.raises(UnknownTopicOrPartitionError, match="flight"):
            require_topic(log_url, "flight")


@pytest.mark.parametrize("other", ["another-log", "no-log"])
def test_the_checkpoint_of_another_log_is_refused_before_anything_starts(read, tmp_path, other):
    """A job with nothing new to read would say "done", and write nothing."""
    Admin(str(tmp_path / "another-log")).create_topic("t", 1)
    checkpoint = tmp_path / "checkpoints" / "one"
    (checkpoint / "commits").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "some-query"}')
    (checkpoint / "commits" / "117").touch()
    log, folder = str(tmp_path / other), str(tmp_path / "checkpoints")
    settings = read("one", "--input", str(tmp_path), "--log", log, "--checkpoints", folder)
    with pytest.raises(CheckpointMismatchError, match="they went to another log"):
        write(None, settings, "t")


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("Python worker\nspark_eos.errors.A: because\nspark_eos.errors.B: why: so\nat line 1", "why: so"),
        ("\n[STREAM_FAILED] it ended\nat line 1", "[STREAM_FAILED] it ended"),
    ],
)
def test_the_last_line_of_a_job_is_the_error_that_counts(text, last):
    """Of several errors of the log the last one: the others are what it came of."""

    def job():
        raise PySparkException(text)

    with pytest.raises(SystemExit) as ended:
        run(job)
    assert ended.value.code == f"{text}\n\nerror: {last}"
