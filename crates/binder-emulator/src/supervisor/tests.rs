use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::SocketAddr;

use super::*;
use crate::alone::{InSeccomp, alone};
use crate::sleep_word::{CLAIMS, ENTERS_SECCOMP, GOES_TO_SECCOMP, LEAVES_SECCOMP};

/// A supervisor on this thread, and the other end of the socket that stops it.
fn supervisor(name: &str) -> (Supervisor, UnixStream) {
    let name = format!("roundtrip-test-{}-{name}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("a free name");
    let (stop, stopped) = UnixStream::pair().expect("sockets");
    let region = Arc::new(Region::create().expect("memory"));
    (Supervisor::new(region, listener, stopped).expect("a supervisor"), stop)
}

fn joined(slot: u64, generation: u64) -> Joined {
    let (connection, _) = UnixStream::pair().expect("sockets");
    Joined { connection, slot: Id::new(slot).expect("a slot"), generation, inbox: None }
}

#[test]
fn a_dead_process_is_removed_from_the_registry_unless_its_slot_was_reused() {
    let (mut supervisor, _stop) = supervisor("registry");
    let mut scratch = Scratch::default();
    let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero().get();
    let slot = Id::<Process>::new(3).expect("a slot");
    let stands = |supervisor: &Supervisor| supervisor.region.registry().is_thread_of(slot, parent);
    supervisor.region.registry().enter(slot, parent);
    supervisor.joined.push(joined(2, 1));
    supervisor.joined.push(joined(3, 2));
    supervisor.bury(&joined(3, 1), &mut scratch);
    assert!(stands(&supervisor), "its next owner");
    supervisor.joined.truncate(1);
    supervisor.bury(&joined(3, 2), &mut scratch);
    assert!(!stands(&supervisor));
}

#[test]
fn a_slot_of_another_generation_is_not_released() {
    let (mut supervisor, _stop) = supervisor("generation");
    let mut scratch = Scratch::default();
    let region = Arc::clone(&supervisor.region);
    let slot = Guard::lock(&region, &mut scratch).new_process(7).expect("a slot");
    let state = |scratch: &mut Scratch| Guard::lock(&region, scratch).get(slot, process::STATE);
    let generation = Guard::lock(&region, &mut scratch).get(slot, process::GENERATION);
    supervisor.bury(&Joined { generation: generation + 1, ..joined(slot.index() as u64, 0) }, &mut scratch);
    assert_eq!(state(&mut scratch), crate::process::LIVE);
    supervisor.bury(&Joined { generation, ..joined(slot.index() as u64, 0) }, &mut scratch);
    assert_eq!(state(&mut scratch), crate::process::FREE);
}

#[test]
fn a_listener_that_keeps_failing_is_dropped() {
    let (mut supervisor, _stop) = supervisor("pause");
    supervisor.refused = MOST_REFUSED - 2;
    supervisor.pause();
    assert!(supervisor.listener.is_some() && supervisor.refused == MOST_REFUSED - 1);
    supervisor.pause();
    assert!(supervisor.listener.is_none());
    assert!(supervisor.admit(&mut Scratch::default()).is_ok() && supervisor.turn_away().is_ok());
}

#[test]
fn a_connection_ends_with_its_last_request() {
    let (own, other) = UnixStream::pair().expect("sockets");
    (&other).write_all(&[Request::Help as u8, 7, 99, 1, Request::Sweep as u8, 2]).expect("room");
    let requests = Requests::read(&own);
    assert!(!requests.ended);
    let mut read = Vec::new();
    requests.each(|request, slot| read.push((request, slot)));
    assert_eq!(read, [(Request::Help, 7), (Request::Sweep, 2)], "what is none is left out");
    // Unread data makes this an error instead of an end of file.
    (&own).write_all(&[0]).expect("room");
    drop(other);
    let requests = Requests::read(&own);
    assert!(requests.ended && requests.length == 0);
    assert!(Requests::read(&own).ended);
}

#[test]
fn only_a_lack_of_descriptors_counts_as_one() {
    for (errno, is_want) in [(Errno::MFILE, true), (Errno::NFILE, true), (Errno::CONNABORTED, false)] {
        assert_eq!(is_out_of_descriptors(&errno.into()), is_want, "{errno}");
    }
    assert!(!is_out_of_descriptors(&io::Error::other("no error of the system")));
}

/// A claimed thread in seccomp that this process cannot wake.
fn claimed(region: &Region) -> Id<Thread> {
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(region, &mut scratch);
    let owner = Id::<Process>::new(9).expect("a slot");
    let claimed = guard.alloc::<Thread>().expect("a record");
    guard.set(claimed, crate::records::thread::PROCESS, Some(owner));
    let word = region.sleep_word(claimed.index());
    word.set_out(GOES_TO_SECCOMP);
    assert!(word.make(ENTERS_SECCOMP) && word.make(CLAIMS));
    claimed
}

#[test]
fn a_claimed_thread_is_watched_until_it_has_left_seccomp() {
    let (mut supervisor, _stop) = supervisor("claimed");
    let region = Arc::clone(&supervisor.region);
    let mut scratch = Scratch::default();
    supervisor.wake_the_claimed(&mut scratch);
    assert_eq!((supervisor.unwoken.len(), supervisor.failed_checks, supervisor.next_sweep), (0, 0, None));
    // It is asked about one thread, twice.
    let first = claimed(&region);
    for failed_checks in 1..=2 {
        let before = Instant::now();
        supervisor.next_sweep = None;
        region.wakers().leave_to_supervisor(first);
        supervisor.wake_the_claimed(&mut scratch);
        assert_eq!((&supervisor.unwoken[..], supervisor.failed_checks), (&[first][..], failed_checks));
        assert!(
            supervisor.next_sweep.is_some_and(|at| at >= before + SWEEP),
            "it may have been claimed before"
        );
    }
    // It does not look for others before the time.
    let second = claimed(&region);
    supervisor.next_sweep = Some(Instant::now() + Duration::from_secs(3600));
    supervisor.wake_the_claimed(&mut scratch);
    assert_eq!((&supervisor.unwoken[..], supervisor.failed_checks), (&[first][..], 3));
    let before = Instant::now();
    supervisor.next_sweep = Some(before);
    supervisor.wake_the_claimed(&mut scratch);
    assert_eq!(supervisor.unwoken, [first, second]);
    assert!(supervisor.next_sweep.is_some_and(|at| at >= before + SWEEP));
    assert!(region.sleep_word(first.index()).make(LEAVES_SECCOMP));
    supervisor.wake_the_claimed(&mut scratch);
    assert_eq!((&supervisor.unwoken[..], supervisor.failed_checks), (&[second][..], 0));
    assert!(region.sleep_word(second.index()).make(LEAVES_SECCOMP));
    for _ in 0..2 {
        supervisor.next_sweep = Some(before);
        supervisor.wake_the_claimed(&mut scratch);
        assert!(supervisor.unwoken.is_empty());
    }
    assert_eq!(supervisor.next_sweep, None, "nothing happens: it waits until it is roused");
}

#[test]
fn a_request_for_help_shortens_the_supervisors_wait_and_never_extends_it() {
    let (mut supervisor, _stop) = supervisor("help");
    let mut scratch = Scratch::default();
    supervisor.joined.push(joined(2, 1));
    let before = Instant::now();
    let soon = before + Duration::from_nanos(RETRY.tv_nsec.unsigned_abs());
    supervisor.serve(0, Request::Help, 0, None, &mut scratch);
    assert!(supervisor.next_sweep.is_some_and(|at| at >= soon));
    supervisor.next_sweep = Some(before + Duration::from_secs(3600));
    supervisor.serve(0, Request::Help, 0, None, &mut scratch);
    assert!(supervisor.next_sweep.is_some_and(|at| at < before + Duration::from_secs(3600)));
    supervisor.next_sweep = Some(before);
    supervisor.serve(0, Request::Help, 0, None, &mut scratch);
    assert_eq!(supervisor.next_sweep, Some(before));
}

#[test]
fn only_a_listener_is_stored_and_given_to_participants() {
    alone(concat!(module_path!(), "::only_a_listener_is_stored_and_given_to_participants"), || {
        let Some(InSeccomp { listener, .. }) = InSeccomp::new() else { return };
        let (mut supervisor, _stop) = supervisor("listener");
        let mut scratch = Scratch::default();
        let (own, other) = UnixStream::pair().expect("sockets");
        supervisor.joined.push(Joined { connection: own, ..joined(2, 1) });
        let answered = |supervisor: &mut Supervisor, scratch: &mut Scratch, slot: u8| {
            supervisor.serve(0, Request::Listener, slot, None, scratch);
            let answer = receive_with(&other, &mut [0; 2], RecvFlags::DONTWAIT).expect("an answer");
            (answer.0, answer.1.len())
        };
        let keeps = |supervisor: &mut Supervisor, scratch: &mut Scratch, descriptor| {
            supervisor.serve(0, Request::HandOver, 0, descriptor, scratch);
            let mut byte = [9; 2];
            let (length, _) = receive_with(&other, &mut byte, RecvFlags::DONTWAIT).expect("an answer");
            assert_eq!(length, 1);
            byte[0]
        };
        let no_listener = OwnedFd::from(std::io::pipe().expect("a pipe").0);
        assert_eq!(keeps(&mut supervisor, &mut scratch, Some(no_listener)), 0);
        assert_eq!(keeps(&mut supervisor, &mut scratch, None), 0, "there was no descriptor for it");
        assert_eq!(answered(&mut supervisor, &mut scratch, 2), (1, 0));
        let copy = listener.try_clone().expect("a copy");
        assert_eq!(keeps(&mut supervisor, &mut scratch, Some(copy)), 1);
        assert_eq!(answered(&mut supervisor, &mut scratch, 2), (1, 1));
        assert_eq!(answered(&mut supervisor, &mut scratch, 3), (1, 0), "the slot is free");
    });
}
