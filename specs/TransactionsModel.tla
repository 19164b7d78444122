------------------------- MODULE TransactionsModel -------------------------
(* A small model of Transactions, to which its clients are added. They may do anything that the rules let them do, but
   one thing: the end of a prepared transaction is the one that the database has decided, and it is not forced. *)
EXTENDS Transactions

CONSTANTS MaxPids, MaxEpoch, MaxNumber, MaxRecords, Twice

Numbers == 0 .. MaxNumber
Records == Cardinality({<<d, o>> \in Parts \X (1 .. 20) : o <= Len(part[d]) /\ part[d][o].k = "data"})
Decides(p, commit) == prod[p].st = "Prepared" => (<<p, prod[p].token>> \in book) = commit
Token_(p) == <<p, prod[p].token>>

Commits ==   \* the database commits; a decision for a token is made by the epoch that is not fenced
  \E p \in Pids : /\ prod[p].st = "Prepared" /\ book' = book \union {Token_(p)} /\ book' # book
                  /\ UNCHANGED <<named, prod, part, opened, aborted, offsets, asked, ended, carried, tokens>>
Takes == \E x \in Names, e \in 0 .. MaxEpoch, keep \in BOOLEAN :
  /\ named[x] = 0 => Len(prod) < MaxPids
  /\ named[x] # 0 => (keep \/ prod[named[x]].st # "Prepared")
  /\ \E p \in 1 .. MaxPids : Take(x, p, e, keep)
TimesOut(p) == p \in Pids /\ \E e \in 0 .. prod[p].epoch, n \in Numbers : Expire(p, e, n)
Requests == \E p \in Pids, n \in Numbers : \E e \in 0 .. prod[p].epoch :
  \/ \E where \in SUBSET Parts \ {{}} : /\ Records + Cardinality(where) <= MaxRecords
                                       /\ (Twice \/ where \intersect prod[p].wrote = {} \/ prod[p].num # n)
                                       /\ Write(p, e, n, where)
  \/ \E g \in Groups : <<p, n, g>> \notin carried /\ Offset(p, e, n, g)
  \/ prod[p].epoch < MaxEpoch /\ Prepare(p, e, n)
  \/ \E commit \in BOOLEAN : Decides(p, commit) /\ End(p, e, n, commit)
Others == \/ \E d \in Parts : Records < MaxRecords /\ Alone(d)
          \/ \E g \in Groups : Stands(g) = 0 /\ OffsetAlone(g)
          \/ \E x \in Names : Forget(x)
Next == Takes \/ (\E p \in Pids : TimesOut(p)) \/ Requests \/ Others \/ Commits
Spec == Init /\ [][Next]_vars

(* Liveness. Time passes, and a process that watches says so. A transaction that is not prepared ends by itself, and
   with it the LSO goes on to the end, unless another transaction begins there. *)
Live == Spec /\ \A p \in 1 .. MaxPids : WF_vars(TimesOut(p))
Ongoing(p, n) == p <= Len(prod) /\ prod[p].st = "Ongoing" /\ prod[p].num = n
Ends == \A p \in 1 .. MaxPids, n \in Numbers : Ongoing(p, n) ~> ~Ongoing(p, n)
Reaches == \A d \in Parts : []<>(Lso(d) = Len(part[d]) + 1 \/ \E p \in Pids : prod[p].st = "Prepared")
=============================================================================
