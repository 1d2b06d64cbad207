//! Refusals and features that only the kernel driver has.

use roundtrip_binder_driver::kernel::{Features, Kernel};
use roundtrip_binder_driver::uapi::PROTOCOL_VERSION;
use roundtrip_binder_driver::{Driver as _, Errno, Error};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Device as _;
use crate::devices::KernelDevice;

const AREA_BYTES: u64 = 4 << 20;

/// The kernel's release as (major, minor).
fn release() -> (u32, u32) {
    let name = rustix::system::uname();
    let mut numbers =
        name.release().to_str().expect("digits").split(['.', '-']).map_while(|number| number.parse().ok());
    (numbers.next().expect("a major version"), numbers.next().expect("a minor version"))
}

fn features(device: &KernelDevice) -> Features {
    Kernel::open(device.path(), AREA_BYTES).expect("an opened device").features()
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn features_match_this_kernels_version() {
    let found = features(&KernelDevice::new());
    assert_eq!(found.protocol, PROTOCOL_VERSION);
    assert_eq!(found.freeze, release() >= (5, 12), "{found}");
    assert_eq!(found.oneway_spam_detection, release() >= (5, 13), "{found}");
    assert_eq!(found.extended_error, release() >= (5, 19), "{found}");
    assert!(found.language.is_some(), "one driver, so its language is known: {found}");
    let notifies = found.listed.contains("freeze_notification");
    // Only a binderfs lists the feature, and not all of these kernels' devices are on one.
    assert_eq!(notifies, KernelDevice::is_on_binderfs() && release() >= (6, 12), "{found}");
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn a_mapping_without_address_space_is_refused_and_the_device_stays_usable() {
    let device = KernelDevice::new();
    let before = getrlimit(Resource::As);
    // The limit is below the present use, so every new mapping fails.
    setrlimit(Resource::As, Rlimit { current: Some(1 << 20), ..before }).expect("a lower limit");
    let result = Kernel::open(device.path(), AREA_BYTES);
    setrlimit(Resource::As, before).expect("the old limit");
    let error = result.expect_err("no address space");
    assert_eq!(error.errno(), Some(Errno::NOMEM));
    assert_eq!(
        error.to_string(),
        format!(
            "cannot map the receive area of {}: {}; allow more address space (ulimit -v), or free memory",
            device.path(),
            Errno::NOMEM
        )
    );
    assert!(Kernel::open(device.path(), AREA_BYTES).is_ok());
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn a_context_manager_is_detected_and_a_second_one_is_refused() {
    let device = KernelDevice::new();
    let open = || Kernel::open(device.path(), AREA_BYTES).expect("an opened device");
    let (first, second) = (open(), open());
    assert!(!second.has_context_manager().expect("an answer"));
    first.become_context_manager(0).expect("there was none");
    assert!(second.has_context_manager().expect("an answer"));
    let error = second.become_context_manager(0).expect_err("there is one");
    assert!(matches!(error, Error::ContextManagerTaken), "{error}");
    drop(first);
    KernelDevice::settle();
    assert!(!second.has_context_manager().expect("an answer"));
}

#[test]
#[ignore = "needs the kernel's binder driver: cargo xtask guests"]
fn a_frozen_context_manager_is_detected() {
    let device = KernelDevice::new();
    let manager = device.open();
    manager.become_context_manager(0).expect("there was none");
    let asks = Kernel::open(device.path(), AREA_BYTES).expect("an opened device");
    let pid = device.last_opener().cast_unsigned();
    asks.set_frozen(pid, true, 0).expect("nothing is under way");
    let found = asks.has_context_manager();
    asks.set_frozen(pid, false, 0).expect("the driver thaws");
    assert!(found.expect("an answer"));
}
