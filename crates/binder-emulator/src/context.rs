//! A context of the emulated driver, as seen by the process that created it, and the names of all
//! contexts on this machine.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use roundtrip_binder_driver::Profile;
use roundtrip_vocabulary::InheritBy;

use crate::Error;
use crate::lock::{Guard, Scratch};
use crate::records::{INHERIT_BY, MAGIC, MAGIC_VALUE, PROFILE, TAG};
use crate::region::{End, Region};
use crate::supervisor::Supervisor;
use crate::usage::Usage;

/// A context of the emulated driver: the counterpart of a loaded kernel driver with one device.
///
/// It lives as long as this value. Processes join it with
/// [`Emulated::join`](super::Emulated::join). When it is dropped, or its process dies, every
/// participant's calls fail with ENODEV. It also ends when a participant holds its lock for five
/// seconds without progress; [`Context::ended`] reports that.
#[derive(Debug)]
pub struct Context {
    address: String,
    region: Arc<Region>,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Context {
    /// Starts a context whose servers follow the priority rules of `profile`.
    ///
    /// # Errors
    /// [`Error::Create`] when the system refuses the memory or the socket.
    pub fn create(profile: Profile) -> Result<Self, Error> {
        Self::create_as(unique_name(NAME), profile)
    }

    /// Like [`Context::create`], but [`running`] does not list it, so only processes that know its
    /// address find it. A program that lists contexts may join each of them and call its manager,
    /// which changes what a test counts.
    ///
    /// # Errors
    /// As [`Context::create`].
    pub fn create_unlisted(profile: Profile) -> Result<Self, Error> {
        Self::create_as(unique_name(UNLISTED_NAME), profile)
    }

    fn create_as(name: String, profile: Profile) -> Result<Self, Error> {
        let failed = |operation| move |cause| Error::Create { operation, cause };
        let region = Region::create().map_err(io::Error::from).map_err(failed("get its memory"))?;
        initialise(&region, profile);
        let listener = SocketAddr::from_abstract_name(&name)
            .and_then(|address| UnixListener::bind_addr(&address))
            .map_err(failed("bind its socket"))?;
        let (stop, stopped) = UnixStream::pair().map_err(failed("make sockets"))?;
        let region = Arc::new(region);
        let supervisor =
            Supervisor::new(Arc::clone(&region), listener, stopped).map_err(failed("make sockets"))?;
        let thread = std::thread::Builder::new()
            .name("binder-super".into())
            .spawn(move || supervisor.run())
            .map_err(failed("start its thread"))?;
        Ok(Self { address: name, region, stop, thread: Some(thread) })
    }

    /// The argument of [`Emulated::join`](super::Emulated::join): a name in the abstract socket
    /// namespace.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Chooses how a real-time priority is inherited from calls of processes that join from now on.
    /// Each process may choose for itself afterwards
    /// ([`Emulated::set_inherit_by`](super::Emulated::set_inherit_by)).
    pub fn set_inherit_by(&self, inherit_by: InheritBy) {
        self.region.words()[INHERIT_BY].store(inherit_by as u64, Ordering::Relaxed);
    }

    /// What the context holds now: processes, threads, transactions, nodes, references and buffers,
    /// as text in the form of the kernel driver's `/sys/kernel/debug/binder/state`. For tests, and
    /// for finding out why something waits.
    #[must_use]
    pub fn state(&self) -> String {
        self.look(|guard| guard.state())
    }

    /// Why the context has ended early, if it has. Its participants see the same reason.
    #[must_use]
    pub fn ended(&self) -> Option<&'static str> {
        self.region.ended().map(End::reason)
    }

    fn look<T>(&self, look: impl FnOnce(&mut Guard<'_>) -> T) -> T {
        let result = look(&mut Guard::lock(&self.region, &mut Scratch::default()));
        if self.region.ended().is_some() {
            // This thread waited too long for the lock. The supervisor's own thread may not have
            // noticed yet.
            let _ = self.stop.shutdown(std::net::Shutdown::Both);
        }
        result
    }

    /// How many records and how much memory the context uses at this moment.
    ///
    /// # Errors
    /// [`Error::Create`] when the system does not report the memory's size.
    pub fn usage(&self) -> Result<Usage, Error> {
        let failed =
            |errno: rustix::io::Errno| Error::Create { operation: "tell its size", cause: errno.into() };
        self.look(|guard| guard.usage()).map_err(failed)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.region.end(End::Gone);
        let _ = self.stop.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn initialise(region: &Region, profile: Profile) {
    let words = region.words();
    words[PROFILE].store(profile as u64, Ordering::Relaxed);
    // A process maps no two regions at one address, and no two processes with one id start in the
    // same nanosecond.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let instant = (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64);
    words[TAG].store(
        instant << 16 ^ u64::from(std::process::id()) << 40 ^ words.as_ptr() as u64,
        Ordering::Relaxed,
    );
    words[MAGIC].store(MAGIC_VALUE, Ordering::Release);
}

/// The prefix of a listed context's name. Numbers and dashes follow.
const NAME: &str = "roundtrip-";
/// The prefix of an unlisted context's name.
const UNLISTED_NAME: &str = "roundtrip-unlisted-";

/// The addresses of all contexts in this network namespace, of any user, sorted by name: listening
/// sockets from /proc/net/unix (proc_net_unix in the kernel's `net/unix/af_unix.c`). Any program
/// can choose such a name; only joining shows what it is. Contexts of [`Context::create_unlisted`]
/// are not included.
///
/// # Errors
/// When that file cannot be read.
pub fn running() -> io::Result<Vec<String>> {
    /// `SO_ACCEPTCON`, in the column "Flags".
    const LISTENS: &str = "00010000";
    let sockets = std::fs::read("/proc/net/unix")?;
    let name = |line: &[u8]| {
        // Other programs' names may hold any bytes.
        let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let listens = fields.nth(3)? == LISTENS;
        let name = fields.nth(3)?.strip_prefix('@')?;
        let numbers = name.strip_prefix(NAME)?;
        let ours = numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        (listens && ours).then(|| name.to_owned())
    };
    let mut names: Vec<String> = sockets.split(|&byte| byte == b'\n').filter_map(name).collect();
    names.sort_unstable();
    Ok(names)
}

/// Unique on the machine: the process id, the boot clock and a counter. It is no secret.
fn unique_name(begin: &str) -> String {
    static CREATED: AtomicU64 = AtomicU64::new(0);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let count = CREATED.fetch_add(1, Ordering::Relaxed);
    format!("{begin}{}-{}{:09}-{count}", std::process::id(), now.tv_sec, now.tv_nsec)
}
