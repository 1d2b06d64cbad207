use super::*;

#[test]
fn a_part_behind_another_thread_names_both() {
    let thread = |tid| Thread { tid, pid: Some(1), comm: format!("thread-{tid}"), prio: Some(120) };
    for (state, name) in [
        (State::HandOver { thread: thread(7) }, "hand_over"),
        (State::Behind { thread: thread(7) }, "behind"),
        (State::Preempted { thread: thread(7) }, "preempted"),
    ] {
        let part = Part {
            begin_ns: 1,
            end_ns: 2,
            owner: Owner::Server,
            thread: Some(thread(3)),
            cpu: Some(0),
            state,
            because: Vec::new(),
        };
        let stored = roundtrip_stored::to_text(&PartJson::from(&part)).expect("a part is valid JSON");
        let read: serde_json::Value = serde_json::from_str(&stored).expect("and read");
        assert_eq!((&read["state"], &read["thread"]["tid"]), (&name.into(), &3.into()), "{stored}");
        assert_eq!(read["other"]["comm"], "thread-7");
    }
}
