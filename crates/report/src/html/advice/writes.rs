//! What users can do about delays of writes. Must not know the page.

use roundtrip_analysis::Analysed;
use roundtrip_analysis::interference::Mechanism;
use roundtrip_analysis::storage::SeriesLayers;
use roundtrip_layers::reasons::ReasonKind;
use roundtrip_layers::storage::Layer;
use roundtrip_run::storage::interference::Condition;
use roundtrip_run::storage::observe::Divided;

use crate::storage::{beside, slow_writes, why};

/// What to do about the reason that cost the writes most time.
pub(super) fn measured(layers: &[SeriesLayers<'_>]) -> Option<String> {
    let slowest = layers.iter().max_by(|one, other| {
        let mean = |of: &SeriesLayers<'_>| of.breakdown.sum_ns as f64 / of.breakdown.calls.max(1) as f64;
        mean(one).total_cmp(&mean(other))
    });
    let breakdown = &slowest?.breakdown;
    let most = breakdown.kinds.iter().max_by_key(|(_, times)| times.sum_ns).map(|(kind, _)| *kind);
    let who = most.map(|kind| why::largest(&breakdown.reasons, kind)).unwrap_or_default();
    let own = OWN.into_iter().max_by(|one, other| breakdown.share(*one).total_cmp(&breakdown.share(*other)));
    Some(against_writes(most, &who, breakdown.flushes >= breakdown.calls.max(1), own))
}

/// What to do about the reason that cost other programs' slow writes most time; `None` if none was
/// slow.
pub(super) fn observed(analysed: &Analysed<'_>) -> Option<String> {
    let result = analysed.run.results.observed_writes.as_ref()?;
    let causes = slow_writes::causes_of(analysed);
    let most = Some(causes.rows().first()?.kind);
    let who = most.map(|kind| why::largest(&causes, kind)).unwrap_or_default();
    let divided = || result.rows.iter().filter_map(|row| row.divided.as_ref());
    let sum = |of: fn(&Divided) -> u64| divided().map(of).sum::<u64>();
    let own_ns = |layer: &Layer| -> u64 {
        divided().filter_map(|divided| divided.layers.get(layer.name())).map(|time| time.sum_ns).sum()
    };
    let flushes = sum(|divided| divided.flushes) >= sum(|divided| divided.calls).max(1);
    Some(against_writes(most, &who, flushes, OWN.into_iter().max_by_key(own_ns)))
}

/// The layers in which a writer and its helpers run.
const OWN: [Layer; 3] = [Layer::Fs, Layer::Helper, Layer::Platform];

/// What to do about a reason, which `who` names. `flushes`: each write flushes the device. `own`:
/// the layer in which most of the work is done.
fn against_writes(most: Option<ReasonKind>, who: &str, flushes: bool, own: Option<Layer>) -> String {
    let step = match most {
        Some(ReasonKind::Cpu) => {
            return format!(
                "Writes wait for a CPU most of the time, most of all behind {who}: give the writer, and the kernel's \
                 threads that work for it, CPUs of their own (cpuset), or a higher priority."
            );
        }
        Some(ReasonKind::BehindIo) => {
            return format!(
                "Requests and journal commits of others come first, most of all those of {who}: keep them off this \
                 device or file system, or try another I/O scheduler."
            );
        }
        Some(ReasonKind::Thread | ReasonKind::BusyPool) => {
            return format!("Writes wait for {who}: share no file or lock with it, or shorten what it does.");
        }
        Some(ReasonKind::Device) if flushes => {
            "The device takes most of the time, and each write flushes it: write less often, combine writes, \
             or use a device with a non-volatile cache."
        }
        Some(ReasonKind::Device) => {
            "The device takes most of the time: write less often, combine writes, or use a faster device."
        }
        Some(ReasonKind::Interrupted) => {
            "Move the device's interrupt to a CPU that is not busy (/proc/irq/NUMBER/smp_affinity)."
        }
        Some(ReasonKind::Throttled) => {
            "Writes are held back before they are queued: look for writeback throttling (wbt_lat_usec), limits on \
             dirty pages (vm.dirty_bytes) and I/O limits of the control group (io.max)."
        }
        Some(ReasonKind::WakeUp) => {
            "Threads run late after their wakeup although no other thread has their CPU: look for deep idle states \
             and for the path of the wakeup's interrupt."
        }
        Some(ReasonKind::SlowCpu) => {
            "CPUs run at low frequencies: raise the lowest one (scaling_min_freq, uclamp), or keep the CPU busy."
        }
        Some(ReasonKind::OwnWork) => own_work(own),
        Some(ReasonKind::Sleep) => {
            "The writes sleep until a timer expires: find out why the application sleeps."
        }
        Some(ReasonKind::Stopped) => "Find out who stops the writer: a debugger, a freezer or a shell.",
        Some(ReasonKind::CpuGone) => {
            "On a virtual machine: give it dedicated CPUs. On hardware: look for firmware interrupts and long \
             sections with interrupts off (rtla hwnoise)."
        }
        Some(ReasonKind::Unknown) | None => {
            "Most of the time is unexplained: record more events (--events all), with a larger --buffer."
        }
    };
    step.to_owned()
}

/// What to do if the writer and its helpers run most of the time: the layer says what they do.
fn own_work(layer: Option<Layer>) -> &'static str {
    match layer {
        Some(Layer::Helper) => {
            "The journal or a worker takes most of the time: overwrite a file whose blocks are allocated, or \
             write without metadata (fdatasync)."
        }
        Some(Layer::Platform) => {
            "The time is spent outside the system calls, in the application and its runtime."
        }
        _ => {
            "The file system takes most of the time: write whole blocks, and overwrite a file whose blocks \
             are allocated."
        }
    }
}

/// What to do about a condition that changes writes, by what made them longer or shorter. The name
/// of a condition says nothing about that.
pub(super) fn condition(found: &beside::Found<'_>) -> Option<String> {
    let (condition, longer) = (found.one.beside.condition, found.change.ratio() > 1.0);
    let is_load = condition.is_hog() || condition.counts().is_some() || condition == Condition::IoLimit;
    let than = if longer { "longer" } else { "less time" };
    let Some(why) = found.why else {
        return Some(format!("Record events (as root) to see why writes take {than} with {condition}."));
    };
    match (why, longer) {
        (_, true) if !is_load => {
            Some(format!("Do not use the setting {condition}: writes take longer with it."))
        }
        (_, false) if !is_load => {
            Some(format!("Consider using {condition} permanently: writes take less time with it."))
        }
        (Mechanism::Reason(kind), true) => against_load(kind, condition),
        (Mechanism::IdleExit, false) => Some(format!(
            "Keep the CPUs out of deep idle states (/dev/cpu_dma_latency; on a virtual machine the host's \
             halt_poll_ns): with {condition}, less time is spent leaving them."
        )),
        (Mechanism::Reason(ReasonKind::SlowCpu), false) => Some(format!(
            "Raise the lowest frequency of the writer's CPUs (scaling_min_freq): with {condition}, they run faster."
        )),
        (Mechanism::IdleExit, true) | (Mechanism::Reason(_), false) => None,
    }
}

/// What to do about what makes writes longer beside some load.
fn against_load(kind: ReasonKind, condition: Condition) -> Option<String> {
    Some(match kind {
        ReasonKind::Cpu => format!(
            "Give the writer a dedicated CPU (cpuset) or a real-time policy: with {condition}, it or the kernel's \
             threads that work for it wait for a CPU."
        ),
        ReasonKind::Interrupted => format!(
            "Move the device's interrupt to a CPU that handles few other interrupts \
             (/proc/irq/NUMBER/smp_affinity): with {condition}, interrupts delay writes."
        ),
        ReasonKind::BehindIo | ReasonKind::Thread => format!(
            "Keep processes like those of {condition} off this file system: their requests and journal commits \
             come before the writer's own."
        ),
        ReasonKind::Throttled => format!(
            "Raise the limits on the control group's I/O (io.max) and on dirty pages (vm.dirty_bytes): with \
             {condition}, writes are held back."
        ),
        ReasonKind::SlowCpu => format!(
            "Raise the lowest frequency of the writer's CPUs (scaling_min_freq): with {condition}, they run slower."
        ),
        ReasonKind::OwnWork => format!(
            "Leave more memory free, and check the CPUs' frequency: with {condition}, the writer and its helpers \
             themselves run longer."
        ),
        ReasonKind::Device => format!(
            "Keep work like that of {condition} off this device's machine while writes matter: the device itself \
             answers later beside it."
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use roundtrip_run::storage::interference::Beside;

    use super::*;

    /// What is advised if this mechanism changed writes by this ratio.
    fn advised(condition: Condition, ratio: f64, why: Option<Mechanism>) -> Option<String> {
        let beside = Beside {
            condition,
            what: String::new(),
            writer: 0,
            writer_beside: 0,
            size_bytes: 4096,
            pairs: Vec::new(),
        };
        let one = roundtrip_analysis::interference::Explained { beside: &beside, sides: None };
        super::condition(&beside::Found { one: &one, change: beside::Change::Usual(ratio), why })
    }

    #[test]
    fn advice_follows_the_mechanism_and_not_the_name_of_the_condition() {
        let of = |kind| Some(Mechanism::Reason(kind));
        let advised = |condition, ratio, why| advised(condition, ratio, why).unwrap_or_default();
        // A hog that shortens writes does so through idle states only if those were measured.
        assert!(advised(Condition::HogSame, 0.25, Some(Mechanism::IdleExit)).contains("deep idle states"));
        for kind in [ReasonKind::WakeUp, ReasonKind::OwnWork, ReasonKind::Cpu] {
            assert_eq!(advised(Condition::HogSame, 0.25, of(kind)), "", "{kind:?}");
        }
        assert!(advised(Condition::HogSame, 0.25, of(ReasonKind::SlowCpu)).contains("scaling_min_freq"));
        assert!(advised(Condition::IoLimit, 9.0, of(ReasonKind::Throttled)).contains("io.max"));
        assert!(!advised(Condition::IoLimit, 9.0, of(ReasonKind::Cpu)).contains("io.max"));
        assert_eq!(advised(Condition::IoLimit, 0.5, of(ReasonKind::Throttled)), "");
        for condition in [Condition::HogSame, Condition::IoLimit, Condition::Fsync] {
            let without_events = advised(condition, 0.5, None);
            assert!(without_events.starts_with("Record events"), "{without_events}");
        }
    }
}
