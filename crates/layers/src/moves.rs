//! Moves of a call's threads between control groups, which decide on which CPUs they may run and
//! how much of them they get. Must not know which part is to blame.

use crate::explanation::{Flag, Owner, Part};
use crate::partition::thread_at;
use crate::reasons::{Reason, Stretch};
use crate::timeline::Timeline;
use crate::why::role;

/// From this share of a round trip on, the time that a move may have cost is reported: 1 / 4.
const SHARE: u64 = 4;

/// The last moves of the owners, or of the main threads of their processes, where they matter: if
/// the owner waited for a CPU afterwards, or if it was moved within the call and ran afterwards.
pub(crate) fn moved(timeline: &Timeline<'_>, parts: &[Part], stretches: &[Stretch]) -> Vec<Flag> {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Vec::new() };
    let (start_ns, end_ns) = (first.begin_ns, last.end_ns);
    let mut flags = Vec::new();
    for owner in [Owner::Client, Owner::Server] {
        let of_owner = parts.iter().find(|part| part.owner == owner);
        let Some(thread) = of_owner.and_then(|part| part.thread.as_ref()) else { continue };
        let main = thread.pid.filter(|&pid| pid != thread.tid);
        let moves = [Some(thread.tid), main].into_iter().flatten().find_map(|tid| {
            let moves = timeline.groups.last_moves(tid, end_ns);
            (!moves.is_empty()).then_some((tid, moves))
        });
        let Some((tid, moves)) = moves else { continue };
        for (moved, group) in moves {
            let within = moved.time_ns >= start_ns;
            let counts = |stretch: &&Stretch| {
                stretch.why.role == role(owner)
                    && stretch.why.chain.is_empty()
                    && match stretch.why.reason {
                        Reason::Cpu => true,
                        Reason::OwnWork | Reason::SlowCpu { .. } => within,
                        _ => false,
                    }
            };
            let after =
                |stretch: &Stretch| stretch.end_ns.saturating_sub(stretch.begin_ns.max(moved.time_ns));
            let lost_ns: u64 = stretches.iter().filter(counts).map(after).sum();
            if lost_ns.saturating_mul(SHARE) >= end_ns - start_ns {
                flags.push(Flag::Moved {
                    thread: thread_at(timeline, tid, moved.time_ns),
                    group: group.to_owned(),
                    by: thread_at(timeline, moved.by, moved.time_ns),
                    after_ns: moved.time_ns.cast_signed().saturating_sub(start_ns.cast_signed()),
                });
            }
        }
    }
    flags
}
