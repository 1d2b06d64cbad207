use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::SocketAddr;

use super::*;

/// A keeper whose thread this is, and the other end of what stops it.
fn keeper(name: &str) -> (Keeper, UnixStream) {
    let name = format!("roundtrip-test-{}-{name}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("a free name");
    let (stop, stopped) = UnixStream::pair().expect("sockets");
    let region = Arc::new(Region::create().expect("memory"));
    (Keeper::new(region, listener, stopped).expect("a keeper"), stop)
}

fn joined(slot: u64, generation: u64) -> Joined {
    let (connection, _) = UnixStream::pair().expect("sockets");
    Joined { connection, slot: Id::new(slot).expect("a slot"), generation, inbox: None }
}

#[test]
fn who_is_dead_stands_in_the_roster_no_more_unless_another_has_its_slot() {
    let (mut keeper, _stop) = keeper("roster");
    let mut scratch = Scratch::default();
    let parent = rustix::process::getppid().expect("a parent").as_raw_nonzero().get();
    let slot = Id::<Process>::new(3).expect("a slot");
    let stands = |keeper: &Keeper| keeper.region.roster().is_thread_of(slot, parent);
    keeper.region.roster().enter(slot, parent);
    keeper.joined.push(joined(2, 1));
    keeper.joined.push(joined(3, 2));
    keeper.bury(&joined(3, 1), &mut scratch);
    assert!(stands(&keeper), "its next owner");
    keeper.joined.truncate(1);
    keeper.bury(&joined(3, 2), &mut scratch);
    assert!(!stands(&keeper));
}

#[test]
fn a_slot_that_has_another_generation_is_not_released() {
    let (mut keeper, _stop) = keeper("generation");
    let mut scratch = Scratch::default();
    let region = Arc::clone(&keeper.region);
    let slot = Guard::lock(&region, &mut scratch).new_process(7).expect("a slot");
    let state = |scratch: &mut Scratch| Guard::lock(&region, scratch).get(slot, process::STATE);
    let generation = Guard::lock(&region, &mut scratch).get(slot, process::GENERATION);
    keeper.bury(&Joined { generation: generation + 1, ..joined(slot.index() as u64, 0) }, &mut scratch);
    assert_eq!(state(&mut scratch), crate::process::LIVE);
    keeper.bury(&Joined { generation, ..joined(slot.index() as u64, 0) }, &mut scratch);
    assert_eq!(state(&mut scratch), crate::process::FREE);
}

#[test]
fn a_listener_that_fails_again_and_again_is_given_up() {
    let (mut keeper, _stop) = keeper("pause");
    keeper.refused = MOST_REFUSED - 2;
    keeper.pause();
    assert!(keeper.listener.is_some() && keeper.refused == MOST_REFUSED - 1);
    keeper.pause();
    assert!(keeper.listener.is_none());
    assert!(keeper.admit(&mut Scratch::default()).is_ok() && keeper.turn_away().is_ok());
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
    // Something that it has not read makes this an error, not an end.
    (&own).write_all(&[0]).expect("room");
    drop(other);
    let requests = Requests::read(&own);
    assert!(requests.ended && requests.length == 0);
    assert!(Requests::read(&own).ended);
}

#[test]
fn only_a_want_of_descriptors_is_taken_for_one() {
    for (errno, is_want) in [(Errno::MFILE, true), (Errno::NFILE, true), (Errno::CONNABORTED, false)] {
        assert_eq!(is_out_of_descriptors(&errno.into()), is_want, "{errno}");
    }
    assert!(!is_out_of_descriptors(&io::Error::other("no error of the system")));
}
