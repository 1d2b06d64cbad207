//! Results of a caller, over several threads and runs.

use roundtrip_latency::Policy;

use super::*;

const DEADLINE: Deadline = Deadline { ns: 100 };

fn sample(start_ns: u64, latency_ns: u64, cpu: u32, server: Placement) -> Sample {
    Sample {
        intended_ns: start_ns - 10,
        start_ns,
        received_ns: start_ns + 1,
        replied_ns: start_ns + 3,
        end_ns: start_ns + latency_ns,
        caller: Placement { cpu, policy: Policy::Fifo, priority: 99, nice: 0 },
        server,
    }
}

fn samples() -> [Sample; 3] {
    let inherited = Placement { cpu: 0, policy: Policy::Fifo, priority: 99, nice: 0 };
    let own = Placement { cpu: 0, ..Placement::default() };
    [sample(1000, 50, 0, inherited), sample(2000, 95, 1, inherited), sample(3000, 101, 1, own)]
}

#[test]
fn everything_is_counted_once() {
    let mut result = CallerResult::new(Scheduling::fifo(99), DEADLINE, true, 900);
    result.record(&samples());
    assert_eq!((result.count(), result.deadline.missed, result.same_cpu), (3, 1, 1));
    assert_eq!((result.not_inherited, result.cpu_changes), (1, 1));
    assert_eq!((result.latency.min_ns(), result.latency.max_ns()), (Some(50), Some(101)));
    let response = result.response.as_ref().unwrap();
    assert_eq!((response.time.max_ns(), response.missed), (Some(111), 2));
    assert_eq!((result.request.max_ns(), result.handling.max_ns()), (Some(1), Some(2)));
    assert_eq!(result.reply.max_ns(), Some(98));
    let bins: Vec<_> = result.timeline.bins().map(|(from, bin)| (from, bin.count(), bin.missed())).collect();
    assert_eq!(bins, [(0, 3, 2)], "with a rate, the timeline is that of the responses");
    assert_eq!(result.served_as, [(Scheduling::fifo(99), 2), (Scheduling::other(0), 1)]);
}

#[test]
fn a_verdict_on_two_runs_counts_the_calls_of_both() {
    let fail = |text: &str| Verdict::Fail { reason: text.into() };
    let merged = |mut ours: Verdict, theirs: &Verdict| {
        ours.merge(theirs, 2000, 4000);
        ours
    };
    let failed = fail("in 1000 of 2000 calls it was not: off");
    let both = fail("in 2000 of 4000 calls it was not: off");
    for (ours, theirs) in [(&failed, &failed), (&Verdict::Pass, &failed), (&failed, &Verdict::Pass)] {
        assert_eq!(merged(ours.clone(), theirs), both);
    }
    let other = merged(failed, &fail("in 3 of 2000 calls it was not: no permission"));
    assert_eq!(
        other.reason(),
        Some("in 2000 of 4000 calls it was not: off; in another run it was not: no permission")
    );
    let skip = Verdict::Skip { reason: "no real-time callers".into() };
    assert_eq!(merged(skip.clone(), &skip), skip);
    assert_eq!(merged(Verdict::Pass, &Verdict::Pass), Verdict::Pass);
}

#[test]
fn merged_parts_equal_the_whole() {
    let mut whole = CallerResult::new(Scheduling::fifo(99), DEADLINE, false, 900);
    let (mut first, mut second) = (whole.clone(), whole.clone());
    whole.record(&samples());
    first.record(&samples()[..1]);
    second.record(&samples()[1..]);
    second.counters = Some(ThreadCounters { voluntary_switches: 3, ..ThreadCounters::default() });
    whole.counters = second.counters;
    // A CPU change between the two parts is not counted, because the parts need not be consecutive.
    whole.cpu_changes = 0;
    first.merge(&second);
    assert!(first == whole, "{:?}", first.served_as);
}
