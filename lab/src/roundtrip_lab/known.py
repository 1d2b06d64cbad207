"""What Roundtrip found in the recording of a run: explanations of calls and of writes in one form, and layers."""

from dataclasses import dataclass, field

from roundtrip_lab import layers


@dataclass
class Known:
    """What only the recording shows: explanations by the start of their call or write, and the layers of writes."""

    explained: dict[int, dict] = field(default_factory=dict)
    divided: layers.Divided = field(default_factory=dict)


def known(document: dict | None, divided: layers.Divided) -> Known:
    """The explanations of a run's calls and writes in one form."""
    document = document or {}
    all_of_them = {call["explanation"]["start_ns"]: of_call(call) for call in document.get("slow_calls", [])}
    writes = (document.get("writes") or {}).get("slow_writes", [])
    return Known(all_of_them | {write["start_ns"]: of_write(write) for write in writes}, divided)


def of_call(call: dict) -> dict:
    """A call with its sentence and its causes."""
    causes = [
        {
            "kind": cause["kind"],
            "owner": cause["owner"],
            "who": (cause["thread"] or {}).get("comm") or cause["name"] or "",
            "excess_ns": cause["excess_ns"],
        }
        for cause in call["explanation"]["causes"]
    ]
    return {"call": call["number"], "latency_ns": call["latency_ns"], "words": call["explanation"]["verdict"], "causes": causes}


def of_write(write: dict) -> dict:
    """A write with its sentence and its causes: one for each reason and process to which it lost time."""
    causes = [
        {"kind": reason["reason"], "owner": "writer", "who": process["name"] or process["what"] or "",
         "excess_ns": process["lost_ns"]}
        for reason in write["reasons"]
        for process in reason["processes"]
        if process["lost_ns"]
    ]  # fmt: skip
    latency_ns = write["end_ns"] - write["start_ns"]
    return {"call": write["number"], "latency_ns": latency_ns, "words": write["verdict"], "causes": causes}
