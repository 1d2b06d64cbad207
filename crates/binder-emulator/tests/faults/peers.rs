//! Processes that exchange all kinds of calls in random order, for a busy context.
//!
//! Each peer has one calling thread, and loopers. Peers find each other through a manager, which is
//! one of them.

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::Arc;

use roundtrip_binder_driver::uapi::{FLAT_BINDER_FLAG_ACCEPTS_FDS, HandleCookie};
use roundtrip_binder_driver::{Command, Driver, Errno};
use roundtrip_binder_emulator::Emulated;

use crate::desk::{Answer, CALL_BACK, DROP, Desk, ECHO, EXCHANGE, GIVE, KEEP, Kept, MOST_KEPT};
use crate::message::Message;
use crate::random::Random;
use crate::stepping;

/// The size of each peer's receive area, which is small enough to be full at times.
const AREA: u64 = 512 << 10;

/// A peer reports its count each time it has sent this many transactions.
pub(crate) const REPORT_EVERY: u64 = 4096;

const PEER: &str = "a peer";
const MANAGER: &str = "a manager among peers";

/// A peer, seen from the process that has started it.
pub(crate) struct Peer {
    pub(crate) child: Child,
    /// Its [`Emulated::number`].
    pub(crate) number: u32,
    lines: Option<Lines<BufReader<ChildStderr>>>,
}

impl Peer {
    /// Starts a peer and waits until it has joined.
    pub(crate) fn start(address: &str, manages: bool) -> Self {
        let scenario = if manages { MANAGER } else { PEER };
        let mut child = stepping::start(scenario, address)
            .stderr(Stdio::piped())
            .spawn()
            .expect("this test can be started again");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let number = lines.next().expect("a line").expect("a pipe");
        let number = number.parse().unwrap_or_else(|_| panic!("a peer wrote {number:?}"));
        Self { child, number, lines: Some(lines) }
    }

    /// The lines that it writes from now on: one for every [`REPORT_EVERY`] transactions.
    pub(crate) fn take_lines(&mut self) -> Lines<BufReader<ChildStderr>> {
        self.lines.take().expect("asked for once")
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("its end");
    }
}

fn print(number: u64) {
    // Not captured by the test harness, unlike `eprintln!`. The parent may be gone.
    let _ = std::io::stderr().write_all(format!("{number}\n").as_bytes());
}

/// In a peer: runs until the context has ended. Returns false if this process is not a peer.
pub(crate) fn play(scenario: &str, address: &str) -> bool {
    let manages = match scenario {
        PEER => false,
        MANAGER => true,
        _ => return false,
    };
    let driver = Arc::new(Emulated::join(address, AREA).expect("the context"));
    print(driver.number().into());
    driver.set_max_threads(2).expect("the context");
    if manages {
        // The last manager may have just died.
        while driver.become_context_manager(FLAT_BINDER_FLAG_ACCEPTS_FDS).is_err() {
            std::thread::yield_now();
        }
        // One thread, because only that thread knows what is kept.
        driver.set_max_threads(0).expect("the context");
    }
    let serving = std::thread::spawn({
        let driver = Arc::clone(&driver);
        move || {
            let mut desk = Desk::at(driver);
            if manages {
                desk.kept = Kept::Given(Vec::new());
            }
            desk.serve()
        }
    });
    if !manages {
        let random = Random::from(u64::from(std::process::id()));
        let errno = Caller { desk: Desk::at(driver), address, random, sent: 0, known: None }.run();
        assert_eq!(errno, Errno::NODEV);
    }
    assert_eq!(serving.join().expect("no panic"), Errno::NODEV);
    true
}

/// The thread of a peer that calls.
struct Caller<'a> {
    desk: Desk,
    address: &'a str,
    random: Random,
    sent: u64,
    /// Another peer's handle.
    known: Option<u32>,
}

impl Caller<'_> {
    fn run(&mut self) -> Errno {
        loop {
            let done = match self.random.below(1000) {
                0..10 => self.meet(),
                10 => self.visit(),
                11..50 => self.exchange(),
                50..100 => self.nest(),
                100..250 => self.call_oneway(),
                _ => self.echo(),
            };
            if let Err(errno) = done {
                return errno;
            }
        }
    }

    /// The manager, or the peer whose handle is known.
    fn random_target(&mut self) -> u32 {
        if self.random.below(4) == 0 { 0 } else { self.known.unwrap_or(0) }
    }

    fn count(&mut self) {
        self.sent += 1;
        if self.sent.is_multiple_of(REPORT_EVERY) {
            print(self.sent);
        }
    }

    fn call(&mut self, code: u32, message: &Message) -> Result<Answer, Errno> {
        self.count();
        let target = self.random_target();
        let answer = self.desk.call(target, code, message)?;
        match &answer {
            Answer::Reply(arrived) => self.desk.release(arrived),
            Answer::Dead if target != 0 => self.forget(),
            _ => {}
        }
        Ok(answer)
    }

    fn forget(&mut self) {
        if let Some(handle) = self.known.take() {
            let asked = HandleCookie { handle, cookie: handle.into() };
            self.desk.queue(Command::ClearDeathNotification(asked));
            self.desk.queue(Command::Release(handle));
        }
    }

    /// Sends its node to the manager, and gets the node of another peer from it. Requests a death
    /// notification for that node.
    fn meet(&mut self) -> Result<(), Errno> {
        self.count();
        self.desk.call(0, KEEP, &Message::default().node(1))?;
        self.forget();
        let wanted = self.random.below(MOST_KEPT as u64) as u32;
        let answer = self.desk.call(0, GIVE, &Message::plain(&wanted.to_ne_bytes()))?;
        if let Answer::Reply(arrived) = answer
            && let Some(&handle) = arrived.handles.first()
        {
            self.known = Some(handle);
            let asked = HandleCookie { handle, cookie: handle.into() };
            self.desk.queue(Command::RequestDeathNotification(asked));
        }
        Ok(())
    }

    /// Opens the driver again, sends a node of it, and closes it: a death for all holders of a
    /// handle.
    fn visit(&mut self) -> Result<(), Errno> {
        self.count();
        let Ok(visitor) = Emulated::join(self.address, AREA) else { return Err(Errno::NODEV) };
        let mut desk = Desk::at(Arc::new(visitor));
        desk.call(0, KEEP, &Message::default().node(1))?;
        desk.flush()
    }

    fn exchange(&mut self) -> Result<(), Errno> {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let name = 10 + self.random.below(8);
        let fds = [reader.as_fd(), writer.as_fd()];
        let message = Message::default().node(name).weak_node(name + 8).descriptor(fds[0]).array(&fds);
        self.call(EXCHANGE, &message).map(drop)
    }

    fn nest(&mut self) -> Result<(), Errno> {
        self.call(CALL_BACK, &Message::default().node(2)).map(drop)
    }

    fn size(&mut self) -> usize {
        let most = match self.random.below(100) {
            0 => 60_000,
            1..10 => 6000,
            _ => 256,
        };
        self.random.below(most) as usize
    }

    fn call_oneway(&mut self) -> Result<(), Errno> {
        self.count();
        let (size, target) = (self.size(), self.random_target());
        let mut message = Message::plain(&PATTERN[..size]);
        let pipe;
        if self.random.below(16) == 0 {
            pipe = std::io::pipe().expect("a pipe");
            message = message.descriptor(pipe.0.as_fd());
        }
        let answer = self.desk.call_oneway(target, DROP, &message)?;
        if matches!(answer, Answer::Dead) && target != 0 {
            self.forget();
        }
        Ok(())
    }

    fn echo(&mut self) -> Result<(), Errno> {
        let size = self.size();
        let begin = self.random.below((PATTERN.len() - size) as u64) as usize;
        let sent = &PATTERN[begin..begin + size];
        if let Answer::Reply(arrived) = self.call(ECHO, &Message::plain(sent))? {
            assert_eq!(arrived.data, sent, "an echo");
        }
        Ok(())
    }
}

static PATTERN: [u8; 64 << 10] = {
    let mut pattern = [0; 64 << 10];
    let mut at = 0;
    while at < pattern.len() {
        pattern[at] = (at * 31 + (at >> 8)) as u8;
        at += 1;
    }
    pattern
};
