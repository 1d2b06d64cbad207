//! Binder against hwbinder as a table. Pure: a result in, text out.

use std::fmt::Write as _;

use roundtrip_run::Scheduling;
use roundtrip_run::ipc::Stack;
use roundtrip_run::ipc::traits::{Aspect, Finding, TraitsResult};

use crate::text::look::Look;
use crate::text::quantity::duration;
use crate::text::table::{Column, Table};

/// The table, the definition of a copy, and why some aspects were not tested.
#[must_use]
pub fn table(result: &TraitsResult, look: Look) -> String {
    let (table, notes) = parts(result);
    format!("{}\n\n{}\n{notes}", result.backend, table.render(look))
}

/// The table, and notes.
pub(crate) fn parts(result: &TraitsResult) -> (Table, String) {
    let mut table = Table::new([Column::text("aspect"), Column::text("binder"), Column::text("hwbinder")]);
    let mut reasons: Vec<&str> = Vec::new();
    for row in &result.rows {
        let mut cells = vec![aspect(row.aspect).to_owned()];
        for stack in Stack::ALL {
            cells.push(match row.of(stack) {
                Finding::NotTried { reason } => {
                    let known = reasons.iter().position(|known| known == reason);
                    let number = known.unwrap_or_else(|| {
                        reasons.push(reason);
                        reasons.len() - 1
                    });
                    format!("could not be tested [{}]", number + 1)
                }
                finding => words(finding),
            });
        }
        table.row(cells);
    }
    let mut out = String::from(
        "The driver's copy is the one that every call needs, from the sender's memory into the receiver's \
         area.\nThe inherited policy and nice value are those that the server's thread reported during the \
         call.\n",
    );
    for (number, reason) in (1..).zip(reasons) {
        let _ = writeln!(out, "[{number}] {reason}");
    }
    (table, out)
}

/// An aspect's name in text.
fn aspect(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Purpose => "purpose",
        Aspect::Property => "property",
        Aspect::ArgumentPassing => "argument passing",
        Aspect::RequestCopies => "copies of a request's payload",
        Aspect::ReplyCopies => "copies of a reply's payload",
        Aspect::RealtimeInheritance => "real-time priority is inherited",
        Aspect::LeastPolicy => "a node's minimum priority is applied",
        Aspect::NiceRaised => "nice 10 is inherited",
        Aspect::NiceLowered => "nice -10 is inherited",
        Aspect::BackgroundPolicy => "a background caller is served as background",
        Aspect::RoundTrip => "smallest call, median",
    }
}

fn words(finding: &Finding) -> String {
    match finding {
        Finding::Words { text } => text.clone(),
        Finding::Arguments { scatter_gather, buffers, payload_in_place } => {
            let way = if *scatter_gather {
                format!("scatter-gather, {buffers} buffers")
            } else {
                "one parcel".to_owned()
            };
            let place = if *payload_in_place { "sent in place" } else { "serialised" };
            format!("{way}; payload {place}")
        }
        Finding::Copies { stack, driver, .. } => {
            format!("{} by the stack, {} by the driver", times(*stack), times(*driver))
        }
        Finding::Served { holds, calls, held, caller, at_rest, serving, afterwards, .. } => {
            let answer = if *holds { "yes" } else { "no" };
            let mut out = format!("{answer}: {} for {}", scheduling(*serving), scheduling(*caller));
            if *held > 0 && held < calls {
                let _ = write!(out, ", in {held} of {calls} calls");
            }
            if afterwards != at_rest {
                let _ = write!(out, ", and {} afterwards", scheduling(*afterwards));
            }
            out
        }
        Finding::RoundTrip { latency } => {
            latency.percentile_ns(50.0).map(|ns| duration(ns as f64)).unwrap_or_default()
        }
        Finding::InheritedUnseen { caller, shown, .. } => format!(
            "yes: at {} through a priority-inheriting futex, which the policy does not show (it says {})",
            scheduling(*caller),
            scheduling(*shown)
        ),
        Finding::NotTried { reason } => reason.clone(),
    }
}

/// A number of copies: a whole number unless something is unusual.
fn times(copies: f64) -> String {
    if (copies - copies.round()).abs() < 0.005 {
        format!("{:.0}", copies.round() + 0.0)
    } else {
        format!("{copies:.2}")
    }
}

/// `FIFO 50`, `OTHER nice 10`.
fn scheduling(Scheduling { policy, priority, nice }: Scheduling) -> String {
    let name = policy.name().trim_start_matches("SCHED_");
    if policy.is_realtime() { format!("{name} {priority}") } else { format!("{name} nice {nice}") }
}

#[cfg(test)]
mod tests {
    use roundtrip_latency::Policy;
    use roundtrip_run::ipc::traits::{Row, TraitsPlan};
    use roundtrip_run::ipc::{Backend, Profile};

    use super::*;

    fn result() -> TraitsResult {
        let text = |text: &str| Finding::Words { text: text.into() };
        let rest = Scheduling::other(0);
        let served = |held, caller, serving, afterwards| Finding::Served {
            holds: held == 10,
            calls: 10,
            held,
            caller,
            least: None,
            at_rest: rest,
            serving,
            afterwards,
        };
        let fifo = Scheduling::fifo(50);
        let batch = Scheduling { policy: Policy::Batch, priority: 0, nice: 10 };
        let not_tried = || Finding::NotTried { reason: "no right to \"SCHED_FIFO\": run as root".into() };
        let copies = |stack, driver| Finding::Copies { payload_bytes: 4096, stack, driver };
        let arguments = |scatter_gather, buffers| Finding::Arguments {
            scatter_gather,
            buffers,
            payload_in_place: scatter_gather,
        };
        let time = |ns: u64| Finding::RoundTrip { latency: [ns, ns, ns].into_iter().collect() };
        let row = |aspect, binder, hwbinder| Row { aspect, binder, hwbinder };
        TraitsResult {
            plan: TraitsPlan::default(),
            backend: Backend::Emulated { profile: Profile::Ack },
            rows: vec![
                row(Aspect::Purpose, text("general IPC"), text("hardware services")),
                row(Aspect::ArgumentPassing, arguments(false, 0), arguments(true, 2)),
                row(Aspect::RequestCopies, copies(1.0, 1.0), copies(-0.0, 1.0)),
                row(Aspect::ReplyCopies, copies(0.25, 1.0), copies(0.0, 1.0)),
                row(Aspect::RealtimeInheritance, served(0, fifo, rest, rest), served(10, fifo, fifo, rest)),
                row(Aspect::LeastPolicy, not_tried(), not_tried()),
                row(
                    Aspect::BackgroundPolicy,
                    served(10, Scheduling::other(10), batch, batch),
                    served(3, Scheduling::other(10), rest, rest),
                ),
                row(Aspect::RoundTrip, time(3500), time(2500)),
            ],
        }
    }

    #[test]
    fn the_table_names_the_backend_and_has_one_note_for_each_untested_aspect() {
        insta::assert_snapshot!(table(&result(), Look::PLAIN));
    }
}
