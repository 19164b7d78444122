---------------------------- MODULE Publication ----------------------------
(* A topic that is published as a table: docs/design/0008-tables.md.
   One partition. Offsets 0 .. end-1 are in the log. A file is a pair <<from, to>> with
   the id of its writer's try, so that a file that is written again is another one.
   A publisher may stop at any step for as long as it likes, and go on. The table knows
   nothing of epochs: it has a compare-and-set on its own version, and nothing else. *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Publishers, MaxEnd, MaxFiles, MaxEpoch, MaxVersions

VARIABLES
  end,        \* the log's end: offsets below it are committed
  start,      \* the log's start: offsets below it are deleted
  refs,       \* files that the log's index refers to: sealed, in order, without gaps or overlaps
  next,       \* the number of the next file
  stored,     \* files that are in the store
  epoch,      \* of the publication
  begun,      \* the newest intent: [seq, start, end, files]
  done,       \* the newest version that is known to be in the table
  table,      \* versions of the table, oldest first: what is there for readers
  pub         \* what each publisher has in its memory
vars == <<end, start, refs, next, stored, epoch, begun, done, table, pub>>

Alike == Permutations(Publishers)

None == [seq |-> 0, start |-> 0, end |-> 0, files |-> {}]
Idle == [pc |-> "idle", epoch |-> 0, plan |-> None, read |-> 0]

File(from, to) == [from |-> from, to |-> to, id |-> next]
SealedTo == IF refs = {} THEN start ELSE CHOOSE n \in {f.to : f \in refs} : \A f \in refs : f.to <= n
Newest == table[Len(table)]
Covers(files, from, to) ==
  /\ \A n \in from .. to - 1 : Cardinality({f \in files : f.from <= n /\ n < f.to}) = 1
  /\ \A f \in files : from <= f.from /\ f.to <= to

Init ==
  /\ end = 0 /\ start = 0 /\ refs = {} /\ next = 1 /\ stored = {}
  /\ epoch = 0 /\ begun = None /\ done = None /\ table = <<None>>
  /\ pub = [p \in Publishers |-> Idle]

----------------------------------------------------------------------------
(* The log, without publishers. *)

AppendRows == /\ end < MaxEnd /\ end' = end + 1
          /\ UNCHANGED <<start, refs, next, stored, epoch, begun, done, table, pub>>

Retain == /\ start < SealedTo /\ start' = start + 1
          /\ refs' = {f \in refs : f.to > start'}
          /\ UNCHANGED <<end, next, stored, epoch, begun, done, table, pub>>

(* Maintenance and publishers seal alike: any run of files and of the fresh rows behind them
   becomes one file, without what is deleted. *)
Seal(from, to) ==
  LET old == {f \in refs : f.from < to /\ f.to > from}
      new == File(IF from < start THEN start ELSE from, to)
  IN /\ next <= MaxFiles
     /\ refs' = (refs \ old) \union {new}
     /\ stored' = stored \union {new}
     /\ next' = next + 1
     /\ UNCHANGED <<end, start, epoch, begun, done, table, pub>>

Starts == {f.from : f \in refs} \union {SealedTo}
Ends == {f.to : f \in refs} \union (SealedTo + 1 .. end)
Roll == \E from \in Starts, to \in Ends : from < to /\ start < to /\ Seal(from, to)

(* The delay before a deletion is for readers; what it rests on is the state alone. *)
Vacuum == \E f \in stored \ (refs \union begun.files \union done.files) :
            /\ stored' = stored \ {f}
            /\ UNCHANGED <<end, start, refs, next, epoch, begun, done, table, pub>>

----------------------------------------------------------------------------
(* A publisher. *)

Fence(p) == /\ epoch < MaxEpoch /\ epoch' = epoch + 1
            /\ pub' = [pub EXCEPT ![p] = [Idle EXCEPT !.pc = "ready", !.epoch = epoch + 1]]
            /\ UNCHANGED <<end, start, refs, next, stored, begun, done, table>>

(* An intent that is not known to be done is taken up before anything else. *)
TakeUp(p) == /\ pub[p].pc = "ready" /\ pub[p].epoch = epoch /\ begun.seq > done.seq
             /\ pub' = [pub EXCEPT ![p].pc = "begun", ![p].plan = begun]
             /\ UNCHANGED <<end, start, refs, next, stored, epoch, begun, done, table>>

Plan(p) == /\ pub[p].pc = "ready" /\ begun.seq = done.seq /\ done.seq < MaxVersions
           /\ Covers(refs, start, end) /\ done.end < end
           /\ pub' = [pub EXCEPT ![p].pc = "planned",
                                 ![p].plan = [seq |-> done.seq + 1, start |-> start, end |-> end, files |-> refs]]
           /\ UNCHANGED <<end, start, refs, next, stored, epoch, begun, done, table>>

(* Refused if the epoch is not the newest, or what is to be pinned is not there any more. *)
Begin(p) == /\ pub[p].pc = "planned"
            /\ IF pub[p].epoch = epoch /\ begun.seq = done.seq /\ pub[p].plan.seq = done.seq + 1
                  /\ pub[p].plan.files \subseteq refs
               THEN /\ begun' = pub[p].plan
                    /\ pub' = [pub EXCEPT ![p].pc = "begun"]
               ELSE /\ pub' = [pub EXCEPT ![p].pc = "ready"]
                    /\ UNCHANGED begun
            /\ UNCHANGED <<end, start, refs, next, stored, epoch, done, table>>

Versions == Len(table)
Open(p) == /\ pub[p].pc = "begun"
           /\ pub' = [pub EXCEPT ![p].pc = IF Newest.seq < pub[p].plan.seq THEN "opened" ELSE "written",
                                 ![p].read = Versions]
           /\ UNCHANGED <<end, start, refs, next, stored, epoch, begun, done, table>>

Commit(p) == /\ pub[p].pc = "opened"
             /\ IF pub[p].read = Versions
                THEN /\ table' = table \o <<pub[p].plan>>
                     /\ pub' = [pub EXCEPT ![p].pc = "written"]
                ELSE /\ pub' = [pub EXCEPT ![p].pc = "begun"]
                     /\ UNCHANGED table
             /\ UNCHANGED <<end, start, refs, next, stored, epoch, begun, done>>

End(p) == /\ pub[p].pc = "written"
          /\ IF pub[p].epoch = epoch /\ begun.seq = pub[p].plan.seq
             THEN done' = begun
             ELSE UNCHANGED done
          /\ pub' = [pub EXCEPT ![p].pc = "ready"]
          /\ UNCHANGED <<end, start, refs, next, stored, epoch, begun, table>>

Crash(p) == /\ pub[p].pc # "idle" /\ pub' = [pub EXCEPT ![p] = Idle]
            /\ UNCHANGED <<end, start, refs, next, stored, epoch, begun, done, table>>

(* What the zombie finds out: nothing, until the log refuses it. *)
Next == AppendRows \/ Retain \/ Roll \/ Vacuum
        \/ \E p \in Publishers : Fence(p) \/ TakeUp(p) \/ Plan(p) \/ Begin(p) \/ Open(p) \/ Commit(p) \/ End(p)
                                 \/ Crash(p)

Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
(* What must hold. *)

TypeOK == /\ start <= end /\ SealedTo <= end
          /\ \A n \in start .. SealedTo - 1 : Cardinality({f \in refs : f.from <= n /\ n < f.to}) = 1

(* The newest version has each row of its range once, and no other row. *)
Exact == Newest.seq > 0 => Covers(Newest.files, Newest.start, Newest.end)

(* Its files are in the store as long as it is the newest. *)
Kept == Newest.files \subseteq stored

(* Sequences rise by one, entries do not fall. *)
Once == \A n \in 1 .. Versions - 1 : table[n + 1].seq = table[n].seq + 1 /\ table[n + 1].end >= table[n].end

(* The table is what the log says, or one intent ahead of what it says. *)
Known == Newest \in {done, begun}
=============================================================================
