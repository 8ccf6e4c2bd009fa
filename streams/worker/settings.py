"""Settings of a worker; values come from environment variables."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.policy import Policy, PolicyError, read_policy
from schemas.settings.environment import SettingsError

ENV_PREFIX = "LOADSTREAM_WORKER_"


class WorkerSettings(BaseSettings):
    """Settings of one worker process; environment variables `LOADSTREAM_WORKER_<FIELD>`.

    `schemas.settings.connection.KafkaSettings` has the settings of the connection to Kafka.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
    )

    data_dir: Path = Path(".cache/worker")
    """Directory of Faust's files, which may be deleted while the worker is stopped."""
    stages: Literal["all", "aggregate", "cluster"] = "all"
    """Stages that this worker runs. Workers of `all` and of one stage have different consumer
    groups and take partitions from each other: stop all of one kind before you start the other."""
    clock: Literal["wall", "external"] = "wall"
    """`wall`: the worker writes the time of its partitions to topic `clock`. `external`: another
    program writes the time."""
    tick_interval_s: Annotated[float, Field(gt=0, le=5)] = 1.0
    """Seconds between two clock records. Reservations and back-offs end at ticks."""
    clock_hold_s: Annotated[float, Field(ge=0, le=3600)] = 60.0
    """Longest time that a clock record waits for earlier confirmations to be read. After that,
    reservations may end although their confirmations exist."""
    batch_records: Annotated[int, Field(ge=1, le=100_000)] = 500
    """Most records applied at once. Larger batches cost less per record and delay their first
    records longer."""
    batch_bytes: Annotated[int, Field(ge=1)] = 1024 * 1024
    """Size at which a batch is complete."""
    batch_wait_ms: Annotated[float, Field(ge=0, le=1000)] = 4.0
    """Longest time that a record waits for further records. Records that need no quick answer, such
    as metrics and outcomes, wait up to 50 ms or this time, whichever is longer."""
    session_timeout_s: Annotated[float, Field(ge=6, le=90)] = 6.0
    """A worker without heartbeats for this time loses its partitions. Kafka allows at least 6
    (`group.min.session.timeout.ms`), Faust at most 90."""
    heartbeat_interval_s: Annotated[float, Field(gt=0, le=30)] = 2.0
    """Seconds between two heartbeats; at most a third of the session timeout."""
    standby_replicas: Annotated[int, Field(ge=0, le=10)] = 0
    """Number of other workers with a copy of a partition's rows, for a fast takeover. Must be the
    same in all workers. Each copy needs the memory of the rows."""
    checkpoint_interval_s: Annotated[float, Field(ge=0, le=259_200)] = 600.0
    """Log time between two checkpoints of a partition. A replay can start at a checkpoint. 0: no
    checkpoints."""
    stop_timeout_s: Annotated[float, Field(ge=1, le=3600)] = 20.0
    """Longest time between a signal to stop and the end of the process. Keep it shorter than the
    time after which the parent process kills the worker."""
    fetch_wait_ms: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Longest time that a broker delays an empty answer; a tenth of it on the embedded broker."""
    metrics_host: str = ""
    """Address of `/metrics`, `/healthz` and `/readyz`, such as 127.0.0.1; they have no login. None:
    all addresses."""
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port of `/metrics`, `/healthz` and `/readyz`. 0: none."""
    ready_lag_records: Annotated[int, Field(ge=0)] = 20_000
    """Most records that wait to be applied while the worker is ready."""
    collect_file: Path | None = None
    """Policy file whose section `collect` applies to a cluster until its first policy. None:
    Koordinator's defaults."""

    def find_ineffective(self) -> dict[str, str]:
        """Return the reason by variable that is set and has no effect."""
        reasons: dict[str, str] = {}

        def add_reason(reason: str, *fields: str) -> None:
            for field in fields:
                if field in self.model_fields_set:
                    reasons.setdefault(_name_variable(field), reason)

        if self.stages != "all":
            stages = f"{_name_variable('stages')} is {self.stages}"
            if self.stages == "cluster":
                add_reason(stages, "collect_file")
            else:
                add_reason(
                    stages, "clock", "tick_interval_s", "clock_hold_s", "checkpoint_interval_s"
                )
        if self.clock == "external":
            add_reason(f"{_name_variable('clock')} is external", "tick_interval_s", "clock_hold_s")
        if not self.metrics_port:
            add_reason(f"{_name_variable('metrics_port')} is 0", "ready_lag_records")
        return reasons

    def make_data_dir(self) -> None:
        """Create the directory of Faust's files; raises SettingsError if it is not writable."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            problem = None if os.access(self.data_dir, os.W_OK | os.X_OK) else "it is not writable"
        except OSError as error:
            problem = error.strerror
        if problem is not None:
            raise SettingsError(
                f"{_name_variable('data_dir')}={self.data_dir}: {problem}; expected a writable directory"
            )

    def read_collect_policy(self) -> Policy | None:
        """Return the policy in the collect file, or None; raises SettingsError if it is invalid."""
        if self.collect_file is None:
            return None
        name = f"{_name_variable('collect_file')}={self.collect_file}"
        try:
            return read_policy(self.collect_file.read_bytes())
        except OSError as error:
            raise SettingsError(
                f"{name} cannot be read: {error.strerror}; expected a policy file"
            ) from None
        except PolicyError as error:
            raise SettingsError(
                "\n".join(f"{name}: {problem}" for problem in error.problems)
            ) from None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = []
        # In milliseconds, because 3 * 2.1 > 6.3 as floats.
        if 3 * round(self.heartbeat_interval_s * 1000) > round(self.session_timeout_s * 1000):
            problems.append(
                f"{_name_variable('heartbeat_interval_s')} is {self.heartbeat_interval_s:g} s; expected at most "
                f"a third of {_name_variable('session_timeout_s')}, which is {self.session_timeout_s:g} s"
            )
        if 0 < self.checkpoint_interval_s < 1:
            problems.append(
                f"{_name_variable('checkpoint_interval_s')} is {self.checkpoint_interval_s:g} s; expected 0 for "
                "no checkpoints, or at least 1"
            )
        if self.metrics_host and not self.metrics_port:
            problems.append(
                f"{_name_variable('metrics_host')} is set, but {_name_variable('metrics_port')} is 0; expected a port"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self


def _name_variable(field: str) -> str:
    return ENV_PREFIX + field.upper()
