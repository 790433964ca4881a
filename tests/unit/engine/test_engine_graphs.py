"""Which graphs are kept. Here a graph is the work itself, as it is without a GPU."""

from trainsmith.engine.cuda.graphs import GraphCache


def test_the_least_recently_used_graph_is_dropped():
    """Guards against memory that grows with every size, and against dropping what is used all the time."""
    cache, made = GraphCache(most=2, captures=False), []

    def get(key):
        cache.get(key, lambda: None, lambda: made.append(key)).replay()

    for key in ("a", "b", "a", "c", "a"):
        get(("owner", key))
    assert made == [("owner", key) for key in ("a", "b", "a", "c", "a")]
    assert len(cache) == 2
    assert cache.holds(("owner", "a")) and not cache.holds(("owner", "b"))


def test_an_owners_graphs_go_with_it():
    """Guards against graphs that outlive the tensors they read."""
    cache = GraphCache(captures=False)
    for owner in ("one", "two"):
        cache.get((owner, 1), lambda: None, lambda: None)
    cache.forget("one")
    assert not cache.holds(("one", 1)) and cache.holds(("two", 1))
