//! Tests of the slices that we add to a trace: their duration, legs and parts.

use super::events::one_of_each;
use super::*;

/// Tracks below each kind of parent, with slices that touch, overlap, or have no duration.
fn awkward_tracks() -> [Track; 5] {
    let slice =
        |name: &str, begin_ns, end_ns| Slice { name: name.into(), begin_ns, end_ns, ..Slice::default() };
    let linked = |name: &str, begin_ns, end_ns| Slice { flows: vec![9], ..slice(name, begin_ns, end_ns) };
    let annotated = Slice {
        annotations: vec![
            Annotation::text("behind", "hog"),
            Annotation::uint("deadline_ns", 2_500_000u32),
            Annotation { name: "priority", value: Value::Int(-3) },
        ],
        ..slice("round trip", 1_000, 1_700)
    };
    [
        Track {
            name: "pair 0".into(),
            parent: Parent::Top,
            // Parts within the whole: one of zero duration, and one right after another.
            slices: vec![
                slice("reply", 1_500, 1_700),
                annotated,
                slice("nothing", 1_500, 1_500),
                slice("request", 1_000, 1_300),
                slice("handling", 1_300, 1_500),
                slice("round trip", 1_700, 1_800),
            ],
        },
        Track { name: "why".into(), parent: Parent::Track(0), slices: vec![slice("a", 1_000, 1_500)] },
        // Overlapping, but not nested.
        Track {
            name: "calls".into(),
            parent: Parent::Thread { pid: 100, tid: 101 },
            slices: vec![slice("x", 1_100, 1_400), slice("y", 1_200, 1_600), slice("z", 1_300, 1_700)],
        },
        Track {
            name: "server".into(),
            parent: Parent::Process(200),
            slices: vec![linked("in", 1_300, 1_500)],
        },
        Track {
            name: "client".into(),
            parent: Parent::Process(100),
            slices: vec![linked("out", 1_250, 1_280)],
        },
    ]
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn slices_keep_their_length_on_every_kind_of_track() {
    let made = one_of_each();
    let tracks = awkward_tracks();
    let of = |track: &str| {
        format!(
            "select slice.name, slice.ts, slice.dur, depth from slice join track t on t.id = track_id \
             where t.name = '{track}' order by slice.ts, depth, slice.dur desc"
        )
    };
    let queries = [
        COMPLAINTS.to_owned(),
        of("pair 0"),
        of("why"),
        of("calls"),
        "select t.name, p.name from track t left join track p on p.id = t.parent_id where t.name in ('why', 'calls') \
         order by 1"
            .into(),
        "select key, display_value from slice join args using (arg_set_id) where slice.name = 'round trip' order by 1".into(),
        "select o.name, i.name from flow join slice o on o.id = slice_out join slice i on i.id = slice_in \
         where o.name = 'out'"
            .into(),
        "select t.name, pid, process.name from process_track t join process using (upid) where t.name in ('server', 'client') \
         order by 1"
            .into(),
        "select t.name, tid from thread_track t join thread using (utid) where t.name = 'calls'".into(),
    ];
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let rows = ask_modern("slices", &made, &tracks, &queries);
    assert_eq!(rows[0], json!([]));
    assert_eq!(
        rows[1],
        json!([
            ["round trip", 1000, 700, 0],
            ["request", 1000, 300, 1],
            ["handling", 1300, 200, 1],
            ["reply", 1500, 200, 1],
            ["nothing", 1500, 0, 2],
            ["round trip", 1700, 100, 0]
        ])
    );
    assert_eq!(rows[2], json!([["a", 1000, 500, 0]]));
    assert_eq!(rows[3], json!([["x", 1100, 300, 0], ["y", 1200, 400, 0], ["z", 1300, 400, 0]]));
    assert_eq!(rows[4], json!([["calls", null], ["calls", null], ["calls", null], ["why", "pair 0"]]));
    for fact in [["debug.behind", "hog"], ["debug.deadline_ns", "2500000"], ["debug.priority", "-3"]] {
        assert!(rows[5].as_array().expect("rows").contains(&json!(fact)), "{fact:?}: {}", rows[5]);
    }
    assert_eq!(rows[6], json!([["out", "in"]]));
    assert_eq!(rows[7], json!([["client", 100, null], ["server", 200, "the server"]]));
    assert_eq!(rows[8], json!([["calls", 101], ["calls", 101], ["calls", 101]]));
}

#[test]
#[ignore = "needs Perfetto's trace processor: cargo xtask perfetto"]
fn an_explained_call_has_its_legs_and_parts() {
    use crate::explanation::tracks::{tests, tracks};
    let made = one_of_each();
    let call = tests::call(1_300, 1_500);
    let explained = tests::explained(&call, &made.0);
    let parts = &explained.explanation.parts;
    assert!(parts.len() > 1, "{parts:?}");
    let parts: Vec<Json> = parts.iter().map(|part| json!([part.begin_ns, part.duration_ns()])).collect();
    let expected = [
        (COMPLAINTS, json!([])),
        (
            "select slice.name, slice.ts, slice.dur from slice join track t on t.id = track_id \
             where t.name = 'hwbinder, pair P0' order by slice.ts, slice.dur desc",
            json!([
                ["slow call 3", 1000, 700],
                ["request", 1000, 300],
                ["handling", 1300, 200],
                ["reply", 1500, 200],
                ["round trip", 1700, 100],
                ["request", 1700, 20],
                ["handling", 1720, 30],
                ["reply", 1750, 50]
            ]),
        ),
        (
            "select slice.ts, slice.dur from slice join track t on t.id = track_id \
             where t.name = 'explanation' and depth = 0 order by slice.ts",
            json!(parts),
        ),
        (
            "select tid, slice.ts, slice.dur from slice join thread_track t on t.id = track_id \
             join thread using (utid) where t.name = 'slow calls' order by slice.ts",
            json!([[101, 1000, 700], [201, 1300, 200]]),
        ),
    ];
    let queries: Vec<&str> = expected.iter().map(|(query, _)| *query).collect();
    let rows = ask_modern("explained", &made, &tracks(&[explained], &[tests::calls(&call)]), &queries);
    for ((query, expected), rows) in expected.iter().zip(&rows) {
        assert_eq!(rows, expected, "{query}");
    }
}
