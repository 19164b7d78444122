---------------------------- MODULE CommitTrace ----------------------------
(* Recorded runs are behaviours of Commit: each next step is the one that was logged. A trace is a sequence of
   [k |-> kind, p |-> process, s |-> slot, r |-> requests, a, b |-> flags, o |-> processes, or a reported entry]. Many traces are checked in
   one run of TLC: each is an initial state. A trace that is no behaviour comes to no end. *)
EXTENDS Commit

(* The traces are value 1 of TLC: as a constant they would be made anew for each step. *)
Traces == TLCGet(1)
VARIABLES t, i
all == <<vars, t, i>>

Event == Traces[t][i]
Same == UNCHANGED vars
Bytes(p, e) == e.s = proc[p].draft.slot /\ e.r = Ids(proc[p].draft.reqs)

(* The caller's answer may have been decided in an earlier step. *)
Said(p, r, said) == proc[p].pc = "idle" /\ answer[r] = said /\ Same

(* Answers.rejected: the rules refuse the request, and yet its caller is not told "no". It has tried to withdraw it. *)
Undecided(p, tried) == tried \/ ~doubt[proc[p].cur].submitted

Logged(e) ==
  LET p == e.p
      r == CHOOSE one \in e.r : TRUE
  IN CASE e.k = "Begin" -> Begin(p) /\ proc'[p].cur = r
       [] e.k = "Read" -> e.s = proc[p].read + 1 /\ Read(p) /\ Ids(chain[e.s]) = e.r
       [] e.k = "Jump" -> Jump(p) /\ proc'[p].read = e.s
       [] e.k = "Look" -> e.s = proc[p].read + 1 /\ (Look(p) \/ (proc[p].read = End /\ Same))
       [] e.k = "Alone" -> e.s = proc[p].read + 1 /\ Alone(p)
       [] e.k = "Fill" -> e.s = proc[p].read + 1 /\ Fill(p)
       [] e.k = "Lead" -> e.s = proc[p].read + 1 /\ \E some \in SUBSET UNION {box[q] : q \in e.o} :
                          Cardinality(some) = Cardinality(e.o) /\ {one.req[1] : one \in some} = e.o /\ LeadWith(p, some)
       [] e.k = "Submit" -> e.s = proc[p].read + 1 /\ SubmitInto(p, e.b, IF e.a THEN Posted(p, Offer(p)) ELSE box[p]) /\ UNCHANGED faults
       [] e.k = "Lag" -> /\ \A n \in e.o : e.s = Named(p, n).slot /\ LagInto(p, n, e.b, IF e.a THEN {Named(p, n)} ELSE box[p])
                         /\ e.o # {} /\ UNCHANGED faults
       [] e.k = "Told" -> Told(p) /\ proc[p].cur = r
       [] e.k = "Reported" -> (\E one \in told : one.slot = e.s /\ e.r \subseteq one.reqs) /\ Same
       [] e.k = "StopWaiting" -> StopWaiting(p)
       [] e.k = "Settle" -> Settle(p)
       [] e.k = "Withdraw" -> Withdraw(p) /\ doubt' = (IF e.b THEN Back(p) ELSE doubt)
                              /\ box' = (IF e.a THEN Emptied(p) ELSE box)
       [] e.k = "Create" -> Create(p) /\ Bytes(p, e)
       [] e.k = "Twice" -> Taken(p) /\ Free(e.s) /\ Bytes(p, e) /\ chain' = Put(e.s, proc[p].draft.reqs)
       [] e.k = "Unheard" -> NoReply(p) /\ Bytes(p, e) /\ chain' = Put(e.s, proc[p].draft.reqs) /\ UNCHANGED wire
       [] e.k = "NoReply" -> NoReply(p) /\ Bytes(p, e) /\ wire' = wire \union {Message(p)}
       \* A second copy of a create that was answered lands on a deleted name at most, where it is no entry.
       [] e.k = "Land" -> \/ \E m \in wire : m.slot = e.s /\ Ids(m.reqs) = e.r /\ Free(m.slot) /\ Land(m)
                          \/ e.s <= gone /\ Same
       [] e.k = "Heard" -> e.s = proc[p].draft.slot /\ HeardOf(p, TRUE) /\ (proc'[p].pc = "idle" \/ proc[p].draft.own = {})
                           /\ proc'[p].read = e.s
       [] e.k = "Covered" -> HeardOf(p, FALSE) /\ proc'[p].pc = "ready" /\ proc'[p].base = e.s
       [] e.k = "Taken" -> Taken(p) /\ e.s = proc[p].draft.slot /\ UNCHANGED chain
       [] e.k = "SlotTaken" -> SlotTaken(p) /\ e.s = proc[p].draft.slot
       [] e.k = "yes" -> Said(p, r, "yes") \/ (Refuse(p) /\ answer'[r] = "yes") \/ Recognise(p)
       [] e.k = "refused" -> Refuse(p) /\ answer'[r] = "no"
       [] e.k = "failed" -> GiveUp(p) /\ answer'[r] = "no"
       [] e.k = "unknown" -> Said(p, r, "unknown")
       [] e.k = "GiveUp" -> GiveUp(p) /\ answer'[proc[p].cur] = "unknown" /\ (e.b => Undecided(p, e.a))
       [] e.k = "Crash" -> Crash(p)
       [] e.k = "Retire" -> IF e.s <= floor THEN Same ELSE Retire /\ floor' = e.s
       [] e.k = "Delete" -> IF e.s <= gone THEN Same ELSE Delete /\ gone' = e.s

(* The first thing in a trace is the reach of the channel. *)
TraceInit == Init /\ i = 2 /\ t \in 1 .. Len(Traces) /\ reach = Traces[t][1].s
TraceNext == i <= Len(Traces[t]) /\ i' = i + 1 /\ t' = t /\ reach' = reach /\ Logged(Event)
TraceSpec == TraceInit /\ [][TraceNext]_all

(* Told once of each trace that came to its end. *)
Ended == i > Len(Traces[t]) => PrintT(<<"ended", t>>)
=============================================================================
