//! Records the running kernel both ways: its pages must agree with its text, and the number of
//! overwritten events must be exact. Without root, each test is skipped.
#![allow(clippy::print_stderr)] // A skipped test prints why.

#[allow(dead_code)]
mod common;

use std::fs;
use std::time::Duration;

use common::capture::{EVENTS, Instance, drain, work};
use common::text::compare;
use common::tracefs;
use roundtrip_tracefs::{CpuPages, Formats, Period, Trace};

fn formats(instance: &Instance) -> Formats {
    let files = instance.formats().unwrap();
    let text = |name: &str| files.iter().find(|(file, _)| file == name).map_or("", |(_, text)| text.as_str());
    let events = files.iter().filter_map(|(file, text)| {
        let (system, event) = file.strip_prefix("events/")?.strip_suffix("/format")?.split_once('/')?;
        Some((system, event, text.as_str()))
    });
    let formats = Formats::parse(
        text("events/header_page"),
        text("events/header_event"),
        events,
        text("printk_formats"),
    );
    formats.unwrap().with_kallsyms(&fs::read_to_string("/proc/kallsyms").unwrap())
}

fn read(formats: &Formats, pages: &[(u32, Vec<u8>)]) -> Trace {
    let cpus: Vec<_> = pages.iter().map(|(cpu, bytes)| CpuPages { cpu: *cpu, bytes, dropped: 0 }).collect();
    roundtrip_tracefs::read(formats, &cpus, Period::default()).unwrap()
}

#[test]
fn pages_of_this_kernel_say_what_its_text_says() {
    let Some(tracefs) = tracefs() else { return };
    let instance = Instance::new(tracefs.root(), 256, EVENTS).unwrap();
    let formats = formats(&instance);
    instance.set("tracing_on", "1").unwrap();
    work(&instance, &[], Duration::from_millis(300)).unwrap();
    instance.set("tracing_on", "0").unwrap();
    let text = instance.read("trace").unwrap();
    let mut pages = Vec::new();
    for cpu in instance.cpus().unwrap() {
        let mut bytes = Vec::new();
        drain(&mut instance.pipe(cpu).unwrap(), formats.page().size, usize::MAX, &mut bytes).unwrap();
        pages.push((cpu, bytes));
    }
    let trace = read(&formats, &pages);
    let fields = compare(&trace, &text);
    assert!(fields > 500, "only {fields} of {} events were compared to their fields", trace.events.len());
}

#[test]
fn what_is_overwritten_while_it_is_read_is_told_to_the_event() {
    let Some(tracefs) = tracefs() else { return };
    let instance = Instance::new(tracefs.root(), 8, EVENTS).unwrap();
    let formats = formats(&instance);
    let size = formats.page().size;
    let mut pipes: Vec<_> = instance
        .cpus()
        .unwrap()
        .into_iter()
        .map(|cpu| (cpu, instance.pipe(cpu).unwrap(), Vec::new()))
        .collect();
    instance.set("tracing_on", "1").unwrap();
    for _ in 0..15 {
        work(&instance, &[], Duration::from_millis(20)).unwrap();
        for (_, pipe, bytes) in &mut pipes {
            drain(pipe, size, 1, bytes).unwrap();
        }
    }
    instance.set("tracing_on", "0").unwrap();
    let mut pages = Vec::new();
    for (cpu, mut pipe, mut bytes) in pipes {
        drain(&mut pipe, size, usize::MAX, &mut bytes).unwrap();
        pages.push((cpu, bytes));
    }
    let trace = read(&formats, &pages);
    let mut marks = 0;
    for (cpu, _) in &pages {
        let losses: Vec<_> = trace.losses.iter().filter(|loss| loss.cpu == *cpu).collect();
        assert!(losses.iter().all(|loss| !loss.damaged && loss.after_ns <= loss.before_ns), "{losses:?}");
        marks += losses.len();
        let read = trace.events.iter().filter(|event| event.cpu == *cpu).count() as u64;
        assert_eq!(instance.stat(*cpu, "read events").unwrap(), read, "on CPU {cpu}");
        // If a page has no room for the count, it only has the mark.
        if let Some(lost) = losses.iter().map(|loss| loss.events).sum::<Option<u64>>() {
            assert_eq!(instance.stat(*cpu, "overrun").unwrap(), lost, "on CPU {cpu}: {losses:?}");
        }
    }
    assert!(marks > 2, "this test needs losses, and there were {marks}");
}
