use super::*;

fn fifo(priority: i32) -> Priority {
    Priority { policy: FIFO, level: 99 - priority }
}

#[test]
fn ack_inherits_real_time_only_for_nodes_that_ask_for_it() {
    assert_eq!(ack(fifo(99), 0x900, Priority::nice(0)), Some(fifo(99)));
    assert_eq!(ack(fifo(99), 0x100, Priority::nice(0)), None);
    assert_eq!(ack(fifo(99), 0x100, Priority::nice(5)), Some(Priority::nice(0)));
}

#[test]
fn ack_never_goes_below_the_nodes_minimum_or_a_real_time_servers_own_priority() {
    assert_eq!(ack(Priority::nice(10), 0x332, Priority::nice(0)), Some(fifo(50)));
    assert_eq!(ack(Priority::nice(10), 0x100, Priority::nice(0)), None);
    assert_eq!(ack(Priority::nice(10), 0x113, Priority::nice(0)), Some(Priority::nice(10)));
    // Its policy comes with its least: 0x600 is BATCH, and 0xfb a nice value of -5.
    let batch = Priority { policy: BATCH, ..Priority::nice(-5) };
    assert_eq!(ack(Priority::nice(10), 0x6fb, Priority::nice(0)), Some(batch));
    assert_eq!(ack(Priority::nice(0), 0x900, fifo(10)), None);
    assert_eq!(ack(fifo(20), 0x900, fifo(10)), Some(fifo(20)));
    assert_eq!(ack(fifo(5), 0x900, fifo(10)), None);
}

#[test]
fn mainline_uses_the_lower_of_the_callers_nice_value_and_the_nodes_unsigned_minimum() {
    assert_eq!(mainline(Priority::nice(-10), 0x100, Priority::nice(0), false), Some(Priority::nice(-10)));
    assert_eq!(mainline(Priority::nice(10), 0x100, Priority::nice(0), false), None);
    assert_eq!(mainline(Priority::nice(10), 0x17f, Priority::nice(0), false), Some(Priority::nice(10)));
    assert_eq!(mainline(Priority::nice(0), 0x100, Priority::nice(5), true), Some(Priority::nice(0)));
    assert_eq!(mainline(Priority::nice(0), 0x17f, Priority::nice(5), true), None);
}

#[test]
fn only_threads_of_participants_get_a_policy() {
    let region = Region::create().expect("memory");
    let mut scratch = crate::lock::Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let id = Id::<Thread>::new(1).expect("an index");
    let owner = Id::<Process>::new(3).expect("a slot");
    // A living process that has not joined.
    let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero().get();
    let own = own_tid().cast_signed();
    guard.set(id, thread::TID, own);
    assert_eq!(guard.tid_to_set(id), Err(Errno::SRCH), "it belongs to no process");
    guard.set(id, thread::PROCESS, Some(owner));
    assert_eq!(guard.tid_to_set(id), Ok(own));
    guard.set(id, thread::TID, parent);
    assert_eq!(guard.tid_to_set(id), Err(Errno::PERM));
    region.registry().enter(owner, parent);
    assert_eq!(guard.tid_to_set(id), Ok(parent));
    guard.set(id, thread::TID, i32::MAX);
    assert_eq!(guard.tid_to_set(id), Err(Errno::PERM), "there is no such thread");
}

/// A real-time call to a node that inherits, and a thread of slot 3 whose policy cannot be set,
/// because there is no such thread.
fn sent_by(guard: &mut Guard<'_>, way: InheritBy) -> (Id<Transaction>, Id<Thread>, Id<Process>) {
    let t = guard.alloc::<Transaction>().expect("a record");
    guard.set(t, transaction::PRIORITY, fifo(60).to_word());
    guard.set(t, transaction::INHERIT_BY, way as u32);
    let to = guard.alloc::<Thread>().expect("a record");
    let owner = Id::<Process>::new(3).expect("a slot");
    guard.set(to, thread::TID, i32::MAX);
    guard.set(to, thread::PROCESS, Some(owner));
    guard.set(to, thread::OWN_PRIORITY, Priority::nice(0).to_word());
    guard.set(to, thread::PRIORITY, Priority::nice(0).to_word());
    (t, to, owner)
}

#[test]
fn only_a_real_time_callers_own_priority_is_inherited_through_a_futex() {
    use FLAT_BINDER_FLAG_INHERIT_RT as INHERIT;
    use InheritBy::{Auto, PiFutex, Policy};
    let cases = [
        (Auto, INHERIT, fifo(60), true),
        (PiFutex, INHERIT, fifo(60), true),
        (Policy, INHERIT, fifo(60), false),
        (Auto, 0, fifo(60), false),
        (PiFutex, 0, fifo(60), false),
        (Auto, INHERIT, fifo(50), false),
        (PiFutex, INHERIT, fifo(50), false),
    ];
    for (tag, (way, flags, wanted, held)) in (1..).zip(cases) {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let (t, to, owner) = sent_by(&mut guard, way);
        // A refusal is remembered, by the context's tag.
        region.words()[crate::records::TAG].store(tag, Relaxed);
        let what = format!("{way:?}, flags {flags:x}, {wanted:?}");
        guard.inherit(Profile::Ack, t, flags, to, wanted);
        assert_eq!(guard.get(t, transaction::INHERITED_BY), held.then_some(to), "{what}");
        assert_eq!(guard.get(owner, process::DENIED), u64::from(!held), "{what}");
        assert_eq!(guard.was_refused(owner), way == Auto && held, "{what}");
        assert_eq!(guard.get(to, thread::PRIORITY), Priority::nice(0).to_word(), "{what}");
        guard.set(t, transaction::PRIORITY, Priority::nice(-5).to_word());
        guard.set(t, transaction::INHERITED_BY, None);
        guard.inherit(Profile::Ack, t, flags, to, Priority::nice(-5));
        assert_eq!(guard.get(t, transaction::INHERITED_BY), None, "an ordinary one: {what}");
        crate::pi_futex::set_raised(false);
    }
}

#[test]
fn a_call_boosts_once_and_a_boosted_thread_gets_its_own_priority_back() {
    let region = Region::create().expect("memory");
    let mut scratch = crate::lock::Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let (t, to, owner) = sent_by(&mut guard, InheritBy::Policy);
    guard.set(t, transaction::PRIORITY, Priority::nice(0).to_word());
    // It runs as the caller wants it: nothing is set.
    guard.inherit_priority(Profile::Ack, t, 0, to);
    assert_eq!(guard.get(t, transaction::SAVED_PRIORITY), Priority::nice(0).to_word());
    assert_eq!(guard.get(owner, process::DENIED), 0);
    guard.set(to, thread::PRIORITY, Priority::nice(-5).to_word());
    guard.inherit_priority(Profile::Ack, t, 0, to);
    assert_eq!(guard.get(owner, process::DENIED), 0, "that was done");
    guard.set(t, transaction::PRIORITY_SET, false);
    guard.inherit_priority(Profile::Ack, t, 0, to);
    assert_eq!(guard.get(owner, process::DENIED), 1, "back to its own, which is refused");
    assert_eq!(guard.get(t, transaction::SAVED_PRIORITY), Priority::nice(0).to_word());
    // In the middle of another call it keeps what it has.
    guard.set(t, transaction::PRIORITY_SET, false);
    let below = guard.alloc::<Transaction>().expect("a record");
    guard.set(to, thread::STACK, Some(below));
    guard.set(t, transaction::PRIORITY, Priority::nice(-5).to_word());
    guard.inherit_priority(Profile::Ack, t, 0, to);
    assert_eq!(guard.get(owner, process::DENIED), 1);
    assert_eq!(guard.get(t, transaction::SAVED_PRIORITY), Priority::nice(-5).to_word());
}

#[test]
fn only_an_idle_looper_of_lower_priority_is_boosted_early() {
    const FLAGS: u32 = FLAT_BINDER_FLAG_INHERIT_RT;
    type Change = dyn Fn(&mut Guard<'_>, Id<Transaction>, Id<Thread>);
    let boosted_early = |change: &Change| {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let (t, to, owner) = sent_by(&mut guard, InheritBy::PiFutex);
        guard.set(owner, process::THREADS_HEAD, Some(to));
        guard.set(to, thread::LOOPER, LOOPER_ENTERED);
        change(&mut guard, t, to);
        guard.boost_looper_early(t, FLAGS, owner);
        guard.get(t, transaction::INHERITED_BY) == Some(to)
    };
    let looper = |state: u32| boosted_early(&move |guard, _, to| guard.set(to, thread::LOOPER, state));
    assert!(looper(LOOPER_ENTERED) && looper(LOOPER_REGISTERED));
    assert!(looper(LOOPER_ENTERED | crate::thread::LOOPER_POLL));
    assert!(!looper(0) && !looper(crate::thread::LOOPER_POLL));
    for left in [LOOPER_EXITED, LOOPER_INVALID, LOOPER_EXITED | LOOPER_INVALID] {
        assert!(!looper(LOOPER_ENTERED | left) && !looper(LOOPER_REGISTERED | left) && !looper(left));
    }
    assert!(!boosted_early(&|guard, t, to| guard.set(to, thread::STACK, Some(t))), "it serves");
    let with_work = |kind: Kind| {
        boosted_early(&move |guard, t, to| {
            guard.push_new(thread::TODO.queue(to), Kind::Complete, 0).expect("a record");
            guard.push_new(thread::TODO.queue(to), kind, t.index() as u64).expect("a record");
        })
    };
    assert!(!with_work(Kind::Transaction) && with_work(Kind::Node), "only a call keeps it busy");
    assert!(!boosted_early(&|guard, _, to| guard.set(to, thread::OWN_PRIORITY, 0)));
    assert!(!boosted_early(&|guard, _, to| guard.set(to, thread::PRIORITY, 0)));
    for (level, is) in [(60, false), (61, false), (59, true)] {
        let now = fifo(level).to_word();
        assert_eq!(boosted_early(&move |guard, _, to| guard.set(to, thread::PRIORITY, now)), is, "{level}");
    }
    let ordinary = Priority::nice(-20).to_word();
    assert!(!boosted_early(&move |guard, t, _| guard.set(t, transaction::PRIORITY, ordinary)));
    assert!(!boosted_early(&|guard, t, _| guard.set(t, transaction::PRIORITY, 0)));
}

#[test]
fn a_callers_policy_counts_if_the_nodes_minimum_is_not_higher() {
    let batch = Priority { policy: BATCH, level: 120 };
    assert_eq!(ack(batch, 0, Priority::nice(5)), Some(batch));
    let rr = Priority { policy: RR, level: 39 };
    assert_eq!(ack(rr, FLAT_BINDER_FLAG_INHERIT_RT | 60, Priority::nice(0)), Some(rr));
    let least_fifo = FLAT_BINDER_FLAG_INHERIT_RT | FIFO << FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT | 60;
    assert_eq!(ack(rr, least_fifo, Priority::nice(0)), Some(fifo(60)));
    assert_eq!(mainline(Priority::nice(0), 0, Priority::nice(0), true), None);
    assert_eq!(mainline(Priority::nice(0), 5, Priority::nice(5), true), None);
    assert_eq!(mainline(Priority::nice(0), 5, Priority::nice(6), true), Some(Priority::nice(5)));
}

#[test]
fn a_priority_that_a_dead_sender_may_have_set_is_restored() {
    let region = Region::create().expect("memory");
    let mut scratch = crate::lock::Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let id = Id::<Thread>::new(1).expect("an index");
    let nice = rustix::process::getpriority_process(None).expect("this thread's own");
    let now = sched::get(0).expect("this thread's own");
    if nice >= 19 || now.policy != OTHER {
        return roundtrip_skips::skip(roundtrip_skips::Need::Machine, "this thread can be made no nicer");
    }
    guard.set(id, thread::PROCESS, Some(Id::new(3).expect("a slot")));
    guard.set(id, thread::TID, own_tid().cast_signed());
    guard.set(id, thread::PRIORITY, Priority::nice(nice + 1).to_word());
    guard.undo_last_policy();
    assert_eq!(sched::get(0), Ok(now), "no policy was set");
    region.words()[POLICY_SET_LAST].store(1, Relaxed);
    guard.undo_last_policy();
    assert_eq!(sched::get(0), Ok(Priority::nice(nice + 1)));
    assert_eq!(region.words()[POLICY_SET_LAST].load(Relaxed), 0);
}

#[test]
fn a_thread_that_was_just_refused_or_already_holds_the_call_is_not_tried_again() {
    for (held, refused, asks) in [(false, false, true), (true, false, false), (false, true, false)] {
        let region = Region::create().expect("memory");
        let mut scratch = crate::lock::Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let (t, to, owner) = sent_by(&mut guard, InheritBy::Auto);
        let tag = 0x77 + u64::from(held) + 2 * u64::from(refused);
        region.words()[crate::records::TAG].store(tag, Relaxed);
        guard.set(t, transaction::INHERITED_BY, held.then_some(to));
        if refused {
            guard.remember_refusal(owner);
        }
        guard.inherit(Profile::Ack, t, FLAT_BINDER_FLAG_INHERIT_RT, to, fifo(60));
        assert_eq!(guard.get(t, transaction::INHERITED_BY), Some(to));
        assert_eq!(region.words()[POLICY_SET_LAST].load(Relaxed) != 0, asks, "{held}, {refused}");
        crate::pi_futex::set_raised(false);
    }
}
