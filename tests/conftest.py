"""Brokers and a Kubernetes control plane for tests.

`broker` runs a test twice: on the embedded broker and on a real Kafka, each with all topics and no
records. `kafka` is the real server, one per process of the run. Without Java or Maven, tests on the real
server are skipped; with LOADSTREAM_REQUIRE_ALL=1, as in CI, they fail instead.

`control_plane` is a real API server with etcd, controllers and kwok, one for the whole run, built with
Go from `tests/control_plane`; `namespace` is a namespace of it for one test. Without Go such a test is
skipped in the same way.

A test that needs a broker has the mark `broker` and runs first: it often waits, while other processes of
the run compute. A test without the mark cannot start a broker.
"""

import asyncio
import gc
import itertools
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadgroup import LoadGroupScheduling  # type: ignore[import-untyped]

from connectors.brokers.distribution import KafkaUnavailable
from connectors.brokers.embedded import EmbeddedBroker
from connectors.brokers.server import KafkaServer
from connectors.brokers.storage import Broker
from connectors.kafka.admin import create_topics, find_topics
from connectors.kafka.client import Connection, connect
from connectors.kafka.extents import read_extents
from connectors.kafka.topics import compare_all, expected_topics
from schemas.settings.connection import ENV_PREFIX, KafkaSettings
from simulation.control_plane import cluster
from simulation.control_plane.build import ControlPlaneUnavailable, build
from simulation.control_plane.process import Part
from simulation.control_plane.server import ControlPlane
from tests.shared_servers import KAFKAS, SharedServers

# No deadlines: machines are slow and shared, and nothing here is about time. `ci` draws the same examples
# in every run; HYPOTHESIS_PROFILE names the profile.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
# `quick` draws few, also where a test names its own number.
_QUICK_EXAMPLES = 10
settings.register_profile("quick", settings.get_profile("ci"), max_examples=_QUICK_EXAMPLES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

_namespaces = itertools.count(1)

#: Libraries whose log levels are set by commands.
_SET_UP_LOGS = ("aiokafka", "aiohttp", "asyncio")
#: Fixtures that start a broker.
_BROKERS = {"embedded", "broker", *KAFKAS}
#: File whose broker takes longest to start, so one process runs all of its tests.
SECURED_FILE = "tests/connectors/kafka/test_security.py"
#: Part of the id of every test on the control plane: one process runs them all on one control plane.
ON_CONTROL_PLANE = "control-plane"
#: One of this number of processes takes tests from the end of the order, where tests compute.
COMPUTES_EVERY = 4
#: The Go module of the control plane.
CONTROL_PLANE_MODULE = Path(__file__).parent / "control_plane"


def pytest_configure(config: pytest.Config) -> None:
    """Give child processes the default handling of signals, and stop shared servers early.

    A child inherits ignored signals. Shells ignore SIGINT in the background, `nohup` ignores SIGHUP.
    """
    config.pluginmanager.register(SharedServers())
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection() -> None:
    """Disable garbage collection during imports, which saves a third of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # others read groups and marks in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark tests that need a broker, and put the longest tests first."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & set(KAFKAS):
            item.add_marker("kafka")
        if fixtures & _BROKERS or item.get_closest_marker("kafka"):
            item.add_marker("broker")
        if "control_plane" in fixtures:
            item.add_marker("control_plane")
        if settings.get_current_profile_name() == "quick":
            _draw_fewer(item)
    yield
    items.sort(key=_place_in_order)


def _place_in_order(item: pytest.Item) -> int:
    """Return the sort key: tests that take long come first, since many wait while others compute."""
    if item.get_closest_marker("control_plane"):
        return -1  # one process runs them all, so it begins at once
    broker = item.get_closest_marker("broker") is not None
    long = item.get_closest_marker("slow") or "secured" in getattr(item, "fixturenames", ())
    return (0 if long else 1) if broker else (2 if long else 3)


class Groups(LoadGroupScheduling):  # type: ignore[misc]  # xdist exports no types
    """Schedules each test separately, except for the tests of the secured broker and of the control plane.

    xdist uses a suffix of ids, which pytest 9.2 does not let it set.

    Tests that wait for brokers come first and leave cores idle, so some processes begin at the end.
    """

    def _assign_work_unit(self, node: Any) -> None:
        if self.nodes.index(node) % COMPUTES_EVERY == COMPUTES_EVERY - 1:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        if ON_CONTROL_PLANE in nodeid.partition("[")[2]:
            return ON_CONTROL_PLANE
        return SECURED_FILE if nodeid.startswith(SECURED_FILE) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler of tests for `make test`."""
    return Groups(config, log) if config.getvalue("dist") == "loadgroup" else None


def _draw_fewer(item: pytest.Item) -> None:
    """Limit the number of examples of a test with its own number to that of the profile."""
    for holder, name in (
        (getattr(item, "function", None), "_hypothesis_internal_use_settings"),
        (getattr(item, "cls", None), "settings"),  # state machines
    ):
        attribute = getattr(holder, name, None)
        if isinstance(attribute, settings):
            fewer = min(attribute.max_examples, _QUICK_EXAMPLES)
            setattr(holder, name, settings(attribute, max_examples=fewer))


@dataclass(frozen=True)
class RunningBroker:
    """A broker that a test may fill."""

    kind: Literal["embedded", "kafka"]
    settings: KafkaSettings

    @property
    def bootstrap_servers(self) -> str:
        return self.settings.bootstrap_servers


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of the user who runs the tests."""
    for name in list(os.environ):
        if name.upper().startswith(ENV_PREFIX):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Restore logging: a command in a test logs to a stream that is closed after the test."""
    root, libraries = logging.root, [logging.getLogger(name) for name in _SET_UP_LOGS]
    handlers, level = list(root.handlers), root.level
    levels = [library.level for library in libraries]
    yield
    root.handlers = handlers
    root.setLevel(level)
    for library, before in zip(libraries, levels, strict=True):
        library.setLevel(before)
    logging.captureWarnings(capture=False)


@pytest.fixture(autouse=True)
def _brokers_only_where_marked(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Require the mark of a test that starts a broker, since `make test-quick` excludes it."""

    def refuse(self: object) -> NoReturn:
        pytest.fail("a test that starts a broker is marked with @pytest.mark.broker")

    if request.node.get_closest_marker("broker") is None:
        monkeypatch.setattr(EmbeddedBroker, "start", refuse)
        monkeypatch.setattr(Broker, "launch", refuse)


@pytest.fixture(autouse=True)
def _control_planes_only_where_marked(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Require the mark of a test that starts a control plane, since `make test-quick` excludes it."""

    def refuse(self: object) -> NoReturn:
        pytest.fail("a test that starts a control plane is marked with @pytest.mark.control_plane")

    if request.node.get_closest_marker("control_plane") is None:
        monkeypatch.setattr(Part, "launch", refuse)


@contextmanager
def skipped_where_unavailable() -> Iterator[None]:
    """Skip the test if this machine cannot run a real server, unless everything is required."""
    try:
        yield
    except (KafkaUnavailable, ControlPlaneUnavailable) as error:
        if os.environ.get("LOADSTREAM_REQUIRE_ALL") == "1":
            raise
        pytest.skip(f"no real server: {error}")


@contextmanager
def running(server: KafkaServer, *, stopped: bool = False) -> Iterator[KafkaServer]:
    """Run a server; the test is skipped if this machine cannot run it.

    The server is killed at the end, which takes half a second of CPU and three seconds less than a clean
    stop. A test that restarts a broker on the same records needs `stopped`.
    """
    with skipped_where_unavailable():
        server.start()
    try:
        yield server
    finally:
        if not stopped:
            for member in server.members:
                member.kill()
        server.stop()


#: Records of the tests may be older than the retention time, so the broker does not delete old records.
KEEPS_OLD_RECORDS = {
    "log.initial.task.delay.ms": "86400000",
    "log.retention.check.interval.ms": "86400000",
}


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A real Kafka with one broker for this process; it keeps the records of earlier tests."""
    directory = tmp_path_factory.mktemp("kafka")
    with running(KafkaServer(directory, properties=KEEPS_OLD_RECORDS)) as server:
        yield server


@pytest.fixture(scope="session")
def control_plane_binary() -> Path:
    """The program of the control plane; the test is skipped if it cannot be built."""
    with skipped_where_unavailable():
        return build(CONTROL_PLANE_MODULE)


@pytest.fixture(scope="session", params=[ON_CONTROL_PLANE])  # the id puts tests into one process
def control_plane(
    control_plane_binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A real control plane with kwok for this run; tests use `namespace`."""
    directory = tmp_path_factory.mktemp("control-plane")
    with ControlPlane(control_plane_binary, directory) as server:
        yield server


@pytest.fixture
async def namespace(control_plane: ControlPlane) -> AsyncIterator[str]:
    """A namespace for this test in a cluster without nodes; all is deleted at the end.

    Parts that the test has stopped are started again.
    """
    name = f"test-{next(_namespaces)}"
    async with control_plane.api() as server:
        await cluster.create_namespace(server, name)
        yield name
        for part in control_plane.parts:
            await asyncio.to_thread(part.start)
        await cluster.delete_namespace(server, name)
        await cluster.delete_all(server, "/api/v1/nodes")


@pytest.fixture
def embedded() -> Iterator[RunningBroker]:
    """An embedded broker for this test."""
    with EmbeddedBroker() as server:
        yield RunningBroker("embedded", server.settings)


def patient(settings: KafkaSettings) -> KafkaSettings:
    """Return settings with a longer timeout, for brokers that share few cores with other tests."""
    return settings.model_copy(update={"connect_timeout_s": 60.0})


@pytest.fixture
def clean_kafka(kafka: KafkaServer) -> RunningBroker:
    """The real Kafka with all topics and no records."""
    connection = connect(patient(kafka.settings))
    # Creating all topics costs 2 s of CPU, and a test uses a few of them.
    clear(connection, keep=_unused_topics(connection))
    create_topics(connection, expected_topics(kafka.settings))
    return RunningBroker("kafka", kafka.settings)


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest) -> RunningBroker:
    """The test runs on the embedded broker and on a real Kafka."""
    name = "embedded" if request.param == "embedded" else "clean_kafka"
    return request.getfixturevalue(name)  # type: ignore[no-any-return]  # pytest cannot know


def _unused_topics(connection: Connection) -> set[str]:
    """Return the topics that are as expected and never had a record or a committed offset."""
    expected = expected_topics(connection.settings)
    topics = find_topics(connection, [topic.name for topic in expected])
    findings = compare_all(expected, topics)
    extents = read_extents(connection, {name: topic.partitions for name, topic in topics.items()})
    unused = {
        name
        for name in topics
        if not findings.get(name) and not any(e.next_offset for e in extents[name])
    }
    listed = connection.admin.list_consumer_groups().result().valid
    for group in [group.group_id for group in listed]:
        request = [ConsumerGroupTopicPartitions(group)]
        (answer,) = connection.admin.list_consumer_group_offsets(request).values()
        unused -= {partition.topic for partition in answer.result().topic_partitions}
    return unused


def clear(
    connection: Connection, timeout_s: float = 120.0, keep: Collection[str] = frozenset()
) -> None:
    """Delete all other topics except Kafka's own, and with them the offsets of consumer groups."""
    deadline = time.monotonic() + timeout_s
    while names := [
        name
        for name in connection.admin.list_topics(timeout=timeout_s).topics
        if name[:2] != "__" and name not in keep
    ]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"topics are still there after {timeout_s} s: {names}")
        for answer in connection.admin.delete_topics(names).values():
            answer.exception()  # a topic that is already being deleted is no error
        time.sleep(0.05)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory for this test, in which no local broker is announced."""
    monkeypatch.setenv("LOADSTREAM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def has_ipv6() -> bool:
    """Whether the loopback interface has an IPv6 address."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def create_named(settings: KafkaSettings, *names: str) -> None:
    """Create only these topics, for a test with its own broker."""
    missing = tuple(topic for topic in expected_topics(settings) if topic.name in names)
    create_topics(connect(settings), missing)


def delete_topic(connection: Connection, name: str) -> None:
    """Delete a topic and wait until all brokers have deleted it."""
    for answer in connection.admin.delete_topics([name]).values():
        answer.result()
    assert eventually(lambda: not find_topics(connection, [name]))


def eventually(holds: Callable[[], bool], timeout_s: float = 60.0) -> bool:
    """Return whether the condition becomes true in time."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
