//! The order in which devices and their controllers work on requests.

use std::collections::HashMap;

use super::super::commands::{Begin, End};
use super::{Command, Request};

/// The devices that never answered a later request first although they often had several.
pub(super) fn in_order(done: &[Request]) -> Vec<u32> {
    /// Fewer may be chance.
    const ENOUGH: u32 = 32;
    let mut by_start: Vec<&Request> = done.iter().filter(|request| request.leaf).collect();
    by_start.sort_by_key(|request| request.started_ns);
    // By device: the latest end so far, how often a request came before it, and whether one that
    // started later ended first.
    let mut seen: HashMap<u32, (u64, u32, bool)> = HashMap::new();
    for request in by_start {
        let (last_ns, overlaps, overtaken) = seen.entry(request.dev).or_default();
        *overlaps += u32::from(request.started_ns < *last_ns);
        *overtaken |= request.ended_ns < *last_ns;
        *last_ns = request.ended_ns.max(*last_ns);
    }
    let in_order = seen.into_iter().filter(|(_, (_, overlaps, overtaken))| *overlaps >= ENOUGH && !overtaken);
    in_order.map(|(dev, _)| dev).collect()
}

/// For buses with events: the controller has a request while it processes one of the request's
/// commands, and while a card reports that it is busy.
pub(super) fn bound_by_commands(request: &mut Request, mut commands: Vec<Command>) {
    // UFS uses SCSI commands, whose events are further from the controller.
    if commands.iter().any(|command| command.label.bus == Begin::Ufs) {
        commands.retain(|command| command.label.bus == Begin::Ufs);
    }
    for (at, command) in commands.iter().enumerate() {
        let next = commands.get(at + 1).map_or(request.completed_ns, |next| next.start_ns);
        let (end_ns, end, busy) = command.end.unwrap_or((next, End::Complete, false));
        let end_ns = if busy { next } else { end_ns };
        if at == 0 {
            (request.started_ns, request.begin) = (command.start_ns, command.label.bus);
        }
        request.device.push((command.start_ns, end_ns));
        (request.ended_ns, request.end, request.interrupt_cpu) = (end_ns, end, command.interrupt_cpu);
    }
}
