"""Places tasks in layers, from left to right by what they wait for. Pure and deterministic."""

from collections.abc import Sequence

from msgspec import Struct

from teamwright.core.data.tasks import Task, TaskId

WIDTH, HEIGHT = 176, 44  # of a node
GAP_X, GAP_Y = 56, 14
MOST = 300  # open tasks, up to which all are drawn


class Node(Struct, frozen=True):
    id: str
    x: int
    y: int


class GraphEdge(Struct, frozen=True, rename={"from_": "from"}):
    from_: str
    to: str
    path: str  # of an SVG


class Graph(Struct, frozen=True):
    width: int
    height: int
    nodes: tuple[Node, ...] = ()
    edges: tuple[GraphEdge, ...] = ()


def draw(tasks: Sequence[Task], blocked: dict[TaskId, tuple[TaskId, ...]], chosen: TaskId | None = None) -> Graph:
    """`blocked` says what each task waits or waited for. If there are too many tasks, only paths through `chosen` are
    drawn."""
    known = {task.id for task in tasks}
    waits = {id: tuple(sorted(set(blocked.get(id, ())) & known)) for id in sorted(known)}
    if sum(task.status != "completed" for task in tasks) > MOST:
        keep = _paths(waits, chosen) if chosen in known and chosen is not None else set[TaskId]()
        waits = {id: tuple(b for b in before if b in keep) for id, before in waits.items() if id in keep}
    layers = _ordered(_layers(waits), waits)
    nodes = {
        id: Node(str(id), column * (WIDTH + GAP_X), row * (HEIGHT + GAP_Y))
        for column, layer in enumerate(layers)
        for row, id in enumerate(layer)
    }
    edges = [_edge(nodes[before], nodes[id]) for id, all_before in waits.items() for before in all_before]
    tallest = max((len(layer) for layer in layers), default=0)
    width, height = len(layers) * (WIDTH + GAP_X) - GAP_X, tallest * (HEIGHT + GAP_Y) - GAP_Y
    return Graph(max(0, width), max(0, height), tuple(nodes.values()), tuple(edges))


def _layers(waits: dict[TaskId, tuple[TaskId, ...]]) -> list[list[TaskId]]:
    """Each task as far left as its blockers allow. The store has no cycles; one would end in the last layer."""
    depth: dict[TaskId, int] = {}
    left = dict(waits)
    while left:
        ready = [id for id, before in left.items() if all(b in depth for b in before)] or list(left)
        for id in ready:
            depth[id] = max((depth[b] + 1 for b in left[id] if b in depth), default=0)
        for id in ready:
            del left[id]
    layers: list[list[TaskId]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for id in sorted(depth):
        layers[depth[id]].append(id)
    return layers


def _ordered(layers: list[list[TaskId]], waits: dict[TaskId, tuple[TaskId, ...]]) -> list[list[TaskId]]:
    """Each task next to the middle of its blockers, so that few edges cross."""
    row: dict[TaskId, float] = {}
    out: list[list[TaskId]] = []

    def middle(id: TaskId) -> tuple[float, TaskId]:
        before = [row[b] for b in waits[id] if b in row]
        return (sum(before) / len(before) if before else float(id), id)

    for layer in layers:
        placed = sorted(layer, key=middle)
        row.update({id: float(n) for n, id in enumerate(placed)})
        out.append(placed)
    return out


def _paths(waits: dict[TaskId, tuple[TaskId, ...]], chosen: TaskId) -> set[TaskId]:
    """All tasks that it waits for, and all that wait for it."""
    after: dict[TaskId, list[TaskId]] = {}
    for id, before in waits.items():
        for b in before:
            after.setdefault(b, []).append(id)
    found = {chosen}
    for step in (waits, after):
        todo = [chosen]
        while todo:
            new = [id for id in step.get(todo.pop(), ()) if id not in found]
            found.update(new)
            todo += new
    return found


def _edge(start: Node, end: Node) -> GraphEdge:
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT // 2, end.x, end.y + HEIGHT // 2
    bend = max(GAP_X // 2, (x2 - x1) // 2)
    return GraphEdge(start.id, end.id, f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}")
