# SPDX-License-Identifier: Apache-2.0
"""Whether a version that has begun to run proves itself: it must commit epochs and keep up, for a while. Pure.

It has time for that, which begins anew whenever something moves: its driver is there, its stores are being rebuilt.
The observations are remembered from look to look only; an operator that starts anew gives a version its time again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.pods import FAILED, RUNNING, DriverState
from streamapp_operator.driver.progress import epochs_of, lag_of
from streamapp_operator.driver.restart_budget import USERS
from streamapp_operator.manifest.versions import HEALTHY, REJECTED, Verdict

PROOF_SECONDS = 10.0
"""Seconds for which all must be well."""
_LONGEST_REASON = 500


@dataclass(frozen=True)
class Look:
    """The observation of the version at one moment."""

    outdated: bool
    """Whether there still is a driver of the version before it."""
    driver: DriverState
    behind: int = 0
    """Executors that are of the version before it."""
    live: Answer | None = None
    """The driver's answer about itself."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Records that wait, by sub-topology."""

    @property
    def phase(self) -> str:
        """The driver's own word; empty when it says nothing."""
        return self.live.phase if self.live is not None and self.driver.state == RUNNING else ""

    @property
    def lag(self) -> int | None:
        found = lag_of(self.live or Answer())
        return None if found is None else int(found["total"])

    @property
    def restored(self) -> int:
        """Changelog offsets that the driver's stores have passed."""
        return sum(store.done for store in (self.live or Answer()).restores.values())

    @property
    def epochs(self) -> Mapping[str, int]:
        """The epochs that each sub-topology has committed since the driver began."""
        return epochs_of(self.live or Answer())

    def idle_parts(self, since: Mapping[str, int]) -> list[str]:
        """Sub-topologies that have work, and have not committed an epoch since they had committed so many."""
        return sorted(name for name in self.waiting if self.epochs.get(name, 0) <= since.get(name, 0))


@dataclass(frozen=True)
class Trial:
    """The observations so far."""

    of: str
    """The version, and the attempt at it."""
    since: datetime
    """When something moved last."""
    most_lag: int = 0
    restored: int = 0
    behind: int = 0
    well_since: datetime | None = None
    lag_while_well: int = 0
    """The largest lag since then."""
    epochs: Mapping[str, int] = field(default_factory=dict)
    """By sub-topology: the epochs at the last look before all had been well for PROOF_SECONDS."""


def judge(look: Look, trial: Trial | None, of: str, seconds: float, now: datetime) -> tuple[Verdict | None, Trial]:
    """
    Args:
        look: of now.
        trial: the one that the last call returned.
        of: the version, and the attempt at it; of another one nothing counts.
        seconds: that it may take while nothing moves.
        now: the time.

    Returns:
        The verdict, None while it is open, and the trial for the next call.
    """
    if trial is None or trial.of != of or look.outdated:
        trial = Trial(of, now)
    if look.outdated:
        return None, trial
    if look.restored > trial.restored or look.behind < trial.behind:
        trial = replace(trial, since=now)
    lag = look.lag or 0
    amiss = _amiss(look, trial)
    since = trial.since if amiss else trial.well_since or now
    if not amiss and (now - since).total_seconds() >= PROOF_SECONDS:
        amiss = _stands_still(look, trial)
        if not amiss:
            return Verdict(HEALTHY), trial
        trial = replace(trial, lag_while_well=max(trial.lag_while_well, lag))
    elif amiss:
        trial = replace(trial, well_since=None)
    else:
        before = trial.lag_while_well if trial.well_since is not None else 0
        trial = replace(trial, well_since=since, lag_while_well=max(before, lag), epochs=look.epochs)
    trial = replace(trial, most_lag=max(trial.most_lag, lag), restored=look.restored, behind=look.behind)
    if look.driver.cause in USERS and look.phase != "Running":
        return Verdict(REJECTED, _short(f"its driver ended: {look.driver.error}")), trial
    if amiss and (now - since).total_seconds() > seconds:
        return Verdict(REJECTED, _short(f"within {seconds:.0f} s {amiss}")), trial
    return None, trial


def _amiss(look: Look, trial: Trial) -> str:
    """The reason that still speaks against the version; empty when there is none."""
    if look.phase != "Running":
        error = (look.live.error if look.live is not None else "") or look.driver.error
        state = look.driver.message if look.driver.state == FAILED or not look.phase else f"it is {look.phase}"
        return f"its driver did not come to run ({error or state})"
    if look.behind:
        return f"{look.behind} executors were not replaced"
    if look.lag is None:
        return "its lag did not become known"
    if look.lag == 0:
        return ""
    if idle := look.idle_parts({}):
        return f"sub-topology '{idle[0]}' committed no epoch"
    # A version that is well has fewer records to do than at some time before, even when others come in.
    return "" if look.lag < trial.most_lag else f"its lag did not fall below {look.lag} records"


def _stands_still(look: Look, trial: Trial) -> str:
    """Why a version that has been well for long enough does not keep up yet; empty when it does. A version that hangs
    after the first epoch also has fewer records to do than before it, for a while."""
    if look.lag == 0:
        return ""
    if idle := look.idle_parts(trial.epochs):
        return f"sub-topology '{idle[0]}' committed no further epoch, although {look.waiting[idle[0]]} records wait"
    return "" if (look.lag or 0) < trial.lag_while_well else f"its lag rose to {look.lag} records"


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"
