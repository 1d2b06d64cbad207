use super::*;
use crate::records::{Buffer, CONTEXT_MANAGER, TAG, buffer};

#[test]
fn a_cyclic_list_ends() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let id = Id::<Thread>::new(1);
    for _ in 0..3 {
        assert_eq!(guard.step::<Thread>(None), None);
        assert_eq!((0..STEPS).filter(|_| guard.step(id) == id).count(), STEPS as usize);
        assert!(guard.is_tired());
        assert_eq!(guard.step(id), None);
        guard.unlock();
        guard.relock();
        assert!(!guard.is_tired());
    }
}

#[test]
fn a_journal_is_undone_from_its_end() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    guard.set_word(TAG, 1);
    guard.commit();
    guard.set_word(TAG, 2);
    guard.set_word(TAG, 3);
    guard.set_word(CONTEXT_MANAGER, 4);
    let length = &region.words()[JOURNAL_LENGTH];
    assert_eq!(length.load(Relaxed), 3);
    guard.unlock();
    assert_eq!(length.load(Relaxed), 0);
    // As if the owner had been killed before the unlock.
    length.store(3, Relaxed);
    guard.relock();
    assert_eq!([guard.word(TAG), guard.word(CONTEXT_MANAGER), length.load(Relaxed)], [1, 0, 0]);
    // A garbage length is harmless.
    length.store(u64::MAX, Relaxed);
    guard.unlock();
    length.store(u64::MAX, Relaxed);
    guard.relock();
    assert_eq!(length.load(Relaxed), 0);
    guard.set_word(usize::MAX, 5);
    assert_eq!((guard.word(usize::MAX), length.load(Relaxed)), (0, 0));
}

#[test]
fn a_rollback_restores_the_state_at_its_mark_and_frees_no_record() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let [kept, freed] = [(); 2].map(|()| guard.alloc::<Buffer>().expect("a record"));
    guard.set(kept, buffer::SIZE, 8);
    guard.commit();
    guard.set(kept, buffer::SIZE, 16);
    let mark = guard.mark();
    guard.free(freed);
    guard.set(kept, buffer::SIZE, 24);
    guard.rollback_to(mark);
    assert_eq!(guard.get(kept, buffer::SIZE), 16);
    guard.commit();
    let next = guard.alloc::<Buffer>().expect("a record");
    assert!(next != freed && next != kept);
    guard.free(freed);
    assert_eq!(guard.get(freed, buffer::SIZE), 0);
    guard.set(freed, buffer::SIZE, 9);
    assert_ne!(guard.alloc::<Buffer>(), Ok(freed), "it is free at the commit only");
    guard.commit();
    assert_eq!(guard.alloc::<Buffer>(), Ok(freed));
    assert_eq!(guard.get(freed, buffer::SIZE), 0, "zeroed");
}

#[test]
fn transaction_numbers_are_never_0_and_are_not_undone() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let mark = guard.mark();
    assert_eq!([guard.next_number(), guard.next_number()], [1, 2]);
    guard.rollback_to(mark);
    assert_eq!(guard.next_number(), 3);
    region.words()[LAST_NUMBER].store(u64::MAX, Relaxed);
    assert_eq!(guard.next_number(), 1);
}

#[test]
fn a_slot_is_swept_once_even_if_it_is_queued_several_times() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let slots = [1, 2].map(|slot| Id::<Process>::new(slot).expect("a slot"));
    for slot in [slots[0], slots[1], slots[0]] {
        guard.sweep_later(slot);
    }
    assert_eq!(guard.take_sweeps(), slots);
    assert!(guard.take_sweeps().is_empty());
}

#[test]
fn a_long_waiter_notifies_the_supervisor_which_ends_a_context_without_progress() {
    let region = Region::create().expect("memory");
    let mut wait = Wait::default();
    // Each sign of progress restarts the count.
    for changed in 0..3 {
        region.words()[LAST_NUMBER].store(changed, Relaxed);
        assert!((0..LOOKS_BEFORE_ENDING).all(|_| !wait.is_over(&region)), "{changed}");
    }
    // Another owner counts as progress, another waiter does not.
    let owner = region.mutex().owner;
    owner.store(1234, Relaxed);
    assert!((0..LOOKS_BEFORE_ENDING).all(|_| !wait.is_over(&region)));
    owner.store(1234 | futex::WAITERS, Relaxed);
    assert!(wait.is_over(&region), "this is the supervisor");
    assert_eq!(region.ended(), Some(End::Stuck));
    assert!(Wait::default().is_over(&region));
    let region = Region::create().expect("memory");
    let (own, supervisor) = std::os::unix::net::UnixStream::pair().expect("sockets");
    region.wakers().set_supervisor(std::sync::Arc::new(std::sync::Mutex::new(own)));
    supervisor.set_nonblocking(true).expect("a socket");
    let mut wait = Wait::default();
    let mut asked = Vec::new();
    for look in 0..=3 * LOOKS_BEFORE_ENDING {
        assert!(!wait.is_over(&region), "only the supervisor ends it");
        if std::io::Read::read(&mut &supervisor, &mut [0; 16]).is_ok() {
            asked.push(look);
        }
    }
    let expected = (1..=3 * LOOKS_BEFORE_ENDING).filter(|look| look % LOOKS_BEFORE_ASKING == 0);
    assert_eq!(asked, expected.collect::<Vec<_>>());
}

#[test]
fn the_journal_has_no_entry_after_its_end() {
    let region = Region::create().expect("memory");
    assert!(entry(&region, JOURNAL_ENTRIES - 1).is_some());
    assert!(entry(&region, JOURNAL_ENTRIES).is_none());
}
