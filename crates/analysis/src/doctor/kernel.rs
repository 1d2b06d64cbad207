//! Checks of the kernel: compiled-in debugging options, tracing, version, timer tick.

use roundtrip_run::environment::Environment;

use super::{Check, Judged, Verdict};

pub(super) static DEBUGGING: &[Check] = &[
    Check {
        name: "lock-debugging",
        title: "lock debugging",
        why: "The kernel checks or counts every lock that a call takes, in the driver and in the scheduler, \
              which makes a call several times as long.",
        source: "Documentation/locking/lockdep-design.rst",
        judge: lock_debugging,
    },
    Check {
        name: "kernel-debugging",
        title: "kernel debugging",
        why: "Checks of memory and objects are compiled into the code path of every call.",
        source: "Documentation/dev-tools/kasan.rst, lib/Kconfig.debug",
        judge: debugging,
    },
    Check {
        name: "tracer",
        title: "tracer",
        why: "An active tracer adds work to every function, wakeup or interrupt that it traces.",
        source: "Documentation/trace/ftrace.rst",
        judge: tracer,
    },
    Check {
        name: "build-type",
        title: "Android build type",
        why: "An eng build has checks and logging that users' builds do not have.",
        source: "source.android.com, Build Android (eng, userdebug, user)",
        judge: build_type,
    },
];

pub(super) static VERSION: &[Check] = &[
    Check {
        name: "kernel-version",
        title: "kernel version",
        why: "Before 4.14 the binder driver has one lock for all processes.",
        source: "drivers/android/binder.c",
        judge: version,
    },
    Check {
        name: "tick",
        title: "tick rate",
        why: "A runnable ordinary thread runs only after a tick ends the running thread's time slice.",
        source: "Documentation/timers/no_hz.rst, kernel/Kconfig.hz",
        judge: tick,
    },
];

fn lock_debugging(environment: &Environment) -> Judged {
    options(environment, "lock_debug_options")
}

fn debugging(environment: &Environment) -> Judged {
    options(environment, "debug_options")
}

fn options(environment: &Environment, name: &str) -> Judged {
    let set = environment.facts.names(name)?;
    if set.is_empty() {
        return Ok(Verdict::good("none is compiled in"));
    }
    let configs: Vec<_> = set.iter().map(|name| format!("CONFIG_{name}")).collect();
    let off: Vec<_> = set.iter().map(|name| format!("-d {name}")).collect();
    let advice = "Measure on a kernel that is built without these options.";
    Ok(Verdict::lengthens(configs.join(", "), advice).command(format!("scripts/config {}", off.join(" "))))
}

fn tracer(environment: &Environment) -> Judged {
    match environment.facts.text("tracer")? {
        "nop" => Ok(Verdict::good("none")),
        tracer => Ok(Verdict::lengthens(tracer, "Turn the tracer off.")
            .command("echo nop > /sys/kernel/tracing/current_tracer")),
    }
}

fn build_type(environment: &Environment) -> Judged {
    match environment.facts.text("android_build_type")? {
        "eng" => Ok(Verdict::lengthens(
            "eng",
            "Measure on a userdebug build, which matches users' builds and allows root.",
        )),
        build => Ok(Verdict::good(build)),
    }
}

fn version(environment: &Environment) -> Judged {
    let release = &environment.kernel.release;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return Err(format!("the release '{release}' contains no version"));
    };
    Ok(if (major, minor) < (4, 14) {
        Verdict::lengthens(release, "Measure on a newer kernel.")
    } else {
        Verdict::good(release)
    })
}

fn tick(environment: &Environment) -> Judged {
    let hz = environment.kernel.hz.ok_or("the kernel does not show its configuration")?;
    Ok(if hz < 250 {
        let advice = "Build the kernel with CONFIG_HZ=250 or more.";
        Verdict::lengthens(format!("{hz} per second"), advice).command("scripts/config -d HZ_100 -e HZ_250")
    } else {
        Verdict::good(format!("{hz} per second"))
    })
}
