//! The survivors: a manager, a client that checks the manager, and the state that must be as before
//! after each death.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use roundtrip_binder_driver::sched_attr;
use roundtrip_binder_driver::{Command, Driver, Errno, Profile};
use roundtrip_binder_emulator::{Context, Emulated, Usage};

use crate::desk::{Answer, CALL_BACK, Desk, ECHO, EXCHANGE, Kept};
use crate::message::Message;
use crate::stepping;

pub(crate) const AREA: u64 = 256 << 10;

const ACCEPTS_DESCRIPTORS: u32 = 0x100;
const INHERITS_REALTIME: u32 = 0x800;

/// The longest wait before a test fails: far longer than any step takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) context: Context,
    probe: Desk,
    serving: JoinHandle<Errno>,
    calling: JoinHandle<()>,
    /// The results of the calls to victims that serve.
    called: Receiver<Option<Answer>>,
    /// How many calls to managers have ended, with or without a reply.
    answers: Arc<AtomicU64>,
    before: Option<Quiet>,
}

/// The visible state of an idle context.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Quiet {
    state: Vec<String>,
    usage: Usage,
    descriptors: usize,
    /// Threads of this process, where all survivors are, that have a real-time policy.
    realtime: usize,
}

impl World {
    /// `managed`: the manager is a process of this world. Otherwise the victim is the manager, and
    /// a thread of this world calls it. `inherits`: that thread is real-time, and the victim
    /// inherits its priority through a PI futex.
    pub(crate) fn new(profile: Profile, managed: bool, inherits: bool) -> Self {
        let context = Context::create_unlisted(profile).expect("a context");
        let manager = Arc::new(Emulated::join(context.address(), AREA).expect("a manager"));
        if managed {
            manager
                .become_context_manager(ACCEPTS_DESCRIPTORS | INHERITS_REALTIME)
                .expect("no context manager yet");
        }
        let (announce, announced) = channel();
        let (sender, called) = channel();
        let serving = std::thread::spawn({
            let driver = Arc::clone(&manager);
            move || {
                let mut desk = Desk::at(driver);
                desk.kept = Kept::Announced(announce);
                desk.serve()
            }
        });
        let answers = Arc::new(AtomicU64::new(0));
        let calling = std::thread::spawn({
            let answers = Arc::clone(&answers);
            move || {
                if inherits {
                    stepping::become_realtime_caller(&manager);
                }
                if managed {
                    call_announced(manager, &announced, &sender);
                } else {
                    call_managers(manager, &answers);
                }
            }
        });
        let probe = Desk::at(Arc::new(Emulated::join(context.address(), AREA).expect("a survivor")));
        Self { context, probe, serving, calling, called, answers, before: None }
    }

    /// Makes a survivor's call, which must fail. Returns the error.
    pub(crate) fn probe_fails(&mut self) -> String {
        self.probe.call(0, ECHO, &Message::plain(b"not served")).expect_err("a context that ends");
        let asked = self.probe.driver.extended_error();
        asked.expect_err("a context that has ended").to_string()
    }

    /// Makes a survivor's call, which must get its reply. Returns false if there is no manager.
    pub(crate) fn probe(&mut self) -> bool {
        match self.probe.call(0, ECHO, &Message::plain(b"still served")).expect("a context") {
            Answer::Reply(arrived) => {
                assert_eq!(arrived.data, b"still served");
                self.probe.flush().expect("a context");
                true
            }
            Answer::Dead => false,
            other => panic!("the survivors are refused: {other:?}"),
        }
    }

    /// The result of the call to a victim that serves.
    pub(crate) fn outcome(&self) -> Option<Answer> {
        self.called.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            panic!("a caller of a dead server waits forever:\n{}", self.context.state());
        })
    }

    /// Waits until two more calls to the current manager, or to none, have ended. The second began
    /// after this method.
    pub(crate) fn wait_for_answers(&self) {
        let (begin, first) = (Instant::now(), self.answers.load(Ordering::Relaxed));
        while self.answers.load(Ordering::Relaxed) < first + 2 {
            assert!(begin.elapsed() < PATIENCE, "a caller of a dead manager waits forever");
            std::thread::yield_now();
        }
    }

    fn look(&self) -> Quiet {
        let usage = Usage { memory_bytes: 0, ..self.context.usage().expect("its size") };
        let state = self.context.state().lines().map(without_numbers).collect();
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc").count();
        Quiet { state, usage, descriptors, realtime: realtime_threads() }
    }

    /// Records the present state, which must be the same after each death.
    pub(crate) fn remember(&mut self) {
        let begin = Instant::now();
        loop {
            let before = self.look();
            std::thread::sleep(Duration::from_millis(50));
            let now = self.look();
            if now == before {
                self.before = Some(now);
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "the state does not settle: {before:#?}\n{now:#?}");
        }
    }

    /// Waits until the state is as before. Returns how long that took.
    pub(crate) fn settle(&mut self, after: &str) -> Duration {
        let begin = Instant::now();
        loop {
            let now = self.look();
            if Some(&now) == self.before.as_ref() {
                return begin.elapsed();
            }
            if begin.elapsed() > PATIENCE {
                panic!("after {after}: {now:#?}\nnot as before: {:#?}", self.before);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Ends the context and all its participants.
    pub(crate) fn end(self) {
        drop(self.context);
        assert_eq!(self.serving.join().expect("no panic"), Errno::NODEV);
        self.calling.join().expect("no panic");
    }
}

/// A call with all kinds of objects.
fn with_everything(desk: &mut Desk, target: u32) -> Result<Answer, Errno> {
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let fd = std::os::fd::AsFd::as_fd(&reader);
    desk.call(target, EXCHANGE, &Message::default().node(3).weak_node(4).descriptor(fd).array(&[fd, fd]))
}

/// Calls each announced handle twice, the second time with all kinds of objects.
fn call_announced(driver: Arc<Emulated>, announced: &Receiver<u32>, sender: &Sender<Option<Answer>>) {
    let mut desk = Desk::at(driver);
    for handle in announced {
        let outcome = (|| {
            if let Answer::Reply(arrived) = desk.call(handle, CALL_BACK, &Message::default().node(5))? {
                desk.release(&arrived);
            }
            let answer = with_everything(&mut desk, handle)?;
            if let Answer::Reply(arrived) = &answer {
                desk.release(arrived);
            }
            desk.queue(Command::Release(handle));
            desk.flush()?;
            Ok::<_, Errno>(answer)
        })();
        // The receiver is gone if the test has failed.
        let _ = sender.send(outcome.ok());
    }
}

/// Calls the current context manager until the context ends. Counts the results.
fn call_managers(driver: Arc<Emulated>, answers: &AtomicU64) {
    let mut desk = Desk::at(driver);
    loop {
        match with_everything(&mut desk, 0) {
            Ok(Answer::Reply(arrived)) => {
                desk.release(&arrived);
                if desk.flush().is_err() {
                    return;
                }
            }
            Ok(_) => std::thread::sleep(Duration::from_micros(200)),
            Err(_) => return,
        }
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

fn realtime_threads() -> usize {
    let is_realtime = |tid: u32| sched_attr::get(tid).is_ok_and(|thread| thread.priority != 0);
    let threads = std::fs::read_dir("/proc/self/task").expect("/proc").flatten();
    let ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    ids.filter(|&tid| is_realtime(tid)).count()
}

/// A line of the state without the numbers of records, which differ each time.
fn without_numbers(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split(' ') {
        let numbered = ["node", "ref", "buffer", "transaction", "proc"].contains(words.last().unwrap_or(&""));
        words.push(if numbered && !word.is_empty() { "#" } else { word });
    }
    words.join(" ")
}
