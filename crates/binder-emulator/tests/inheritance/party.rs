//! Participants: each makes calls on its creator's thread. Some also serve, on a separate ordinary
//! thread.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Commands, Driver, Return, Returns};
use roundtrip_binder_emulator::{Context, Emulated};

/// The reply carries the priority that the serving thread really runs at.
pub(crate) const RUNS_AT: u32 = 1;
/// The server keeps the handle for `FORWARD`, and replies immediately.
pub(crate) const KEEP: u32 = 2;
/// The reply carries the kept handle's reply to `RUNS_AT`.
pub(crate) const FORWARD: u32 = 3;
/// The server calls the handle in the call, then replies as to `RUNS_AT`.
pub(crate) const CALL_BACK: u32 = 4;
/// The server sends `CALL_BACK` to the kept handle, with the handle in the call.
pub(crate) const FORWARD_BACK: u32 = 5;
/// The server replies after [`Party::go_on`].
pub(crate) const WAIT: u32 = 6;

/// The priority in /proc/PID/stat of an ordinary thread that these tests start.
pub(crate) fn ordinary() -> i64 {
    20 + i64::from(rustix::process::getpriority_process(None).expect("this thread's own"))
}
/// The flags of nodes whose servers inherit real-time priorities.
const INHERITS: u32 = 0x900;
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Party {
    pub(crate) driver: Arc<Emulated>,
    desk: Desk,
    serving: Option<Serving>,
}

struct Serving {
    looper: u32,
    called: Receiver<()>,
    go_on: Sender<bool>,
}

impl Party {
    pub(crate) fn join(context: &Context) -> Self {
        Self::join_at(context.address())
    }

    pub(crate) fn join_at(address: &str) -> Self {
        let driver = Arc::new(Emulated::join(address, 1 << 20).expect("the context"));
        Self { desk: Desk::at(Arc::clone(&driver)), driver, serving: None }
    }

    /// The context manager, which serves.
    pub(crate) fn manager(context: &Context) -> Self {
        let mut party = Self::join(context);
        let begin = Instant::now();
        // The supervisor may not have released the last manager yet.
        while party.driver.become_context_manager(INHERITS).is_err() {
            assert!(begin.elapsed() < PATIENCE, "there is another manager");
            std::thread::sleep(Duration::from_millis(1));
        }
        party.serve();
        party
    }

    /// A participant that serves, and whose node the manager keeps.
    pub(crate) fn serving(context: &Context) -> Self {
        let mut party = Self::join(context);
        party.serve();
        party.ask(0, KEEP, Some(1));
        party
    }

    fn serve(&mut self) {
        let (sender, looper) = channel();
        let (call, called) = channel();
        let (go_on, may_go_on) = channel();
        let driver = Arc::clone(&self.driver);
        std::thread::spawn(move || {
            super::become_ordinary();
            let mut desk = Desk::at(driver);
            desk.stage = Some((call, Mutex::new(may_go_on)));
            sender.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).expect("a test");
            desk.commands.push(Command::EnterLooper);
            while !desk.left.get() && desk.next(&[]).map(|item| desk.handle(item)).is_some() {}
        });
        let looper = looper.recv_timeout(PATIENCE).expect("a looper");
        self.serving = Some(Serving { looper, called, go_on });
        // It waits for calls.
        let begin = Instant::now();
        while !self.driver.state().contains(&format!("thread {looper}: l 12")) {
            assert!(begin.elapsed() < PATIENCE, "{}", self.driver.state());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn served(&self) -> &Serving {
        self.serving.as_ref().expect("one that serves")
    }

    pub(crate) fn looper(&self) -> u32 {
        self.served().looper
    }

    /// Waits for a call to `WAIT`.
    pub(crate) fn wait_until_called(&self) {
        self.served().called.recv_timeout(PATIENCE).expect("a call");
    }

    pub(crate) fn go_on(&self) {
        self.served().go_on.send(true).expect("a looper");
    }

    /// Ends the looper that serves a call to `WAIT`, and this participant.
    pub(crate) fn leave(self) {
        self.served().go_on.send(false).expect("a looper");
    }

    pub(crate) fn ask(&mut self, target: u32, code: u32, node: Option<u64>) -> i64 {
        self.try_ask(target, code, node).expect("an answer")
    }

    /// Makes a call, with a node of its own if `node` is set. Returns `None` if the server is dead.
    pub(crate) fn try_ask(&mut self, target: u32, code: u32, node: Option<u64>) -> Option<i64> {
        let along = node.map(|binder| FlatBinderObject {
            kind: BINDER_TYPE_BINDER,
            flags: INHERITS,
            binder,
            cookie: 0,
        });
        self.desk.call(target, code, along)
    }
}

/// A thread's side of the driver.
struct Desk {
    driver: Arc<Emulated>,
    commands: Commands,
    returns: Returns,
    kept: u32,
    stage: Option<(Sender<()>, Mutex<Receiver<bool>>)>,
    left: Cell<bool>,
}

impl Desk {
    fn at(driver: Arc<Emulated>) -> Self {
        let (commands, returns) = (Commands::default(), Returns::default());
        Self { driver, commands, returns, kept: 0, stage: None, left: Cell::new(false) }
    }

    fn next(&mut self, memory: &[&[u8]]) -> Option<Return> {
        loop {
            if let Some(item) = self.returns.next() {
                return Some(item);
            }
            self.driver.write_read(&mut self.commands, memory, Some(&mut self.returns)).ok()?;
        }
    }

    fn call(&mut self, target: u32, code: u32, along: Option<FlatBinderObject>) -> Option<i64> {
        let bytes = along.map(|object| object.to_bytes().to_vec()).unwrap_or_default();
        let offsets = if along.is_some() { vec![0_u8; 8] } else { Vec::new() };
        self.commands.push(Command::Transaction(TransactionData {
            target: target.into(),
            code,
            data_size: bytes.len() as u64,
            buffer: bytes.as_ptr() as u64,
            offsets_size: offsets.len() as u64,
            offsets: offsets.as_ptr() as u64,
            ..Default::default()
        }));
        loop {
            match self.next(&[&bytes, &offsets])? {
                Return::Reply(transaction) => {
                    let bytes =
                        self.driver.received(transaction.buffer, transaction.data_size).expect("its data");
                    let answer = i64::from_ne_bytes(bytes.try_into().expect("a number"));
                    self.commands.push(Command::FreeBuffer(transaction.buffer));
                    return Some(answer);
                }
                Return::DeadReply => return None,
                Return::FailedReply => panic!("a failed reply"),
                other => self.handle(other),
            }
        }
    }

    fn handle(&mut self, item: Return) {
        match item {
            Return::Increfs(node) => self.commands.push(Command::IncrefsDone(node)),
            Return::Acquire(node) => self.commands.push(Command::AcquireDone(node)),
            Return::Transaction(transaction) => self.serve(&transaction),
            _ => {}
        }
    }

    fn serve(&mut self, transaction: &TransactionData) {
        let data = self.driver.received(transaction.buffer, transaction.data_size).expect("its data");
        let came = data.get(8..12);
        let handle = came.map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
        let mut answer = 0;
        match (transaction.code, handle) {
            (RUNS_AT, _) => answer = runs_at(),
            (KEEP, Some(handle)) => {
                self.commands.push(Command::Acquire(handle));
                self.kept = handle;
            }
            (FORWARD, _) => answer = self.call(self.kept, RUNS_AT, None).expect("a living server"),
            (CALL_BACK, Some(handle)) => {
                self.call(handle, KEEP, None).expect("a living caller");
                answer = runs_at();
            }
            (FORWARD_BACK, Some(handle)) => {
                let (kind, binder) = (BINDER_TYPE_HANDLE, handle.into());
                let along = FlatBinderObject { kind, flags: 0, binder, cookie: 0 };
                answer = self.call(self.kept, CALL_BACK, Some(along)).expect("a living server");
            }
            (WAIT, _) => {
                let (call, go_on) = self.stage.as_ref().expect("a looper");
                call.send(()).expect("a test");
                if !go_on.lock().expect("no panic").recv_timeout(PATIENCE).expect("a test") {
                    self.driver.exit_thread();
                    return self.left.set(true);
                }
            }
            _ => {}
        }
        self.commands.push(Command::FreeBuffer(transaction.buffer));
        let bytes = answer.to_ne_bytes();
        self.commands.push(Command::Reply(TransactionData {
            data_size: 8,
            buffer: bytes.as_ptr() as u64,
            ..Default::default()
        }));
        self.driver.write_read(&mut self.commands, &[&bytes], None).expect("a living context");
    }
}

/// The priority that the calling thread runs at, as the scheduler has it: −1 − priority for a
/// real-time thread, 20 + nice for any other (field 18 of /proc/PID/stat, proc_pid_stat(5)). Waits
/// a moment, because the boost starts only when the caller waits.
fn runs_at() -> i64 {
    let begin = Instant::now();
    loop {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("/proc");
        let fields = stat.rsplit_once(')').expect("a name").1;
        let priority = fields.split_whitespace().nth(15).expect("18 fields").parse().expect("a number");
        if priority < 0 || begin.elapsed() > Duration::from_millis(300) {
            return priority;
        }
    }
}
