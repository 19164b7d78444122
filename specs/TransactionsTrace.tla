------------------------- MODULE TransactionsTrace -------------------------
(* Recorded requests are behaviours of Transactions: each next step is the request that was logged. A trace is a
   sequence of [k |-> kind, x |-> transactional id or group, p, e, n |-> producer id, epoch and number of the transaction,
   w |-> partitions, c |-> flag, ok |-> accepted; and what the code says then: l |-> the LSO of each partition, v |-> how
   many records are seen in it, g |-> which transaction gave each group its position]. *)
EXTENDS Transactions

(* The traces are value 1 of TLC: as a constant they would be made anew for each step. *)
Traces == TLCGet(1)
VARIABLES t, i
all == <<vars, t, i>>

Event == Traces[t][i]
Asks(e) ==
  CASE e.k = "Take" -> Take(e.x, e.p, e.e, e.c)
    [] e.k = "Write" -> e.p \in Pids /\ Write(e.p, e.e, e.n, e.w)
    [] e.k = "Offset" -> e.p \in Pids /\ Offset(e.p, e.e, e.n, e.x)
    [] e.k = "Prepare" -> e.p \in Pids /\ Prepare(e.p, e.e, e.n)
    [] e.k = "End" -> e.p \in Pids /\ End(e.p, e.e, e.n, e.c)
    [] e.k = "Expire" -> e.p \in Pids /\ Expire(e.p, e.e, e.n)
    [] e.k = "Forget" -> Forget(e.x)
    [] e.k = "Alone" -> \E d \in e.w : Alone(d)
    [] e.k = "OffsetAlone" -> OffsetAlone(e.x)
    (* A batch that was sent again, and that the rules recognised. *)
    [] e.k = "Again" -> /\ AtEpoch(e.p, e.e) /\ GoesOn(e.p, e.n) /\ \A d \in e.w : Of(d, e.p, e.n) # {}
                        /\ UNCHANGED vars

Last(s) == IF s = <<>> THEN <<>> ELSE s[Len(s)][1]
Positions == [g \in Groups |-> Last(offsets[g])]
Shown(e) == /\ [d \in Parts |-> Lso(d)]' = e.l
            /\ [d \in Parts |-> Cardinality(Seen(d))]' = e.v
            /\ \A g \in Groups : Positions'[g] = e.g[g]

TraceInit == Init /\ i = 1 /\ t \in 1 .. Len(Traces)
TraceNext == /\ i <= Len(Traces[t]) /\ i' = i + 1 /\ t' = t
             /\ IF Event.ok THEN Asks(Event) ELSE ~(ENABLED Asks(Event)) /\ UNCHANGED vars
             /\ Shown(Event)
TraceSpec == TraceInit /\ [][TraceNext]_all

(* Told once of each trace that came to its end. *)
Ended == i > Len(Traces[t]) => PrintT(<<"ended", t>>)
=============================================================================
