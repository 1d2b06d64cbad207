//! The page's colours. There are seven, and each has one meaning on the whole page: why a call or a
//! write did not move. Where it was is shown by the row. Must not know the page.

use roundtrip_layers::State;
use roundtrip_layers::reasons::ReasonKind;
use roundtrip_layers::storage::Layer;

use crate::storage::study::parts::PARTS;

/// A colour: the name of its class.
pub(super) type Colour = &'static str;

/// What each colour means.
pub(super) const LEGEND: [(Colour, &str); 7] = [
    ("running", "running"),
    ("behind", "waiting for a CPU"),
    ("interrupted", "interrupted"),
    ("blocked", "waiting for a thread, a device or a timer"),
    ("waking", "being woken"),
    ("stopped", "stopped, held back, or CPU gone"),
    ("unknown", "unknown"),
];

/// The colours of the [`PARTS`] of a write.
pub(super) const OF_PARTS: [Colour; PARTS.len()] = ["running", "running", "blocked", "behind", "unknown"];

/// The place of a colour in the legend.
pub(super) fn rank(colour: Colour) -> usize {
    LEGEND.iter().position(|(known, _)| *known == colour).unwrap_or(LEGEND.len())
}

/// The colour of a part of a call.
pub(super) fn of_state(state: &State) -> Colour {
    match state {
        State::User | State::Running | State::SystemCall { .. } | State::Leg { .. } => "running",
        State::Spinning | State::Blocked { .. } => "blocked",
        State::Stolen { .. } => "interrupted",
        State::WakeUpPending | State::IdleExit { .. } | State::HandOver { .. } => "waking",
        State::Behind { .. } | State::Preempted { .. } => "behind",
        State::Stopped { .. } | State::RunnableOnIdle | State::Throttled | State::Gap => "stopped",
        State::Unknown { .. } => "unknown",
    }
}

/// The colour of a reason.
pub(super) fn of_reason(kind: ReasonKind) -> Colour {
    match kind {
        ReasonKind::OwnWork | ReasonKind::SlowCpu => "running",
        ReasonKind::Cpu => "behind",
        ReasonKind::Interrupted => "interrupted",
        ReasonKind::Thread
        | ReasonKind::BusyPool
        | ReasonKind::Device
        | ReasonKind::BehindIo
        | ReasonKind::Sleep => "blocked",
        ReasonKind::WakeUp => "waking",
        ReasonKind::Throttled | ReasonKind::Stopped | ReasonKind::CpuGone => "stopped",
        ReasonKind::Unknown => "unknown",
    }
}

/// The colour of a layer whose reasons are not shown: that of what usually fills it.
pub(super) fn of_layer(layer: Layer) -> Colour {
    match layer {
        Layer::Platform | Layer::Fs | Layer::Helper => "running",
        Layer::Preempted | Layer::Stolen => "behind",
        Layer::Irq => "interrupted",
        Layer::Device | Layer::Block => "blocked",
        Layer::Wake => "waking",
        Layer::Held => "stopped",
        Layer::Unexplained => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page's style.
    const STYLE: &str = include_str!("../../../../web/report.css");

    #[test]
    fn each_colour_has_one_value_and_one_meaning() {
        let (light, dark) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
        for theme in [light, dark.split_once("* {").unwrap().0] {
            let value = |name: &str| {
                let (_, rest) = theme.split_once(&format!("--{name}: ")).unwrap();
                rest.split(';').next().unwrap().to_owned()
            };
            let mut values: Vec<String> = LEGEND.iter().map(|(name, _)| value(name)).collect();
            values.sort();
            values.dedup();
            assert_eq!(values.len(), LEGEND.len(), "{theme}");
        }
        for (name, _) in LEGEND {
            assert!(STYLE.contains(&format!(".{name} {{ fill: var(--{name}); }}")), "{name}");
        }
        let kinds = ReasonKind::ALL.map(of_reason);
        let layers = Layer::ALL.map(of_layer);
        let known = |colour: &&str| LEGEND.iter().any(|(name, _)| name == colour);
        assert!(kinds.iter().chain(&layers).all(known));
    }
}
