"""Breaks of logs whose chain and data are in two stores."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_PLACE, _STORES = "spark_eos/log/data_place.py", "spark_eos/storage/two_stores.py"
_LOG = ("tests/log/test_two_stores.py",)
_CONTRACT = ("tests/storage/test_two_stores.py",)
_MOVER = "spark_eos/maintenance/moving/mover.py"
_MOVES = ("tests/maintenance/test_moving.py", "tests/maintenance/test_moving_crashes.py", "-k", "not killed")
_RULES = ("tests/protocol/test_place_data.py",)

MUTANTS = (
    Mutant(
        "place-without-a-floor",
        "spark_eos/protocol/actions/data_place.py",
        "            staging_floor=max(state.staging_floor, entry + 1),\n",
        "",
        "an entry refers to a file that lies where no reader looks",
        _RULES,
    ),
    Mutant(
        "vacuum-beside-another-log",
        "spark_eos/maintenance/vacuum.py",
        "            check_claim(self._log.store, state.data_url, self._log.log_id)\n",
        "",
        "a copy of the chain deletes data files of the original",
        _LOG,
    ),
    Mutant(
        "writes-beside-another-log",
        "spark_eos/log/handle/writing.py",
        "            check_claim(self.store, place, self.log_id)\n",
        "            pass\n",
        "two logs have their data files in one place",
        _LOG,
    ),
    Mutant(
        "mark-of-any-chain",
        _STORES,
        '    return json.dumps({"log_id": log_id, "chain": store.url}, sort_keys=True).encode()\n',
        '    return json.dumps({"log_id": log_id}, sort_keys=True).encode()\n',
        "a copy of the chain, which has the same log id, counts as the log",
        _LOG,
    ),
    Mutant(
        "place-of-another-log",
        _PLACE,
        "    if _is_taken(place):\n",
        "    if False:\n",
        "a log is created that can never be written to",
        _LOG,
    ),
    Mutant(
        "place-in-the-log",
        _PLACE,
        "    return inner.startswith(outer) or outer.startswith(inner)\n",
        "    return inner == outer\n",
        "data files lie among those of the chain, or a backup among the data files",
        _LOG,
    ),
    Mutant(
        "another-place-is-ignored",
        _PLACE,
        "    if data_url != state.data_url:\n",
        "    if False:\n",
        "data.url has no effect on a log that is there, without a word",
        _LOG,
    ),
    Mutant(
        "copy-names-the-old-place",
        "spark_eos/maintenance/copying.py",
        "    plan += placing_entry(fixed.state, place, clock)\n",
        "",
        "a copy refers to the data files of the original",
        _LOG,
    ),
    Mutant(
        "copy-of-any-place",
        "spark_eos/maintenance/copying.py",
        '    taken |= {"data": place} if place else {}\n',
        "",
        "a copy goes on that has half of its data elsewhere",
        _LOG,
    ),
    Mutant(
        "files-of-the-chains-store",
        _STORES,
        "        of_chain = (info for info in self.chain.list(prefix) if not _is_not_the_chains(info.name))\n",
        "        of_chain = self.chain.list(prefix)\n",
        "what lies in the chain's store under the name of a data file counts as one",
        _CONTRACT,
    ),
    Mutant(
        "unordered-listing-goes-on-behind",
        "spark_eos/storage/objects/store.py",
        "        paths: set[str] | None = None if self._location.lists_in_order else set()\n",
        "        paths: set[str] | None = None\n",
        "an interrupted list of a directory bucket leaves names out",
        _CONTRACT,
    ),
    Mutant(
        "verify-keeps-the-place-it-began-with",
        "spark_eos/maintenance/verify/data.py",
        "            if store is not self._store:  # The data was moved since.\n",
        "            if False:\n",
        "verify calls a sound log damaged whose data was moved meanwhile",
        ("tests/maintenance/test_moving.py",),
    ),
    Mutant(
        "mark-without-an-answer",
        _STORES,
        "        except (ObjectExistsError, OutcomeUnknownError) as error:\n",
        "        except ObjectExistsError as error:\n",
        "a lost reply to the create of the mark is an error that names no remedy",
        _CONTRACT,
    ),
    # -- data that is moved ------------------------------------------------------------------------------
    Mutant(
        "copied-before-the-floor",
        "spark_eos/protocol/actions/data_place.py",
        "    if state.staging_floor <= action.placed_at:\n",
        "    if False:\n",
        "a file at the old place can be committed after all were copied",
        ("tests/protocol/test_data_place.py",),
    ),
    Mutant(
        "moved-without-closing-the-old-place",
        _MOVER,
        "            self._close_old_place(at)\n",
        "",
        "the mover does not keep writers from committing at the old place",
        _MOVES,
    ),
    Mutant(
        "moved-without-a-second-look",
        _MOVER,
        "            self._close_old_place(at)\n            self._copy(at)\n",
        "            self._close_old_place(at)\n",
        "what was committed while files were copied is lost",
        _MOVES,
    ),
    Mutant(
        "moved-names-tell-nothing",
        _STORES,
        "        if self.before is None or self._earlier is None or not self._is_earlier(name):\n",
        "        if True:\n",
        "files that are not copied yet are looked for at the new place alone",
        _MOVES,
    ),
    Mutant(
        "place-is-used-again",
        _MOVER,
        "            self._check_not_left(target)\n",
        "",
        "a mover that slept deletes files that are in use",
        _MOVES,
    ),
    Mutant(
        "moved-without-waiting-for-writers",
        _MOVER,
        'committed what they staged at the old place", self._min_age_s, since_s)\n',
        'committed what they staged at the old place", 0, since_s)\n',
        "writers have no time to commit what they have staged",
        _MOVES,
    ),
    Mutant(
        "shared-tables-are-moved",
        "spark_eos/protocol/actions/data_place.py",
        "    if shared:\n",
        "    if False:\n",
        "tables that other programs read lose their files",
        _MOVES,
    ),
    Mutant(
        "two-moves-at-once",
        "spark_eos/protocol/actions/data_place.py",
        "    if state.data_before is not None:\n        raise",
        "    if False:\n        raise",
        "the place of the first move is forgotten with its files",
        ("tests/protocol/test_data_place.py",),
    ),
)
