-------------------------------- MODULE Runs --------------------------------
(* Runs of Spark queries, and vacuum's floor: docs/design/0003-spark.md, 0001-protocol.md.
   Read it beside spark_eos/protocol/actions/queries and spark_eos/maintenance/vacuum.py: each action names the rule or
   the method that it stands for. The log orders requests (Commit.tla). A driver makes its request on the state that it
   has read. If a leader of the group takes it along, it is judged on a later one. So a request may land at any time
   after it was made, or never. A query reads one source, for one group. A process may sleep at any step; so there is
   no clock. *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS Names,    \* transactional ids
          Groups,   \* consumer groups: each has one position
          Vacuums, Readers

VARIABLES
  size,     \* entries in the log: the next free slot
  pids,     \* producer ids that were given out
  ids,      \* the producer of each transactional id: 0, or its id, epoch, number of transactions, and the runs it had
  last,     \* the last micro-batch under each transactional id
  pos,      \* the position of each group, -1 if it has none
  rows,     \* the file of each batch of rows, in order
  start,    \* the first batches of rows are deleted, so many
  floor,    \* the staging floor
  stored,   \* files in the store: <<base, number>>; base is where the log's end was when the writer began
  sent,     \* requests that were made, and have not landed
  vac,      \* what each vacuum has in its memory
  reader,   \* the files that each reader has planned to read
  made,     \* what was seen, for the promises: files that were staged,
  dropped,  \* those that their own writer has deleted,
  done      \* and micro-batches that were committed
log == <<size, pids, ids, last, pos, rows, start, floor>>
vars == <<log, stored, sent, vac, reader, made, dropped, done>>

None == <<>>
NoBatch == [q |-> "", b |-> -1, from |-> 0, to |-> 0]
Unknown == [pid |-> 0, epoch |-> 0, num |-> -1, runs |-> <<>>]
Asleep == [pc |-> "idle", floor |-> 0, left |-> {}, before |-> {}]
Max(a, b) == IF a > b THEN a ELSE b
In(seq) == {seq[n] : n \in 1 .. Len(seq)}
Refs == {rows[n] : n \in start + 1 .. Len(rows)}   \* reachability.data_files

Init ==
  /\ size = 0 /\ pids = 0 /\ rows = <<>> /\ start = 0 /\ floor = 0
  /\ ids = [x \in Names |-> Unknown] /\ last = [x \in Names |-> NoBatch] /\ pos = [g \in Groups |-> -1]
  /\ stored = {} /\ sent = {} /\ made = {} /\ dropped = {} /\ done = <<>>
  /\ vac = [v \in Vacuums |-> Asleep] /\ reader = [d \in Readers |-> {}]

----------------------------------------------------------------------------
(* What a driver asks for: microbatch.propose. *)

Current(r, x) == ids[x].runs # <<>> /\ ids[x].runs[Len(ids[x].runs)] = r
Was(r, x) == r \in In(ids[x].runs)
(* history.places, record_of: the query's record lies under the id of its last batch *)
Others(x, q) == IF last[x].q = q THEN {} ELSE {y \in Names \ {x} : last[y].q = q}
Own(x, q) == IF last[x].q = q THEN last[x]
             ELSE IF Others(x, q) = {} THEN NoBatch ELSE last[CHOOSE y \in Others(x, q) : TRUE]

Register(r, y) == IF ids[y].pid = 0 THEN <<y, pids + 1, 0>> ELSE <<y, ids[y].pid, ids[y].epoch + 1>>
Registers(r, x, q) == {Register(r, y) : y \in {z \in {x} \union Others(x, q) : ~Current(r, z)}}
Stamp(r, x) == IF ids[x].pid = 0 THEN <<pids + 1, 0, 0>>
               ELSE <<ids[x].pid, IF Current(r, x) THEN ids[x].epoch ELSE ids[x].epoch + 1, ids[x].num + 1>>

(* w: a driver's micro-batch [x, q, r |-> transactional id, query, run; b |-> its number, g, from, to |-> what it read for
   which group, f |-> the file of its rows]. finished: Spark has noted it as done. *)
Repeats(w, own) == w.b = own.b /\ w.from = own.from /\ w.to = own.to
Replaced(w) == \E y \in {w.x} \union Others(w.x, w.q) : Was(w.r, y) /\ ~Current(w.r, y)
Zombie(w, finished) == finished /\ ~Current(w.r, w.x)
Refusal(w, finished) ==
  LET own == Own(w.x, w.q)
  IN IF Replaced(w) THEN "fenced"
     ELSE IF w.b > own.b THEN "none"
     ELSE IF Zombie(w, finished) THEN "fenced"
     ELSE IF Repeats(w, own) THEN "none"
     ELSE "mismatch"
Request(w) == [w |-> w, regs |-> Registers(w.r, w.x, w.q), stamp |-> Stamp(w.r, w.x), new |-> w.b > Own(w.x, w.q).b]
Nothing(req) == ~req.new /\ req.regs = {}   \* this very run has committed it: there is no entry

----------------------------------------------------------------------------
(* How the rules judge it, on whichever state it lands: producers.init, appends.append, microbatch.commit. *)

OfInit(r, reg) ==
  LET known == ids[reg[1]]
  IN IF known.pid = 0 THEN IF reg[2] = pids + 1 /\ reg[3] = 0 THEN "yes" ELSE "mapping"
     ELSE IF reg[2] # known.pid THEN "mapping"
     ELSE IF reg[3] # known.epoch + 1 \/ r \in In(known.runs) THEN "fenced" ELSE "yes"
Registered(r, regs) ==
  [y \in Names |-> LET own == {reg \in regs : reg[1] = y}
                   IN IF own = {} THEN ids[y]
                      ELSE LET reg == CHOOSE one \in own : TRUE
                           IN [ids[y] EXCEPT !.pid = reg[2], !.epoch = reg[3], !.runs = Append(@, r)]]
OfAppend(req, x, now) ==
  IF req.w.f = None THEN "yes"
  ELSE IF req.stamp[2] < now[x].epoch THEN "fenced"
  ELSE IF req.stamp[3] # now[x].num + 1 THEN "state"
  ELSE IF req.w.f[1] < floor THEN "expired" ELSE "yes"
Goes(w, before) == w.from = before.to   \* each source goes on where it ended
OfBatch(w, now) ==
  LET own == Own(w.x, w.q)
      Holds(y) == now[y].runs # <<>> /\ now[y].runs[Len(now[y].runs)] = w.r
  IN IF \E y \in {w.x} \union Others(w.x, w.q) : ~Holds(y) THEN "fenced"
     ELSE IF w.b <= own.b THEN "mismatch"
     ELSE IF own # NoBatch /\ ~Goes(w, own) THEN "mismatch"
     ELSE IF last[w.x] # NoBatch /\ ~Goes(w, last[w.x]) THEN "mismatch"
     ELSE IF own = NoBatch /\ w.b > 0 THEN "mismatch"
     ELSE IF pos[w.g] # -1 /\ pos[w.g] # w.from THEN "mismatch" ELSE "yes"
Verdict(req) ==
  LET w == req.w
      now == Registered(w.r, req.regs)
      wrong == {reg \in req.regs : OfInit(w.r, reg) # "yes"}
      own == {reg \in wrong : reg[1] = w.x}
  IN IF wrong # {} THEN OfInit(w.r, CHOOSE reg \in (IF own # {} THEN own ELSE wrong) : TRUE)
     ELSE IF ~req.new THEN "yes"
     ELSE IF OfAppend(req, w.x, now) # "yes" THEN OfAppend(req, w.x, now)
     ELSE OfBatch(w, now)

Batch(w) == [q |-> w.q, b |-> w.b, from |-> w.from, to |-> w.to]
Applied(req) ==   \* rows, positions and the end of the transaction, in one entry
  LET w == req.w
      now == Registered(w.r, req.regs)
  IN /\ size' = size + 1
     /\ pids' = IF \E reg \in req.regs : ids[reg[1]].pid = 0 THEN pids + 1 ELSE pids
     /\ ids' = IF req.new THEN [now EXCEPT ![w.x].num = @ + 1] ELSE now
     /\ last' = IF req.new THEN [y \in Names |-> IF y = w.x THEN Batch(w)
                                                 ELSE IF y \in Others(w.x, w.q) THEN NoBatch ELSE last[y]]
                ELSE last
     /\ pos' = IF req.new THEN [pos EXCEPT ![w.g] = w.to] ELSE pos
     /\ rows' = IF req.new /\ w.f # None THEN Append(rows, w.f) ELSE rows
     /\ done' = IF req.new THEN Append(done, w) ELSE done
     /\ UNCHANGED <<start, floor>>

Propose(w, finished) ==   \* on the newest state, or an older one: then it may land all the same
  /\ Refusal(w, finished) = "none" /\ ~Nothing(Request(w))
  /\ sent' = sent \union {Request(w)}
  /\ UNCHANGED <<log, stored, vac, reader, made, dropped, done>>
Land(req) == /\ req \in sent /\ Verdict(req) = "yes"
             /\ sent' = sent \ {req} /\ Applied(req)
             /\ UNCHANGED <<stored, vac, reader, made, dropped>>
Fails(req) == /\ req \in sent /\ sent' = sent \ {req}   \* refused, or the create never gets there
              /\ UNCHANGED <<log, stored, vac, reader, made, dropped, done>>

----------------------------------------------------------------------------
(* What other clients do. *)

Take(x) ==   \* producers.init without a run: it fences the run as a newer one would
  /\ size' = size + 1
  /\ pids' = IF ids[x].pid = 0 THEN pids + 1 ELSE pids
  /\ ids' = [ids EXCEPT ![x] = IF @.pid = 0 THEN [Unknown EXCEPT !.pid = pids + 1]
       ELSE [@ EXCEPT !.epoch = @ + 1, !.runs = IF @ # <<>> /\ @[Len(@)] # "" THEN Append(@, "") ELSE @]]
  /\ UNCHANGED <<last, pos, rows, start, floor, stored, sent, vac, reader, made, dropped, done>>
Write(f) ==   \* appends.append, of a producer
  /\ f[1] >= floor /\ f \in made /\ f \notin dropped /\ f \notin In(rows)
  /\ size' = size + 1 /\ rows' = Append(rows, f)
  /\ UNCHANGED <<pids, ids, last, pos, start, floor, stored, sent, vac, reader, made, dropped, done>>
Move(g, to) ==   \* offsets.commit, of a consumer
  /\ size' = size + 1 /\ pos' = [pos EXCEPT ![g] = to]
  /\ UNCHANGED <<pids, ids, last, rows, start, floor, stored, sent, vac, reader, made, dropped, done>>
Retain(n) ==   \* log_start.advance
  /\ n \in start .. Len(rows) /\ size' = size + 1 /\ start' = n
  /\ UNCHANGED <<pids, ids, last, pos, rows, floor, stored, sent, vac, reader, made, dropped, done>>

----------------------------------------------------------------------------
(* Files. *)

Stage(f) ==   \* a task, at any time after its writer has looked where the log's end is
  /\ f \notin made /\ f[1] <= size
  /\ stored' = stored \union {f} /\ made' = made \union {f}
  /\ UNCHANGED <<log, sent, vac, reader, dropped, done>>
Drop(f) ==   \* Log.discard: its writer was refused for certain, and no entry refers to it
  /\ f \in made /\ f \notin Refs /\ \A req \in sent : req.w.f # f
  /\ stored' = stored \ {f} /\ dropped' = dropped \union {f}
  /\ UNCHANGED <<log, sent, vac, reader, made, done>>

Plan(d) == /\ reader[d] = {} /\ Refs # {} /\ reader' = [reader EXCEPT ![d] = Refs]
           /\ UNCHANGED <<log, stored, sent, vac, made, dropped, done>>
Finish(d) == /\ reader[d] # {} /\ reader' = [reader EXCEPT ![d] = {}]
             /\ vac' = [v \in Vacuums |-> [vac[v] EXCEPT !.before = @ \ {d}]]
             /\ UNCHANGED <<log, stored, sent, made, dropped, done>>

----------------------------------------------------------------------------
(* Vacuum: Vacuum.run. It may sleep at any step; several may run at once. *)

Below(f, at) == f[1] < at
Look(v, at) ==   \* Vacuum._data, _below: how old the files are is politeness; any floor up to the end is safe
  LET to == Max(at, floor)
  IN /\ vac[v].pc = "idle" /\ at <= size
     /\ vac' = [vac EXCEPT ![v] = [pc |-> "looked", floor |-> to, before |-> {},
                                   left |-> {f \in stored : Below(f, to)} \ Refs]]
     /\ UNCHANGED <<log, stored, sent, reader, made, dropped, done>>
Raise(v) ==   \* the entry that says so
  /\ vac[v].pc = "looked" /\ vac' = [vac EXCEPT ![v].pc = "raised"]
  /\ IF floor < vac[v].floor THEN size' = size + 1 /\ floor' = vac[v].floor ELSE UNCHANGED <<size, floor>>
  /\ UNCHANGED <<pids, ids, last, pos, rows, start, stored, sent, reader, made, dropped, done>>
Busy == {d \in Readers : reader[d] # {}}
Sure(v) ==   \* Vacuum._take_out_data behind the floor: what is left now is left for ever
  /\ vac[v].pc = "raised"
  /\ vac' = [vac EXCEPT ![v].pc = "sure", ![v].left = @ \ Refs, ![v].before = Busy]
  /\ UNCHANGED <<log, stored, sent, reader, made, dropped, done>>
Waited(v) == vac[v].before = {}   \* file.delete.delay.ms: readers that had planned by then have finished
Delete(v, f) ==
  /\ vac[v].pc = "sure" /\ f \in vac[v].left /\ Waited(v)
  /\ stored' = stored \ {f} /\ vac' = [vac EXCEPT ![v].left = @ \ {f}]
  /\ UNCHANGED <<log, sent, reader, made, dropped, done>>
Rest(v) == /\ vac[v].pc # "idle" /\ vac' = [vac EXCEPT ![v] = Asleep]   \* it has ended, or was killed
           /\ UNCHANGED <<log, stored, sent, reader, made, dropped, done>>

----------------------------------------------------------------------------
(* What must hold. *)

Pairs == {<<m, n>> \in (1 .. Len(done)) \X (1 .. Len(done)) : m < n /\ done[m].q = done[n].q}
Next_(m, n) == <<m, n>> \in Pairs /\ \A k \in m + 1 .. n - 1 : <<m, k>> \notin Pairs
(* A batch is committed at most once, in order, and where the one before has ended: so the source is read once. *)
Once == \A p \in Pairs : done[p[1]].b < done[p[2]].b
Exact == \A p \in Pairs : Next_(p[1], p[2]) => done[p[2]].from = done[p[1]].to
First == \A n \in 1 .. Len(done) : (\A m \in 1 .. n - 1 : <<m, n>> \notin Pairs) => done[n].b = 0
(* A run that was replaced commits no more. *)
Fenced == \A p \in Pairs : \A k \in p[1] .. p[2] :
            done[k].q = done[p[1]].q /\ done[p[1]].r = done[p[2]].r => done[k].r = done[p[1]].r
(* Rows and positions are of one entry: all rows of what was committed are there, once, and no others of a query. *)
Whole == \A n \in 1 .. Len(done) : done[n].f # None => Cardinality({k \in 1 .. Len(rows) : rows[k] = done[n].f}) = 1
(* The log knows the last batch of each query, in one place. *)
Known == \A n \in 1 .. Len(done) : (\A k \in n + 1 .. Len(done) : <<n, k>> \notin Pairs) =>
           {last[x] : x \in {y \in Names : last[y].q = done[n].q}} \subseteq {Batch(done[n])}
           /\ Cardinality({y \in Names : last[y].q = done[n].q}) <= 1
(* No entry refers to a file that is deleted, and no reader meets one. *)
Kept == Refs \subseteq stored
Readable == \A d \in Readers : reader[d] \subseteq stored
(* What vacuum has deleted can be committed by no writer, however long it slept: so a live writer's files stay. *)
Refused == \A f \in made \ stored : f \in dropped \/ f[1] < floor
(* Nothing goes back. *)
Back == /\ size' >= size /\ floor' >= floor /\ start' >= start
        /\ \A x \in Names : ids'[x].epoch >= ids[x].epoch
        /\ SubSeq(rows', 1, Len(rows)) = rows
Forward == [][Back]_vars
=============================================================================
