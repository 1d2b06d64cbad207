use std::path::Path;

use roundtrip_layers::reasons::{ReasonKind, Subject};
use roundtrip_run::Run;
use serde_json::Value;

use super::*;

const RUN: &str = "../../fixtures/runs/x86_64-6.18-observed-writes";

fn number(of: &Value) -> u64 {
    of.as_u64().unwrap()
}

/// The rows without their predictions, which a run stores for the first ones only.
fn sums(of: &Across) -> Vec<(ReasonKind, Subject, u64, u64, u64)> {
    let rows = of.rows().into_iter();
    rows.map(|row| (row.kind, row.subject.clone(), row.operations, row.lost_ns, row.worst_ns)).collect()
}

#[test]
fn a_runs_slow_writes_have_one_sentence_in_all_formats_and_reasons_that_add_up() {
    let run = Run::read(Path::new(RUN)).unwrap();
    let analysed = Analysed::read(&run, Path::new(RUN), 5);
    let all = of(&analysed);
    let found = causes(&analysed, &all);
    let left = without(&analysed, &found);
    let summed = || Summed { causes: &found, left: &left, over_limit: Some(5) };
    let said = text(&all, summed(), None, Look::PLAIN);
    assert!(said.contains("What fixing one cause would leave, in as many writes again"), "{said}");
    assert!(said.ends_with("Not explained: 5 more slow writes, which were not kept.\n"), "{said}");
    let mut observed = run.results.observed_writes.clone().unwrap();
    observed.over_limit = 7;
    observed.causes = Some(roundtrip_analysis::causes::stored(&found, &crate::explanation::thing));
    let stored = Run::new(run.environment.clone(), observed.into(), None);
    let stored = Analysed::read(&stored, Path::new(RUN), 5);
    assert_eq!(sums(&causes(&stored, &all)), sums(&found), "a run stores the same");
    assert_eq!(without(&stored, &causes(&stored, &all)), left);
    assert!(
        said.starts_with("7 writes were slow, 2 of them recorded; ")
            && said.contains("\nSlow write 2: python3 ("),
        "{said}"
    );
    let json = crate::explanation::json::writes_json(&stored, &all, None).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["writes"]["over_limit"], 7);
    let lost: u64 =
        json["writes"]["causes"].as_array().unwrap().iter().map(|one| &one["lost_ns"]).map(number).sum();
    assert_eq!(lost, found.lost_ns());
    let first = &json["writes"]["without"][0];
    assert_eq!(first["worst_ns"]["estimate"], left[0].worst_ns.estimate);
    assert!(json["writes"]["causes"][0]["without"].is_null());
    let [csv, markdown] = [csv(&all, None), markdown(&all, None)];
    for (write, slow) in json["writes"]["slow_writes"].as_array().unwrap().iter().zip(&all) {
        let verdict = write["verdict"].as_str().unwrap();
        for (text, format) in [(&said, "text"), (&csv, "CSV"), (&markdown, "Markdown")] {
            assert!(text.contains(verdict), "{format}: {verdict} in {text}");
        }
        let sum = |of: &Value| {
            of.as_array().unwrap().iter().map(|one| one["time_ns"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(sum(&write["reasons"]), slow.latency_ns());
        for reason in write["reasons"].as_array().unwrap() {
            assert_eq!(sum(&reason["processes"]), reason["time_ns"].as_u64().unwrap());
        }
    }
    insta::assert_snapshot!(text(&all, summed(), Some(1), Look::PLAIN));
    let shown: Vec<&SlowWrite<'_>> = chosen(&all, Some(2)).collect();
    let tracks = tracks(&shown);
    assert_eq!(
        tracks.iter().map(|track| track.name.as_str()).collect::<Vec<_>>(),
        ["slow writes", "why they did not move"]
    );
    let whole = &tracks[0].slices[0];
    assert_eq!(
        (whole.name.as_str(), whole.begin_ns, whole.end_ns),
        ("slow write 2", all[1].write.start_ns, all[1].write.end_ns)
    );
}
