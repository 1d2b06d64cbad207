//! The kernel of a run, as far as it affects latency: version, preemption, tick, real-time
//! throttling, task grouping. Must not judge any of it.

use std::io::Read;

use roundtrip_run::environment::Kernel;

use crate::kernel::root::Root;

/// Reads the running kernel's settings.
pub(super) fn read(root: &Root, config: &str) -> Kernel {
    let uname = rustix::system::uname();
    let text = |field: &std::ffi::CStr| field.to_string_lossy().into_owned();
    let (release, version, machine) = (text(uname.release()), text(uname.version()), text(uname.machine()));
    let sysctl = |name: &str| root.read(format!("proc/sys/kernel/{name}"));
    Kernel {
        preemption: preemption(root, &version, config),
        preemption_dynamic: version.split(' ').any(|word| word == "PREEMPT_DYNAMIC"),
        hz: option(config, "CONFIG_HZ").and_then(|hz| hz.parse().ok()),
        sched_rt_runtime_us: sysctl("sched_rt_runtime_us").and_then(|text| text.parse().ok()),
        sched_rt_period_us: sysctl("sched_rt_period_us").and_then(|text| text.parse().ok()),
        autogroup: sysctl("sched_autogroup_enabled").map(|text| text != "0"),
        schedstat: root.has("proc/self/schedstat"),
        base_slice_ns: root.number("sys/kernel/debug/sched/base_slice_ns"),
        release,
        version,
        machine,
    }
}

/// Larger than any kernel configuration: that of 6.18 with all options has 300 kB.
const MOST_CONFIG_BYTES: u64 = 8 << 20;

/// The running kernel's configuration, if the kernel contains it or its package installed it.
pub(super) fn own_config(root: &Root) -> Option<String> {
    config(root, &rustix::system::uname().release().to_string_lossy())
}

fn config(root: &Root, release: &str) -> Option<String> {
    let packed = root.read_bytes("proc/config.gz").and_then(|packed| {
        let mut text = String::new();
        let unpacked = flate2::read::GzDecoder::new(&packed[..]);
        unpacked.take(MOST_CONFIG_BYTES).read_to_string(&mut text).is_ok().then_some(text)
    });
    packed.or_else(|| root.read(format!("boot/config-{release}")))
}

/// The value of an option: "y", "m", "250". `None` if it is not set.
pub(super) fn option<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    config.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// The preemption mode in force. A real-time kernel has only one. A kernel with dynamic preemption
/// shows its mode in debugfs: "none (voluntary) full", with the current one in parentheses. If that
/// is not readable, the boot parameter or the built-in default applies.
fn preemption(root: &Root, version: &str, config: &str) -> Option<String> {
    let built = |name: &str| version.split(' ').any(|word| word == name);
    if built("PREEMPT_RT") || root.read("sys/kernel/realtime").as_deref() == Some("1") {
        return Some("rt".into());
    }
    if let Some(modes) = root.read("sys/kernel/debug/sched/preempt") {
        return Some(modes.split_once('(')?.1.split_once(')')?.0.to_owned());
    }
    let command_line = root.read("proc/cmdline").unwrap_or_default();
    if let Some(mode) = command_line.split_whitespace().find_map(|word| word.strip_prefix("preempt=")) {
        return Some(mode.to_owned());
    }
    let defaults = [
        ("CONFIG_PREEMPT", "full"),
        ("CONFIG_PREEMPT_LAZY", "lazy"),
        ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
        ("CONFIG_PREEMPT_NONE", "none"),
    ];
    let configured = defaults.into_iter().find(|(name, _)| option(config, name) == Some("y"));
    match configured {
        Some((_, mode)) => Some(mode.to_owned()),
        // Without the configuration, the version only identifies kernels that are always
        // preemptible.
        None => built("PREEMPT").then(|| "full".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::root::fixture;

    fn mode(files: &[(&str, &str)], version: &str, config: &str) -> Option<String> {
        preemption(&fixture(files), version, config)
    }

    #[test]
    fn the_active_preemption_mode_overrides_the_built_in_one() {
        let dynamic = "#1 SMP PREEMPT_DYNAMIC Tue";
        let debugfs = [("sys/kernel/debug/sched/preempt", "none (voluntary) full lazy\n")];
        assert_eq!(mode(&debugfs, dynamic, "CONFIG_PREEMPT=y").as_deref(), Some("voluntary"));
        let booted = [("proc/cmdline", "console=ttyS0 preempt=none quiet\n")];
        assert_eq!(mode(&booted, dynamic, "CONFIG_PREEMPT=y").as_deref(), Some("none"));
        assert_eq!(mode(&[], dynamic, "CONFIG_PREEMPT_LAZY=y\nCONFIG_HZ=250").as_deref(), Some("lazy"));
        assert_eq!(mode(&[], dynamic, ""), None);
    }

    #[test]
    fn a_realtime_kernel_and_an_old_preemptible_one_are_known_by_their_version() {
        assert_eq!(mode(&[], "#1 SMP PREEMPT_RT Debian", "").as_deref(), Some("rt"));
        assert_eq!(mode(&[("sys/kernel/realtime", "1\n")], "#1 SMP PREEMPT", "").as_deref(), Some("rt"));
        assert_eq!(mode(&[], "#1 SMP PREEMPT Thu", "").as_deref(), Some("full"));
        assert_eq!(mode(&[], "#1 SMP Thu", ""), None);
    }

    #[test]
    fn the_configuration_is_read_packed_or_plain() {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"# comment\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n").unwrap();
        let root = fixture(&[("boot/config-6.1", "CONFIG_HZ=1000\n")]);
        let hz = || option(&config(&root, "6.1")?, "CONFIG_HZ").map(str::to_owned);
        assert_eq!(hz().as_deref(), Some("1000"));
        assert_eq!(config(&root, "6.2"), None);
        std::fs::create_dir_all(root.path("proc")).unwrap();
        std::fs::write(root.path("proc/config.gz"), packed.finish().unwrap()).unwrap();
        assert_eq!(hz().as_deref(), Some("250"));
    }

    #[test]
    fn throttling_and_grouping_are_read() {
        let root = fixture(&[
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ("proc/sys/kernel/sched_autogroup_enabled", "1\n"),
            ("proc/self/schedstat", "0 0 0\n"),
        ]);
        let kernel = read(&root, "");
        assert_eq!(kernel.sched_rt_runtime_us, Some(950_000));
        assert_eq!(kernel.sched_rt_period_us, Some(1_000_000));
        assert_eq!((kernel.autogroup, kernel.schedstat, kernel.hz), (Some(true), true, None));
        assert!(!kernel.release.is_empty() && !kernel.machine.is_empty());
    }
}
