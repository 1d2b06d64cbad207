//! Kills processes at random moments while they send and receive descriptors: no descriptor stays
//! open anywhere.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Commands, Driver, Errno, Profile, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::alone::alone;
use crate::desk::{Answer, Desk};
use crate::message::{Arrived, Message};
use crate::random::Random;
use crate::stepping;
use crate::world::AREA;

const VICTIM: &str = "exchange descriptors forever";
const KILLS: u64 = 100;

/// Replies with a descriptor of the test's pipe.
const GIVE: u32 = 1;
/// Carries descriptors. The reply carries one.
const EXCHANGE: u32 = 2;
/// Oneway, with a descriptor.
const DROP: u32 = 3;
/// Carries a node, which then gets oneway calls with descriptors.
const SEND_ME: u32 = 4;

/// One descriptor, and an array of two in a separate buffer.
fn descriptors(fd: BorrowedFd<'_>) -> Message {
    Message::default().descriptor(fd).array(&[fd, fd])
}

/// In a victim: exchanges descriptors until it is killed. Returns false if this process is not such
/// a victim.
pub(crate) fn play(scenario: &str, address: &str) -> bool {
    if scenario != VICTIM {
        return false;
    }
    let mut desk = Desk::at(Arc::new(Emulated::join(address, AREA).expect("the context")));
    let call = |desk: &mut Desk, code, message: &Message| match desk.call(0, code, message) {
        Ok(Answer::Reply(arrived)) => arrived,
        other => panic!("no reply: {other:?}"),
    };
    let given = call(&mut desk, GIVE, &Message::default()).fds.pop().expect("a descriptor");
    // Calls to this node are not read.
    call(&mut desk, SEND_ME, &descriptors(given.as_fd()).node(1));
    let sent = descriptors(given.as_fd());
    loop {
        call(&mut desk, EXCHANGE, &sent);
        desk.call_oneway(0, DROP, &sent).expect("the context");
    }
}

/// The write end of the pipe that is sent in this round.
type Current = Arc<Mutex<Option<PipeWriter>>>;

/// Waits for the end of the context. Returns the number of served exchanges.
fn serve(driver: &Emulated, current: &Current) -> (Errno, u64) {
    let mut exchanges = 0;
    let (mut commands, mut returns) = (Commands::default(), Returns::default());
    commands.push(Command::EnterLooper);
    loop {
        if let Err(error) = driver.write_read(&mut commands, &[], Some(&mut returns)) {
            return (error.errno().expect("an errno"), exchanges);
        }
        for item in returns.by_ref().collect::<Vec<_>>() {
            let Return::Transaction(data) = item else { continue };
            exchanges += u64::from(data.code == EXCHANGE);
            let arrived = Arrived::read(driver, &data);
            let answer = match (data.code, current.lock().expect("no panic").as_ref(), arrived.fds.first()) {
                (GIVE, Some(pipe), _) => descriptors(pipe.as_fd()),
                (EXCHANGE, _, Some(fd)) => descriptors(fd.as_fd()),
                _ => Message::default(),
            };
            if let (SEND_ME, Some(fd), Some(&held)) =
                (data.code, arrived.fds.first(), arrived.handles.first())
            {
                let sent = descriptors(fd.as_fd());
                for _ in 0..3 {
                    commands.push(Command::TransactionSg(sent.describe(held, 0, TF_ONE_WAY)));
                    // Refused when the victim has died.
                    let _ = driver.write_read(&mut commands, &sent.memory(), None);
                }
            }
            commands.push(Command::FreeBuffer(data.buffer));
            if data.flags & TF_ONE_WAY == 0 {
                commands.push(Command::ReplySg(answer.describe(0, 0, 0)));
                let _ = driver.write_read(&mut commands, &answer.memory(), None);
            }
        }
    }
}

/// Returns true if any process still has the write end open after a while.
fn stays_open(pipe: &PipeReader) -> bool {
    let mut watched = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).expect("a poll") == 0
}

#[test]
fn a_killed_process_leaves_no_descriptor_open() {
    let _turn = alone();
    let context = Context::create_unlisted(Profile::Mainline).expect("a context");
    let server = Arc::new(Emulated::join(context.address(), AREA).expect("a server"));
    server.become_context_manager(FLAT_BINDER_FLAG_ACCEPTS_FDS).expect("no context manager yet");
    let current = Current::default();
    let serving = std::thread::spawn({
        let (server, current) = (Arc::clone(&server), Arc::clone(&current));
        move || serve(&server, &current)
    });
    let mut random = Random::from(1);
    for kill in 0..KILLS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        *current.lock().expect("no panic") = Some(writer);
        let mut victim = stepping::start(VICTIM, context.address())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test can be started again");
        // From before it joins until it has made many calls.
        std::thread::sleep(Duration::from_micros(random.below(15_000)));
        victim.kill().expect("a living victim");
        victim.wait().expect("its end");
        *current.lock().expect("no panic") = None;
        assert!(!stays_open(&reader), "after kill {kill}: the victim's descriptors are still open somewhere");
        let deadline = Instant::now() + Duration::from_secs(10);
        while server.free_area_bytes() != AREA {
            assert!(Instant::now() < deadline, "after kill {kill}: {} bytes free", server.free_area_bytes());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(context);
    let (end, exchanges) = serving.join().expect("no panic");
    assert_eq!(end, Errno::NODEV);
    assert!(exchanges > KILLS, "the victims came to {exchanges} exchanges only");
}
