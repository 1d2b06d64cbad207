//! The contents of a recording of writes in words: the path of a completion, the events that mark
//! requests, and why figures are uncertain. Pure: data in, text out.

use std::collections::BTreeSet;

use roundtrip_layers::storage::{
    Begin, Completion, Context, Doubt, End, Expected, InterruptKind, Layers, Missing,
};

/// The path of a completion, without repetitions: "irq > softirq > writer".
pub(crate) fn completion(way: &Completion) -> String {
    let name = |context| match context {
        Context::Interrupt => "irq",
        Context::Softirq => "softirq",
        Context::Ipi => "IPI",
        Context::Thread => "thread",
        Context::Unknown => "?",
    };
    let mut out = String::new();
    let mut last = way.interrupt.then_some(Context::Interrupt);
    if way.interrupt {
        out.push_str("irq > ");
    }
    if last != Some(way.completed_in) || way.elsewhere {
        let place = if way.elsewhere { " on another CPU" } else { "" };
        out.push_str(&format!("{}{place} > ", name(way.completed_in)));
        last = Some(way.completed_in);
    }
    match way.woken_in {
        Some(woken_in) if last != Some(woken_in) => out.push_str(&format!("{} > writer", name(woken_in))),
        Some(_) => out.push_str("writer"),
        None => out.push_str("writer, awake"),
    }
    out
}

/// The event that shows when a controller received a command.
pub(crate) fn begin(begin: Begin) -> &'static str {
    match begin {
        Begin::Issue => "block_rq_issue",
        Begin::Mmc => "mmc_request_start",
        Begin::Nvme => "nvme_setup_cmd",
        Begin::Scsi => "scsi_dispatch_cmd_start",
        Begin::Ufs => "ufshcd_command (send)",
    }
}

/// The event that shows when a controller finished a command.
pub(crate) fn end(end: End) -> &'static str {
    match end {
        End::Complete => "block_rq_complete",
        End::Interrupt => "the controller's interrupt",
        End::Mmc => "mmc_request_done",
        End::Nvme => "nvme_complete_rq",
        End::Scsi => "scsi_dispatch_cmd_done",
        End::Ufs => "ufshcd_command (complete)",
    }
}

/// Why figures are uncertain, one sentence each, sorted.
pub(crate) fn doubts<'a>(doubts: impl IntoIterator<Item = &'a Doubt>) -> BTreeSet<String> {
    doubts.into_iter().map(doubt).collect()
}

/// Why a recording lacks events of a write.
pub(crate) fn missing(missing: Missing) -> &'static str {
    match missing {
        Missing::OutsideRecording => "The recording does not cover the whole write on every CPU",
        _ => "Events were lost during the write",
    }
}

/// The name of the same in JSON, which is also that of the flag of calls.
pub(crate) fn missing_name(missing: Missing) -> &'static str {
    match missing {
        Missing::OutsideRecording => "outside_recording",
        _ => "events_lost",
    }
}

/// The same at the end of a line; empty if the recording lacks nothing.
pub(crate) fn uncertain(layers: &Layers) -> &'static str {
    match layers.missing {
        None => "",
        Some(Missing::OutsideRecording) => "; partly outside the recording: not certain",
        Some(_) => "; events were lost: not certain",
    }
}

fn doubt(doubt: &Doubt) -> String {
    match doubt {
        Doubt::Lacks(expected) => {
            format!("the recording has no {}: {}", expected.event(), effect(*expected))
        }
        Doubt::NoRequestForDevice => {
            "the recording has no request for the device itself: the layer device is not known".into()
        }
        Doubt::NoInterruptOf(names) => format!(
            "the recording has no irq/irq_handler_entry of {}: the layer device includes time that belongs to \
             irq",
            names.join(", ")
        ),
        Doubt::NotEveryInterrupt => {
            "not every kind of interrupt was recorded: their work is attributed to threads, and the layers \
             held, helper and block are uncertain"
                .into()
        }
        Doubt::Unpaired { of, begun, ended } => {
            format!("{} began {begun} times and ended {ended}: their duration is uncertain", interrupts(of))
        }
        Doubt::SilentCpu(cpu) => {
            format!("CPU {cpu} has no events although threads were woken there: its activity is not known")
        }
        // A doubt that this report does not know yet.
        _ => "the recording is incomplete".into(),
    }
}

/// What is uncertain if this event is missing.
fn effect(expected: Expected) -> &'static str {
    match expected {
        Expected::SysEnter | Expected::SysExit => "the layers platform and fs cannot be distinguished",
        Expected::Switch => "the running threads are not known",
        Expected::Waking => "what ended a wait is not known",
        Expected::Wakeup => "the layer wake is uncertain",
        Expected::BioQueue => "the origin of requests and the layer block are uncertain",
        Expected::RequestIssue | Expected::RequestComplete => "the layer device is not known",
    }
}

fn interrupts(kind: &InterruptKind) -> String {
    match kind {
        InterruptKind::Device => "interrupts".into(),
        InterruptKind::Softirq => "softirqs".into(),
        InterruptKind::Vector(name) => format!("{name} interrupts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_station_is_named_once() {
        let direct = Completion {
            interrupt: true,
            completed_in: Context::Interrupt,
            elsewhere: false,
            woken_in: Some(Context::Interrupt),
        };
        assert_eq!(completion(&direct), "irq > writer");
        let sent = Completion { completed_in: Context::Ipi, elsewhere: true, ..direct };
        assert_eq!(completion(&sent), "irq > IPI on another CPU > irq > writer");
        let journal =
            Completion { completed_in: Context::Softirq, woken_in: Some(Context::Thread), ..direct };
        assert_eq!(completion(&journal), "irq > softirq > thread > writer");
        let polled =
            Completion { interrupt: false, completed_in: Context::Thread, elsewhere: false, woken_in: None };
        assert_eq!(completion(&polled), "thread > writer, awake");
    }

    #[test]
    fn doubts_name_what_is_missing_and_its_effect_on_the_figures() {
        let doubts = doubts(&[
            Doubt::SilentCpu(3),
            Doubt::Unpaired { of: InterruptKind::Vector("local_timer".into()), begun: 9, ended: 2 },
            Doubt::Lacks(Expected::Waking),
        ]);
        let expected = [
            "CPU 3 has no events although threads were woken there: its activity is not known",
            "local_timer interrupts began 9 times and ended 2: their duration is uncertain",
            "the recording has no sched/sched_waking: what ended a wait is not known",
        ];
        assert_eq!(doubts.into_iter().collect::<Vec<_>>(), expected);
    }
}
