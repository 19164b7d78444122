----------------------------- MODULE RunsTrace -----------------------------
(* Recorded steps are behaviours of Runs: each next step is the one that was logged. A trace is a sequence of
   [k |-> kind, x |-> name, n |-> number, w |-> micro-batch, f |-> file, ok |-> what the code said; and what the log is
   like then: z |-> its size and floor, r |-> the current run of each transactional id, b |-> its last batch, p |-> the
   positions, u |-> the files that are referred to, s |-> how many are stored]. *)
EXTENDS Runs, TLC

(* The traces are value 1 of TLC: as a constant they would be made anew for each step. *)
Traces == TLCGet(1)
VARIABLES t, i, held   \* held: the requests that were made, in order
all == <<vars, t, i, held>>

Event == Traces[t][i]
Told(refused) == Event.ok = refused /\ UNCHANGED vars
Proposes(w, finished) ==
  IF Refusal(w, finished) # "none" THEN Told(Refusal(w, finished)) /\ UNCHANGED held
  ELSE IF Nothing(Request(w)) THEN Told("nothing") /\ UNCHANGED held
  ELSE Event.ok = "asked" /\ Propose(w, finished) /\ held' = Append(held, Request(w))
Lands(req) == IF Verdict(req) # "yes" THEN Event.ok = Verdict(req) /\ (IF req \in sent THEN Fails(req) ELSE UNCHANGED vars)
              ELSE Event.ok = "yes" /\ Land(req)
Logged(e) ==
  IF e.k = "Propose" THEN Proposes(e.w, e.n = 1)
  ELSE /\ UNCHANGED held
       /\ CASE e.k = "Land" -> Lands(held[e.n])
            [] e.k = "Write" -> IF e.ok = "yes" THEN Write(e.f) ELSE e.f[1] < floor /\ Told("expired")
            [] e.k = "Stage" -> Stage(e.f)
            [] e.k = "Take" -> Take(e.x)
            [] e.k = "Move" -> Move(e.x, e.n)
            [] e.k = "Retain" -> Retain(e.n)
            [] e.k = "Drop" -> Drop(e.f)
            [] e.k = "Plan" -> Plan(e.n)
            [] e.k = "Finish" -> Finish(e.n)
            [] e.k = "Look" -> \E v \in Vacuums : Look(v, e.n)
            [] e.k = "Raise" -> \E v \in Vacuums : Raise(v)
            [] e.k = "Sure" -> \E v \in Vacuums : Sure(v)
            [] e.k = "Delete" -> \E v \in Vacuums : Delete(v, e.f)
            [] e.k = "Rest" -> \E v \in Vacuums : Rest(v)

Run(x) == IF ids[x].runs = <<>> THEN "" ELSE ids[x].runs[Len(ids[x].runs)]
Shown(e) == /\ <<size, floor>>' = e.z
            /\ \A x \in Names : Run(x)' = e.r[x] /\ last'[x].b = e.b[x]
            /\ \A g \in Groups : pos'[g] = e.p[g]
            /\ Refs' = e.u
            /\ Cardinality(stored') = e.s

TraceInit == Init /\ i = 1 /\ t \in 1 .. Len(Traces) /\ held = <<>>
TraceNext == /\ i <= Len(Traces[t]) /\ i' = i + 1 /\ t' = t
             /\ Logged(Event)
             /\ Shown(Event)
TraceSpec == TraceInit /\ [][TraceNext]_all

(* Told once of each trace that came to its end. *)
Ended == i > Len(Traces[t]) => PrintT(<<"ended", t>>)
=============================================================================
