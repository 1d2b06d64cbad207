//! The findings of the study of 2012 on a write's layers, compared with ours. The verdict is
//! "cannot tell" if the measured figure does not decide it. Pure: a figure in, words out.

pub(crate) mod figures;
pub(crate) mod parts;

use roundtrip_layers::storage::{Breakdown, HostShare};
use serde_json::{Value, json};

use super::verdict::Verdict;

/// The study found that the host's share (runtime and kernel) of a write of `SIZE_BYTES` was above
/// this, from 0 to 1.
const HOST_SHARE: f64 = 0.9;
pub(crate) const SIZE_BYTES: u64 = 16 << 10;

/// Whether the study's finding holds for the host's share here. It cannot be told if the bounds
/// enclose the study's figure, or if there are none.
fn verdict(share: Option<HostShare>) -> Verdict {
    match share {
        Some(share) if share.low > HOST_SHARE => Verdict::Yes,
        Some(share) if share.high <= HOST_SHARE => Verdict::No,
        _ => Verdict::CannotTell,
    }
}

/// The study's finding and ours, in one line, if the figures decide whether it holds here.
pub(crate) fn answer(breakdown: &Breakdown) -> Option<String> {
    let verdict = verdict(breakdown.host_shares.share());
    (verdict != Verdict::CannotTell).then(|| line(breakdown))
}

/// The study's finding and ours, in one line.
fn line(breakdown: &Breakdown) -> String {
    let share = breakdown.host_shares.share();
    let verdict = verdict(share).name();
    format!(
        "The 2012 study found a host share above {:.0}% at 16 KiB; {}. Reproduced on this machine: \
         {verdict}.",
        HOST_SHARE * 100.0,
        here(share)
    )
}

/// The host's share on this machine, in words.
fn here(share: Option<HostShare>) -> String {
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    match share {
        None => "there were too few calls for a median here".to_owned(),
        Some(HostShare { median, low, high, left_out }) => {
            let left_out = if left_out < 0.001 {
                String::new()
            } else {
                format!(", not counting waits behind other tasks ({} of all time)", percent(left_out))
            };
            format!(
                "the median here is {} ({} to {}){left_out}",
                percent(median),
                percent(low),
                percent(high)
            )
        }
    }
}

/// The study's finding and ours, for programs.
pub(crate) fn json(breakdown: &Breakdown) -> Value {
    let share = breakdown.host_shares.share();
    let of = |part: fn(&HostShare) -> f64| share.as_ref().map(part);
    json!({
        "host_share_above": HOST_SHARE,
        "host_share_here": of(|share| share.median),
        "host_share_low": of(|share| share.low),
        "host_share_high": of(|share| share.high),
        "behind_other_tasks": of(|share| share.left_out),
        "reproduced": verdict(share).reproduced(),
    })
}

#[cfg(test)]
mod tests {
    use roundtrip_layers::storage::{Layer, Layers, Piece, Write};

    use super::*;

    /// Calls of 100 us, with this much time at the device. Some also wait behind other tasks.
    fn measured(device_us: impl Iterator<Item = u64>, waiting_us: impl Fn(u64) -> u64) -> Breakdown {
        let mut breakdown = Breakdown::keeping(0);
        for (at, device_us) in (0..).zip(device_us) {
            let waiting_ns = waiting_us(at) * 1_000;
            let times = [device_us * 1_000, (100 - device_us) * 1_000, waiting_ns];
            let mut end_ns = 0;
            let mut pieces = Vec::new();
            for (layer, ns) in [Layer::Device, Layer::Fs, Layer::Wake].into_iter().zip(times) {
                pieces.push(Piece { begin_ns: end_ns, end_ns: end_ns + ns, layer });
                end_ns += ns;
            }
            let layers = Layers { pieces, behind_others_ns: waiting_ns, ..Layers::default() };
            breakdown.add(Write { start_ns: 0, end_ns, tid: 1 }, layers);
        }
        breakdown
    }

    fn said(breakdown: &Breakdown) -> String {
        let line = line(breakdown);
        line.rsplit_once("machine: ")
            .map(|(_, verdict)| verdict.trim_end_matches('.').to_owned())
            .unwrap_or(line)
    }

    #[test]
    fn load_on_the_writers_cpu_does_not_change_the_verdict() {
        let device = |at: u64| 55 + at * 7 % 11;
        for load in [|_| 0, |at: u64| at % 2 * 4_000, |at: u64| at % 5 * 900, |_| 3_000] {
            let breakdown = measured((0..100).map(device), load);
            assert_eq!(said(&breakdown), "no", "{}", line(&breakdown));
            assert_eq!(answer(&breakdown), Some(line(&breakdown)));
            // Such waits raise the mean above the study's figure, so it is no base for a verdict.
            let waits = (0..100).any(|at| load(at) > 0);
            assert_eq!(breakdown.host_share() > HOST_SHARE, waits);
        }
        assert_eq!(said(&measured((0..100).map(|at| 3 + at % 4), |at| at % 3 * 1_000)), "yes");
    }

    #[test]
    fn noisy_figures_give_no_verdict() {
        assert_eq!(said(&measured((0..100).map(|at| if at % 9 < 2 { 2 } else { 14 }), |_| 0)), "no");
        assert_eq!(said(&measured((0..100).map(|at| 6 + at % 8), |_| 0)), "cannot tell");
        let few = measured(std::iter::repeat_n(50, 5), |_| 0);
        assert_eq!(said(&few), "cannot tell");
        assert!(line(&few).contains("too few calls"), "{}", line(&few));
        assert_eq!(json(&few)["reproduced"], Value::Null);
        assert_eq!(answer(&few), None, "a report does not say that it cannot tell");
    }
}
