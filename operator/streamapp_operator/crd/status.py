# SPDX-License-Identifier: Apache-2.0
"""The schema of a StreamApp's status, which the operator writes."""

from __future__ import annotations

from typing import Any

from streamapp_operator.manifest.change_classes import CLASSES

Schema = dict[str, Any]
LARGEST_NUMBER = 2**48
"""A larger number cannot be a real count; sums of smaller ones fit into the 64 bits of a status."""


def status_schema() -> Schema:
    return _object(
        "The observed state of the app, and the next actions of the operator. Only the operator writes it.",
        observedGeneration=_integer("The generation of the spec that this status is about."),
        phase=_text(
            "One word: Pending, Starting, Restoring, Running, Scheduled, Completed, Restarting, Suspending, Suspended, "
            "Stopped, Failed, Invalid or Deleting."
        ),
        conditions=_conditions(),
        target=_object(
            "The state that the operator has decided to bring about; written before it acts.",
            generation=_integer("The generation of the spec it comes from."),
            fingerprint=_text("The fingerprint of all objects that are wanted."),
            changes=_list("The differences from the target before, and their consequences.", _text("One change.")),
        ),
        plan=_object(
            "The cost of the last change of the spec; written before anything is done.",
            None,
            generation=_integer("The generation of the spec it is about."),
            outcome=_text(
                "Applied; Refused: nothing was done, see the condition TopologyValid; "
                "or RolledBack: it was taken back, see the condition Degraded."
            ),
            **{"class": _text(f"The heaviest of its changes: {', '.join(CLASSES)}.")},
            why=_text("Why it was refused or taken back, and the fix."),
            restarts=_text("The pods that restart: Nothing, Executors (one after the other) or Driver."),
            changes=_list(
                "The fields that change.",
                _object(
                    "One field.",
                    None,
                    **{"class": _text("The class of this change.")},
                    field=_text("Its path in the spec; of a node, topology[NAME]."),
                    change=_text("The value before and the value after."),
                ),
            ),
            state=_list(
                "The consequence for each store.",
                _object(
                    "One store.",
                    name=_text("Its name; where a position would be lost, that of the sub-topology."),
                    outcome=_text("Kept, New, Unused, or Refused: the change does not fit its state."),
                    what=_text("The outcome in words, with the fix."),
                ),
            ),
        ),
        version=_text("The version that is to run: the name of a ControllerRevision."),
        healthyVersion=_text("The version that has proved itself last: it committed epochs and kept up."),
        failures=_object(
            "How often the driver has failed.",
            of=_text("The version, and the restart, that the failures are counted for."),
            counts=_map("Failures by cause.", _integer("Failures.")),
            message=_text("The message of the last failure."),
            time={**_text("The time of the last failure."), "format": "date-time"},
            pod=_text("The uid of the driver's pod that was counted last."),
            seen=_integer("Ends of that pod's container that are counted."),
        ),
        replicas=_integer("Executors that run."),
        desiredReplicas=_integer("Executors that are wanted."),
        recommendedReplicas=_integer("Executors that autoscaling would ask for, where it only recommends."),
        autoscaling=_object(
            "The memory of the autoscaler.",
            wantedReplicas=_integer("Executors that it has decided on; kept while the app is suspended."),
            recordsPerSecond=_float("Records that one executor processes while it works."),
            lastChange=_object(
                "The last change of the number of executors.",
                None,
                **{"from": _integer("The number before.")},
                to=_integer("The number after."),
                time={**_text("The time of the change."), "format": "date-time"},
                why=_text("The reason."),
                capacity=_integer("Records per second that the app could process before, as far as known."),
            ),
            mostReplicas=_integer("More executors than these have made the app no faster."),
            mostUntil={**_text("The time before which no more are tried."), "format": "date-time"},
        ),
        selector=_text("Label selector of the executors' pods, for autoscalers."),
        run=_object(
            "With `run: untilCaughtUp`: the last run, and when the next one begins.",
            job=_text("The Job of the last run."),
            result=_text("Running, Completed or Failed."),
            startedAt={**_text("The time when it began."), "format": "date-time"},
            endedAt={**_text("The time when it ended."), "format": "date-time"},
            records=_integer("Records of the sources that it has processed.", "int64"),
            nextAt={**_text("The time when the next run begins, with `schedule`."), "format": "date-time"},
        ),
        lag=_object(
            "Committed records of the sources that are not processed yet.",
            total=_integer("The lag of all topics.", "int64"),
            topics=_map("By topic.", _integer("Records.", "int64")),
        ),
        subTopologies=_list(
            "Each query of the app.",
            _object(
                "One query.",
                ["name"],
                name=_text("Its name."),
                epoch=_integer("The last committed epoch; -1 for none since the driver started.", "int64"),
                watermark=_text("The event time that it has reached."),
            ),
            key="name",
        ),
        restore=_object(
            "Stores that are being rebuilt from their changelogs.",
            progress=_text("Share and remaining time, for people."),
            done=_integer("Changelog offsets passed.", "int64"),
            total=_integer("Changelog offsets to pass.", "int64"),
            etaSeconds=_integer("Expected seconds until all stores are there.", "int64"),
        ),
        lastError=_object(
            "The last thing that went wrong. It goes when the app has been well ten minutes later.",
            message=_text("The problem, and the way out."),
            node=_text("The node of the topology it happened in."),
            record=_text("The record it happened with: topic, partition, offset."),
            time={**_text("The time of the error."), "format": "date-time"},
            told=_map(
                "The fingerprints of errors already reported, by source: each error is reported once.", _text("A hash.")
            ),
        ),
        restarts=_integer("How often the driver has ended unexpectedly since it was made."),
    )


def _conditions() -> Schema:
    condition = _object(
        "One condition.",
        ["lastTransitionTime", "message", "reason", "status", "type"],
        type={
            **_text(
                "Ready, Progressing, Degraded, TopologyValid, StateRestored, ScalingActive, Paused; "
                "while true: Reconciling, Stalled."
            ),
            "maxLength": 316,
        },
        status={**_text("True, False or Unknown."), "enum": ["True", "False", "Unknown"]},
        observedGeneration={
            **_integer("The generation of the spec that it is about; it runs while Ready is True.", "int64"),
            "minimum": 0,
        },
        lastTransitionTime={**_text("The time when `status` changed last."), "format": "date-time"},
        reason={
            **_text("The reason, as one stable word."),
            "maxLength": 1024,
            "minLength": 1,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        message={**_text("The reason, in a sentence."), "maxLength": 32768},
    )
    return _list("The state of the app, seen from several sides.", condition, key="type")


def _object(description: str, required: list[str] | None = None, **fields: Schema) -> Schema:
    found: Schema = {"description": description, "type": "object", "properties": fields}
    return {**found, "required": required} if required else found


def _list(description: str, items: Schema, key: str | None = None) -> Schema:
    found: Schema = {"description": description, "type": "array", "items": items}
    if key is not None:
        found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return found


def _map(description: str, values: Schema) -> Schema:
    return {"description": description, "type": "object", "additionalProperties": values}


def _text(description: str) -> Schema:
    return {"description": description, "type": "string"}


def _float(description: str) -> Schema:
    return {"description": description, "type": "number", "format": "double"}


def _integer(description: str, size: str = "int64") -> Schema:
    return {"description": description, "type": "integer", "format": size}
