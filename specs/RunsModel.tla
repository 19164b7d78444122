----------------------------- MODULE RunsModel -----------------------------
(* A small model of Runs, to which the drivers of one query are added, as Spark runs them: docs/quality/spark-facts.md.
   A driver reads the checkpoint when it begins. From then on it goes by what it remembers. *)
EXTENDS Runs

CONSTANTS Drivers,    \* runs of the query
          Latest,     \* the one that is started last, and is not killed
          Kinds,      \* of models: "runs" that are alive at the same time, on one checkpoint or on a "copied" one, or of
                      \* which the latest "moves" to another transactional id; a run that "dies"; and "files", which
                      \* readers need and a vacuum deletes
          MaxBatches, MaxLooks, MaxLost

VARIABLES plan,    \* checkpoints: offsets/0, offsets/1, ...: where each batch ends
          noted,   \* and commits/0, ...: so many
          run,     \* the memory of each driver
          looks, lost, others, kind
ours == <<plan, noted, run, looks, lost, others, kind>>
all == <<vars, ours>>

Off == [pc |-> "off", b |-> 0, saw |-> 0, f |-> None]
ModelInit == /\ Init /\ plan = [c \in {1, 2} |-> <<>>] /\ noted = [c \in {1, 2} |-> 0] /\ run = [d \in Drivers |-> Off]
             /\ looks = 0 /\ lost = 0 /\ others = 0 /\ kind \in Kinds

Gone(d) == run[d].pc = "stopped"
Id(d) == IF kind = "moves" /\ d = Latest THEN "y" ELSE "x"
At(d) == IF kind = "copied" /\ d = Latest THEN 2 ELSE 1
Turns(d, pc) == run' = [run EXCEPT ![d].pc = pc]
Same(changed) == UNCHANGED changed /\ UNCHANGED <<looks, others, kind>>
From(d) == IF run[d].b = 0 THEN 0 ELSE plan[At(d)][run[d].b]
Work(d) == [x |-> Id(d), q |-> "q", r |-> d, b |-> run[d].b, g |-> "g", from |-> From(d),
            to |-> plan[At(d)][run[d].b + 1], f |-> run[d].f]

Begins(d) ==
  /\ run[d].pc = "off"
  /\ kind = "dies" /\ d = Latest => \A e \in Drivers \ {d} : Gone(e)
  /\ kind = "files" => d = Latest
  /\ \E n \in IF At(d) = 2 THEN 0 .. noted[1] ELSE {noted[1]} :
       /\ noted' = [noted EXCEPT ![At(d)] = n]
       /\ plan' = IF At(d) = 2 THEN [plan EXCEPT ![2] = SubSeq(plan[1], 1, n)] ELSE plan
       /\ run' = [run EXCEPT ![d] = [Off EXCEPT !.pc = IF Len(plan'[At(d)]) > n THEN "planned" ELSE "free", !.b = n]]
  /\ Same(<<vars, lost>>)
Plans(d) ==   \* offsets/<batch> is written once; Spark ends the run that finds it there
  /\ run[d].pc = "free" /\ run[d].b < IF kind = "copied" THEN MaxBatches + 1 ELSE MaxBatches
  /\ IF Len(plan[At(d)]) > run[d].b THEN Turns(d, "stopped") /\ UNCHANGED plan
     ELSE \E more \in {1, At(d)} : /\ plan' = [plan EXCEPT ![At(d)] = Append(@, From(d) + more)]
                                   /\ Turns(d, "planned")
  /\ Same(<<vars, noted, lost>>)
Looks(d) ==   \* the writer of its tasks learns where the log's end is
  /\ run[d].pc = "planned" /\ run' = [run EXCEPT ![d].saw = size, ![d].pc = "writes"]
  /\ Same(<<vars, plan, noted, lost>>)
Stages(d) ==   \* some batches have no rows
  /\ run[d].pc = "writes"
  /\ LET f == <<run[d].saw, d, run[d].b>>
     IN IF kind = "moves" THEN Turns(d, "staged") /\ UNCHANGED vars
        ELSE Stage(f) /\ run' = [run EXCEPT ![d].f = f, ![d].pc = "staged"]
  /\ Same(<<plan, noted, lost>>)
Asks(d) ==   \* Committer.commit: on the newest state, and again on a newer one
  /\ run[d].pc = "staged"
  /\ LET finished == noted[At(d)] > run[d].b
         w == Work(d)
     IN IF Refusal(w, finished) # "none" THEN Turns(d, "refused") /\ UNCHANGED vars
        ELSE IF Nothing(Request(w)) THEN Turns(d, "committed") /\ UNCHANGED vars
        ELSE IF Verdict(Request(w)) # "yes" THEN Turns(d, "refused") /\ UNCHANGED vars
        ELSE Propose(w, finished) /\ Turns(d, "asked")
  /\ Same(<<plan, noted, lost>>)
Its(d) == {req \in sent : req.w.r = d}
Lands(d) ==   \* and its driver hears of it, or not
  /\ \E req \in Its(d) : Land(req) /\ \E heard \in BOOLEAN :
       /\ (heard \/ lost < MaxLost) /\ lost' = (IF heard THEN lost ELSE lost + 1)
       /\ run' = [run EXCEPT ![d].pc = IF @ # "asked" THEN @ ELSE IF ~heard THEN "staged"
                                       ELSE IF req.new THEN "committed" ELSE "repeated"]
  /\ Same(<<plan, noted>>)
Refuses(d) ==   \* a leader has read more by then
  /\ \E req \in Its(d) : Verdict(req) # "yes" /\ Fails(req)
  /\ Turns(d, IF run[d].pc = "asked" THEN "staged" ELSE run[d].pc)
  /\ Same(<<plan, noted, lost>>)
Drops(d) ==   \* commit.delete_rejected_files: refused for certain, or a replay
  /\ run[d].pc \in {"refused", "repeated"} /\ run[d].f \in stored /\ Drop(run[d].f)
  /\ UNCHANGED ours
Stops(d) == run[d].pc = "refused" /\ Turns(d, "stopped") /\ Same(<<vars, plan, noted, lost>>)
Notes(d) ==   \* commits/<batch>; Spark ends the run that finds it there
  /\ run[d].pc \in {"committed", "repeated"}
  /\ IF noted[At(d)] > run[d].b THEN Turns(d, "stopped") /\ UNCHANGED noted
     ELSE noted' = [noted EXCEPT ![At(d)] = @ + 1] /\ run' = [run EXCEPT ![d] = [Off EXCEPT !.pc = "free", !.b = run[d].b + 1]]
  /\ Same(<<vars, plan, lost>>)
Dies(d) ==   \* killed. Where no progress is promised, a run that sleeps for ever does as well
  /\ kind = "dies" /\ d # Latest /\ run[d].pc \notin {"off", "stopped"} /\ Turns(d, "stopped")
  /\ Same(<<vars, plan, noted, lost>>)

Step(d) == Begins(d) \/ Plans(d) \/ Looks(d) \/ Stages(d) \/ Asks(d) \/ Lands(d) \/ Refuses(d) \/ Drops(d) \/ Stops(d)
           \/ Notes(d)
(* Where progress is promised, vacuum is polite: it raises the floor above no file that the latest run has yet to commit. *)
MayLook(at) == kind = "dies" /\ run[Latest].pc \in {"writes", "staged", "asked"} => at <= run[Latest].saw
OfVacuum(v) == \/ \E at \in 0 .. size : looks < MaxLooks /\ MayLook(at) /\ Look(v, at) /\ looks' = looks + 1
               \/ (Raise(v) \/ Sure(v) \/ (\E f \in vac[v].left : Delete(v, f)) \/ Rest(v)) /\ UNCHANGED looks
OfReaders == \E d \in Readers : (Plan(d) \/ Finish(d)) /\ UNCHANGED ours
Disturbs == /\ others < 1 /\ others' = others + 1 /\ UNCHANGED <<plan, noted, run, looks, lost, kind>>
            /\ IF kind = "files" THEN \E n \in start + 1 .. Len(rows) : Retain(n) ELSE \E x \in Names : Take(x)
Next == \/ \E d \in Drivers : Step(d) \/ Dies(d)
        \/ /\ kind \in {"files", "dies"}
           /\ \E v \in Vacuums : OfVacuum(v) /\ UNCHANGED <<plan, noted, run, lost, others, kind>>
        \/ kind = "files" /\ OfReaders
        \/ kind \in {"runs", "moves", "files"} /\ Disturbs
Spec == ModelInit /\ [][Next]_all

(* What a checkpoint says is done is in the log as it was planned. The group stands where the query does, and the rows
   are those of its batches. *)
Noted == \A c \in {1, 2} : \A b \in 1 .. noted[c] : \E n \in 1 .. Len(done) :
           done[n].b = b - 1 /\ done[n].to = plan[c][b] /\ done[n].from = (IF b = 1 THEN 0 ELSE plan[c][b - 1])
Together == /\ pos["g"] = IF done = <<>> THEN -1 ELSE done[Len(done)].to
            /\ Len(rows) = Cardinality({n \in 1 .. Len(done) : done[n].f # None})

(* Liveness: a query that is started again when its earlier runs are gone commits all batches. *)
Live == Spec /\ \A d \in Drivers : WF_all(Step(d))
GoesOn == kind = "dies" => ((\A d \in Drivers \ {Latest} : Gone(d)) ~> noted[1] = MaxBatches)
=============================================================================
