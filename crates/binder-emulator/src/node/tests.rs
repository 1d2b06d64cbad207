use super::*;
use crate::lock::Scratch;
use crate::region::Region;

#[test]
fn nodes_in_one_bucket_are_distinguished() {
    let region = Region::create().expect("memory");
    let mut scratch = Scratch::default();
    let mut guard = Guard::lock(&region, &mut scratch);
    let owner = Id::<Process>::new(3).expect("a slot");
    let first = 0x10;
    let same_bucket = |&ptr: &u64| node_bucket(owner, ptr) == node_bucket(owner, first);
    let second = (first + 1..).find(same_bucket).expect("more numbers than buckets");
    let object = FlatBinderObject { binder: first, ..Default::default() };
    let node = guard.new_node(owner, &object).expect("room");
    assert_eq!(guard.find_node(owner, first), Some(node));
    assert_eq!(guard.find_node(owner, second), None);
    let stranger = Id::<Process>::new(4).expect("a slot");
    assert_eq!(guard.find_node(stranger, first), None);
}
