//! A recording that is read in progress returns the same events as one that is read as a whole.

#[allow(dead_code)]
mod common;

use common::fixture::Fixture;
use roundtrip_tracefs::{CpuSnapshot, Event, Stream};

/// A stream that receives a fixture's pages a few at a time.
struct Arriving<'a> {
    fixture: &'a Fixture,
    stream: Stream,
    at: Vec<usize>,
    events: Vec<Event>,
}

impl<'a> Arriving<'a> {
    fn new(fixture: &'a Fixture, keep_ns: u64, most_bytes: usize) -> Self {
        let stream = Stream::new(fixture.formats.clone(), keep_ns, most_bytes);
        Self { fixture, stream, at: vec![0; fixture.pages.len()], events: Vec::new() }
    }

    /// Passes the next pages of each CPU that start before an instant.
    fn until(&mut self, until_ns: u64) {
        let size = self.fixture.formats.page().size;
        let mut cpus = Vec::new();
        for ((cpu, pages), at) in self.fixture.pages.iter().zip(&mut self.at) {
            let from = *at;
            let begins = |page: &[u8]| u64::from_le_bytes(*page.first_chunk().unwrap());
            *at += pages[from..].chunks(size).take_while(|page| begins(page) <= until_ns).count() * size;
            cpus.push(CpuSnapshot { cpu: *cpu, pages: pages[from..*at].to_vec(), ..CpuSnapshot::default() });
        }
        self.events.extend(self.stream.take_in(cpus, until_ns).unwrap().events);
    }

    fn all(&mut self, rounds: u64) {
        let events = self.fixture.trace().events;
        let (first, last) = (events[0].time_ns, events.last().unwrap().time_ns);
        for round in 1..=rounds {
            self.until(first + (last - first) * round / rounds);
        }
    }
}

#[test]
fn every_event_goes_out_once_and_in_order_however_the_pages_arrive() {
    for fixture in Fixture::all() {
        let whole = fixture.trace();
        for rounds in [1, 2, 7, 100] {
            let mut arriving = Arriving::new(&fixture, u64::MAX, usize::MAX);
            arriving.all(rounds);
            let places = |events: &[Event]| -> Vec<_> {
                events.iter().map(|event| (event.time_ns, event.cpu, event.tid)).collect()
            };
            assert_eq!(places(&arriving.events), places(&whole.events), "{}, {rounds} rounds", fixture.name);
        }
    }
}

#[test]
fn losses_are_told_once() {
    for fixture in Fixture::all() {
        let mut arriving = Arriving::new(&fixture, u64::MAX, usize::MAX);
        let mut losses = Vec::new();
        let events = fixture.trace().events;
        let (first, last) = (events[0].time_ns, events.last().unwrap().time_ns);
        for round in 1..=20 {
            let until_ns = first + (last - first) * round / 20;
            let size = fixture.formats.page().size;
            let mut cpus = Vec::new();
            for ((cpu, pages), at) in fixture.pages.iter().zip(&mut arriving.at) {
                let begins = |page: &[u8]| u64::from_le_bytes(*page.first_chunk().unwrap());
                let from = *at;
                *at += pages[from..].chunks(size).take_while(|page| begins(page) <= until_ns).count() * size;
                cpus.push(CpuSnapshot { cpu: *cpu, pages: pages[from..*at].to_vec(), ..Default::default() });
            }
            losses.extend(arriving.stream.take_in(cpus, until_ns).unwrap().losses);
        }
        let whole = fixture.trace().losses;
        let known = |losses: &[roundtrip_tracefs::Loss]| -> Vec<_> {
            let before = losses.iter().filter(|loss| loss.before_ns < u64::MAX);
            let mut all: Vec<_> = before.map(|loss| (loss.cpu, loss.before_ns, loss.events)).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(known(&losses), known(&whole), "{}", fixture.name);
    }
}

#[test]
fn what_is_kept_is_the_latest_and_no_more_than_allowed() {
    let fixture = Fixture::all().into_iter().max_by_key(|fixture| fixture.pages[0].1.len()).unwrap();
    let size = fixture.formats.page().size;
    let mut arriving = Arriving::new(&fixture, u64::MAX, 6 * size);
    arriving.all(50);
    assert_eq!(arriving.events.len(), fixture.trace().events.len(), "what is forgotten has gone out");
    assert!(arriving.stream.kept_bytes() <= 6 * size, "{}", arriving.stream.kept_bytes());
    let snapshot = arriving.stream.snapshot(0);
    let from_ns = snapshot.started_ns.unwrap();
    let pages: Vec<(u32, &[u8])> = snapshot.cpus.iter().map(|cpu| (cpu.cpu, cpu.pages.as_slice())).collect();
    let cpus: Vec<_> = pages
        .iter()
        .map(|(cpu, bytes)| roundtrip_tracefs::CpuPages { cpu: *cpu, bytes, dropped: 0 })
        .collect();
    let kept =
        roundtrip_tracefs::read(&fixture.formats, &cpus, roundtrip_tracefs::Period::default()).unwrap();
    let wanted = arriving.events.iter().filter(|event| event.time_ns >= from_ns).count();
    let there = kept.events.iter().filter(|event| event.time_ns >= from_ns).count();
    assert!(wanted > 0 && there == wanted, "{there} of {wanted} events from {from_ns} on");
    let mut short = Arriving::new(&fixture, 1, usize::MAX);
    short.all(50);
    assert!(short.stream.kept_bytes() <= 2 * size * fixture.pages.len(), "{}", short.stream.kept_bytes());
}
