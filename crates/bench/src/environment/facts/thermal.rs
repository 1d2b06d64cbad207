//! Thermal throttling of processors (Documentation/driver-api/thermal/sysfs-api.rst). Must not
//! judge it.

use roundtrip_run::environment::{Facts, Value};

use crate::kernel::root::Root;

const CLASS: &str = "sys/class/thermal";

/// The cooling devices that are slowing down processors now: "thermal-cpufreq-0 (2 of 10)".
pub(super) fn read(root: &Root, facts: &mut Facts) {
    let names = root.names(CLASS);
    let devices = || names.iter().filter(|name| name.starts_with("cooling_device")).take(1024);
    let mut limiting = Vec::new();
    for device in devices() {
        let read = |file: &str| root.read(format!("{CLASS}/{device}/{file}"));
        let (Some(kind), Some(state), Some(most)) = (read("type"), read("cur_state"), read("max_state"))
        else {
            continue;
        };
        let (Ok(state), Ok(most)) = (state.parse::<u64>(), most.parse::<u64>()) else { continue };
        let of_a_cpu = ["cpu", "Processor", "intel_powerclamp"].iter().any(|word| kind.contains(word));
        if of_a_cpu && state > 0 && kind.len() < 64 {
            limiting.push(format!("{kind} ({state} of {most})"));
        }
    }
    let found = match devices().count() {
        0 => Err("no cooling device: the hardware or the host manages heat".to_owned()),
        _ => Ok(Value::Names(limiting)),
    };
    facts.note("thermal_limits", &format!("/{CLASS}/cooling_device*"), found);
}
