"""Cycles in directed graphs: strongly connected components, and a short cycle through a given edge."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Edge:
    """``source`` came before ``target``."""

    source: int
    target: int
    kind: str
    """ww, wr, process or realtime."""
    why: str = ""
    weak: bool = False
    """It does not mean that ``source`` was committed first."""


class Graph:
    """Nodes are numbers; there may be several edges between two of them."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._edges: dict[int, list[Edge]] = defaultdict(list)
        self._nodes: dict[int, None] = {}
        for edge in edges:
            self._edges[edge.source].append(edge)
            self._nodes.setdefault(edge.source)
            self._nodes.setdefault(edge.target)

    def _from(self, node: int) -> Iterator[Edge]:
        return iter(self._edges.get(node, ()))

    def components(self) -> list[set[int]]:
        """The strongly connected components with more than one node (Tarjan 1972, without recursion)."""
        order: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        on_stack: set[int] = set()
        components: list[set[int]] = []
        for root in self._nodes:
            if root in order:
                continue
            work = [(root, self._from(root))]
            order[root] = low[root] = len(order)
            stack.append(root)
            on_stack.add(root)
            while work:
                node, edges = work[-1]
                for edge in edges:
                    target = edge.target
                    if target not in order:
                        order[target] = low[target] = len(order)
                        stack.append(target)
                        on_stack.add(target)
                        work.append((target, self._from(target)))
                        break
                    if target in on_stack:
                        low[node] = min(low[node], order[target])
                else:
                    work.pop()
                    if work:
                        parent = work[-1][0]
                        low[parent] = min(low[parent], low[node])
                    if low[node] == order[node]:
                        component = _pop_through(stack, node)
                        on_stack -= component
                        if len(component) > 1:
                            components.append(component)
        return components

    def inside(self, component: set[int]) -> Iterator[Edge]:
        """The edges between nodes of a component. Each of them lies on a cycle."""
        return (edge for node in sorted(component) for edge in self._from(node) if edge.target in component)

    def cycle(self, edge: Edge, component: set[int]) -> list[Edge]:
        """A shortest cycle through ``edge``, beginning with it."""
        came: dict[int, Edge] = {}
        queue = deque([edge.target])
        while edge.source not in came:
            for step in self._from(queue.popleft()):
                if step.target in component and step.target not in came and step.target != edge.target:
                    came[step.target] = step
                    queue.append(step.target)
        path = []
        node = edge.source
        while node != edge.target:
            path.append(came[node])
            node = came[node].source
        return [edge, *reversed(path)]

    def shortest_cycle(
        self,
        component: set[int],
        through: Callable[[Edge], bool],
        holds: Callable[[list[Edge]], bool] = bool,
        tries: int = 32,
    ) -> list[Edge] | None:
        """The shortest of a few cycles through edges that ``through`` picks, among those that ``holds`` picks."""
        best: list[Edge] | None = None
        edges = (edge for edge in self.inside(component) if through(edge))
        for edge, _ in zip(edges, range(tries), strict=False):
            cycle = self.cycle(edge, component)
            if holds(cycle) and (best is None or len(cycle) < len(best)):
                best = cycle
        return best


def _pop_through(stack: list[int], node: int) -> set[int]:
    component = set()
    while True:
        component.add(stack.pop())
        if node in component:
            return component
