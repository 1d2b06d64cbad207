//! Properties of reasons over made-up operations: sums, and what a sentence may leave out.

use proptest::prelude::*;

use super::*;

fn process(number: u32) -> Process {
    let class = if number.is_multiple_of(3) { Class::RealTime(50) } else { Class::Ordinary(0) };
    Process { pid: 100 + number, name: format!("program-{}", number % 4), class }
}

fn thread(tid: u32, pid: u32) -> Thread {
    Thread { tid, pid: Some(pid), comm: format!("thread-{tid}"), prio: Some(120) }
}

fn why(reason: Reason, by: Option<u32>) -> Why {
    Why {
        process: by.map(process),
        thread: by.map(|number| thread(1000 + number, 100 + number)),
        cpu: Some(0),
        ..Why::of(reason, Role::Server)
    }
}

/// One of the reasons, some of them with one of a few processes.
fn made_up(kind: u32, by: u32) -> Why {
    match kind {
        0 => why(Reason::OwnWork, Some(by % 2)),
        1 | 2 => why(Reason::Cpu, Some(by)),
        3 => why(Reason::Interrupted { by: Interrupt::Timer }, None),
        4 => why(Reason::Thread { but: None }, Some(by)),
        5 => why(Reason::BusyPool { code: Some(by), call_ns: None }, Some(by)),
        6 => why(Reason::Device { device: None, operation: Some("write"), interrupt: None }, None),
        7 => why(Reason::BehindIo { device: None, what: Io::Commit }, Some(by)),
        8 => why(Reason::Throttled { limit: Limit::CpuQuota, cgroup: None }, None),
        9 => why(Reason::Sleep { call: None }, Some(by)),
        10 => why(Reason::WakeUp { step: WakeUpStep::IdleExit { state: None } }, None),
        11 => why(Reason::CpuGone, None),
        12 => why(Reason::Unknown { why: Unknown::Waker }, None),
        13 => why(Reason::Unknown { why: Unknown::EventsLost }, None),
        _ => why(Reason::SlowCpu { cpu: 0 }, None),
    }
}

/// An operation without gaps.
fn operation(lengths: &[(u32, u32, u64)]) -> Vec<Stretch> {
    let mut at_ns = 1_000;
    let stretch = |&(kind, by, length_ns): &(u32, u32, u64)| {
        let begin_ns = at_ns;
        at_ns += length_ns;
        Stretch { begin_ns, end_ns: at_ns, why: made_up(kind, by) }
    };
    lengths.iter().map(stretch).collect()
}

fn lengths() -> impl Strategy<Value = Vec<(u32, u32, u64)>> {
    prop::collection::vec((0_u32..15, 0_u32..9, 1_u64..1_000_000), 1..24)
}

/// What the sentence and the groups say, without threads.
fn said(reasons: &Reasons) -> impl PartialEq + std::fmt::Debug + use<> {
    let answer = reasons.answer();
    let named = |named: &Named<'_>| {
        let most = named.of.largest().map(|most| match most {
            Most::One(of) => (1, of.process.clone(), of.reason().clone(), of.lost_ns),
            Most::Of(alike) => {
                (alike.of, alike.first.process.clone(), alike.first.reason().clone(), alike.lost_ns)
            }
        });
        (named.of.kind, named.of.lost_ns, named.then, most)
    };
    let named: Vec<_> = answer.named.iter().map(named).collect();
    let whole = (answer.delay_ns, answer.unknown_ns, answer.cannot_tell, answer.mostly);
    (whole, named, reasons.main())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_level_adds_up_to_the_one_above(lengths in lengths(), usual_ns in 0_u64..3_000_000) {
        let stretches = operation(&lengths);
        let reasons = Reasons::of(&stretches, usual_ns);
        let whole_ns: u64 = stretches.iter().map(Stretch::duration_ns).sum();
        prop_assert_eq!(reasons.sum_ns(), whole_ns);
        let is_usual = |of: &&OfKind| of.kind.is_usual();
        let usual_sum_ns: u64 = reasons.kinds.iter().filter(is_usual).map(|of| of.sum_ns).sum();
        prop_assert_eq!(reasons.delay_ns(), whole_ns - usual_ns.min(usual_sum_ns));
        for of in &reasons.kinds {
            prop_assert!(of.lost_ns == of.sum_ns || of.kind.is_usual());
            prop_assert_eq!(of.processes.iter().map(|of| of.sum_ns).sum::<u64>(), of.sum_ns);
            prop_assert_eq!(of.processes.iter().map(|of| of.lost_ns).sum::<u64>(), of.lost_ns);
            prop_assert_eq!(of.subjects().iter().map(|subject| subject.1).sum::<u64>(), of.lost_ns);
            for process in &of.processes {
                prop_assert_eq!(process.threads.iter().map(|of| of.sum_ns).sum::<u64>(), process.sum_ns);
                for thread in &process.threads {
                    prop_assert_eq!(thread.why.iter().map(|why| why.1).sum::<u64>(), thread.sum_ns);
                }
            }
        }
    }

    #[test]
    fn the_sentence_names_at_least_half_unless_more_than_half_is_unknown(
        lengths in lengths(), usual_ns in 0_u64..3_000_000,
    ) {
        let reasons = Reasons::of(&operation(&lengths), usual_ns);
        let answer = reasons.answer();
        let named_ns: u64 = answer.named.iter().map(|named| named.of.lost_ns).sum();
        prop_assert_eq!(answer.cannot_tell, answer.unknown_ns * 2 > answer.delay_ns);
        prop_assert!(answer.cannot_tell || named_ns * 2 >= answer.delay_ns, "{:?}", answer);
        let sizes: Vec<u64> = reasons.known().map(|of| of.lost_ns).collect();
        prop_assert!(answer.named.len() <= sizes.len());
        prop_assert!(answer.named.iter().map(|named| named.of.lost_ns).eq(sizes.iter().copied().take(answer.named.len())));
        // The second one follows if it is at least a quarter.
        if let Some(second) = sizes.get(1).filter(|second| **second * 4 >= answer.delay_ns) {
            prop_assert!(answer.named.len() > 1, "{}", second);
        }
        // What is left unsaid is no larger than what is said, whatever the unknown part was.
        if !answer.mostly && !answer.cannot_tell && let [first, second, ..] = sizes[..] {
            prop_assert!(second + answer.unknown_ns <= first);
        }
    }

    #[test]
    fn splitting_stays_and_processes_changes_no_sentence(
        lengths in lengths(), usual_ns in 0_u64..3_000_000, cuts: u64,
    ) {
        let stretches = operation(&lengths);
        let mut split = Vec::new();
        for (index, stretch) in stretches.iter().enumerate() {
            let (mut first, mut second) = (stretch.clone(), stretch.clone());
            let middle_ns = stretch.begin_ns + (cuts >> (index % 40)) % stretch.duration_ns();
            (first.end_ns, second.begin_ns) = (middle_ns, middle_ns);
            if let Some(thread) = second.why.thread.as_mut() {
                thread.tid += 5000;
                thread.comm = "another thread of it".into();
            }
            split.extend([first, second]);
        }
        prop_assert_eq!(said(&Reasons::of(&stretches, usual_ns)), said(&Reasons::of(&split, usual_ns)));
    }

    #[test]
    fn rows_of_many_operations_add_up_and_count_each_once(
        many in prop::collection::vec(lengths(), 1..6), usual_ns in 0_u64..1_000_000,
    ) {
        let mut across = Across::default();
        let all: Vec<Reasons> = many.iter().map(|one| Reasons::of(&operation(one), usual_ns)).collect();
        all.iter().for_each(|one| across.add(one));
        prop_assert_eq!(across.lost_ns(), all.iter().map(Reasons::delay_ns).sum::<u64>());
        let rows = across.rows();
        let main: u64 = rows.iter().map(|row| row.operations).sum();
        prop_assert_eq!(main + across.ordinary(), all.len() as u64);
        prop_assert!(rows.is_sorted_by(|one, next| one.lost_ns >= next.lost_ns));
        for row in rows {
            prop_assert!(row.worst_ns <= row.lost_ns && row.lost_ns <= row.worst_ns * all.len() as u64);
        }
    }
}

#[test]
fn a_compile_is_one_group_and_programs_of_another_class_are_another() {
    let mut across = Across::default();
    let behind = |pid, tid, class| {
        let process = Process { pid, name: "python3".into(), class };
        Why { process: Some(process), thread: Some(thread(tid, pid)), ..why(Reason::Cpu, None) }
    };
    for (pid, class, length_ns) in
        [(7, Class::Ordinary(0), 5_000), (8, Class::Ordinary(0), 3_000), (9, Class::RealTime(50), 4_000)]
    {
        let stretch = Stretch { begin_ns: 0, end_ns: length_ns, why: behind(pid, pid + 1, class) };
        across.add(&Reasons::of(&[stretch], 0));
    }
    let rows = across.rows();
    let said: Vec<_> = rows.iter().map(|row| (row.operations, row.lost_ns, row.worst_ns)).collect();
    assert_eq!(said, [(2, 8_000, 5_000), (1, 4_000, 4_000)]);
}

#[test]
fn programs_of_any_number_leave_rows_to_those_that_cost_most_and_nothing_is_lost() {
    let mut across = Across::default();
    let mut lost_ns = 0;
    for number in 0..5_000_u32 {
        // Every tenth waits for the same program.
        let (name, length_ns) =
            if number % 10 == 0 { ("hog".to_owned(), 900) } else { (number.to_string(), 1_000) };
        let process = Process { pid: number, name, class: Class::Ordinary(0) };
        let why = Why { process: Some(process), ..why(Reason::Cpu, None) };
        let reasons = Reasons::of(&[Stretch { begin_ns: 0, end_ns: length_ns, why }], 0);
        let of = Operation { start_ns: 0, duration_ns: length_ns, deadline_ns: None };
        across.add_timed(of, &reasons);
        lost_ns += length_ns;
    }
    let rows = across.rows();
    assert!(rows.len() <= 1_000, "{}", rows.len());
    assert_eq!(across.lost_ns(), lost_ns);
    assert_eq!(rows.iter().map(|row| row.operations).sum::<u64>(), 5_000);
    let named = |row: &&&Row| matches!(&row.subject, Subject::Process { name, .. } if name == "hog");
    assert_eq!(rows.iter().find(named).map(|row| (row.operations, row.lost_ns)), Some((500, 450_000)));
    let others = rows.iter().find(|row| row.subject == Subject::Others).unwrap();
    assert_eq!((others.kind, others.worst_ns), (ReasonKind::Cpu, 1_000));
    assert!(others.operations >= 3_500 && others.without == Without::default(), "{others:?}");
}

#[test]
fn mostly_is_said_if_the_unknown_part_could_change_the_order() {
    let of = |lengths: &[(u32, u32, u64)]| {
        let reasons = Reasons::of(&operation(lengths), 0);
        let answer = reasons.answer();
        (answer.cannot_tell, answer.mostly, answer.named.len())
    };
    assert_eq!(of(&[(1, 1, 50), (8, 0, 30), (12, 0, 19)]), (false, false, 2));
    assert_eq!(of(&[(1, 1, 50), (8, 0, 30), (12, 0, 21)]), (false, true, 2));
    assert_eq!(of(&[(1, 1, 50), (8, 0, 20), (12, 0, 71)]), (true, false, 1));
}

#[test]
fn every_kind_is_found_by_its_name() {
    let made_up = (0..15).map(|kind| made_up(kind, 0).reason.kind());
    for kind in made_up.chain([ReasonKind::Stopped]) {
        assert_eq!(ReasonKind::of_name(kind.name()), kind);
    }
    assert_eq!(ReasonKind::of_name("a later one"), ReasonKind::Unknown);
}
