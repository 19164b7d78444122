---------------------------- MODULE CommitModel ----------------------------
(* A small model of Commit. What a step of the code may do at many places, and what matters at one, is done there. *)
EXTENDS Commit

CONSTANTS Followers, Leaders,  \* who may submit, and who may take along what was submitted
          OfLeaders,           \* how many requests a leader has; the others have one
          Calls,               \* answers after which a call is made (again)
          Kinds                \* of models: "alone" without group commit, "group" without faults, "lag" the same with
                               \* processes that lag, "net" over a network, "old" entries that are retired, "live"
                               \* group commit where a process stops for ever, or "all" but "live"
VARIABLE kind
ModelSpec == Init /\ kind \in Kinds /\ reach = (IF kind = "net" THEN 2 ELSE 0)
             /\ [][Next /\ reach' = reach /\ kind' = kind]_<<vars, kind>>

EachOf == [p \in Procs |-> IF p \in Leaders THEN OfLeaders ELSE 1]
Bounded == End <= MaxEnd
Quiet == kind \in {"group", "lag", "net", "live"}
(* A process stops for ever at any step. The rules accept what a follower asks for until it has read an entry. *)
Stops(p) == proc'[p].pc = "dead" /\ proc[p].pc # "dead"
Accepts(p) == p \notin Followers \/ proc[p].read = 0
SmallLive == /\ faults' # faults => \E p \in Procs : Stops(p)
             /\ \A p \in Procs : LET now == proc[p]
                                     then == proc'[p]
                                 IN now.pc = "ready" =>
                                      /\ (then.pc = "waiting" \/ then.draft.own # {}) => Accepts(p)
                                      /\ (box[p] # {} /\ box'[p] = {}) => ~Accepts(p)
Small == (kind \in {"alone", "group", "lag", "net", "live"} => floor' = 0)
         /\ (IF kind = "live" THEN SmallLive ELSE Quiet => faults' = 0)
         /\ (kind \notin {"lag", "all"} => told' = {}) /\ \A p \in Procs :
  LET now == proc[p]
      then == proc'[p]
      open == now.cur # <<>> /\ doubt[now.cur].open
  IN /\ (then.base > now.read /\ now.pc # "created") => (now.read < floor /\ then.base >= floor)
     /\ (then.base > now.read /\ now.pc = "created") => (then.base >= floor \/ then.pc = "idle")
     /\ then.read # now.read => now.pc \in {"ready", "waiting", "taken", "created"}
     /\ then.pc = "waiting" => p \in Followers /\ kind \in {"group", "lag", "net", "live", "all"}
     /\ then.pc = "lagging" => p \in Followers
     /\ (kind = "lag" /\ p \in Followers /\ now.pc = "ready" /\ then.pc = "sending") => open
     /\ (kind = "lag" /\ now.pc = "idle" /\ then.pc = "ready") => \A n \in 1 .. then.cur[2] - 1 : answer[<<p, n>>] = "yes"
     /\ (then.draft.reqs # now.draft.reqs) => (then.draft.reqs.new \subseteq then.draft.own \/ p \in Leaders)
     /\ (then.pc # "idle" /\ now.pc = "idle") => (then.pc = "ready" /\ answer[then.cur] \in Calls
                                                       /\ (Quiet => answer[then.cur] = "none")
                                                       /\ (kind \in {"alone", "old"} => then.cur[2] = 1))
     /\ (then.pc = "idle" /\ now.pc # "idle") =>
          \/ answer'[now.cur] = "yes" \/ (now.pc = "sending" /\ ~Quiet)
          \/ (answer'[now.cur] = "no" /\ open)
          \/ (now.pc = "ready" /\ (~open \/ doubt[now.cur].lost))

(* Liveness: each call is answered, unless its process is killed, or stops for ever, as long as the store answers: at most
   MaxFaults replies are lost. A process may give up, but need not. Each process goes on; that a follower stops waiting is
   one of its steps: the lead gets free, or its holder counts as asleep. *)
Live == ModelSpec /\ \A p \in Procs : WF_<<vars, kind>>(kind' = kind /\ reach' = reach /\ Step(p) /\ IF kind = "live" THEN Small ELSE TRUE)
Answered == \A p \in Procs : proc[p].pc \notin {"idle", "dead"} ~> proc[p].pc \in {"idle", "dead"}
=============================================================================
