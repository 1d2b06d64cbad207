//! The backends as devices that cases can open.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use roundtrip_binder_driver::kernel::{Kernel, PrivateBinderfs};
use roundtrip_binder_driver::{Driver, Profile};
use roundtrip_binder_emulator::{Context, Emulated};

use crate::{Device, LaterFeatures, Sequential};

impl Sequential for Kernel {
    fn set_waiting(&self, waits: bool) {
        self.set_nonblocking(!waits).expect("a flag of the descriptor");
    }
}

impl Sequential for Emulated {
    fn set_waiting(&self, waits: bool) {
        self.set_nonblocking(!waits);
    }
}

/// The emulated driver. Its context is not listed, because `roundtrip service list` would join it
/// and call its manager. That would wake threads, occupy a looper and prevent the freezing of a
/// process.
struct EmulatedDevice {
    context: Context,
    opener: AtomicI32,
    last_number: AtomicU32,
}

impl EmulatedDevice {
    fn new(profile: Profile) -> Self {
        let context = Context::create_unlisted(profile).expect("a context");
        Self { context, opener: AtomicI32::new(0), last_number: AtomicU32::new(0) }
    }

    /// Opens it with the pid of another process, like the kernel's device.
    fn open_as_another_process(&self, area_bytes: u64) -> Emulated {
        let connect = || Emulated::connect(self.context.address()).expect("a connection");
        let (connection, pid) = crate::sys::in_another_process(connect);
        self.opener.store(pid, Ordering::Relaxed);
        let driver = Emulated::join_over(connection, area_bytes).expect("an opened device");
        self.last_number.store(driver.number(), Ordering::Relaxed);
        driver
    }
}

macro_rules! emulated {
    ($($(#[$doc:meta])* $name:ident: $profile:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name(EmulatedDevice);

        impl Device for $name {
            fn new() -> Self {
                Self(EmulatedDevice::new($profile))
            }
            fn open_with_area(&self, area_bytes: u64) -> Arc<dyn Driver> {
                Arc::new(self.0.open_as_another_process(area_bytes))
            }
            fn open_for_sequences(&self, area_bytes: u64) -> Arc<dyn Sequential> {
                Arc::new(self.0.open_as_another_process(area_bytes))
            }
            fn later_features(&self) -> LaterFeatures {
                LaterFeatures {
                    freeze: true,
                    oneway_spam_detection: true,
                    extended_error: true,
                    freeze_notification: true,
                }
            }
            fn last_opener(&self) -> i32 {
                self.0.opener.load(Ordering::Relaxed)
            }
            fn settle() {}
            fn last_number(&self) -> String {
                self.0.last_number.load(Ordering::Relaxed).to_string()
            }
            fn state(&self) -> String {
                self.0.context.state()
            }
            fn wait_until_released(&self, _number: &str) {}
        }
    )*};
}
emulated! {
    /// The emulated driver with the rules of Android's kernels.
    EmulatedAck: Profile::Ack;
    /// The emulated driver with the rules of the mainline kernel.
    EmulatedMainline: Profile::Mainline;
}

/// The kernel driver: one device for each case, because threads that a case leaves waiting keep its
/// device busy.
pub(crate) struct KernelDevice {
    path: String,
    opener: AtomicI32,
    _binderfs: Option<PrivateBinderfs>,
}

/// The name of the devices for cases without binderfs, followed by 0, 1, …. There are fewer devices
/// than cases, so cases reuse them in turn, long after the earlier users have closed them.
const DEVICES: &str = "/dev/case";

/// The number of these devices.
fn case_devices() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    let is_there = |number: &usize| std::path::Path::new(&format!("{DEVICES}{number}")).exists();
    *COUNT.get_or_init(|| (0..).take_while(is_there).count().max(1))
}

impl KernelDevice {
    /// The path of the device.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// True if the devices are on a binderfs.
    pub(crate) fn is_on_binderfs() -> bool {
        PrivateBinderfs::mount().is_ok()
    }

    /// Opens it in a separate process that shares everything with this one. The driver refuses
    /// calls between a context manager and other devices opened by the same process.
    fn open_as_another_process(&self, area_bytes: u64) -> Kernel {
        let open = || Kernel::open(&self.path, area_bytes).expect("an opened device");
        let (driver, pid) = crate::sys::in_another_process(open);
        self.opener.store(pid, Ordering::Relaxed);
        driver
    }
}

impl Device for KernelDevice {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let binderfs = PrivateBinderfs::mount().ok();
        let path = match &binderfs {
            Some(mounted) => mounted.device("binder"),
            None => format!("{DEVICES}{}", NEXT.fetch_add(1, Ordering::Relaxed) % case_devices()),
        };
        Self { path, opener: AtomicI32::new(0), _binderfs: binderfs }
    }

    fn open_with_area(&self, area_bytes: u64) -> Arc<dyn Driver> {
        Arc::new(self.open_as_another_process(area_bytes))
    }

    fn open_for_sequences(&self, area_bytes: u64) -> Arc<dyn Sequential> {
        Arc::new(self.open_as_another_process(area_bytes))
    }

    fn later_features(&self) -> LaterFeatures {
        let said = Kernel::open(&self.path, 1 << 12).expect("an opened device").features();
        LaterFeatures {
            freeze_notification: Self::has_freeze_notifications(),
            freeze: said.freeze,
            oneway_spam_detection: said.oneway_spam_detection,
            extended_error: said.extended_error,
        }
    }

    fn last_opener(&self) -> i32 {
        self.opener.load(Ordering::Relaxed)
    }

    /// Since Linux 6.2.
    fn reports_frozen_receivers() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a mounted /proc");
        let mut numbers = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        (numbers.next(), numbers.next()) >= (Some(6), Some(2))
    }

    /// No ioctl reports this feature. Here, the kernels that have it also have binderfs.
    fn has_freeze_notifications() -> bool {
        PrivateBinderfs::mount().is_ok_and(|mounted| {
            let listed = std::fs::read_to_string(mounted.device("features/freeze_notification"));
            listed.is_ok_and(|text| text.trim() == "1")
        })
    }

    /// The driver releases a closed process from a work queue, and does not report the end.
    fn settle() {
        std::thread::sleep(Duration::from_millis(100));
    }
    fn last_number(&self) -> String {
        self.last_opener().to_string()
    }

    fn shows_state() -> bool {
        log_is_known()
    }

    fn state(&self) -> String {
        // The lines of the statistics that belong to a process's state come first.
        let mut text = String::new();
        for line in log("stats").lines() {
            if ["proc ", "  requested threads", "  free async space"]
                .iter()
                .any(|start| line.starts_with(start))
            {
                text.push_str(line);
                text.push('\n');
            }
        }
        text + &log("state")
    }

    /// The driver takes a closed process off its list, then releases what it held, then counts it
    /// as deleted.
    fn wait_until_released(&self, number: &str) {
        if !std::path::Path::new(LOGS).join("stats").exists() {
            return Self::settle();
        }
        for _ in 0..20_000 {
            let stats = log("stats");
            let active = stats.lines().find_map(|line| line.strip_prefix("proc: active "));
            let active = active.and_then(|counts| counts.split(' ').next()?.parse().ok());
            let listed: Vec<&str> = stats.lines().filter_map(|line| line.strip_prefix("proc ")).collect();
            if active == Some(listed.len()) && !listed.contains(&number) {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        panic!("process {number} is not released");
    }
}

const LOGS: &str = "/sys/kernel/debug/binder";

/// Returns true if the driver's logs have the format of Linux 6.1, which is parsed here. Later
/// kernels use another format.
fn log_is_known() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.starts_with("6.1.") && std::path::Path::new(LOGS).join("state").exists()
}

/// One of the driver's logs.
fn log(name: &str) -> String {
    let path = format!("{LOGS}/{name}");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn contexts_of_cases_are_not_listed() {
    let devices = [EmulatedAck::new().0, EmulatedMainline::new().0];
    let listed = roundtrip_binder_emulator::running().expect("/proc/net/unix");
    for device in devices {
        assert!(!listed.iter().any(|name| name == device.context.address()), "{listed:?}");
    }
}
