---------------------------- MODULE Transactions ----------------------------
(* Producers and their transactions: docs/design/0001-protocol.md, 0011-prepared-transactions.md.
   Read it beside spark_eos/protocol/actions: each action names the rule that it stands for. The log orders requests
   (Commit.tla); here each action is one that was accepted, in the log's order. A request may have been sent at any time
   by any process that slept: so its epoch and its number are any. What the rules refuse changes nothing. *)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS Names,   \* transactional ids
          Parts,   \* partitions
          Groups   \* consumer groups: each has one position

VARIABLES
  named,      \* the producer id of each transactional id, 0 if it has none
  prod,       \* the producers, by producer id: 1, 2, ...
  part,       \* the records of each partition, and its control batches
  opened,     \* of each partition: <<producer id, first offset>> of the transactions that are open in it
  aborted,    \* of each partition: <<producer id, number>> of its aborted transactions
  offsets,    \* the positions that each group has had: <<producer id, number>> of its transaction, and its turn
  asked,      \* what was seen, for the promises: commits that were asked for,
  ended,      \* how transactions ended,
  carried,    \* which groups' positions a transaction had,
  tokens,     \* <<producer id, epoch>> and number of what was prepared,
  book        \* and what another system, a database, has committed: tokens
vars == <<named, prod, part, opened, aborted, offsets, asked, ended, carried, tokens, book>>
ghosts == <<asked, carried, tokens, book>>

Pids == 1 .. Len(prod)
None == [g \in Groups |-> 0]   \* no position is held
New(name, epoch) == [name |-> name, epoch |-> epoch, num |-> -1, st |-> "Empty", wrote |-> {}, held |-> None, token |-> -1]
Open(p) == prod[p].st \in {"Ongoing", "Prepared"}
Plain == [k |-> "data", p |-> 0, e |-> 0, n |-> 0]   \* a record of no transaction

Init ==
  /\ named = [x \in Names |-> 0] /\ prod = <<>>
  /\ part = [d \in Parts |-> <<>>] /\ opened = [d \in Parts |-> {}] /\ aborted = [d \in Parts |-> {}]
  /\ offsets = [g \in Groups |-> <<>>]
  /\ asked = {} /\ ended = {} /\ carried = {} /\ tokens = {} /\ book = {}

----------------------------------------------------------------------------
(* The end of a transaction: producers.complete. Control batches, positions and the LSO, all at once. Commits of positions
   take turns (CommittedOffset.number), and a later one stands: producers.with_offsets. *)

Stands(g) == IF offsets[g] = <<>> THEN 0 ELSE offsets[g][Len(offsets[g])][2]
Turns(g) == {Stands(g)} \union {prod[p].held[g] : p \in Pids}
Turn(g) == 1 + CHOOSE t \in Turns(g) : \A other \in Turns(g) : other <= t

Complete(p, me, commit) ==
  LET marker == [k |-> IF commit THEN "commit" ELSE "abort", p |-> p, e |-> me.epoch, n |-> me.num]
      There(d) == \E o \in opened[d] : o[1] = p
  IN /\ part' = [d \in Parts |-> IF d \in me.wrote THEN Append(part[d], marker) ELSE part[d]]
     /\ opened' = [d \in Parts |-> IF d \in me.wrote THEN {o \in opened[d] : o[1] # p} ELSE opened[d]]
     /\ aborted' = [d \in Parts |-> IF d \in me.wrote /\ ~commit /\ There(d) THEN aborted[d] \union {<<p, me.num>>}
                                    ELSE aborted[d]]
     /\ offsets' = [g \in Groups |-> IF commit /\ me.held[g] > Stands(g)
                                     THEN Append(offsets[g], <<<<p, me.num>>, me.held[g]>>) ELSE offsets[g]]
     /\ ended' = ended \union {[p |-> p, n |-> me.num, commit |-> commit, token |-> me.token, held |-> me.held]}
After(me, commit) == [me EXCEPT !.st = IF commit THEN "Committed" ELSE "Aborted", !.wrote = {}, !.held = None, !.token = -1]
Same == UNCHANGED <<part, opened, aborted, offsets, ended>>

----------------------------------------------------------------------------
(* Producer ids and epochs. *)

Take(x, p, e, keep) ==   \* producers.init: the next epoch of a transactional id; what the epoch before left open is aborted
  IF named[x] = 0
  THEN /\ p = Len(prod) + 1 /\ e = 0
       /\ prod' = Append(prod, New(x, 0)) /\ named' = [named EXCEPT ![x] = Len(prod) + 1]
       /\ Same /\ UNCHANGED ghosts
  ELSE LET me == prod[named[x]]
           kept == keep /\ me.st = "Prepared"
       IN /\ p = named[x] /\ e = me.epoch + 1
          /\ IF Open(p) /\ ~kept THEN Complete(p, me, FALSE) ELSE Same
          /\ prod' = [prod EXCEPT ![p] = [(IF Open(p) /\ ~kept THEN After(me, FALSE) ELSE me) EXCEPT !.epoch = e]]
          /\ UNCHANGED <<named, ghosts>>

Forget(x) ==   \* expiry.expire_transactional_ids; its producer id never comes back
  /\ named[x] # 0 => ~Open(named[x])
  /\ named' = [named EXCEPT ![x] = 0]
  /\ prod' = [p \in Pids |-> IF p = named[x] THEN [prod[p] EXCEPT !.name = ""] ELSE prod[p]]
  /\ Same /\ UNCHANGED ghosts

Expire(p, e, n) ==   \* expiry.expire_transaction: its producer is fenced, and it is aborted
  LET me == prod[p]
  IN /\ me.name # "" /\ e = me.epoch /\ n = me.num
     /\ me.st = "Ongoing"
     /\ Complete(p, [me EXCEPT !.epoch = @ + 1], FALSE)
     /\ prod' = [prod EXCEPT ![p] = After([me EXCEPT !.epoch = @ + 1], FALSE)]
     /\ UNCHANGED <<named, ghosts>>

----------------------------------------------------------------------------
(* Inside a transaction. It begins with the first request that names it: producers.require_transaction. *)

AtEpoch(p, e) == prod[p].name # "" /\ e = prod[p].epoch
GoesOn(p, n) == prod[p].st = "Ongoing" /\ n = prod[p].num
Begins(p, n) == ~Open(p) /\ n = prod[p].num + 1
Goes(p, e, n) == AtEpoch(p, e) /\ (GoesOn(p, n) \/ Begins(p, n))
With(p, n) == [prod[p] EXCEPT !.num = n, !.st = "Ongoing"]

Write(p, e, n, where) ==   \* appends.append: one batch for each of the partitions
  /\ Goes(p, e, n)
  /\ prod' = [prod EXCEPT ![p] = [With(p, n) EXCEPT !.wrote = @ \union where]]
  /\ part' = [d \in Parts |-> IF d \in where THEN Append(part[d], [k |-> "data", p |-> p, e |-> e, n |-> n]) ELSE part[d]]
  /\ opened' = [d \in Parts |-> IF d \in where /\ \A o \in opened[d] : o[1] # p
                                THEN opened[d] \union {<<p, Len(part[d]) + 1>>} ELSE opened[d]]
  /\ UNCHANGED <<named, aborted, offsets, ended, ghosts>>

Offset(p, e, n, g) ==   \* offsets.commit, with a producer: the position waits for the transaction's end
  /\ Goes(p, e, n)
  /\ prod' = [prod EXCEPT ![p] = [With(p, n) EXCEPT !.held[g] = Turn(g)]]
  /\ carried' = carried \union {<<p, n, g>>}
  /\ Same /\ UNCHANGED <<named, asked, tokens, book>>

Prepare(p, e, n) ==   \* prepare.prepare: the epoch rises, and with the producer id it is the token
  /\ Goes(p, e, n)
  /\ prod' = [prod EXCEPT ![p] = [With(p, n) EXCEPT !.st = "Prepared", !.epoch = e + 1, !.token = e + 1]]
  /\ tokens' = tokens \union {<<<<p, prod'[p].token>>, n>>}
  /\ Same /\ UNCHANGED <<named, asked, carried, book>>

End(p, e, n, commit) ==   \* producers.end_transaction; the same decision again is success
  /\ AtEpoch(p, e)
  /\ asked' = IF commit THEN asked \union {<<p, n>>} ELSE asked
  /\ IF n = prod[p].num /\ ~Open(p)
     THEN prod[p].st = (IF commit THEN "Committed" ELSE "Aborted") /\ Same /\ UNCHANGED prod
     ELSE LET prepared == prod[p].st = "Prepared" /\ n = prod[p].num
              me == IF prepared THEN prod[p] ELSE With(p, n)
          IN /\ prepared \/ Goes(p, e, n)
             /\ Complete(p, me, commit)
             /\ prod' = [prod EXCEPT ![p] = After(me, commit)]
  /\ UNCHANGED <<named, carried, tokens, book>>

Alone(d) ==   \* appends.append, without a transaction
  /\ part' = [part EXCEPT ![d] = Append(@, Plain)]
  /\ UNCHANGED <<named, prod, opened, aborted, offsets, ended, ghosts>>
OffsetAlone(g) ==   \* offsets.commit, without a transaction
  /\ offsets' = [offsets EXCEPT ![g] = Append(@, <<<<0, 0>>, Turn(g)>>)]
  /\ UNCHANGED <<named, prod, part, opened, aborted, ended, ghosts>>

----------------------------------------------------------------------------
(* Readers. *)

(* Partition.last_stable_offset *)
Lso(d) == IF opened[d] = {} THEN Len(part[d]) + 1
          ELSE CHOOSE o \in {one[2] : one \in opened[d]} : \A other \in opened[d] : o <= other[2]
(* planner.plan with read_committed *)
Seen(d) == {o \in 1 .. Lso(d) - 1 : part[d][o].k = "data" /\ <<part[d][o].p, part[d][o].n>> \notin aborted[d]}

----------------------------------------------------------------------------
(* What must hold. *)

How(p, n) == {one.commit : one \in {o \in ended : o.p = p /\ o.n = n}}
Of(d, p, n) == {o \in 1 .. Len(part[d]) : part[d][o].k = "data" /\ part[d][o].p = p /\ part[d][o].n = n}
Given(g) == {offsets[g][i][1] : i \in 1 .. Len(offsets[g])}

(* A read_committed reader sees no record of a transaction that is open or aborted. *)
Clean == \A d \in Parts : \A o \in Seen(d) : part[d][o].p = 0 \/ How(part[d][o].p, part[d][o].n) = {TRUE}
(* The LSO does not pass an open transaction; a record is seen or not for ever. *)
Stops == \A d \in Parts, p \in Pids : Open(p) => \A o \in Of(d, p, prod[p].num) : Lso(d) <= o
(* It does not stop for anything else. *)
Free == \A d \in Parts : (\A p \in Pids : Open(p) => d \notin prod[p].wrote) => Lso(d) = Len(part[d]) + 1
(* All of a transaction takes effect, in each partition and group, or nothing; but a later position stands. *)
Whole == \A one \in ended :
  /\ \A d \in Parts : \A o \in Of(d, one.p, one.n) : o < Lso(d) => (o \in Seen(d)) = one.commit
  /\ \A g \in Groups : <<one.p, one.n, g>> \in carried => \/ (<<one.p, one.n>> \in Given(g)) = one.commit
                                                          \/ one.commit /\ one.held[g] \in 1 .. Stands(g) - 1
(* No group goes back to a position whose turn was earlier. *)
Forward == \A g \in Groups : \A i \in 2 .. Len(offsets[g]) : offsets[g][i - 1][2] < offsets[g][i][2]
(* Positions of a transaction that has not ended are not seen. *)
Waits == \A g \in Groups : \A one \in Given(g) : one[1] = 0 \/ How(one[1], one[2]) = {TRUE}
(* One that is open has a producer, which can end it. *)
Owned == \A p \in Pids : Open(p) => prod[p].name # ""
(* It ends once, and is committed only if that was asked for. *)
Once == \A one, two \in ended : one.p = two.p /\ one.n = two.n => one = two
Asked == \A one \in ended : one.commit => <<one.p, one.n>> \in asked
(* A token is that of one transaction; what the database has committed is committed. *)
Token == \A one, two \in tokens : one[1] = two[1] => one = two
Agreed == \A one \in ended : one.token # -1 => (<<one.p, one.token>> \in book) = one.commit
(* What a fenced epoch sends is not written. Nothing that was written changes, and readers never go back. *)
Step ==
  /\ \A d \in Parts : \A o \in Len(part[d]) + 1 .. Len(part'[d]) :
       LET r == part'[d][o] IN r.p # 0 => r.e = prod'[r.p].epoch \/ r.k # "data"
  /\ \A p \in Pids : prod'[p].epoch >= prod[p].epoch /\ prod'[p].num >= prod[p].num
  /\ \A d \in Parts : SubSeq(part'[d], 1, Len(part[d])) = part[d]   \* no record changes
  /\ \A d \in Parts : Seen(d) \subseteq Seen(d)' /\ Lso(d) <= Lso(d)'
Fenced == [][Step]_vars
=============================================================================
