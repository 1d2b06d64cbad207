//! Generated pages are read back exactly, and damaged ones are reported. No input makes the reader
//! panic, loop, or return events out of order.

#[allow(dead_code)]
mod common;

use common::fixture::Fixture;
use common::writer::{Clock, Entry, Expected, KNOWN, Lost, Machine, UNKNOWN, Writer};
use proptest::collection::vec;
use proptest::prelude::*;
use roundtrip_files::{Budget, Exceeded};
use roundtrip_tracefs::{Body, CpuPages, CpuReader, Error, Formats, Loss, Period, Trace, read_packed};

fn clocks() -> impl Strategy<Value = Clock> {
    prop_oneof![4 => Just(Clock::Shortest), 1 => Just(Clock::Extend), 1 => Just(Clock::Absolute)]
}

fn after() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0_u64..5_000, 1 => 0_u64..1 << 29, 1 => Just(0_u64)]
}

fn entries() -> impl Strategy<Value = Vec<(Entry, Lost)>> {
    let event = (
        after(),
        prop_oneof![5 => Just(KNOWN), 1 => Just(UNKNOWN)],
        prop_oneof![5 => vec(any::<u8>(), 0..60), 1 => vec(any::<u8>(), 60..220)],
        clocks(),
    )
        .prop_map(|(after_ns, id, what, clock)| Entry::Event { after_ns, id, what, clock });
    let discarded = (after(), 1_u8..20).prop_map(|(after_ns, words)| Entry::Discarded { after_ns, words });
    let lost = prop_oneof![30 => Just(None), 1 => Just(Some(None)), 1 => (1_u32..1_000_000).prop_map(|count| Some(Some(count)))];
    vec((prop_oneof![12 => event, 1 => discarded], lost), 0..120)
}

fn machines() -> impl Strategy<Value = Machine> {
    (prop_oneof![Just(4_usize), Just(8)], prop_oneof![Just(512_usize), Just(4096), Just(16384)])
        .prop_map(|(long, page)| Machine { long, page })
}

/// Times with and without the bits that an absolute timestamp cannot hold.
fn starts() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(1_u64),
        1_u64..1 << 50,
        (1_u64 << 59) - (1 << 29)..1 << 59,
        (5_u64 << 59)..(5 << 59) + (1 << 40)
    ]
}

fn written(machine: Machine, start_ns: u64, entries: &[(Entry, Lost)]) -> Writer {
    let mut writer = Writer::new(machine, start_ns);
    for (entry, lost) in entries {
        writer.push(entry, *lost);
    }
    writer.finish_page();
    writer
}

fn pages(cpu: u32, bytes: &[u8]) -> CpuPages<'_> {
    CpuPages { cpu, bytes, dropped: 0 }
}

fn read(formats: &Formats, cpus: &[CpuPages<'_>]) -> Trace {
    roundtrip_tracefs::read(formats, cpus, Period::default()).expect("little-endian pages of different CPUs")
}

/// A CPU's events in the form of the writer's list, without pages.
fn events(trace: &Trace, cpu: u32) -> Vec<(u64, u32, Vec<u8>)> {
    let of = trace.events.iter().filter(|event| event.cpu == cpu);
    of.map(|event| {
        let Body::Other { at, length, .. } = event.body else { panic!("{event:?} has no decoded form") };
        (event.time_ns, event.tid, trace.others.bytes(at, length).to_vec())
    })
    .collect()
}

fn plain(expected: &[Expected]) -> Vec<(u64, u32, Vec<u8>)> {
    expected.iter().map(|event| (event.time_ns, event.tid, event.record.clone())).collect()
}

fn ordered(trace: &Trace) -> bool {
    trace.events.is_sorted_by_key(|event| (event.time_ns, event.cpu))
}

/// The losses to expect for those that the writer added, each from the event before it to the event
/// after it.
fn expected_losses(writer: &Writer, cpu: u32) -> Vec<Loss> {
    let mut losses: Vec<(usize, Loss)> = Vec::new();
    for &(page, events) in &writer.losses {
        let next =
            writer.expected.iter().position(|event| event.page >= page).unwrap_or(writer.expected.len());
        let after_ns = next.checked_sub(1).map_or(0, |before| writer.expected[before].time_ns);
        let before_ns = writer.expected.get(next).map_or(u64::MAX, |event| event.time_ns);
        match losses.last_mut() {
            // Two losses without events between them are one.
            Some((before, loss)) if *before == next => {
                loss.events = loss.events.zip(events).map(|(a, b)| a + b)
            }
            _ => losses.push((next, Loss { cpu, after_ns, before_ns, events, damaged: false })),
        }
    }
    losses.into_iter().map(|(_, loss)| loss).collect()
}

proptest! {
    #[test]
    fn what_was_written_comes_back_exactly(machine in machines(), start_ns in starts(), first in entries(), second in entries()) {
        let formats = machine.formats();
        let writers = [written(machine, start_ns, &first), written(machine, start_ns + 1000, &second)];
        let trace = read(&formats, &[pages(3, &writers[0].bytes), pages(1, &writers[1].bytes)]);
        prop_assert!(ordered(&trace));
        let mut losses = Vec::new();
        for (cpu, writer) in [(3, &writers[0]), (1, &writers[1])] {
            prop_assert_eq!(events(&trace, cpu), plain(&writer.expected));
            losses.extend(expected_losses(writer, cpu));
            prop_assert_eq!(trace.complete_from_ns.get(&cpu), writer.expected.first().map(|event| &event.time_ns));
        }
        losses.sort_by_key(|loss| (loss.after_ns, loss.cpu));
        prop_assert_eq!(&trace.losses, &losses);
    }

    #[test]
    fn damage_to_one_page_costs_no_more_than_its_neighbours(machine in machines(), start_ns in starts(), list in entries(), at in any::<prop::sample::Index>(), flips in vec((0_usize..512, 1_u8..=255), 1..8)) {
        let writer = written(machine, start_ns, &list);
        prop_assume!(!writer.bytes.is_empty());
        let mut bytes = writer.bytes.clone();
        let page = at.index(bytes.len() / machine.page);
        for (offset, flip) in flips {
            bytes[page * machine.page + offset] ^= flip;
        }
        let Ok(trace) = roundtrip_tracefs::read(&machine.formats(), &[pages(0, &bytes)], Period::default()) else { return Ok(()) };
        prop_assert!(ordered(&trace));
        let found = events(&trace, 0);
        for event in writer.expected.iter().filter(|event| event.page.abs_diff(page) > 1) {
            // After damage, a time may be raised by as much as a clock may step back.
            prop_assert!(
                found.iter().any(|(time_ns, tid, record)| (*tid, record) == (event.tid, &event.record) && time_ns.abs_diff(event.time_ns) <= 10_000),
                "{:?} is missing, page {} was damaged", event, page
            );
        }
    }

    #[test]
    fn a_recording_that_was_cut_off_gives_all_that_is_there_and_says_so(machine in machines(), list in entries(), at in any::<prop::sample::Index>()) {
        let writer = written(machine, 1_000, &list);
        prop_assume!(!writer.bytes.is_empty());
        let cut = at.index(writer.bytes.len());
        let trace = read(&machine.formats(), &[pages(0, &writer.bytes[..cut])]);
        let (found, expected) = (events(&trace, 0), plain(&writer.expected));
        prop_assert_eq!(&found[..], &expected[..found.len()]);
        let whole_pages = writer.expected.iter().filter(|event| event.page < cut / machine.page).count();
        prop_assert!(found.len() >= whole_pages);
        if found.len() < expected.len() && cut % machine.page != 0 {
            let last = trace.losses.iter().rfind(|loss| loss.damaged);
            prop_assert!(last.is_some_and(|loss| loss.before_ns == u64::MAX), "{:?}", trace.losses);
        }
    }

    #[test]
    fn any_bytes_are_read_in_order_or_told_as_damage(machine in machines(), bytes in vec(any::<u8>(), 0..3000)) {
        if let Ok(trace) = roundtrip_tracefs::read(&machine.formats(), &[pages(0, &bytes), pages(1, &bytes)], Period::default()) {
            prop_assert!(ordered(&trace));
            prop_assert!(bytes.is_empty() || !trace.events.is_empty() || !trace.losses.is_empty());
        }
    }

    #[test]
    fn real_pages_with_damage_are_read_in_order(flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        for mut fixture in Fixture::all() {
            for (at, value) in &flips {
                let bytes = &mut fixture.pages[0].1;
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            prop_assert!(ordered(&fixture.trace()));
        }
    }
}

const MACHINE: Machine = Machine { long: 8, page: 4096 };

/// A page with this data. Its length is that of the data or `commit`.
fn page(time_ns: u64, commit: Option<u64>, words: &[u32]) -> Vec<u8> {
    let mut bytes = time_ns.to_le_bytes().to_vec();
    bytes.extend(commit.unwrap_or(words.len() as u64 * 4).to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(4096, 0);
    bytes
}

/// A valid event of two words, for thread 7.
const GOOD: [u32; 3] = [2, KNOWN as u32, 7];

#[test]
fn impossible_records_end_their_page_and_the_next_one_is_read() {
    let cases: [(&str, Option<u64>, &[u32]); 9] = [
        ("a length of zero, as an Android 4.19 kernel wrote", None, &[0, 0, 0]),
        ("a length that does not hold its own word", None, &[0, 3, 0]),
        ("a length past the page", None, &[0, 0xffff_fffc, 1]),
        ("more words than there are", None, &[28, KNOWN as u32, 7]),
        ("a discarded event past the page", None, &[29 | 1 << 5, 400]),
        ("a time without its second half", None, &[30]),
        ("an end before the end", None, &[29, 0, 0, 0]),
        ("an event too short for its thread", None, &[1, KNOWN as u32]),
        ("a number alone", None, &[0, 6, KNOWN as u32]),
    ];
    for (what, commit, words) in cases {
        let bad = page(1_000, commit, &[&GOOD[..], words].concat());
        let trace = read(&MACHINE.formats(), &[pages(0, &[bad, page(2_000, None, &GOOD)].concat())]);
        assert_eq!(
            trace.events.iter().map(|event| event.time_ns).collect::<Vec<_>>(),
            [1_000, 2_000],
            "{what}"
        );
        let loss = Loss { cpu: 0, after_ns: 1_000, before_ns: 2_000, events: None, damaged: true };
        assert_eq!(trace.losses, [loss], "{what}");
    }
}

#[test]
fn impossible_pages_are_passed_over_and_told() {
    let good = page(2_000, None, &GOOD);
    for (what, bad) in [
        ("a hole", vec![0; 4096]),
        ("a length beyond the page", page(1_000, Some(4081), &GOOD)),
        ("unknown flags", page(1_000, Some(12 | 1 << 29), &GOOD)),
        ("a time long before the page before it", page(500, None, &GOOD)),
        ("a time after the next page", page(900_000_000, None, &GOOD)),
    ] {
        let first = page(1_500_000, None, &GOOD);
        let last = page(3_000_000, None, &GOOD);
        let trace = read(&MACHINE.formats(), &[pages(0, &[first, bad, last].concat())]);
        assert_eq!(
            trace.events.iter().map(|event| event.time_ns).collect::<Vec<_>>(),
            [1_500_000, 3_000_000],
            "{what}"
        );
        let loss = Loss { cpu: 0, after_ns: 1_500_000, before_ns: 3_000_000, events: None, damaged: true };
        assert_eq!(trace.losses, [loss], "{what}");
    }
    let trace = read(&MACHINE.formats(), &[pages(0, &good), pages(1, &[0; 4096])]);
    assert_eq!(
        trace.losses,
        [Loss { cpu: 1, after_ns: 0, before_ns: u64::MAX, events: None, damaged: true }]
    );
    assert_eq!(trace.complete_from_ns.keys().collect::<Vec<_>>(), [&0], "of CPU 1 nothing is known");
}

#[test]
fn what_is_complete_is_known_from_when_recording_began_or_what_was_overwritten() {
    let period = Period { started_ns: Some(500), stopped_ns: Some(9_000) };
    let lost = page(2_000, Some(12 | 1 << 31), &GOOD);
    let whole = page(1_000, None, &GOOD);
    let cpus = [pages(0, &whole), pages(1, &lost), pages(2, &[])];
    let trace = roundtrip_tracefs::read(&MACHINE.formats(), &cpus, period).unwrap();
    assert_eq!(trace.complete_from_ns.into_iter().collect::<Vec<_>>(), [(0, 500), (1, 2_000), (2, 500)]);
    assert_eq!(trace.losses, [Loss { cpu: 1, after_ns: 0, before_ns: 2_000, events: None, damaged: false }]);
    assert_eq!(trace.stopped_ns, Some(9_000));
}

#[test]
fn a_record_after_the_recordings_end_is_damage() {
    let period = Period { started_ns: None, stopped_ns: Some(2_000) };
    let bytes = [page(1_000, None, &GOOD), page(1 << 60, None, &GOOD)].concat();
    let trace = roundtrip_tracefs::read(&MACHINE.formats(), &[pages(0, &bytes)], period).unwrap();
    assert_eq!((trace.events.len(), trace.losses.len()), (1, 1));
}

#[test]
fn events_that_a_full_buffer_dropped_are_a_loss_although_no_page_says_so() {
    let bytes = page(1_000, None, &GOOD);
    let trace = read(&MACHINE.formats(), &[CpuPages { cpu: 0, bytes: &bytes, dropped: 17 }]);
    assert_eq!(
        trace.losses,
        [Loss { cpu: 0, after_ns: 1_000, before_ns: u64::MAX, events: Some(17), damaged: false }]
    );
}

#[test]
fn a_clock_that_steps_back_a_little_between_pages_keeps_the_order() {
    let bytes = [page(1_000_000, None, &GOOD), page(999_900, None, &GOOD)].concat();
    let trace = read(&MACHINE.formats(), &[pages(0, &bytes)]);
    assert_eq!(trace.events.iter().map(|event| event.time_ns).collect::<Vec<_>>(), [1_000_000, 1_000_000]);
    assert_eq!(trace.losses, []);
}

#[test]
fn events_of_one_instant_are_in_the_order_of_the_cpus() {
    let bytes = page(1_000, None, &[GOOD, GOOD].concat());
    let trace = read(&MACHINE.formats(), &[pages(2, &bytes), pages(0, &bytes), pages(1, &bytes)]);
    assert_eq!(trace.events.iter().map(|event| event.cpu).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn pages_of_big_endian_machines_and_a_cpu_given_twice_are_refused() {
    let formats = MACHINE.formats();
    let mut bytes = page(0, None, &GOOD);
    bytes[..8].copy_from_slice(&1_000_u64.to_be_bytes());
    bytes[8..16].copy_from_slice(&12_u64.to_be_bytes());
    assert!(matches!(
        roundtrip_tracefs::read(&formats, &[pages(5, &bytes)], Period::default()),
        Err(Error::BigEndian { cpu: 5 })
    ));
    let narrow = Machine { long: 4, page: 4096 };
    bytes[8..12].copy_from_slice(&12_u32.to_be_bytes());
    assert!(matches!(
        roundtrip_tracefs::read(&narrow.formats(), &[pages(5, &bytes)], Period::default()),
        Err(Error::BigEndian { .. })
    ));
    assert!(matches!(
        roundtrip_tracefs::read(&formats, &[pages(1, &[]), pages(1, &[])], Period::default()),
        Err(Error::CpuTwice { cpu: 1 })
    ));
}

#[test]
fn an_event_without_a_format_is_kept_under_its_number() {
    let trace = read(&MACHINE.formats(), &[pages(0, &page(1_000, None, &[2, u32::from(UNKNOWN), 7]))]);
    let Body::Other { event, .. } = trace.events[0].body else { panic!("{:?}", trace.events) };
    assert_eq!((trace.names.text(event), trace.events[0].tid), ("unknown/301", 7));
    assert_eq!(trace.field(&trace.events[0], "what"), None);
}

#[test]
fn packed_events_are_the_same_and_too_many_are_refused() {
    for fixture in Fixture::all() {
        let cpus: Vec<CpuPages<'_>> = fixture.pages.iter().map(|(cpu, bytes)| pages(*cpu, bytes)).collect();
        let mut plain = read(&fixture.formats, &cpus);
        let count = plain.events.len();
        let packed = |most: usize| {
            let cpus = fixture.pages.iter().map(|(cpu, bytes)| CpuReader {
                cpu: *cpu,
                pages: Box::new(&bytes[..]),
                dropped: 0,
            });
            read_packed(&fixture.formats, cpus.collect(), &Budget::new(u64::MAX, most as u64, 0))
        };
        let mut trace = packed(count).unwrap();
        assert_eq!((trace.event_count(), trace.events.len()), (count, 0));
        trace.unpack();
        assert_eq!(trace.events, plain.events);
        assert_eq!((&trace.losses, &trace.recorded), (&plain.losses, &plain.recorded));
        plain.unpack();
        assert_eq!(plain.events.len(), count, "nothing was packed");
        assert!(
            matches!(packed(count - 1), Err(Error::TooMany(Exceeded::Items(most))) if most == count as u64 - 1)
        );
    }
}
