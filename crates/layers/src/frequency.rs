//! Work that took longer because its CPU ran at a low frequency. Must not know which part is to
//! blame.

use crate::explanation::{Flag, Part, State};
use crate::reasons::{Reason, Stretch, Why};
use crate::timeline::{During, Timeline};

/// From this share of an operation on, the time that was lost is reported: 1 / 4.
const SHARE: u64 = 4;

/// Where most of it was lost, and all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slow {
    cpu: u32,
    khz: u32,
    most_khz: u32,
    lost_ns: u64,
}

/// Divides the work of a call's owners, and of the threads that they waited for, as
/// [`divide`] does.
pub(crate) fn slow_cpu(
    timeline: &Timeline<'_>,
    parts: &[Part],
    stretches: &mut Vec<Stretch>,
) -> Option<Flag> {
    let Slow { cpu, khz, most_khz, lost_ns } =
        divide(timeline, stretches, |stretch| is_work(stretch, parts))?;
    Some(Flag::SlowCpu { cpu, khz, most_khz, lost_ns })
}

/// Divides work where its CPU ran below its highest frequency: the end of each stretch becomes the
/// time that it would have saved there. Changes nothing and returns `None` if that is a small part
/// of the operation, or the frequencies are unknown.
pub(crate) fn divide(
    timeline: &Timeline<'_>,
    stretches: &mut Vec<Stretch>,
    is_work: impl Fn(&Stretch) -> bool,
) -> Option<Slow> {
    let (mut sum_ns, mut worst_ns, mut worst) = (0, 0, None);
    let mut divided = Vec::with_capacity(stretches.len());
    for stretch in stretches.iter() {
        let cpu = stretch.why.cpu.filter(|_| is_work(stretch));
        let Some((cpu, line)) = cpu.and_then(|cpu| Some((cpu, timeline.cpu(cpu)?))) else {
            divided.push(stretch.clone());
            continue;
        };
        let most_khz = line.most_khz();
        let mut at_ns = stretch.begin_ns;
        for During { begin_ns, end_ns, what } in line.frequencies(stretch.begin_ns, stretch.end_ns) {
            let lost = u128::from(end_ns - begin_ns) * u128::from(most_khz - what);
            let lost_ns = u64::try_from(lost / u128::from(most_khz)).unwrap_or(u64::MAX);
            if lost_ns == 0 {
                continue;
            }
            sum_ns += lost_ns;
            if lost_ns > worst_ns {
                (worst_ns, worst) = (lost_ns, Some((cpu, what, most_khz)));
            }
            let slow =
                Why { reason: Reason::SlowCpu { cpu }, process: None, thread: None, ..stretch.why.clone() };
            let from_ns = end_ns - lost_ns;
            divided.push(Stretch { begin_ns: at_ns, end_ns: from_ns, why: stretch.why.clone() });
            divided.push(Stretch { begin_ns: from_ns, end_ns, why: slow });
            at_ns = end_ns;
        }
        divided.push(Stretch { begin_ns: at_ns, ..stretch.clone() });
    }
    let all_ns: u64 = stretches.iter().map(Stretch::duration_ns).sum();
    let (cpu, khz, most_khz) = worst.filter(|_| sum_ns.saturating_mul(SHARE) >= all_ns)?;
    divided.retain(|stretch| stretch.begin_ns < stretch.end_ns);
    *stretches = divided;
    Some(Slow { cpu, khz, most_khz, lost_ns: sum_ns })
}

/// Whether a stretch is work of an owner, or of the last thread of its chain. Spinning ends when
/// another thread ends it, at whatever frequency.
fn is_work(stretch: &Stretch, parts: &[Part]) -> bool {
    let Why { reason: Reason::OwnWork | Reason::Thread { but: None }, chain, .. } = &stretch.why else {
        return false;
    };
    let mut level = parts;
    let mut found = None;
    for _ in 0..=chain.len() {
        let after = level.partition_point(|part| part.begin_ns <= stretch.begin_ns);
        let Some(part) = after.checked_sub(1).map(|index| &level[index]) else { return false };
        (found, level) = (Some(part), &part.because);
    }
    let works = |part: &Part| matches!(part.state, State::User | State::Running | State::SystemCall { .. });
    found.is_some_and(works)
}
