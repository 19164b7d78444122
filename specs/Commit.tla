------------------------------- MODULE Commit -------------------------------
(* The log and its commit protocol: docs/design/0001-protocol.md, 0006-group-commit.md.
   Read it beside spark_eos/log/commit: each action names the method that it stands for.
   Slots are 1, 2, ...; an entry holds the requests that are new in it, and those that the rules recognise as done
   before. Apart from that the rules are any: they may refuse any request on any state. A process may stop at any step
   for as long as it likes, and go on; so there is no clock. *)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS Procs, Each,  \* process p commits the requests <<p, 1>> .. <<p, Each[p]>>, in any order
          MaxEnd,       \* no more slots are filled
          MaxFaults,    \* so many replies are lost, at most
          Exact,        \* "the name is taken" is never said of the object that this very request made
          Remembered    \* of so many entries a process remembers which requests are in them

VARIABLES
  chain,      \* the entries in the store, by slot
  floor,      \* entries 1 .. floor are retired: they are empty, and a snapshot stands for them
  gone,       \* the names of entries 1 .. gone are deleted: the store takes another object there
  told,       \* what leaders reported of entries that they created; a process reads any of it, or nothing
  wire,       \* creates that their process does not wait for any more: each lands at some time, or never
  box,        \* what each process has submitted, as far as a leader may find it: one submission, or copies of all
  proc,       \* what each process has in its memory
  doubt,      \* its InDoubtRequests, by request
  answer,     \* what the caller of each request was told
  faults,     \* so far
  reach       \* over a network: a submission may be in so many slots, and leaders keep copies; 0: the channel of a folder
vars == <<chain, floor, gone, told, wire, box, proc, doubt, answer, faults, reach>>

Reqs == UNION {{<<p, n>> : n \in 1 .. Each[p]} : p \in Procs}
End == Len(chain)
Empty == [new |-> {}, old |-> {}]
Ids(entry) == entry.new \union entry.old
In(entries) == UNION {entries[n].new : n \in 1 .. Len(entries)}
NoDraft == [slot |-> 0, own |-> {}, reqs |-> Empty]
Certain == [open |-> FALSE, slot |-> 0, until |-> 0, unanswered |-> FALSE, submitted |-> FALSE, was |-> FALSE,
            lost |-> FALSE, found |-> FALSE]
Next_ == 0    \* in place of a slot: the one that is free when the process reads to the end next
Max(a, b) == IF a > b THEN a ELSE b

Init ==
  /\ chain = <<>> /\ floor = 0 /\ gone = 0 /\ told = {} /\ wire = {} /\ faults = 0
  /\ box = [p \in Procs |-> {}]
  /\ proc = [p \in Procs |-> [pc |-> "idle", cur |-> <<>>, read |-> 0, base |-> 0, view |-> {},
                              draft |-> NoDraft]]
  /\ doubt = [r \in Reqs |-> Certain]
  /\ answer = [r \in Reqs |-> "none"]

Own(p) == {r \in Reqs : r[1] = p}
Doubt(p, F(_)) == [r \in Reqs |-> IF r[1] = p /\ doubt[r].open THEN F(doubt[r]) ELSE doubt[r]]
Goes(p, pc) == proc' = [proc EXCEPT ![p].pc = pc]
Ends(p, said) == /\ proc' = [proc EXCEPT ![p].pc = "idle", ![p].cur = <<>>, ![p].draft = NoDraft]
                 /\ answer' = [answer EXCEPT ![proc[p].cur] = said]

----------------------------------------------------------------------------
(* Reading: Tail. *)

Read(p) ==   \* Tail.follow: one entry; if it is retired by now, its bytes were on their way
  LET me == proc[p]
      n == me.read + 1
  IN /\ me.pc \in {"idle", "ready", "waiting", "sending", "taken"} /\ n <= End
     /\ proc' = [proc EXCEPT ![p].read = n, ![p].base = Max(@, n - Remembered), ![p].view = @ \union chain[n].new]
     /\ doubt' = [r \in Reqs |-> IF r[1] = p /\ r \in Ids(chain[n]) /\ doubt[r].open
                                 THEN [doubt[r] EXCEPT !.found = TRUE] ELSE doubt[r]]
     /\ UNCHANGED <<chain, floor, gone, told, wire, box, answer, faults>>

Lost(d) == [d EXCEPT !.lost = d.lost \/ ~d.found]
JumpsTo(p, s) == [proc EXCEPT ![p].read = s, ![p].base = s, ![p].view = In(SubSeq(chain, 1, s))]

Jump(p) ==   \* Tail._install_snapshot: entries on the way are retired, or the process was away for long
  \E s \in proc[p].read + 1 .. End :
    /\ proc[p].pc \in {"idle", "ready", "waiting", "sending", "taken"}
    /\ proc' = JumpsTo(p, s)
    /\ doubt' = Doubt(p, Lost)
    /\ UNCHANGED <<chain, floor, gone, told, wire, box, answer, faults>>

Looked(d, n) == IF d.slot = Next_ THEN [d EXCEPT !.slot = n] ELSE d
Look(p) ==   \* InDoubtRequests.record_read: it has read to the end, where the next slot was free
  LET At(d) == Looked(d, proc[p].read + 1)
  IN /\ proc[p].pc = "ready" /\ proc[p].read = End
     /\ doubt' = Doubt(p, At) /\ doubt' # doubt
     /\ UNCHANGED <<chain, floor, gone, told, wire, box, proc, answer, faults>>

----------------------------------------------------------------------------
(* The commit loop: Committer, Answers. *)

Begin(p) ==   \* Committer.commit; the call of a request that is in doubt may be repeated
  \E r \in Own(p) :
    /\ proc[p].pc = "idle" /\ answer[r] \in {"none", "unknown"}
    /\ proc' = [proc EXCEPT ![p].pc = "ready", ![p].cur = r]
    /\ answer' = [answer EXCEPT ![r] = "none"]
    /\ UNCHANGED <<chain, floor, gone, told, wire, box, doubt, faults>>

Settle(p) ==   \* Answers.settle: it was found in an entry
  /\ proc[p].pc \in {"ready", "waiting"} /\ doubt[proc[p].cur].found
  /\ Ends(p, "yes")
  /\ doubt' = [doubt EXCEPT ![proc[p].cur] = Certain]
  /\ UNCHANGED <<chain, floor, gone, told, wire, box, faults>>

Attempt(d, slot) ==   \* InDoubtRequests.record_attempt
  IF ~d.open THEN [Certain EXCEPT !.open = TRUE, !.slot = slot]
  ELSE [d EXCEPT !.slot = slot, !.unanswered = d.submitted \/ d.slot = slot \/ d.until >= slot,
                 !.was = d.was /\ (d.submitted \/ Max(d.slot, d.until) >= slot)]

MayDraft(p) == LET d == doubt[proc[p].cur]
               IN proc[p].pc = "ready" /\ ~d.found /\ (d.open => d.submitted \/ d.slot # Next_)

(* What was lost in an unread entry is asked again; the rules recognise what is in the state already. *)
Entry(p, some) ==
  LET all == {[slot |-> 0, req |-> proc[p].cur, again |-> doubt[proc[p].cur].lost]} \union some
      done == {one.req : one \in {o \in all : o.again /\ o.req \in proc[p].view}}
  IN [new |-> {one.req : one \in all} \ done, old |-> done]

(* CommitGroup.publish: the requests of others in an entry that is certainly there. That a leader dies before it reports,
   or that a report is late, lost or overwritten, is that others do not read it. *)
Reports(draft, is_there) ==
  told' = told \union IF is_there THEN {[slot |-> draft.slot, reqs |-> Ids(draft.reqs) \ draft.own]} ELSE {}

Sends(p, reqs) ==
  LET r == proc[p].cur
      draft == [slot |-> proc[p].read + 1, own |-> {r}, reqs |-> reqs]
  IN /\ proc' = [proc EXCEPT ![p].pc = "sending", ![p].draft = draft]
     /\ doubt' = [doubt EXCEPT ![r] = Attempt(@, draft.slot)]
     /\ Reports(draft, FALSE)

Alone(p) ==   \* Committer._create
  /\ MayDraft(p) /\ Sends(p, Entry(p, {}))
  /\ UNCHANGED <<chain, floor, gone, wire, box, answer, faults>>

(* CommitGroup.collect: a leader that remembers all entries from the submission's slot on, in none of which it is. Over a
   network no withdrawal is certain, so that a submission ends by itself. *)
Collectable(p, one) == /\ one.slot > proc[p].base /\ one.slot <= proc[p].read + 1
                       /\ reach > 0 => proc[p].read + 1 < one.slot + reach
                       /\ \A n \in Max(one.slot, proc[p].base + 1) .. proc[p].read : one.req \notin Ids(chain[n])
LeadWith(p, some) ==   \* Committer._lead; whoever holds the lock of the lead, the create alone decides
  /\ MayDraft(p) /\ (\A one \in some : Collectable(p, one)) /\ Sends(p, Entry(p, some))
  /\ UNCHANGED <<chain, floor, gone, wire, box, answer, faults>>
Lead(p) == \E some \in SUBSET {one \in UNION {box[q] : q \in Procs \ {p}} : Collectable(p, one)} : LeadWith(p, some)

TakenBack(d) == IF d.submitted THEN [d EXCEPT !.submitted = FALSE, !.slot = Next_] ELSE d
Offer(p) == [slot |-> proc[p].read + 1, req |-> proc[p].cur, again |-> doubt[proc[p].cur].lost]
Handed(d, slot) == [Attempt(d, slot) EXCEPT !.submitted = TRUE, !.was = TRUE,
                                            !.until = IF reach = 0 THEN 0 ELSE Max(d.until, slot + reach - 1)]
Posted(p, one) == IF reach = 0 THEN {one} ELSE box[p] \union {one}
SubmitInto(p, works, there) ==   \* Committer._submit; the box may hold what it held, and the process not know
  LET r == proc[p].cur
      slot == proc[p].read + 1
  IN /\ MayDraft(p)
     /\ box' = [box EXCEPT ![p] = there]
     /\ proc' = [proc EXCEPT ![p].pc = IF works THEN "waiting" ELSE "sending",
                             ![p].draft = [slot |-> slot, own |-> {r}, reqs |-> Entry(p, {})]]
     /\ doubt' = [one \in Reqs |->
          IF one = r THEN IF works /\ there = box[p] THEN [Handed(doubt[r], slot) EXCEPT !.until = doubt[r].until]
                          ELSE IF works THEN Handed(doubt[r], slot) ELSE Attempt(Handed(doubt[r], slot), slot)
          ELSE IF works /\ one[1] = p /\ doubt[one].submitted THEN TakenBack(doubt[one]) ELSE doubt[one]]
     /\ UNCHANGED <<chain, floor, gone, told, wire, answer>>
(* A process that stops waiting before an entry came has the lead, or goes without: it writes for itself. *)
HasNews(p) == doubt[proc[p].cur].submitted => \A one \in box[p] : one.slot <= proc[p].read
Submit(p) == \/ SubmitInto(p, TRUE, Posted(p, Offer(p))) /\ HasNews(p) /\ UNCHANGED faults
             \/ /\ MayDraft(p) /\ faults < MaxFaults /\ faults' = faults + 1
                /\ \E works \in BOOLEAN, there \in {Posted(p, Offer(p)), box[p]} : SubmitInto(p, works, there)

StopWaiting(p) ==   \* the lead is free, or its holder sleeps; or an entry came, and the request is not in it
  /\ proc[p].pc \in {"waiting", "lagging"} /\ ~doubt[proc[p].cur].found
  /\ proc' = [proc EXCEPT ![p].pc = "ready", ![p].draft = NoDraft]
  /\ UNCHANGED <<chain, floor, gone, told, wire, box, doubt, answer, faults>>

(* LaggingWriter.attempt: entry n is reported, and the process need not have read so far. Its request is new: it was made
   when entry n was there, and is in no entry up to it. *)
Named(p, n) == [slot |-> Max(n, proc[p].read) + 1, req |-> proc[p].cur, again |-> FALSE]
LagInto(p, n, works, there) ==
  LET r == proc[p].cur
  IN /\ proc[p].pc = "ready" /\ reach = 0 /\ doubt[r] = Certain /\ \E one \in told : one.slot = n
     /\ box' = [box EXCEPT ![p] = there]
     /\ proc' = IF works THEN [proc EXCEPT ![p].pc = "lagging"] ELSE proc
     /\ doubt' = [one \in Reqs |->
          IF one = r THEN Handed(doubt[r], Named(p, n).slot)
          ELSE IF works /\ one[1] = p THEN TakenBack(doubt[one]) ELSE doubt[one]]
     /\ UNCHANGED <<chain, floor, gone, told, wire, answer>>
Lag(p) == \E n \in {one.slot : one \in told} :
            \/ LagInto(p, n, TRUE, {Named(p, n)}) /\ UNCHANGED faults
            \/ /\ faults < MaxFaults /\ faults' = faults + 1
               /\ \E there \in {{Named(p, n)}, box[p]} : LagInto(p, n, FALSE, there)

TakesOver(p, report, said) == (proc[p].cur \in report.reqs <=> said = "yes") /\ Ends(p, said)
Told(p) ==   \* LaggingWriter._answer: that a request is in an entry is taken over, and nothing else
  /\ proc[p].pc = "lagging" /\ \E report \in told : TakesOver(p, report, "yes")
  /\ doubt' = [doubt EXCEPT ![proc[p].cur] = Certain]
  /\ UNCHANGED <<chain, floor, gone, told, wire, box, faults>>

Back(p) == Doubt(p, TakenBack)
Emptied(p) == [box EXCEPT ![p] = IF reach = 0 THEN {} ELSE @]
Withdraw(p) ==   \* CommitGroup.withdraw; it may fail, with effect or without
  /\ proc[p].pc \in {"idle", "ready"}
  /\ \/ box' = Emptied(p) /\ doubt' = Back(p) /\ UNCHANGED faults
     \/ /\ faults < MaxFaults /\ faults' = faults + 1 /\ UNCHANGED doubt
        /\ box' = Emptied(p) \/ UNCHANGED box
  /\ UNCHANGED <<chain, floor, gone, told, wire, proc, answer>>

(* The rules refuse the request on the state at hand, which a look has just found to be the newest. *)
Refuse(p) ==   \* Answers.rejected
  LET d == doubt[proc[p].cur]
  IN /\ proc[p].pc = "ready" /\ ~d.found /\ proc[p].read = End
     /\ d.open => ~d.submitted
     /\ d.open => d.slot # Next_ /\ d.slot <= proc[p].read /\ d.until <= proc[p].read
     /\ Ends(p, IF d.lost /\ proc[p].cur \in proc[p].view THEN "yes" ELSE "no")
     /\ doubt' = [doubt EXCEPT ![proc[p].cur] = Certain]
     /\ UNCHANGED <<chain, floor, gone, told, wire, box, faults>>

Fill(p) ==   \* Committer._may_have_been_taken_along: an empty request in a slot where it may be
  LET d == doubt[proc[p].cur]
      slot == proc[p].read + 1
  IN /\ proc[p].pc = "ready" /\ ~d.found /\ d.open /\ ~d.submitted /\ d.was /\ (d.slot = slot \/ d.until >= slot)
     /\ proc' = [proc EXCEPT ![p].pc = "sending", ![p].draft = [slot |-> slot, own |-> {}, reqs |-> Empty]]
     /\ UNCHANGED <<chain, floor, gone, told, wire, box, doubt, answer, faults>>

Recognise(p) ==   \* Answers.rejected: the slot could not be filled, but the state tells that what is lost was done
  LET r == proc[p].cur
  IN /\ proc[p].pc = "sending" /\ proc[p].draft.own = {}
     /\ doubt[r].lost /\ ~doubt[r].found /\ r \in proc[p].view
     /\ Ends(p, "yes")
     /\ doubt' = [doubt EXCEPT ![r] = Certain]
     /\ UNCHANGED <<chain, floor, gone, told, wire, box, faults>>

GiveUp(p) ==   \* Answers.failed, given_up: a deadline has passed, or the state does not tell what became of it
  LET me == proc[p]
      d == doubt[me.cur]
  IN /\ me.pc \notin {"idle", "dead"}
     /\ \/ d.open /\ Ends(p, "unknown") /\ UNCHANGED doubt
        \/ /\ ~d.open \/ (me.pc = "sending" /\ me.draft.own # {} /\ ~d.unanswered /\ ~d.lost)
           /\ Ends(p, "no") /\ doubt' = [doubt EXCEPT ![me.cur] = Certain]
     /\ UNCHANGED <<chain, floor, gone, told, wire, box, faults>>

----------------------------------------------------------------------------
(* The create: Slots.fill. The store takes a name once. *)

Message(p) == [slot |-> proc[p].draft.slot, reqs |-> proc[p].draft.reqs]
Free(slot) == slot > End \/ slot <= gone
Put(slot, reqs) == IF slot = End + 1 THEN Append(chain, reqs) ELSE chain
Unanswered(p) == [r \in Reqs |-> IF r \in proc[p].draft.own THEN [doubt[r] EXCEPT !.unanswered = TRUE] ELSE doubt[r]]

Create(p) ==   \* it lands, and the reply is under way
  /\ proc[p].pc = "sending" /\ Free(proc[p].draft.slot)
  /\ chain' = Put(proc[p].draft.slot, proc[p].draft.reqs)
  /\ Goes(p, "created")
  /\ UNCHANGED <<floor, gone, told, wire, box, doubt, answer, faults>>

NoReply(p) ==   \* it lands now, later, or never; the same bytes are sent to the same slot again
  LET m == Message(p)
  IN /\ proc[p].pc = "sending" /\ faults < MaxFaults /\ faults' = faults + 1
     /\ \/ UNCHANGED <<chain, wire>>
        \/ Free(m.slot) /\ chain' = Put(m.slot, m.reqs) /\ UNCHANGED wire
        \/ wire' = wire \union {m} /\ UNCHANGED chain
     /\ doubt' = Unanswered(p)
     /\ UNCHANGED <<floor, gone, told, box, proc, answer>>

Land(m) ==   \* late, or refused
  /\ wire' = wire \ {m} /\ chain' = IF Free(m.slot) THEN Put(m.slot, m.reqs) ELSE chain
  /\ UNCHANGED <<floor, gone, told, box, proc, doubt, answer, faults>>

HeardOf(p, reports) ==   \* Committer._create: "created"
  LET me == proc[p]
  IN /\ me.pc = "created" /\ Reports(me.draft, reports)
     /\ \/ \E s \in me.draft.slot .. End :   \* Tail.is_covered_by_snapshot: others may have gone past
             /\ proc' = [JumpsTo(p, s) EXCEPT ![p].pc = "ready", ![p].draft = NoDraft]
             /\ doubt' = Doubt(p, Lost) /\ UNCHANGED answer
        \/ /\ me.draft.slot > gone
           /\ LET now == IF me.read = me.draft.slot - 1
                         THEN [me EXCEPT !.read = @ + 1, !.base = Max(@, me.read + 1 - Remembered),
                                         !.view = @ \union me.draft.reqs.new] ELSE me
              IN IF me.draft.own = {}
                 THEN /\ proc' = [proc EXCEPT ![p] = [now EXCEPT !.pc = "ready", !.draft = NoDraft]]
                      /\ UNCHANGED <<doubt, answer>>
                 ELSE /\ proc' = [proc EXCEPT ![p] = [now EXCEPT !.pc = "idle", !.cur = <<>>, !.draft = NoDraft]]
                      /\ answer' = [answer EXCEPT ![me.cur] = "yes"]
                      /\ doubt' = [doubt EXCEPT ![me.cur] = Certain]
     /\ UNCHANGED <<chain, floor, gone, wire, box, faults>>
Heard(p) == \E reports \in BOOLEAN : HeardOf(p, reports)

Taken(p) ==   \* "the name is taken"; where that is not exact, perhaps by this very create
  LET slot == proc[p].draft.slot
  IN /\ proc[p].pc = "sending"
     /\ \/ slot <= End /\ UNCHANGED <<chain, faults>>
        \/ ~Exact /\ Free(slot) /\ faults < MaxFaults /\ faults' = faults + 1
           /\ chain' = Put(slot, proc[p].draft.reqs)
     /\ Goes(p, "taken")
     /\ UNCHANGED <<floor, gone, told, wire, box, doubt, answer>>

SlotTaken(p) ==   \* Answers.slot_taken: the slot is read. Its body tells, never the reply
  LET me == proc[p]
      d == [doubt[me.cur] EXCEPT !.unanswered = @ \/ ~Exact]
  IN /\ me.pc = "taken" /\ me.read >= me.draft.slot
     /\ IF me.draft.own # {} /\ d.found
        THEN Ends(p, "yes") /\ doubt' = [doubt EXCEPT ![me.cur] = Certain]
        ELSE /\ proc' = [proc EXCEPT ![p].pc = "ready", ![p].draft = NoDraft]
             /\ doubt' = IF me.draft.own = {} THEN doubt
                         ELSE IF d.submitted \/ (d.unanswered /\ d.lost) \/ d.until > me.read THEN [doubt EXCEPT ![me.cur] = d]
                         ELSE [doubt EXCEPT ![me.cur] = Certain]
             /\ UNCHANGED answer
     /\ UNCHANGED <<chain, floor, gone, told, wire, box, faults>>

----------------------------------------------------------------------------
(* What happens to processes, and to old entries. *)

Crash(p) ==   \* SIGKILL: its memory is gone, the kernel frees its lock; what it sent and submitted stays
  /\ proc[p].pc # "dead" /\ faults < MaxFaults /\ faults' = faults + 1
  /\ wire' = wire \union (IF proc[p].pc = "sending" THEN {Message(p)} ELSE {})
  /\ proc' = [proc EXCEPT ![p].pc = "dead", ![p].draft = NoDraft]
  /\ doubt' = [r \in Reqs |-> IF r[1] = p THEN Certain ELSE doubt[r]]
  /\ UNCHANGED <<chain, floor, gone, told, box, answer>>

Retire == /\ floor < End - 1 /\ floor' = floor + 1
          /\ UNCHANGED <<chain, gone, told, wire, box, proc, doubt, answer, faults>>
Delete == /\ gone < floor /\ gone' = gone + 1
          /\ UNCHANGED <<chain, floor, told, wire, box, proc, doubt, answer, faults>>

Step(p) == Read(p) \/ (Jump(p) /\ proc[p].read < floor) \/ Look(p) \/ Settle(p) \/ Alone(p) \/ Lead(p) \/ Submit(p)
           \/ Lag(p) \/ Told(p) \/ StopWaiting(p) \/ Withdraw(p) \/ Refuse(p) \/ Fill(p) \/ Recognise(p)
           \/ Create(p) \/ Heard(p) \/ Taken(p) \/ SlotTaken(p)
Next == Retire \/ Delete \/ (\E m \in wire : Land(m))
        \/ \E p \in Procs : Begin(p) \/ Step(p) \/ Jump(p) \/ NoReply(p) \/ GiveUp(p) \/ Crash(p)
Spec == Init /\ reach \in Nat /\ [][Next /\ reach' = reach]_vars

----------------------------------------------------------------------------
(* What must hold. *)

Once == \A m, n \in 1 .. End : m # n => chain[m].new \intersect chain[n].new = {}
Acked == \A r \in Reqs : answer[r] = "yes" => r \in In(chain)
Refused == \A r \in Reqs : answer[r] = "no" => r \notin In(chain)
Agree == \A p \in Procs : proc[p].read <= End /\ proc[p].view = In(SubSeq(chain, 1, proc[p].read))
NoGap == /\ \A m \in wire : m.slot <= End + 1
         /\ \A p \in Procs : proc[p].draft.slot <= End + 1
Kept == [][\A n \in 1 .. End : n <= Len(chain') /\ chain'[n] = chain[n]]_chain
=============================================================================
