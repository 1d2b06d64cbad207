use super::*;

#[test]
fn an_invalid_index_yields_no_record() {
    let index = |word| Id::<Thread>::new(word).map(Id::index);
    assert_eq!([index(0), index(1), index(4095)], [None, Some(1), Some(4095)]);
    assert_eq!([index(4096), index(u64::MAX), index(1 << 32 | 1)], [None; 3]);
    assert_eq!(format!("{:?}", Id::<Thread>::new(7).expect("an index")), "#7");
}

#[test]
fn rows_of_a_table_do_not_overlap() {
    let owner = |slot| Id::<Process>::new(slot).expect("a slot");
    let last = PROCESSES as u64 - 1;
    assert_eq!(handle_word(owner(1), 0), HANDLES_AT + HANDLES);
    assert_eq!(handle_word(owner(last), HANDLES as u64 - 1), STARTS_AT - 1);
    assert_eq!(start_word(owner(1), 0), STARTS_AT + STARTS);
    assert_eq!(start_word(owner(1), 16), STARTS_AT + STARTS + 2);
    assert_eq!(start_word(owner(last), AREA_BYTES as u64 - 8), TABLES_AT - 1);
    assert_eq!(handle_word(owner(1), HANDLES as u64), usize::MAX);
    assert_eq!(start_word(owner(1), AREA_BYTES as u64), usize::MAX);
    let buckets = (0..100_000).map(|ptr| node_bucket(owner(1), ptr * 16));
    let (mut least, mut most) = (usize::MAX, 0);
    for bucket in buckets {
        (least, most) = (least.min(bucket), most.max(bucket));
    }
    assert!((NODE_HASH_AT..NODE_HASH_AT + 100).contains(&least), "{least}");
    assert!((HANDLES_AT - 100..HANDLES_AT).contains(&most), "{most}");
    assert_ne!(node_bucket(owner(1), 1), node_bucket(owner(2), 1));
}

#[test]
fn records_are_contiguous() {
    let id = |index| Id::<Work>::new(index).expect("an index");
    assert_eq!(id(1).words(), Work::AT + Work::WORDS..Work::AT + 2 * Work::WORDS);
    assert_eq!(id(Work::COUNT as u64 - 1).words().end, CONTROL_WORDS);
    assert_eq!(work::NEXT.of(id(1)), id(1).words().start + work::NEXT.word);
}
