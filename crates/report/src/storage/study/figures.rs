//! Figures 4 to 6 of the study of 2012 and its four claims, from writes of several sizes with and
//! without a CPU-bound process. Pure: results in, tables, words and JSON out.

use std::fmt::Write as _;

use roundtrip_analysis::interference::{Explained, Side};
use roundtrip_latency::{Comparison, Interval, median_interval};
use roundtrip_run::storage::interference::{InterferenceResult, Measured, Pair};
use roundtrip_sorting::SmallSort as _;
use serde_json::{Value, json};

use super::SIZE_BYTES;
use super::parts::{self, PARTS};
use crate::storage::beside::control;
use crate::storage::interference::{self, figures};
use crate::storage::verdict::{Verdict, beyond_chance};
use crate::text::look::Look;
use crate::text::quantity::{length, three_digits};
use crate::text::table::{Column, Table};

/// The writes of one size.
pub(crate) struct Size<'a> {
    /// Alone against alone.
    pub(crate) control: &'a Explained<'a>,
    /// Alone and beside a CPU-bound process.
    pub(crate) hog: &'a Explained<'a>,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Application,
    Device,
}

/// The writes of one writer in several sizes.
pub(crate) struct Figures<'a> {
    /// The writer: "java-file, O_DSYNC".
    pub(crate) who: String,
    /// In ascending order.
    pub(crate) sizes: Vec<Size<'a>>,
}

/// One of the study's claims.
struct Claim {
    claim: &'static str,
    verdict: Verdict,
    why: String,
}

/// The figures of each writer that was measured in several sizes beside a CPU-bound process.
pub(crate) fn of<'a>(result: &InterferenceResult, all: &'a [Explained<'a>]) -> Vec<Figures<'a>> {
    let of_writer = |(index, writer): (usize, &roundtrip_run::storage::WriterResult)| {
        let own = all.iter().filter(|one| one.beside.writer == index);
        let mut sizes: Vec<Size<'a>> = Vec::new();
        for hog in own.filter(|one| one.beside.condition.is_hog()) {
            let known = sizes.iter().any(|size| size.bytes() == hog.beside.size_bytes);
            if let Some(control) = control(all, hog).filter(|_| !known) {
                sizes.push(Size { control, hog });
            }
        }
        sizes.small_sort_by_key(Size::bytes);
        let who = format!("{}, {}", writer.api, writer.durability);
        (sizes.len() > 1).then_some(Figures { who, sizes })
    };
    result.writers.iter().enumerate().filter_map(of_writer).collect()
}

impl Size<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        self.hog.beside.size_bytes
    }

    /// "16 KiB".
    pub(crate) fn name(&self) -> String {
        length(self.bytes() as usize)
    }

    /// What the events show of the writes alone.
    fn alone(&self) -> Option<&Side> {
        self.control.sides.as_ref().map(|[alone, _]| alone)
    }

    /// The mean time of a write alone in each part, in nanoseconds.
    pub(crate) fn parts_ns(&self) -> Option<[f64; PARTS.len()]> {
        Some(parts::means_ns(&self.alone()?.breakdown))
    }

    /// The medians without and with the process, in nanoseconds, and their 95% intervals.
    pub(crate) fn medians_ns(&self, of: Of) -> Option<[(f64, Option<Interval>); 2]> {
        let sides: [fn(&Pair) -> &Measured; 2] = [|pair| &pair.alone, |pair| &pair.beside];
        let compared = compared(self.hog, of)?;
        let mut index = 0;
        Some([compared.baseline_ns, compared.subject_ns].map(|median_ns| {
            let mut rounds: Vec<f64> = match (of, &self.hog.sides) {
                (Of::Device, Some(recorded)) => recorded[index].device_ns.clone(),
                (Of::Device, None) => {
                    self.hog.beside.pairs.iter().filter_map(|pair| sides[index](pair).request_ns()).collect()
                }
                (Of::Application, _) => {
                    self.hog.beside.pairs.iter().filter_map(|pair| sides[index](pair).median_ns()).collect()
                }
            };
            index += 1;
            rounds.sort_by(f64::total_cmp);
            (median_ns, median_interval(&rounds))
        }))
    }
}

fn compared(one: &Explained<'_>, of: Of) -> Option<Comparison> {
    match of {
        Of::Application => one.beside.response(),
        Of::Device => one.device(),
    }
}

/// Everything that a terminal shows of them; empty if there are none.
pub(crate) fn text(result: &InterferenceResult, all: &[Explained<'_>], look: Look) -> String {
    let mut out = String::new();
    for figures in of(result, all) {
        let who = &figures.who;
        let _ = write!(out, "A write alone, by size: {who} (figure 4)\n{}\n", figures.by_size().render(look));
        let responses = figures.responses().render(look);
        let _ = write!(out, "Alone and beside {}: {who} (figures 5 and 6)\n{responses}\n", figures.beside());
        out.push_str("Is what the study of 2012 found so here?\n");
        for line in figures.claims() {
            let _ = writeln!(out, "  {line}");
        }
        out.push('\n');
    }
    out
}

/// The same for programs: `results.interference.study`.
pub(crate) fn json(result: &InterferenceResult, all: &[Explained<'_>]) -> Value {
    of(result, all).iter().map(Figures::json).collect()
}

impl Figures<'_> {
    /// The CPU-bound process, by its condition.
    pub(crate) fn beside(&self) -> &'static str {
        self.sizes.first().map_or("", |size| size.hog.beside.condition.name())
    }

    /// The parts of a write by size.
    pub(crate) fn by_size(&self) -> Table {
        let parts = PARTS.map(|part| Column::number(part, "us"));
        let host = [Column::number("host share", "%"), Column::number("99% interval", "%")];
        let mut table = Table::new([Column::text("size")].into_iter().chain(parts).chain(host));
        for size in &self.sizes {
            let means_ns = size.parts_ns();
            let cells: Vec<String> = (0..PARTS.len())
                .map(|part| means_ns.map_or("-".to_owned(), |means_ns| three_digits(means_ns[part] / 1000.0)))
                .collect();
            let share = size.alone().and_then(|side| side.breakdown.host_shares.share());
            let host = share.map_or(["-".to_owned(), String::new()], |share| {
                let [median, low, high] = [share.median, share.low, share.high].map(|share| share * 100.0);
                [format!("{median:.1}"), format!("{low:.1}-{high:.1}")]
            });
            table.row([size.name()].into_iter().chain(cells).chain(host));
        }
        table
    }

    /// The responses by size.
    pub(crate) fn responses(&self) -> Table {
        let mut table = interference::response_columns("size");
        for size in &self.sizes {
            let [application, device] =
                [Of::Application, Of::Device].map(|of| figures(compared(size.hog, of)));
            table.row([size.name()].into_iter().chain(application).chain(device));
        }
        table
    }

    /// The study's claims, each with a verdict and the reason, a line each.
    pub(crate) fn claims(&self) -> Vec<String> {
        let line = |Claim { claim, verdict, why }| format!("{claim}: {}; {why}", verdict.name());
        self.all_claims().into_iter().map(line).collect()
    }

    fn all_claims(&self) -> [Claim; 4] {
        let [host, interrupts] = [self.host(), self.interrupts()];
        let claim = |claim, (verdict, why)| Claim { claim, verdict, why };
        [
            claim("platform and kernel have over 90% of a write of 16 KiB", host),
            claim(
                "beside the process, the application waits up to 20% less",
                self.changed(Of::Application, -1.0),
            ),
            claim("beside the process, the device takes up to 7% longer", self.changed(Of::Device, 1.0)),
            claim("beside the process, completions need more interrupts between CPUs", interrupts),
        ]
    }

    fn host(&self) -> (Verdict, String) {
        let Some(size) = self.sizes.iter().find(|size| size.bytes() == SIZE_BYTES) else {
            return (Verdict::CannotTell, "that size was not measured".to_owned());
        };
        let share = size.alone().and_then(|side| side.breakdown.host_shares.share());
        let why = match share {
            None => "the kernel's events were not recorded, or of too few writes".to_owned(),
            Some(_) => super::here(share),
        };
        (super::verdict(share), why)
    }

    /// Whether the time with the process is shorter (`sign` -1) or longer (1) beyond chance, at
    /// half of the sizes at least.
    fn changed(&self, of: Of, sign: f64) -> (Verdict, String) {
        let found: Vec<(&Size<'_>, Comparison)> =
            self.sizes.iter().filter_map(|size| Some((size, compared(size.hog, of)?))).collect();
        let verdicts = found.iter().map(|(size, found)| {
            let noise = compared(size.control, of).and_then(|comparison| comparison.interval);
            beyond_chance(*found, noise, sign).0
        });
        let verdicts: Vec<Verdict> = verdicts.collect();
        let count = |of: Verdict| verdicts.iter().filter(|verdict| **verdict == of).count();
        let (yes, no, all) = (count(Verdict::Yes), count(Verdict::No), self.sizes.len());
        let verdict = match () {
            () if 2 * yes >= all => Verdict::Yes,
            () if 2 * no > all && yes == 0 => Verdict::No,
            () => Verdict::CannotTell,
        };
        let most =
            found.iter().max_by(|one, other| (sign * one.1.median).total_cmp(&(sign * other.1.median)));
        let most = most.map_or("not known at any size".to_owned(), |(size, found)| {
            format!("the largest change is {:+.1}%, at {}", (found.median - 1.0) * 100.0, size.name())
        });
        (verdict, format!("beyond chance at {yes} of {all} sizes, certainly not at {no}; {most}"))
    }

    /// Whether a write needs more interrupts between CPUs beside the process.
    fn interrupts(&self) -> (Verdict, String) {
        let unknown = |why: &str| (Verdict::CannotTell, why.to_owned());
        let mut sums = [(0.0, 0.0); 2];
        for size in &self.sizes {
            let Some(sides) = &size.hog.sides else {
                return unknown("the kernel's events were not recorded");
            };
            for ((count, calls), Side { breakdown, .. }) in sums.iter_mut().zip(sides) {
                *count += f64::from(breakdown.cpu_interrupts.count);
                *calls += breakdown.calls as f64;
            }
        }
        let [(alone, alone_calls), (beside, beside_calls)] = sums;
        if alone + beside == 0.0 {
            return unknown("none was recorded, and not every kernel records them");
        }
        let [per_write, per_write_beside] = [alone / alone_calls.max(1.0), beside / beside_calls.max(1.0)];
        let why = format!(
            "{} for each write alone, {} beside it",
            three_digits(per_write),
            three_digits(per_write_beside)
        );
        // Three standard deviations of the difference, if each interrupt is independent.
        let chance =
            3.0 * (alone / alone_calls.max(1.0).powi(2) + beside / beside_calls.max(1.0).powi(2)).sqrt();
        let more = per_write_beside - per_write;
        (if more > chance { Verdict::Yes } else { Verdict::No }, why)
    }

    fn json(&self) -> Value {
        let times = |size: &Size<'_>, of| {
            let Some(medians) = size.medians_ns(of) else { return Value::Null };
            let [alone, beside] = medians.map(|(median_ns, interval)| {
                let [low_ns, high_ns] = [interval.map(|own| own.low), interval.map(|own| own.high)];
                json!({ "median_ns": median_ns, "low_ns": low_ns, "high_ns": high_ns })
            });
            json!({ "alone": alone, "beside": beside })
        };
        let size = |size: &Size<'_>| {
            let parts = size.parts_ns().map(|means_ns| {
                let parts = PARTS.into_iter().zip(means_ns).map(|(part, ns)| (part.to_owned(), ns.into()));
                parts.collect::<serde_json::Map<_, _>>()
            });
            json!({
                "size_bytes": size.bytes(),
                "parts_mean_ns": parts,
                "application": times(size, Of::Application),
                "device": times(size, Of::Device),
            })
        };
        let claims = self.all_claims();
        let claims = claims.iter().map(|Claim { claim, verdict, why }| {
            json!({ "claim": claim, "reproduced": verdict.reproduced(), "why": why })
        });
        json!({
            "writer": self.who,
            "beside": self.beside(),
            "sizes": self.sizes.iter().map(size).collect::<Vec<_>>(),
            "claims": claims.collect::<Vec<_>>(),
        })
    }
}
